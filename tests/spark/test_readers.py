"""The decoders beside Spark's own readers: the same rows of the same files, or a difference that the page names.

Files are drawn, all of them are written, and one job of Spark reads all of a format. Spark has no reader of Avro
without another jar, so Avro is compared with fastavro, by the file's own schema.
"""

import datetime
import io
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from tests.unit.test_decode_formats import PAGE, WANTED, body, shown
from tidegate.formats.decode import decoder
from tidegate.formats.reasons import Undecodable

pytestmark = pytest.mark.spark

FLAT = (
    "id int, b boolean, i int, l bigint, f float, d double, n decimal(12,2), s string, day date, t timestamp,"
    " z timestamp_ntz"
)
"""Without bytes, of which Spark's reader of CSV has its own opinion (`VALUES`)."""
NESTED = f"{FLAT}, x binary, a array<int>, o struct<p: int, q: string>, m map<string, bigint>"
TABLES = 25
"""How many files there are of a format."""

Row = dict[str, Any]


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


# without the ends of lines that Spark's readers of text change, and what they take for comments and marks
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0\ufeff"), max_size=12)
TEXTS = TEXT | st.sampled_from(
    ["", " ", '"', '""', ",", "a,b", "a\nb", " a ", "null", "NULL", "\\", '\\"', "é", "😀", "#"]
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
# what ORC can hold, and no calendar but one had
DAYS = st.dates(datetime.date(1678, 1, 1), datetime.date(2261, 12, 31))
TIMES = st.datetimes(datetime.datetime(1678, 1, 1), datetime.datetime(2261, 12, 31))
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
ROW = st.fixed_dictionaries(
    {
        "b": optional(st.booleans()),
        "i": optional(INTS),
        "l": optional(LONGS),
        "f": optional(FLOATS),
        "d": optional(DOUBLES),
        "n": optional(st.decimals(-(10**10) + 1, 10**10 - 1, places=2)),
        "s": optional(TEXTS),
        "x": optional(st.binary(max_size=8)),
        "day": optional(DAYS),
        "t": optional(TIMES.map(lambda time: time.replace(tzinfo=datetime.UTC))),
        "z": optional(TIMES),
        "a": optional(st.lists(optional(INTS), max_size=3)),
        "o": optional(st.fixed_dictionaries({"p": optional(INTS), "q": optional(TEXTS)})),
        "m": optional(st.dictionaries(TEXT.filter(bool), optional(LONGS), max_size=3)),
    }
)


@pytest.fixture(scope="module")
def tables() -> list[list[Row]]:
    """Drawn once, for all formats."""
    found: list[list[Row]] = []

    @settings(
        max_examples=TABLES,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(ROW, min_size=1, max_size=6))
    def draw(rows: list[Row]) -> None:
        found.append([{"id": number, **row} for number, row in enumerate(rows)])

    draw()
    assert len(found) >= TABLES / 2
    assert {name for rows in found for row in rows for name, value in row.items() if value is not None} == set(
        found[0][0]
    )
    return found


def schema_of(ddl: str) -> pa.Schema:
    found: pa.Schema = to_arrow_schema(spark_types.StructType.fromDDL(ddl))
    return found


# ---- files


def as_text(value: Any) -> Any:
    """A value as JSON writes it."""
    match value:
        case datetime.datetime():
            return value.isoformat()
        case datetime.date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return b64encode(value).decode()
    return value


def json_file(rows: list[Row]) -> bytes:
    return b"".join(json.dumps({name: as_text(value) for name, value in row.items()}).encode() + b"\n" for row in rows)


def csv_file(rows: list[Row]) -> bytes:
    names = schema_of(FLAT).names

    def field(value: Any) -> str:
        # of an empty text Spark makes null, which `WHOLE` shows
        if value in (None, ""):
            return ""
        text = str(as_text(value)).lower() if isinstance(value, bool) else str(as_text(value))
        return '"' + text.replace('"', '""') + '"' if isinstance(value, str) else text

    lines = [",".join(names), *(",".join(field(row[name]) for name in names) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def parquet_file(rows: list[Row]) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table_of(rows), buffer, row_group_size=2)
    return buffer.getvalue()


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "m": row["m"] and list(row["m"].items())} for row in rows], schema_of(NESTED))


def orc_file(rows: list[Row]) -> bytes:
    """As Spark marks its own types. Spark reads no `timestamp with local time zone`, and no fraction of a second before
    1970 that Arrow has written. What Spark itself writes has both."""
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    table = table_of([{**row, "t": row["t"] and max(row["t"], epoch)} for row in rows])
    times = table["t"].cast(pa.timestamp("us"))
    table = table.set_column(table.schema.get_field_index("t"), marked("t", times.type, "timestamp"), times)
    local = table["z"].cast(pa.int64())
    table = table.set_column(table.schema.get_field_index("z"), marked("z", local.type, "timestamp_ntz"), local)
    buffer = io.BytesIO()
    pyarrow.orc.write_table(table, buffer)
    return buffer.getvalue()


def marked(name: str, kind: pa.DataType, mark: str) -> pa.Field:
    return pa.field(name, kind, metadata={"spark.sql.catalyst.type": mark})


# ---- comparing


def plain(value: Any) -> Any:
    """A value that compares as it is: whatever is a number of its own, and the sign of a zero."""
    match value:
        case datetime.datetime():
            return (value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
        case bytearray():
            return bytes(value)
        case float():
            return repr(value)
        case dict():
            # the members of a map have no order
            return {name: plain(value[name]) for name in sorted(value)}
        case list():
            return [plain(each) for each in value]
    return value


def by_tidegate(format: str, text: bytes, ddl: str) -> list[Row]:
    rows = decoder(format, schema_of(ddl))(text).to_pylist(maps_as_pydicts="strict")
    return [plain(row) for row in rows]


def by_spark(spark: SparkSession, folder: Path, format: str, ddl: str, **options: str) -> dict[str, list[Row]]:
    read = spark.read.schema(ddl).options(**options).format(format).load(str(folder))
    # Python would make local times of both
    times = {"t": sql.unix_micros("t"), "z": sql.unix_micros(sql.col("z").cast("timestamp"))}
    found: dict[str, list[Row]] = {}
    for row in read.withColumns(times).select("_metadata.file_name", "*").orderBy("id").collect():
        fields = row.asDict(recursive=True)
        found.setdefault(fields.pop("file_name"), []).append(plain(fields))
    return found


@pytest.fixture
def in_utc(spark: SparkSession) -> Iterator[SparkSession]:
    """ORC's times depend on the zone of Spark's process."""
    zones = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("UTC"))
    yield spark
    zones.setDefault(before)


FILES: list[tuple[str, str, Callable[[list[Row]], bytes], dict[str, str]]] = [
    ("json", NESTED, json_file, {"mode": "FAILFAST"}),
    ("csv", FLAT, csv_file, {"mode": "FAILFAST", "header": "true", "multiLine": "true", "escape": '"'}),
    ("parquet", NESTED, parquet_file, {}),
    ("orc", NESTED, orc_file, {}),
]


@pytest.mark.parametrize(("format", "ddl", "write", "options"), FILES, ids=[each[0] for each in FILES])
def test_the_rows_are_those_of_sparks_reader(
    in_utc: SparkSession,
    tmp_path: Path,
    tables: list[list[Row]],
    format: str,
    ddl: str,
    write: Callable[[list[Row]], bytes],
    options: dict[str, str],
):
    for number, rows in enumerate(tables):
        (tmp_path / f"{number}.{format}").write_bytes(write(rows))
    read = by_spark(in_utc, tmp_path, format, ddl, **options)
    for number in range(len(tables)):
        name = f"{number}.{format}"
        assert by_tidegate(format, (tmp_path / name).read_bytes(), ddl) == read[name], (tmp_path / name).read_bytes()
    assert len(read) == len(tables)


def test_what_spark_writes_as_orc_is_read_as_spark_reads_it(
    in_utc: SparkSession, tmp_path: Path, tables: list[list[Row]]
):
    for number, rows in enumerate(tables):
        (tmp_path / f"{number}.parquet").write_bytes(parquet_file(rows))
    frame = in_utc.read.schema(NESTED).parquet(str(tmp_path))
    frame.coalesce(2).write.orc(str(tmp_path / "orc"), compression="zlib")
    read = by_spark(in_utc, tmp_path / "orc", "orc", NESTED)
    assert read
    for name, rows in read.items():
        found = by_tidegate("orc", (tmp_path / "orc" / name).read_bytes(), NESTED)
        assert sorted(found, key=repr) == sorted(rows, key=repr)
    assert sum(map(len, read.values())) == sum(map(len, tables))


def test_the_rows_of_avro_are_those_of_fastavro(tables: list[list[Row]]):
    def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "logicalType": name, **more}

    text = ["null", "string"]
    inner = [{"name": "p", "type": ["null", "int"]}, {"name": "q", "type": text}]
    types = {
        **{
            "id": "int",
            "b": "boolean",
            "i": "int",
            "l": "long",
            "f": "float",
            "d": "double",
            "s": "string",
            "x": "bytes",
        },
        "n": logical("bytes", "decimal", precision=12, scale=2),
        "day": logical("int", "date"),
        "t": logical("long", "timestamp-micros"),
        "z": logical("long", "local-timestamp-micros"),
        "a": {"type": "array", "items": ["null", "int"]},
        "o": {"type": "record", "name": "o", "fields": inner},
        "m": {"type": "map", "values": ["null", "long"]},
    }
    fields = [{"name": name, "type": ["null", types[name]]} for name in types]
    for rows in tables:
        buffer = io.BytesIO()
        fastavro.writer(buffer, {"type": "record", "name": "r", "fields": fields}, rows, codec="deflate")
        buffer.seek(0)
        expected = [plain(row) for row in fastavro.reader(buffer)]
        order = [field.name for field in schema_of(NESTED)]
        assert by_tidegate("avro", buffer.getvalue(), NESTED) == [
            {name: row[name] for name in order} for row in expected
        ]


# ---- what differs

CELL = re.compile(r"`([^`]*)`")
SECTION = PAGE.read_text().partition("## Beside Spark's readers")[2].partition("\n## ")[0]
MORE = Path(__file__).with_name("more_differences.md").read_text()
LINES = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (*SECTION.splitlines(), *MORE.splitlines())
    if line.startswith(("| json |", "| csv |", "| parquet |", "| orc |"))
]
VALUES = [line for line in LINES if len(line) == 5]
WHOLE = [line for line in LINES if len(line) == 4]
HEADER = {"csv": {"header": "true"}}


def said(cell: str) -> str:
    return "refused" if cell == "*refused*" else cell[1:-1]


def shown_or_null(value: Any) -> str:
    return "null" if value is None else shown(value)


@pytest.mark.parametrize(("format", "kind", "examples", "by_spark", "by_us"), VALUES)
def test_a_value_that_differs_from_sparks(
    in_utc: SparkSession, tmp_path: Path, format: str, kind: str, examples: str, by_spark: str, by_us: str
):
    wanted = WANTED[said(kind)]
    found = [(body(format, example), example) for example in CELL.findall(examples)]
    for number, (text, _) in enumerate(found):
        (tmp_path / f"{number}.{format}").write_bytes(text)
    fields = [spark_types.StructField("c", wanted)]
    if format == "csv":
        fields.insert(0, spark_types.StructField("id", spark_types.IntegerType()))
    read = in_utc.read.schema(spark_types.StructType(fields)).options(**HEADER.get(format, {})).format(format)
    times = "timestamp" in wanted.typeName()
    column = sql.col("c").cast("string") if times else sql.col("c")
    try:
        rows = [row.c for row in read.load(str(tmp_path)).select(column.alias("c")).collect()]
    except Exception:  # whatever Spark raises, and it is many things
        told = ["refused"]
    else:
        told = [shown_or_null(plain_value(value)) for value in rows]
        told = [f"{each} UTC" if kind == "`timestamp`" and each != "null" else each for each in told]
    assert set(told) == {said(by_spark)}
    assert len(told) == len(found)
    for text, example in found:
        assert ours(format, pa.schema([("c", to_arrow_type(wanted))]), text) == said(by_us), example


def plain_value(value: Any) -> Any:
    if isinstance(value, spark_types.Row):
        return value.asDict()
    return bytes(value) if isinstance(value, bytearray) else value


def ours(format: str, schema: pa.Schema, text: bytes) -> str:
    try:
        (row,) = decoder(format, schema)(text).to_pylist()
    except Undecodable:
        return "refused"
    return shown(row["c"])


@pytest.mark.parametrize(("format", "text", "by_spark", "by_us"), WHOLE)
def test_a_file_that_differs_from_sparks(
    in_utc: SparkSession, tmp_path: Path, format: str, text: str, by_spark: str, by_us: str
):
    ddl = "id int, s string"
    (tmp_path / f"a.{format}").write_text(json.loads(said(text)), newline="")
    read = in_utc.read.schema(ddl).options(**HEADER.get(format, {})).format(format).load(str(tmp_path))
    assert [list(row) for row in read.collect()] == json.loads(said(by_spark))
    try:
        found = decoder(format, schema_of(ddl))((tmp_path / f"a.{format}").read_bytes()).to_pylist()
    except Undecodable:
        assert by_us == "*refused*"
    else:
        assert [list(row.values()) for row in found] == json.loads(said(by_us))


def test_the_page_has_differences_of_each_format_that_spark_reads():
    assert {line[0] for line in VALUES} == {each[0] for each in FILES}
    assert {line[0] for line in WHOLE} == {"json", "csv"}
    assert len(VALUES) >= 30
