"""What is in the tables, and the jobs that a command waits for: one reads a table, one publishes a batch again.

They end as soon as they are started. The real ones are `tidegate/spark/lineage.py` and
`tidegate/flows/fence_again.py`.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.functional.test_handlers import Deployment
from tests.support.fakes import MemoryLineage, play_lineage, uploads_of
from tidegate.core.batches import Batch
from tidegate.core.lineage import Landed
from tidegate.core.maintenance import (
    CompleteMaintenance,
    MaintainedTable,
    decode_maintenance_request,
    maintenance_folder,
)
from tidegate.core.manifests import batch_folder, failure_name
from tidegate.core.outcomes import Outcome
from tidegate.core.publication import History
from tidegate.core.receipts import Failure, decode_outcomes, decode_receipt


@dataclass
class PlayedTables:
    deployment: Deployment
    lineage: MemoryLineage = field(default_factory=MemoryLineage)
    rolled_back: set[str] = field(default_factory=set)
    """Batches whose snapshot is no longer in the history of their table."""
    denied: str = ""
    """Why no table can be maintained."""
    _snapshots: Iterator[int] = field(default_factory=lambda: itertools.count(900))

    def __post_init__(self) -> None:
        self.deployment.emr.plays = self._plays

    # ---- what is in them

    def rows(self, table: str) -> list[Landed]:
        return self.lineage.tables.setdefault(table, [])

    def times(self, table: str) -> Counter[str]:
        """How many rows the table has of each object."""
        counted: Counter[str] = Counter()
        for each in self.rows(table):
            counted[each.key] += each.rows
        return counted

    def lands(self, batch: Batch) -> None:
        """The rows of a batch that has a receipt: one of each upload that was committed."""
        work, folder = self.deployment.work, batch_folder(batch.id)
        receipt = work.get(folder + "receipt.json")
        assert receipt
        outcomes = work.get(f"{folder}outcomes/{decode_receipt(receipt).staged}.jsonl.gz")
        assert outcomes
        without = {each.key for each in decode_outcomes(outcomes).endings if each.outcome is not Outcome.COMMITTED}
        landed = [each.upload for each in uploads_of(work, batch.id) if each.upload.key not in without]
        self.lineage.add(batch.table, landed, batch.id)

    def roll_back(self, batch: Batch) -> None:
        """A person rolls the table back past the batch."""
        self.rolled_back.add(batch.id)
        self.lineage.tables[batch.table] = [each for each in self.rows(batch.table) if each.batch != batch.id]

    # ---- the jobs

    def _plays(self, job_run: str, arguments: Sequence[str]) -> None:
        options = dict(each.removeprefix("--").split("=", 1) for each in arguments[1:])
        match arguments[0]:
            case "lineage":
                table, prefix = options["table"], options["prefix"]
                found = list(self.lineage.landed(table, prefix))
                history, work = self.lineage.histories.get(table, History("", ())), self.deployment.work
                play_lineage(work, options["batch"], found, table, prefix, history)
                self.deployment.emr.end(job_run)
            case "maintain":
                work, folder = self.deployment.work, maintenance_folder(options["batch"])
                body = work.get(folder + "request.json")
                assert body
                asked = decode_maintenance_request(body).tables
                done = CompleteMaintenance(tuple(MaintainedTable(each, trouble=self.denied) for each in asked))
                work.put(folder + "complete.json", done.encode())
                self.deployment.emr.end(job_run, "FAILED" if self.denied else "SUCCESS")
            case "fence-again":
                batch = self.deployment.ledger.batch(options["batch"])
                assert batch
                if refused := self._fence_again(batch):
                    name = failure_name(batch_folder(batch.id), options["run"])
                    self.deployment.work.put(name, Failure(0, refused, hopeless=True).encode())
                self.deployment.emr.end(job_run, "FAILED" if refused else "SUCCESS")

    def _fence_again(self, batch: Batch) -> str:
        """Returns why it was refused."""
        name = batch_folder(batch.id) + "receipt.json"
        body = self.deployment.work.get(name)
        assert body
        receipt = decode_receipt(body)
        held = sum(each.rows for each in self.rows(batch.table) if each.batch == batch.id)
        if held:
            return f"table {batch.table} holds {held} of the {receipt.tally.rows} rows"
        if batch.id not in self.rolled_back:
            return f"snapshot {receipt.snapshot} is still in its history: the table was not rolled back past it"
        self.deployment.work.put(name, replace(receipt, snapshot=next(self._snapshots), fence=True).encode())
        return ""
