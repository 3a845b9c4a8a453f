"""Staging again without the files that turned out bad after rows of them were staged.

A large file is staged while it is read (`tidegate.reading.streamed`). If its last row is bad, its other rows are staged
already, among those of its neighbours, and cannot be taken out of the data files. So that snapshot is never published.
The others are staged once more on a branch of its own; how the spoiled files ended is known.

    line                        if the driver dies right after it     if a twin runs beside it
    1 stage all                 a branch that nobody publishes        each stages on its own branch
    2 a file is spoiled         as 1: no outcomes name the snapshot   a twin may find another ending; one is published
    3 stage the others          as 1                                  as 1
    4 a file is spoiled again   as 1                                  as 1
    5 return the last snapshot  the flow writes its outcomes          each its own

- Only the last snapshot is returned, so only its id gets outcomes and is published. The spoiled ones are dropped with
  the batch's branches: they have the same prefix. Nothing is deleted before the table has decided.
- The uploads that ended without a row in one staging are not read again. What is said of them is said of the version,
  and what is staged next has no row of them.
- The uploads that landed are read again. If one of them has vanished meanwhile, it ends as vanished, and no row of it
  is in the last snapshot. That is checked against the table's count of rows (`flows.publish.Attempt`).
- Each staging has fewer uploads than the one before, or fewer in splits (`sinks.iceberg.splits`), so it comes to an
  end. A bad file is found by the first staging, which reads every file to its end or to its fault; later ones can only
  meet what changes in the bucket meanwhile.
- An upload that was read twice with different endings makes the attempt fail at once, as before.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.flows.sink import Staged

StageOnce = Callable[[Sequence[OwnedUpload]], Staged]
"""Stages these uploads, on a branch of its own."""


def without_spoiled(items: Sequence[OwnedUpload], stage: StageOnce) -> Staged:
    """What `stage` stages of the items, in as many stagings as it takes until none of them has a row of a spoiled
    upload. The reads are those of all items, by their positions."""
    ended: dict[int, Read | None] = {}
    rest = list(range(len(items)))
    while True:
        staged = stage([items[position] for position in rest])
        reads = {rest[number]: read for number, read in staged.reads.items()}
        contradicted = any(read is None for read in reads.values())
        if contradicted or not any(read is not None and read.spoiled for read in reads.values()):
            return replace(staged, reads={**ended, **reads})
        ended |= {at: read for at, read in reads.items() if read is not None and read.outcome is not Outcome.COMMITTED}
        rest = [position for position in rest if position not in ended]
