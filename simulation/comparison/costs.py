"""The cost of a replay in an account, line by line: the counts times list prices.

Prices, and what is assumed of a call and of a job, are those of `tidegate.cost`. They change; what was counted does
not. What the last replay of all the traffic counted is in `replayed.json`, beside this file
(`python -m simulation traffic --record` writes it); `python -m simulation costs` prints the tables of docs/deploy.md
from it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.sizing import MEMORY_MB, smallest_job
from tidegate.cost.bill import CALL_SECONDS, JOB_SECONDS, LEAST_BILLED, TABLE_PUTS
from tidegate.cost.prices import OF_REQUESTS, Price
from tidegate.cost.prices import PRICES as ALL_PRICES
from tidegate.settings import MINUTE

RECORD = Path(__file__).with_name("replayed.json")
JOB_MINUTES = JOB_SECONDS / MINUTE


MILLION = 1e6
PRICES = {name: ALL_PRICES[name] for name in OF_REQUESTS}


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


def main() -> int:
    last = ReplayRecord.read(RECORD)
    print(table(last.used, last.uploads))
    return 0
