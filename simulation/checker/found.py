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
        "In an unversioned bucket an upload vanished before it was read, and the same bytes were uploaded again. The"
        " second notice had the id of the first, so it was acknowledged, and the upload lost.",
        "The sequencer is part of a notice's content ([0005](adr/0005-notice-id-is-a-content-hash.md)).",
        "the same bytes, the same notice",
        (Case("returning"),),
    ),
    FoundMistake(
        "A batch found an upload gone. The same bytes, uploaded again before the batch had ended, were refused as a"
        " duplicate of a claim that then ended without a row.",
        "The claim records the repeat, and settling sends the upload again ([0030](adr/0030-told-while-undecided.md)).",
        "a repeated upload is forgotten",
        (Case("returning", ((54, Kind.PAUSE),)),),
    ),
    FoundMistake(
        "S3's sequencers differ in length, and are padded on the right before they are compared"
        " ([AWS](https://repost.aws/knowledge-center/s3-duplicate-sqs-messages)). Tidegate compared numbers, and took a"
        " later upload of the same bytes for an old notification.",
        "`tidegate.core.uploads.is_later` pads on the right.",
        "sequencers compared as numbers",
        (Case("uneven_sequencers"),),
    ),
    FoundMistake(
        "Versioning was suspended for a while. What was put then stays listed when its key is put again, but cannot be"
        " read. Each audit and each backfill sent it, and it ended as superseded: `UploadsFoundLost` never came to"
        " rest.",
        "Both look only at a version or the current object (`tidegate.core.audit.Listed`).",
        "what nobody can read is lost",
        (Case("overwritten_while_suspended"),),
    ),
)
