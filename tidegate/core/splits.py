"""Which large files several tasks read, and how such a file has ended.

To begin a task takes 0.2 s. So a survey of a file has no more tasks than run at once, and the splits of a file are a
multiple of them. `pyarrow.json` and `pyarrow.csv` would be no faster: to check what they take beside the grammar costs
what they save.
"""

from collections.abc import Sequence

from tidegate.core.outcomes import Outcome, Read
from tidegate.core.unknown import few

LEAST_SPLIT = 16_000_000
"""Bytes. To begin a task takes as long as to read some 3 MB."""


def to_split(sizes: Sequence[int], *, slots: int, task_bytes: int) -> list[int]:
    """The positions in `sizes` (bytes) of the files that are worth it: those of more than a task's bytes, which would
    keep one of `slots` tasks busy for more than half of the time that all files take."""
    fair = sum(sizes) // (2 * max(1, slots))
    return [position for position, size in enumerate(sizes) if size > max(task_bytes, fair)]


def split_bytes(size: int, *, slots: int, task_bytes: int) -> int:
    """How many bytes a split of a file shall have, if its splits have `size` bytes together: at most `task_bytes`. If
    that makes no small splits, they are so many that all of `slots` tasks have equally many: three on two slots would
    take as long as four."""
    count = max(1, -(-size // task_bytes))
    even = -(-count // max(1, slots)) * max(1, slots)
    return max(1, -(-size // (even if size >= even * LEAST_SPLIT else count)))


def joined(reads: Sequence[Read | None]) -> Read | None:
    """The result of all splits of a file: committed, if each is, with the rows and the unknown names of all. None if a
    split ended in two ways, or said nothing. Otherwise what one says of its split is no ending of the file: it has to
    be read as a whole. `spoiled`: a split had emitted rows."""
    if any(read is None for read in reads):
        return None
    known = [read for read in reads if read is not None]
    if all(read.outcome is Outcome.COMMITTED for read in known):
        unknown = few(name for read in known for name in read.unknown)
        return Read(Outcome.COMMITTED, sum(read.rows for read in known), unknown=unknown)
    refused = next(read for read in known if read.outcome is not Outcome.COMMITTED)
    return Read(refused.outcome, 0, refused.error, spoiled=any(read.spoiled or read.rows for read in known))
