"""What can be seen of a world from outside: its tables, and the objects that the product has left in S3."""

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

from simulation.world.diary import Diary, ManifestUpload
from simulation.world.dynamodb import DynamoDb
from simulation.world.landing import Landing
from simulation.world.s3 import Version
from simulation.world.table import ModelCatalog, Stored

REJECTED = "__rejected"
"""The end of the name of a table of rejected rows, as docs/formats.md has it."""


class Observed(Landing, Diary):
    """Answers from what S3 and the tables hold, and from the ledger's items."""

    dynamodb: DynamoDb
    catalog: ModelCatalog

    def failure_of(self, batch: str) -> Mapping[str, Any]:
        """The reason why the batch's current attempt gave up; empty if there is none."""
        item = self.dynamodb.items["ledger", f"b#{batch}", "batch"]
        found = self.s3.buckets["work"].current.get(f"batches/{batch}/failures/{item['attempt']}.json")
        told: Mapping[str, Any] = json.loads(found.body) if found else {}
        return told

    def published(self) -> Iterator[tuple[str, str, Stored]]:
        """(batch, table, snapshot) of all published batches, from the whole ancestry of main, expired or not, oldest
        first. A fence has no files. What was published of their rejected rows is left out."""
        for table in self.catalog.tables:
            if table.endswith(REJECTED):
                continue
            for stored in self.catalog.ancestry(table):
                if batch := stored.snapshot.summary.get("published-wap-id"):
                    yield batch, table, stored

    def fenced(self) -> set[str]:
        """The batches whose fence is in a table, or was: somebody may have rolled it back past it."""
        return self._published_ever(with_rows=False)

    def landed(self) -> set[str]:
        """The batches whose rows are in a table, or were."""
        return self._published_ever(with_rows=True)

    def _published_ever(self, *, with_rows: bool) -> set[str]:
        return {
            str(stored.snapshot.summary["published-wap-id"])
            for table in self.catalog.tables.values()
            for stored in (*table.snapshots.values(), *table.gone.values())
            if stored.snapshot.summary.get("published-wap-id") and bool(stored.files) is with_rows
        }

    def published_rejected(self, batch: str) -> list[Stored]:
        """The snapshots of tables of rejected rows that published this batch's."""
        tables = (name for name in self.catalog.tables if name.endswith(REJECTED))
        line = (stored for name in tables for stored in self.catalog.ancestry(name))
        return [stored for stored in line if stored.snapshot.summary.get("published-wap-id") == batch]

    def staged_with_rows(self, batch: str) -> int | None:
        """The staged snapshot of the batch's rows; None if none of its rows are in a table."""
        for each, _, stored in self.published():
            if each == batch and stored.files:
                return int(stored.snapshot.summary["source-snapshot-id"])
        return None

    def could_say(self, batch: str) -> bool:
        """Whether the history of the batch's table has always reached a floor of the batch."""
        table = self.catalog.tables.get(self.dynamodb.items["ledger", f"b#{batch}", "batch"].get("table", ""))
        if table is None or table.came_back:
            return False
        heads = {json.loads(body)["head"] for _, body in self.left_in(f"batches/{batch}/floor")}
        return any(each.id in heads or each.parent in heads for each in table.ancestors())

    def manifest_of(self, batch: str) -> list[ManifestUpload]:
        """The uploads of a sealed batch, from the parts in its manifest."""
        if batch not in self.manifests:
            left = dict(self.left_in(f"batches/{batch}/"))
            found = []
            for name in json.loads(left[f"batches/{batch}/sealed.json"])["parts"]:
                header, *lines = left[f"batches/{batch}/{name}"].decode().splitlines()
                about = json.loads(header)
                for key, version, _, sequencer in map(json.loads, lines):
                    of = (about["notice"], about["bucket"], key, version, sequencer)
                    found.append(ManifestUpload(*of, reloads="reloads" in about))
            self.manifests[batch] = found
        return self.manifests[batch]

    def puts_of(self, each: ManifestUpload) -> list[Version]:
        """The puts that an upload of a manifest may be. A listing has no sequencers: without one it may be any put of
        the same bytes."""
        there = [put for put in self.history if (put.bucket, put.key) == (each.bucket, each.key)]
        if each.sequencer:
            return [put for put in there if put.sequencer == each.sequencer]
        return [put for put in there if each.version in (put.version_id, f"etag:{put.etag}")]

    def landed_at(self, put: Version) -> float | None:
        """The time when the rows of an upload came into a table; None if they are not there."""
        for batch, _, stored in self.published():
            registered = self.manifest_of(batch) if stored.files else []
            if any(put in self.puts_of(each) for each in registered):
                return self.catalog.came_at[stored.snapshot.id]
        return None

    def left_in(self, folder: str) -> Iterator[tuple[str, bytes]]:
        """(name, body) of the objects in this folder of the work bucket, decompressed."""
        for name, version in sorted(self.s3.buckets["work"].current.items()):
            if name.startswith(folder):
                yield name, gzip.decompress(version.body) if name.endswith(".gz") else version.body
