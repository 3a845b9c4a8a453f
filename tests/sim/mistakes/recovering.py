"""Mistakes with a ledger that was restored, and with a history that was cut."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.sim.faults import Kind
from tests.sim.planting import Bug, Strike, replaced
from tidegate.core.publication import NotPublished, Unprovable
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


def _the_floor_itself(real: Any) -> Any:
    def verdict(history: Any, batch: str, floor: Any) -> Any:
        found = real(history, batch, floor)
        there = any(each.id == floor.head for each in history.ancestors)
        return found if there or not isinstance(found, NotPublished) else Unprovable("the floor is not there")

    return verdict


def _undecided(real: Any) -> Any:
    return lambda body: replace(real(body), undecided=True)


def _for_no_table(real: Any) -> Any:
    return lambda body: replace(real(body), table="")


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
    Bug(
        "the floor must be there itself",
        "A history that begins right above the floor is taken for one that does not reach it: a person has to decide.",
        (replaced("tidegate.core.publication:verdict", _the_floor_itself),),
        "expired_to_the_floor",
    ),
    Bug(
        "decided unasked",
        "A person may decide about any batch that has halted, whatever its last attempt has said.",
        (replaced("tidegate.core.receipts:decode_failure", _undecided, within="tidegate.flows.decide"),),
        "decided_unasked",
    ),
    Bug(
        "a manifest for any table",
        "A batch whose manifest names another table than its header is handed off to the header's.",
        (replaced("tidegate.core.manifests:decode_sealed", _for_no_table, within="tidegate.flows.seal"),),
        "sealed_anew_for_another_table",
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
