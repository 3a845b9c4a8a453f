"""Mistakes with a ledger that was restored, and with a history that was cut."""

from collections.abc import Iterator
from typing import Any

from tests.sim.faults import Kind
from tests.sim.planting import Bug, Strike, replaced
from tidegate.flows.decide import Decision

RUN = "tidegate.flows.recover:_Run"


def _nothing(real: Any) -> Any:
    return lambda run, *_: None


def _folders_only(real: Any) -> Any:
    def batch_ids(run: Any) -> Iterator[str]:
        yield from run.work.folders("batches/", run.oldest)

    return batch_ids


def _never_decided(real: Any) -> Any:
    return lambda run, look: None


def _done_already(real: Any) -> Any:
    return lambda run, look, sealed: True


def _the_last_one(real: Any) -> Any:
    def decide_published(batch: str, staged: int | None, **ports: Any) -> Decision:
        decision: Decision = real(batch, staged, **ports)
        return real(batch, decision.staged[-1], **ports) if decision.staged else decision

    return decide_published


BUGS = (
    Bug(
        "recovered without claims",
        "A restored ledger is not told who has claimed what is in a manifest: its next notification is taken for new.",
        (replaced(f"{RUN}.claims", _nothing),),
        "restored_to_the_beginning",
    ),
    Bug(
        "recovered without notices",
        "A restored ledger is not told again which notices a manifest is made of.",
        (replaced(f"{RUN}.notices", _nothing),),
        "restored_under_way",
    ),
    Bug(
        "strays are left where they are",
        "What the restored ledger has forgotten, and no manifest lists, is not sent again.",
        (replaced(f"{RUN}._send", _nothing),),
        "restored_while_it_gathers",
    ),
    Bug(
        "recovered but for its header",
        "A restored ledger gets its notices and claims again, and no header of their batch.",
        (replaced(f"{RUN}._put_right", _done_already),),
        "restored_under_way",
    ),
    Bug(
        "only young batches are recovered",
        "A batch that is unfinished, and older than the moment that the ledger was restored to, is left as it is.",
        (replaced(f"{RUN}.batch_ids", _folders_only),),
        "restored_long_after",
    ),
    Bug(
        "whatever was staged last",
        "Of several staged snapshots a decision that names none takes the last one for the one that is published.",
        (replaced("tidegate.flows.decide:decide_published", _the_last_one),),
        "decided_in_vain",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 6),),
    ),
)

HARMLESS = (
    Bug(
        "what is decided is sealed again",
        "Recovering does not look for a receipt: a job more finds the batch published.",
        (replaced(f"{RUN}._receipt", _never_decided),),
        "restored_to_the_beginning",
    ),
)
