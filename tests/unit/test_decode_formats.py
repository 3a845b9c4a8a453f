"""The table in docs/formats.md is so: each example in it is decoded, and becomes what its line says, or is refused.

The page has the most telling examples; more_examples.md has the others, in the same notation.
"""

import datetime
import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from tidegate.formats.decode import decoder
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import FORMATS

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
MORE = Path(__file__).with_name("more_examples.md")

# as the DDL of a route's schema calls them
INT, TEXT = spark.IntegerType(), spark.StringType()
WANTED: dict[str, spark.DataType] = {
    "boolean": spark.BooleanType(),
    "tinyint": spark.ByteType(),
    "smallint": spark.ShortType(),
    "int": INT,
    "bigint": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "decimal(12,2)": spark.DecimalType(12, 2),
    "decimal(38,0)": spark.DecimalType(38, 0),
    "string": TEXT,
    "binary": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
    "array<int>": spark.ArrayType(INT),
    "array<float>": spark.ArrayType(spark.FloatType()),
    "array<timestamp>": spark.ArrayType(spark.TimestampType()),
    "struct<x: int, y: string>": spark.StructType([spark.StructField("x", INT), spark.StructField("y", TEXT)]),
    "map<string, float>": spark.MapType(TEXT, spark.FloatType()),
}

# as Arrow calls them
THERE: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,1)": pa.decimal128(10, 1),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(14,4)": pa.decimal128(14, 4),
    "decimal256(76,0)": pa.decimal256(76, 0),
    "fixed_size_binary(2)": pa.binary(2),
    "date32": pa.date32(),
    "timestamp[s, UTC]": pa.timestamp("s", "UTC"),
    "timestamp[us, UTC]": pa.timestamp("us", "UTC"),
    "timestamp[ns, UTC]": pa.timestamp("ns", "UTC"),
    "timestamp[ms, Europe/Berlin]": pa.timestamp("ms", "Europe/Berlin"),
    "INT96": pa.timestamp("ns"),
    "list<int64>": pa.list_(pa.int64()),
    "list<double>": pa.list_(pa.float64()),
    "list<string>": pa.list_(pa.string()),
    "list<timestamp[us]>": pa.list_(pa.timestamp("us")),
    "large_list<int32>": pa.large_list(pa.int32()),
    "struct<x: int64>": pa.struct([("x", pa.int64())]),
    "struct<z: int32>": pa.struct([("z", pa.int32())]),
    "struct<z: int32, x: int32>": pa.struct([("z", pa.int32()), ("x", pa.int32())]),
    "map<string, double>": pa.map_(pa.string(), pa.float64()),
}


def columns(page: Path = PAGE) -> list[str]:
    """The formats that the page has a column for."""
    (header,) = (line for line in page.read_text().splitlines() if line.startswith("| type |"))
    return [cell.strip().lower() for cell in header.strip("|").split("|")[1:-1]]


def examples(page: Path) -> list[tuple[str, str, str, str]]:
    """(type, format, example, what becomes of it) of every example on the page."""
    found = []
    known = columns(page)
    for line in page.read_text().partition("## Rows and columns")[0].splitlines():
        if line.startswith("| `"):
            kind, *formats, becomes = (re.findall(r"`([^`]*)`", cell) for cell in line.strip("|").split("|"))
            for format, texts in zip(known, formats, strict=True):
                found += [(kind[0], format, text, becomes[0] if becomes else "refused") for text in texts]
    return found


def all_examples() -> list[tuple[str, str, str, str]]:
    return [*examples(PAGE), *examples(MORE)]


def body(format: str, example: str) -> bytes:
    if format == "json":
        return f'{{"c": {example}}}\n'.encode()
    if format == "csv":
        return f"id,c\n1,{example}\n".encode()
    text, _, name = example.rpartition(" as ")
    buffer = io.BytesIO()
    if format == "avro":
        field = {"name": "c", "type": avro_type(name)}
        row = {"c": avro_value(json.loads(text), name)}
        fastavro.writer(buffer, {"type": "record", "name": "row", "fields": [field]}, [row])
        return buffer.getvalue()
    if format == "orc":
        pyarrow.orc.write_table(orc_table(json.loads(text), name), buffer)
        return buffer.getvalue()
    table = pa.table({"c": array(json.loads(text), name)})
    pyarrow.parquet.write_table(table, buffer, use_deprecated_int96_timestamps=name == "INT96")
    return buffer.getvalue()


# as ORC calls them
OF_ORC: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,1)": pa.decimal128(10, 1),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(14,4)": pa.decimal128(14, 4),
    "decimal(38,0)": pa.decimal128(38, 0),
    "decimal(38,1)": pa.decimal128(38, 1),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ns"),
    "timestamp with local time zone": pa.timestamp("ns", "UTC"),
    "timestamp_ntz": pa.int64(),
    "array<int>": pa.list_(pa.int32()),
    "array<bigint>": pa.list_(pa.int64()),
    "array<double>": pa.list_(pa.float64()),
    "array<string>": pa.list_(pa.string()),
    "array<timestamp>": pa.list_(pa.timestamp("ns")),
    "struct<x: bigint>": pa.struct([("x", pa.int64())]),
    "struct<z: int>": pa.struct([("z", pa.int32())]),
    "struct<z: int, x: int>": pa.struct([("z", pa.int32()), ("x", pa.int32())]),
    "map<string, double>": pa.map_(pa.string(), pa.float64()),
}


def orc_table(value: Any, name: str) -> pa.Table:
    """The value as the type that the page calls so; Spark's types are marked as Spark marks them."""
    called = name.removesuffix(" of Spark")
    kind = OF_ORC[called]
    if isinstance(value, str) and not pa.types.is_string(kind) and not pa.types.is_binary(kind):
        values = pa.array([value]).cast(kind)
    elif called == "array<timestamp>":
        values = pa.array([[datetime.datetime.fromisoformat(each) for each in value]], kind)
    else:
        values = pa.array([value], kind)
    mark = {"spark.sql.catalyst.type": called} if called != name else None
    return pa.table([values], pa.schema([pa.field("c", kind, metadata=mark)]))


def avro_type(name: str) -> Any:
    """The type that the page calls so."""
    kind, _, inside = name.removesuffix(">").removesuffix(")").replace("(", "<").partition("<")
    if " or " in kind:
        return [avro_type(each) for each in name.split(" or ")]
    match kind:
        case "array":
            return {"type": "array", "items": avro_type(inside)}
        case "map":
            return {"type": "map", "values": avro_type(inside)}
        case "record":
            fields = [each.split(": ") for each in inside.split(", ")]
            return {
                "type": "record",
                "name": "r",
                "fields": [{"name": name, "type": avro_type(each)} for name, each in fields],
            }
        case "enum":
            return {"type": "enum", "name": "e", "symbols": ["B", "A"]}
        case "fixed":
            return {"type": "fixed", "name": "f", "size": int(inside)}
        case "duration":
            return {"type": "fixed", "name": "f", "size": 12, "logicalType": "duration"}
        case "decimal":
            precision, scale = inside.split(",")
            return {"type": "bytes", "logicalType": "decimal", "precision": int(precision), "scale": int(scale)}
        case "date":
            return {"type": "int", "logicalType": "date"}
        case _ if "-" in kind:
            return {"type": "long", "logicalType": kind}
    return kind


def avro_value(value: Any, name: str) -> Any:
    """The value as fastavro writes it."""
    if isinstance(value, list):
        return [avro_value(each, name) for each in value]
    if isinstance(value, str):
        if "timestamp" in name:
            return datetime.datetime.fromisoformat(value)
        if name == "date":
            return datetime.date.fromisoformat(value)
        if name.startswith("decimal"):
            return Decimal(value)
        if name.startswith(("bytes", "fixed", "duration")):
            return value.encode()
    return value


def array(value: Any, name: str) -> pa.Array:
    if name == "dictionary":
        return pa.array([value]).dictionary_encode()
    kind = THERE[name] if name in THERE else pa.type_for_alias(name)
    if isinstance(value, str) and not name.endswith(("string", "binary", "binary(2)")):
        return pa.array([value]).cast(kind)
    if isinstance(value, list) and value and isinstance(value[0], str) and "timestamp" in name:
        value = [datetime.datetime.fromisoformat(each) for each in value]
    return pa.array([value], kind)


def shown(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return f"{value.replace(tzinfo=None)}{' UTC' if value.tzinfo else ''}"
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        value = dict(value)
    return json.dumps(value) if isinstance(value, bool | list | dict) else str(value)


@pytest.mark.parametrize(("kind", "format", "example", "becomes"), all_examples())
def test_an_example_of_the_page_becomes_what_the_page_says(kind: str, format: str, example: str, becomes: str):
    decode = decoder(format, pa.schema([("c", to_arrow_type(WANTED[kind]))]))
    if becomes == "refused":
        with pytest.raises(Undecodable) as refusal:
            decode(body(format, example))
        assert "\n" not in str(refusal.value)
    else:
        assert [shown(row["c"]) for row in decode(body(format, example)).to_pylist()] == [becomes]


@pytest.mark.parametrize("page", [PAGE, MORE])
def test_the_page_has_a_column_for_every_format(page: Path):
    assert columns(page) == list(FORMATS)
    assert {format for _, format, _, _ in examples(page)} == set(FORMATS)


def test_there_are_examples_of_every_type_that_files_can_hold():
    found = all_examples()
    kinds = {(kind, becomes == "refused") for kind, _, _, becomes in found}
    assert {kind for kind, refused in kinds if refused} == WANTED.keys()
    assert {kind for kind, refused in kinds if not refused} >= WANTED.keys() - {"array<float>", "array<timestamp>"}
    assert len(set(found)) == len(found) > 400


def test_the_page_has_examples_of_every_type_of_a_schema():
    names = {re.match(r"\w+", kind)[0] for kind, _, _, _ in examples(PAGE)}
    assert names == {re.match(r"\w+", kind)[0] for kind in WANTED} - {"tinyint", "smallint"}
    assert len(examples(PAGE)) > 150


ONE = {"parquet": pyarrow.parquet.write_table, "orc": pyarrow.orc.write_table}


@pytest.mark.parametrize(
    ("format", "codec"),
    [
        *[("parquet", codec) for codec in ("none", "snappy", "gzip", "brotli", "lz4", "zstd")],
        *[("orc", codec) for codec in ("uncompressed", "snappy", "zlib", "zstd")],
    ],
)
def test_each_codec_within_a_file_is_read(format: str, codec: str):
    """Those of Avro are in `test_decode_avro`."""
    rows = [{"id": number, "text": "x" * 50} for number in range(1000)]
    buffer = io.BytesIO()
    ONE[format](pa.Table.from_pylist(rows), buffer, compression=codec)
    assert len(buffer.getvalue()) < 60_000 or codec in ("none", "uncompressed")
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    assert decoder(format, schema)(buffer.getvalue()).to_pylist() == rows
