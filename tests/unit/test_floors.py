"""Which floor a driver asks, and under which one it publishes, after people have decided about its batch."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.fakes import MemoryWork
from tidegate.core.manifests import floor_name
from tidegate.core.publication import (
    Floor,
    History,
    Published,
    Snapshot,
    down_to,
)
from tidegate.core.receipts import encode_floor
from tidegate.flows.publish import Attempt, Undecided
from tidegate.flows.sink import SeenVersion

BATCH = "01JD0000000000000000000000"
LINE = (Snapshot(1, None), Snapshot(2, 1), Snapshot(3, 2), Snapshot(4, 3))
"""A table's main, oldest first."""


@dataclass
class Table:
    """A sink whose table knows of its history what is in `line`. It notes under which floor somebody publishes."""

    line: tuple[Snapshot, ...] = LINE
    exists: bool = True
    table: str = "lake.t"
    published: list[Floor] = field(default_factory=list)

    def history(self, floor: Floor) -> History:
        return History("uuid", down_to(floor, iter(self.line[::-1])))

    def position(self) -> Floor:
        return Floor("uuid", self.line[-1].id)

    def rolled_back(self) -> tuple[History, frozenset[str]]:
        return History("uuid", self.line[::-1]), frozenset()

    def prepare(self) -> None: ...

    def create_if_absent(self) -> None: ...

    def stage(self, items: Any) -> Any:
        raise NotImplementedError

    def stage_nothing(self) -> int:
        raise NotImplementedError

    def publish(self, staged: int, floor: Floor, seen: SeenVersion | None = None) -> Published:
        self.published.append(floor)
        return Published(99, staged)

    def tidy(self) -> None: ...


class Driver(Attempt):
    """`Attempt` that stages and writes nothing."""

    def stage(self) -> int:
        return 50

    def stage_fence(self) -> int:
        return 50

    def end(self, decided: Published) -> Any:
        return decided


def driver(table: Table, *heads: int | None, decided: int = 0) -> Driver:
    """Of a batch with the floors at these snapshots, in order; None is one that was never written."""
    work = MemoryWork()
    made = Driver(table, work, BATCH, 2, floors=decided)
    for number, head in enumerate(heads):
        if head is not None:
            work.put(made.folder + floor_name(number), encode_floor(Floor("uuid", head)))
    return made


def published_in(line: tuple[Snapshot, ...], staged: int) -> tuple[Snapshot, ...]:
    return (*line, Snapshot(5, line[-1].id, publishes=frozenset({BATCH}), source=staged))


@pytest.mark.parametrize("mode", ["ingest", "fence"])
@pytest.mark.parametrize(
    ("forgotten", "floors", "expected"),
    [
        pytest.param(0, (1, 3), 1, id="the oldest floor answers: it outranks what a person has said since"),
        pytest.param(2, (1, 3), 3, id="the oldest one is lost"),
        pytest.param(2, (1, 2, 4), 2, id="the oldest of those that are left"),
    ],
)
def test_a_driver_publishes_under_the_oldest_floor_that_still_answers(
    mode: str, forgotten: int, floors: tuple[int, ...], expected: int
) -> None:
    table = Table(LINE[forgotten:])
    getattr(driver(table, *floors, decided=len(floors) - 1), mode)()
    assert table.published == [Floor("uuid", expected)]


@pytest.mark.parametrize("mode", ["ingest", "fence"])
def test_an_older_floor_that_knows_of_a_publication_outranks_a_newer_one_that_does_not(mode: str) -> None:
    table = Table((*published_in(LINE[:2], 7), Snapshot(6, 5)))
    assert getattr(driver(table, 1, 6, decided=1), mode)() == Published(5, 7)
    assert not table.published


def test_after_a_decision_every_floor_is_written_before_anything_is_staged() -> None:
    table = Table()
    made = driver(table, decided=2)
    made.ingest()
    assert [made.known_floor(number) for number in range(3)] == [Floor("uuid", 4)] * 3
    assert table.published == [Floor("uuid", 4)]


@pytest.mark.parametrize("decided", [0, 1])
def test_where_no_floor_answers_a_person_has_to_decide(decided: int) -> None:
    table = Table(LINE[3:])
    with pytest.raises(Undecided):
        driver(table, 1, 2, decided=decided).ingest()
    assert not table.published
