"""Mistakes that make an outcome depend on when TTL deletes an expired item. `checker.purge` shows them: the two runs of
a seed differ. One run alone may look well, because each of the two outcomes may be allowed."""

from dataclasses import replace
from typing import Any

from simulation.checker.planting import Bug, replaced, rewritten
from tidegate.core.items import MoreThan, Transition


def _whether_it_is_live_or_not(real: Any) -> Any:
    def record_ending(*arguments: Any, **named: Any) -> Transition:
        whole: Transition = real(*arguments, **named)
        (write,) = whole.writes
        left = tuple(each for each in write.requires if not isinstance(each, MoreThan))
        return replace(whole, writes=(replace(write, requires=left),))

    return record_ending


def _whatever_is_there(real: Any) -> Any:
    return lambda ledger, item: item


PAIRED = (
    Bug(
        "an expired claim refuses",
        "A claim is put if there is none; the condition forgets claims that have expired.",
        (rewritten("o#", lambda write: write.forgets("expires_at") if write.asks("pk") else None),),
        seed=3,
    ),
    Bug(
        "an expired notice is decided",
        "A notice is registered or voided if it has no record; the condition forgets records that have expired.",
        (rewritten("n#", lambda write: write.forgets("expires_at")),),
        seed=2,
    ),
    Bug(
        "an expired record is read",
        "The ledger returns whatever the store has, expired or not.",
        (replaced("tidegate.flows.ledger:Ledger._live", _whatever_is_there),),
        seed=2,
    ),
    Bug(
        "an expired claim gets its ending",
        "An ending is written into an expired claim, and the answer says that the same bytes came again.",
        (replaced("tidegate.core.transitions:record_ending", _whether_it_is_live_or_not),),
        seed=8,
    ),
    Bug(
        "an expired event is remembered",
        "A consumer's inbox refuses an event whose record has expired.",
        (rewritten("inbox#", lambda write: write.forgets("expires_at")),),
        seed=17,
    ),
)
"""`seed` is that of a pair."""
