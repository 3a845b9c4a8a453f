"""Where a snapshot has the rows of some objects, read by the driver itself if few files may have them: a job of Spark
takes several times as long.

It leaves to Spark: more files or rows than these; other formats than Parquet, and columns without Iceberg's ids;
equality deletes and deletion vectors; an encrypted table, and a store that Iceberg reaches in a way of its own; and
what fails, so that Spark says why. Which deletes count for a file is Iceberg's own plan. A column is found in a file by
its id, so its name does not matter (https://iceberg.apache.org/spec/#column-projection).
"""

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from obstore.exceptions import BaseError

from tidegate.core.replacing import RowsPlace
from tidegate.sinks.iceberg.data_files.append import LoadedTable
from tidegate.sinks.iceberg.data_files.fields import FIELD_ID
from tidegate.sinks.iceberg.data_files.layout import Access, access_to_files
from tidegate.sinks.iceberg.data_files.places import opened
from tidegate.sinks.iceberg.position_deletes import DELETES, LocatedRows, RowRange

log = logging.getLogger("tidegate.sinks")

FEW_FILES = 64
FEW_ROWS = 3_000_000
"""In all files, and in all deletes: what is read in some seconds."""
ROWS_AT_ONCE = 100_000
AT_ONCE = 16
PLACE = ("uri", "version", "batch")


@dataclass(frozen=True)
class _File:
    """A data file, or one with positions of rows that were `deletes` from it; `size` in bytes."""

    location: str
    size: int
    deletes: "tuple[_File, ...]" = ()


class _OfSpark(Exception):
    """A file is not as it has to be to be read here."""


def located_by_driver(
    loaded: LoadedTable, snapshot: int, uris: Collection[str], names: Sequence[str], few: Sequence[Any]
) -> LocatedRows | None:
    """Where these uris have rows, in the files that may have some (`removal.files_with`); None if Spark has to look.
    `names` are those that the snapshot has for the columns with uri, version and batch."""
    if not few:
        return LocatedRows(snapshot, uris, {})
    if len(few) > FEW_FILES or (access := access_to_files(loaded.facts())) is None:
        return None
    planned = [json.loads(loaded.jvm.org.apache.iceberg.ScanTaskParser.toJson(each)) for each in few]
    parts = [part for each in planned for part in (each["data-file"], *each.get("delete-files", ()))]
    if not all(map(_is_plain, parts)) or sum(each["record-count"] for each in parts) > FEW_ROWS:
        return None
    files = [_file(each["data-file"], map(_file, each.get("delete-files", ()))) for each in planned]
    then = loaded.jvm.org.apache.iceberg.util.SnapshotUtil.schemaFor(loaded.table, snapshot)
    ids = [int(then.findField(name).fieldId()) for name in names]
    wanted = pa.array(uris, pa.string())
    ranges: dict[RowsPlace, list[RowRange]] = defaultdict(list)
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for found in pool.map(partial(_ranges, access, ids, wanted), files):
                for place, of_file in found.items():
                    ranges[place].append(of_file)
    except (_OfSpark, OSError, BaseError, pa.ArrowException) as error:
        log.info("snapshot %s is read by Spark: %s", snapshot, error)
        return None
    return LocatedRows(snapshot, uris, ranges)


def _file(file: Mapping[str, Any], deletes: Iterable[_File] = ()) -> _File:
    return _File(file["file-path"], file["file-size-in-bytes"], tuple(deletes))


def _is_plain(file: Mapping[str, Any]) -> bool:
    """Not what is left to Spark. `file` is as Iceberg's `ContentFileParser` writes it."""
    known = file["content"].lower().replace("_", "-") in ("data", "position-deletes")
    return known and file["file-format"].lower() == "parquet" and "key-metadata" not in file


def _ranges(access: Access, ids: Sequence[int], wanted: pa.Array, file: _File) -> Mapping[RowsPlace, RowRange]:
    """The rows of each place in a file."""
    parts = list(_rows(access, ids, wanted, file))
    rows = pa.concat_tables(parts) if parts else None
    if rows is None or not rows.num_rows:
        return {}
    if file.deletes:
        gone = np.concatenate([_positions(access, each, file.location) for each in file.deletes])
        rows = rows.filter(pa.array(~np.isin(rows["position"].to_numpy(), gone)))
    found = rows.group_by(list(PLACE)).aggregate([("position", each) for each in ("min", "max", "count")])
    return {
        (row["uri"], row["version"], row["batch"]): RowRange(
            file.location, row["position_min"], row["position_max"], row["position_count"]
        )
        for row in found.to_pylist()
    }


def _rows(access: Access, ids: Sequence[int], wanted: pa.Array, of: _File) -> Iterator[pa.Table]:
    """The rows of these uris, each with its position in the file."""
    with opened(access, of.location, of.size) as there, pq.ParquetFile(there, pre_buffer=True) as file:
        by_id = {int((each.metadata or {}).get(FIELD_ID, -1)): each for each in file.schema_arrow}
        if not by_id.keys() - {-1}:
            raise _OfSpark(f"{of.location} has no ids of its columns")
        fields = [by_id.get(each) for each in ids]
        if any(each is not None and each.type not in (pa.string(), pa.large_string()) for each in fields):
            raise _OfSpark(f"{of.location} has other types")
        if fields[0] is None:
            return
        names = [each.name for each in fields if each is not None]
        before = 0
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=names):
            mine = pc.is_in(batch.column(names[0]).cast(pa.string()), value_set=wanted)
            if pc.any(mine).as_py():
                columns = [
                    pa.nulls(batch.num_rows, pa.string()) if each is None else batch.column(each.name).cast(pa.string())
                    for each in fields
                ]
                at = pa.array(np.arange(before, before + batch.num_rows))
                texts = [pc.fill_null(each, "") for each in columns]
                yield pa.table([*texts, at], names=[*PLACE, "position"]).filter(mine)
            before += batch.num_rows


def _positions(access: Access, of: _File, data: str) -> np.ndarray:
    """Of a file of position deletes those that are of this data file."""
    with opened(access, of.location, of.size) as there, pq.ParquetFile(there, pre_buffer=True) as file:
        if not {*DELETES.names} <= {*file.schema_arrow.names}:
            raise _OfSpark(f"{of.location} has other columns")
        rows = file.read(DELETES.names)
    mine = pc.equal(rows["file_path"].cast(pa.string()), data)
    return rows["pos"].filter(mine).to_numpy()
