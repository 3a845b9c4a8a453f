"""No file tells a least or a greatest value by which a reader would miss a row."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_data_files_write import path_of, written
from tidegate.sinks.iceberg.data_files import write as writing
from tidegate.sinks.iceberg.data_files.bounds import LONGEST, boundless, statistics
from tidegate.sinks.iceberg.data_files.layout import Layout

INNER = pa.struct([("f", pa.float32()), ("s", pa.string())])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("x", pa.binary()),
        ("u", pa.dictionary(pa.int32(), pa.string())),
        ("a", pa.list_(pa.float64())),
        ("r", pa.struct([("q", pa.list_(INNER)), ("i", pa.int32())])),
        ("m", pa.map_(pa.string(), pa.float32())),
    ]
)
LONG = "z" * (LONGEST + 1)


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, **row} for number, row in enumerate(rows)], schema=SCHEMA)


@pytest.mark.parametrize(
    ("row", "paths"),
    [
        ({"d": 1.0, "s": "z" * LONGEST, "a": [math.inf], "m": {"k": -0.0}}, set()),
        ({"d": math.nan}, {"d"}),
        ({"s": LONG}, {"s"}),
        ({"s": "é" * (LONGEST // 2 + 1)}, {"s"}),
        ({"x": LONG.encode()}, {"x"}),
        ({"u": LONG}, {"u"}),
        ({"a": [1.0, math.nan]}, {"a.list.element"}),
        ({"r": {"q": [{"f": math.nan, "s": LONG}]}}, {"r.q.list.element.f", "r.q.list.element.s"}),
        ({"m": {LONG: math.nan}}, {"m.key_value.key", "m.key_value.value"}),
    ],
)
def test_which_columns_mislead(row: dict[str, Any], paths: set[str]) -> None:
    rows = table({}, {"d": 2.0, "s": "a"}, row, {})
    assert boundless(rows) == paths
    assert boundless(table({}, {"d": 2.0, "s": "a"})) == set()
    chosen = statistics(SCHEMA, boundless(rows))
    assert chosen is True if not paths else not paths & set(chosen)


def test_a_column_whose_name_looks_like_a_path() -> None:
    schema = pa.schema([("a", pa.list_(pa.int32())), ("a.list.element", pa.float64()), ("b", pa.int32())])
    assert statistics(schema, frozenset({"a.list.element"})) == ["b"]
    assert statistics(schema, frozenset({"a.list.element", "b"})) is False


FLOAT32 = st.floats(width=32)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "d": st.none() | st.floats(),
        "s": st.none() | st.sampled_from(["", "a", "z", LONG, "\U0010ffff" * 2_000]),
        "a": st.none() | st.lists(st.none() | st.floats(), max_size=3),
        "r": st.none()
        | st.fixed_dictionaries({"q": st.none() | st.lists(FLOAT32.map(lambda f: {"f": f}), max_size=3)}),
        "m": st.none() | st.dictionaries(st.sampled_from(["", LONG]), st.none() | FLOAT32),
    },
)


def of_chunk(group: Any, column: int) -> tuple[bool, bool]:
    """Whether the column has a value in the row group, as far as is told, and whether bounds are told."""
    chunk = group.column(column)
    found = chunk.statistics
    return (True, False) if found is None else (found.num_values > 0, found.has_min_max)


@given(st.lists(st.lists(VALUES, min_size=1, max_size=3), min_size=1, max_size=4))
def test_bounds_that_are_told_hold_for_all_values(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[dict[str, Any]]]
) -> None:
    layout = Layout(f"file://{tmp_path_factory.mktemp('t')}/data/", SCHEMA, "zstd", None, 1 << 29)
    batches = [batch for rows in groups for batch in table(*rows).to_batches()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "GROUP_ROWS", 1)
        files = written(layout, batches)
    rows = 0
    for each in files:
        metadata = pq.read_metadata(path_of(each))
        rows += metadata.num_rows
        for column in range(metadata.num_columns):
            told = [of_chunk(metadata.row_group(number), column) for number in range(metadata.num_row_groups)]
            # of all row groups that have a value, or of none: readers take them for the file's
            assert len({bounded for there, bounded in told if there}) <= 1
    assert rows == sum(map(len, groups))
    back = [pq.read_table(path_of(each)) for each in files]
    shown = sorted(repr(row) for part in back for row in part.to_pylist())
    assert shown == sorted(repr(row) for group in groups for row in table(*group).to_pylist())


def test_rows_that_mislead_are_apart_from_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 1)
    layout = Layout(f"file://{tmp_path}/data/", SCHEMA, "zstd", None, 1 << 29)
    groups = [table({"d": 0.5}), table({"d": math.nan}), table({"d": 1.5}), table({"d": math.nan})]
    files = written(layout, [batch for group in groups for batch in group.to_batches()])
    assert [each["rows"] for each in files] == [2, 2]
    found = {}
    for each in files:
        chunk = pq.read_metadata(path_of(each)).row_group(0).column(1)
        found[chunk.statistics is None] = pq.read_table(path_of(each))["d"].to_pylist()
    assert found[False] == [0.5, 1.5]
    assert all(map(math.isnan, found[True]))
