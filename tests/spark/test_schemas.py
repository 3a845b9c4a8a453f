"""What `tidegate check` says of schemas and partitions, against tables that Spark and Iceberg make for a job."""

import dataclasses
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tests.spark.world import World
from tidegate.core.errors import Retryable
from tidegate.core.routes import Dataset
from tidegate.flows.sink import Hopeless
from tidegate.reading.arrow_schema import arrow_schema
from tidegate.schemas import checks, ddl, partitions

SCALARS = [
    *("boolean", "int", "INTEGER", "bigint", "long", "float", "real", "double", "string", "binary", "date"),
    *("timestamp", "timestamp_ntz", "timestamp_ltz", "decimal", "dec(5)", "numeric(38,38)", "Decimal(10, 2)"),
]
NAMES = ["id", "Region", "`odd name`", "_x", "t2", "date", "`back``quote`", "`2nd`", "order"]


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["scalar", "scalar", "array", "map", "struct"] if depth else ["scalar"]))
    if kind == "array":
        return f"array<{draw(types(depth - 1))}>"
    if kind == "map":
        return f"map<{draw(st.sampled_from(['string', 'int']))}, {draw(types(depth - 1))}>"
    if kind == "struct":
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
        colon = draw(st.sampled_from([":", " ", " : "]))
        end = draw(st.sampled_from(["", " not null", " comment 'it''s'"]))
        return "struct<" + ",".join(f"{name}{colon}{draw(types(depth - 1))}{end}" for name in names) + ">"
    return draw(st.sampled_from(SCALARS))


@st.composite
def schemas(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    ends = ["", " not null", " NOT NULL COMMENT 'some'", ' comment "x"', " /* y */", " /* y /* /**/ */ */", " -- z\n"]
    return ", ".join(f"{name} {draw(types())}{draw(st.sampled_from(ends))}" for name in names)


@st.composite
def nearly(draw: st.DrawFn) -> str:
    """A schema with a character or a word of it changed."""
    text = draw(schemas())
    at = draw(st.integers(0, len(text)))
    put = draw(
        st.sampled_from(["", " ", ",", "<", ">", "(", ")", ":", "x", "`", "'", "not", "null", "smallint", ";", "é"])
    )
    return text[:at] + put + text[at + draw(st.integers(0, 3)) :]


@st.composite
def commented(draw: st.DrawFn) -> str:
    """A column with pieces of comments behind it."""
    pieces = st.lists(st.sampled_from(["/*", "*/", "/", "*", "+", " ", "x", "'", "--", "\n"]), max_size=8)
    return f"a int {''.join(draw(pieces))}"


SLOW = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


@SLOW
@given(schemas())
def test_what_is_right_is_what_spark_reads(world: World, text: str) -> None:
    parsed = ddl.parse(text)
    assert parsed.mistakes == ()
    there = StructType.fromDDL(text)
    assert [(column.name, str(column.type), column.nullable) for column in parsed.columns] == [
        (field.name, field.dataType.simpleString(), field.nullable) for field in there
    ]
    assert arrow_schema(text).equals(to_arrow_schema(there), check_metadata=True)


@settings(SLOW, max_examples=300)
@given(commented())
def test_comments_end_where_they_end_for_spark(world: World, text: str) -> None:
    try:
        there = StructType.fromDDL(text).names
    except Exception:
        there = None
    parsed = ddl.parse(text)
    assert (None if parsed.mistakes else [column.name for column in parsed.columns]) == there


@SLOW
@given(nearly())
def test_nothing_is_taken_that_spark_refuses(world: World, text: str) -> None:
    parsed = ddl.parse(text)
    if not parsed.mistakes:
        there = StructType.fromDDL(text)
        assert [str(column.type) for column in parsed.columns] == [field.dataType.simpleString() for field in there]


def mistakes(dataset: Dataset) -> list[str]:
    parsed = ddl.parse(dataset.schema)
    found = [*parsed.mistakes, *checks.mistakes(parsed.columns, dataset.format)]
    if not found:
        found += [each for _, each in partitions.mistakes(dataset.partition_by, checks.types_of(parsed.columns))]
    return [each.message for each in found]


def a_job_refuses(world: World, dataset: Dataset) -> str:
    """Why a job that would fill this table gives up; empty if it makes the table."""
    world.dataset = dataclasses.replace(dataset, table=f"lake.tests.t{uuid.uuid4().hex[:12]}")
    try:
        world.attempt("B" + "0" * 20, 1).sink.prepare()
    except (Hopeless, Retryable) as refused:
        return str(refused)
    return ""


COLUMNS = (
    "i int, l bigint, f float, d double, n decimal(9,2), b boolean, s string, x binary, day date, t timestamp,"
    " z timestamp_ntz, a array<int>, o struct<p: int>, t_day int, Upper string"
)
TRANSFORMS = [
    *(
        "i",
        "f",
        "b",
        "x",
        "a",
        "o",
        "t",
        "T",
        "upper",
        "_batch_id",
        "days(_ingested_at)",
        "nothing",
        "bucket(4,_source_row)",
    ),
    *("years(day)", "months(t)", "days(z)", "hours(t)", "hours(day)", "days(i)", "days(s)", "days(t)"),
    *(
        "bucket(16, i)",
        "bucket(16, f)",
        "bucket(16, b)",
        "bucket(4, n)",
        "bucket(4, day)",
        "bucket(0, i)",
        "bucket(4, x)",
    ),
    *("truncate(4, s)", "truncate(4, n)", "truncate(4, x)", "truncate(4, t)", "truncate(0, s)", "truncate(10, l)"),
    *("bucket(4, o)", "truncate(3, d)", "bucket(2147483648, i)"),
]


@pytest.mark.parametrize(
    "partition_by",
    [
        *((each,) for each in TRANSFORMS),
        ("days(z)", "hours(z)"),
        ("days(z)", "days(day)"),
        ("s", "s"),
        ("s", "truncate(4, s)"),
        ("bucket(4, i)", "bucket(8, i)"),
        ("truncate(4, s)", "truncate(8, s)"),
        ("i", "l", "s"),
    ],
    ids=" ".join,
)
def test_partitions_are_refused_before_the_job_if_the_job_would_refuse_them(
    world: World, partition_by: tuple[str, ...]
):
    dataset = Dataset("", COLUMNS, "json", partition_by)
    job, check = a_job_refuses(world, dataset), mistakes(dataset)
    assert bool(job) == bool(check), (job, check)


@pytest.mark.parametrize(
    ("schema", "format"),
    [
        *((f"c {kind}", "json") for kind in SCALARS),
        *((f"c {kind}", "parquet") for kind in ("tinyint", "byte", "smallint", "short", "void", "interval", "variant")),
        *((f"c {kind}", "parquet") for kind in ("char(3)", "varchar(3)", "interval day to second", "time", "strng")),
        ("c string, C string", "json"),
        ("c string, _batch_id string", "json"),
        ("c string, _Source_Row bigint", "json"),
        ("c array<int>", "csv"),
        ("c struct<a: int>", "csv"),
        ("c struct<a: int, A: int>", "json"),
        ("c map<int, string>", "json"),
        ("c map<string, int>", "json"),
        ("c map<int, string>", "parquet"),
        ("c map<int, string>", "orc"),
        ("c array<struct<a: array<int>, b: map<string, decimal(3,1)>>>", "json"),
        ("`a.b` int, `c d` string, `é` date", "json"),
        ("é int", "json"),
        ("idé int", "json"),
        *((f"{name} int", "json") for name in ("2nd", "2", "2d", "1e5", "7L", "3bd", "1_000", "0x1F", "e5")),
        ("c int comment 'x', d string not null", "csv"),
        ("c int default 3", "csv"),
        ("c string collate utf8_lcase", "json"),
        ("c decimal(39,2)", "json"),
        ("c decimal(5,6)", "json"),
        ("c int(11)", "json"),
        ("c: int", "json"),
        ("c", "json"),
        ("", "json"),
        ("c int,", "json"),
        ("c int d int", "json"),
        ("c array<int", "json"),
        ("c array", "json"),
        ("c int null", "json"),
        ("c int;", "json"),
        ("c int -- the last one", "json"),
        ("c int -- goes on \\\n", "json"),
        ("c int -- goes on \\\n, d int", "json"),
        ("c int -- one\r, d int", "json"),
        ("c int /*+ hint */", "json"),
        ("c\u0085int", "json"),
        ("c timestamp without time zone", "json"),
        ("c string collate utf8_binary", "json"),
        ("c int comment 'a' \"b\" r'c'", "json"),
        ('`a"b` int', "json"),
        ("`a\\b` int", "json"),
        ("c struct<`a\tb`: int>", "json"),
        ('`a"b` int', "csv"),
        ("1e5l int", "json"),
        ("1e5d int", "json"),
    ],
)
def test_schemas_are_refused_before_the_job_if_the_job_would_refuse_them(world: World, schema: str, format: str):
    dataset = Dataset("", schema, format)
    job, check = a_job_refuses(world, dataset), mistakes(dataset)
    assert bool(job) == bool(check), (job, check)


def test_a_struct_needs_a_field() -> None:
    """Iceberg makes the table. Parquet has no group without fields, so no job can write it."""
    assert mistakes(Dataset("", "c struct<>", "parquet"))


def test_a_map_of_avro_has_keys_of_text() -> None:
    """No file has others, so the job makes the table and refuses each file."""
    assert mistakes(Dataset("", "c map<int, string>", "avro"))
