"""One file's bytes become one Arrow table, or a reason why not. Pure: no network, no Spark.

A file is decoded whole before any of its rows is emitted, so that a file that breaks in its last row leaves nothing
behind. Every way in which a file can be bad ends in `Undecodable`; anything else that is raised is a bug.
"""

import csv
import datetime
import decimal
import io
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
CHUNK = 1 << 20


class Undecodable(Exception):
    """The file cannot become rows of this schema; the text says why, in words for its owner."""


Decoder = Callable[[bytes], pa.Table]

CELL_BYTES = 8
"""What a value takes in memory at the least, also if it is null."""


def decoder(format: str, schema: pa.Schema, *, delimiter: str = ",", max_bytes: int = 1 << 40) -> Decoder:
    """What decodes files of `format` (json, csv, parquet) into tables of exactly `schema`.

    `max_bytes` bounds what a file may become in memory. Raises ValueError if the format cannot hold such a column.
    """
    if format == "json":
        return _json_decoder(schema, max_bytes)
    if format == "csv":
        if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
            raise ValueError(f"CSV files cannot hold the nested column {nested[0]}")
        return lambda body: _read_csv(body, schema, delimiter, max_bytes)
    if format == "parquet":
        return lambda body: _read_parquet(body, schema, max_bytes)
    raise ValueError(f"no decoder for format {format!r}")


def decompress(key: str, body: bytes, max_bytes: int) -> bytes:
    """`body` without the compression that the key's suffix names. Raises Undecodable, also past `max_bytes`."""
    codec = next((name for suffix, name in CODECS.items() if key.endswith(suffix)), None)
    if codec is None or not body:
        return body
    pieces: list[bytes] = []
    size = 0
    try:
        # Arrow notices a stream that stops early in all three formats, and reads concatenated ones to their end
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            while piece := stream.read(CHUNK):
                size += len(piece)
                if size > max_bytes:
                    raise Undecodable(f"too large: more than {max_bytes} bytes decompressed (max_object_bytes)")
                pieces.append(piece)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise Undecodable(f"broken {codec}: {_first_line(error)}") from error
    return b"".join(pieces)


def _json_decoder(schema: pa.Schema, max_bytes: int) -> Decoder:
    """JSON lines. msgspec checks each row against the schema's types, strictly, and says which row fails where.

    (Arrow's own JSON reader is about twice as fast, but a first line that is `null` crashes the process and a later
    one becomes a row of nulls: pyarrow 26.0.1.)
    """
    row = _struct_type(list(schema))
    lines = msgspec.json.Decoder(row)

    def decode(body: bytes) -> pa.Table:
        _check_cells(body.count(b"\n") + 1, len(schema), max_bytes)
        try:
            rows = lines.decode_lines(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Undecodable(f"not JSON lines of this schema: {_first_line(error)}") from error
        columns = []
        for number, field in enumerate(schema):
            plain = _plain(field.type)
            values = [getattr(each, f"f{number}") for each in rows]
            try:
                columns.append(pa.array(values if plain is None else map(plain, values), field.type))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                raise Undecodable(f"column {field.name}: {_first_line(error)}") from error
            # JSON has no infinity, so one that is there now was a number
            if _infinite(columns[-1]):
                raise Undecodable(f"column {field.name}: a number is too large for {field.type}")
        return pa.Table.from_arrays(columns, schema=schema)

    return decode


def _struct_type(fields: list[pa.Field]) -> Any:
    """What msgspec checks an object with these fields against: f0, f1, ... under the fields' own names, because msgspec
    0.22.0 does not find keys beyond ASCII in a TypedDict."""
    members: list[Any] = []
    for number, field in enumerate(fields):
        kind = _python_type(field.type)
        members.append((f"f{number}", kind | None, None) if field.nullable else (f"f{number}", kind))
    names = {f"f{number}": field.name for number, field in enumerate(fields)}
    return msgspec.defstruct("object", members, rename=names, kw_only=True, gc=False)


def _plain(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes a decoded value one that Arrow takes, or None if it is: structs become dictionaries."""
    if pa.types.is_struct(kind):
        members = [(field.name, f"f{number}", _plain(field.type) or _same) for number, field in enumerate(kind)]
        return _unless_null(lambda value: {name: plain(getattr(value, each)) for name, each, plain in members})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = _plain(kind.value_type)
        return item and _unless_null(partial(_each_item, item))
    if pa.types.is_map(kind):
        item = _plain(kind.item_type)
        return item and _unless_null(partial(_each_value, item))
    return None


def _unless_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _each_item(plain: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [plain(value) for value in values]


def _each_value(plain: Callable[[Any], Any], values: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(value) for key, value in values.items()}


def _same(value: Any) -> Any:
    return value


def _python_type(kind: pa.DataType) -> Any:
    """The Python type that msgspec checks a JSON value against. Raises ValueError if JSON has none."""
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return decimal.Decimal
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bytes
    if pa.types.is_timestamp(kind):
        # with a zone, or without: a time that says its zone is no local time, and msgspec tells them apart
        return datetime.datetime if kind.tz else Annotated[datetime.datetime, msgspec.Meta(tz=False)]
    if pa.types.is_date(kind):
        return datetime.date
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise ValueError(f"JSON files cannot hold a {kind}: the keys of an object are text")
        return dict[str, _element(kind.item_field)]  # type: ignore[misc]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list[_element(kind.value_field)]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        return _struct_type(list(kind))
    raise ValueError(f"JSON files cannot hold a column of type {kind}")


def _element(field: pa.Field) -> Any:
    kind = _python_type(field.type)
    return kind | None if field.nullable else kind


def _read_csv(body: bytes, schema: pa.Schema, delimiter: str, max_bytes: int) -> pa.Table:
    """CSV with a header line. An empty field is null, in text columns too; columns the file lacks are null."""
    if not body.strip():
        return schema.empty_table()
    names = _header_of(body, delimiter)
    _check_names(names, schema)
    _check_cells(body.count(b"\n") + 1, max(len(names), len(schema)), max_bytes)
    # A quote that is never closed swallows the rest of the file and leaves a smaller but valid one. So a row that no
    # file has is put behind it: if it does not come out again, it was swallowed.
    width = len(names) + 7
    last = delimiter.join(["_"] * width)
    met: list[bool] = []

    def judge(row: pyarrow.csv.InvalidRow) -> str:
        if row.actual_columns == width and row.text is not None and row.text.strip() == last:
            met.append(True)
            return "skip"
        return "error"

    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(body.rstrip(b"\r\n") + b"\n" + last.encode() + b"\n"),
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=max(len(body) * 2, CHUNK)),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=judge
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=schema,
                include_columns=schema.names,
                include_missing_columns=True,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise Undecodable(f"not CSV of this schema: {_first_line(error)}") from error
    if not met:
        raise Undecodable("not CSV: a quote is opened and never closed")
    if len(met) > 1:
        raise Undecodable(f"not CSV of this schema: a row has {width} columns")
    if any(_infinite(column) for column in table.columns):
        raise Undecodable("not CSV of this schema: a number is infinite, or too large for its column")
    return _conform(table, schema)


def _header_of(body: bytes, delimiter: str) -> list[str]:
    """The names in the header, read by themselves: a file of another kind is not worth decoding."""
    lines = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", errors="replace", newline="")
    try:
        return next((names for names in csv.reader(lines, delimiter=delimiter) if names), [])
    except csv.Error as error:
        raise Undecodable(f"not CSV: the header: {_first_line(error)}") from error


def _read_parquet(body: bytes, schema: pa.Schema, max_bytes: int) -> pa.Table:
    try:
        file = pyarrow.parquet.ParquetFile(pa.BufferReader(body), coerce_int96_timestamp_unit="us")
        about = file.metadata
        groups = (about.row_group(number) for number in range(about.num_row_groups))
        if sum(group.total_byte_size for group in groups) > max_bytes:
            raise Undecodable(f"too large: more than {max_bytes} bytes decompressed (max_object_bytes)")
        _check_cells(about.num_rows, len(schema), max_bytes)
        names = file.schema_arrow.names
        if about.num_rows:
            _check_names(names, schema)
        table = file.read(columns=[name for name in schema.names if name in names], use_threads=False)
    except (pa.ArrowException, OSError, ValueError, KeyError, RecursionError) as error:
        raise Undecodable(f"not Parquet: {_first_line(error)}") from error
    return _conform(table, schema)


def _check_names(names: list[str], schema: pa.Schema) -> None:
    """A file that shares no column with the schema, or has two of a name, is not one of this route's."""
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise Undecodable(f"the file has several columns called {repeated[0]!r}")
    if not set(names) & set(schema.names):
        raise Undecodable(
            f"the file has none of the schema's columns ({', '.join(schema.names)[:200]});"
            f" it has {', '.join(names)[:200]}"
        )


def _check_cells(rows: int, columns: int, max_bytes: int) -> None:
    """Few bytes can be many values: a value takes memory even if it is null."""
    if rows * columns * CELL_BYTES > max_bytes:
        raise Undecodable(f"too large: {rows} lines of {columns} columns need more than {max_bytes} bytes in memory")


def _infinite(column: Any) -> int:
    """How many values are infinite. A cast that makes more of them lost a number."""
    if not pa.types.is_floating(column.type):
        return 0
    return int(pyarrow.compute.sum(pyarrow.compute.is_inf(column)).as_py() or 0)


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """`table` with exactly the columns of `schema`: missing ones null, none changed in meaning."""
    columns = []
    for field in schema:
        there = field.name in table.column_names
        column = table.column(field.name) if there else pa.nulls(table.num_rows, field.type)
        if not _fits(column.type, field.type):
            raise Undecodable(f"column {field.name}: {column.type} in the file, {field.type} in the schema")
        infinite = _infinite(column)
        try:
            column = column if column.type == field.type else column.cast(field.type, safe=True)
            column.validate(full=True)
        except (pa.ArrowException, ValueError) as error:
            raise Undecodable(f"column {field.name}: {_first_line(error)}") from error
        if _infinite(column) > infinite:
            raise Undecodable(f"column {field.name}: a number is too large for {field.type}")
        if not field.nullable and column.null_count:
            raise Undecodable(f"column {field.name}: null or missing, but the schema says not null")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _fits(there: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type mean the same in the other. A safe cast then checks that each value fits."""
    types = pa.types
    if there == wanted or types.is_null(there):
        return True
    if types.is_dictionary(there):
        return _fits(there.value_type, wanted)
    if types.is_struct(there) and types.is_struct(wanted):
        inner = {field.name: field.type for field in there}
        return all(field.name in inner and _fits(inner[field.name], field.type) for field in wanted)
    if types.is_map(there) and types.is_map(wanted):
        return _fits(there.key_type, wanted.key_type) and _fits(there.item_type, wanted.item_type)
    lists = (types.is_list, types.is_large_list)
    if any(is_kind(there) for is_kind in lists) and any(is_kind(wanted) for is_kind in lists):
        return _fits(there.value_type, wanted.value_type)
    if types.is_timestamp(there) and types.is_timestamp(wanted):
        return (there.tz is None) == (wanted.tz is None) or there.tz is None
    families = (
        (types.is_integer, (types.is_integer, types.is_floating, types.is_decimal)),
        (types.is_floating, (types.is_floating,)),
        (types.is_decimal, (types.is_decimal,)),
        (types.is_date, (types.is_date,)),
        (_is_text, (_is_text,)),
        (_is_bytes, (_is_bytes,)),
    )
    return any(of(there) and any(to(wanted) for to in into) for of, into in families)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:500]
