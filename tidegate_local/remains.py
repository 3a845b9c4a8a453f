"""What is left of a local stack that has stopped: its tables. Each row of them names its upload and its batch.

PyIceberg reads the lineage columns of all rows, and nothing else of them, a piece at a time. What is kept in memory is
an entry for each upload.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from tidegate.core.landed_files import LandedFile, LandedPage, landed_page
from tidegate_local import stack
from tidegate_local.environment import warehouse_environment

COLUMNS = ("_source_uri", "_source_version", "_batch_id", "_ingested_at")
BATCH_OF_SNAPSHOT = "published-wap-id"
UNKNOWN = (
    "The stack does not run, so nobody can ask its ledger: this is what the rows of its tables tell. Not known are the"
    " uploads that did not land (quarantined, superseded, vanished, dropped, pending), why they did not, and those"
    " without a row."
)


def remains(folder: Path) -> Callable[..., LandedPage] | None:
    """Reads what is left in this folder, as `tidegate.cli.plugins` says. None if a stack runs there, or if no table is
    left."""
    folder = folder.resolve()
    if stack.is_running(folder) or not (folder / "warehouse" / "catalog.db").exists():
        return None
    return partial(_page, folder)


def _page(folder: Path, **wanted: Any) -> LandedPage:
    found: list[LandedFile] = []
    troubles: list[str] = []
    for catalog, table in _tables(folder):
        try:
            found += landed_in(folder, catalog, table)
        except Exception as error:  # a damaged table must not hide the others
            troubles.append(f"table {catalog}.{table} cannot be read: {type(error).__name__}: {error}")
    return landed_page(found, **wanted, unknown=UNKNOWN, troubles=tuple(troubles))


def _tables(folder: Path) -> list[tuple[str, str]]:
    """The tables of the warehouse: the catalog's name, and namespace.table, as Iceberg's JDBC catalog keeps them
    (https://iceberg.apache.org/docs/latest/jdbc/)."""
    with closing(sqlite3.connect(folder / "warehouse" / "catalog.db")) as database:
        rows = database.execute("SELECT catalog_name, table_namespace, table_name FROM iceberg_tables ORDER BY 1, 2, 3")
        return [(catalog, f"{namespace}.{name}") for catalog, namespace, name in rows]


def landed_in(folder: Path, catalog: str, name: str) -> Iterator[LandedFile]:
    """The uploads that have rows in this table; none if it has no lineage."""
    from pyiceberg.catalog.sql import SqlCatalog

    where = warehouse_environment(folder)
    lake = SqlCatalog(catalog, uri=where["TIDEGATE_CATALOG_URI"], warehouse=where["TIDEGATE_WAREHOUSE"])
    table = lake.load_table(name)
    if not set(COLUMNS) <= set(table.schema().column_names) or table.current_snapshot() is None:
        return
    snapshots = {
        each.summary.additional_properties[BATCH_OF_SNAPSHOT]: each.snapshot_id
        for each in table.metadata.snapshots
        if each.summary and BATCH_OF_SNAPSHOT in each.summary.additional_properties
    }
    rows: dict[tuple[str, str, str], tuple[int, int]] = {}
    for batch in table.scan(selected_fields=COLUMNS).to_arrow_batch_reader():
        for upload, count, at in _grouped(batch):
            before, latest = rows.get(upload, (0, 0))
            rows[upload] = before + count, max(latest, at)
    for (uri, version, batch_id), (count, at) in rows.items():
        yield LandedFile(uri, version, f"{catalog}.{name}", batch_id, count, at, snapshots.get(batch_id, 0))


def _grouped(batch: Any) -> Iterator[tuple[tuple[str, str, str], int, int]]:
    """The uploads of some rows: each with how many these are, and when they were read last (epoch seconds)."""
    import pyarrow

    counts: list[Any] = [([], "count_all"), (COLUMNS[3], "max")]
    grouped = pyarrow.Table.from_batches([batch]).group_by(list(COLUMNS[:3])).aggregate(counts)
    for row in grouped.to_pylist():
        at = row[f"{COLUMNS[3]}_max"]
        uri, version, batch_id = (str(row[name] or "") for name in COLUMNS[:3])
        yield (uri, version, batch_id), row["count_all"], int(at.timestamp()) if at else 0
