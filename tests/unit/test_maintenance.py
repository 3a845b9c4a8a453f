"""What may be expired: never what decision 3 may still ask for."""

import itertools
import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.maintenance import (
    MILLI,
    SKEW_MS,
    AgedSnapshot,
    CompleteMaintenance,
    MaintainedTable,
    MaintainLimits,
    MaintenanceRequest,
    UnfinishedFloors,
    decode_maintenance,
    decode_maintenance_request,
    in_turn,
    long_behind,
    retention,
    scheduled_run,
)
from tidegate.core.publication import Floor, History, NotPublished, Snapshot, verdict

DAY = 86_400
NOW = 1_000 * DAY
LIMITS = MaintainLimits(keep_for=5 * DAY, keep_last=2, orphans_after=7 * DAY, compact_bytes=10**9)


def daily(count: int) -> list[AgedSnapshot]:
    """One a day, the head (number 1) a day old. The parent of the last one has expired."""
    return [AgedSnapshot(number, (NOW - number * DAY) * MILLI, number + 1) for number in range(1, count + 1)]


def floors(batch: str, *heads: int, uuid: str = "u") -> UnfinishedFloors:
    return UnfinishedFloors(batch, tuple(Floor(uuid, head) for head in heads))


def kept_of(ancestors: list[AgedSnapshot], older_than: int, keep_last: int) -> list[int]:
    """As `RemoveSnapshots` of Iceberg 1.11.0 walks a branch."""
    enumerated = enumerate(ancestors)
    return [
        each.id for _, each in itertools.takewhile(lambda at: at[0] < keep_last or at[1].at >= older_than, enumerated)
    ]


def test_without_an_unfinished_batch_age_and_number_decide() -> None:
    told = retention(daily(10), "u", [], LIMITS, NOW)
    assert kept_of(daily(10), told.older_than, told.keep_last) == [1, 2, 3, 4, 5]
    assert (told.expirable, told.later, told.held_by) == (5, 0, "")


def test_a_number_is_kept_whatever_its_age() -> None:
    told = retention(daily(10)[6:], "u", [], LIMITS, NOW)
    assert kept_of(daily(10)[6:], told.older_than, told.keep_last) == [7, 8]


def test_an_unfinished_batch_keeps_all_down_to_its_lowest_floor_that_is_reached() -> None:
    told = retention(daily(10), "u", [floors("B", 99, 8, 3), floors("C", 7)], LIMITS, NOW)
    assert kept_of(daily(10), told.older_than, told.keep_last) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_floor_that_the_history_does_not_reach_lets_nothing_expire() -> None:
    told = retention(daily(10), "u", [floors("C", 3), floors("B", 99)], LIMITS, NOW)
    assert told.held_by == "B"
    assert told.expirable == 0


def test_a_floor_whose_own_snapshot_has_expired_is_reached_as_decision_3_reaches_it() -> None:
    """An earlier run took it rightly: all above it was young. It keeps what is left, and holds nothing up."""
    line, floor = daily(10), Floor("u", 11)
    history = History("u", tuple(Snapshot(each.id, each.parent) for each in line))
    assert verdict(history, "B", floor) == NotPublished()
    told = retention(line, "u", [floors("B", 11)], LIMITS, NOW)
    assert (told.held_by, told.expirable) == ("", 0)
    assert kept_of(line, told.older_than, told.keep_last) == [each.id for each in line]
    # one further down is not reached, by neither
    assert verdict(history, "B", Floor("u", 12)) != NotPublished()
    assert retention(line, "u", [floors("B", 12)], LIMITS, NOW).held_by == "B"


def test_a_table_whose_history_is_whole_reaches_nothing_below_its_first_snapshot() -> None:
    line = [AgedSnapshot(1, NOW * MILLI, None)]
    assert retention(line, "u", [UnfinishedFloors("B", (Floor("u", None),))], LIMITS, NOW).held_by == "B"
    assert retention([], "u", [floors("B", 1)], LIMITS, NOW).held_by == "B"


def test_a_floor_of_a_table_that_was_replaced_and_a_batch_without_a_floor_keep_nothing() -> None:
    told = retention(daily(10), "u", [floors("B", 8, uuid="before"), floors("C")], LIMITS, NOW)
    assert told.expirable == 5


def test_what_is_too_much_for_a_run_is_left_to_the_next_the_oldest_going_first() -> None:
    few = MaintainLimits(5 * DAY, 2, 7 * DAY, 10**9, expire_snapshots=2)
    told = retention(daily(10), "u", [], few, NOW)
    assert kept_of(daily(10), told.older_than, told.keep_last) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (told.expirable, told.later) == (2, 3)


ANCESTORS = st.lists(st.integers(0, 20), max_size=12).map(
    # a child may be a minute older than its parent
    lambda steps: [
        AgedSnapshot(number, NOW * MILLI - total * DAY * MILLI + (number % 2) * SKEW_MS, number + 1)
        for number, total in enumerate(itertools.accumulate(steps), start=1)
    ]
)


@given(
    ANCESTORS,
    st.lists(st.lists(st.integers(1, 14), max_size=3), max_size=3),
    st.integers(0, 30),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_no_floor_that_was_reached_is_lost_whatever_is_committed_meanwhile(
    ancestors: list[AgedSnapshot],
    heads: list[list[int]],
    days: int,
    last: int,
    most: int,
    newer: int,
) -> None:
    limits = MaintainLimits(days * DAY, last, DAY, 1, expire_snapshots=most)
    unfinished = [floors(f"B{number}", *each) for number, each in enumerate(heads)]
    told = retention(ancestors, "u", unfinished, limits, NOW)
    newest = [AgedSnapshot(1_000 + number, (NOW + number) * MILLI) for number in range(newer)][::-1]
    by_then = newest + ancestors
    kept = kept_of(by_then, told.older_than, told.keep_last)
    there = {each.id for each in ancestors}
    below = {each.parent for each in ancestors} - there
    for batch in unfinished:
        for floor in batch.floors:
            if floor.head in there:
                assert floor.head in kept or told.held_by
                continue
            others = {each.head for each in batch.floors} - {floor.head}
            if floor.head in below and not told.held_by:
                assert kept == [each.id for each in by_then]
            elif not others & (there | below):
                assert told.held_by
    assert told.expirable <= max(most, 0) or told.older_than == 0
    if told.held_by:
        assert kept == [each.id for each in by_then]


def test_what_is_written_is_read_again() -> None:
    request = MaintenanceRequest(NOW, ("a.b.c",), (floors("B", 1, 2),), LIMITS, dry_run=True, asked_for=("a.b.c",))
    assert decode_maintenance_request(request.encode()) == request
    # a request of the version before names no table that is asked for
    before = {name: each for name, each in json.loads(request.encode()).items() if name != "asked_for"}
    before["limits"].pop("begin_for")
    assert decode_maintenance_request(json.dumps(before).encode()) == replace(request, asked_for=())
    done = CompleteMaintenance((MaintainedTable("a.b.c", small=3, remarks=("x",)), MaintainedTable("d", trouble="no")))
    assert decode_maintenance(done.encode()) == done
    assert [each.table for each in done.troubled] == ["d"]
    # newer code may have added fields: after a rollback this code goes on without them
    newer = json.loads(done.encode())
    newer["tables"][0]["later"] = 1
    assert decode_maintenance(json.dumps(newer).encode()) == done
    asked = json.loads(request.encode())
    asked["limits"]["later"] = 1
    assert decode_maintenance_request(json.dumps(asked).encode()) == request


def test_all_who_ask_in_a_period_ask_for_the_same_run() -> None:
    assert scheduled_run(NOW, DAY) == scheduled_run(NOW + DAY - 1, DAY) != scheduled_run(NOW + DAY, DAY)


def test_each_period_begins_with_another_table_and_none_waits_longer_than_there_are_tables() -> None:
    tables = tuple("abcde")
    orders = [in_turn(tables, NOW + number * DAY + 7, DAY) for number in range(5)]
    assert all(sorted(order) == list(tables) for order in orders)
    # whatever few a run reaches, each table is among them within as many runs as there are tables
    assert {order[0] for order in orders} == set(tables)
    assert in_turn(tables, NOW + 9, DAY) == orders[0]
    assert in_turn((), NOW, DAY) == ()


def test_a_table_is_long_behind_if_three_runs_in_a_row_left_it_behind() -> None:
    late, done = MaintainedTable("a", behind=True), MaintainedTable("a")
    failed, other = MaintainedTable("a", trouble="no"), MaintainedTable("b", behind=True)
    behind = CompleteMaintenance((late, other))
    assert long_behind([behind, CompleteMaintenance((failed,)), CompleteMaintenance((late,))]) == ("a",)
    assert long_behind([behind, CompleteMaintenance((done,)), behind]) == ()
    assert long_behind([behind, behind, None]) == ()
    assert long_behind([behind, behind, behind, None]) == ("a", "b")
