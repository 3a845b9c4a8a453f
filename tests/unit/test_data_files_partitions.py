"""Which partition a row is in: as PyIceberg, a second implementation of Iceberg, says it."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, YearTransform
from pyiceberg.types import DateType, TimestampType

from tidegate.sinks.iceberg.data_files.partitions import Partition, Scattered, TimePartition, divided

TRANSFORMS = {"year": YearTransform, "month": MonthTransform, "day": DayTransform, "hour": HourTransform}
FIRST, LAST = -62135596800000000, 253402300799999999
DAY = 86_400_000_000
MICROS = st.none() | st.integers(FIRST, LAST) | st.integers(-3 * DAY, 3 * DAY) | st.sampled_from([FIRST, -1, 0, LAST])


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@given(st.lists(MICROS, min_size=1, max_size=20))
def test_times(transform: str, zone: str | None, values: list[int | None]) -> None:
    column = pa.chunked_array([pa.array(values, pa.int64()).cast(pa.timestamp("us", zone))])
    found = TimePartition("p", "c", transform).units_of(column)
    wanted = [TRANSFORMS[transform]().transform(TimestampType())(value) for value in values]
    assert [None if each == np.iinfo(np.int64).min else each for each in found] == wanted


@pytest.mark.parametrize("transform", ["year", "month", "day"])
@given(st.lists(st.none() | st.integers(FIRST // DAY, LAST // DAY), min_size=1, max_size=20))
def test_days(transform: str, values: list[int | None]) -> None:
    column = pa.chunked_array([pa.array(values, pa.int32()).cast(pa.date32())])
    found = TimePartition("p", "c", transform).units_of(column)
    wanted = [TRANSFORMS[transform]().transform(DateType())(value) for value in values]
    assert [None if each == np.iinfo(np.int64).min else each for each in found] == wanted


@given(st.lists(MICROS, min_size=1, max_size=30))
def test_each_row_is_in_one_partition_and_in_its_order(values: list[int | None]) -> None:
    fields = (TimePartition("a", "t", "year"), TimePartition("b", "t", "hour"))
    rows = pa.table({"n": range(len(values)), "t": pa.array(values, pa.int64()).cast(pa.timestamp("us"))})
    parts = list(divided(rows, fields))
    assert sorted(number for _, part in parts for number in part["n"].to_pylist()) == list(range(len(values)))
    assert len({partition.units for partition, _ in parts}) == len(parts)
    for partition, part in parts:
        assert part["n"].to_pylist() == sorted(part["n"].to_pylist())
        for field, units in zip(fields, partition.units, strict=True):
            assert set(field.units_of(part["t"])) == {units}


def test_a_table_without_partitions_has_one() -> None:
    rows = pa.table({"n": [1, 2]})
    ((partition, part),) = divided(rows, ())
    assert (partition.folder, partition.values, part) == ("", [], rows)


@pytest.mark.parametrize(
    ("transform", "micros", "value", "folder"),
    [
        ("year", 1_795_262_400_000_000, "56", "p=2026/"),
        ("month", 1_795_262_400_000_000, "682", "p=2026-11/"),
        ("day", 1_795_262_400_000_000, "2026-11-21", "p=2026-11-21/"),
        ("hour", 1_795_262_400_000_000, "498684", "p=2026-11-21-12/"),
        ("day", FIRST, "0001-01-01", "p=0001-01-01/"),
        ("day", LAST, "9999-12-31", "p=9999-12-31/"),
        ("hour", None, "__HIVE_DEFAULT_PARTITION__", "p=null/"),
    ],
)
def test_how_partitions_are_written(transform: str, micros: int | None, value: str, folder: str) -> None:
    field = TimePartition("p", "t", transform)
    (units,) = field.units_of(pa.chunked_array([pa.array([micros], pa.int64()).cast(pa.timestamp("us"))]))
    partition = Partition((field,), (int(units),))
    assert (partition.values, partition.folder) == ([value], folder)


@pytest.mark.parametrize("micros", [FIRST - 1, LAST + 1, -(2**63), 2**63 - 1])
def test_years_that_have_no_name_are_left_to_spark(micros: int) -> None:
    rows = pa.table({"t": pa.array([0, micros], pa.int64()).cast(pa.timestamp("us"))})
    with pytest.raises(Scattered):
        list(divided(rows, (TimePartition("p", "t", "day"),)))


@given(st.lists(st.integers(0, 9), max_size=200))
def test_rows_of_a_partition_keep_their_order(days: list[int]) -> None:
    micros = [day * 86_400_000_000 for day in days]
    rows = pa.table({"t": pa.array(micros, pa.int64()).cast(pa.timestamp("us")), "n": range(len(days))})
    found = {
        part.units: some["n"].to_pylist()
        for part, some in divided(rows, (TimePartition("p", "t", "day"),))
        if len(some)
    }
    assert found == {(day,): [at for at, each in enumerate(days) if each == day] for day in set(days)}
