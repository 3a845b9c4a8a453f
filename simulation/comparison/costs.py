"""The cost of a replay in an account, line by line: the counts times list prices.

Prices are those of us-east-1, on demand, in dollars, as AWS's price pages are quoted; check them there. They change;
what was counted does not. What the last replay of all the traffic counted is in `replayed.json`, beside this file
(`python -m simulation traffic --record` writes it); `python -m simulation costs` prints the tables of docs/deploy.md
from it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.sizing import MEMORY_MB, smallest_job
from tidegate.settings import DAY, MINUTE

RECORD = Path(__file__).with_name("replayed.json")


@dataclass(frozen=True)
class Price:
    """`dollars` for `per` units."""

    dollars: float
    per: float
    unit: str
    source: str

    def of(self, units: float) -> float:
        return units * self.dollars / self.per

    def __str__(self) -> str:
        per = {1e6: "a million ", 1e3: "1,000 ", 1.0: ""}[self.per]
        exact = f"{self.dollars:.10f}".rstrip("0")
        return f"${exact if len(exact.split('.')[1]) > 1 else f'{self.dollars:.2f}'} for {per or 'a '}{self.unit}"


MILLION = 1e6
DYNAMODB = "https://aws.amazon.com/dynamodb/pricing/on-demand/"
EMR = "https://aws.amazon.com/emr/pricing/"
GRAVITON = 0.8
"""Arm costs a fifth less than x86
(https://aws.amazon.com/blogs/big-data/achieve-up-to-27-better-price-performance-for-spark-workloads-with-aws-graviton2-on-amazon-emr-serverless/)."""

PRICES = {
    "SQS, standard": Price(0.40, MILLION, "requests", "https://aws.amazon.com/sqs/pricing/"),
    "SQS, FIFO": Price(0.50, MILLION, "requests", "https://aws.amazon.com/sqs/pricing/"),
    "SNS, FIFO": Price(0.30, MILLION, "messages", "https://aws.amazon.com/sns/pricing/"),
    "Lambda, invocations": Price(0.20, MILLION, "invocations", "https://aws.amazon.com/lambda/pricing/"),
    "Lambda, time": Price(0.0000133334, 1, "GB-second", "https://aws.amazon.com/lambda/pricing/"),
    "DynamoDB, writes": Price(0.625, MILLION, "write units", DYNAMODB),
    "DynamoDB, reads": Price(0.125, MILLION, "read units", DYNAMODB),
    "S3, puts and listings": Price(0.005, 1e3, "requests", "https://aws.amazon.com/s3/pricing/"),
    "S3, gets": Price(0.0004, 1e3, "requests", "https://aws.amazon.com/s3/pricing/"),
    "EMR Serverless, vCPU": Price(round(0.052624 * GRAVITON, 6), 1, "vCPU-hour", EMR),
    "EMR Serverless, memory": Price(round(0.0057785 * GRAVITON, 6), 1, "GB-hour", EMR),
}

CALL_SECONDS = 0.01
"""Assumed: the duration of a call to AWS. A function does little but wait for such calls."""
JOB_MINUTES = 2.0
"""Assumed: how long Spark keeps the workers of a small job, besides the driver's calls to AWS. In the replay each job
takes as long, because the next one waits for it."""
LEAST_BILLED = 60.0
"""Seconds: a worker that ran for less is billed for a minute (https://aws.amazon.com/emr/pricing/)."""
TABLE_PUTS = 8
"""Assumed: files that Iceberg writes for a small batch: data, manifests, manifest lists and metadata of two commits."""


@dataclass(frozen=True)
class Used:
    """The counts: notifications received, invocations, pollers' calls by queue, SDK calls by "service.Operation" (the
    Spark driver's too), DynamoDB's units, jobs, and the billed seconds of their workers."""

    notifications: int
    invocations: int
    buffer_polls: int
    notices_polls: int
    notices: int
    calls: Mapping[str, int]
    write_units: int
    read_units: float
    jobs: int
    job_seconds: float

    @property
    def quantities(self) -> dict[str, float]:
        """By the name of the price."""
        job = smallest_job()
        hours = self.job_seconds / 3_600
        by_functions = sum(self.calls.values()) - self.calls.get("s3.GetObject", 0)
        return {
            "SQS, standard": self.notifications + self.buffer_polls,
            "SQS, FIFO": self.notices_polls,
            "SNS, FIFO": self.notices,
            "Lambda, invocations": self.invocations,
            "Lambda, time": by_functions * CALL_SECONDS * MEMORY_MB / 1024,
            "DynamoDB, writes": self.write_units,
            "DynamoDB, reads": self.read_units,
            "S3, puts and listings": self.calls.get("s3.PutObject", 0)
            + self.calls.get("s3.ListObjectsV2", 0)
            + self.jobs * TABLE_PUTS,
            "S3, gets": self.calls.get("s3.GetObject", 0),
            "EMR Serverless, vCPU": hours * job.vcpu,
            "EMR Serverless, memory": hours * job.memory,
        }


@dataclass(frozen=True)
class ReplayRecord:
    """The usage of a replay, its uploads, and the seconds of traffic."""

    uploads: int
    seconds: float
    used: Used

    def write(self, path: Path) -> None:
        used = {**vars(self.used), "calls": dict(sorted(self.used.calls.items()))}
        path.write_text(json.dumps({**vars(self), "used": used}, indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> "ReplayRecord":
        found = json.loads(path.read_text())
        return cls(found["uploads"], found["seconds"], Used(**found["used"]))


def lines(used: Used, uploads: int) -> list[tuple[str, float, Price, float]]:
    """(name, quantity, price, dollars) for a million uploads, if `uploads` used `used`."""
    factor = MILLION / uploads
    return [
        (name, quantity * factor, PRICES[name], PRICES[name].of(quantity * factor))
        for name, quantity in used.quantities.items()
    ]


def table(used: Used, uploads: int) -> str:
    """The sum below the lines is the sum of the rounded dollars."""
    rows = [(name, quantity, price, round(dollars, 2)) for name, quantity, price, dollars in lines(used, uploads)]
    text = ["| a million uploads | used | price | dollars |", "|---|---:|---|---:|"]
    text += [f"| {name} | {quantity:,.0f} | {price} | {dollars:,.2f} |" for name, quantity, price, dollars in rows]
    return "\n".join([*text, f"| together | | | {sum(dollars for *_, dollars in rows):,.2f} |"])


def job_dollars(seconds: float) -> float:
    """The cost of the workers of the smallest job, for so long."""
    job, hours = smallest_job(), max(LEAST_BILLED, seconds) / 3_600
    vcpu, memory = PRICES["EMR Serverless, vCPU"], PRICES["EMR Serverless, memory"]
    return vcpu.of(hours * job.vcpu) + memory.of(hours * job.memory)


WAITS = {"60s": MINUTE, "5m": 5 * MINUTE, "15m": 15 * MINUTE, "1h": 60 * MINUTE}
"""`max_wait`, as it is configured and in seconds."""


def waits(record: ReplayRecord) -> str:
    """The cost of Spark in 30 days of one route with uploads all the time. A route's jobs run one after the other, so
    there are never more than in `record`, whose `max_wait` was shorter than a job."""
    each = job_dollars(record.used.job_seconds / record.used.jobs)
    shortest = record.seconds / record.used.jobs
    text = ["| `max_wait` | one job every | jobs a month | Spark, a month |", "|---|---:|---:|---:|"]
    for name, seconds in WAITS.items():
        every = max(seconds, shortest)
        jobs = 30 * DAY / every
        text.append(f'| `"{name}"` | {every:,.0f} s | {_about(jobs)} | ${_about(jobs * each)} |')
    return "\n".join(text)


def _about(number: float) -> str:
    """To two digits."""
    return f"{float(f'{number:.1e}'):,.0f}"


def main() -> int:
    last = ReplayRecord.read(RECORD)
    print(table(last.used, last.uploads), waits(last), sep="\n\n")
    return 0
