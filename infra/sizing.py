"""The numbers of the stack, and the relations between them that must hold. Times in seconds.

A number that follows from another is computed from it. That the others fit together, tests/infra/test_sizing.py checks.
"""

from dataclasses import dataclass, replace

from tidegate.schedule import LEAST_WINDOW, intake_window
from tidegate.settings import DAY, MINUTE, LimitSettings, RetentionSettings, Settings
from tidegate.settings.fixed import TRAVEL

VISIBILITY_FACTOR = 6
"""A queue must hide a message for six times the timeout of the function that reads it
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html), and for the batching window:
Lambda retries a throttled batch in that time, and a message that reappears is delivered twice."""

LAMBDA_LONGEST_TIMEOUT = 15 * MINUTE


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

MEMORY_MB = 1_024
ARCHIVE_DAYS = 14
UNFINISHED_UPLOAD_DAYS = 7
IDLE_MINUTES = 15
"""An idle application keeps no workers and costs nothing. A stopped one takes longer to start a job."""

WORKERS = {
    # a driver waits for batches, and reads small ones itself: it is the smallest that EMR has room for Spark in
    "spark.driver.cores": "1",
    "spark.driver.memory": "2g",
    "spark.driver.memoryOverhead": "2g",
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
JOB_VCPU = 6
"""At least a driver and one executor: with less, a job would wait for ever."""
MEMORY_GB_A_VCPU, DISK_GB_A_VCPU = 4, 20
"""Of the application: as much as any workers need that have its vCPU, so that vCPU alone decide. These numbers are not
computed from the workers: another version may have others, and must not change an application that is started."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Resources of EMR Serverless: memory and disk in GB."""

    vcpu: int
    memory: int
    disk: int

    def __add__(self, other: "Capacity") -> "Capacity":
        return Capacity(self.vcpu + other.vcpu, self.memory + other.memory, self.disk + other.disk)


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
    """What all jobs together may have."""
    return Capacity(limits.vcpu, MEMORY_GB_A_VCPU * limits.vcpu, DISK_GB_A_VCPU * limits.vcpu)


def concurrent_jobs(limits: LimitSettings) -> int:
    """How many jobs EMR may run at once: as many as there is room for. The others queue.

    It does not depend on the routes: EMR changes an application only while it is stopped, and a route may be added at
    any time. There is always room for an executor beside the drivers; without it no job would end.
    """
    return min(limits.vcpu // JOB_VCPU, MOST_JOBS)


def most_executors(limits: LimitSettings) -> int:
    """How many executors one job may have: the rest, if every other job that may run has one."""
    others = concurrent_jobs(limits) - 1
    return (limits.vcpu - others * JOB_VCPU - worker("driver").vcpu) // worker("executor").vcpu


def spark_workers(limits: LimitSettings) -> dict[str, str]:
    """Spark's properties for its workers. By default it requests executors without limit
    (https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-spark.html)."""
    return {**WORKERS, "spark.dynamicAllocation.maxExecutors": str(most_executors(limits))}


def archive_days(retention: RetentionSettings) -> int:
    """How long the topic keeps notices for a replay.

    A replayed notice passes through the queue and its dead letters again. The ledger must still have the claims of its
    uploads when it arrives. Otherwise their rows are in the table twice.
    """
    return min(ARCHIVE_DAYS, (retention.claims - TRAVEL - 1) // DAY)
