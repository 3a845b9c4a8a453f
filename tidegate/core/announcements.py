"""The announcement of a committed batch: what one event says, and the id by which a repeat is told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.outcomes import Tally
from tidegate.core.times import iso

SOURCE = "tidegate"
DETAIL_TYPE = "Batch Committed"
"""The event's `source` and `detail-type`, which rules match."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A batch that is COMMITTED. `snapshot` is the one that published it, `committed_at` (epoch seconds) when settling
    recorded that."""

    batch: str
    route: str
    table: str
    snapshot: int
    tally: Tally
    committed_at: int

    @property
    def id(self) -> str:
        """The same each time the batch is announced, and of no other batch: a batch is committed once.

        Nothing that may differ between two sends is part of it: the snapshot does, if the batch was published again
        after a rollback.
        """
        return self.batch

    def detail(self, deployment: str) -> Mapping[str, Any]:
        """The event's `detail`. The snapshot is text: JavaScript's numbers do not hold 64 bits."""
        uploads = self.tally.as_dict()
        rows, rejected = uploads.pop("rows"), uploads.pop("rejected")
        replaced, left_out = uploads.pop("replaced"), uploads.pop("left_out")
        return {
            "id": self.id,
            "deployment": deployment,
            "batch": self.batch,
            "route": self.route,
            "table": self.table,
            "snapshot": str(self.snapshot),
            "uploads": uploads,
            "rows": rows,
            "rejected_rows": rejected,
            "replaced_rows": replaced,
            "left_out_rows": left_out,
            "committed_at": iso(self.committed_at),
        }
