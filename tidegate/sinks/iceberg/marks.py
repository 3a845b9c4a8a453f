"""The properties that Tidegate writes into the summaries of Iceberg's snapshots, and reads from them."""

from dataclasses import dataclass

from tidegate.core.publication import Snapshot

# Iceberg's own cherry-pick writes these two into the summary of the snapshot that it publishes
# (org.apache.iceberg.SnapshotSummary, 1.11.0). Tidegate does the same: Iceberg's clean-up keeps the files of a snapshot
# that is another's source (org.apache.iceberg.IncrementalFileCleanup).
PUBLISHED_WAP_ID = "published-wap-id"
SOURCE_SNAPSHOT_ID = "source-snapshot-id"
BATCH = "tidegate.batch"
"""On every snapshot that Tidegate writes. In `main`, without one of the others, the snapshot was committed without the
check."""
DRIVER = "tidegate.driver"
ATTEMPT = "tidegate.attempt"
WHERE, GENERATED = "tidegate.where", "tidegate.generated."
"""The SQL by which rows were left out, and that of each generated column, before its name."""
ON_TOP_OF = "tidegate.on-top-of"
"""On a staged snapshot of what leaves the table: the staged snapshot of the rows for which it does."""
ADDED, REMOVED = ("added-data-files",), ("deleted-data-files", "added-delete-files", "removed-delete-files")
REWRITTEN = ("deleted-data-files", "removed-delete-files", "added-dvs")
"""A data file has one deletion vector, and each takes the place of the one before."""
COUNTS = ("added-", "deleted-", "removed-", "total-", "changed-")
"""Iceberg's own counts in a summary, left out where they are 0 (org.apache.iceberg.SnapshotSummary)."""


@dataclass(frozen=True, slots=True)
class IcebergSnapshot:
    """The fields of Iceberg's snapshot that are used. `parent` is None for a table's first. `at` is when it was
    committed (epoch milliseconds)."""

    id: int
    parent: int | None
    summary: dict[str, str]
    at: int = 0

    @property
    def plain(self) -> Snapshot:
        """As decision 3 reads it."""
        batch = self.summary.get(PUBLISHED_WAP_ID, "")
        source = self.summary.get(SOURCE_SNAPSHOT_ID, "")
        return Snapshot(
            self.id,
            self.parent,
            publishes=frozenset({batch} if batch else ()),
            source=int(source) if source.isdecimal() else self.id,
            holds=self.summary.get(BATCH, ""),
            adds=self._counts(ADDED),
            removes=self._counts(REMOVED),
            rewrites=self._counts(REWRITTEN),
        )

    @property
    def rows(self) -> int | None:
        """How many rows the table has at this version, by Iceberg's own counts; None if they are not there."""
        in_files, marked = (self.summary.get(name) for name in ("total-records", "total-position-deletes"))
        return None if in_files is None or marked is None else int(in_files) - int(marked)

    def _counts(self, names: tuple[str, ...]) -> bool:
        if "operation" in self.summary and not any(name.startswith(COUNTS) for name in self.summary):
            return True  # the specification lets a writer leave all counts out
        return any(self.summary.get(name, "0") != "0" for name in names)
