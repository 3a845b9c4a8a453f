"""The outcomes of uploads, and their counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum


class Outcome(StrEnum):
    """How an upload ended. An upload without an outcome is pending (rule 10)."""

    COMMITTED = "committed"  # all its rows are in the table, once
    QUARANTINED = "quarantined"  # it cannot be decoded; none of its rows is in the table
    SUPERSEDED = "superseded"  # overwritten before it was read; the newer content is an upload of its own
    VANISHED = "vanished"  # deleted before it was read
    PRESENT = "present"  # it came again, and its rows were in the table already: this batch has brought none


ROWS_OF = "rows of batch "
"""The error of what is present begins with this, and names the batch whose rows it has in the table. That is empty if
somebody has taken the batch from the rows. If it was to be reloaded, `: ` and why it could not be follow; if its bytes
have rows, `: ` and of which version."""

SAME_BYTES = "its bytes are those of version "
"""What follows if another version of the same bytes has the rows (`core.same_bytes`): this, and that version."""

ABANDONED = "abandoned"
"""Recorded in a claim in place of an outcome, once its batch is fenced. It is not an outcome, because the upload is
pending. But it is final: the owner never publishes the upload."""

DROPPED = "dropped"
"""Recorded in a claim in place of ABANDONED, if a person has given the upload up for good. It is an ending, and
no job reports it. Only a person's resend brings the upload back."""

COMES_BACK = (*(each.value for each in Outcome), ABANDONED, DROPPED)
"""What an upload may be counted as when another notice takes it over. One that landed comes back only for another
table, or if its batch can never bring rows again (`core.claims.may_land_too`)."""


@dataclass(frozen=True, slots=True)
class Read:
    """The result of reading one upload: `rows` if it is committed, `error` if not. `rejected` is how many of its rows
    do not fit and are set aside.

    `refused`: S3 refused the read. That is an ending only if the upload is the cause, and not the caller. `where` is
    where in the file the error is, and may quote it; empty if that is not known. `spoiled`: rows of it were emitted
    before that was known, or otherwise than it has them. What was staged from this reading must not be published.
    `unknown` are the names in it that the route's schema lacks (`core.unknown`). Nothing rests on them. `deletion`: it
    is a delete marker, a version without rows. `left_out` are its rows that the route's `where` leaves out.
    """

    outcome: Outcome
    rows: int = 0
    error: str = ""
    refused: bool = False
    where: str = ""
    spoiled: bool = False
    rejected: int = 0
    unknown: tuple[str, ...] = field(default=(), compare=False)
    deletion: bool = False
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of uploads for each outcome, and the number of rows of the committed ones: those in the table, and
    those that were rejected. `replaced` rows of earlier versions have left the table for them. `left_out` are those
    that the route's `where` leaves out."""

    committed: int = 0
    quarantined: int = 0
    superseded: int = 0
    vanished: int = 0
    present: int = 0
    rows: int = 0
    rejected: int = 0
    replaced: int = 0
    left_out: int = 0

    @property
    def uploads(self) -> int:
        """How many uploads have ended."""
        return self.committed + self.quarantined + self.superseded + self.vanished + self.present

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, each.name) - getattr(other, each.name) for each in fields(self)))

    def as_dict(self) -> dict[str, int]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @staticmethod
    def from_dict(values: Mapping[str, int]) -> "Tally":
        return Tally(**{each.name: int(values.get(each.name, 0)) for each in fields(Tally)})


NO_TALLY = Tally()


@dataclass(frozen=True, slots=True)
class Conservation:
    """The invariant: every notified upload has one outcome, or is pending. An upload that came back counts once.

    `notified` is counted when notices are registered, the tally by the job that read the files, `dropped` when a
    person's wish is carried out. The counts are independent, so the check can fail.
    """

    notified: int
    ended: Tally
    pending: int
    dropped: int = 0

    @property
    def holds(self) -> bool:
        return self.notified == self.ended.uploads + self.dropped + self.pending
