"""The bill of a traffic: how many requests, invocations and jobs it causes in a month, times their prices.

The requests of an upload, a notice, a batch and an idle minute are counted (`tidegate.cost.counted`). How many notices
and batches a traffic makes follows from what gathers them: Lambda's window before intake, and `max_wait` before a job.
What is left is assumed, and stands here with its name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.cost.counted import IDLE_MINUTE, OPEN_MINUTE, PER_BATCH, PER_NOTICE, PER_UPLOAD
from tidegate.cost.prices import PRICES
from tidegate.cost.requests import RequestCounts
from tidegate.schedule import intake_window

DAY = 24 * 60 * 60
DAYS = 30
"""A month."""

# ---- of the stack: tests compare these with the template
MOST_IN_A_WINDOW = 1_000
SQS_MESSAGES = 10
"""Messages that a receive or a delete takes."""
CLAIMS_IN_A_REQUEST = 25
SQS_CHUNK = 64_000
"""Bytes of a message that count as one request (https://aws.amazon.com/sqs/pricing/)."""
ENTRY_BYTES = 130
"""Of one upload in a notice; a key of 60 characters."""
LAMBDA_GB = 1.0
JOB_VCPU, JOB_GB = 6, 24
"""Of the smallest job: a driver and one executor."""
EXECUTOR_VCPU = 4
ALARMS, METRICS = 20, 36
"""With one route, without `expect_every`. Every metric counts, as if each were written all month; some are rare."""
CLAIM_BYTES, CLAIM_DAYS = 300, 60

# ---- assumed
CALL_SECONDS = 0.01
"""Assumed: the duration of a call to AWS. A function does little but wait for such calls."""
JOB_SECONDS = 120.0
"""Assumed: how long Spark keeps the workers of a small job, with the seconds for which it waits for another batch."""
JOB_STARTS_AFTER = 40.0
"""Assumed: seconds from StartJobRun to the driver, which nobody pays for."""
LEAST_BILLED = 60.0
"""Seconds: a worker that ran for less is billed for a minute (https://aws.amazon.com/emr/pricing/)."""
TABLE_PUTS = 8
"""Assumed: files that Iceberg writes for a small batch: data, manifests, manifest lists and metadata of two commits."""
FILE_SECONDS = 0.002
"""Assumed: what one core takes for a small file."""
CORE_BYTES = 25e6
"""Assumed: bytes of a file that one core reads in a second."""
POLLERS, LONG_POLL = 5, 20
"""Lambda's pollers on an idle queue, each with a receive that waits for so many seconds
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html)."""
IDEMPOTENCY_WRITES = 2
"""Of a record that is put as begun and updated as done."""


@dataclass(frozen=True, slots=True)
class DailyTraffic:
    """Uploads a day, each of `size` bytes, evenly at random over the day."""

    per_day: float
    size: float

    @property
    def rate(self) -> float:
        """Uploads a second."""
        return self.per_day / DAY


@dataclass(frozen=True, slots=True)
class Gathering:
    """How a route gathers: `max_wait` in seconds, and what makes a batch full."""

    max_wait: float = 60
    target_objects: float = 100_000
    target_bytes: float = 256e6


@dataclass(frozen=True, slots=True)
class BillLine:
    """`quantity` is a month's, in the unit of the price of this name."""

    name: str
    quantity: float
    dollars: float


@dataclass(frozen=True, slots=True)
class Bill:
    """A month. `jobs` are the job starts in it, `job_seconds` how long the workers of one are billed."""

    title: str
    uploads: float
    jobs: float
    job_seconds: float
    lines: tuple[BillLine, ...]

    @property
    def dollars(self) -> float:
        return sum(line.dollars for line in self.lines)

    def of(self, service: str) -> float:
        """The dollars of the lines that begin with this word."""
        return sum(line.dollars for line in self.lines if line.name.startswith(service))


# ---- how much there is to do


def in_a_window(rate: float, max_wait: float) -> float:
    """How many uploads an invocation of intake gets: the one that opens the window, and those that come in it."""
    return min(MOST_IN_A_WINDOW, 1 + rate * intake_window(max_wait))


def batches_a_day(traffic: DailyTraffic, gathering: Gathering) -> float:
    """A batch begins with an upload and gathers for `max_wait`, or until the job before it has ended, or until it is
    full. A job takes longer if it reads more, and then the next one finds more: the interval is where that rests."""
    if not traffic.per_day:
        return 0.0
    interval = 1 / traffic.rate + gathering.max_wait
    for _ in range(50):
        busy = JOB_STARTS_AFTER + job_seconds(traffic.rate * interval, traffic.size)
        interval = max(1 / traffic.rate + gathering.max_wait, min(busy, DAY))
    full = max(traffic.per_day / gathering.target_objects, traffic.per_day * traffic.size / gathering.target_bytes)
    return min(traffic.per_day, max(DAY / interval, full))


def job_seconds(uploads: float, size: float) -> float:
    """How long a job of so many uploads keeps its workers, if no further batch follows."""
    return max(LEAST_BILLED, JOB_SECONDS + uploads * (FILE_SECONDS + size / CORE_BYTES) / EXECUTOR_VCPU)


def requests(traffic: DailyTraffic, gathering: Gathering) -> RequestCounts:
    """What Tidegate asks AWS for in a day, with one route."""
    uploads, batches = traffic.per_day, batches_a_day(traffic, gathering)
    together = in_a_window(traffic.rate, gathering.max_wait)
    notices = uploads / together
    counted = PER_UPLOAD * uploads + PER_NOTICE * notices + PER_BATCH * batches + IDLE_MINUTE * (DAY / 60)
    # one batch is open at a time, and its first minute is counted with it
    minutes = min(batches * gathering.max_wait, DAY) / 60 - batches
    counted += OPEN_MINUTE * max(0.0, minutes)
    # Lambda receives and deletes ten messages at a time, and a long message counts as several
    more_polls = 2 * (max(1.0, together / SQS_MESSAGES) - 1) * notices
    more_chunks = (max(1.0, together * ENTRY_BYTES / SQS_CHUNK) - 1) * notices
    more_claims = (max(1.0, together / CLAIMS_IN_A_REQUEST) - 1) * notices
    return replace(
        counted,
        calls=counted.calls + more_claims,
        sqs_standard=counted.sqs_standard + more_polls,
        sqs_fifo=counted.sqs_fifo + more_chunks,
        sns_fifo=counted.sns_fifo + more_chunks,
    )


# ---- bills


def bill(traffic: DailyTraffic, gathering: Gathering) -> Bill:
    """Tidegate's, with what costs by the month whether anything is uploaded or not."""
    batches = batches_a_day(traffic, gathering)
    each = job_seconds(traffic.per_day / batches, traffic.size) if batches else 0.0
    used = requests(traffic, gathering) * DAYS
    idle = POLLERS * DAYS * DAY / LONG_POLL
    quantities = quantities_of(used, batches * DAYS, each)
    quantities["SQS, standard"] += idle
    quantities["SQS, FIFO"] += idle
    quantities["DynamoDB, storage"] = traffic.per_day * CLAIM_DAYS * CLAIM_BYTES / 1e9
    quantities["CloudWatch, metrics"] = METRICS
    quantities["CloudWatch, alarms"] = ALARMS
    return _bill("Tidegate", traffic, batches * DAYS, each, quantities)


def usual(traffic: DailyTraffic, messages: int) -> Bill:
    """The usual pipeline: a function for so many messages, an idempotency record for each, and a job for the files of
    an invocation. The files are read once, by a job of the same size."""
    uploads = traffic.per_day * DAYS
    invocations = uploads / messages
    used = RequestCounts(
        write_units=IDEMPOTENCY_WRITES * uploads,
        s3_gets=uploads,
        sqs_standard=uploads + 2 * invocations,
        invocations=invocations,
        calls=IDEMPOTENCY_WRITES * uploads + invocations,
        starts=invocations,
    )
    each = job_seconds(messages, traffic.size)
    title = "a job for each file" if messages == 1 else f"a job for each {messages} files"
    return _bill(title, traffic, invocations, each, quantities_of(used, invocations, each))


def floor(traffic: DailyTraffic) -> Bill:
    """What no pipeline of S3, SQS and DynamoDB that remembers every upload can go below: the notification, and one
    write unit. And the file is read."""
    uploads = traffic.per_day * DAYS
    quantities = {"SQS, standard": uploads, "DynamoDB, writes": uploads, "S3, gets": uploads}
    return _bill("the floor", traffic, 0, 0, quantities)


def quantities_of(used: RequestCounts, jobs: float, seconds: float) -> dict[str, float]:
    """What is paid for, in the units of the prices: requests, and jobs whose workers are billed for so many seconds."""
    hours = jobs * seconds / 3_600
    return {
        "SQS, standard": used.sqs_standard,
        "SQS, FIFO": used.sqs_fifo,
        "SNS, FIFO": used.sns_fifo,
        "Lambda, invocations": used.invocations,
        "Lambda, time": used.calls * CALL_SECONDS * LAMBDA_GB,
        "DynamoDB, writes": used.write_units,
        "DynamoDB, reads": used.read_units,
        "S3, puts and listings": used.s3_puts + TABLE_PUTS * jobs,
        "S3, gets": used.s3_gets,
        "EMR Serverless, vCPU": hours * JOB_VCPU,
        "EMR Serverless, memory": hours * JOB_GB,
    }


def _bill(title: str, traffic: DailyTraffic, jobs: float, seconds: float, quantities: Mapping[str, float]) -> Bill:
    lines = tuple(
        BillLine(name, quantities[name], price.of(quantities[name]))
        for name, price in PRICES.items()
        if quantities.get(name)
    )
    return Bill(title, traffic.per_day * DAYS, jobs, seconds, lines)


# ---- how long to wait

WAITS = (60, 120, 300, 900, 1_800, 3_600, 14_400)
WORTH = 0.1
"""The share of the bill that a longer wait has to save."""


@dataclass(frozen=True, slots=True)
class WaitCost:
    """One `max_wait`: what a month costs with it, and how long an upload waits before its rows are visible: on average,
    and at most."""

    max_wait: float
    jobs: float
    spark: float
    dollars: float
    usual_wait: float
    longest_wait: float
    knee: bool = False


def waits(traffic: DailyTraffic, gathering: Gathering, choices: Sequence[float] = WAITS) -> list[WaitCost]:
    """The table. The knee is the shortest wait from which on no step saves `WORTH` of what it comes from."""
    found = list(_waits(traffic, gathering, sorted({*choices, gathering.max_wait})))
    knee = len(found) - 1
    while knee and found[knee - 1].dollars - found[knee].dollars < WORTH * found[knee - 1].dollars:
        knee -= 1
    found[knee] = replace(found[knee], knee=True)
    return found


def _waits(traffic: DailyTraffic, gathering: Gathering, choices: Sequence[float]) -> Iterator[WaitCost]:
    for wait in choices:
        made = bill(traffic, replace(gathering, max_wait=wait))
        job = JOB_STARTS_AFTER + made.job_seconds
        gathered = DAYS * DAY / made.jobs if made.jobs else wait
        # the first upload of a batch waits for as long as the batch gathers, the last one not at all
        spread = min(gathered, max(wait, job))
        yield WaitCost(wait, made.jobs, made.of("EMR"), made.dollars, spread / 2 + job, spread + job)


def as_dict(made: Bill, *, digits: int = 2) -> dict[str, object]:
    """For JSON, with so many digits of a dollar."""
    return {
        "title": made.title,
        "dollars": round(made.dollars, digits),
        "uploads": round(made.uploads),
        "jobs": round(made.jobs),
        "lines": [
            {"name": line.name, "quantity": line.quantity, "dollars": round(line.dollars, digits)}
            for line in made.lines
        ],
    }
