"""What the simulation has found in the product, and the runs that show it: bad with the mistake planted again."""

from dataclasses import dataclass

from tests.sim.explore import Case
from tests.sim.faults import Kind


@dataclass(frozen=True)
class Found:
    """`bug` is its name among the planted mistakes (`bugs.py`), if it is one that can be planted in a line; `cases` are
    bad with it."""

    what: str
    mended: str
    bug: str
    cases: tuple[Case, ...]


FOUND = (
    Found(
        "In an unversioned bucket an upload vanished before it was read, and the same bytes were uploaded again. Their"
        " notice had the id of the first one, which was decided: it was acknowledged, and the upload lost.",
        "The sequencer is part of a notice's content ([0029](adr/0029-sequencers-are-content.md)).",
        "the same bytes, the same notice",
        (Case("again_alone"),),
    ),
    Found(
        "The same bytes came again while the batch was still under way that found the first ones gone. The second"
        " upload was refused as a duplicate of a claim that then ended without a row.",
        "The claim is told, and settling sends the upload again ([0030](adr/0030-told-while-undecided.md)).",
        "what came again is forgotten",
        (Case("returning", ((50, Kind.PAUSE),)),),
    ),
    Found(
        "S3's sequencers may differ in length, and are padded on their right before they are compared"
        " ([AWS](https://repost.aws/knowledge-center/s3-duplicate-sqs-messages)). Tidegate compared them as numbers,"
        " and took a later upload of the same bytes for an old notification.",
        "`tidegate.core.uploads.is_later` pads on the right.",
        "sequencers compared as numbers",
        (Case("uneven_sequencers"),),
    ),
    Found(
        "A ledger was restored to when a batch gathered, and the route was pointed at another table. A look of settle"
        " that Lambda repeated, with its rule switched off, sealed the batch anew for that table, found the manifest of"
        " the first time, and started a job for rows that may be in the first table already.",
        "The manifest's table is compared with the header's, recovering believes the manifest, and the runbook waits"
        " for what Lambda repeats ([0039](adr/0039-a-manifest-names-its-table.md)).",
        "a manifest for any table",
        (Case("sealed_anew_for_another_table"),),
    ),
)
