"""What a table's history says about a batch, over random lives of a table."""

import contextlib
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.publication import (
    Floor,
    History,
    NotPublished,
    Published,
    Unprovable,
    down_to,
    verdict,
)
from tidegate.sinks.iceberg.marks import IcebergSnapshot

BATCH = "01JMINE"
OTHER = "01JOTHER"


@dataclass
class Table:
    """An Iceberg table as far as its snapshots go, with write-audit-publish as Tidegate does it."""

    uuid: str = "uuid-1"
    head: int | None = None
    snapshots: dict[int, IcebergSnapshot] = field(default_factory=dict)
    _last: int = 100

    def history(self) -> History:
        return History(self.uuid, tuple(each.plain for each in self.ancestry()))

    def floor(self) -> Floor:
        return Floor(self.uuid, self.head)

    def _add(self, summary: dict[str, str]) -> int:
        self._last += 1
        self.snapshots[self._last] = IcebergSnapshot(self._last, self.head, summary)
        return self._last

    def append(self) -> int:
        """A write that has nothing to do with us, such as compaction."""
        self.head = self._add({"operation": "append"})
        return self.head

    def stage(self, wap_id: str, **summary: str) -> int:
        """Written, but in no branch: its parent is the head of now."""
        return self._add({"operation": "append", "tidegate.batch": wap_id, **summary})

    def publish(self, staged: int) -> int:
        """Our cherry-pick: the rows under a new id, on top of the head."""
        wap_id = self.snapshots[staged].summary["tidegate.batch"]
        for ancestor in self.ancestry():
            if wap_id == ancestor.summary.get("published-wap-id"):
                raise DuplicateWap(wap_id)
        self.head = self._add({"source-snapshot-id": str(staged), "published-wap-id": wap_id})
        return self.head

    def ancestry(self) -> list[IcebergSnapshot]:
        found = []
        current = self.head
        while current is not None and current in self.snapshots:
            found.append(self.snapshots[current])
            current = self.snapshots[current].parent
        return found

    def expire(self, keep: int) -> None:
        """Forget all but the last `keep` ancestors and what was staged."""
        ancestry = self.ancestry()
        for snapshot in ancestry[keep:]:
            del self.snapshots[snapshot.id]

    def roll_back(self, steps: int) -> None:
        ancestry = self.ancestry()
        if steps < len(ancestry):
            self.head = ancestry[steps].id

    def replace(self) -> None:
        """Dropped and created again."""
        self.uuid, self.head, self.snapshots = f"uuid-{self._last}", None, {}


class DuplicateWap(Exception):
    pass


def a_table(appends: int = 2) -> Table:
    table = Table()
    for _ in range(appends):
        table.append()
    return table


# ---- by example


@pytest.mark.parametrize("appends", [0, 2], ids=["empty table", "table"])
def test_a_batch_that_was_only_staged_is_not_published(appends: int):
    table = a_table(appends)
    floor = table.floor()
    table.stage(BATCH)
    assert verdict(table.history(), BATCH, floor) == NotPublished()


@pytest.mark.parametrize("appends", [0, 2], ids=["empty table", "table"])
def test_a_publication_names_its_source(appends: int):
    table = a_table(appends)
    floor = table.floor()
    staged = table.stage(BATCH)
    table.append()
    published = table.publish(staged)
    assert published != staged
    assert verdict(table.history(), BATCH, floor) == Published(published, staged)


def test_of_two_staged_twins_the_published_one_is_named():
    table = a_table()
    floor = table.floor()
    zombie, mine = table.stage(BATCH), table.stage(BATCH)
    table.append()
    published = table.publish(mine)
    assert verdict(table.history(), BATCH, floor) == Published(published, mine)
    with pytest.raises(DuplicateWap):
        table.publish(zombie)


def test_a_batch_stays_published_whatever_is_written_after_it():
    table = a_table()
    floor = table.floor()
    staged = table.stage(BATCH)
    published = table.publish(staged)
    for _ in range(5):
        table.append()
        table.publish(table.stage(f"{OTHER}{table.head}"))
    assert verdict(table.history(), BATCH, floor) == Published(published, staged)


def test_another_batch_is_no_evidence():
    table = a_table()
    floor = table.floor()
    table.publish(table.stage(OTHER))
    table.publish(table.stage(BATCH + "X"))
    assert verdict(table.history(), BATCH, floor) == NotPublished()


def test_once_expiry_has_reached_what_followed_the_floor_nothing_can_be_said():
    table = a_table()
    floor = table.floor()
    table.append()
    table.append()
    table.expire(keep=1)
    answer = verdict(table.history(), BATCH, floor)
    assert isinstance(answer, Unprovable)
    assert str(floor.head) in answer.reason
    assert BATCH in answer.reason


def test_the_floor_itself_may_be_expired_while_all_that_followed_it_is_there():
    table = a_table()
    floor = table.floor()
    table.append()
    table.append()
    table.expire(keep=2)
    assert floor.head not in table.snapshots
    assert verdict(table.history(), BATCH, floor) == NotPublished()


def test_expiry_that_stops_at_the_floor_does_no_harm():
    table = a_table(5)
    floor = table.floor()
    staged = table.stage(BATCH)
    published = table.publish(staged)
    table.expire(keep=2)
    assert verdict(table.history(), BATCH, floor) == Published(published, staged)


def test_the_floor_of_an_empty_table_is_lost_when_its_first_snapshots_are_expired():
    table = a_table(0)
    floor = table.floor()
    for _ in range(3):
        table.append()
    table.expire(keep=1)
    answer = verdict(table.history(), BATCH, floor)
    assert isinstance(answer, Unprovable)
    assert "an empty table" in answer.reason


def test_a_table_that_was_rolled_back_below_the_floor_can_say_nothing():
    table = a_table(3)
    floor = table.floor()
    table.roll_back(1)
    assert isinstance(verdict(table.history(), BATCH, floor), Unprovable)
    table.append()
    assert isinstance(verdict(table.history(), BATCH, floor), Unprovable)


def test_a_table_whose_head_is_gone_altogether_can_say_nothing():
    table = a_table(3)
    floor = table.floor()
    table.head = None
    assert isinstance(verdict(table.history(), BATCH, floor), Unprovable)


def test_a_publication_that_was_rolled_back_to_the_floor_is_not_published():
    # the batch is not in the table, and the history says so truthfully: it may be published again
    table = a_table()
    floor = table.floor()
    table.publish(table.stage(BATCH))
    table.roll_back(1)
    assert verdict(table.history(), BATCH, floor) == NotPublished()


@pytest.mark.parametrize("appends", [0, 2], ids=["empty table", "table"])
def test_a_table_that_was_replaced_can_say_nothing(appends: int):
    table = a_table(appends)
    floor = table.floor()
    table.publish(table.stage(BATCH))
    table.replace()
    answer = verdict(table.history(), BATCH, floor)
    assert isinstance(answer, Unprovable)
    assert floor.table_uuid in answer.reason
    assert table.uuid in answer.reason


def test_a_batch_that_is_there_twice_is_for_a_person():
    # only possible past the check, but then it must not be called published
    table = a_table()
    floor = table.floor()
    for staged in (7, 8):
        table.head = table._add({"source-snapshot-id": str(staged), "published-wap-id": BATCH})
    answer = verdict(table.history(), BATCH, floor)
    assert isinstance(answer, Unprovable)
    assert "2 times" in answer.reason


# ---- random lives

STEPS = st.lists(
    st.one_of(
        st.just(("append",)),
        st.just(("stage mine",)),
        st.just(("stage other",)),
        st.tuples(st.just("publish mine"), st.integers(0, 3)),
        st.tuples(st.just("publish other"), st.integers(0, 3)),
        st.tuples(st.just("expire"), st.integers(1, 6)),
        st.tuples(st.just("roll back"), st.integers(1, 4)),
        st.just(("replace",)),
    ),
    max_size=25,
)


def live(table: Table, steps: list[tuple[Any, ...]]) -> None:
    for number, (what, *arguments) in enumerate(steps):
        mine = [each.id for each in table.snapshots.values() if each.summary.get("tidegate.batch") == BATCH]
        others = [each.id for each in table.snapshots.values() if each.summary.get("tidegate.batch", BATCH) != BATCH]
        match what:
            case "append":
                table.append()
            case "stage mine":
                table.stage(BATCH)
            case "stage other":
                table.stage(f"{OTHER}-{number}")
            case "publish mine" | "publish other":
                candidates = mine if what == "publish mine" else others
                if candidates:
                    with contextlib.suppress(DuplicateWap):
                        table.publish(candidates[arguments[0] % len(candidates)])
            case "expire":
                table.expire(arguments[0])
            case "roll back":
                table.roll_back(arguments[0])
            case "replace":
                table.replace()


@given(st.integers(0, 4), STEPS)
def test_the_verdict_never_says_more_than_the_ancestry_does(appends: int, steps: list[tuple[Any, ...]]):
    table = a_table(appends)
    floor = table.floor()
    live(table, steps)
    present = [
        each
        for each in table.ancestry()
        if BATCH in (each.summary.get("tidegate.batch"), each.summary.get("published-wap-id"))
    ]
    match verdict(table.history(), BATCH, floor):
        case Published(snapshot, staged):
            assert [each.id for each in present] == [snapshot]
            assert staged == int(present[0].summary.get("source-snapshot-id", snapshot))
        case NotPublished():
            # and not merely forgotten: the ancestry reaches the floor
            assert not present
            assert table.uuid == floor.table_uuid
            ancestry = table.ancestry()
            reached = [table.head, *(each.parent for each in ancestry)]
            assert floor.head in reached
        case Unprovable(reason):
            assert reason


@given(st.integers(0, 4), STEPS)
def test_without_expiry_rollback_or_replacement_there_is_always_an_answer(appends: int, steps: list[tuple[Any, ...]]):
    table = a_table(appends)
    floor = table.floor()
    published = False
    for step in steps:
        if step[0] not in ("expire", "roll back", "replace"):
            live(table, [step])
            answer = verdict(table.history(), BATCH, floor)
            assert isinstance(answer, Published | NotPublished)
            # final: what is published stays so
            assert not published or isinstance(answer, Published)
            published = isinstance(answer, Published)


@given(st.integers(0, 4), STEPS, st.integers(0, 3))
def test_once_fenced_no_zombie_publishes(appends: int, steps: list[tuple[Any, ...]], choice: int):
    table = a_table(appends)
    floor = table.floor()
    table.stage(BATCH)
    live(table, [step for step in steps if step[0] in ("append", "stage mine", "stage other", "publish other")])
    zombies = [each.id for each in table.snapshots.values() if each.summary.get("tidegate.batch") == BATCH]
    fence = table.stage(BATCH, fence="true")
    published = table.publish(fence)
    assert verdict(table.history(), BATCH, floor) == Published(published, fence)
    with pytest.raises(DuplicateWap):
        table.publish(zombies[choice % len(zombies)])
    assert verdict(table.history(), BATCH, floor) == Published(published, fence)


# ---- how far is read


@given(st.integers(0, 4), STEPS)
def test_what_lies_below_the_floor_changes_no_verdict_and_is_not_read(appends: int, steps: list[tuple[Any, ...]]):
    table = a_table(appends)
    floor = table.floor()
    live(table, steps)
    read: list[IcebergSnapshot] = []

    def reading() -> Any:
        for snapshot in table.ancestry():
            read.append(snapshot)
            yield snapshot.plain

    history = History(table.uuid, down_to(floor, reading()))
    assert verdict(history, BATCH, floor) == verdict(table.history(), BATCH, floor)
    above = [each.id for each in read]
    assert floor.head not in above[:-1]


def test_what_went_in_past_the_check_is_for_a_person():
    table = a_table()
    floor = table.floor()
    table.head = table._add({"tidegate.batch": BATCH})
    answer = verdict(table.history(), BATCH, floor)
    assert isinstance(answer, Unprovable)
    assert "past the check" in answer.reason


def test_a_source_that_is_no_number_hinders_no_other_batch():
    strange = IcebergSnapshot(2, 1, {"published-wap-id": OTHER, "source-snapshot-id": "somebody's"})
    history = History("uuid-1", (strange.plain, IcebergSnapshot(1, None, {}).plain))
    assert verdict(history, BATCH, Floor("uuid-1", 1)) == NotPublished()
