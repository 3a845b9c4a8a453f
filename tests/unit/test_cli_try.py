"""`tidegate try`: what a job would make of files, without a stack."""

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from tests.unit.test_cli import agree, documented, shape
from tidegate.cli import main
from tidegate.cli.exits import Exit
from tidegate.cli.render_unknown import way_out
from tidegate.cli.sampling.try_files import about_sql, about_unknown
from tidegate.core.routes import Dataset
from tidegate.reading import trial
from tidegate.reading.trial import FileTrial

CONFIG = """
[[route]]
name = "orders"
bucket = "landing"
prefix = "orders/"
suffix = ".json"
format = "json"
table = "lake.raw.orders"
schema = "id bigint not null, total decimal(12,2), at timestamp, raw binary, share double"

[[route]]
name = "packed"
bucket = "landing"
prefix = "packed/"
suffix = ".json.gz"
format = "json"
table = "lake.raw.orders"
schema = "id bigint"
max_object_bytes = "1MB"

[[route]]
name = "lists"
bucket = "landing"
prefix = "lists/"
suffix = ".parquet"
format = "parquet"
table = "lake.raw.lists"
schema = "id bigint, share double"

[[route]]
name = "old"
bucket = "landing"
prefix = "orders/"
suffix = ".csv"
format = "csv"
table = "lake.raw.orders"
schema = "id bigint"
retired = true
"""
GOOD = b'{"id": 1, "total": 1.5, "at": "2024-02-03T06:05:06+02:00", "raw": "aGk="}\n{"id": 2}\n{"id": 3}\n'
BAD = b'{"id": 1}\n{"id": 2, "total": 1.239}\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tidegate.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main.app, ["try", *arguments], catch_exceptions=False)
    return done.exit_code, " ".join((done.stdout + done.stderr).replace("│", " ").split())


def document(*arguments: str, ends: Exit = Exit.OK) -> Any:
    done = CliRunner().invoke(main.app, ["try", *arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == ends
    return json.loads(done.stdout)


def test_rows_types_and_the_first_rows(here: Path):
    (here / "a.json").write_bytes(GOOD)
    code, said = run("orders", "a.json", "--limit", "2")
    assert code == Exit.OK
    assert f"3 rows: a.json ({len(GOOD)} bytes)" in said
    assert "bigint not null decimal(12,2) timestamp binary double" in said
    assert "1 1.50 2024-02-03T04:05:06Z aGk= null" in said
    assert "1 more" in said
    assert "null in every row: share. The file has no such column" in said
    assert "not this route's" not in said
    assert "1.50" not in run("orders", "a.json", "--limit", "0")[1]


def test_columns_that_do_not_fit_side_by_side_have_a_line_each(here: Path):
    names = [f"column_{number}" for number in range(40)]
    config = CONFIG.replace(
        'schema = "id bigint"\nretired', f'schema = "{", ".join(f"{each} bigint" for each in names)}"\nretired'
    )
    (here / "tidegate.toml").write_text(config)
    retired = config.rpartition('name = "')[2].partition('"')[0]
    row = ",".join(map(str, range(100, 140)))
    (here / "a.csv").write_text("\n".join([",".join(names), *[row] * 9, ""]))
    _, said = run(retired, "a.csv")
    assert "column type row 1 row 2 row 3" in said
    for number, name in enumerate(names):
        assert f"{name} bigint {100 + number} {100 + number} {100 + number}" in said
    assert "6 more" in said
    (here / "a.csv").write_text("\n".join([",".join(names), ",".join(["9" * 400] * 40), ""]))
    (here / "tidegate.toml").write_text(config.replace(" bigint", " string"))
    _, said = run(retired, "a.csv")
    assert all(f"{name} string 999" in said for name in names), "values are cut, names are not"


def test_a_refused_file_is_told_with_its_line_and_ends_with_a_finding(here: Path):
    (here / "a.json").write_bytes(GOOD)
    (here / "b.json").write_bytes(BAD)
    code, said = run("orders", "b.json", "a.json")
    assert code == Exit.FINDING
    reason = "line 2: total = 1.239 has 3 decimals, decimal(12,2) holds 2: make the column decimal(13,3), or round it"
    assert f'refused: b.json: {reason} line 2: {{"id": 2, "total": 1.239}}' in said
    assert "3 rows: a.json" in said


def test_a_folder_is_read_with_what_is_in_it_and_an_empty_file_is_called_empty(here: Path):
    (here / "in" / "deep").mkdir(parents=True)
    (here / "in" / "deep" / "a.json").write_bytes(GOOD)
    (here / "in" / "b.json").write_bytes(b"")
    (here / "in" / ".hidden.json").write_bytes(BAD)
    code, said = run("orders", "in")
    assert code == Exit.OK
    assert "0 rows: in/b.json (empty)" in said
    assert "3 rows: in/deep/a.json" in said
    assert "hidden" not in said
    assert [each["key"] for each in document("orders", "in")["files"]] == ["orders/b.json", "orders/deep/a.json"]
    (here / "none").mkdir()
    assert run("orders", "none") == (Exit.FINDING, "error: there is no file in none")


def test_columns_that_the_schema_lacks_are_told(here: Path):
    (here / "a.json").write_bytes(b'{"id": 1, "coupon": "A"}\n{"id": 2, "vip\\u001b[31m": 1}\n')
    assert "not in the schema: coupon and vip\\x1b[31m. Add them" in run("orders", "a.json")[1]
    assert document("orders", "a.json")["files"][0]["unknown_columns"] == ["coupon", "vip\\x1b[31m"]
    (here / "a.json").write_bytes(GOOD)
    assert "not in the schema" not in run("orders", "a.json")[1]


@pytest.mark.parametrize(
    ("unknown", "told"),
    [
        ("report", "vip. Add them to the schema, if somebody wants them"),
        ("keep", "vip. Their values go into _unknown"),
        ("add", "vip. They become columns of the table. What fits none goes into _unknown"),
    ],
)
def test_what_becomes_of_unknown_columns_is_told_by_the_route(unknown: str, told: str):
    assert list(about_unknown(["vip"], ["id"], [("unknown", unknown)])) == [told]
    dataset = Dataset("lake.t", "id int", "json", options=(("unknown", unknown),))
    assert ("_unknown" in way_out(dataset)) is (unknown != "report")


def test_names_that_no_schema_can_have_are_not_advised(here: Path):
    (here / "a.json").write_text('{"ID": 1, "id": 2, "_source_uri": "x", "": 3, "vip": true}\n')
    said = run("orders", "a.json")[1]
    assert "ID. The schema has id, and names are compared letter by letter: call it so in the files" in said
    assert "_source_uri. Tidegate adds a column of this name" in said
    assert '"". Give the column a name' in said
    assert "vip. Add them to the schema" in said


def test_a_file_that_no_route_takes_is_a_finding(here: Path):
    (here / "a.json").write_text('{"id": 1}\n')
    ended, said = run("orders", "a.json", "--key", "elsewhere/a.json")
    assert ended == Exit.FINDING
    assert "no route would take it" in said


def test_the_json_is_the_documented_one(here: Path):
    (here / "a.json").write_bytes(GOOD)
    (here / "b.json").write_bytes(BAD)
    found = document("orders", "b.json", "a.json", ends=Exit.FINDING)
    assert agree(shape(found), shape(documented("try")))
    assert (found["rows"], found["refused"], found["route"]) == (3, 1, "orders")
    bad, good = found["files"]
    assert bad["error"].startswith("line 2: total = 1.239")
    assert bad["where"] == 'line 2: {"id": 2, "total": 1.239}'
    assert bad["first"] == []
    assert (good["error"], good["rows"], good["taken_by"]) == (None, 3, ["orders"])
    first = {"id": 1, "total": "1.50", "at": "2024-02-03T04:05:06Z", "raw": "aGk=", "share": None}
    assert good["first"][0] == first
    assert good["null_columns"] == ["share"]
    assert found["columns"][0] == {"name": "id", "type": "bigint", "nullable": False}


def test_what_json_lacks_is_text(here: Path):
    pq.write_table(pa.table({"share": [float("inf"), 1.5]}), here / "a.parquet")
    assert [each["share"] for each in document("lists", "a.parquet")["files"][0]["first"]] == ["inf", 1.5]


# ---- which route takes it


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("orders", "a.json.gz"),
            "'.json', the suffix of route orders; route packed would take it as s3://landing/packed/a.json.gz",
        ),
        (("orders", "a.csv"), "'.json', the suffix of route orders; no route would take it"),
        (
            ("orders", "a.json", "--key", "x/a.json"),
            "does not begin with 'orders/', the prefix of route orders; no route",
        ),
        (("old", "a.csv"), "route old is retired and takes no uploads; no route would take it"),
        (
            ("packed", "a.json", "--key", "orders/a.json"),
            "the suffix of route packed; route orders would take it as s3://landing/orders/a.json",
        ),
    ],
)
def test_a_key_that_the_route_would_not_take_is_told(here: Path, arguments: tuple[str, ...], said: str):
    (here / "a.json").write_bytes(b'{"id": 1}\n')
    (here / "a.json.gz").write_bytes(gzip.compress(b'{"id": 1}\n'))
    (here / "a.csv").write_bytes(b"id\n1\n")
    assert said in run(*arguments)[1].replace(
        "the key orders/a.json does not begin with 'packed/', the prefix of", "the suffix of"
    )


def test_compression_is_that_of_the_key(here: Path):
    (here / "a.json.gz").write_bytes(gzip.compress(b'{"id": 1}\n'))
    (here / "b.json.gz").write_bytes(b'{"id": 1}\n')
    assert "1 row: a.json.gz" in run("packed", "a.json.gz")[1]
    assert "the file is JSON, and its name ends in .gz: take .gz off its name" in run("packed", "b.json.gz")[1]
    assert (
        "the file is gzip, and its name does not end in .gz" in run("orders", "a.json.gz", "--key", "orders/a.json")[1]
    )


# ---- sizes


def test_a_file_that_is_too_large_is_refused_unread(here: Path):
    (here / "a.json.gz").write_bytes(bytes(1_000_001))
    assert (
        "refused: a.json.gz: too large: 1000001 bytes, at most 1000000 (max_object_bytes)"
        in run("packed", "a.json.gz")[1]
    )


@pytest.mark.parametrize("limit", [0, 2, 100])
def test_a_large_file_is_decoded_piece_by_piece_with_the_same_end(here: Path, limit: int):
    (here / "a.json").write_bytes(GOOD)
    (here / "b.json").write_bytes(BAD)
    arguments = ("orders", "a.json", "b.json", "--limit", str(limit))
    whole = document(*arguments, ends=Exit.FINDING)
    with patch.object(trial, "STORED_BYTES", 10):
        assert document(*arguments, ends=Exit.FINDING) == whole
        assert "bytes, decoded piece by piece)" in run("orders", "a.json")[1]
    assert len(whole["files"][0]["first"]) == min(limit, 3)


# ---- mistakes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nights", "a.json"), "there is no route 'nights': there are lists, old, orders, packed"),
        (("orders", "gone.json"), "gone.json cannot be read: No such file or directory"),
        (("orders", "a.json", "a.json", "--key", "x"), "--key is for one file, and 2 are given"),
        (("orders", "s3:///x"), "is not s3://bucket/key"),
    ],
)
def test_mistakes_on_the_command_line(here: Path, arguments: tuple[str, ...], said: str):
    (here / "a.json").write_bytes(GOOD)
    code, told = run(*arguments)
    assert code == Exit.USAGE
    assert said in told


# ---- S3


@pytest.fixture
def bucket(here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="landing")
        yield client


def test_an_object_and_the_objects_of_a_prefix(bucket: Any):
    bucket.put_object(Bucket="landing", Key="orders/a.json", Body=GOOD)
    bucket.put_object(Bucket="landing", Key="orders/b/c.json", Body=BAD)
    bucket.put_object(Bucket="landing", Key="orders/b/", Body=b"")
    code, said = run("orders", "s3://landing/orders/a.json")
    assert (code, "3 rows: s3://landing/orders/a.json" in said) == (Exit.OK, True)
    found = document("orders", "s3://landing/orders/", ends=Exit.FINDING)
    assert [each["file"] for each in found["files"]] == ["s3://landing/orders/a.json", "s3://landing/orders/b/c.json"]
    assert [each["taken_by"] for each in found["files"]] == [["orders"], ["orders"]]


@pytest.mark.parametrize("versions", [True, False])
def test_a_large_object_is_read_in_ranges(bucket: Any, versions: bool):
    if versions:
        bucket.put_bucket_versioning(Bucket="landing", VersioningConfiguration={"Status": "Enabled"})
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(10_000)}), sink)
    bucket.put_object(Bucket="landing", Key="lists/a.parquet", Body=sink.getvalue())
    with patch.object(trial, "STORED_BYTES", 10):
        assert "10,000 rows: s3://landing/lists/a.parquet" in run("lists", "s3://landing/lists/a.parquet")[1]


def test_an_object_of_another_route_or_bucket(bucket: Any):
    bucket.create_bucket(Bucket="elsewhere")
    bucket.put_object(Bucket="elsewhere", Key="orders/a.json", Body=GOOD)
    bucket.put_object(Bucket="landing", Key="packed/a.json.gz", Body=gzip.compress(b'{"id": 1}'))
    assert (
        "route orders takes uploads of bucket landing; no route would take it"
        in run("orders", "s3://elsewhere/orders/a.json")[1]
    )
    assert "the prefix of route orders; route packed would take it" in run("orders", "s3://landing/packed/a.json.gz")[1]


def test_what_s3_does_not_have(bucket: Any):
    code, said = run("orders", "s3://landing/orders/gone.json")
    assert code == Exit.USAGE
    assert "there is no object s3://landing/orders/gone.json, nor one whose key begins so" in said
    code, said = run("orders", "s3://nowhere/orders/")
    assert code == Exit.NO_STACK
    assert "could not list s3://nowhere/orders/: NoSuchBucket" in said


WITHOUT = """
import importlib.metadata, sys
installed = importlib.metadata.distribution
def distribution(name):
    if name == "msgspec":
        raise importlib.metadata.PackageNotFoundError(name)
    return installed(name)
importlib.metadata.distribution = distribution
sys.modules["pyarrow"] = None
from tidegate.cli.main import app
app(sys.argv[1:])
"""


@pytest.mark.parametrize("arguments", [["try", "orders", "a.json"], ["init"]], ids=" ".join)
def test_what_needs_the_decoders_says_what_to_install(here: Path, arguments: list[str]):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", WITHOUT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == Exit.TOOL_MISSING, done.stderr
    assert "this needs the extra `spark`, of which msgspec cannot be found" in done.stderr
    assert "Traceback" not in done.stderr


def test_neither_spark_nor_java_is_used(here: Path):
    (here / "a.json").write_bytes(GOOD)
    program = "import sys\nsys.modules['pyspark'] = sys.modules['py4j'] = None\n" + WITHOUT.partition("\nfrom ")[2]
    program = program.replace("tidegate.cli.main import app", "from tidegate.cli.main import app")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "", "JAVA_HOME": ""}
    command = [sys.executable, "-c", program, "try", "orders", "a.json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == Exit.OK, done.stderr
    assert "3 rows: a.json" in done.stdout


def test_rows_that_would_be_set_aside_are_told_with_their_errors(here: Path):
    config = CONFIG.replace('name = "orders"', 'name = "orders"\nbad_rows_share = 0.5', 1)
    (here / "tidegate.toml").write_text(config)
    (here / "some.json").write_bytes(BAD)
    code, said = run("orders", "some.json")
    assert code == Exit.OK
    assert "1 row: some.json" in said
    assert "set aside: 1 row, in lake.raw.orders__rejected" in said
    assert "line 2: total = 1.239 has 3 decimals, decimal(12,2) holds 2" in said
    done = CliRunner().invoke(main.app, ["try", "orders", "some.json", "--json"], catch_exceptions=False)
    (file,) = json.loads(done.stdout)["files"]
    assert (file["rows"], file["rejected_rows"], file["error"]) == (1, 1, None)
    (rejected,) = file["rejected"]
    assert (rejected["place"], rejected["text"]) == ("line 2", '{"id": 2, "total": 1.239}')


@pytest.mark.parametrize(
    ("where", "rows", "by_sql", "left_out", "said"),
    [
        ("id > 1", 3_000, 1_000, 500, ("left out", "500 of the first 1,000 rows")),
        ("id > 1", 2, 3, 1, ("left out", "1 of 3 rows")),
        ("", 3_000, 1_000, 0, ("by SQL", "the first 1,000 rows")),
        ("", 3, 3, 0, None),
    ],
)
def test_it_says_of_how_many_rows_the_sql_is_known(
    where: str, rows: int, by_sql: int, left_out: int, said: tuple[str, str] | None
):
    dataset = Dataset("lake.raw.a", "id bigint", "json", where=where, generated=(("b", "id"),))
    trial = FileTrial(rows, pa.table({"id": [1]}), by_sql=by_sql, left_out=left_out)
    assert about_sql(trial, dataset) == said
