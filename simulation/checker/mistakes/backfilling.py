"""Mistakes of a backfill: what it leaves out, and in which order it reads."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from simulation.checker.planting import Bug, Strike, replaced
from simulation.world.faults import Kind
from tidegate.core.notices import ORIGIN_AGAIN

SEND = "tidegate.flows.backfill:send_missing"
UNFINISHED = "tidegate.flows.backfill:unfinished_uploads"


def _of_nothing(real: Any) -> Any:
    return lambda scope, ports: real(scope, ports) & set()


def _lineage_first(real: Any) -> Any:
    def send_missing(scope: Any, backfill: Any, surveyed: Any, kept: Any, ports: Any, *, pace: Any) -> Any:
        history, found = ports.lineage.with_history(scope.route.dataset.table, scope.uri)
        there = list(found)
        early = replace(ports, lineage=SimpleNamespace(with_history=lambda table, prefix: (history, iter(there))))
        return real(scope, backfill, surveyed, kept, early, pace=pace)

    return send_missing


def _timeless(real: Any) -> Any:
    def pack(*arguments: Any, origin: str, at: int = 0) -> Any:
        return real(*arguments, origin=origin, at=at if origin.startswith(ORIGIN_AGAIN) else 0)

    return pack


def _nothing_landed(real: Any) -> Any:
    def compare(surveyed: Any, landed: Any, unfinished: Any, **how: Any) -> Any:
        return real(surveyed, [each for each in landed if not each.rows], unfinished, **how)

    return compare


def _from_nobody(real: Any) -> Any:
    return lambda again, upload: replace(real(again, upload), takes_from="")


BUGS = (
    Bug(
        "what was deleted is taken from nobody",
        "A backfill does not name the owners of what has landed before.",
        (replaced("tidegate.flows.backfill:Again.entry_of", _from_nobody),),
        "deleted_and_backfilled",
    ),
    Bug(
        "a backfill sends what a batch holds",
        "The uploads of batches that have not ended are not left out. Their claims may have expired.",
        (replaced(UNFINISHED, _of_nothing),),
        "backfilled_around_a_batch",
    ),
    Bug(
        "a backfill reads the table before the batches",
        "The lineage is read before the batches that have not ended: one that ends in between is in neither.",
        (replaced(SEND, _lineage_first),),
        "backfilled_while_it_is_published",
        (Strike("person dynamodb.Query", Kind.SLOW),),
    ),
    Bug(
        "a backfill's notices have no time",
        "The notices do not tell when the claims were read: they are taken for new after the claims have expired.",
        (replaced("tidegate.core.notices:pack_entries", _timeless, within="tidegate.flows.send"),),
        "backfilled_and_replayed",
    ),
    Bug(
        "a backfill does not look at the table",
        "What has rows in the table is sent if its claim has expired.",
        (replaced("tidegate.core.backfill:compare", _nothing_landed),),
        "backfilled_for_months",
    ),
)
