"""Mistakes with a restored ledger, and with a cut history."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from simulation.checker.planting import Bug, Strike, replaced
from simulation.world.faults import Kind
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
    def decide_published(batch: str, staged: int | None, ports: Any, **said: Any) -> Decision:
        decision: Decision = real(batch, staged, ports, **said)
        return real(batch, decision.staged[-1], ports, **said) if decision.staged else decision

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
        "Recovering does not restore the claims of a manifest's uploads.",
        (replaced(f"{RUN}.claims", _nothing),),
        "restored_to_the_beginning",
    ),
    Bug(
        "recovered without notices",
        "Recovering does not restore the notices of a manifest.",
        (replaced(f"{RUN}.notices", _nothing),),
        "restored_under_way",
    ),
    Bug(
        "strays are left where they are",
        "Uploads that the restored ledger has forgotten, and that no manifest lists, are not sent again.",
        (replaced(f"{RUN}._send", _nothing),),
        "restored_while_it_gathers",
    ),
    Bug(
        "recovered but for its header",
        "Recovering restores notices and claims, but not the header of their batch.",
        (replaced(f"{RUN}._put_right", _done_already),),
        "restored_under_way",
    ),
    Bug(
        "only young batches are recovered",
        "Recovering skips an unfinished batch that is older than the moment of the restore.",
        (replaced(f"{RUN}.batch_ids", _folders_only),),
        "restored_long_after",
    ),
    Bug(
        "the last staged snapshot is taken",
        "A decision that names no staged snapshot takes the last of several as the published one.",
        (replaced("tidegate.flows.decide:decide_published", _the_last_one),),
        "decided_in_vain",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 6),),
    ),
    Bug(
        "the floor must be there itself",
        "A history that begins right after the floor counts as not reaching it: a person has to decide.",
        (replaced("tidegate.core.publication:verdict", _the_floor_itself),),
        "expired_to_the_floor",
    ),
    Bug(
        "decided unasked",
        "A person may decide about any halted batch, whatever its last attempt reported.",
        (replaced("tidegate.core.receipts:decode_failure", _undecided, within="tidegate.flows.decide"),),
        "decided_unasked",
    ),
    Bug(
        "a manifest for any table",
        "If manifest and header name different tables, the batch is handed off to the header's.",
        (replaced("tidegate.core.manifests:decode_sealed", _for_no_table, within="tidegate.flows.seal"),),
        "sealed_anew_for_another_table",
    ),
)

HARMLESS = (
    Bug(
        "a decided batch is sealed again",
        "One more job finds the batch published.",
        (replaced(f"{RUN}._receipt", _never_decided),),
        "restored_to_the_beginning",
    ),
)
