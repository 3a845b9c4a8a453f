"""Settling: what the table decided is recorded once, what failed is tried again, and the route keeps moving."""

import contextlib
from dataclasses import replace
from typing import Any

import pytest

from tests.support.build import BUCKET, ETAG, notice
from tests.support.fakes import (
    Died,
    Life,
    every_death,
    play_fencing,
    play_giving_up,
    play_publishing,
)
from tests.support.ledgers import RETENTION
from tests.support.world import World, small_world
from tidegate.core.batches import Batch, JobState, State, Step
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.manifests import batch_folder
from tidegate.core.notices import Notice
from tidegate.core.outcomes import ABANDONED, Outcome, Tally
from tidegate.core.receipts import Outcomes, Receipt
from tidegate.core.records import DAY, RouteRecord, batch_key
from tidegate.core.uploads import Upload
from tidegate.flows.abort import Aborted, abort
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import JobReport
from tidegate.flows.resume import Resumed, resume
from tidegate.flows.settle import SETTLED, advance, settle, settle_all, settle_batch, step_aside_if_due
from tidegate.flows.status import ORDINARY_JOB, Standing, standing, status
from tidegate.flows.trace import trace
from tidegate.metrics import Metric
from tidegate.schedule import SCHEDULE
from tidegate.stores.memory import MemoryStore


def look(world: World, batch_id: str) -> Step:
    return look_at(world, world.batch(batch_id))


def look_at(world: World, batch: Batch, ledger: Any = None) -> Step:
    return settle_batch(world.flights, batch, replace(world.ports, ledger=ledger or world.ledger))


def conserved(world: World) -> bool:
    return all(each.uploads.holds for each in status([world.flights], world.ports))


# ---- a receipt


def test_a_published_batch_is_committed_with_its_endings_and_sums(world: World):
    batch = world.submitted()
    bad, gone, good = (f"flights/0000-{number:05}.json" for number in range(3))
    ends = {bad: (Outcome.QUARANTINED, "line 3 is no JSON"), gone: (Outcome.VANISHED, "")}
    play_publishing(world.work, batch.id, ends, rows=10)
    world.jobs.end(batch.id, 1)
    world.clock.advance(60)
    assert world.settle() == []
    found = world.batch(batch.id)
    tally = Tally(committed=1, quarantined=1, vanished=1, rows=10)
    assert (found.state, found.snapshot, found.tally, found.ended_at) == (State.COMMITTED, 77, tally, world.clock.now)
    assert (world.claim(bad).outcome, world.claim(bad).error) == ("quarantined", "line 3 is no JSON")
    assert (world.claim(gone).outcome, world.claim(good).outcome) == ("vanished", "")
    assert world.record == RouteRecord(
        "flights", jobs=1, notified=3, tally=tally, committed_batches=1, quarantined_since=world.clock()
    )
    assert world.count.of(Metric.BATCHES_COMMITTED, "flights") == 1
    assert {metric: world.count.of(metric, "flights") for metric in SETTLED.values()} == {
        Metric.SETTLED_COMMITTED: 1,
        Metric.SETTLED_QUARANTINED: 1,
        Metric.SETTLED_SUPERSEDED: 0,
        Metric.DUPLICATES_REFUSED: 0,
        Metric.SETTLED_VANISHED: 1,
        Metric.SETTLED_ROWS: 10,
        Metric.SETTLED_REJECTED: 0,
    }
    assert conserved(world)


def test_a_batch_that_a_setting_made_slow_is_counted(world: World):
    for number, why in enumerate(("", "write.parquet.row-group-size-bytes is set")):
        batch = world.submitted(prefix=f"flights/{number}-")
        receipt = replace(play_publishing(world.work, batch.id), slowly=why)
        world.work.put(f"{batch_folder(batch.id)}receipt.json", receipt.encode())
        assert world.settle() == []
        # a metric costs by the month, and most routes have no such batches
        assert world.count.values.get((Metric.BATCHES_SLOW, "flights"), 0) == number


def test_a_receipt_counts_before_its_job_has_ended(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED


def test_settling_again_records_nothing_twice(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, rows=10)
    for _ in range(3):
        assert world.settle() == []
    assert (world.record.tally.rows, world.record.committed_batches) == (30, 1)
    assert world.count[Metric.SETTLED_ROWS] == 30


def test_a_twin_that_was_faster_is_not_counted_again(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, rows=10)
    before = world.batch(batch.id)
    look_at(world, before)
    look_at(world, before)
    assert world.record.tally.rows == 30
    assert world.count[Metric.BATCHES_COMMITTED] == 1


def test_a_receipt_of_a_halted_batch_still_commits_it(world: World):
    batch = halted(world)
    play_publishing(world.work, batch.id)
    assert world.settle() == []
    found = world.batch(batch.id)
    assert (found.state, found.halted) == (State.COMMITTED, "")


def test_a_receipt_of_an_earlier_attempts_driver_commits_the_batch(world: World):
    batch = world.submitted()
    world.jobs.end(batch.id, 1)
    world.wait()
    world.settle()
    assert world.batch(batch.id).attempt == 2
    play_publishing(world.work, batch.id)  # the first driver was not dead at all
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED


def test_a_receipt_that_accounts_for_fewer_uploads_than_the_header_is_refused(world: World):
    batch = world.submitted()
    play_receipt(world, batch.id, Tally(committed=batch.objects - 1, rows=5))
    (trouble,) = world.settle()
    assert isinstance(trouble, OutcomeUnknown)
    assert f"{batch.id}: its receipt accounts for 2 uploads, its header for 3" in str(trouble)
    found = world.batch(batch.id)
    assert (found.state, found.halted) == (State.SUBMITTED, str(trouble))
    assert world.record.tally == Tally()
    # and nothing more is started for it, however often somebody looks
    world.jobs.end(batch.id, 1)
    world.settle()
    assert len(world.jobs.started) == 1


def play_receipt(world: World, batch_id: str, tally: Tally) -> None:
    digest = world.batch(batch_id).manifest
    world.work.put(f"{batch_folder(batch_id)}outcomes/76.jsonl.gz", Outcomes(76, False, tally).encode())
    world.work.put(f"{batch_folder(batch_id)}receipt.json", Receipt(batch_id, 77, 76, False, tally, digest).encode())


def test_a_receipt_without_its_outcomes_is_refused(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id)
    del world.work.objects[f"{batch_folder(batch.id)}outcomes/76.jsonl.gz"]
    (trouble,) = world.settle()
    assert isinstance(trouble, OutcomeUnknown)
    assert "outcomes/76.jsonl.gz is missing" in str(trouble)
    found = world.batch(batch.id)
    assert (found.state, found.halted) == (State.SUBMITTED, str(trouble))
    # once they are back it ends by itself
    play_publishing(world.work, batch.id)
    assert world.settle() == []
    assert (world.batch(batch.id).state, world.batch(batch.id).halted) == (State.COMMITTED, "")


def test_the_outcomes_of_another_staged_snapshot_are_not_believed(world: World):
    batch = world.submitted()
    key = "flights/0000-00000.json"
    # a twin staged when the file was gone; what was published had read it
    play_publishing(world.work, batch.id, {key: (Outcome.VANISHED, "")}, snapshot=50, receipt=False)
    play_publishing(world.work, batch.id, snapshot=77)
    assert world.settle() == []
    assert world.claim(key).outcome == ""
    assert world.record.tally.committed == 3


def test_endings_are_recorded_before_the_batch_ends_so_that_they_cannot_be_missed(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, {"flights/0000-00000.json": (Outcome.QUARANTINED, "bad")})

    class DiesBeforeCommit:
        def __getattr__(self, name: str) -> Any:
            if name == "commit":
                raise Died(name)
            return getattr(world.ledger, name)

    with pytest.raises(Died):
        look_at(world, world.batch(batch.id), DiesBeforeCommit())
    assert world.claim("flights/0000-00000.json").outcome == "quarantined"
    assert world.batch(batch.id).state is State.SUBMITTED


@pytest.mark.parametrize(("per_look", "looks"), [(1, 3), (2, 2), (3, 1), (100, 1)])
def test_a_batch_of_too_many_endings_for_one_look_is_settled_in_several(
    world: World, monkeypatch: pytest.MonkeyPatch, per_look: int, looks: int
):
    monkeypatch.setattr("tidegate.flows.settle.ENDINGS_PER_WRITE", 2)
    monkeypatch.setattr("tidegate.flows.settle.ENDINGS_PER_LOOK", per_look)
    batch = world.submitted()
    keys = [f"flights/0000-{number:05}.json" for number in range(3)]
    play_publishing(world.work, batch.id, dict.fromkeys(keys, (Outcome.QUARANTINED, "no JSON")))
    for look_number in range(1, looks + 1):
        assert world.batch(batch.id).state is State.SUBMITTED
        assert world.settle() == []
        recorded = [world.claim(key).outcome for key in keys].count("quarantined")
        assert recorded == min(3, look_number * per_look)
    assert world.batch(batch.id).state is State.COMMITTED
    assert world.record.tally.quarantined == 3
    assert len(world.jobs.started) == 1


# ---- the same bytes again, while it was open how they would end


def written(sequencer: str) -> Upload:
    """An upload to an unversioned bucket: its bytes name it, its sequencer says when."""
    return Upload(BUCKET, "flights/a.json", f"etag:{ETAG}", 10, sequencer)


def deleted_and_uploaded_again(world: World) -> tuple[Batch, Notice]:
    """A job found the file deleted; it was uploaded again before anybody knew."""
    first = notice(written("00A1"))
    world.dispatch(first)
    batch = world.open
    assert world.ledger.seal(batch.id, "flights")
    world.hand_off()
    world.dispatch(notice(written("00A2")))
    assert world.topic.published == []
    play_publishing(world.work, batch.id, {"flights/a.json": (Outcome.VANISHED, "")})
    return world.batch(batch.id), first


def test_what_came_again_before_its_end_was_known_is_sent_again(world: World):
    batch, first = deleted_and_uploaded_again(world)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED
    (made,) = world.topic.published
    (entry,) = made.entries
    assert (made.origin, entry.upload.sequencer, entry.takes_from) == ("again", "00A2", first.id)
    assert world.count.of(Metric.UPLOADS_AGAIN, "flights") == 1
    world.dispatch(made)
    assert world.open.objects == 1
    assert conserved(world)


def test_a_batch_does_not_end_before_what_came_again_is_sent(world: World):
    batch, _ = deleted_and_uploaded_again(world)
    world.topic.broken = True
    assert [type(trouble) for trouble in world.settle()] == [Retryable]
    assert world.batch(batch.id).state is State.SUBMITTED
    world.topic.broken = False
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED
    assert len(world.topic.published) == 1


def test_wherever_settling_dies_what_came_again_is_sent_and_lands_once():
    for life in every_death(12):
        world = small_world()
        batch, _ = deleted_and_uploaded_again(world)
        with contextlib.suppress(Died):
            settle_batch(
                world.flights,
                world.batch(batch.id),
                life.over(world.ports),
            )
        assert world.settle() == []
        assert world.batch(batch.id).state is State.COMMITTED
        assert len({made.id for made in world.topic.published}) == 1
        for made in world.topic.published:
            world.dispatch(made)
        assert world.open.objects == 1


def test_a_ledger_that_does_not_answer_halts_nothing(world: World, monkeypatch: pytest.MonkeyPatch):
    """Halting is for what a person must look at; an answer that got lost passes."""
    batch = world.submitted()
    play_publishing(world.work, batch.id, {"flights/0000-00000.json": (Outcome.QUARANTINED, "no JSON")})

    def no_answer(*_: Any) -> None:
        raise OutcomeUnknown("no answer")

    with monkeypatch.context() as silent:
        silent.setattr(Ledger, "record_endings", no_answer)
        assert [str(trouble) for trouble in world.settle()] == ["no answer"]
    assert world.batch(batch.id).halted == ""
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED


# ---- a fence


def test_a_fence_receipt_abandons_the_batch_and_its_uploads_stay_pending(world: World):
    batch = world.submitted()
    play_fencing(world.work, batch.id)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.ABANDONED
    assert (world.record.abandoned_batches, world.record.abandoned_objects, world.record.running) == (1, 3, ())
    assert world.claim("flights/0000-00000.json").outcome == ABANDONED
    (found,) = trace(BUCKET, "flights/0000-00000.json", world.ports)
    assert found.outcome == "pending"
    assert world.count.of(Metric.BATCHES_ABANDONED, "flights") == 1
    assert conserved(world)
    (found,) = status([world.flights], world.ports)
    assert found.uploads.pending == 3


def test_a_fenced_batch_that_misses_a_part_halts_until_the_part_is_seen_again(world: World):
    """The uploads of a part that is not to be seen would never be told that their owner let go of them."""
    batch = world.submitted()
    (part,) = world.parts(batch.id)
    name = batch_folder(batch.id) + part
    body = world.work.get(name)
    assert body is not None
    del world.work.objects[name]
    play_fencing(world.work, batch.id)
    (trouble,) = world.settle()
    assert isinstance(trouble, OutcomeUnknown)
    assert str(trouble) == world.batch(batch.id).halted == f"batch {batch.id}: {part} is missing in the work bucket"
    assert world.batch(batch.id).state is State.SUBMITTED
    world.work.put(name, body)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.ABANDONED
    assert world.claim("flights/0000-00000.json").outcome == ABANDONED


def test_a_fenced_batch_whose_manifest_is_gone_is_abandoned_by_what_is_registered(world: World):
    batch = world.submitted()
    del world.work.objects[batch_folder(batch.id) + "sealed.json"]
    play_fencing(world.work, batch.id)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.ABANDONED


def test_an_aborted_batch_is_abandoned_once_its_fence_is_in_the_table(world: World):
    batch = world.submitted()
    assert abort(batch.id, world.ports) is Aborted.FENCING
    assert world.settle() == []
    assert world.jobs.started[-1] == (batch.id, 2, True)
    assert world.record.jobs == 2
    assert world.batch(batch.id).state is State.SUBMITTED
    play_fencing(world.work, batch.id)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.ABANDONED


def plain(sequencer: str) -> Notice:
    """A notice of one upload to an unversioned bucket; the same bytes each time."""
    return notice(Upload(BUCKET, "flights/a.json", f"etag:{ETAG}", 10, sequencer))


def test_a_batch_that_was_being_fenced_goes_on_being_fenced_when_it_is_resumed(world: World):
    """Publishing it now would land what a person has given up."""
    batch = world.submitted()
    abort(batch.id, world.ports)
    world.settle()
    for attempt in (2, 3):
        world.jobs.end(batch.id, attempt)
        world.wait()
        world.settle()
    assert world.batch(batch.id).halted
    assert resume(batch.id, world.ports) is Resumed.DONE
    world.settle()
    assert world.batch(batch.id).fencing
    assert {fencing for _, attempt, fencing in world.jobs.started if attempt > 1} == {True}


@pytest.mark.parametrize("written", ["before the fence is settled", "after it"])
def test_the_same_bytes_that_come_while_their_batch_is_given_up_are_sent_again(world: World, written: str):
    world.dispatch(plain("01"))
    batch = world.open
    assert world.ledger.seal(batch.id, "flights")
    assert world.hand_off() == 1
    abort(batch.id, world.ports)
    if written == "before the fence is settled":
        world.dispatch(plain("02"))
        assert world.claim("flights/a.json").later == "02"
    world.settle()
    play_fencing(world.work, batch.id)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.ABANDONED
    if written == "after it":
        world.dispatch(plain("02"))
    (again,) = world.topic.published
    assert again.entries[0].takes_from == world.claim("flights/a.json").notice
    world.dispatch(again)
    assert world.open.objects == 1
    assert world.claim("flights/a.json").notice == again.id


def test_a_batch_too_large_for_one_look_is_abandoned_in_several(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.settle.ENDINGS_PER_LOOK", 2)
    monkeypatch.setattr("tidegate.flows.settle.ENDINGS_PER_WRITE", 1)
    batch = world.submitted()
    play_fencing(world.work, batch.id)
    assert world.settle() == []
    assert (world.batch(batch.id).state, world.batch(batch.id).endings) == (State.ABANDONED, 1), "it is one part"


def test_a_batch_of_many_parts_is_abandoned_in_looks_that_read_each_part_once(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tidegate.flows.settle.ENDINGS_PER_LOOK", 40)
    world.arrive(2, notices=5)
    batch = world.open
    world.ledger.seal(batch.id, "flights", world.flights.dataset.table)
    world.hand_off()
    play_fencing(world.work, batch.id)
    read: list[str] = []
    get = world.work.get
    monkeypatch.setattr(world.work, "get", lambda name: read.append(name) or get(name))
    for looks, written in ((1, 2), (2, 4), (3, 5)):
        assert world.settle() == []
        assert world.batch(batch.id).endings == written, looks
    assert world.batch(batch.id).state is State.ABANDONED
    parts = [name for name in read if "/parts/" in name]
    assert len(parts) <= 5 + 2, "a look may read one part more than it has time for"
    assert {world.claim(f"flights/{each:04}-00001.json").outcome for each in range(5)} == {ABANDONED}


def test_a_batch_that_halted_for_longer_than_the_ledger_remembers_can_be_given_up(world: World):
    batch = world.submitted()
    world.clock.advance(RETENTION + 3 * DAY)
    abort(batch.id, world.ports)
    world.settle()
    play_fencing(world.work, batch.id)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.ABANDONED


def test_what_gathers_behind_a_halted_batch_is_sealed_before_the_ledger_forgets_it(world: World):
    halted = world.submitted()
    world.arrive(prefix="flights/behind")
    behind = world.open.id
    world.clock.advance(DAY)
    world.settle()
    assert world.batch(behind).state is State.SEALED
    assert world.batch(behind).manifest
    world.clock.advance(RETENTION + 3 * DAY)
    play_publishing(world.work, halted.id)
    world.settle()
    world.settle()
    assert world.batch(behind).state is State.SUBMITTED


def test_an_aborted_batch_whose_driver_was_faster_is_committed(world: World):
    batch = world.submitted()
    abort(batch.id, world.ports)
    world.settle()
    play_publishing(world.work, batch.id)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED


def test_the_uploads_of_an_abandoned_batch_land_through_a_resend_and_are_counted_once(world: World):
    sent = world.arrive()
    batch_id = world.open.id
    world.ledger.seal(batch_id, "flights")
    world.hand_off()
    play_fencing(world.work, batch_id)
    world.settle()
    keys = [entry.upload.key for entry in sent[0].entries]
    world.dispatch(notice(*keys, origin="resend:1", takes_from=sent[0].id))
    world.clock.advance(301)
    world.settle()
    (again,) = world.record.running
    play_publishing(world.work, again)
    world.settle()
    assert (world.batch(again).state, world.record.tally.committed) == (State.COMMITTED, 3)
    assert conserved(world)


# ---- no receipt


def test_a_job_that_ended_without_a_receipt_is_tried_again(world: World):
    batch = world.submitted()
    world.jobs.end(batch.id, 1, "the driver was killed")
    world.wait()
    assert world.settle() == []
    found = world.batch(batch.id)
    assert (found.attempt, found.job_run, found.halted) == (2, f"{batch.id}/2", "")
    assert world.jobs.started == [(batch.id, 1, False), (batch.id, 2, False)]
    assert world.count.of(Metric.ATTEMPTS_FAILED, "flights") == 1


def runs(world: World, batch: Batch) -> bool:
    return world.jobs.runs[batch.job_run].state is JobState.ACTIVE


def looked_at_each_minute(world: World, minutes: int) -> dict[int, int]:
    """The attempts that begin while settling looks once a minute and every job fails at once: number, and the minute
    of its beginning, counted from now."""
    (batch_id,) = world.record.running
    begun: dict[int, int] = {}
    for minute in range(minutes):
        batch = world.batch(batch_id)
        begun.setdefault(batch.attempt, minute)
        if runs(world, batch):
            world.jobs.end(batch_id, batch.attempt, "the catalog does not answer")
        world.clock.advance(60)
        assert world.settle() == []
    return begun


def test_each_further_attempt_begins_in_its_minute():
    world = small_world()
    world.submitted()
    assert looked_at_each_minute(world, 110) == {1: 0, 2: 2, 3: 10, 4: 42, 5: 102}
    (batch,) = (world.batch(each) for each in world.record.running)
    assert batch.halted == "the catalog does not answer", "the last one is not waited after"
    assert world.count.of(Metric.ATTEMPTS_FAILED, "flights") == 4


@pytest.mark.parametrize("begins", [0, 1, 5, 30, 59])
def test_with_the_defaults_an_outage_of_an_hour_halts_nothing_and_needs_nobody(begins: int):
    """The outage begins some minutes before the batch is submitted or with it: each job that begins in it fails."""
    world = small_world()
    batch = world.submitted()
    looked_at_each_minute(world, 60 - begins)
    assert not world.batch(batch.id).halted
    # the catalog answers again: the next attempt, or one that has begun just now, publishes
    while not runs(world, world.batch(batch.id)):
        assert not world.batch(batch.id).halted
        world.clock.advance(60)
        assert world.settle() == []
        assert world.clock.now - batch.submitted_at < 3 * 3600
    play_publishing(world.work, batch.id)
    world.settle()
    assert world.batch(batch.id).state is State.COMMITTED


def test_a_job_that_took_longer_than_the_wait_is_followed_at_once(world: World):
    batch = world.submitted()
    world.clock.advance(121)
    assert look(world, batch.id) is Step.WAIT
    world.jobs.end(batch.id, 1)
    assert look(world, batch.id) is Step.NEXT_ATTEMPT


def test_a_driver_that_was_given_up_may_publish_while_the_next_attempt_is_waited_for(world: World):
    batch = world.submitted()
    world.jobs.end(batch.id, 1)
    assert look(world, batch.id) is Step.WAIT
    play_publishing(world.work, batch.id)
    assert look(world, batch.id) is Step.SETTLE
    assert (world.batch(batch.id).state, len(world.jobs.started)) == (State.COMMITTED, 1)


def test_a_batch_that_waits_can_be_given_up_at_once(world: World):
    batch = world.submitted()
    world.jobs.end(batch.id, 1)
    assert look(world, batch.id) is Step.WAIT
    assert abort(batch.id, world.ports) is Aborted.FENCING
    world.settle()
    assert world.jobs.started[-1] == (batch.id, 2, True)


def test_a_refused_start_is_tried_each_minute_and_uses_up_no_attempt(world: World, monkeypatch: pytest.MonkeyPatch):
    """EMR Serverless is away, or the role is missing, for longer than all the waits."""
    batch = world.sealed()

    def refused(batch: Batch, *arguments: Any, **named: Any) -> str:
        raise Retryable(f"could not start the job of batch {batch.id}, attempt 1: ValidationException: no such role")

    with monkeypatch.context() as patched:
        patched.setattr(world.jobs, "start", refused)
        with pytest.raises(Retryable):
            world.hand_off()
        for _ in range(180):
            world.clock.advance(60)
            (trouble,) = world.settle()
            assert batch.id in str(trouble)
            assert "no such role" in str(trouble)
    found = world.batch(batch.id)
    assert (found.state, found.attempt, found.job_run, found.halted) == (State.SUBMITTED, 1, "", "")
    (traced,) = trace(BUCKET, "flights/0000-00000.json", world.ports)
    assert "no job of it is on record yet: every minute settling looks for" in traced.explanation
    # the role is there: nobody has to resume the batch
    assert world.settle() == []
    assert world.jobs.started == [(batch.id, 1, False)]


def test_a_job_that_runs_is_waited_for(world: World):
    batch = world.submitted()
    for _ in range(3):
        world.clock.advance(3600)
        assert look(world, batch.id) is Step.WAIT
    assert len(world.jobs.started) == 1


def test_a_job_event_that_got_lost_is_made_up_for_by_the_schedule(world: World):
    # settle takes no argument from the event: whoever calls it, for whatever reason, it looks at everything
    batch = world.submitted()
    play_publishing(world.work, batch.id)
    world.jobs.end(batch.id, 1)
    world.clock.advance(3600)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED


def exhausted(world: World) -> Batch:
    batch = world.submitted()
    for attempt in (1, 2, 3):
        play_giving_up(world.work, batch.id, attempt, f"reason {attempt}", hopeless=False)
        world.jobs.end(batch.id, attempt, f"details {attempt}")
        world.wait()
        world.settle()
    return world.batch(batch.id)


def test_a_batch_out_of_attempts_is_halted_with_the_last_reason(world: World):
    batch = exhausted(world)
    assert (batch.state, batch.attempt, batch.halted) == (State.SUBMITTED, 3, "reason 3")
    assert len(world.jobs.started) == 3
    assert world.count.of(Metric.BATCHES_HALTED, "flights") == 1
    assert world.count[Metric.ATTEMPTS_FAILED] == 2
    assert conserved(world)


def test_a_halted_batch_is_left_alone_and_counted_once(world: World):
    batch = exhausted(world)
    for _ in range(3):
        assert world.settle() == []
    assert world.batch(batch.id) == batch
    assert world.count[Metric.BATCHES_HALTED] == 1


@pytest.mark.parametrize(
    ("details", "reason"), [("out of memory", "out of memory"), ("", "the job ended without a receipt or a reason")]
)
def test_a_job_that_left_no_reason_halts_with_the_services_words(details: str, reason: str):
    world = small_world(attempts=1)
    batch = world.submitted()
    world.jobs.end(batch.id, 1, details)
    world.settle()
    assert world.batch(batch.id).halted == reason


def test_a_hopeless_attempt_halts_at_once(world: World):
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "the floor is gone", hopeless=True)
    world.jobs.end(batch.id, 1)
    assert look(world, batch.id) is Step.HALT
    assert world.batch(batch.id).halted == "the floor is gone"
    assert len(world.jobs.started) == 1


def test_a_hopeless_attempt_whose_job_still_runs_is_waited_for(world: World):
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "the floor is gone", hopeless=True)
    assert look(world, batch.id) is Step.WAIT
    assert world.batch(batch.id).halted == ""


def test_the_reason_of_an_earlier_attempt_does_not_halt_a_later_one(world: World):
    batch = halted(world)
    assert resume(batch.id, world.ports) is Resumed.DONE
    world.settle()
    world.jobs.end(batch.id, 2)
    world.wait()
    assert look(world, batch.id) is Step.NEXT_ATTEMPT


def halted(world: World) -> Batch:
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "the floor is gone", hopeless=True)
    world.jobs.end(batch.id, 1)
    world.settle()
    return world.batch(batch.id)


# ---- a halted batch steps aside


HOUR = 60 * 60


def stepped_aside(world: World) -> Batch:
    batch = halted(world)
    world.clock.advance(HOUR)
    assert world.settle() == []
    assert world.record.aside == (batch.id,)
    return world.batch(batch.id)


def test_the_route_goes_on_past_a_batch_that_has_been_halted_for_an_hour(world: World):
    batch = halted(world)
    behind = world.sealed(prefix="flights/behind")
    world.clock.advance(HOUR - 1)
    assert world.settle() == []
    assert (world.record.running, world.record.sealed) == ((batch.id,), (behind.id,))
    world.clock.advance(1)
    assert world.settle() == []
    assert (world.record.running, world.record.aside, world.record.sealed) == ((behind.id,), (batch.id,), ())
    assert world.jobs.started[-1] == (behind.id, 1, False)
    assert (world.batch(batch.id).state, world.batch(batch.id).halted) == (State.SUBMITTED, batch.halted)
    # it is reported as before, and its uploads are pending
    assert stands(world).halted == 1
    (told,) = status([world.flights], world.ports)
    assert (told.halted, told.uploads.pending) == ((world.batch(batch.id),), 6)
    assert conserved(world)


def test_what_is_aside_stays_there_and_gets_no_job(world: World):
    batch = stepped_aside(world)
    jobs = list(world.jobs.started)
    for _ in range(3):
        world.clock.advance(DAY)
        assert world.settle() == []
    assert (world.batch(batch.id), world.jobs.started) == (batch, jobs)


def test_a_zombie_that_publishes_what_is_aside_is_believed(world: World):
    batch = stepped_aside(world)
    behind = world.submitted(prefix="flights/behind")
    play_publishing(world.work, batch.id)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED
    assert (world.record.aside, world.record.running) == ((), (behind.id,))
    assert world.record.tally.committed == 3
    assert conserved(world)


def test_what_is_aside_is_resumed_beside_the_batch_that_went_past_it(world: World):
    batch = stepped_aside(world)
    behind = world.submitted(prefix="flights/behind")
    assert resume(batch.id, world.ports) is Resumed.DONE
    assert world.settle() == []
    assert world.jobs.started[-1] == (batch.id, 2, False)
    assert (world.record.running, world.record.aside) == ((batch.id, behind.id), ())
    for each in (batch, behind):
        play_publishing(world.work, each.id)
    assert world.settle() == []
    assert (world.record.unfinished, world.record.committed_batches) == ((), 2)


def test_what_is_resumed_and_halts_again_has_its_slot_for_another_hour(world: World):
    batch = stepped_aside(world)
    resume(batch.id, world.ports)
    world.settle()
    play_giving_up(world.work, batch.id, 2, "the floor is gone", hopeless=True)
    world.jobs.end(batch.id, 2)
    world.settle()
    assert world.batch(batch.id).halted
    world.clock.advance(HOUR - 1)
    world.settle()
    assert world.record.running == (batch.id,)
    world.clock.advance(1)
    world.settle()
    assert world.record.aside == (batch.id,)


def test_what_is_aside_is_given_up_as_any_other_batch(world: World):
    batch = stepped_aside(world)
    assert abort(batch.id, world.ports) is Aborted.FENCING
    assert (world.record.running, world.record.aside) == ((batch.id,), ())
    world.settle()
    play_fencing(world.work, batch.id)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.ABANDONED
    assert world.record.unfinished == ()


def test_a_batch_whose_files_differ_steps_aside_though_each_look_at_it_fails(world: World):
    batch = world.submitted()
    play_receipt(world, batch.id, Tally(committed=batch.objects - 1, rows=5))
    assert len(world.settle()) == 1
    world.clock.advance(HOUR)
    assert len(world.settle()) == 1
    assert world.record.aside == (batch.id,)
    behind = world.submitted(prefix="flights/behind")
    assert world.record.running == (behind.id,)
    assert len(world.settle()) == 1, "what is wrong with it is still told"


def test_a_batch_that_an_earlier_version_halted_counts_from_its_last_attempt(world: World):
    batch = halted(world)
    world.edit(batch_key(batch.id), halted_at=None)
    assert world.batch(batch.id).halted_at == 0
    world.clock.now = batch.submitted_at + HOUR
    world.settle()
    assert world.record.aside == (batch.id,)


def test_the_route_waits_as_long_as_its_setting_says():
    world = small_world(step_aside=DAY)
    batch = halted(world)
    world.clock.advance(DAY - 1)
    world.settle()
    assert world.record.running == (batch.id,)
    world.clock.advance(1)
    world.settle()
    assert world.record.aside == (batch.id,)


def test_a_batch_that_is_resumed_while_settling_looks_at_it_stays_in_work(world: World):
    batch = halted(world)
    world.clock.advance(HOUR)
    # settling has read the halted batch, and before it writes somebody resumes it
    life = Life(calls=1, before=lambda: resume(batch.id, world.ports))
    assert not step_aside_if_due(world.flights, batch, replace(world.ports, ledger=life.wrap(world.ledger)))
    assert (world.record.running, world.record.aside) == ((batch.id,), ())


# ---- resuming


def test_a_resumed_batch_is_started_by_the_next_look(world: World):
    batch = halted(world)
    assert resume(batch.id, world.ports) is Resumed.DONE
    assert world.settle() == []
    assert world.jobs.started[-1] == (batch.id, 2, False)
    assert world.record.jobs == 2
    play_publishing(world.work, batch.id)
    world.settle()
    assert world.batch(batch.id).state is State.COMMITTED


def test_whoever_is_overtaken_while_resuming_is_told_to_look_again(world: World):
    batch = halted(world)
    # the batch has been read, and before it is written somebody else resumes it
    life = Life(calls=2, before=lambda: resume(batch.id, world.ports))
    assert resume(batch.id, replace(world.ports, ledger=life.wrap(world.ledger))) is Resumed.MOVED_ON
    assert (world.batch(batch.id).attempt, world.batch(batch.id).fencing) == (2, False)


def test_a_batch_that_waits_between_attempts_gets_the_next_one_now(world: World):
    batch = world.submitted()
    world.settle()
    assert resume(batch.id, world.ports) is Resumed.NOT_HALTED, "its job runs"
    world.jobs.end(batch.id, 1)
    world.settle()
    assert world.batch(batch.id).attempt == 1, "it waits"
    other = Life(calls=2, before=lambda: resume(batch.id, world.ports))
    assert resume(batch.id, replace(world.ports, ledger=other.wrap(world.ledger))) is Resumed.MOVED_ON
    assert (world.batch(batch.id).attempt, world.record.running, world.record.jobs) == (2, (batch.id,), 2)
    world.settle()
    assert world.jobs.started[-1] == (batch.id, 2, False)
    world.jobs.end(batch.id, 2)
    play_publishing(world.work, batch.id)
    assert resume(batch.id, world.ports) is Resumed.NOT_HALTED, "it is in the table"
    world.settle()
    assert world.batch(batch.id).state is State.COMMITTED


def test_what_cannot_be_resumed_says_so(world: World):
    assert resume("01NEVER", world.ports) is Resumed.NO_SUCH_BATCH
    batch = world.sealed()
    assert resume(batch.id, world.ports) is Resumed.NOT_HALTED
    world.hand_off()
    play_publishing(world.work, batch.id)
    world.settle()
    assert resume(batch.id, world.ports) is Resumed.NOT_HALTED


def test_a_batch_that_runs_is_not_resumed(world: World):
    assert resume(world.submitted().id, world.ports) is Resumed.NOT_HALTED


def test_a_job_that_settling_starts_is_told_the_digest_of_the_manifest_that_it_found_missing(world: World):
    """A job without it would read any manifest, also that of another history."""
    batch = world.sealed()
    assert world.ledger.begin_attempt(batch.id, "flights", 1, 1)
    assert world.batch(batch.id).manifest == ""
    told: list[str] = []

    class Noting:
        code = ""
        report = world.jobs.report

        def start(self, batch: Batch, *arguments: Any, **named: Any) -> str | None:
            told.append(batch.manifest)
            return world.jobs.start(batch, *arguments, **named)

    assert settle_batch(world.flights, world.batch(batch.id), replace(world.ports, jobs=Noting())) is Step.HAND_OFF
    assert told == [world.batch(batch.id).manifest] != [""]


def test_a_job_run_that_the_service_forgot_has_ended(world: World):
    # the adapter says ENDED for it; here the whole of it: the next attempt asks the table first
    batch = world.submitted()
    world.jobs.runs[f"{batch.id}/1"] = JobReport(JobState.ENDED, "EMR Serverless does not know it any more")
    world.wait()
    assert look(world, batch.id) is Step.NEXT_ATTEMPT


def test_the_job_is_asked_before_the_receipt_is_looked_for(world: World):
    """A job writes its receipt and ends. Looked for in the other order, both could fall in between."""
    batch = world.submitted()

    class EndsWhileAsked:
        code = ""

        def report(self, job_run: str) -> JobReport:
            # at the moment of the answer it is running; right after it, it publishes and ends
            play_publishing(world.work, batch.id)
            return JobReport(JobState.ENDED)

    step = settle_batch(world.flights, batch, replace(world.ports, jobs=EndsWhileAsked()))
    assert step is Step.SETTLE
    assert len(world.jobs.started) == 1


# ---- how a route stands


def stands(world: World) -> Standing:
    return standing(world.flights, world.record, world.ports)


def test_the_oldest_batch_counts_from_when_it_was_opened_until_it_has_ended(world: World):
    assert stands(world) == Standing(oldest_pending=0, halted=0, unfinished=0)
    world.arrive()
    world.clock.advance(100)
    assert stands(world).oldest_pending == 100, "open"
    first = world.open.id
    world.ledger.seal(first, "flights")
    world.clock.advance(100)
    assert stands(world).oldest_pending == 200, "sealed"
    world.hand_off()
    world.clock.advance(100)
    world.arrive(prefix="flights/later-")
    world.clock.advance(100)
    assert stands(world).oldest_pending == 400, "submitted, and the open one is younger"
    play_publishing(world.work, first)
    world.settle()
    assert stands(world).oldest_pending == 100, "the younger one is left"


@pytest.mark.parametrize("max_wait", [60, 2 * DAY])
def test_a_batch_that_waits_and_runs_as_it_may_is_not_late(max_wait: int):
    world = small_world(max_wait=max_wait)
    world.submitted()
    world.clock.advance(max_wait + SCHEDULE + 2 * ORDINARY_JOB - 1)
    assert stands(world).late == 0
    world.clock.advance(1)
    assert stands(world).late == 1
    world.arrive(prefix="flights/later-")
    assert (stands(world).unfinished, stands(world).late) == (2, 1)


def test_a_batch_that_nothing_has_joined_is_not_pending(world: World):
    world.ledger.open_batch("flights", world.new_id)  # and whoever opened it died
    world.clock.advance(86_400)
    assert stands(world).oldest_pending == 0
    # from its first notice on it is as old as it looks: sealing takes it for that old, too
    world.arrive()
    assert stands(world).oldest_pending == 86_400
    assert world.seal_if_due()


def test_a_batch_that_stepped_aside_has_no_age_and_the_next_one_has():
    world = small_world(step_aside=0)
    first = world.submitted()
    world.ledger.halt(first.id, 1, "no such column")
    world.clock.advance(10_000)
    assert stands(world) == Standing(oldest_pending=10_000, halted=1, unfinished=1, late=1), "it has its slot"
    world.settle()
    assert world.record.aside == (first.id,)
    assert stands(world) == Standing(oldest_pending=0, halted=1, unfinished=1)
    world.arrive(prefix="flights/later-")
    world.clock.advance(100)
    assert stands(world).oldest_pending == 100
    resume(first.id, world.ports)
    assert stands(world).oldest_pending == 10_100, "it is under way again"


def test_what_gathers_in_a_paused_route_has_no_age_and_what_has_begun_has(world: World):
    batch = world.submitted()
    world.clock.advance(1_000)
    world.sealed(prefix="flights/sealed-")
    world.arrive(prefix="flights/open-")
    world.ledger.pause("flights")
    world.clock.advance(1_000)
    assert stands(world).oldest_pending == 2_000
    play_publishing(world.work, batch.id)
    world.settle()
    assert (stands(world).oldest_pending, stands(world).unfinished) == (0, 2)
    world.ledger.unpause("flights")
    assert stands(world).oldest_pending == 1_000


def test_a_batch_that_halts_over_its_files_is_counted_once(world: World):
    batch = world.sealed()
    (part,) = world.parts(batch.id)
    body = world.work.objects.pop(batch_folder(batch.id) + part)
    for _ in range(3):
        assert world.settle()
    assert world.count[Metric.BATCHES_HALTED] == 1
    assert world.batch(batch.id).halted
    world.work.objects[batch_folder(batch.id) + part] = body


def test_a_death_between_counting_a_halt_and_noting_it_counts_it_twice_and_not_never(world: World):
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "no such column", hopeless=True)
    world.jobs.end(batch.id, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "halt", dies)
        with pytest.raises(Died):
            settle(world.flights, world.ports)
    assert not world.batch(batch.id).halted
    world.settle()
    assert world.batch(batch.id).halted
    assert world.count[Metric.BATCHES_HALTED] == 2


def dies(*_: object, **__: object) -> None:
    raise Died("halt")


def test_a_batch_whose_receipt_is_not_believed_counts_as_halted_until_it_is(world: World):
    batch = world.submitted()
    play_receipt(world, batch.id, Tally(committed=batch.objects - 1, rows=5))
    world.settle()
    assert stands(world).halted == 1
    play_publishing(world.work, batch.id)
    assert world.settle() == []
    assert stands(world).halted == 0


# ---- trouble


def test_one_batch_in_trouble_holds_up_no_other():
    world = small_world(in_flight=2)
    one, two = world.sealed(prefix="flights/a-"), world.sealed(prefix="flights/b-")
    assert world.hand_off() == 2
    for batch in (one, two):
        play_publishing(world.work, batch.id)

    class Troubled:
        def report(self, job_run: str) -> JobReport:
            if job_run.startswith(one.id):
                raise Retryable(f"could not ask for {job_run}")
            return world.jobs.report(job_run)

    world.arrive(prefix="flights/c-")
    world.clock.advance(10_000)
    troubles = settle(world.flights, replace(world.ports, jobs=TroubledJobs(world, Troubled())))
    assert [str(trouble) for trouble in troubles] == [f"could not ask for {one.id}/1"]
    assert world.batch(one.id).state is State.SUBMITTED
    assert world.batch(two.id).state is State.COMMITTED
    # and the route went on with what had arrived
    assert len(world.jobs.started) == 3


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("receipt.json", "JSONDecodeError"),
        ("failures/1.json", "JSONDecodeError"),
        ("outcomes/76.jsonl.gz", "BadGzipFile"),
    ],
)
def test_a_file_that_cannot_be_read_is_trouble_of_its_batch_only(name: str, error: str):
    world = small_world(in_flight=2)
    one, two = world.sealed(prefix="flights/a-"), world.sealed(prefix="flights/b-")
    world.hand_off()
    for batch in (one, two):
        play_publishing(world.work, batch.id)
    world.work.put(batch_folder(one.id) + name, b"half a fi")
    (trouble,) = world.settle()
    assert f"settling batch {one.id}: {error}: " in str(trouble)
    assert world.batch(one.id).state is State.SUBMITTED
    assert world.batch(two.id).state is State.COMMITTED
    # repaired, it is settled as if nothing had been
    del world.work.objects[batch_folder(one.id) + name]
    play_publishing(world.work, one.id)
    assert world.settle() == []
    assert world.batch(one.id).state is State.COMMITTED


def test_a_batch_whose_manifest_is_in_the_way_is_tried_again_by_the_schedule_only(world: World):
    """Adding up its parts takes seconds, and dispatch looks after every message."""
    batch = world.sealed()
    (part,) = world.parts(batch.id)
    del world.work.objects[batch_folder(batch.id) + part]
    assert len(world.settle()) == 1
    assert world.batch(batch.id).halted

    def look_in(next_look: int) -> None:
        advance(world.flights, world.ports, next_look=next_look)

    look_in(0)
    with pytest.raises(OutcomeUnknown, match="its parts hold"):
        look_in(SCHEDULE)


class TroubledJobs:
    code = ""

    def __init__(self, world: World, reports: Any) -> None:
        self.start = world.jobs.start
        self.report = reports.report


def test_trouble_with_sealing_or_handing_off_is_returned_not_raised(world: World):
    world.arrive()
    world.clock.advance(10_000)

    class CannotSeal:
        def __getattr__(self, name: str) -> Any:
            if name == "seal":
                raise Retryable("could not seal")
            return getattr(world.ledger, name)

    (trouble,) = settle(world.flights, replace(world.ports, ledger=CannotSeal()))
    assert str(trouble) == "could not seal"
    assert world.settle() == []
    assert len(world.jobs.started) == 1


# ---- dying


def outline(world: World) -> dict[str, Any]:
    """Where everything stands in the end, without times."""
    record = world.record
    return {
        "route": (record.unfinished, record.jobs, record.notified, record.tally, record.committed_batches),
        "jobs": list(world.jobs.started),
        "claims": [(world.claim(f"flights/0000-{number:05}.json").outcome) for number in range(3)],
    }


def ready_to_commit(world: World) -> None:
    batch = world.submitted()
    play_publishing(world.work, batch.id, {"flights/0000-00001.json": (Outcome.QUARANTINED, "bad")}, rows=10)
    world.jobs.end(batch.id, 1)


def ready_for_the_next_attempt(world: World) -> None:
    batch = world.submitted()
    world.jobs.end(batch.id, 1)
    world.wait()


def ready_to_step_aside(world: World) -> None:
    halted(world)
    world.sealed(prefix="flights/behind")
    world.clock.advance(HOUR)


def ready_to_halt(world: World) -> None:
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "no floor", hopeless=True)
    world.jobs.end(batch.id, 1)


def ready_to_seal(world: World) -> None:
    world.arrive()
    world.clock.advance(301)


def settle_with(world: World, life: Life) -> None:
    settle(
        world.flights,
        life.over(world.ports),
    )


@pytest.mark.parametrize(
    "ready", [ready_to_commit, ready_for_the_next_attempt, ready_to_halt, ready_to_step_aside, ready_to_seal]
)
def test_dying_at_any_step_of_settling_and_looking_again_ends_the_same(ready: Any):
    world = small_world(max_wait=300)
    ready(world)
    life = Life()
    settle_with(world, life)
    world.settle()
    expected = outline(world)
    for death in every_death(life.made):
        world = small_world(max_wait=300)
        ready(world)
        mortal = Life(death.calls, death.after)
        with pytest.raises(Died):
            settle_with(world, mortal)
        for _ in range(2):
            assert world.settle() == []
        assert outline(world) == expected, f"died {'after' if death.after else 'before'} {mortal.last}"
        assert conserved(world)


# ---- group commit


def test_while_a_job_runs_a_thousand_uploads_in_many_notices_become_one_batch(world: World):
    first = world.submitted()
    for number in range(20):
        world.arrive(50, prefix=f"flights/later-{number:02}-")
        world.clock.advance(60)
        assert world.settle() == []
    gathering = world.open
    assert (gathering.notices, gathering.objects) == (20, 1000)
    assert len(world.jobs.started) == 1
    play_publishing(world.work, first.id)
    world.jobs.end(first.id, 1)
    assert world.settle() == []
    # the moment the job has ended, all of it goes as one
    assert world.batch(first.id).state is State.COMMITTED
    assert [batch for batch, *_ in world.jobs.started] == [first.id, gathering.id]
    assert world.record.running == (gathering.id,)
    play_publishing(world.work, gathering.id)
    assert world.settle() == []
    assert world.record.tally.committed == 1003
    assert (world.record.committed_batches, world.record.jobs) == (2, 2)
    assert conserved(world)


def test_at_a_trickle_no_upload_waits_longer_than_max_wait_for_its_job(world: World):
    begun = world.clock.now
    world.arrive(1)
    waited = None
    for _ in range(10):
        world.clock.advance(60)
        world.settle()
        if world.jobs.started:
            waited = world.clock.now - begun
            break
    assert waited is not None
    assert 180 <= waited <= 300


def test_uploads_that_arrive_while_the_batch_gathers_go_with_it(world: World):
    for number in range(4):
        world.arrive(1, prefix=f"flights/{number}")
        world.clock.advance(60)
        world.settle()
    world.clock.advance(60)
    world.settle()
    (batch_id,) = world.record.running
    assert world.batch(batch_id).objects == 4


def test_with_slots_a_route_runs_several_batches_at_once():
    world = small_world(max_wait=60, in_flight=3)
    for number in range(5):
        world.arrive(1, prefix=f"flights/{number}")
        world.clock.advance(60)
        world.settle()
    assert len(world.jobs.started) == 3
    assert world.open.objects == 2


def test_claims_are_looked_up_in_the_routes_bucket(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, {"flights/0000-00000.json": (Outcome.SUPERSEDED, "")})
    world.settle()
    assert world.ledger.claims(BUCKET, "flights/0000-00000.json")[0].outcome == "superseded"


def test_a_look_at_a_quiet_route_is_one_read(world: World):
    life = Life()
    assert settle(world.flights, life.over(world.ports)) == []
    assert (life.made, life.last) == (1, "route")


# ---- what a look costs


def _halted(world: World) -> None:
    batch = world.submitted()
    world.ledger.halt(batch.id, 1, "no")


def _gathers_beside_what_runs(world: World) -> None:
    world.submitted()
    world.arrive(prefix="flights/x/")


def _waits_for_the_slot(world: World) -> None:
    world.submitted()
    world.sealed(prefix="flights/y/")


def _gathers_beside_what_halted(world: World) -> None:
    _halted(world)
    world.arrive(prefix="flights/x/")


def _old_quarantine(world: World) -> None:
    batch = world.submitted()
    play_publishing(world.work, batch.id, {"flights/0000-00000.json": (Outcome.QUARANTINED, "no")})
    world.clock.advance(40 * DAY)


@pytest.mark.parametrize(
    "standing",
    [
        lambda world: None,
        World.submitted,
        _halted,
        _gathers_beside_what_runs,
        _waits_for_the_slot,
        _gathers_beside_what_halted,
        _old_quarantine,
    ],
    ids=["idle", "runs", "halted", "gathers beside", "waits", "gathers beside what halted", "quarantine"],
)
def test_a_look_that_changes_nothing_asks_for_no_write(standing: Any, monkeypatch: pytest.MonkeyPatch):
    """A refused write costs as a write does, once a minute and route."""
    world = small_world(max_wait=100 * DAY)
    standing(world)
    for _ in range(2):  # what is due
        world.clock.advance(SCHEDULE)
        settle_all(world.routes, world.ports)
    asked: list[Any] = []
    real = MemoryStore.apply
    monkeypatch.setattr(MemoryStore, "apply", lambda store, change: (asked.append(change), real(store, change))[1])
    for _ in range(3):
        world.clock.advance(SCHEDULE)
        settle_all(world.routes, world.ports)
    assert asked == []
