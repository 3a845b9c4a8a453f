"""What is in quarantine is given up once: by a person, or because a later version of the object has landed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from tests.functional.test_quarantine_age import BAD, key
from tests.functional.test_resend import deliver, land
from tests.support.build import BUCKET, upload, uploads
from tests.support.fakes import Died, Life, every_death, play_publishing
from tests.support.world import World, small_world
from tidegate.core.errors import Retryable
from tidegate.core.notices import pack
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.core.uploads import Upload
from tidegate.flows import drop_quarantined as drop
from tidegate.flows.drop_quarantined import drop_corrected, drop_quarantined, is_its_minute
from tidegate.flows.needs import needs
from tidegate.flows.quarantine import EVERYTHING, Quarantined, quarantined
from tidegate.flows.resend import release, resend_object
from tidegate.flows.settle import settle_all
from tidegate.flows.status import status
from tidegate.flows.trace import trace


@pytest.fixture
def world() -> World:
    return small_world(max_wait=0, in_flight=5)


def waiting(world: World) -> list[Quarantined]:
    return list(quarantined("flights", EVERYTHING, world.ports))


def sums(world: World) -> tuple[int, int, int, int]:
    """Notified, committed, quarantined, dropped: and they hold."""
    (shown,) = status([world.flights], world.ports)
    assert shown.uploads.holds
    assert shown.uploads.pending == 0
    ended = shown.uploads.ended
    return shown.uploads.notified, ended.committed, ended.quarantined, shown.uploads.dropped


def ends(world: World, name: str, *bad: int) -> None:
    """A batch of three uploads, or of as many as are bad, that has quarantined those with these numbers."""
    count = max(3, *bad, 0) if len(bad) < 3 else len(bad)
    these = [replace(each, sequencer="01") for each in uploads(count, f"flights/{name}/0000-")]
    _lands(world, these, {key(name, number): BAD for number in bad})
    world.clock.advance(60)


def corrected(world: World, name: str, number: int) -> None:
    """A new version of the object lands."""
    _lands(world, [replace(upload(key(name, number), "v2"), sequencer="02")], {})


def _lands(world: World, these: list[Upload], bad: dict[str, tuple[Outcome, str]]) -> None:
    for notice in pack("flights", BUCKET, these):
        world.dispatch(notice)
    batch = world.record.open_batch
    assert world.seal_if_due()
    assert world.hand_off() == 1
    play_publishing(world.work, batch, bad)
    assert world.settle() == []


def test_what_a_person_gives_up_waits_for_nobody_and_says_why(world: World):
    ends(world, "a", 1, 2)
    assert sums(world) == (3, 1, 2, 0)
    assert drop_quarantined(waiting(world), "an export that nobody reads", world.ports) == 2
    assert sums(world) == (3, 1, 0, 2)
    assert waiting(world) == []
    world.settle()
    assert not needs(status([world.flights], world.ports))
    (told,) = trace(BUCKET, key("a", 1), world.ports)
    assert told.answer == "dropped: an export that nobody reads"


def test_it_comes_back_by_a_resend_that_names_it(world: World):
    ends(world, "a", 1)
    drop_quarantined(waiting(world), "why", world.ports)
    assert resend_object(BUCKET, key("a", 1), world.ports, run="r").sent == 1
    deliver(world)
    land(world)
    assert sums(world) == (3, 3, 0, 0)


def test_a_later_version_that_landed_settles_it_within_an_hour(world: World):
    ends(world, "a", 1, 2)
    corrected(world, "a", 1)
    for _ in range(60):
        world.clock.advance(60)
        assert settle_all(world.routes, world.ports) == []
    assert [each.key for each in waiting(world)] == [key("a", 2)]
    assert sums(world) == (4, 2, 1, 1)
    first, second = trace(BUCKET, key("a", 1), world.ports)
    assert first.claim.outcome == DROPPED
    assert first.answer.startswith("dropped: version v2, claimed at ")
    assert second.answer.startswith("landed")


@pytest.mark.parametrize("why", ["earlier by its sequencer", "in quarantine, too", "not landed yet"])
def test_another_version_that_did_not_take_its_place_leaves_it(world: World, why: str):
    if why == "earlier by its sequencer":
        files = [replace(upload("flights/x.json", "v1"), sequencer="02")]
        for notice in pack("flights", BUCKET, files):
            world.dispatch(notice)
        batch = world.record.open_batch
        assert world.seal_if_due()
        assert world.hand_off() == 1
        play_publishing(world.work, batch, {"flights/x.json": BAD})
        assert world.settle() == []
        for notice in pack("flights", BUCKET, [replace(upload("flights/x.json", "v0"), sequencer="01")]):
            world.dispatch(notice)
        land(world)
    else:
        ends(world, "a", 1)
        for notice in pack("flights", BUCKET, [replace(upload(key("a", 1), "v2"), sequencer="02")]):
            world.dispatch(notice)
        if why == "in quarantine, too":
            batch = world.record.open_batch
            assert world.seal_if_due()
            assert world.hand_off() == 1
            play_publishing(world.work, batch, {key("a", 1): BAD})
            assert world.settle() == []
    before = waiting(world)
    assert drop_corrected("flights", world.ports) == 0
    assert waiting(world) == before


def test_a_release_leaves_what_a_later_version_has_taken_the_place_of(world: World):
    """Its rows would land beside the corrected ones."""
    ends(world, "a", 1, 2)
    corrected(world, "a", 1)
    done = release(waiting(world), world.ports, run="r", configured=world.routes)
    assert (done.sent, done.corrected) == (1, 1)
    (sent,) = world.topic.published
    assert [each.upload.key for each in sent.entries] == [key("a", 2)]


def test_a_version_that_a_listing_found_later_is_not_taken_for_a_later_one(world: World):
    """S3 lost the notification of the older version, and an audit brought it after the newer one was quarantined."""
    ends(world, "a", 1)
    for notice in pack("flights", BUCKET, [upload(key("a", 1), "v0")]):  # a listing gives no sequencer
        world.dispatch(notice)
    land(world)
    assert drop_corrected("flights", world.ports) == 0
    assert [each.key for each in waiting(world)] == [key("a", 1)]


@pytest.mark.parametrize(("batches", "each"), [(1, 7), (7, 1), (3, 3), (1, 2)])
def test_whatever_is_in_quarantine_it_is_looked_at_in_its_hour(
    world: World, monkeypatch: pytest.MonkeyPatch, batches: int, each: int
):
    monkeypatch.setattr("tidegate.flows.drop_quarantined.LOOKED_AT", 2)
    for name in "abcdefg"[:batches]:
        ends(world, name, *range(each))
    seen: Counter[str] = Counter()
    real = drop.corrected
    monkeypatch.setattr(drop, "corrected", lambda found, ports: real(told(found), ports))

    def told(found: Iterable[Quarantined]) -> Iterator[Quarantined]:
        for one in found:
            seen[one.key] += 1
            yield one

    for _ in range(-(-batches * each // 2)):
        world.clock.advance(3_600)
        before = seen.total()
        assert drop_corrected("flights", world.ports) == 0
        assert seen.total() - before <= 2
    assert seen.keys() == {each.key for each in waiting(world)}


def test_routes_look_in_minutes_of_their_own():
    minutes = {next(at for at in range(60) if is_its_minute(f"route-{number}", at * 60, 60)) for number in range(60)}
    assert len(minutes) > 30
    assert all(sum(is_its_minute("a", at * 60 + 7, 60) for at in range(60)) == 1 for _ in range(3))


def test_a_release_beside_it_counts_each_upload_once(world: World):
    """Whichever is first, and whoever read before."""
    ends(world, "a", 1, 2)
    found = waiting(world)
    release(found, world.ports, run="r", configured=world.routes)
    assert drop_quarantined(found[:1], "why", world.ports) == 1
    deliver(world)  # of the two, one was dropped: what was sent still takes it over
    land(world)
    assert drop_quarantined(found, "why", world.ports) == 0
    assert sums(world) == (3, 3, 0, 0)


def test_what_is_dropped_while_it_is_taken_over_is_tried_again(world: World):
    ends(world, "a", 1)
    found = waiting(world)
    release(found, world.ports, run="r", configured=world.routes)
    (notice,) = world.topic.published
    slow = world.ports
    real = slow.ledger.let_go

    def let_go(*arguments: object, **named: object) -> object:
        answered = real(*arguments, **named)  # type: ignore[arg-type]
        drop_quarantined(found, "why", world.ports)
        return answered

    object.__setattr__(slow.ledger, "let_go", let_go)
    with pytest.raises(Retryable, match="was dropped while it was being taken over"):
        slow.ledger.claim(notice)
    deliver(world)
    land(world)
    assert sums(world) == (3, 3, 0, 0)


@pytest.mark.parametrize("act", [drop_corrected, None], ids=["corrected", "by a person"])
def test_wherever_it_dies_another_one_counts_each_once(act: Callable[..., int] | None):
    def begun() -> World:
        made = small_world(max_wait=0, in_flight=5)
        ends(made, "a", 1, 2)
        corrected(made, "a", 1)
        return made

    def run(made: World, life: Life | None = None) -> None:
        ports = life.over(made.ports) if life else made.ports
        if act:
            act("flights", ports)
        else:
            drop_quarantined(quarantined("flights", replace(EVERYTHING, key="*1.json"), ports), "why", ports)

    alive = Life()
    run(begun(), alive)
    for life in every_death(alive.made):
        made = begun()
        with pytest.raises(Died):
            run(made, life)
        run(made)
        assert sums(made) == (4, 2, 1, 1), life.last
