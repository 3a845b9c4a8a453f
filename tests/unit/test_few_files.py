"""Where a few Parquet files have the rows of some objects: what the driver reads, and what it leaves to Spark."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sinks.iceberg import few_files
from tidegate.sinks.iceberg.data_files.fields import FIELD_ID
from tidegate.sinks.iceberg.data_files.layout import Access
from tidegate.sinks.iceberg.few_files import _File, _is_plain, _OfSpark, _ranges, _rows
from tidegate.sinks.iceberg.position_deletes import DELETES, RowRange

IDS = (4, 5, 7)


def written(path: Path, columns: Mapping[str, tuple[int | None, Sequence[object]]], rows_at_once: int = 4) -> str:
    fields = [
        pa.field(name, pa.array(values).type, metadata={FIELD_ID: str(number)} if number is not None else None)
        for name, (number, values) in columns.items()
    ]
    table = pa.Table.from_arrays([pa.array(values) for _, values in columns.values()], schema=pa.schema(fields))
    pq.write_table(table, path, row_group_size=rows_at_once)
    return f"file://{path}"


ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["v1", "v2", None]), st.sampled_from("XY")), max_size=20
)


@pytest.mark.parametrize("at_once", [1, 3, few_files.ROWS_AT_ONCE])
@given(rows=ROWS, gone=st.sets(st.integers(0, 19)), wanted=st.sets(st.sampled_from("abcd")))
def test_it_finds_what_is_there_and_was_not_deleted(tmp_path_factory, at_once, rows, gone, wanted):
    folder = tmp_path_factory.mktemp("few")
    uris, versions, batches = ([each[at] for each in rows] for at in range(3))
    text = pa.string()
    columns = {"u": (4, pa.array(uris, text)), "other": (9, pa.array(uris, text))}
    columns |= {"was": (7, pa.array(batches, text)), "v": (5, pa.array(versions, text))}
    data = written(folder / "data", columns)
    names, places = [data] * len(gone) + ["file:///another"], [*sorted(gone), 0]
    deletes = pa.Table.from_arrays([pa.array(names).dictionary_encode(), pa.array(places)], schema=DELETES)
    pq.write_table(deletes, folder / "deletes")
    file = _File(data, 0, (_File(f"file://{folder / 'deletes'}", 0),))
    with patch.object(few_files, "ROWS_AT_ONCE", at_once):
        found = _ranges(Access(), IDS, pa.array(sorted(wanted), text), file)
    there: dict[tuple[str, str, str], list[int]] = {}
    for at, (uri, version, batch) in enumerate(rows):
        if uri in wanted and at not in gone:
            there.setdefault((uri, version or "", batch), []).append(at)
    assert found == {
        place: RowRange(data, positions[0], positions[-1], len(positions)) for place, positions in there.items()
    }


def read(location: str) -> list[object]:
    return [each.to_pylist() for each in _rows(Access(), IDS, pa.array(["a"]), _File(location, 0))]


def test_a_column_that_came_later_is_null_in_the_file(tmp_path: Path):
    assert read(written(tmp_path / "1", {"u": (4, ["a"]), "b": (7, ["X"])})) == [
        [{"uri": "a", "version": "", "batch": "X", "position": 0}]
    ]
    assert read(written(tmp_path / "2", {"n": (1, [1])})) == [], "so is the uri"


def test_a_file_without_ids_or_with_other_types_is_left_to_spark(tmp_path: Path):
    for columns in ({"u": (None, ["a"])}, {"u": (4, [1])}, {"u": (4, ["a"]), "v": (5, [b"v1"])}):
        with pytest.raises(_OfSpark):
            read(written(tmp_path / "file", columns))


@pytest.mark.parametrize(
    ("more", "plain"),
    [
        ({}, True),
        ({"content": "position-deletes"}, True),
        ({"content": "POSITION_DELETES"}, True),
        ({"content": "equality-deletes"}, False),
        ({"content": "position-deletes", "file-format": "puffin"}, False),
        ({"file-format": "orc"}, False),
        ({"key-metadata": "00"}, False),
    ],
)
def test_what_is_no_plain_parquet_is_left_to_spark(more: dict[str, str], plain: bool):
    assert _is_plain({"content": "data", "file-format": "parquet", **more}) is plain
