"""What needs a person, and which command comes next."""

from dataclasses import replace

import pytest

from tests.functional.test_resend import NOBODY, deliver
from tests.support.build import BUCKET
from tests.support.fakes import CountedLetters, play_fencing, play_publishing
from tests.support.ledgers import RETENTION
from tests.support.world import World
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.errors import Retryable
from tidegate.core.outcomes import Outcome
from tidegate.core.records import route_key
from tidegate.flows.abort import abort
from tidegate.flows.needs import URGENT, Need, NeedKind, NextStep, needs, ways_out
from tidegate.flows.overview import overview
from tidegate.flows.quarantine import EVERYTHING, quarantined
from tidegate.flows.resend import resend_batch, resend_object
from tidegate.flows.status import status
from tidegate.flows.waiting_letters import LettersWaiting


def found(world: World) -> list[Need]:
    return needs(status([world.flights], world.ports))


def abandoned(world: World) -> str:
    batch = world.submitted()
    abort(batch.id, world.ports)
    world.settle()
    play_fencing(world.work, batch.id)
    world.settle()
    return batch.id


def test_of_what_goes_well_nothing_needs_a_person(world: World):
    assert found(world) == []
    batch = world.submitted()
    world.arrive(prefix="flights/next-")
    assert found(world) == []
    play_publishing(world.work, batch.id)
    world.settle()
    assert found(world) == []


def test_a_halted_batch(world: World):
    batch = world.submitted()
    world.ledger.halt(batch.id, 1, "no such column")
    (need,) = found(world)
    assert (need.kind, need.batch, need.count, need.since) == (NeedKind.HALTED, batch.id, 3, world.clock.now)
    assert need.what == f"batch {batch.id} of route flights after attempt 1: no such column"
    assert need.next == (NextStep("when the cause is removed", f"tidegate resume {batch.id}"),)


@pytest.mark.parametrize(
    ("batch", "commands"),
    [
        (Batch("01A", "r", State.SUBMITTED, 1, halted="no such column"), ["tidegate resume 01A"]),
        (Batch("01A", "r", State.SEALED, 1, halted="its files differ"), [""]),
        # the words of a reason may be those of a key
        (
            Batch("01A", "r", State.SUBMITTED, 1, halted="s3://landing/A person has to decide.json: AccessDenied"),
            ["tidegate resume 01A"],
        ),
        (
            Batch("01A", "r", State.SUBMITTED, 1, halted="the table cannot say", undecided=True),
            ["tidegate resume --help", "tidegate resume 01A --not-published, or --published"],
        ),
    ],
)
def test_the_way_out_of_a_halt(batch: Batch, commands: list[str]):
    assert [each.command for each in ways_out(batch)] == commands


def test_sums_that_do_not_hold(world: World):
    play_publishing(world.work, world.submitted().id)
    world.settle()
    world.edit(route_key("flights"), notified=4)
    (need,) = found(world)
    assert (need.kind, need.next[0].command) == (NeedKind.SUMS, "tidegate audit --tables")
    assert need.what.startswith("4 notified, but 3 committed + ")


def test_uploads_in_quarantine(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, {"flights/0000-00000.json": (Outcome.QUARANTINED, "no JSON")})
    world.settle()
    (need,) = found(world)
    assert (need.kind, need.count, need.since) == (NeedKind.QUARANTINED, 1, world.clock.now)
    assert [each.command for each in need.next] == [
        "tidegate files --route flights --state quarantined",
        "tidegate resend quarantine --route flights",
        "tidegate abort quarantine --route flights --reason WHY",
    ]


def test_what_the_ledger_has_forgotten_or_somebody_sent_again_waits_for_nobody(world: World):
    def quarantines(prefix: str, *bad: int) -> None:
        batch = world.submitted(prefix=prefix)
        keys = (f"{prefix}0000-{number:05}.json" for number in bad)
        play_publishing(world.work, batch.id, dict.fromkeys(keys, (Outcome.QUARANTINED, "no JSON")))
        world.settle()

    quarantines("flights/old/", 0, 1)
    world.clock.advance(RETENTION - 100)
    quarantines("flights/new/", 0, 2)
    assert [each.count for each in found(world)] == [4]
    world.clock.advance(200)
    world.settle()
    (need,) = found(world)
    assert (need.kind, need.count, need.what) == (NeedKind.QUARANTINED, 2, "2 uploads of route flights")
    assert len(list(quarantined("flights", EVERYTHING, world.ports))) == 2
    # the sums keep what is forgotten
    (shown,) = status([world.flights], world.ports)
    assert shown.uploads.ended.quarantined == 4
    resend_object(BUCKET, "flights/new/0000-00000.json", world.ports, run="1")
    deliver(world)
    world.settle()
    (count,) = [each.count for each in found(world) if each.kind is NeedKind.QUARANTINED]
    assert 1 <= count <= 2, "never less than there are; a batch counts whole while one of its uploads is there"


def test_uploads_of_an_abandoned_batch_until_somebody_says_what_becomes_of_them(world: World):
    batch = abandoned(world)
    (need,) = found(world)
    assert (need.kind, need.count) == (NeedKind.ABANDONED, 3)
    assert need.next[0].command == "tidegate files --batches --route flights --state abandoned"
    abort(batch, world.ports, Wish.DROP)
    assert found(world) == []
    world.settle()
    assert found(world) == []
    assert status([world.flights], world.ports)[0].uploads.dropped == 3


def test_abandoned_uploads_that_were_sent_again_need_nobody(world: World):
    resend_batch(abandoned(world), world.ports, run="r", fencer=NOBODY)
    sent, world.topic.published = world.topic.published, []
    for each in sent:
        world.dispatch(each)
    assert found(world) == []


def test_dead_letters():
    assert needs([], LettersWaiting()) == []
    assert needs([], None) == []
    (need,) = needs([], LettersWaiting(2, 1))
    assert (need.kind, need.count, need.what) == (NeedKind.LETTERS, 3, "2 of notifications, 1 of notices")
    assert need.next[0].command == "tidegate resend dead-letters --dry-run"


def test_what_is_urgent_comes_first(world: World):
    abandoned(world)
    batch = world.submitted(prefix="flights/next-")
    world.ledger.halt(batch.id, 1, "no such column")
    kinds = [each.kind for each in needs(status([world.flights], world.ports), LettersWaiting(1))]
    assert kinds == [NeedKind.HALTED, NeedKind.ABANDONED, NeedKind.LETTERS]
    assert [kind in URGENT for kind in kinds] == [True, False, False]


def test_letters_that_cannot_be_counted_hide_nothing(world: World):
    boxes = (CountedLetters(trouble=Retryable("AccessDenied")), CountedLetters(1))
    seen = overview({"flights": world.flights}, world.ports, boxes)
    assert (seen.letters, seen.uncounted, seen.needs, len(seen.statuses)) == (None, "AccessDenied", (), 1)


def test_jobs_under_way_are_counted_once_each(world: World):
    batch = world.submitted()
    seen = overview({"flights": world.flights}, world.ports, (CountedLetters(), CountedLetters()))
    assert seen.jobs == {f"{batch.id}/1"}
    (of_flights,) = seen.statuses
    other = replace(batch, id="other")
    shared = replace(of_flights, unfinished=(*of_flights.unfinished, other))
    assert replace(seen, statuses=(shared,)).jobs == {f"{batch.id}/1"}
    halted = replace(of_flights, unfinished=(replace(batch, halted="no column"),))
    assert replace(seen, statuses=(halted,)).jobs == set()
