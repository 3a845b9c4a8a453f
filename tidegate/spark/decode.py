"""One file's bytes become one Arrow table, or a reason why not. Pure: no network, no Spark.

A file is decoded whole before any of its rows is emitted, so that a file that breaks in its last row leaves nothing
behind. Every way in which a file can be bad ends in `Undecodable`; anything else that is raised is a bug.
"""

import datetime
import decimal
from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
CHUNK = 1 << 20


class Undecodable(Exception):
    """The file cannot become rows of this schema; the text says why, in words for its owner."""


Decoder = Callable[[bytes], pa.Table]


def decoder(format: str, schema: pa.Schema, *, delimiter: str = ",") -> Decoder:
    """What decodes files of `format` (json, csv, parquet) into tables of exactly `schema`."""
    if format == "json":
        return _json_decoder(schema)
    if format == "csv":
        return lambda body: _read_csv(body, schema, delimiter)
    if format == "parquet":
        return lambda body: _read_parquet(body, schema)
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


def _json_decoder(schema: pa.Schema) -> Decoder:
    """JSON lines. msgspec checks each row against the schema's types, strictly, and says which row fails where.

    (Arrow's own JSON reader is about twice as fast, but a line that is `null` crashes the process: pyarrow 26.0.1.)
    """
    fields: dict[str, Any] = {
        field.name: NotRequired[_python_type(field.type) | None] if field.nullable else _python_type(field.type)
        for field in schema
    }
    lines = msgspec.json.Decoder(TypedDict("row", fields))  # type: ignore[operator]

    def decode(body: bytes) -> pa.Table:
        try:
            rows = lines.decode_lines(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Undecodable(f"not JSON lines of this schema: {_first_line(error)}") from error
        columns = []
        for field in schema:
            try:
                columns.append(pa.array([each.get(field.name) for each in rows], field.type))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                raise Undecodable(f"column {field.name}: {_first_line(error)}") from error
        return pa.Table.from_arrays(columns, schema=schema)

    return decode


def _python_type(kind: pa.DataType) -> Any:
    """The Python type that msgspec checks a JSON value against."""
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
        return datetime.datetime
    if pa.types.is_date(kind):
        return datetime.date
    if pa.types.is_map(kind):
        return dict[str, _python_type(kind.item_type) | None]  # type: ignore[misc]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list[_python_type(kind.value_type) | None]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        fields = {field.name: _python_type(field.type) | None for field in kind}
        return TypedDict("struct", fields, total=False)  # type: ignore[operator]
    raise ValueError(f"JSON files cannot hold a column of type {kind}")


def _read_csv(body: bytes, schema: pa.Schema, delimiter: str) -> pa.Table:
    """CSV with a header line. An empty field is null, in text columns too; columns the file lacks are null."""
    if not body.strip():
        return schema.empty_table()
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(body),
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=max(len(body) + 1, CHUNK)),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
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
    return _conform(table, schema)


def _read_parquet(body: bytes, schema: pa.Schema) -> pa.Table:
    try:
        file = pyarrow.parquet.ParquetFile(pa.BufferReader(body))
        known = set(file.schema_arrow.names)
        table = file.read(columns=[name for name in schema.names if name in known], use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Undecodable(f"not Parquet: {_first_line(error)}") from error
    return _conform(table, schema)


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """`table` with exactly the columns of `schema`: missing ones null, none narrowed with a loss."""
    columns = []
    for field in schema:
        there = field.name in table.column_names
        column = table.column(field.name) if there else pa.nulls(table.num_rows, field.type)
        try:
            column = column if column.type == field.type else column.cast(field.type, safe=True)
            column.validate(full=True)
        except (pa.ArrowException, ValueError) as error:
            raise Undecodable(f"column {field.name}: {_first_line(error)}") from error
        if not field.nullable and column.null_count:
            raise Undecodable(f"column {field.name}: null or missing, but the schema says not null")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:500]
