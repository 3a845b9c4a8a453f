"""Mistakes that the simulation has found in the product, and the runs that show each one, planted again."""

from dataclasses import dataclass

from simulation.checker.explore import Case
from simulation.world.faults import Kind


@dataclass(frozen=True)
class FoundMistake:
    """`bug` is the name of the planted mistake (`bugs.py`). With it `cases` are bad."""

    what: str
    mended: str
    bug: str
    cases: tuple[Case, ...]


FOUND = (
    FoundMistake(
        "An upload vanished, and the same bytes were uploaded again. The second notice had the id of the first, so the"
        " upload was lost.",
        "The sequencer is part of a notice's content ([0005](adr/0005-notice-id-is-a-content-hash.md)).",
        "the same bytes, the same notice",
        (Case("returning"),),
    ),
    FoundMistake(
        "A batch found an upload gone. The same bytes, uploaded again before it ended, were refused as a duplicate.",
        "The claim records the repeat, and settling sends the upload again ([0030](adr/0030-told-while-undecided.md)).",
        "a repeated upload is forgotten",
        (Case("returning", ((54, Kind.PAUSE),)),),
    ),
    FoundMistake(
        "S3's sequencers differ in length. Tidegate compared them as numbers, and took a later upload of the same bytes"
        " for an old notification.",
        "`tidegate.core.uploads.is_later` pads on the right.",
        "sequencers compared as numbers",
        (Case("uneven_sequencers"),),
    ),
    FoundMistake(
        "What was put while versioning was suspended stays listed when its key is put again. Each audit sent it, and it"
        " ended as superseded.",
        "Both look only at a version or the current object (`tidegate.core.audit.Listed`).",
        "what nobody can read is lost",
        (Case("overwritten_while_suspended"),),
    ),
)
