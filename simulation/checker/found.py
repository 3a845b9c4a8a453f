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
        " second notice had the id of the first one, which was registered. It was acknowledged, and the upload lost.",
        "The sequencer is part of a notice's content ([0029](adr/0029-sequencers-are-content.md)).",
        "the same bytes, the same notice",
        (Case("again_alone"),),
    ),
    FoundMistake(
        "A batch found an upload gone. The same bytes were uploaded again before the batch had ended. The second upload"
        " was refused as a duplicate of a claim that then ended without a row.",
        "The claim records the repeat, and settling sends the upload again ([0030](adr/0030-told-while-undecided.md)).",
        "a repeated upload is forgotten",
        (Case("returning", ((50, Kind.PAUSE),)),),
    ),
    FoundMistake(
        "S3's sequencers may differ in length, and are padded on the right before they are compared"
        " ([AWS](https://repost.aws/knowledge-center/s3-duplicate-sqs-messages)). Tidegate compared them as numbers,"
        " and treated a later upload of the same bytes as an old notification.",
        "`tidegate.core.uploads.is_later` pads on the right.",
        "sequencers compared as numbers",
        (Case("uneven_sequencers"),),
    ),
    FoundMistake(
        "A ledger was restored to the time when a batch gathered. Meanwhile the route got another table. Lambda retried"
        " an invocation of settle although its rule was disabled. Settle sealed the batch again, for the new table,"
        " found the old manifest, and started a job for rows that may be in the old table already.",
        "The manifest's table is compared with the header's, recovering uses the manifest's, and the runbook waits"
        " for Lambda's retries ([0039](adr/0039-a-manifest-names-its-table.md)).",
        "a manifest for any table",
        (Case("sealed_anew_for_another_table"),),
    ),
)
