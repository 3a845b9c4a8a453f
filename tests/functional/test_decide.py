"""A person decides what the table cannot say: the batch is in it, or it is not."""

from dataclasses import replace

import pytest

from tests.functional.conftest import World
from tests.support.fakes import Life, play_giving_up, play_publishing
from tidegate.core.batches import Batch, State
from tidegate.core.manifests import batch_folder, failure_name
from tidegate.core.outcomes import NO_TALLY
from tidegate.core.receipts import Failure, Outcomes, RejectedRows, decode_outcomes, decode_receipt
from tidegate.flows.abort import abort
from tidegate.flows.decide import Decided, Decision, decide_published, decide_unpublished
from tidegate.flows.resume import resume


def halted(world: World) -> Batch:
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "the table cannot say", hopeless=True, undecided=True)
    world.jobs.end(batch.id, 1)
    assert world.settle() == []
    assert world.batch(batch.id).halted
    return batch


def test_a_batch_that_is_not_in_the_table_is_attempted_with_a_floor_of_its_own(world: World):
    batch = halted(world)
    assert decide_unpublished(batch.id, world.ports) == Decision(Decided.DONE)
    found = world.batch(batch.id)
    assert (found.attempt, found.floors, found.halted) == (2, 1, "")
    assert world.settle() == []
    assert world.jobs.started[-1] == (batch.id, 2, False)
    assert world.record.jobs == 2


def test_whoever_is_overtaken_while_deciding_is_told_to_look_again(world: World):
    batch = halted(world)
    # the batch and its files have been read, and before it is written somebody else resumes it
    life = Life(calls=2, before=lambda: resume(batch.id, world.ports))
    decision = decide_unpublished(batch.id, replace(world.ports, ledger=life.wrap(world.ledger)))
    assert decision == Decision(Decided.MOVED_ON)
    assert (world.batch(batch.id).attempt, world.batch(batch.id).floors) == (2, 0)


def test_a_batch_that_was_being_fenced_is_fenced_by_the_attempt_that_is_decided_too(world: World):
    batch = halted(world)
    abort(batch.id, world.ports)
    world.settle()
    play_giving_up(world.work, batch.id, 2, "the table cannot say", hopeless=True, undecided=True)
    world.jobs.end(batch.id, 2)
    world.settle()
    assert decide_unpublished(batch.id, world.ports) == Decision(Decided.DONE)
    world.settle()
    assert world.jobs.started[-1] == (batch.id, 3, True)


def test_the_floor_stays_decided_for_later_attempts(world: World):
    batch = halted(world)
    decide_unpublished(batch.id, world.ports)
    world.settle()
    play_giving_up(world.work, batch.id, 2, "again", hopeless=True, undecided=True)
    world.jobs.end(batch.id, 2)
    world.settle()
    resume(batch.id, world.ports)
    assert world.batch(batch.id).floors == 1
    abort(batch.id, world.ports)
    assert (world.batch(batch.id).floors, world.batch(batch.id).fencing) == (1, True)


def test_a_batch_that_is_in_the_table_is_settled_by_what_its_driver_staged(world: World):
    batch = halted(world)
    play_publishing(world.work, batch.id, receipt=False, snapshot=77)
    assert decide_published(batch.id, None, world.ports) == Decision(Decided.DONE)
    assert world.settle() == []
    found = world.batch(batch.id)
    assert (found.state, found.snapshot, found.tally.committed) == (State.COMMITTED, 76, 3)


def test_the_receipt_says_what_the_driver_would_have_said(world: World):
    batch = halted(world)
    would_be = play_publishing(world.work, batch.id, receipt=False, snapshot=77)
    decide_published(batch.id, None, world.ports)
    body = world.work.get(f"batches/{batch.id}/receipt.json")
    assert body is not None
    # but for the snapshot that published it, which is not to be found any more
    assert decode_receipt(body) == replace(would_be, snapshot=76)
    assert would_be.manifest == world.batch(batch.id).manifest != ""


def test_of_several_that_staged_one_must_be_named(world: World):
    batch = halted(world)
    for snapshot in (77, 87):
        play_publishing(world.work, batch.id, receipt=False, snapshot=snapshot)
    assert decide_published(batch.id, None, world.ports) == Decision(Decided.WHICH, (76, 86))
    assert decide_published(batch.id, 99, world.ports) == Decision(Decided.WHICH, (76, 86))
    assert decide_published(batch.id, 86, world.ports) == Decision(Decided.DONE)
    world.settle()
    assert world.batch(batch.id).snapshot == 86


def test_what_was_never_staged_is_not_in_the_table(world: World):
    batch = halted(world)
    decision = decide_published(batch.id, None, world.ports)
    assert decision == Decision(Decided.NOT_STAGED)


@pytest.mark.parametrize("state", ["running", "committed", "unknown"])
def test_only_a_halted_batch_waits_for_a_decision(world: World, state: str):
    batch_id = world.submitted().id
    if state == "committed":
        play_publishing(world.work, batch_id)
        world.settle()
    if state == "unknown":
        batch_id = "01JNOTHERE"
    expected = Decision(Decided.NO_SUCH_BATCH if state == "unknown" else Decided.NOT_HALTED)
    assert decide_unpublished(batch_id, world.ports) == expected
    assert decide_published(batch_id, 1, world.ports) == expected


def test_what_the_table_has_answered_is_not_decided_again(world: World):
    batch = halted(world)
    play_publishing(world.work, batch.id)
    expected = Decision(Decided.RECEIPT)
    assert decide_unpublished(batch.id, world.ports) == expected
    assert decide_published(batch.id, 76, world.ports) == expected


def test_a_batch_that_halted_for_another_reason_needs_no_decision(world: World):
    """It may have no floor at all: a driver that wakes up late would write one above what is published meanwhile."""
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "the route's schema is not Spark DDL", hopeless=True)
    world.jobs.end(batch.id, 1)
    world.settle()
    expected = Decision(Decided.NOT_ASKED)
    assert decide_unpublished(batch.id, world.ports) == expected
    assert decide_published(batch.id, None, world.ports) == expected


def test_a_fence_is_not_taken_for_rows(world: World):
    batch = halted(world)
    fence = Outcomes(99, fence=True, tally=NO_TALLY)
    world.work.put(f"batches/{batch.id}/outcomes/99.jsonl.gz", fence.encode())
    decision = decide_published(batch.id, 99, world.ports)
    assert decision == Decision(Decided.NOT_STAGED)


def with_rejected(world: World, batch: Batch) -> None:
    """The driver has staged rows that do not fit, for a table of their own."""
    name = f"{batch_folder(batch.id)}outcomes/76.jsonl.gz"
    body = world.work.get(name)
    assert body is not None
    outcomes = replace(decode_outcomes(body), rejected=RejectedRows("lake.t__rejected", "uuid", 5, 2))
    world.work.put(name, outcomes.encode())


def test_whoever_says_that_it_is_published_is_asked_about_its_rejected_rows(world: World):
    batch = halted(world)
    play_publishing(world.work, batch.id, receipt=False, snapshot=77)
    with_rejected(world, batch)
    decision = decide_published(batch.id, None, world.ports)
    assert (decision.ended, decision.rejected and decision.rejected.rows) == (Decided.REJECTED, 2)
    assert world.work.get(batch_folder(batch.id) + "receipt.json") is None
    assert decide_published(batch.id, None, world.ports, rejected_done=True) == Decision(Decided.DONE)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED


def test_a_batch_that_halted_over_its_rejected_rows_gets_no_floor_of_its_own_table(world: World):
    """A new floor there would let it land a second time."""
    batch = world.submitted()
    failure = Failure(1, "its rejected rows cannot be proven", hopeless=True, undecided=True, rejected=True)
    world.work.put(failure_name(batch_folder(batch.id), 1), failure.encode())
    world.jobs.end(batch.id, 1)
    assert world.settle() == []
    assert decide_unpublished(batch.id, world.ports) == Decision(Decided.REJECTED)
    assert (world.batch(batch.id).attempt, world.batch(batch.id).floors) == (1, 0)
