"""Mistakes about which version of an object has its rows in the table."""

from dataclasses import replace

from simulation.checker.planting import Bug, replaced

BUGS = (
    Bug(
        "an earlier version replaces a later one",
        "The versions of an object are taken in the wrong order.",
        (
            replaced(
                "tidegate.spark.job:newest_first", lambda real: lambda *asked: dict(reversed(real(*asked).items()))
            ),
        ),
        "corrected_in_place",
    ),
    Bug(
        "what is replaced stays",
        "The rows of a later version land beside those of the earlier one.",
        (replaced("tidegate.core.replacing:Contest.gives_way", lambda real: lambda contest, winners: []),),
        "corrected_in_place",
    ),
    Bug(
        "what is reloaded stays",
        "What is loaded again lands beside the rows that it has.",
        (
            replaced(
                "tidegate.core.replacing:Contest._gives_way",
                lambda real: lambda self, held, winner: held.version != winner.version and real(self, held, winner),
            ),
        ),
        "reloaded_in_place",
    ),
    Bug(
        "what is reloaded is taken for what came again",
        "The rows of what is to be loaded again stay, because they are there.",
        (
            replaced(
                "tidegate.flows.publish:look_for",
                lambda real: (
                    lambda again, *rest, **named: real([replace(each, reloads=False) for each in again], *rest, **named)
                ),
            ),
        ),
        "reloaded_in_place",
    ),
    Bug(
        "a reload that another one has under way",
        "What is to be loaded again is taken from the notice that has it, also if its batch has not ended.",
        (replaced("tidegate.core.claims:has_landed", lambda real: lambda claim, batch: batch is not None),),
        "reloaded_in_place",
    ),
    Bug(
        "two versions in one batch",
        "Of several versions in one batch each lands.",
        (replaced("tidegate.core.replacing:Contest.losers", lambda real: lambda contest, committed: set()),),
        "corrected_in_place",
    ),
    Bug(
        "the same bytes land beside those that have landed",
        "Which version has the same bytes is not looked up.",
        (replaced("tidegate.core.same_bytes:_are_same", lambda real: lambda runs, version, other: version == other),),
        "same_bytes_skipped",
    ),
    Bug(
        "the same bytes twice in one batch",
        "Of several versions with the same bytes in one batch each lands.",
        (replaced("tidegate.core.same_bytes:SameBytes.losers", lambda real: lambda self, committed: {}),),
        "same_bytes_skipped",
    ),
    Bug(
        "what an upload once had is taken for what was before it",
        "A version brings no rows if any other one has its bytes, whatever came between.",
        (
            replaced(
                "tidegate.core.same_bytes:_runs",
                lambda real: lambda listed: [(version, hash(content)) for version, content in listed.items()],
            ),
        ),
        "same_bytes_skipped",
    ),
    Bug(
        "a version that has expired leaves no word",
        "What brings no rows does not say which version has them.",
        (replaced("tidegate.core.same_bytes:SameBytes.notes", lambda real: lambda self, losers: {}),),
        "same_bytes_expired",
    ),
    Bug(
        "a version that nobody lists is looked up among the listed ones",
        "A job asks what is noted of an object although all that there is are its own rows.",
        (
            replaced(
                "tidegate.core.same_bytes:may_be_noted",
                lambda real: lambda uploads, held, listed: [(each.uri, each.version) for each in uploads],
                within="tidegate.flows.replacing",
            ),
        ),
        "same_bytes_reloaded",
    ),
    Bug(
        "what was replaced is missed",
        "The comparison of ledger and table takes rows that were replaced for lost ones.",
        (
            replaced(
                "tidegate.flows.outcomes:staged_outcomes",
                lambda real: lambda *_: None,
                within="tidegate.flows.replaced_rows",
            ),
        ),
        "corrected_in_place",
    ),
    Bug(
        "what was replaced is counted otherwise",
        "The outcomes of a batch do not say what has left the table for it.",
        (replaced("tidegate.flows.replacing:Replacement.stage", lambda real: lambda *of: (*real(*of)[:2], ())),),
        "corrected_in_place",
    ),
    Bug(
        "what was deleted comes back",
        "A reader reads what S3 has, although its object was deleted after it.",
        (replaced("tidegate.reading.fetch:deleted_since", lambda real: lambda *_: None),),
        "deleted_in_place",
    ),
    Bug(
        "an audit leaves deletions alone",
        "An audit sends the uploads that are in a bucket, and no deletion.",
        (
            replaced(
                "tidegate.core.audit:Listed.is_of",
                lambda real: lambda listed, route: not listed.deletion and real(listed, route),
            ),
        ),
        "deleted_in_place",
    ),
)
