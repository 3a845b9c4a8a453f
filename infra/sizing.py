"""The numbers of the stack, and the relations between them that must hold. Times in seconds.

A number that follows from another is computed from it; the others, and what depends on `tidegate.toml`, are
checked before anything is built.
"""

from dataclasses import dataclass, replace

from tidegate.schedule import LEAST_WINDOW, intake_window
from tidegate.settings import DAY, HOUR, MINUTE, LimitSettings, RetentionSettings, Settings

VISIBILITY_FACTOR = 6
"""A queue must hide a message for six times the timeout of the function that reads it
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html), and for the batching window:
Lambda retries a throttled batch in that time, and a message that reappears is delivered twice."""

LAMBDA_LONGEST_TIMEOUT = 15 * MINUTE


class SizingError(Exception):
    """`tidegate.toml` is valid, but no stack built from it could keep its promises; the text says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """How a queue feeds a function. `window` is how long Lambda gathers a batch; FIFO queues allow none."""

    timeout: int
    batch_size: int
    receives: int
    window: int = 0

    @property
    def visibility(self) -> int:
        """How long a message stays hidden once it was handed to the function."""
        return VISIBILITY_FACTOR * self.timeout + self.window

    @property
    def patience(self) -> int:
        """How long a message that always fails is tried before it becomes a dead letter."""
        return self.receives * self.visibility


INTAKE = Source(timeout=MINUTE, batch_size=1_000, window=LEAST_WINDOW, receives=5)
"""With the shortest window; see `intake`."""
DISPATCH = Source(timeout=2 * MINUTE, batch_size=10, receives=5)
SETTLE_TIMEOUT = 2 * MINUTE
AUDIT_TIMEOUT = LAMBDA_LONGEST_TIMEOUT
MAINTAIN_TIMEOUT = 5 * MINUTE

HAND_OFF_REMEMBERED = 24 * HOUR
"""How long hand-off remembers that it started a job (`tidegate.aws.jobs.REMEMBER_SECONDS`)."""

MEMORY_MB = 1_024
ARCHIVE_DAYS = 14
UNFINISHED_UPLOAD_DAYS = 7
IDLE_MINUTES = 15
"""An idle application keeps no workers and costs nothing. A stopped one takes longer to start a job."""

WORKERS = {
    "spark.driver.cores": "2",
    "spark.driver.memory": "4g",
    "spark.driver.memoryOverhead": "4g",
    "spark.executor.cores": "4",
    "spark.executor.memory": "6g",
    "spark.executor.memoryOverhead": "10g",
    # it begins with the larger of the two, and EMR's default of either is 3
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.executor.instances": "1",
}
"""Python has the manifest and the decoded files, and its memory is the overhead. EMR's own defaults would start
16 vCPU for every job, which is the whole quota of a new account
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html)."""
MOST_JOBS = 1_000
"""The most that EMR runs at once
(https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_SchedulerConfiguration.html)."""
WORKER_DISK_GB = 20
"""EMR's default for a worker of either kind."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Resources of EMR Serverless: memory and disk in GB."""

    vcpu: int
    memory: int
    disk: int

    def __add__(self, other: "Capacity") -> "Capacity":
        return Capacity(self.vcpu + other.vcpu, self.memory + other.memory, self.disk + other.disk)

    def beside(self, other: "Capacity", times: int = 1) -> "Capacity":
        """What is left beside so many of the other."""
        return Capacity(
            self.vcpu - times * other.vcpu, self.memory - times * other.memory, self.disk - times * other.disk
        )

    def holds(self, other: "Capacity") -> int:
        """How many of the other fit."""
        return min(self.vcpu // other.vcpu, self.memory // other.memory, self.disk // other.disk)


def intake(settings: Settings) -> Source:
    """How the buffer feeds intake, with the window that its routes allow."""
    waits = [route.batch.max_wait for route in settings.routes if not route.retired]
    return replace(INTAKE, window=intake_window(min(waits, default=0)))


def worker(process: str) -> Capacity:
    """A driver, or an executor."""
    memory = (int(WORKERS[f"spark.{process}.{part}"].removesuffix("g")) for part in ("memory", "memoryOverhead"))
    return Capacity(vcpu=int(WORKERS[f"spark.{process}.cores"]), memory=sum(memory), disk=WORKER_DISK_GB)


def smallest_job() -> Capacity:
    """A driver and one executor: with less, a job would wait for ever."""
    return worker("driver") + worker("executor")


def capacity(limits: LimitSettings) -> Capacity:
    return Capacity(limits.vcpu, limits.memory_gb, limits.disk_gb)


def concurrent_jobs(limits: LimitSettings) -> int:
    """How many jobs EMR may run at once: the number of the settings, or as many as there is room for. The others queue.

    It does not depend on the routes: EMR changes an application only while it is stopped, and a route may be added at
    any time. There is always room for an executor beside the drivers; without it no job would end.
    """
    return limits.concurrent_jobs or min(capacity(limits).holds(smallest_job()), MOST_JOBS)


def most_executors(limits: LimitSettings) -> int:
    """How many executors one job may have: the rest, if every other job that may run has one; and 1 at least."""
    rest = capacity(limits).beside(smallest_job(), times=concurrent_jobs(limits) - 1).beside(worker("driver"))
    return max(1, rest.holds(worker("executor")))


def spark_workers(limits: LimitSettings) -> dict[str, str]:
    """Spark's properties for its workers. By default it requests executors without limit
    (https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-spark.html)."""
    return {**WORKERS, "spark.dynamicAllocation.maxExecutors": str(most_executors(limits))}


def archive_days(retention: RetentionSettings) -> int:
    """How long the topic keeps notices for a replay; 0 for no archive.

    A replayed notice passes through the queue and its dead letters again. The ledger must still have the claims of its
    uploads when it arrives. Otherwise their rows are in the table twice.
    """
    return max(0, min(ARCHIVE_DAYS, (retention.claims - retention.travel - 1) // DAY))


def check(settings: Settings) -> None:
    """Raises SizingError if some relation does not hold."""
    retention = settings.retention
    for name, source in (("intake", intake(settings)), ("dispatch", DISPATCH)):
        _require(
            source.patience < retention.messages,
            f"[retention] messages must be longer than {source.patience}s: {name} may try a message"
            f" {source.receives} times for {source.visibility} s each, and one that expires meanwhile never"
            " reaches the dead letters",
        )
    limits = settings.limits
    smallest = smallest_job()
    for name, given, needed in (
        ("vcpu", limits.vcpu, smallest.vcpu),
        ("memory_gb", limits.memory_gb, smallest.memory),
        ("disk_gb", limits.disk_gb, smallest.disk),
    ):
        _require(given >= needed, f"[limits] {name} must be {needed} at least: a driver and one executor need as much")
    most = capacity(limits).beside(worker("executor")).holds(worker("driver"))
    _require(
        concurrent_jobs(limits) <= most,
        f"[limits] concurrent_jobs may be {most} at most: the drivers of more jobs would leave no room for an executor,"
        " and all would wait for one",
    )
    _require(
        limits.queue_timeout + limits.job_timeout < HAND_OFF_REMEMBERED,
        "[limits] queue_timeout and job_timeout must be less than 24h together: that long a started job is remembered,"
        " and started a second time after it",
    )
    _require(
        retention.dead_letters > retention.messages,
        "[retention] dead_letters must be longer than `messages`: a dead letter's age counts from when it was"
        " first sent, so one that was tried for long would expire at once",
    )


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SizingError(otherwise)
