"""What is left of a local stack that has stopped: PyIceberg reads its tables."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.ledgers import START
from tidegate.cli.plugins import StackStopped
from tidegate_local import stack
from tidegate_local.cli.deployment import enter
from tidegate_local.environment import warehouse_environment
from tidegate_local.errors import LocalError
from tidegate_local.remains import UNKNOWN, remains

SCHEMA = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("_source_uri", pyarrow.string()),
        ("_source_version", pyarrow.string()),
        ("_source_row", pyarrow.int64()),
        ("_batch_id", pyarrow.string()),
        ("_ingested_at", pyarrow.timestamp("us", tz="UTC")),
    ]
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "warehouse").mkdir()
    return tmp_path


def catalog(folder: Path, name: str = "lake") -> SqlCatalog:
    where = warehouse_environment(folder)
    return SqlCatalog(name, uri=where["TIDEGATE_CATALOG_URI"], warehouse=where["TIDEGATE_WAREHOUSE"])


def rows(uri: str, batch: str, count: int, at: int = START, version: str = "v1") -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "id": number,
            "_source_uri": uri,
            "_source_version": version,
            "_source_row": number,
            "_batch_id": batch,
            "_ingested_at": datetime.datetime.fromtimestamp(at, datetime.UTC),
        }


def append(table: Any, found: list[dict[str, Any]], batch: str) -> None:
    table.append(pyarrow.Table.from_pylist(found, schema=SCHEMA), {"published-wap-id": batch})


def test_uploads_are_counted_over_all_their_files_and_named_with_their_snapshot(folder: Path):
    lake = catalog(folder)
    lake.create_namespace("raw")
    table = lake.create_table("raw.flights", SCHEMA)
    a, b = "s3://landing/flights/a.json", "s3://landing/flights/b.json"
    append(table, [*rows(a, "01A", 3), *rows(b, "01A", 1)], "01A")
    append(table, list(rows(a, "01B", 2, START + 60, "v2")), "01B")
    read = remains(folder)
    assert read is not None
    page = read(limit=10)
    first, second = table.metadata.snapshots
    told = [
        (each.uri, each.version, each.table, each.batch, each.rows, each.ingested_at, each.snapshot)
        for each in page.files
    ]
    assert told == [
        (a, "v2", "lake.raw.flights", "01B", 2, START + 60, second.snapshot_id),
        (a, "v1", "lake.raw.flights", "01A", 3, START, first.snapshot_id),
        (b, "v1", "lake.raw.flights", "01A", 1, START, first.snapshot_id),
    ]
    assert (page.after, page.unknown, page.troubles) == ("", UNKNOWN, ())
    assert [each.uri for each in read(limit=1, skip=1).files] == [a]
    assert read(limit=1, skip=1).after == "2"
    assert [each.uri for each in read(limit=10, key="*/b.json").files] == [b]
    assert [each.batch for each in read(limit=10, since=START + 1).files] == ["01B"]


def test_tables_of_others_are_left_out_and_a_damaged_one_is_told(folder: Path):
    lake = catalog(folder)
    lake.create_namespace("raw")
    lake.create_table("raw.empty", SCHEMA)
    lake.create_table("raw.other", pyarrow.schema([("id", pyarrow.int64())]))
    append(lake.create_table("raw.damaged", SCHEMA), list(rows("s3://landing/x", "01A", 1)), "01A")
    append(lake.create_table("raw.whole", SCHEMA), list(rows("s3://landing/y", "01A", 1)), "01A")
    for file in (folder / "warehouse" / "raw" / "damaged" / "data").glob("*.parquet"):
        file.unlink()
    read = remains(folder)
    assert read is not None
    page = read(limit=10)
    assert [each.uri for each in page.files] == ["s3://landing/y"]
    (trouble,) = page.troubles
    assert trouble.startswith("table lake.raw.damaged cannot be read: ")


def test_without_a_table_there_is_nothing_left(folder: Path):
    assert remains(folder) is None
    with pytest.raises(LocalError, match="no stack runs in"):
        enter(folder)


def test_while_the_stack_runs_its_ledger_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch):
    catalog(folder).create_namespace("raw")
    assert remains(folder) is not None
    monkeypatch.setattr(stack, "is_running", lambda folder: True)
    assert remains(folder) is None


def test_whoever_enters_a_stopped_stack_learns_what_is_left(folder: Path):
    lake = catalog(folder)
    lake.create_namespace("raw")
    append(lake.create_table("raw.flights", SCHEMA), list(rows("s3://landing/y", "01A", 4)), "01A")
    with pytest.raises(StackStopped, match=r"no stack runs in .*: start one with `tidegate local up`") as raised:
        enter(folder)
    (found,) = raised.value.remains(limit=10).files
    assert found.rows == 4
