"""Decision 1: to which notice an upload belongs, judged from the claim that is already there."""

from dataclasses import dataclass
from enum import Enum, auto

from tidegate.core.notices import Entry
from tidegate.core.uploads import is_later


@dataclass(frozen=True, slots=True)
class Claim:
    """An upload's owner: a notice. `outcome` only where it is not plain success. Times in epoch seconds.

    `sequencer` is that of the notification that brought it, where it had one; `later` that of the last one that brought
    the same bytes again while it was open how they would end.
    """

    version: str
    notice: str
    claimed_at: int
    expires_at: int
    outcome: str = ""
    error: str = ""
    sequencer: str = ""
    later: str = ""


class Ownership(Enum):
    """Whose upload it is, from the point of view of one notice that met an existing claim."""

    MINE = auto()  # a retry, or the SDK's own retry of a put whose answer was lost
    DUPLICATE = auto()  # somebody else's: refuse it
    ASK_OWNER = auto()  # this notice was made to take it from its owner, if the owner let go of it
    UPLOADED_AGAIN = auto()  # the same bytes came again, later: a new upload, if the owner let go of the old one


def judge(existing: Claim, notice_id: str, entry: Entry) -> Ownership:
    """Rules 1 and 4: only the owner in the claim decides, never the mere fact that a put was refused."""
    if existing.notice == notice_id:
        return Ownership.MINE
    if entry.takes_from and existing.notice == entry.takes_from:
        return Ownership.ASK_OWNER
    if is_later(entry.upload.sequencer, existing.sequencer):
        return Ownership.UPLOADED_AGAIN
    return Ownership.DUPLICATE


def is_live(expires_at: int, now: int) -> bool:
    """Rule 5: expired means absent. DynamoDB deletes expired items late, "typically within two days"
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html)."""
    return expires_at > now
