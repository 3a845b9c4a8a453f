"""`tidegate init`: a route for files that there are, which takes them."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from tests.unit.test_cli import agree, documented, shape
from tidegate.cli import main
from tidegate.cli.exits import Exit
from tidegate.cli.sampling.route_text import common_prefix, common_suffix, key_columns, name_for
from tidegate.settings import load


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main.app, list(arguments), catch_exceptions=False)
    return done.exit_code, " ".join((done.stdout + done.stderr).split())


def made(*arguments: str) -> tuple[Any, str, str]:
    """The route that the file has, its text, and what was printed."""
    code, said = run("init", *arguments)
    assert code == Exit.OK, said
    (route,) = load(Path("tidegate.toml")).routes
    return route, Path("tidegate.toml").read_text(), said


def test_json_lines_in_folders(here: Path):
    (here / "orders" / "eu" / "2024").mkdir(parents=True)
    line = {"id": 1, "total": 1.25, "at": "2024-02-03T04:05:06Z", "tags": ["a"], "who": {"name": "x", "age": 3}}
    (here / "orders" / "eu" / "2024" / "a.json.gz").write_bytes(gzip.compress(json.dumps(line).encode()))
    (here / "orders" / "eu" / "b.json.gz").write_bytes(gzip.compress(b'{"id": 2, "mixed": 1}\n{"mixed": "x"}\n'))
    (here / "orders" / "README.md").write_text("Orders.\n")
    route, text, said = made("orders")
    assert (route.name, route.bucket, route.existing) == ("eu", "eu-landing", False)
    assert (route.prefix, route.suffix, route.format) == ("eu/", ".json.gz", "json")
    assert route.table == "lake.raw.eu"
    assert route.table_schema.split(",\n") == [
        *("id bigint", "total double", "at timestamp", "tags array<string>"),
        "who struct<name:string,age:bigint>\n",
    ]
    assert "# total: decimal(12,2) would be exact, and refuse more decimals." in text
    assert "# mixed is left out, and ignored in files: number and text in the samples" in text
    assert '# partition_by = ["days(at)"]' in text
    assert "A corrected file that is uploaded under the same key adds its rows to those of the first one" in text
    assert "route eu, json, 2 files with 3 rows decoded" in said
    assert "skipped: orders/README.md: it is neither JSON, CSV, Parquet, Avro nor ORC" in said
    for command in ("tidegate try eu orders/eu/b.json.gz", "tidegate check", "tidegate local up"):
        assert command in said
    assert run("check")[0] == Exit.OK
    assert run("try", "eu", "orders/eu")[0] == Exit.OK


@pytest.mark.parametrize(
    ("body", "delimiter", "encoding", "schema"),
    [
        (b"id,code,ok\n1,007,true\n", ",", "utf-8", "id bigint,\ncode string,\nok boolean"),
        (b"id;when\n1;2024-02-03 04:05:06\n", ";", "utf-8", "id bigint,\nwhen timestamp_ntz"),
        (b"id\tday\n1\t2024-02-03\n\n", "\t", "utf-8", "id bigint,\nday date"),
        ("id|name\n1|café\n".encode("utf-16"), "|", "utf-16", "id bigint,\nname string"),
        ("id,name\n1,café\n".encode("latin-1"), ",", "windows-1252", "id bigint,\nname string"),
        (b"id,at\n1,2024-02-03T04:05:06.1234567Z\n", ",", "utf-8", "id bigint,\nat string"),
        (b'id,"first, last",Id\n1,"x, y",2\n', ",", "utf-8", "id bigint,\n`first, last` string"),
        (b"id,n\n1,12345678901234567890\n", ",", "utf-8", "id bigint,\nn string"),
    ],
)
def test_csv(here: Path, body: bytes, delimiter: str, encoding: str, schema: str):
    (here / "a.csv").write_bytes(body)
    route, _, _ = made("a.csv")
    assert (route.delimiter, route.encoding, route.suffix, route.prefix) == (delimiter, encoding, ".csv", "a/")
    assert route.table_schema.strip() == schema


TYPED = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "small": pa.array([1, None], pa.int16()),
        "total": pa.array([1, 2], pa.decimal128(12, 2)),
        "at": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "day": pa.array([1, 2], pa.date32()),
        "list": pa.array([[{"x": 1.5}], None], pa.list_(pa.struct([("x", pa.float64())]))),
        "text": ["a", "b"],
    }
)
COLUMNS = (
    "id bigint,\nsmall int,\ntotal decimal(12,2),\nat timestamp,\nday date,\nlist array<struct<x:double>>,\ntext string"
)


def avro(path: Path) -> None:
    kinds: dict[str, Any] = {
        "id": "long",
        "small": ["null", "int"],
        "total": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "day": {"type": "int", "logicalType": "date"},
        "list": [
            "null",
            {"type": "array", "items": {"type": "record", "name": "i", "fields": [{"name": "x", "type": "double"}]}},
        ],
        "text": "string",
        "clock": {"type": "long", "logicalType": "time-micros"},
        "either": ["int", "string"],
    }
    rows = [{**row, "clock": 1, "either": "x"} for row in TYPED.to_pylist()]
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    with path.open("wb") as sink:
        fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, rows)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        (
            "a.parquet",
            lambda path: pq.write_table(TYPED.append_column("clock", pa.array([1, 2], pa.time64("us"))), path),
        ),
        ("a.avro", avro),
    ],
)
def test_formats_with_types(here: Path, name: str, write: Callable[[Path], None]):
    write(here / name)
    route, text, _ = made(name)
    assert route.format == name[2:]
    assert route.table_schema.strip() == COLUMNS
    assert "# clock is left out, and ignored in files: no column holds" in text


def test_orc(here: Path):
    pyarrow.orc.write_table(pa.table({"id": [1], "at": pa.array([1000], pa.timestamp("ns")), "text": ["a"]}), "a.orc")
    route, _, _ = made("a.orc")
    assert route.table_schema.strip() == "id bigint,\nat timestamp_ntz,\ntext string"


def test_types_of_several_files_are_those_that_hold_both(here: Path):
    for name, kind in (("a", pa.int32()), ("b", pa.int64())):
        pq.write_table(pa.table({"n": pa.array([1], kind)}), here / f"{name}.parquet")
    assert made(".")[0].table_schema.strip() == "n bigint"


def test_a_bad_file_before_the_good_ones_is_skipped(here: Path):
    (here / "a.json").write_text('[{"id": 1}')
    (here / "b.csv").write_text("id,_batch_id\n1,2\n")
    route, text, said = made()
    assert (route.format, route.table_schema.strip()) == ("csv", "id bigint")
    assert "skipped: a.json: the file ends in the middle of its array" in said
    assert "# _batch_id is left out, and ignored in files: Tidegate adds a column of this name." in text


def test_names_that_no_configuration_can_have_are_left_out(here: Path):
    (here / "a.json").write_text(
        '{"id": 1, "a\\u0001b": 1, "o": {"x\\ny": 1, "\\u202e": 2}, "Ünï `co`": 3, "q\\"": 4}\n'
    )
    route, _, _ = made("a.json")
    assert route.table_schema.strip() == "id bigint,\n`Ünï ``co``` bigint"


def test_a_file_that_is_there_is_never_overwritten(here: Path):
    (here / "a.json").write_text('{"id": 1}\n')
    (here / "tidegate.toml").write_text("mine")
    code, said = run("init", "a.json")
    assert code == Exit.USAGE
    assert "tidegate.toml is there already, and stays as it is" in said
    assert (here / "tidegate.toml").read_text() == "mine"
    assert run("init", "a.json", "--config", "other.toml")[0] == Exit.OK
    assert load(here / "other.toml").routes


@pytest.mark.parametrize("body", ['[{"id": 1},\n {"id": 2}]', '{\n "id": 1\n}\n{"id": 2}'])
def test_json_that_is_no_lines_is_guessed_too(here: Path, body: str):
    (here / "a.json").write_text(body)
    assert run("init", "a.json")[0] == Exit.OK
    assert "id bigint" in (here / "tidegate.toml").read_text()


@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        ("a.json", b'[{"id": 1}', "the file ends in the middle of its array: is it cut off?"),
        ("a.json", b'[{"id": 1}, 7]', "item 2 is a whole number; each has to be one object"),
        ("a.json", b'{\n"id": 1\n', "object 1 ends in the middle of an object"),
        ("a.json", gzip.compress(b"{}", mtime=0), "it is gzip, and its name does not say so by its end"),
        ("a.csv", b"", "it is empty"),
        ("a.xlsx", b"PK\x03\x04[Content_Types].xml", "it is an Excel workbook, and no format of a route"),
        ("notes.md", b"Some words.\nAnd more.\n", "it is neither JSON, CSV, Parquet, Avro nor ORC"),
        ("a.parquet", b"PAR1\0\0\0", "Parquet"),
        ("a.json.gz", b'{"id": 1}\n', "the file is JSON, and its name ends in .gz"),
    ],
)
def test_nothing_is_written_for_what_no_route_could_take(here: Path, name: str, body: bytes, why: str):
    (here / name).write_bytes(body)
    code, said = run("init", name)
    assert code == Exit.FINDING
    assert why in said
    assert not (here / "tidegate.toml").exists()


def test_nothing_is_written_if_a_sample_would_be_refused(here: Path):
    (here / "a.csv").write_bytes(b"id,name\n1,a\n2,b,c\n")
    code, said = run("init", "a.csv")
    assert code == Exit.FINDING
    assert "a.csv does not become rows of what the samples suggest, so nothing is written: row 2 has 3 fields" in said
    assert not (here / "tidegate.toml").exists()


def test_the_json_is_the_documented_one(here: Path):
    (here / "a.json").write_text('{"id": 1, "price": 1.5, "mixed": 1}\n{"mixed": "x"}\n')
    (here / "notes.md").write_text("Some words.\n")
    done = CliRunner().invoke(main.app, ["init", "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert agree(shape(found), shape(documented("init")))
    assert found["columns"][0] == {"name": "id", "type": "bigint", "remark": None}
    assert found["columns"][-1]["type"] is None
    assert (found["samples"], found["rows"], len(found["skipped"])) == (1, 2, 1)


def test_objects_in_s3(here: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="landing")
        for key in ("raw/orders/2024/01/a.json", "raw/orders/2024/02/b.json"):
            client.put_object(Bucket="landing", Key=key, Body=b'{"id": 1}\n')
        route, _, said = made("s3://landing/raw/")
        assert (route.name, route.bucket, route.existing) == ("orders", "landing", True)
        assert (route.prefix, route.suffix) == ("raw/orders/", ".json")
        assert "tidegate doctor --aws" in said
        assert run("try", "orders", "s3://landing/raw/")[0] == Exit.OK


def test_names_prefixes_and_suffixes():
    assert name_for("My Orders (2024)") == "my-orders-2024"
    assert name_for("data", "2024", "01") == "data"
    assert name_for("2024") == "files"
    assert len(name_for("x" * 100)) == 31
    assert common_prefix(["a/b/c.json", "a/bc/d.json"]) == "a/"
    assert common_prefix(["a.json"]) == ""
    assert common_prefix(["a/b/2026/03/c.json"]) == common_prefix(["a/b/day=2026-03-01/c.json"]) == "a/b/"
    assert common_suffix(["a.json.gz", "b/c.json.gz"]) == ".json.gz"
    assert common_suffix(["a.json.gz", "b.json"]) == ""


@pytest.mark.parametrize(
    ("body", "doubted"),
    [
        ("7,Berlin,2026-03-01\n8,Rome,2026-03-02\n", ["7", "2026-03-01"]),
        ("id,city,day\n8,Rome,2026-03-02\n", []),
        ("town,2025,2026\nRome,yes,no\n", []),
    ],
)
def test_a_first_line_that_looks_like_a_row_is_not_taken_for_names_in_silence(
    here: Path, body: str, doubted: list[str]
):
    (here / "a.csv").write_text(body)
    _, text, said = made("a.csv")
    asked = "it is called as its values are: is the first line a row?"
    for shown in (text, said):
        assert shown.count(asked) == len(doubted)
        for name in doubted:
            assert any(name in line and asked in line for line in shown.splitlines())


def test_what_the_folders_say_may_become_columns(here: Path):
    for month in ("03", "04"):
        folder = here / "orders" / "year=2026" / f"month={month}"
        folder.mkdir(parents=True)
        (folder / "a.json").write_text('{"id": 1}\n')
    assert run("init", "orders")[0] == Exit.OK
    text = (here / "tidegate.toml").read_text()
    assert '# from_key = "year={year}/month={month}/"' in text
    said = text.replace("# from_key", "from_key").replace("id bigint", "id bigint, year int, month int")
    (here / "tidegate.toml").write_text(said)
    assert dict(load(here / "tidegate.toml").core_routes()[0].dataset.options)["from_key"]


@pytest.mark.parametrize("keys", [["a/b.json"], ["y=1/a.json", "m=1/a.json"], ["y=1/x/m=2/a.json"], ["1y=1/a"]])
def test_of_other_folders_nothing_is_said(keys: list[str]):
    assert key_columns(keys) == ""
