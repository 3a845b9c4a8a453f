"""Resend and release: what ended without a row lands once when a person sends it again, and the sums stay right."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.build import BUCKET, notice
from tests.support.fakes import Died, Life, every_death, play_fencing, play_publishing, uploads_of
from tests.support.ledgers import RETENTION
from tests.support.world import World, small_world
from tidegate.core.errors import Rejected, Retryable
from tidegate.core.manifests import OwnedUpload, batch_folder, decode_part
from tidegate.core.notices import Entry, Notice, make_notice
from tidegate.core.outcomes import ABANDONED, Conservation, Outcome, Tally
from tidegate.core.records import claim_key
from tidegate.core.uploads import Upload
from tidegate.flows.abort import abort
from tidegate.flows.dispatch import dispatch
from tidegate.flows.quarantine import EVERYTHING, Quarantined, Selection, quarantined
from tidegate.flows.resend import Resend, Resent, release, reload_batch, resend_batch, resend_object
from tidegate.flows.status import status

NOBODY: Any = None
"""Nobody fences: the batch has not landed."""

KEYS = [f"flights/0000-{number:05}.json" for number in range(3)]


def sums(world: World) -> Conservation:
    (found,) = status([world.flights], world.ports)
    assert found.uploads.holds
    assert found.uploads.pending >= 0
    return found.uploads


def deliver(world: World) -> list[Notice]:
    """Dispatch what the topic has, as often as a queue may."""
    sent, world.topic.published = world.topic.published, []
    for each in (*sent, *sent):
        world.dispatch(each)
    return sent


def abandoned(world: World, prefix: str = "flights/") -> str:
    batch = world.submitted(prefix=prefix)
    abort(batch.id, world.ports)
    world.settle()
    play_fencing(world.work, batch.id)
    world.settle()
    assert world.batch(batch.id).state == "ABANDONED"
    return batch.id


def committed_with(world: World, *bad: str, prefix: str = "flights/") -> str:
    batch = world.submitted(prefix=prefix)
    play_publishing(world.work, batch.id, dict.fromkeys(bad, (Outcome.QUARANTINED, "line 3: 'x' is no INT")))
    world.settle()
    return batch.id


def land(world: World, snapshot: int = 99) -> str:
    """Publish the open batch, with every upload committed."""
    batch = world.open
    world.clock.advance(1_000)
    world.settle()
    play_publishing(world.work, batch.id, snapshot=snapshot)
    world.settle()
    assert world.batch(batch.id).state == "COMMITTED"
    return batch.id


def land_without(world: World, *gone: str) -> None:
    """Publish the open batch; these uploads had vanished."""
    batch = world.open.id
    world.clock.advance(1_000)
    world.settle()
    play_publishing(world.work, batch, dict.fromkeys(gone, (Outcome.VANISHED, "")), snapshot=98)
    world.settle()


def in_quarantine(world: World, selection: Selection = EVERYTHING) -> list[Quarantined]:
    return list(quarantined("flights", selection, world.ports))


def upload_of(world: World, batch: str, key: str) -> Upload:
    (found,) = (each.upload for each in uploads_of(world.work, batch) if each.upload.key == key)
    return found


# ---- reloads


def gathered(world: World) -> list[OwnedUpload]:
    """What the open batch has."""
    names = [name for name in world.work.objects if name.startswith(batch_folder(world.open.id) + "parts/")]
    return [each for name in names for each in decode_part(world.work.objects[name])]


def reload(world: World, batch: str, run: str = "1") -> Resend:
    return reload_batch(batch, world.ports, run=run, configured={"flights": world.flights})


def test_what_a_batch_has_landed_is_loaded_again_and_counts_once(world: World):
    batch = committed_with(world, KEYS[2])
    assert reload(world, batch) == Resend(Resent.SENT, 2, 0), "what is in quarantine has not landed"
    deliver(world)
    assert sums(world) == Conservation(3, Tally(quarantined=1, rows=2), 2), "nothing is notified twice"
    assert all(each.reloads and each.again for each in gathered(world))
    assert reload(world, batch, "2") == Resend(Resent.NOTHING_LEFT, 0, 2), "it is under way"
    land(world)
    landed = Conservation(3, Tally(committed=2, quarantined=1, rows=4), 0)
    assert sums(world) == landed, "nobody says here what was replaced"
    assert reload(world, batch, "3") == Resend(Resent.SENT, 2, 0), "once more, whoever has landed it since"


def test_it_goes_through_the_route_of_today_also_if_its_claim_has_expired(world: World):
    batch = committed_with(world)
    del world.store.items[claim_key(BUCKET, KEYS[0], world.claim(KEYS[0]).version)]
    renamed = {"new": replace(world.flights, name="new")}
    assert reload_batch(batch, world.ports, run="1", configured=renamed) == Resend(Resent.SENT, 3, 0)
    assert {each.route for each in world.topic.published} == {"new"}
    entries = [entry for each in world.topic.published for entry in each.entries]
    assert {each.upload.key for each in entries if not each.takes_from} == {KEYS[0]}


def test_what_was_given_up_is_not_reloaded(world: World):
    batch = committed_with(world)
    owner = world.claim(KEYS[0])
    world.edit(claim_key(BUCKET, KEYS[0], owner.version), outcome="dropped")
    assert reload(world, batch) == Resend(Resent.SENT, 2, 1)
    never = abandoned(world, "flights/other/")
    assert reload(world, never).ended is Resent.NO_SUCH_BATCH


def test_a_reload_that_was_given_up_is_resent_as_a_reload(world: World):
    batch = committed_with(world)
    reload(world, batch)
    deliver(world)
    second = world.open.id
    world.clock.advance(1_000)
    world.settle()
    abort(second, world.ports)
    world.settle()
    play_fencing(world.work, second)
    world.settle()
    assert resend_batch(second, world.ports, run="2", fencer=NOBODY) == Resend(Resent.SENT, 3, 0)
    assert all(each.reloads for each in world.topic.published)


def test_an_ordinary_notice_takes_nothing_that_has_landed(world: World):
    batch = committed_with(world)
    first = upload_of(world, batch, KEYS[0])
    owner = world.claim(KEYS[0]).notice
    for origin in ("resend 1", "backfill-1", "again"):
        world.dispatch(make_notice("flights", BUCKET, origin, [Entry(first, takes_from=owner)]))
    assert world.claim(KEYS[0]).notice == owner
    world.dispatch(make_notice("flights", BUCKET, "reload 1", [Entry(first, takes_from=owner)]))
    assert world.claim(KEYS[0]).notice != owner


def test_a_reload_that_is_void_is_sent_on_as_a_reload(world: World):
    batch = committed_with(world)
    reload(world, batch)
    (sent,) = world.topic.published
    world.topic.published.clear()
    world.ports.ledger.void(sent.id, "flights")
    world.dispatch(sent)
    (on,) = world.topic.published
    assert on.reloads
    assert len(on.entries) == 3
    deliver(world)
    assert all(each.reloads for each in gathered(world))


def test_of_the_same_bytes_that_came_again_the_later_sequencer_stays(world: World):
    batch = committed_with(world)
    first = upload_of(world, batch, KEYS[0])
    world.edit(claim_key(*first.identity), sequencer="0B")
    reload(world, batch)
    deliver(world)
    assert world.claim(KEYS[0]).sequencer == "0B"


def test_what_no_batch_has_or_a_part_that_is_gone_is_told(world: World):
    assert reload(world, "01BNONE").ended is Resent.NO_SUCH_BATCH
    batch = committed_with(world)
    (part,) = [name for name in world.work.objects if name.startswith(batch_folder(batch) + "parts/")]
    del world.work.objects[part]
    assert reload(world, batch).ended is Resent.MISSING


# ---- abandoned batches


def test_an_abandoned_batch_lands_once_however_often_it_is_resent(world: World):
    batch = abandoned(world)
    assert sums(world) == Conservation(3, Tally(), 3)
    assert resend_batch(batch, world.ports, run="1", fencer=NOBODY) == Resend(Resent.SENT, 3, 0)
    assert resend_batch(batch, world.ports, run="2", fencer=NOBODY) == Resend(Resent.SENT, 3, 0), (
        "nothing was dispatched yet"
    )
    assert len({each.id for each in world.topic.published}) == 2
    deliver(world)
    assert sums(world) == Conservation(3, Tally(), 3), "nothing is notified twice"
    assert resend_batch(batch, world.ports, run="3", fencer=NOBODY) == Resend(Resent.NOTHING_LEFT, 0, 3)
    land(world)
    assert sums(world) == Conservation(3, Tally(committed=3, rows=3), 0)
    assert not world.record.open_batch


def test_what_is_resent_keeps_its_sizes_and_sequencers(world: World):
    batch = abandoned(world)
    before = world.claim(KEYS[0]).sequencer
    resend_batch(batch, world.ports, run="1", fencer=NOBODY)
    deliver(world)
    assert (world.open.objects, world.open.bytes) == (3, world.batch(batch).bytes)
    assert world.claim(KEYS[0]).sequencer == before


def test_a_batch_that_may_yet_be_published_is_not_resent(world: World):
    batch = world.submitted()
    assert resend_batch(batch.id, world.ports, run="1", fencer=NOBODY).ended is Resent.NOT_ENDED
    abort(batch.id, world.ports)
    assert resend_batch(batch.id, world.ports, run="1", fencer=NOBODY).ended is Resent.NOT_ENDED
    assert resend_batch("01BNONE", world.ports, run="1", fencer=NOBODY).ended is Resent.NO_SUCH_BATCH
    assert not world.topic.published


def test_what_was_uploaded_again_is_not_resent_and_counts_once(world: World):
    batch = abandoned(world)
    again = replace(upload_of(world, batch, KEYS[0]), sequencer="0B")
    world.edit(claim_key(*again.identity), sequencer="0A")
    world.dispatch(notice(again))
    deliver(world)
    assert sums(world) == Conservation(3, Tally(), 3), "the same upload, gathered anew"
    assert resend_batch(batch, world.ports, run="1", fencer=NOBODY) == Resend(Resent.SENT, 2, 1)
    deliver(world)
    land(world)
    assert sums(world) == Conservation(3, Tally(committed=3, rows=3), 0)


def test_a_batch_whose_files_are_gone_says_so(world: World):
    batch = abandoned(world)
    (part,) = world.parts(batch)
    del world.work.objects[batch_folder(batch) + part]
    assert resend_batch(batch, world.ports, run="1", fencer=NOBODY).ended is Resent.MISSING
    del world.work.objects[batch_folder(batch) + "sealed.json"]
    assert resend_batch(batch, world.ports, run="1", fencer=NOBODY).ended is Resent.MISSING


def test_a_topic_that_does_not_answer_is_an_error(world: World):
    batch = abandoned(world)
    world.topic.broken = True
    with pytest.raises(Retryable):
        resend_batch(batch, world.ports, run="1", fencer=NOBODY)


# ---- quarantine


def test_quarantine_lists_what_is_in_it_and_why(world: World):
    batch = committed_with(world, KEYS[0], KEYS[2])
    found = in_quarantine(world)
    assert [(each.key, each.batch, each.attempt, each.error) for each in found] == [
        (KEYS[0], batch, 1, "line 3: 'x' is no INT"),
        (KEYS[2], batch, 1, "line 3: 'x' is no INT"),
    ]
    assert [each.notice for each in found] == [world.claim(KEYS[0]).notice] * 2


def test_a_batch_without_quarantine_is_not_read_again(world: World):
    committed_with(world)
    assert world.ledger.leftovers("flights") == []
    batch = committed_with(world, "flights/b/0000-00000.json", prefix="flights/b/")
    assert [(each.batch, each.quarantined) for each in world.ledger.leftovers("flights")] == [(batch, 1)]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(key="flights/*-00000.json"), KEYS[:1]),
        (Selection(key="weather/*"), []),
        (Selection(error="NO int"), KEYS),
        (Selection(error="truncated"), []),
        (Selection(since=2_000_000_000), []),
        (Selection(until=1), []),
    ],
)
def test_quarantine_is_selected_by_key_error_and_time(world: World, selection: Selection, expected: list[str]):
    committed_with(world, *KEYS)
    assert [each.key for each in in_quarantine(world, selection)] == expected


def test_what_is_released_lands_once_whoever_releases_it_twice(world: World):
    committed_with(world, *KEYS[:2])
    assert sums(world) == Conservation(3, Tally(committed=1, quarantined=2, rows=1), 0)
    found = in_quarantine(world)
    assert release(found, world.ports, configured=world.routes, run="1") == Resend(Resent.SENT, 2)
    assert release(found, world.ports, configured=world.routes, run="2") == Resend(Resent.SENT, 2)
    deliver(world)
    assert in_quarantine(world) == []
    assert sums(world) == Conservation(3, Tally(committed=1, rows=1), 2)
    land(world)
    assert sums(world) == Conservation(3, Tally(committed=3, rows=3), 0)
    assert release(found, world.ports, configured=world.routes, run="3") == Resend(Resent.SENT, 2), "an old list"
    deliver(world)
    assert sums(world) == Conservation(3, Tally(committed=3, rows=3), 0)


def test_what_is_bad_still_comes_back_into_quarantine_and_can_be_released_again(world: World):
    committed_with(world, KEYS[0])
    for attempt in range(2):
        release(in_quarantine(world), world.ports, configured=world.routes, run=str(attempt))
        deliver(world)
        batch = world.open
        world.clock.advance(1_000)
        world.settle()
        play_publishing(world.work, batch.id, {KEYS[0]: (Outcome.QUARANTINED, "still")}, snapshot=100 + 2 * attempt)
        world.settle()
        assert [(each.batch, each.error) for each in in_quarantine(world)] == [(batch.id, "still")]
        assert sums(world) == Conservation(3, Tally(committed=2, quarantined=1, rows=2), 0)


def test_a_whole_wrong_schema_is_released_in_portions(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.resend.AT_ONCE", 2)
    committed_with(world, *KEYS)
    seen: list[int] = []
    assert release(in_quarantine(world), world.ports, configured=world.routes, run="1", on_sent=seen.append).sent == 3
    assert seen == [2, 3]
    deliver(world)
    land(world)
    assert sums(world) == Conservation(3, Tally(committed=3, rows=3), 0)


def test_what_is_released_keeps_its_sizes_and_sequencers(world: World):
    """A later upload of the same bytes is told from a repeat by the sequencer in the claim."""
    of = notice(*(Upload(BUCKET, key, "etag:1", 10 + place, f"00A{place}") for place, key in enumerate(KEYS)))
    world.dispatch(of)
    batch = world.open.id
    world.clock.advance(1_000)
    world.settle()
    play_publishing(world.work, batch, dict.fromkeys(KEYS, (Outcome.QUARANTINED, "no")))
    world.settle()
    release(in_quarantine(world), world.ports, configured=world.routes, run="1")
    (sent,) = deliver(world)
    assert [(each.upload.size, each.upload.sequencer) for each in sent.entries] == [
        (10, "00A0"),
        (11, "00A1"),
        (12, "00A2"),
    ]
    assert [world.claim(key).sequencer for key in KEYS] == ["00A0", "00A1", "00A2"]
    assert world.open.bytes == 33
    land_without(world, KEYS[0])
    world.dispatch(notice(Upload(BUCKET, KEYS[0], "etag:1", 10, "00B0")))
    (again,) = world.topic.published
    assert [(each.upload.sequencer, each.takes_from) for each in again.entries] == [("00B0", sent.id)]


def test_one_object_keeps_its_size_and_sequencer(world: World):
    world.dispatch(notice(Upload(BUCKET, KEYS[0], "etag:1", 10, "00A0")))
    batch = world.open.id
    world.clock.advance(1_000)
    world.settle()
    play_publishing(world.work, batch, {KEYS[0]: (Outcome.QUARANTINED, "no")})
    world.settle()
    resend_object(BUCKET, KEYS[0], world.ports, run="1")
    (sent,) = world.topic.published
    assert [(each.upload.size, each.upload.sequencer) for each in sent.entries] == [(10, "00A0")]


# ---- one object


def test_one_object_is_resent_if_it_ended_without_a_row(world: World):
    committed_with(world, KEYS[0])
    assert resend_object(BUCKET, KEYS[0], world.ports, run="1") == Resend(Resent.SENT, 1, 0)
    assert resend_object(BUCKET, KEYS[1], world.ports, run="1") == Resend(Resent.NOTHING_LEFT, 0, 1)
    assert resend_object(BUCKET, "flights/never.json", world.ports, run="1") == Resend(Resent.UNKNOWN)
    version = world.claim(KEYS[0]).version
    assert resend_object(BUCKET, KEYS[0], world.ports, run="2", version=version).sent == 1
    assert resend_object(BUCKET, KEYS[0], world.ports, run="2", version="another").ended is Resent.UNKNOWN
    deliver(world)
    land(world)
    assert sums(world) == Conservation(3, Tally(committed=3, rows=3), 0)


def test_one_object_that_was_quarantined_goes_through_the_route_that_takes_its_key_today(world: World):
    """Of a renamed route: its former settings are those by which it ended in quarantine."""
    committed_with(world, KEYS[0])
    renamed = {"renamed": replace(world.routes["flights"], name="renamed")}
    resend_object(BUCKET, KEYS[0], world.ports, run="1", configured=renamed)
    (sent,) = world.topic.published
    assert sent.route == "renamed"


def test_one_object_of_an_abandoned_batch_goes_to_the_route_of_that_batch(world: World):
    abandoned(world)
    renamed = {"renamed": replace(world.routes["flights"], name="renamed")}
    resend_object(BUCKET, KEYS[0], world.ports, run="1", configured=renamed)
    (sent,) = world.topic.published
    assert sent.route == "flights"


def test_an_upload_that_is_pending_is_not_resent(world: World):
    world.submitted()
    assert resend_object(BUCKET, KEYS[0], world.ports, run="1") == Resend(Resent.NOTHING_LEFT, 0, 1)


# ---- how an upload that comes back is counted


def test_a_death_at_any_step_of_dispatch_counts_what_came_back_once(world: World):
    whole = Life()
    dispatched_by(whole, _released())
    assert whole.made >= 8
    for death in every_death(whole.made):
        world = _released()
        with pytest.raises(Died):
            dispatched_by(Life(death.calls, death.after), world)
        deliver(world)
        assert sums(world) == Conservation(3, Tally(committed=1, rows=1), 2), death
        assert dict(world.record.back) == {"quarantined": 2}


def _released() -> World:
    world = small_world(max_wait=0)
    committed_with(world, *KEYS[:2])
    release(in_quarantine(world), world.ports, configured=world.routes, run="1")
    return world


def dispatched_by(life: Life, world: World) -> None:
    """Dispatch the notice in a process that may die before each request, not only between the ledger's verbs."""
    (sent,) = world.topic.published
    ledger = replace(world.ledger, store=life.wrap(world.store))
    dispatch(sent.encode(), replace(world.ports, ledger=ledger, work=life.wrap(world.work)), routes=world.routes)


def test_a_notice_that_is_void_leaves_what_it_took_as_it_was_counted(world: World):
    committed_with(world, KEYS[0])
    release(in_quarantine(world), world.ports, configured=world.routes, run="1")
    (first,) = world.topic.published
    world.ledger.claim(first)  # and died
    assert world.ledger.void(first.id, "flights")
    world.topic.published = []
    resend_object(BUCKET, KEYS[0], world.ports, run="2")
    deliver(world)
    land(world)
    assert sums(world) == Conservation(3, Tally(committed=3, rows=3), 0)


def test_an_owner_whose_record_has_expired_is_not_counted_back(world: World):
    committed_with(world, KEYS[0])
    release(in_quarantine(world), world.ports, configured=world.routes, run="1")
    (sent,) = world.topic.published
    del world.store.items[next(key for key in world.store.items if key.pk == f"n#{world.claim(KEYS[0]).notice}")]
    deliver(world)
    assert sent.id == world.claim(KEYS[0]).notice
    assert sums(world) == Conservation(4, Tally(committed=2, quarantined=1, rows=2), 1)


def test_a_claim_that_was_taken_over_says_how_its_upload_was_counted(world: World):
    batch = abandoned(world)
    resend_batch(batch, world.ports, run="1", fencer=NOBODY)
    deliver(world)
    item = world.store.items[claim_key(BUCKET, KEYS[0], world.claim(KEYS[0]).version)]
    assert (item["was"], item["was_of"]) == (ABANDONED, "flights")


def test_what_is_resent_is_as_old_as_the_look_at_its_claims(world: World):
    """A command that was frozen for months before it published must not make an upload new."""
    batch = abandoned(world)
    before = world.clock.now
    real = world.topic.publish

    def later(notices: Sequence[Notice]) -> frozenset[str]:
        world.clock.advance(RETENTION)
        return real(notices)

    world.topic.publish = later  # type: ignore[method-assign]
    resend_batch(batch, world.ports, run="1", fencer=NOBODY)
    assert [each.at for each in world.topic.published] == [before]
    resend_object(BUCKET, KEYS[0], world.ports, run="2")
    with pytest.raises(Rejected, match="longer ago than the ledger remembers"):
        world.dispatch(world.topic.published[0])


@pytest.mark.parametrize("read_before", [0, 3_600])
def test_a_release_is_as_old_as_its_look_however_long_it_takes(
    world: World, read_before: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tidegate.flows.resend.AT_ONCE", 1)
    committed_with(world, *KEYS)
    found = list(in_quarantine(world))
    began = world.clock()
    world.clock.advance(read_before)  # a person was asked
    release(
        found,
        world.ports,
        configured=world.routes,
        run="1",
        on_sent=lambda sent: world.clock.advance(1_000),
        began=began if read_before else None,
    )
    assert [each.at for each in world.topic.published] == [began] * 3


def test_what_was_present_is_reloaded_with_its_batch(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, {KEYS[2]: (Outcome.PRESENT, "rows of batch 01A")})
    world.settle()
    assert reload(world, batch.id) == Resend(Resent.SENT, 3, 0)
