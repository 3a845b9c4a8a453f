"""A ledger is restored to every moment of a small history, told again what the work bucket knows, and worked with."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.build import BUCKET
from tests.support.fakes import Died, Life, MemoryTopic, play_fencing
from tests.support.history import EVERY_UPLOAD, ONCE_MORE, History, Items, packed, put_items, small_history, upload
from tests.support.world import small_world
from tidegate.core.batches import State
from tidegate.core.errors import Retryable
from tidegate.core.manifests import batch_folder
from tidegate.core.notices import Notice
from tidegate.core.outcomes import ABANDONED
from tidegate.core.records import RouteRecord
from tidegate.flows.abort import Aborted, abort
from tidegate.flows.ledger import Ledger
from tidegate.flows.recover import Recovered, SilentTopic, recover
from tidegate.flows.status import status
from tidegate.flows.trace import trace
from tidegate.stores.memory import Rehearsal
from tidegate.wiring import made_at

# many histories in each of some tests: minutes on a busy machine
pytestmark = pytest.mark.timeout(900)

NEW = upload("new")
SHARES = 4
"""Tests that the moments are shared out to, so that several workers can have them."""


@pytest.fixture(scope="module")
def history() -> History:
    return small_history()


def traffic(history: History) -> list[Notice]:
    """Every notice once more, all uploads packed otherwise, and a new one."""
    latest = {each.identity: each for each in (*EVERY_UPLOAD, ONCE_MORE)}
    return [*history.notices, packed(*latest.values()), packed(NEW)]


def moments(history: History, share: int, every: int = 1) -> list[tuple[int, Items]]:
    return list(enumerate(history.moments))[share * every :: SHARES * every]


def rehearsal(history: History) -> Ledger:
    return replace(history.world.ledger, store=Rehearsal(history.world.ledger.store))


def check(history: History) -> None:
    """Every upload is in the table once, the ledger says so of each, and nothing waits or has halted."""
    assert history.settle_down() == []
    assert history.landed == Counter({(each.key, each.version): 1 for each in (*EVERY_UPLOAD, NEW)})
    (shown,) = status([history.world.flights], history.world.ports)
    assert shown.unfinished == ()
    assert shown.uploads.holds
    assert shown.uploads.pending == 0
    assert shown.uploads.ended.committed == len(EVERY_UPLOAD) + 1
    for each in (*EVERY_UPLOAD, NEW):
        (told,) = trace(BUCKET, each.key, history.world.ports)
        assert told.outcome == "committed", each
        assert told.batch is not None
        assert told.batch.id in history.published


def test_the_history_is_what_it_is_said_to_be(history: History):
    history.restore(history.moments[-1])
    states = [history.world.batch(each).state for each in history.batches]
    assert states == [State.COMMITTED, State.SUBMITTED, State.SEALED, State.OPEN]
    assert [history.world.work.get(batch_folder(each) + "sealed.json") is not None for each in history.batches] == [
        *(True, True, True, False)
    ]
    assert len(history.moments) > 40


@pytest.mark.parametrize("share", range(SHARES))
def test_whenever_it_is_restored_to_every_upload_lands_once(history: History, share: int):
    for number, moment in moments(history, share):
        history.restore(moment)
        done = history.recover()
        assert done.complete, (number, done)
        # what was acknowledged is not delivered again
        history.dispatch(*history.sent(), packed(NEW))
        check(history)
        if number % 3 == 0:
            # or hours later, when all has landed
            history.dispatch(*traffic(history))
            check(history)


def test_the_last_moment_needs_nothing(history: History):
    history.restore(history.moments[-1])
    done = history.recover()
    # B2's receipt is there, and it is submitted: settling records it
    assert (done.claims, done.notices, done.sealed, done.submitted, done.sent) == (0, 0, 0, 0, 0)
    assert history.world.store.items == history.moments[-1]


@pytest.mark.parametrize("share", range(SHARES))
def test_a_rehearsal_counts_the_same_and_writes_nothing_and_a_second_recover_has_nothing_to_do(history: History, share):
    for number, moment in moments(history, share, every=3):
        history.restore(moment)
        rehearsed = history.recover(ledger=rehearsal(history), topic=SilentTopic())
        assert history.world.store.items == moment
        assert history.sent() == []
        done = history.recover()
        assert done == rehearsed, number
        again = history.recover()
        assert (again.claims, again.notices, again.sealed, again.submitted) == (0, 0, 0, 0), number


@pytest.mark.parametrize("share", range(SHARES))
def test_what_was_let_in_before_is_put_in_its_place(history: History, share: int):
    """All the traffic, and nothing is sealed yet: every batch that gathered can be put right."""
    for number, moment in moments(history, share, every=3):
        history.restore(moment)
        history.dispatch(*traffic(history))
        rehearsed = history.recover(ledger=rehearsal(history), topic=SilentTopic())
        done = history.recover()
        assert done == rehearsed, number
        assert done.complete, (number, done)
        history.dispatch(*history.sent(), *traffic(history))
        check(history)


WRITES = {"take_back", "write_notice", "void", "record_endings", "restore_batch", "publish"}


def mortal(history: History, life: Life) -> Recovered:
    world = history.world
    return history.recover(ledger=life.wrap(world.ledger), work=life.wrap(world.work), topic=life.wrap(world.topic))


def moment_when(history: History, holds: Callable[[RouteRecord], bool]) -> Items:
    """The first moment when the route's record is like that."""
    for moment in history.moments:
        put_items(history.world, moment)
        if holds(history.world.record):
            return moment
    raise AssertionError("the history has no such moment")


def early(history: History) -> Items:
    """The first batch gathers; all others are forgotten."""
    return moment_when(history, lambda record: bool(record.open_batch))


def late(history: History) -> Items:
    """The second batch gathers, the first is committed."""
    return moment_when(history, lambda record: bool(record.open_batch and record.committed_batches))


@pytest.mark.parametrize("let_in", [False, True], ids=["", "traffic-before"])
@pytest.mark.parametrize("moment", [early, late])
def test_whichever_call_it_dies_at_the_next_one_goes_on(history: History, moment, let_in):
    to = moment(history)
    # once: a notice that is voided meanwhile leaves its uploads to a new one, which is traffic from then on
    came = traffic(history)[::2] if let_in else []

    def begin() -> None:
        history.restore(to)
        history.dispatch(*came)

    begin()
    whole = Life()
    assert mortal(history, whole).complete
    assert len(WRITES & set(whole.names)) >= (4 if let_in else 3)
    # a call that only reads changes nothing: to die before it, or after, is to die after the write before
    deaths = [call for call, name in enumerate(whole.names, start=1) if name in WRITES]
    # of many alike, every other one
    for call in deaths[:: 2 if let_in else 1]:
        begin()
        with pytest.raises(Died):
            mortal(history, Life(call, after=True))
        assert history.recover().complete
        history.dispatch(*history.sent(), packed(NEW))
        check(history)


def test_two_at_once_do_what_one_does(history: History):
    """A second one runs as a whole before each call of the first that writes."""
    moment = early(history)
    history.restore(moment)
    whole = Life()
    mortal(history, whole)
    for call, name in enumerate(whole.names, start=1):
        if name not in WRITES:
            continue
        history.restore(moment)
        assert mortal(history, Life(call, before=history.recover)).complete
        history.dispatch(*history.sent(), packed(NEW))
        check(history)


def test_a_batch_that_was_sealed_with_other_uploads_is_put_right(history: History):
    """It gathered when the ledger was restored to, took in what came, was sealed, and halted."""
    for moment in (early(history), late(history)):
        history.restore(moment)
        batch = history.world.record.open_batch
        history.dispatch(*traffic(history))
        history.world.clock.advance(400)
        assert history.world.settle() != []
        assert history.world.batch(batch).halted
        assert history.recover().complete
        history.dispatch(*history.sent(), *traffic(history))
        check(history)


def test_a_batch_that_stepped_aside_and_fits_its_manifest_stays_aside():
    """To put it right would take it into a slot again, and its reason away from whoever has to act."""
    world = small_world()
    world.ledger.remember_route(world.flights)
    batch = world.submitted()
    world.ledger.halt(batch.id, 1, "no reason")
    assert world.ledger.step_aside(batch.id, "flights", 1)
    before = world.batch(batch.id), world.record
    done = recover(world.ports, configured=world.routes, oldest="", made_at=lambda _: 1)
    assert (done.complete, done.submitted, done.sealed) == (True, 0, 0)
    assert (world.batch(batch.id), world.record) == before


def test_what_was_sealed_anew_before_is_told_as_a_clash_and_ends_with_abort(history: History):
    """Everything forgotten, everything let in, and handed off: who has those uploads is not for us to say."""
    history.restore(history.moments[0])
    history.dispatch(*traffic(history))
    history.world.clock.advance(400)
    assert history.world.settle() == []
    (running,) = history.world.record.running
    done = history.recover()
    assert done.clashes
    assert all(running in (each.batch, each.other) for each in done.clashes)
    assert {each.batch for each in done.clashes} >= {*history.published, history.batches[2]}
    assert abort(running, history.world.ports) is Aborted.FENCING
    assert history.world.settle() == []
    play_fencing(history.world.work, running)
    for attempt in (1, 2):
        history.world.jobs.end(running, attempt)
    assert history.world.settle() == []
    assert history.world.batch(running).state is State.ABANDONED
    assert history.recover().complete
    assert history.settle_down() == []
    manifests = [each for each in EVERY_UPLOAD if not each.key.startswith("flights/e")]
    assert history.landed == Counter({(each.key, each.version): 1 for each in manifests})


def test_a_fence_is_remembered(history: History):
    """What was abandoned has ended for good, and its uploads are for whoever is made to take them."""
    history.restore(history.moments[0])
    fenced = history.batches[2]
    play_fencing(history.world.work, fenced)
    assert history.recover().complete
    history.dispatch(*history.sent())
    assert history.settle_down() == []
    world = history.world
    assert world.batch(fenced).state is State.ABANDONED
    (claim,) = world.ledger.claims(BUCKET, "flights/d1.json")
    assert claim.outcome == ABANDONED
    (shown,) = status([world.flights], world.ports)
    assert (shown.uploads.holds, shown.uploads.pending, shown.abandoned_batches) == (True, 2, 1)


def test_a_route_that_nobody_knows_is_told_and_left(history: History):
    history.restore(history.moments[0])
    world = history.world
    world.flights = replace(world.flights, name="renamed")
    try:
        done = history.recover()
    finally:
        world.flights = replace(world.flights, name="flights")
    assert done.unknown_routes == {"flights": history.batches[:3]}
    assert not done.complete
    # what is in no manifest goes to the route that would take it today
    assert done.sent == 3
    assert {each.route for each in history.sent()} == {"renamed"}
    assert world.store.items == {}


def test_a_route_of_its_batches_is_remembered_before_their_notices(history: History):
    """The configuration may lose it before settling runs again: its batches are finished all the same."""
    history.restore(history.moments[0])
    world = history.world
    assert world.ledger.known_route("flights") is None
    assert history.recover().complete
    assert world.ledger.known_route("flights") == world.flights


def test_a_missing_part_is_told_and_holds_up_no_other_batch(history: History):
    history.restore(history.moments[0])
    first, second, *_ = history.batches
    gone = next(name for name in history.world.work.names(f"batches/{first}/parts/"))
    del history.work.objects[gone]
    done = history.recover()
    assert done.troubles == [f"batch {first}: {gone} is missing in the work bucket; restore it and run this again"]
    assert history.world.ledger.batch(first) is None
    assert history.world.batch(second).state is State.SUBMITTED


def test_only_batches_since_then_and_those_that_have_not_ended_are_looked_at(history: History):
    history.restore(history.moments[-1])
    assert history.recover(oldest=history.batches[3]).batches == 3
    history.restore(history.moments[0])
    assert history.recover(oldest=history.batches[3]).batches == 1


def test_an_upload_that_no_route_takes_is_told(history: History):
    history.restore(history.moments[0])
    world = history.world
    world.flights = replace(world.flights, prefix="elsewhere/")
    try:
        done = history.recover()
    finally:
        world.flights = replace(world.flights, prefix="flights/")
    (trouble,) = done.troubles
    assert "no route takes s3://landing/flights/e" in trouble
    assert done.sent == 0


def test_nothing_is_put_right_while_the_topic_refuses(history: History):
    history.restore(late(history))
    history.dispatch(*traffic(history))
    world = history.world
    with pytest.raises(Retryable, match="the topic did not take the notice"):
        history.recover(topic=MemoryTopic(accepts=lambda notice: False))
    assert world.record.open_batch
    assert history.recover().complete


def test_what_is_sent_again_is_as_old_as_its_batch(history: History):
    """Not as the command: it may have landed, and been forgotten, since that batch gathered (rule 13)."""
    history.restore(history.moments[0])
    history.world.clock.advance(5_000)
    topic = MemoryTopic()
    history.recover(topic=topic)
    assert topic.published
    assert {each.at for each in topic.published} == {made_at(history.batches[3])}


def test_a_table_that_was_decided_when_the_batch_was_sealed_is_found_in_its_manifest(history: History):
    history.restore(history.moments[0])
    world = history.world
    dataset = world.flights.dataset
    world.flights = replace(world.flights, dataset=replace(dataset, table="lake.raw.other"))
    try:
        history.recover()
    finally:
        world.flights = replace(world.flights, dataset=dataset)
    assert {world.batch(each).table for each in history.batches[:3]} == {dataset.table}
