"""Parquet files."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.formats.columns import conform, leaves
from tidegate.formats.places import run, run_of
from tidegate.formats.reasons import Oversized, Undecodable, check_cells, check_names, check_unpacked, first_line

MAGIC = b"PAR1"
OF_DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError)
"""What Arrow raises of a damaged file: for names that are no UTF-8, types that do not exist."""


def make_decoder(schema: pa.Schema, max_bytes: int) -> Callable[[bytes], pa.Table]:
    return lambda body: _read(body, schema, max_bytes)


def _read(body: bytes, schema: pa.Schema, max_bytes: int) -> pa.Table:
    try:
        file = _open(body, None, "us")
        about = file.metadata
        size = _check_size(about, len(schema), max_bytes)
        # A text of many rows is in the file once. If all its copies may be too large, texts are read as dictionaries,
        # and counted before they are copied.
        if folded := texts_of(about) if size * about.num_rows > max_bytes else []:
            file = _open(body, about, "us", folded)
        names = file.schema_arrow.names
        if about.num_rows:
            check_names(names, schema.names)
        wanted = [name for name in schema.names if name in names]
        table = _table(file, wanted)
        if wanted and table.num_rows != about.num_rows:
            raise Undecodable(
                f"not Parquet: the footer names {about.num_rows} rows, and the row groups have {table.num_rows}"
            )
        if folded:
            _check_unfolded(table, max_bytes)
        instants = instants_of(about, wanted)
        if instants:
            check_nanoseconds(table.select(instants), _open(body, about, "ns").read(columns=instants))
        try:
            return conform(table, schema, texts=False, instants=frozenset(instants), names=names)
        except Undecodable as error:
            if error.row is not None:
                groups = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
                error.where = run_of("row group", error.row, groups)
            raise
    except (Undecodable, MemoryError):
        raise
    except OF_DAMAGE as error:
        raise Undecodable(damage(error, body[: len(MAGIC)], body[-len(MAGIC) :])) from error


def damage(error: BaseException, begins: bytes, ends: bytes) -> str:
    """What is said of a damaged file, by its first and its last four bytes."""
    if begins == MAGIC != ends:
        return "not Parquet: it begins as Parquet does, and does not end so. It was cut off: upload all of it"
    return f"not Parquet: {first_line(error)}"


def _table(file: pq.ParquetFile, wanted: Sequence[str]) -> pa.Table:
    try:
        return file.read(columns=wanted, use_threads=False)
    except MemoryError:
        raise
    except OF_DAMAGE as error:
        raise Undecodable(f"not Parquet: {first_line(error)}", where=_broken_group(file, wanted)) from error


def _broken_group(file: pq.ParquetFile, wanted: Sequence[str]) -> str:
    """The first row group that cannot be read by itself; empty if there is none."""
    for number in range(file.num_row_groups):
        try:
            file.read_row_group(number, columns=wanted, use_threads=False)
        except MemoryError:
            raise
        except OF_DAMAGE:
            return run("row group", number)
    return ""


def _check_size(about: Any, columns: int, max_bytes: int) -> int:
    """The file's own figure of its decompressed bytes, if that is not too large."""
    # the metadata of a row group's columns are not read, because pyarrow 26.0.1 ends the process if they are damaged
    size = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    check_unpacked(size, max_bytes)
    check_cells(about.num_rows, columns, max_bytes)
    return int(size)


def texts_of(about: Any) -> list[str]:
    columns = [about.schema.column(number) for number in range(about.num_columns)]
    return sorted({column.path for column in columns if column.physical_type == "BYTE_ARRAY"})


def _open(body: bytes, about: Any, unit: str, folded: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(
        pa.BufferReader(body), metadata=about, coerce_int96_timestamp_unit=unit, read_dictionary=list(folded)
    )


def _check_unfolded(table: pa.Table, max_bytes: int) -> None:
    size = unfolded_bytes(table)
    if size > max_bytes:
        raise Oversized(f"too large: its texts are {size} bytes, at most {max_bytes} (max_object_bytes)")


def unfolded_bytes(table: pa.Table) -> int:
    """How many bytes the texts have that were read as dictionaries, once each row has its own copy."""
    size = 0
    for column in table.columns:
        for leaf in leaves(column):
            if pa.types.is_dictionary(leaf.type):
                lengths = pc.binary_length(leaf.dictionary)
                size += pc.sum(lengths.take(leaf.indices).cast(pa.int64())).as_py() or 0
    return size


def instants_of(about: Any, wanted: list[str]) -> list[str]:
    """The columns of the old type INT96. It has no zone, and is in UTC by Spark's convention."""
    columns = [about.schema.column(number) for number in range(about.num_columns)]
    if all(column.physical_type != "INT96" for column in columns):
        return []
    found = []
    for name in wanted:
        inside = [column for column in columns if column.path == name or column.path.startswith(f"{name}.")]
        times = [column.physical_type for column in inside if column.logical_type.type == "TIMESTAMP"]
        if not times and any(column.physical_type == "INT96" for column in inside):
            found.append(name)
    return found


def check_nanoseconds(micro: pa.Table, nano: pa.Table) -> None:
    """Arrow cuts INT96 to microseconds. So it is read as nanoseconds, too, which wrap beyond the year 2262: the product
    wraps as they do."""
    for name in micro.column_names:
        for one, other in zip(leaves(micro[name]), leaves(nano[name]), strict=True):
            if pa.types.is_timestamp(one.type):
                exact = pc.fill_null(one.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) * np.int64(1000)
                if (exact != pc.fill_null(other.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)).any():
                    raise Undecodable(f"column {name}: a time of INT96 has nanoseconds, and the schema microseconds")
