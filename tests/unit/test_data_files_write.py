"""What a task writes is what it was given, in files that are whole and that nothing else has the names of."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sinks.iceberg.data_files import write as writing
from tidegate.sinks.iceberg.data_files.fields import with_field_ids
from tidegate.sinks.iceberg.data_files.layout import Layout
from tidegate.sinks.iceberg.data_files.partitions import TimePartition
from tidegate.sinks.iceberg.data_files.write import write

ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
TABLE = {
    "fields": [
        {"id": 4, "name": "id", "required": True, "type": "long"},
        {"id": 7, "name": "text", "required": False, "type": "string"},
    ]
}


def layout_of(folder: Path, target: int = 1 << 29, rows: pa.Schema = ROWS) -> Layout:
    return Layout(f"file://{folder}/data/", with_field_ids(rows, TABLE), "zstd", None, target)


def batch(start: int, count: int, rows: pa.Schema = ROWS) -> pa.RecordBatch:
    ids = range(start, start + count)
    columns = [pa.array(ids, pa.int64()), pa.array([f"text {each % 7}" for each in ids]).cast(rows.field("text").type)]
    return pa.RecordBatch.from_arrays(columns, schema=rows)


def written(layout: Layout, batches: list[pa.RecordBatch], name: str = "b-00000") -> list[dict]:
    (told,) = write(layout, name, iter(batches))
    found: list[dict] = told.to_pylist()
    return found


def path_of(file: dict) -> Path:
    return Path(file["location"].removeprefix("file://"))


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 100), st.sampled_from([1, 1 << 29]))
def test_every_row_is_in_one_file_in_order(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], group: int, target: int
) -> None:
    folder = tmp_path_factory.mktemp("table")
    starts = [sum(counts[:at]) for at in range(len(counts))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "GROUP_ROWS", group)
        files = written(layout_of(folder, target), [batch(*each) for each in zip(starts, counts, strict=True)])
    tables = [pq.read_table(path_of(each)) for each in files]
    assert [row for table in tables for row in table["id"].to_pylist()] == list(range(sum(counts)))
    assert [each["rows"] for each in files] == [table.num_rows for table in tables]
    assert [each["bytes"] for each in files] == [path_of(each).stat().st_size for each in files]
    assert sorted(path_of(each) for each in files) == sorted((folder / "data").glob("*")), "and nothing beside them"
    for each in files:
        metadata = pq.read_metadata(path_of(each))
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        assert each["offsets"][0] == 4
        assert len(each["offsets"]) == len(groups)
        assert all(each.num_rows < group + 40 for each in groups)
        if target == 1:
            assert len(groups) == 1, "a file that is large enough ends with its row group"


def test_the_columns_have_the_ids_of_the_table(tmp_path: Path) -> None:
    (file,) = written(layout_of(tmp_path), [batch(0, 3)])
    schema = pq.ParquetFile(path_of(file)).schema_arrow
    assert [field.metadata[b"PARQUET:field_id"] for field in schema] == [b"4", b"7"]
    assert [field.nullable for field in schema] == [False, True]
    assert b"ARROW:schema" not in (pq.read_metadata(path_of(file)).metadata or {})


def test_texts_that_come_as_dictionaries_are_written_as_texts(tmp_path: Path) -> None:
    encoded = ROWS.set(1, pa.field("text", pa.dictionary(pa.int32(), pa.string())))
    batches = [batch(0, 5, encoded), batch(5, 9, encoded)]
    (file,) = written(layout_of(tmp_path, rows=encoded), batches)
    found = pq.read_table(path_of(file))
    assert found.schema.field("text").type == pa.string()
    assert found["text"].to_pylist() == [f"text {each % 7}" for each in range(14)]


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert written(layout_of(tmp_path), [batch(0, 0)]) == []
    assert list(tmp_path.rglob("*")) == []


def test_two_runs_of_one_task_have_files_of_their_own(tmp_path: Path) -> None:
    (one,), (two,) = (written(layout_of(tmp_path), [batch(0, 3)]) for _ in range(2))
    assert one["location"] != two["location"]
    assert Path(one["location"]).name.startswith("b-00000-")
    assert path_of(one).exists()
    assert path_of(two).exists()


def test_a_null_where_none_may_be_fails_the_task(tmp_path: Path) -> None:
    bad = pa.RecordBatch.from_arrays(
        [pa.array([1, None], pa.int64()), pa.array(["a", "b"])],
        schema=pa.schema([pa.field("id", pa.int64()), ROWS.field("text")]),
    )
    with pytest.raises(ValueError, match="null"):
        written(layout_of(tmp_path), [bad])
    assert not list(tmp_path.rglob("*.parquet"))


class Broken(Exception):
    pass


def test_a_task_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 1)
    monkeypatch.setattr(writing, "PART_BYTES", 0)  # each is put before the next is written
    layout = layout_of(tmp_path, target=1)
    seen: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(0, 2)
        yield batch(2, 2)
        seen.append(len(list(tmp_path.rglob("*.parquet"))))
        raise Broken

    with pytest.raises(Broken):
        list(write(layout, "b", batches()))
    assert seen == [2], "files were there before the fault"
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def test_a_file_whose_end_is_not_known_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = writing.put

    def lost(*arguments: object) -> None:
        real(*arguments)  # type: ignore[arg-type]
        raise Broken("no answer")

    monkeypatch.setattr(writing, "put", lost)
    with pytest.raises(Broken):
        list(write(layout_of(tmp_path), "b", iter([batch(0, 2)])))
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_cannot_be_removed_does_not_hide_the_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(writing, "remove", fails)
    monkeypatch.setattr(writing, "put", lambda *_: (_ for _ in ()).throw(Broken()))
    with pytest.raises(Broken):
        list(write(layout_of(tmp_path), "b", iter([batch(0, 2)])))
    assert "could not be removed: OSError" in caplog.text


def test_the_local_disk_is_that_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{scratch},/nowhere")
    there: list[bool] = []
    real = writing.put
    monkeypatch.setattr(
        writing, "put", lambda layout, file, to: (there.append(file.is_relative_to(scratch)), real(layout, file, to))
    )
    written(layout_of(tmp_path / "table"), [batch(0, 2)])
    assert there == [True]
    assert list(scratch.iterdir()) == []


TIMED = pa.schema([pa.field("t", pa.timestamp("us"))])
BY_DAY = {"fields": [{"id": 1, "name": "t", "required": False, "type": "timestamp"}]}


def days(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([each * 86_400_000_000 for each in numbers]).cast(TIMED[0].type)], TIMED.names
    )


def by_day(folder: Path, target: int = 1 << 29) -> Layout:
    fields = (TimePartition("t_day", "t", "day"),)
    return Layout(f"file://{folder}/data/", with_field_ids(TIMED, BY_DAY), "zstd", None, target, fields)


def test_each_partition_has_files_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 3)
    files = written(by_day(tmp_path), [days(0, 1, 0), days(1, 1, 1), days(0)])
    assert {each["partition"][0]: each["rows"] for each in files} == {"1970-01-01": 3, "1970-01-02": 4}
    for each in files:
        assert path_of(each).parent.name == f"t_day={each['partition'][0]}"
        assert {str(value.date()) for value in pq.read_table(path_of(each))["t"].to_pylist()} == set(each["partition"])


def test_rows_in_too_many_partitions_leave_no_file_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 1)
    read: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(1_000):
            read.append(number)
            yield days(number)

    (told,) = write(by_day(tmp_path, target=1), "b", batches())
    assert told.to_pylist() == [dict.fromkeys(told.schema.names)]
    assert len(read) == writing.TASK_PARTITIONS + 1
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def test_as_many_partitions_as_are_allowed(tmp_path: Path) -> None:
    files = written(by_day(tmp_path), [days(*range(writing.TASK_PARTITIONS))])
    assert len(files) == writing.TASK_PARTITIONS


@pytest.mark.parametrize(("tasks", "most"), [(1, 128), (2, 64), (32, 8), (1_000, 8)])
def test_a_batch_of_few_tasks_may_write_into_many_partitions(tasks: int, most: int) -> None:
    assert writing.most_partitions(tasks) == most


def test_rows_of_sixty_days_have_a_file_for_each_day(tmp_path: Path) -> None:
    numbers = [each * 7 % 60 for each in range(600)]
    (told,) = write(by_day(tmp_path), "b", iter([days(*numbers)]), writing.most_partitions(2))
    assert {each["partition"][0]: each["rows"] for each in told.to_pylist()} == {
        str((datetime(1970, 1, 1) + timedelta(day)).date()): 10 for day in range(60)
    }


def test_a_large_file_is_put_before_the_next_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "PART_BYTES", 0)
    monkeypatch.setattr(writing, "GROUP_ROWS", 1)
    put, there = writing.put, 0

    def counted(layout: Layout, file: Path, location: str) -> None:
        nonlocal there
        put(layout, file, location)
        there += 1

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            # the one before waits until this one is there
            assert there >= number - 1
            yield days(0)

    monkeypatch.setattr(writing, "put", counted)
    list(write(by_day(tmp_path, target=1), "b", batches()))
    assert there == 5


def test_a_file_that_cannot_be_put_takes_the_others_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put, count = writing.put, itertools.count()

    def sometimes(layout: Layout, file: Path, location: str) -> None:
        if next(count) == 5:
            raise Broken
        put(layout, file, location)

    monkeypatch.setattr(writing, "put", sometimes)
    with pytest.raises(Broken):
        list(write(by_day(tmp_path), "b", iter([days(*range(40))]), 40))
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def test_a_put_that_failed_ends_the_task_before_it_reads_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            read.append(number)
            yield days(0)

    def refused(*_: object) -> None:
        raise Broken

    monkeypatch.setattr(writing, "put", refused)
    monkeypatch.setattr(writing, "GROUP_ROWS", 1)
    with pytest.raises(Broken):
        list(write(by_day(tmp_path, target=1), "b", batches()))
    assert len(read) <= 2 * writing.PUTS + 1


def test_files_do_not_pile_up_on_the_local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put, there = writing.put, itertools.count(1)
    done = 0

    def slow(layout: Layout, file: Path, location: str) -> None:
        nonlocal done
        time.sleep(0.01)
        put(layout, file, location)
        done = next(there)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(40):
            assert number - done <= 2 * writing.PUTS + 2
            yield days(0)

    monkeypatch.setattr(writing, "put", slow)
    monkeypatch.setattr(writing, "GROUP_ROWS", 1)
    list(write(by_day(tmp_path, target=1), "b", batches()))
    assert done == 40


def test_a_task_with_many_groups_writes_into_few_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_ROWS", 20)
    for groups, scattered in ((writing.FEW_GROUPS, False), (writing.FEW_GROUPS + 1, True)):
        (told,) = write(by_day(tmp_path), "b", iter([days(*range(20))] * groups), 64)
        assert (told["location"].to_pylist() == [None]) is scattered


def test_open_files_are_bounded_whatever_misleads_in_them(tmp_path: Path) -> None:
    """A file is of one partition and of rows that mislead by the same columns: so there may be more than partitions."""
    names = [f"f{number}" for number in range(4)]
    schema = pa.schema([TIMED[0], *(pa.field(name, pa.float64()) for name in names)])
    kinds = ["timestamp", *["double"] * len(names)]
    fields = [
        {"id": at, "name": name, "required": False, "type": kind}
        for at, (name, kind) in enumerate(zip(schema.names, kinds, strict=True), 1)
    ]
    times = pa.array([day * 86_400_000_000 for day in range(60)]).cast(TIMED[0].type)

    def batches() -> Iterator[pa.RecordBatch]:
        for group in range(writing.FEW_GROUPS):
            values = [[float("nan") if at == group else 1.0] * 60 for at in range(len(names))]
            yield pa.RecordBatch.from_arrays([times, *map(pa.array, values)], schema=schema)

    layout = replace(by_day(tmp_path), schema=with_field_ids(schema, {"fields": fields}))
    with patch.object(writing, "GROUP_ROWS", 60):
        (told,) = write(layout, "b", batches(), 64)
    assert told["location"].to_pylist() == [None]
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]
