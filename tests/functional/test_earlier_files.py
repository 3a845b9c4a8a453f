"""A new route on a bucket with files: they are counted, and the backfill is offered, until its first upload arrives."""

from dataclasses import replace

import pytest

from tests.support.fakes import MemoryListing
from tests.support.world import World
from tidegate.core.audit import BEGINNING
from tidegate.core.errors import Retryable
from tidegate.core.uploads import Upload
from tidegate.flows.earlier_files import RECENT, EarlierFiles, earlier_files
from tidegate.flows.status import status


def put(world: World, *keys: str) -> None:
    world.listing.there |= {Upload(world.flights.bucket, key, "v1", 5): 1_000 for key in keys}


def found(world: World) -> list[EarlierFiles]:
    return earlier_files(status([world.flights], world.ports), world.ports)


def key(world: World, name: str) -> str:
    return f"{world.flights.prefix}{name}{world.flights.suffix}"


def test_files_that_the_route_would_take_are_counted(world: World):
    assert found(world) == []
    put(world, key(world, "a"), key(world, "b"), f"{world.flights.prefix}other.suffix", "elsewhere/c.json.gz")
    (earlier,) = found(world)
    assert (earlier.route.name, earlier.count, earlier.more, earlier.trouble) == (world.flights.name, 2, False, "")


def test_what_was_put_a_moment_ago_is_on_its_way(world: World):
    put(world, key(world, "a"))
    world.listing.there |= {Upload(world.flights.bucket, key(world, "b"), "v1", 5): world.clock() - 60}
    assert [each.count for each in found(world)] == [1]
    world.clock.advance(RECENT)
    assert [each.count for each in found(world)] == [2]


def test_one_page_is_listed_and_no_more(world: World):
    world.listing.size = 3
    put(world, *(key(world, str(number)) for number in range(9)))
    (earlier,) = found(world)
    assert (earlier.count, earlier.more) == (3, True)
    assert world.listing.asked == [(world.flights.bucket, world.flights.prefix, BEGINNING, world.flights.owner)]


def test_once_an_upload_has_arrived_nobody_lists(world: World):
    put(world, key(world, "a"))
    world.submitted()
    assert found(world) == []
    assert world.listing.asked == []


@pytest.mark.parametrize("state", ["retired", "removed"])
def test_nothing_is_offered_for_a_route_that_takes_no_uploads(world: World, state: str):
    put(world, key(world, "a"))
    (status_of,) = status([replace(world.flights, retired=state == "retired")], world.ports)
    assert earlier_files([replace(status_of, configured=state != "removed")], world.ports) == []


def test_a_bucket_that_cannot_be_listed_is_told(world: World, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise Retryable("could not list s3://landing: AccessDenied")

    monkeypatch.setattr(MemoryListing, "page", refuse)
    (earlier,) = found(world)
    assert earlier.trouble == "could not list s3://landing: AccessDenied"


def test_the_files_of_a_renamed_route_are_no_earlier_files(world: World):
    (notice,) = world.arrive(2)
    statuses = status([replace(world.flights, name="departures")], world.ports)
    put(world, key(world, "a"))
    assert [each.count for each in earlier_files(statuses, world.ports)] == [1]
    world.listing.there = {entry.upload: 1 for entry in notice.entries}
    assert earlier_files(statuses, world.ports) == []
