"""Uploads that have landed land again: in the new table of their route, or after their rows were deleted."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.functional.test_backfill import FOUND, Ran, put, run, scope_of
from tests.support.build import BUCKET, uploads
from tests.support.fakes import Died, Life, every_death, play_fencing, play_present, play_publishing, uploads_of
from tests.support.world import World, small_world
from tidegate.core.batches import Batch, State
from tidegate.core.errors import Rejected
from tidegate.core.manifests import batch_folder, floor_name
from tidegate.core.notices import Notice, pack
from tidegate.core.outcomes import Outcome
from tidegate.core.publication import Floor, History, Snapshot
from tidegate.core.receipts import decode_receipt, encode_floor
from tidegate.core.reconcile import TableDifference
from tidegate.core.routes import Dataset, Route
from tidegate.flows.abort import abort
from tidegate.flows.rebuild import rebuild
from tidegate.flows.reconcile import Reconciled, reconcile
from tidegate.flows.resend import Resend, Resent, reload_batch, resend_batch, resend_object
from tidegate.flows.status import status
from tidegate.settings import DAY

OLD, NEW = "lake.raw.flights", "lake.raw.flights_2"


@pytest.fixture
def world() -> World:
    made = small_world(max_wait=0)
    assert made.flights.dataset.table == OLD
    return made


def moved(world: World, table: str = NEW) -> Route:
    """The route gets another table."""
    world.flights = replace(world.flights, dataset=replace(world.flights.dataset, table=table))
    world.ledger.remember_route(world.flights)
    return world.flights


def deliver(world: World) -> list[Notice]:
    sent, world.topic.published = list(world.topic.published), []
    for each in sent:
        world.dispatch(each)
    return sent


def land(world: World, ends: dict[str, tuple[Outcome, str]] | None = None, rows: int = 1) -> str:
    """The open batch is published in the table that it was sealed for, and settled. Returns its id."""
    batch = world.record.open_batch
    assert world.seal_if_due()
    assert world.hand_off() == 1
    table = world.batch(batch).table
    world.work.put(batch_folder(batch) + floor_name(0), encode_floor(Floor("t", 10)))
    ends = {**(ends or {}), **play_present(world.work, batch, world.lineage.tables.get(table, ()))}
    play_publishing(world.work, batch, ends, rows=rows)
    if rows:
        landed = [item.upload for item in uploads_of(world.work, batch) if item.upload.key not in ends]
        world.lineage.add(table, landed, batch, rows)
    world.jobs.end(batch, 1)
    assert world.settle() == []
    assert world.batch(batch).state is State.COMMITTED
    world.lineage.histories[table] = history(batch)
    return batch


def history(*batches: str) -> History:
    """The batches were published one after the other, above the floor of each."""
    found = [Snapshot(11 + at, 10 + at, frozenset({batch})) for at, batch in enumerate(batches)]
    return History("t", (*reversed(found), Snapshot(10, None)))


def landed(world: World, count: int = 3) -> str:
    """So many uploads are in the bucket, and in the table."""
    files = uploads(count)
    put(world, *files, age=0)
    for notice in pack("flights", BUCKET, files):
        world.dispatch(notice)
    return land(world)


def rows(world: World, table: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in world.lineage.tables.get(table, ()):
        found[each.key] = found.get(each.key, 0) + each.rows
    return found


def delete_rows(world: World, table: str = OLD) -> None:
    world.lineage.tables[table].clear()


def sums_hold(world: World) -> bool:
    return all(each.uploads.holds for each in status([world.flights], world.ports))


# ---- a new table


def test_what_is_in_the_former_table_lands_in_the_new_one_by_one_backfill(world: World):
    landed(world)
    moved(world)
    counts = run(world)
    assert (counts.found[FOUND.ELSEWHERE], counts.sent) == (3, 3)
    deliver(world)
    land(world)
    assert set(rows(world, NEW).values()) == set(rows(world, OLD).values()) == {1}
    assert run(world, identifier="2").found == {FOUND.LANDED: 3}
    (shown,) = status([world.flights], world.ports)
    assert shown.uploads.holds
    assert (shown.uploads.notified, shown.uploads.ended.committed) == (3, 3), "each upload counts once"


def test_a_dry_run_sends_and_notes_nothing(world: World):
    first = landed(world)
    delete_rows(world)
    items = dict(world.store.items)
    ran = Ran()
    counts = run(world, dry=True, ran=ran)
    assert (counts.found[FOUND.REMOVED], world.topic.published, world.store.items) == (3, [], items)
    assert {finding for _, finding in ran.told} == {"removed"}
    assert not world.batch(first).rows_removed


def test_two_backfills_and_their_notices_in_any_order_land_each_upload_once(world: World):
    landed(world)
    moved(world)
    run(world, identifier="1")
    run(world, identifier="2")
    one, two = world.topic.published
    for notice in (one, two, two, one):
        world.dispatch(notice)
    assert world.open.objects == 3
    world.topic.published.clear()
    land(world)
    assert set(rows(world, NEW).values()) == {1}


def test_an_ordinary_notice_takes_over_nothing_that_has_landed(world: World):
    landed(world)
    moved(world)
    for notice in pack("flights", BUCKET, uploads(3)):
        world.dispatch(notice)
    assert not world.record.open_batch


def test_an_upload_that_comes_again_while_its_rows_are_removed_is_a_duplicate(world: World):
    """The same bytes, in a bucket without versions: they land by the backfill only."""
    first = landed(world)
    delete_rows(world)
    assert world.ledger.note_removed(first)
    again = [replace(each, sequencer="FF") for each in uploads(3)]
    for notice in pack("flights", BUCKET, again):
        world.dispatch(notice)
    assert not world.record.open_batch
    assert world.topic.published == []


@pytest.mark.parametrize("when", ["before its notice is delivered", "before its batch is sealed"])
def test_if_the_table_is_changed_back_meanwhile_the_former_gets_nothing_twice(world: World, when: str):
    landed(world)
    moved(world)
    run(world)
    if when == "before its batch is sealed":
        deliver(world)
    moved(world, OLD)
    deliver(world)
    if world.record.open_batch:
        land(world)
    assert set(rows(world, OLD).values()) == {1}
    assert rows(world, NEW) == {}
    assert sums_hold(world)


@pytest.mark.parametrize("end", ["quarantined", "abandoned"])
def test_what_ended_without_a_row_in_the_new_table_never_lands_in_the_former_again(world: World, end: str):
    """A person releases or resends it, after the route has its former table again."""
    landed(world)
    moved(world)
    run(world)
    deliver(world)
    if end == "quarantined":
        land(world, {each.key: (Outcome.QUARANTINED, "bad") for each in uploads(3)})
    else:
        batch = world.record.open_batch
        abort(batch, world.ports)
        play_publishing_fence(world, batch)
    moved(world, OLD)
    sent = sum(resend_object(BUCKET, each.key, world.ports, run="r").sent for each in uploads(3))
    assert sent == 3
    deliver(world)
    land(world)
    assert set(rows(world, OLD).values()) == {1}
    moved(world)
    assert {resend_object(BUCKET, each.key, world.ports, run="s").sent for each in uploads(3)} == {0}
    assert run(world, identifier="2").sent == 3
    deliver(world)
    land(world)
    assert set(rows(world, NEW).values()) == {1}
    assert set(rows(world, OLD).values()) == {1}
    assert sums_hold(world)


def play_publishing_fence(world: World, batch: str) -> None:
    assert world.settle() == []
    play_fencing(world.work, batch)
    world.jobs.end(batch, 1)
    assert world.settle() == []
    assert world.batch(batch).state is State.ABANDONED


def test_what_a_void_notice_had_taken_for_another_table_lands_there(world: World):
    landed(world)
    moved(world)
    run(world)
    (notice,) = world.topic.published
    world.ledger.claim(notice, NEW)
    assert world.ledger.void(notice.id, "flights")
    world.topic.published = [notice]
    deliver(world)  # the void one sends its uploads on
    deliver(world)
    land(world)
    assert set(rows(world, NEW).values()) == {1}


# ---- the same table


def test_rows_that_were_deleted_land_again_by_one_backfill(world: World):
    first = landed(world)
    delete_rows(world)
    counts = run(world)
    assert (counts.found[FOUND.REMOVED], counts.sent) == (3, 3)
    assert world.batch(first).rows_removed
    deliver(world)
    second = land(world)
    assert rows(world, OLD) == {each.key: 1 for each in uploads(3)}
    world.lineage.histories[OLD] = history(first, second)
    assert run(world, identifier="2").found == {FOUND.LANDED: 3}
    assert sums_hold(world)


def test_only_what_was_deleted_lands_again(world: World):
    landed(world)
    gone = world.lineage.tables[OLD].pop()
    counts = run(world)
    assert (counts.found[FOUND.REMOVED], counts.found[FOUND.LANDED]) == (1, 2)
    deliver(world)
    land(world)
    assert rows(world, OLD)[gone.key] == 1
    assert set(rows(world, OLD).values()) == {1}


def test_an_empty_file_has_no_rows_to_miss(world: World):
    put(world, *uploads(1), age=0)
    for notice in pack("flights", BUCKET, uploads(1)):
        world.dispatch(notice)
    land(world, rows=0)
    assert run(world).found == {FOUND.LANDED: 1}
    assert world.topic.published == []


@pytest.mark.parametrize("why", ["rolled back past the batch", "no floor"])
def test_a_batch_that_could_bring_its_rows_again_is_left_to_a_republication(world: World, why: str):
    first = landed(world)
    delete_rows(world)
    if why == "no floor":
        del world.work.objects[batch_folder(first) + floor_name(0)]
    else:
        world.lineage.histories[OLD] = History("t", (Snapshot(10, None),))
    counts = run(world)
    assert (counts.found[FOUND.COMMITTED], counts.sent, world.topic.published) == (3, 0, [])
    assert not world.batch(first).rows_removed


# ---- deaths and twins


def removed(world: World) -> None:
    landed(world)
    delete_rows(world)


def elsewhere(world: World) -> None:
    landed(world)
    moved(world)


@pytest.mark.parametrize("prepare", [removed, elsewhere])
def test_wherever_it_dies_another_one_lands_each_upload_once(prepare: Callable[[World], None]):
    def begun() -> World:
        made = small_world(max_wait=0)
        prepare(made)
        return made

    alive, whole = Life(), begun()
    run(whole, ports=alive.over(whole.ports))
    for life in every_death(alive.made):
        made = begun()
        with pytest.raises(Died):
            run(made, ports=life.over(made.ports))
        run(made, identifier="2")
        deliver(made)
        deliver(made)
        land(made)
        assert rows(made, made.flights.dataset.table) == {each.key: 1 for each in uploads(3)}, life.last
        assert sums_hold(made), life.last


def test_a_reload_is_as_old_as_its_look_and_claims_nothing_too_late(world: World):
    elsewhere(world)
    run(world)
    (notice,) = world.topic.published
    world.clock.advance(61 * DAY)
    with pytest.raises(Rejected, match="longer ago than the ledger remembers"):
        world.dispatch(notice)


@pytest.mark.parametrize("where", ["same table", "new table"])
def test_what_was_loaded_once_more_is_of_the_later_batch_in_a_rebuilt_ledger(world: World, where: str):
    first = landed(world, 2)
    if where == "same table":
        delete_rows(world)
    else:
        moved(world)
    assert run(world).sent == 2
    deliver(world)
    second = land(world)
    world.lineage.histories[OLD] = history(first, second)
    world.store.items = {}
    done = rebuild(world.ports, configured=world.routes, oldest=first, made_at=lambda batch: 1)
    assert (done.whole, done.sent) == (True, 0)
    told = [(each.batch, each.other, each.uploads) for each in done.twice]
    assert told == ([(second, first, 2)] if where == "same table" else [])
    assert world.settle() == []
    (shown,) = status([world.flights], world.ports)
    assert (shown.uploads.notified, shown.uploads.ended.committed, shown.uploads.holds) == (2, 2, True)


def test_what_nobody_knows_the_rows_of_is_loaded_into_the_new_table(world: World):
    """The outcomes of its batch do not say how many rows it had: it is not taken for a file without any."""
    batch = landed(world, 2)
    for name in list(world.work.names(batch_folder(batch) + "outcomes/")):
        del world.work.objects[name]
    moved(world)
    assert run(world).sent == 2


# ---- the ledger is lost meanwhile


def lose_and_rebuild(world: World) -> None:
    world.store.items.clear()
    done = rebuild(world.ports, configured=world.routes, oldest="", made_at=lambda _: world.clock())
    assert done.whole, done.troubles


def land_after_a_rebuild(world: World, *, gathered: bool) -> None:
    """The ledger is lost after the notices were delivered, or before."""
    if gathered:
        deliver(world)
    lose_and_rebuild(world)
    deliver(world)
    land(world)


@pytest.mark.parametrize("gathered", [True, False])
def test_what_was_removed_lands_if_the_ledger_is_lost_while_it_is_under_way(world: World, gathered: bool):
    """Its notice is delivered before, and is in a batch that is open; or it is still in the queue."""
    landed(world)
    delete_rows(world)
    assert run(world).found == {FOUND.REMOVED: 3}
    land_after_a_rebuild(world, gathered=gathered)
    assert set(rows(world, OLD).values()) == {1}
    assert len(rows(world, OLD)) == 3
    assert sums_hold(world)


@pytest.mark.parametrize("gathered", [True, False])
def test_what_goes_to_another_table_lands_there_if_the_ledger_is_lost_while_it_is_under_way(
    world: World, gathered: bool
):
    landed(world)
    moved(world)
    assert run(world).found == {FOUND.ELSEWHERE: 3}
    land_after_a_rebuild(world, gathered=gathered)
    assert set(rows(world, NEW).values()) == set(rows(world, OLD).values()) == {1}
    assert len(rows(world, NEW)) == 3


def test_what_has_rows_in_the_table_does_not_land_after_a_rebuild(world: World):
    """Rows of one upload were removed, so the batch is noted; all of it is gathered for another table; the ledger is
    lost, and the route goes back to the first one."""
    landed(world)
    (gone, *_) = world.lineage.tables[OLD]
    world.lineage.tables[OLD].remove(gone)
    assert run(world).found == {FOUND.LANDED: 2, FOUND.REMOVED: 1}
    world.topic.published.clear()
    moved(world)
    assert run(world, identifier="2").sent == 3
    deliver(world)
    moved(world, OLD)
    lose_and_rebuild(world)
    deliver(world)
    land(world)
    assert sorted(rows(world, OLD).values()) == [1, 1, 1]


# ---- rollbacks


class Fencer:
    """A job that fences again."""

    def __init__(self, world: World) -> None:
        self.world = world

    def fence(self, batch: Batch, dataset: Dataset, *, owner: str) -> None:
        name = batch_folder(batch.id) + "receipt.json"
        receipt = decode_receipt(self.world.work.objects[name])
        self.world.work.objects[name] = replace(receipt, fence=True, snapshot=900).encode()


def resend(world: World, batch: str, run: str = "1") -> Resend:
    return resend_batch(batch, world.ports, run=run, fencer=Fencer(world))


def test_rows_that_a_rollback_to_before_their_deletion_brings_back_are_not_loaded_again(world: World):
    landed(world)
    before = list(world.lineage.tables[OLD])
    delete_rows(world)
    run(world)
    deliver(world)
    second = land(world)
    world.lineage.tables[OLD] = before
    assert resend(world, second) == Resend(Resent.SENT, 3)
    deliver(world)
    land(world)
    assert rows(world, OLD) == {each.key: 1 for each in uploads(3)}
    assert world.claim(uploads(1)[0].key).outcome == Outcome.PRESENT
    assert sums_hold(world)


def test_what_is_sent_to_another_table_after_a_rollback_may_land_in_the_first_one_again(world: World):
    """The first one has no row of it, so nothing says that it has."""
    first = landed(world)
    delete_rows(world)
    moved(world)
    assert resend(world, first).sent == 3
    deliver(world)
    land(world)
    moved(world, OLD)
    assert run(world, identifier="2").sent == 3
    deliver(world)
    land(world)
    assert set(rows(world, NEW).values()) == set(rows(world, OLD).values()) == {1}


def compared(world: World) -> Reconciled:
    return reconcile(world.ports, configured=world.routes, oldest="", made_at=lambda _: world.clock())


def test_a_rollback_past_the_fence_of_what_has_landed_is_told(world: World):
    first = landed(world)
    delete_rows(world)
    world.lineage.histories[OLD] = History("t", (Snapshot(12, 10, frozenset({first})), Snapshot(10, None)))
    assert resend(world, first).sent == 3
    deliver(world)
    second = land(world)
    world.lineage.histories[OLD] = history(first, second)
    assert compared(world).holds
    world.lineage.histories[OLD] = History("t", (Snapshot(10, None),))
    delete_rows(world)
    found = {each.batch: each for each in compared(world).findings}
    assert {batch: each.difference for batch, each in found.items()} == {
        first: TableDifference.NOT_FENCED,
        second: TableDifference.MISSING,
    }
    assert found[first].advice == f"`tidegate resend {first}` fences it again, and sends what nobody has sent yet"


def test_so_is_one_past_a_batch_that_landed_without_a_row(world: World):
    put(world, *uploads(1), age=0)
    for notice in pack("flights", BUCKET, uploads(1)):
        world.dispatch(notice)
    batch = land(world, {uploads(1)[0].key: (Outcome.QUARANTINED, "no JSON")}, rows=0)
    assert world.ledger.note_removed(batch)
    world.lineage.histories[OLD] = History("t", (Snapshot(10, None),))
    (found,) = compared(world).findings
    assert (found.difference, found.landed) == (TableDifference.NOT_FENCED, True)
    assert f"tidegate resend {batch}" in found.advice


def test_a_batch_that_is_noted_is_not_noted_again(world: World):
    """Of a large backfill each portion asks about the same batches."""
    landed(world)
    delete_rows(world)
    assert run(world, identifier="1").found == {FOUND.REMOVED: 3}
    world.work.objects = {name: body for name, body in world.work.objects.items() if "removed.json" not in name}
    assert run(world, identifier="2").found == {FOUND.REMOVED: 3}
    assert not [name for name in world.work.objects if "removed.json" in name]


def test_the_advice_names_the_table_that_the_route_goes_to_today(world: World):
    first = landed(world)
    delete_rows(world)
    moved(world)
    (found,) = compared(world).findings
    assert found.advice.startswith(
        f"if the table was rolled back: `tidegate resend {first}` sends its uploads again, to {NEW}, where its route"
        " goes today."
    )


def test_a_void_notice_for_another_table_lets_go_also_if_this_one_has_its_rows(world: World):
    """Nothing waits for it: the job finds the rows."""
    landed(world)
    moved(world)
    run(world)
    (sent,) = world.topic.published
    world.topic.published.clear()
    assert world.ledger.claim(sent, NEW).owned
    assert world.ledger.void(sent.id, "flights")
    moved(world, OLD)
    world.dispatch(sent)
    deliver(world)
    land(world)
    assert set(rows(world, OLD).values()) == {1}


def test_a_batch_that_was_noted_and_then_rolled_back_past_is_left_to_a_republication(world: World):
    """That it was noted proves nothing of the history of today."""
    first = landed(world)
    delete_rows(world)
    assert run(world, identifier="1").found == {FOUND.REMOVED: 3}
    assert world.batch(first).rows_removed
    world.topic.published.clear()  # they are lost, or wait among the dead letters
    world.lineage.histories[OLD] = History("t", (Snapshot(10, None),))
    counts = run(world, identifier="2")
    assert (counts.found[FOUND.COMMITTED], counts.sent, world.topic.published) == (3, 0, [])


@pytest.mark.parametrize("gathered", [True, False])
def test_a_reload_is_one_still_if_the_ledger_is_lost_while_it_is_under_way(world: World, gathered: bool):
    batch = landed(world)
    assert reload_batch(batch, world.ports, run="1", configured={"flights": world.flights}).sent == 3
    if gathered:
        deliver(world)
    lose_and_rebuild(world)
    assert all(each.reloads for each in world.topic.published)
    deliver(world)
    second = world.record.open_batch
    assert second
    assert world.seal_if_due()
    assert world.hand_off() == 1
    items = uploads_of(world.work, second)
    assert len(items) == 3
    assert all(each.reloads for each in items)


def test_a_file_that_gave_no_row_is_reloaded_too(world: World):
    files = uploads(3)
    put(world, *files, age=0)
    for notice in pack("flights", BUCKET, files):
        world.dispatch(notice)
    land(world, rows=0)
    assert run(world, scope=replace(scope_of(world), reloads=True)).found == {FOUND.RELOADED: 3}
    (sent,) = world.topic.published
    assert all(each.takes_from for each in sent.entries)


def test_a_batch_is_not_reloaded_into_another_table(world: World):
    """Its rows would stay where they are, beside the corrected ones of the other table."""
    batch = landed(world)
    moved = replace(world.flights, dataset=replace(world.flights.dataset, table="lake.raw.moved"))
    done = reload_batch(batch, world.ports, run="1", configured={"flights": moved})
    assert (done, world.topic.published) == (Resend(Resent.OTHER_TABLE), [])


def test_a_batch_whose_rows_may_have_been_replaced_is_not_reloaded_beside_the_correction(world: World):
    """Its route replaced, and appends by now: nobody would ask for a later version."""
    world.flights = replace(world.flights, dataset=replace(world.flights.dataset, replaces=True))
    batch = landed(world)
    assert reload_batch(batch, world.ports, run="1", configured={"flights": world.flights}).sent == 3
    world.topic.published.clear()
    appends = replace(world.flights, dataset=replace(world.flights.dataset, replaces=False))
    some, *_ = (each.key for each in uploads(3))
    for configured in (
        {"flights": appends},
        {},
        {"new": replace(appends, name="new", prefix=some), "flights": world.flights},
    ):
        done = reload_batch(batch, world.ports, run="2", configured=configured)
        assert (done, world.topic.published) == (Resend(Resent.ASK_THE_TABLE), [])
