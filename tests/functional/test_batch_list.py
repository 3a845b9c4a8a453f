"""The batches of the past, a page at a time: all of them, once, newest first, and at a bounded price."""

from dataclasses import replace
from itertools import chain

import pytest

from tests.support.fakes import MemoryWork, play_giving_up, play_publishing
from tests.support.ledgers import RETENTION, START
from tests.support.past import DatedWorld, asked_of, dated_world
from tidegate import wiring
from tidegate.core.batches import State
from tidegate.core.manifests import batch_folder
from tidegate.core.records import batch_key
from tidegate.flows.batch_list import BATCHES, LISTED, BatchPage, Wanted, batch_page, newest_ids

IDS = wiring.BATCH_IDS
DAY = 24 * 60 * 60


@pytest.fixture
def world() -> DatedWorld:
    return dated_world()


ANY = Wanted()


def page(world: DatedWorld, wanted: Wanted = ANY, after: str = "", limit: int = 20) -> BatchPage:
    return batch_page(world.ports, IDS, wanted, after=after, limit=limit)


def ids(found: BatchPage) -> list[str]:
    return [each.batch.id for each in found.batches]


def test_a_deployment_without_a_past(world: DatedWorld):
    assert page(world) == BatchPage((), "", 0)


def test_batches_are_listed_newest_first_whatever_their_state(world: DatedWorld):
    first = world.land()
    world.clock.advance(DAY)
    second = world.land("flights/second-")
    running = world.submitted(prefix="flights/third-")
    world.clock.advance(5)
    world.arrive(prefix="flights/fourth-")
    found = page(world)
    assert ids(found) == [world.open.id, running.id, second, first]
    assert [each.batch.state for each in found.batches] == [
        *(State.OPEN, State.SUBMITTED, State.COMMITTED, State.COMMITTED)
    ]
    assert found.after == ""


def test_pages_follow_each_other_without_gap_or_repeat(world: DatedWorld):
    made = []
    for number in range(7):
        made.append(world.land(f"flights/{number}-"))
        world.clock.advance(number * 3_600)
    seen: list[str] = []
    after = ""
    for _ in range(4):
        found = page(world, after=after, limit=2)
        seen += ids(found)
        after = found.after
    assert seen == made[::-1]
    assert after == ""


def test_only_what_is_asked_for_is_listed(world: DatedWorld):
    old = world.land()
    world.clock.advance(7_200)
    since = world.clock.now
    young = world.land("flights/young-")
    running = world.submitted(prefix="flights/running-")
    assert ids(page(world, Wanted(state=State.COMMITTED))) == [young, old]
    assert ids(page(world, Wanted(since=since))) == [running.id, young]
    assert ids(page(world, Wanted(route="flights", since=since))) == [running.id, young]
    assert ids(page(world, Wanted(route="weather"))) == []


def test_a_batch_that_was_opened_before_and_gathered_since_is_listed(world: DatedWorld):
    world.arrive()
    gathering = world.open.id
    world.clock.advance(7_200)
    assert ids(page(world, Wanted("flights", since=world.clock.now - 60))) == [gathering]


def test_of_one_route_the_look_ends_with_the_first_batch_that_is_too_old(world: DatedWorld):
    for number in range(30):
        world.land(f"flights/{number}-")
        world.clock.advance(600)
    found = page(world, Wanted("flights", since=world.clock.now - 1_400))
    assert (len(found.batches), found.looked_at) == (2, 3)


def test_why_an_attempt_failed_is_told_also_once_the_batch_has_landed(world: DatedWorld):
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "the catalog did not answer", hopeless=False)
    world.jobs.end(batch.id, 1)
    world.wait()
    world.settle()
    assert world.batch(batch.id).attempt == 2
    (found,) = page(world).batches
    assert found.error == "the catalog did not answer"
    play_publishing(world.work, batch.id)
    world.settle()
    (found,) = page(world).batches
    assert (found.batch.state, found.error) == (State.COMMITTED, "the catalog did not answer")


def test_a_driver_that_died_left_no_reason_and_a_halted_batch_has_its_own(world: DatedWorld):
    batch = world.submitted()
    world.jobs.end(batch.id, 1)
    world.wait()
    world.settle()
    (found,) = page(world).batches
    assert (found.batch.attempt, found.error) == (2, "")
    world.ledger.halt(batch.id, 2, "no such column")
    (found,) = page(world).batches
    assert found.error == "no such column"


def test_a_folder_without_a_batch_and_one_with_another_name_are_passed_over(world: DatedWorld):
    batch = world.land()
    world.work.put(f"{BATCHES}tmp/file", b"")
    world.work.put(f"{BATCHES}00000/file", b"")
    lost = world.land("flights/lost-")
    del world.store.items[batch_key(lost)]
    assert ids(page(world)) == [batch]


def test_it_looks_as_far_back_as_the_ledger_remembers(world: DatedWorld):
    old = world.land()
    world.clock.advance(RETENTION - DAY)
    young = world.land("flights/young-")
    assert ids(page(world)) == [young, old]
    world.clock.advance(4 * DAY)
    assert ids(page(world)) == [young]


def test_a_clock_that_is_ahead_hides_nothing(world: DatedWorld):
    world.clock.advance(1_800)
    ahead = world.land()
    world.clock.advance(-1_800)
    assert ids(page(world)) == [ahead]


# ---- what a page costs


def test_a_page_costs_the_same_however_long_the_history_is():
    costs = []
    for batches in (30, 300):
        world = dated_world()
        for number in range(batches):
            world.land(f"flights/{number}-")
            world.clock.advance(60)
        ports, asked = asked_of(world)
        found = batch_page(ports, IDS, Wanted(), limit=20)
        assert len(found.batches) == 20
        costs.append(dict(asked))
    assert costs[0] == costs[1] == {"folders": 1, "get_many": 1}


def test_an_idle_deployment_costs_a_few_lists():
    world = dated_world()
    batch = world.land()
    world.clock.advance(50 * DAY)
    ports, asked = asked_of(world)
    assert [each.batch.id for each in batch_page(ports, IDS, Wanted(), limit=20).batches] == [batch]
    assert asked["folders"] <= 7
    assert asked["get_many"] == 2  # the batches, and the records of the routes


def test_a_deployment_that_is_seldom_used_costs_a_few_requests_more():
    world = dated_world()
    for number in range(40):
        world.land(f"flights/{number}-")
        world.clock.advance(DAY)
    ports, asked = asked_of(world)
    assert len(batch_page(ports, IDS, Wanted(), limit=20).batches) == 20
    assert asked["folders"] <= 7
    assert asked["get_many"] <= asked["folders"]


def test_a_page_ends_where_enough_was_looked_at_and_goes_on_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.batch_list.MOST_LOOKED_AT", 10)
    world = dated_world()
    oldest = world.land()
    for number in range(14):
        world.clock.advance(60)
        batch = world.land(f"flights/{number}-")
        world.edit(batch_key(batch), route="weather")
    found = page(world, Wanted("flights"))
    assert (ids(found), found.looked_at) == ([], 10)
    assert ids(page(world, Wanted("flights"), after=found.after)) == [oldest]


class Lists(MemoryWork):
    """A work bucket that counts its lists: each answer holds `LISTED` names, as S3's does."""

    asked = 0

    def folders(self, prefix: str, first: str):
        for number, name in enumerate(super().folders(prefix, first)):
            if number % LISTED == 0:
                self.asked += 1
            yield name
        self.asked += 1


@pytest.mark.parametrize("apart", [0.01, 0.5, 1, 20, 600, 20_000])
def test_every_batch_is_listed_once_however_dense_they_are(apart: float):
    made = [wiring.smallest_id(START - int(number * apart))[:10] + f"{9_000 - number:016}" for number in range(2_500)]
    work = Lists({f"{batch_folder(each)}parts/x": b"" for each in made})
    lists = newest_ids(work, IDS, before="~", end=START + 1, oldest=START - 60 * DAY)
    found = list(chain.from_iterable(lists))
    expected = [each for each in made if wiring.made_at(each) >= START - 60 * DAY]
    assert found == sorted(expected, reverse=True)
    # and no more lists than a few for each answer's worth of names
    assert work.asked <= 20 + 8 * len(expected) / LISTED + (len(expected) > LISTED) * 10


def test_a_second_of_more_batches_than_an_answer_holds_is_listed_whole():
    made = [wiring.smallest_id(START)[:10] + f"{number:016}" for number in range(1_500)]
    work = MemoryWork({f"{batch_folder(each)}parts/x": b"" for each in made})
    assert list(newest_ids(work, IDS, before="~", end=START + 1, oldest=START - DAY)) == [made[::-1]]


def test_the_page_says_what_a_wanted_batch_is():
    world = dated_world()
    batch = world.batch(world.land())
    assert Wanted().has(batch)
    assert not Wanted(state=State.OPEN).has(batch)
    assert not Wanted(since=batch.sealed_at + 1).has(batch)
    assert Wanted(since=batch.sealed_at).has(batch)
    assert Wanted(since=batch.sealed_at + 1).has(replace(batch, sealed_at=0))
