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
        )
