"""How an upload can end, and the count of how many ended so."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum


class Outcome(StrEnum):
    """The end of an upload; one that has none yet is pending (rule 10)."""

    COMMITTED = "committed"  # its rows are in the table, all of them, once
    QUARANTINED = "quarantined"  # it cannot be decoded; none of its rows is in the table
    SUPERSEDED = "superseded"  # overwritten before it was read; the newer version is an upload of its own
    VANISHED = "vanished"  # deleted before it was read


ABANDONED = "abandoned"
"""What is written into a claim, where outcomes are, once its batch is fenced: no outcome, because the upload is
pending, but as final: its owner never publishes it."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Uploads by outcome, and the rows that the committed ones brought."""

    committed: int = 0
    quarantined: int = 0
    superseded: int = 0
    vanished: int = 0
    rows: int = 0

    @property
    def uploads(self) -> int:
        """How many uploads have ended."""
        return self.committed + self.quarantined + self.superseded + self.vanished

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def as_dict(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def from_dict(values: Mapping[str, int]) -> "Tally":
        return Tally(**{field.name: int(values.get(field.name, 0)) for field in fields(Tally)})


NO_TALLY = Tally()


@dataclass(frozen=True, slots=True)
class Conservation:
    """The invariant: every upload notified has ended in one way, or is pending.

    `notified` is counted when notices are registered, the tally by the job that read the files; that the
    two agree is a finding, not a definition.
    """

    notified: int
    ended: Tally
    pending: int

    @property
    def holds(self) -> bool:
        return self.notified == self.ended.uploads + self.pending
