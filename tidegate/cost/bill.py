"""The bill of a traffic: how many requests, invocations and jobs it causes in a month, times their prices.

The requests of an upload, a notice, a batch and an idle minute are counted (`tidegate.cost.counted`). How many notices
and batches a traffic makes follows from what gathers them: Lambda's window before intake, `max_wait` before a job
starts, and a worker that waits (`core.workers`). What is left is assumed, and stands here with its name.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from tidegate.core.workers import ALWAYS, HANDOVER, LONGEST, MOST_TAKEN, STAY
from tidegate.cost.counted import IDLE_MINUTE, OPEN_MINUTE, PER_BATCH, PER_NOTICE, PER_UPLOAD, WORKER_MINUTE
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
DRIVER_VCPU, DRIVER_GB = 1, 4
EXECUTOR_VCPU, EXECUTOR_GB = 4, 16
DRIVER_READS_BYTES, DRIVER_READS_OBJECTS = 8e6, 1_000
"""Of a batch that the driver reads itself, at most."""
ALARMS, METRICS = 20, 36
"""With one route, without `expect_every`. Every metric counts, as if each were written all month; some are rare."""
CLAIM_BYTES, CLAIM_DAYS = 300, 60

# ---- assumed
CALL_SECONDS = 0.01
"""Assumed: the duration of a call to AWS. A function does little but wait for such calls."""
JOB_SECONDS = 120.0
"""Assumed: how long Spark keeps the driver and the executor of a job that makes one small batch and ends."""
BATCH_SECONDS = 2.5
"""Assumed: from a notice to the rows, if a worker waits. Measured on a laptop (docs/performance.md, Latency)."""
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
    """How a route gathers: `max_wait` in seconds, and what makes a batch full. `stay`: for how long a worker waits."""

    max_wait: float = 60
    target_objects: float = 100_000
    target_bytes: float = 256e6
    stay: float = STAY


@dataclass(frozen=True, slots=True)
class Spark:
    """A day of jobs: `starts` of them, `batches` that they make, and for how many seconds `drivers` and `executors` are
    billed. A worker waits for `waiting` seconds of it."""

    starts: float = 0.0
    batches: float = 0.0
    drivers: float = 0.0
    executors: float = 0.0
    waiting: float = 0.0

    def __mul__(self, times: float) -> "Spark":
        return Spark(*(getattr(self, each.name) * times for each in fields(self)))


@dataclass(frozen=True, slots=True)
class BillLine:
    """`quantity` is a month's, in the unit of the price of this name."""

    name: str
    quantity: float
    dollars: float


@dataclass(frozen=True, slots=True)
class Bill:
    """A month. `jobs` are the job starts in it."""

    title: str
    uploads: float
    jobs: float
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


def spark(traffic: DailyTraffic, gathering: Gathering) -> Spark:
    """A worker is started for a batch that has gathered for `max_wait`, and takes what comes, until nothing came for
    `stay` that would have needed a start in that time."""
    if not traffic.per_day:
        always = gathering.stay >= ALWAYS
        return _always(math.inf, 0.0) if always else Spark()
    rate, read = traffic.rate, reading(traffic.per_day, traffic.size)
    # a batch that is full waits no longer
    full = max(traffic.per_day / gathering.target_objects, traffic.per_day * traffic.size / gathering.target_bytes)
    wait = min(gathering.max_wait, DAY / full)
    # each notice is a batch, unless the worker is busy
    apart = _apart(traffic, max(1 / rate + intake_window(gathering.max_wait), BATCH_SECONDS))
    if gathering.stay >= ALWAYS:
        found = _always(apart, read)
    else:
        stays = _stays(rate, wait, gathering.stay, apart)
        gathers = 1 / rate + wait
        job = JOB_STARTS_AFTER + JOB_SECONDS
        cycle = gathers + job + stays if stays else _apart(traffic, gathers, job)
        starts = min(traffic.per_day, DAY / cycle if stays else max(DAY / cycle, full))
        waiting = starts * stays
        # what comes while it starts is the second
        batches = starts * (1 + bool(stays) * min(1, rate * job) + stays / apart)
        found = Spark(starts, batches, starts * JOB_SECONDS + waiting, starts * JOB_SECONDS, waiting)
    batches = min(traffic.per_day, max(found.batches, full))
    small = _by_driver(traffic.per_day / batches, traffic.size)
    # who reads is billed for it, and so is the driver that waits for executors
    busy = max(0.0, read - found.waiting) if small else read / EXECUTOR_VCPU
    executing, further = 0.0 if small else busy, batches - found.starts
    if further > 0 and not _by_driver(rate * apart, traffic.size):
        # executors that a further batch needs are billed for a minute at least; the first one's are in `JOB_SECONDS`
        executing = max(executing, min(DAY, busy + further * LEAST_BILLED))
    return replace(found, batches=batches, drivers=found.drivers + busy, executors=found.executors + executing)


def _by_driver(uploads: float, size: float) -> bool:
    """Whether the driver reads a batch of so many uploads itself."""
    return uploads <= DRIVER_READS_OBJECTS and uploads * size <= DRIVER_READS_BYTES


def _always(apart: float, read: float) -> Spark:
    starts = DAY / min(LONGEST, MOST_TAKEN * apart)
    drivers = max(DAY, read / EXECUTOR_VCPU) + starts * HANDOVER
    batches = 0.0 if apart == math.inf else DAY / apart
    return Spark(starts, batches, drivers, starts * JOB_SECONDS, DAY)


def _apart(traffic: DailyTraffic, least: float, starting: float = 0.0) -> float:
    """Seconds from a batch to the next one, `least` at least. It takes longer, after `starting`, if there is more to
    read, and then the next one finds more: the interval is where that rests."""
    apart = max(1 / traffic.rate, least)
    for _ in range(50):
        apart = max(least, min(starting + reading(traffic.rate * apart, traffic.size) / EXECUTOR_VCPU, DAY))
    return max(1 / traffic.rate, apart)


def _stays(rate: float, wait: float, stay: float, apart: float) -> float:
    """Seconds for which a worker is there after its first batch, if batches gather for `wait`."""
    if wait > stay:
        return stay  # what it takes meanwhile would have needed no worker yet
    # uploads come at random: the mean time until none has come for `stay`
    quiet = (math.exp(min(rate * stay, 50.0)) - 1) / rate
    return min(quiet, LONGEST, MOST_TAKEN * apart)


def reading(uploads: float, size: float) -> float:
    """Seconds for which one core reads so many uploads."""
    return uploads * (FILE_SECONDS + size / CORE_BYTES)


def job_of_its_own(jobs: float, uploads: float, size: float) -> Spark:
    """So many jobs that make one attempt each and end."""
    seconds = jobs * max(LEAST_BILLED, JOB_SECONDS + reading(uploads, size) / EXECUTOR_VCPU)
    return Spark(jobs, jobs, seconds, seconds)


def break_even() -> float:
    """Seconds for which a driver that waits costs as much as the start that it saves."""
    return (
        JOB_SECONDS
        * _worker_hour(DRIVER_VCPU + EXECUTOR_VCPU, DRIVER_GB + EXECUTOR_GB)
        / _worker_hour(DRIVER_VCPU, DRIVER_GB)
    )


def _worker_hour(vcpu: float, gigabytes: float) -> float:
    return PRICES["EMR Serverless, vCPU"].of(vcpu) + PRICES["EMR Serverless, memory"].of(gigabytes)


def requests(traffic: DailyTraffic, gathering: Gathering) -> RequestCounts:
    """What Tidegate asks AWS for in a day, with one route."""
    uploads, jobs = traffic.per_day, spark(traffic, gathering)
    batches = jobs.batches
    together = in_a_window(traffic.rate, gathering.max_wait)
    notices = uploads / together
    counted = PER_UPLOAD * uploads + PER_NOTICE * notices + PER_BATCH * batches + IDLE_MINUTE * (DAY / 60)
    # one batch is open at a time, and its first minute is counted with it
    minutes = min(jobs.starts * gathering.max_wait, DAY) / 60 - jobs.starts
    counted += OPEN_MINUTE * max(0.0, minutes) + WORKER_MINUTE * (jobs.waiting / 60)
    # Lambda receives and deletes ten messages at a time, and a long message counts as several
    more_polls = 2 * (max(1.0, together / SQS_MESSAGES) - 1) * notices
    more_chunks = (max(1.0, together * ENTRY_BYTES / SQS_CHUNK) - 1) * notices
    more_claims = (max(1.0, together / CLAIMS_IN_A_REQUEST) - 1) * notices
    return replace(
        counted,
        starts=jobs.starts,
        calls=counted.calls + more_claims,
        sqs_standard=counted.sqs_standard + more_polls,
        sqs_fifo=counted.sqs_fifo + more_chunks,
        sns_fifo=counted.sns_fifo + more_chunks,
    )


# ---- bills


def bill(traffic: DailyTraffic, gathering: Gathering) -> Bill:
    """Tidegate's, with what costs by the month whether anything is uploaded or not."""
    jobs = spark(traffic, gathering) * DAYS
    used = requests(traffic, gathering) * DAYS
    idle = POLLERS * DAYS * DAY / LONG_POLL
    quantities = quantities_of(used, jobs)
    quantities["SQS, standard"] += idle
    quantities["SQS, FIFO"] += idle
    quantities["DynamoDB, storage"] = traffic.per_day * CLAIM_DAYS * CLAIM_BYTES / 1e9
    quantities["CloudWatch, metrics"] = METRICS
    quantities["CloudWatch, alarms"] = ALARMS
    return _bill("Tidegate", traffic, jobs.starts, quantities)


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
    title = "a job for each file" if messages == 1 else f"a job for each {messages} files"
    jobs = job_of_its_own(invocations, messages, traffic.size)
    return _bill(title, traffic, invocations, quantities_of(used, jobs))


def floor(traffic: DailyTraffic) -> Bill:
    """What no pipeline of S3, SQS and DynamoDB that remembers every upload can go below: the notification, and one
    write unit. And the file is read."""
    uploads = traffic.per_day * DAYS
    quantities = {"SQS, standard": uploads, "DynamoDB, writes": uploads, "S3, gets": uploads}
    return _bill("the floor", traffic, 0, quantities)


def quantities_of(used: RequestCounts, jobs: Spark) -> dict[str, float]:
    """What is paid for, in the units of the prices: requests, and drivers and executors."""
    return {
        "SQS, standard": used.sqs_standard,
        "SQS, FIFO": used.sqs_fifo,
        "SNS, FIFO": used.sns_fifo,
        "Lambda, invocations": used.invocations,
        "Lambda, time": used.calls * CALL_SECONDS * LAMBDA_GB,
        "DynamoDB, writes": used.write_units,
        "DynamoDB, reads": used.read_units,
        "S3, puts and listings": used.s3_puts + TABLE_PUTS * jobs.batches,
        "S3, gets": used.s3_gets,
        "EMR Serverless, vCPU": (jobs.drivers * DRIVER_VCPU + jobs.executors * EXECUTOR_VCPU) / 3_600,
        "EMR Serverless, memory": (jobs.drivers * DRIVER_GB + jobs.executors * EXECUTOR_GB) / 3_600,
    }


def _bill(title: str, traffic: DailyTraffic, jobs: float, quantities: Mapping[str, float]) -> Bill:
    lines = tuple(
        BillLine(name, quantities[name], price.of(quantities[name]))
        for name, price in PRICES.items()
        if quantities.get(name)
    )
    return Bill(title, traffic.per_day * DAYS, jobs, lines)


# ---- how long to wait

WAITS = (60, 120, 300, 900, 1_800, 3_600, 14_400)
WORTH = 0.1
"""The share of the bill that a longer wait has to save."""


@dataclass(frozen=True, slots=True)
class WaitCost:
    """One `stay` and `max_wait`: what a month costs with them, and how long an upload waits before its rows are
    visible: on average, and at most."""

    stay: float
    max_wait: float
    jobs: float
    spark: float
    dollars: float
    usual_wait: float
    longest_wait: float
    knee: bool = False


def waits(traffic: DailyTraffic, gathering: Gathering, choices: Sequence[float] = WAITS) -> list[WaitCost]:
    """The table: a worker that is always there, then each wait with the `stay` that is given, else the default. The
    knee is the shortest wait from which on no step saves `WORTH` of what it comes from."""
    stay = STAY if gathering.stay >= ALWAYS else gathering.stay
    gatherings = [replace(gathering, max_wait=wait, stay=stay) for wait in sorted({*choices, gathering.max_wait})]
    found = [_wait(traffic, each) for each in (replace(gathering, stay=ALWAYS), *gatherings)]
    knee = len(found) - 1
    while knee and found[knee - 1].dollars - found[knee].dollars < WORTH * found[knee - 1].dollars:
        knee -= 1
    found[knee] = replace(found[knee], knee=True)
    return found


def _wait(traffic: DailyTraffic, gathering: Gathering) -> WaitCost:
    made, jobs = bill(traffic, gathering), spark(traffic, gathering)
    window = intake_window(gathering.max_wait)
    apart = DAY / jobs.batches if jobs.batches else gathering.max_wait
    # while a worker waits, a batch gathers for the window of intake, or while the one before it is made
    there = window + BATCH_SECONDS
    busy = min(apart, reading(traffic.rate * apart, traffic.size) / EXECUTOR_VCPU)
    warm, warm_longest = there / 2 + BATCH_SECONDS / 2 + busy, there + 2 * busy
    # the first upload of a batch waits for as long as the batch gathers, the last one not at all
    job = JOB_STARTS_AFTER + JOB_SECONDS + busy
    gathered = min(apart, max(gathering.max_wait, job)) if not jobs.waiting else gathering.max_wait
    share = jobs.waiting / DAY
    usual, longest = share * warm + (1 - share) * (gathered / 2 + job), gathered + job
    if gathering.stay >= ALWAYS:
        longest = warm_longest
    return WaitCost(gathering.stay, gathering.max_wait, made.jobs, made.of("EMR"), made.dollars, usual, longest)


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
