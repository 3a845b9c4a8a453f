"""What becomes of work under way when `tidegate.toml` changes: a route is renamed or removed, its table or schema
changes."""

from dataclasses import replace

import pytest

from tests.functional.conftest import World
from tests.support.build import BUCKET, notice, route, upload
from tests.support.fakes import play_publishing
from tidegate.core.batches import State
from tidegate.core.errors import Retryable
from tidegate.core.notices import pack
from tidegate.core.records import batch_key
from tidegate.core.routes import Route, decode_dataset, decode_route, encode_route
from tidegate.flows.dispatch import dispatch
from tidegate.flows.settle import routes_to_settle, settle, settle_all
from tidegate.flows.status import standing, status
from tidegate.metrics import Metric


def look(world: World, configured: dict[str, Route]) -> list[Route]:
    """One look of settle's, as its handler takes it; the routes that it looked at."""
    found = routes_to_settle(configured, world.ports)
    for each in found:
        assert settle(each, world.ports) == []
    return found


def renamed(world: World) -> dict[str, Route]:
    return {"departures": replace(world.flights, name="departures")}


def test_what_a_renamed_route_had_gathered_is_sealed_handed_off_and_settled(world: World):
    world.arrive()
    orphan = world.open.id
    world.clock.advance(3_600)
    look(world, renamed(world))
    assert world.batch(orphan).state is State.SUBMITTED
    play_publishing(world.work, orphan)
    world.jobs.end(orphan, 1)
    look(world, renamed(world))
    assert world.batch(orphan).state is State.COMMITTED
    assert world.ledger.route("flights").tally.committed == 3


def test_what_a_removed_route_has_under_way_is_seen(world: World):
    world.sealed()
    world.clock.advance(86_400)
    (orphan,) = routes_to_settle({}, world.ports)
    stands = standing(orphan, world.ledger.route(orphan.name), world.ports)
    assert (orphan.name, stands.oldest_pending, stands.unfinished) == ("flights", 86_400, 1)
    (told,) = status([orphan], world.ports)
    assert told.uploads.pending == 3


def test_the_alarms_of_a_removed_route_get_a_zero_when_its_last_batch_ends(world: World):
    """Else they would stay as they were."""
    batch = world.submitted()
    world.clock.advance(10 * 86_400)
    settle_all({}, world.ports)
    assert world.count.values[Metric.LATE_NOW, "flights"] == 1
    play_publishing(world.work, batch.id)
    world.jobs.end(batch.id, 1)
    world.count.values.clear()
    settle_all({}, world.ports)
    assert world.batch(batch.id).state is State.COMMITTED
    assert (Metric.LATE_NOW, "flights") in world.count.values
    assert world.count.values[Metric.LATE_NOW, "flights"] == 0
    world.count.values.clear()
    settle_all({}, world.ports)
    assert (Metric.LATE_NOW, "flights") not in world.count.values


def test_a_notice_of_a_removed_route_joins_its_batch_and_a_repeat_of_it_is_refused(world: World):
    world.arrive()
    look(world, renamed(world))

    def arrives(key: str) -> None:
        (of,) = pack("flights", BUCKET, [upload(key)])
        dispatch(of.encode(), world.ports, routes=renamed(world))

    arrives("flights/late.json")
    assert world.open.objects == 4
    arrives("flights/0000-00000.json")
    assert world.count[Metric.DUPLICATES_REFUSED] == 1


def test_the_settings_of_a_removed_route_are_those_of_its_last_deployment(world: World):
    world.arrive()
    corrected = replace(world.flights, dataset=replace(world.flights.dataset, schema="id bigint, more string"))
    look(world, {"flights": corrected})
    (orphan,) = look(world, {})
    assert orphan == corrected


def test_a_route_is_remembered_before_anything_joins_its_batch(world: World):
    """So nobody can remove it so fast that what it gathered is not found."""

    class Dies(Exception):
        pass

    class Mortal:
        def __getattr__(self, name: str):
            if name == "register":
                assert world.ledger.known_route("flights") == world.flights
                raise Dies
            return getattr(world.ledger, name)

    with pytest.raises(Dies):
        dispatch(notice("flights/a.json").encode(), replace(world.ports, ledger=Mortal()), routes=world.routes)


def test_a_route_that_is_remembered_as_it_is_is_not_written_again(world: World):
    look(world, world.routes)
    written: list[str] = []

    class Watched:
        def __getattr__(self, name: str):
            if name == "remember_route":
                written.append(name)
            return getattr(world.ledger, name)

    found = routes_to_settle(world.routes, replace(world.ports, ledger=Watched()))
    assert [each.name for each in found] == ["flights", "weather"]
    assert written == []


def test_a_batch_keeps_the_table_that_it_was_sealed_for(world: World):
    batch = world.sealed()
    moved = replace(world.flights, dataset=replace(world.flights.dataset, table="lake.raw.elsewhere"))
    look(world, {"flights": moved})
    ((dataset, _, _),) = world.jobs.told
    assert dataset.table == "lake.raw.flights"
    assert decode_dataset(world.batch(batch.id).dataset).table == "lake.raw.flights"


def test_a_schema_that_came_with_another_table_is_not_for_what_was_sealed_before(world: World):
    """The old table has a column that the new schema lacks: its rows must not land there as nulls."""
    world.sealed()
    other = replace(world.flights.dataset, table="lake.raw.elsewhere", schema="name string", format="csv")
    look(world, {"flights": replace(world.flights, dataset=other)})
    assert [dataset for dataset, _, _ in world.jobs.told] == [world.flights.dataset]


def test_an_open_batch_goes_to_the_table_of_the_moment_when_it_is_sealed(world: World):
    world.arrive()
    world.clock.advance(3_600)
    moved = replace(world.flights, dataset=replace(world.flights.dataset, table="lake.raw.elsewhere"))
    look(world, {"flights": moved})
    ((dataset, _, _),) = world.jobs.told
    assert dataset.table == "lake.raw.elsewhere"


def test_a_corrected_schema_and_format_reach_the_next_attempt_and_not_the_running_one(world: World):
    batch = world.submitted()
    changed = replace(world.flights.dataset, schema="id bigint, more string", format="csv")
    configured = {"flights": replace(world.flights, dataset=changed)}
    # what started the job died before it recorded it: the same attempt is started again, and reads alike
    world.edit(batch_key(batch.id), job_run=None)
    look(world, configured)
    assert [told[0] for told in world.jobs.told] == [world.flights.dataset] * 2
    world.jobs.end(batch.id, 1)
    world.wait()
    look(world, configured)
    assert world.batch(batch.id).attempt == 2
    assert world.jobs.told[-1][0] == changed


def test_the_last_attempt_knows_that_it_is(world: World):
    batch = world.submitted()
    for attempt in (1, 2):
        world.jobs.end(batch.id, attempt)
        world.wait()
        world.settle()
    assert [last for _, _, last in world.jobs.told] == [False, False, True]


def test_another_bucket_or_prefix_leaves_what_was_gathered_where_it_is(world: World):
    """A part names the bucket and the key of each upload; the route only says which uploads are taken from now on."""
    batch = world.sealed()
    moved = {"flights": replace(world.flights, bucket="another", prefix="elsewhere/", owner="210987654321")}
    look(world, moved)
    play_publishing(world.work, batch.id)
    world.jobs.end(batch.id, 1)
    look(world, moved)
    assert world.batch(batch.id).state is State.COMMITTED
    assert [key for part in world.parts(batch.id) for key in world.keys_in(batch.id, part)] == [
        f"flights/0000-{number:05}.json" for number in range(3)
    ]


def test_a_retired_route_finishes_what_it_has(world: World):
    world.arrive()
    world.clock.advance(3_600)
    batch = world.open.id
    look(world, {"flights": replace(world.flights, retired=True)})
    assert world.batch(batch).state is State.SUBMITTED


def test_a_route_of_no_deployment_is_given_back(world: World):
    with pytest.raises(Retryable):
        world.dispatch(notice("trains/a.json", route="trains"))


def test_what_another_version_wrote_about_a_route_is_understood():
    of = route("flights", max_wait=300)
    text = encode_route(of)
    assert decode_route(text) == of
    newer = text.replace('"name"', '"invented": 1, "name"', 1).replace('"limits":{', '"limits":{"invented":2,')
    assert decode_route(newer) == of
    older = text.replace('"retired":false,', "").replace('"owner":"",', "")
    assert older != text
    assert decode_route(older) == of
