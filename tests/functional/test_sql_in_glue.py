"""`tidegate sql` on a deployment whose tables are in Glue: by moto's Glue and S3, with the files read over HTTP."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from click.testing import Result
from moto.server import ThreadedMotoServer
from pyiceberg.catalog import load_catalog
from typer.testing import CliRunner

from tests.support import warehouse
from tidegate.cli import main
from tidegate.cli.asking import engine
from tidegate.cli.exits import Exit

CONFIG = """
[deployment]
name = "staging"
[[route]]
name = "flights"
bucket = "landing"
format = "json"
table = "lake.flights.departures"
schema = "carrier string"
[[route]]
name = "later"
bucket = "landing2"
format = "json"
table = "lake.flights.arrivals"
schema = "carrier string"
"""
BUCKET = "asked-by-sql"
"""moto's buckets belong to the process: tests on Spark, which may run in the same one, have a `warehouse`."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def deployed(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("TIDEGATE_", "AWS_", "PYICEBERG_")):
            monkeypatch.delenv(name)
    variables = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "it's",
        "TIDEGATE_LEDGER": "ledger",
        "TIDEGATE_DEPLOYMENT": "staging",
        "TIDEGATE_CONFIG": str(tmp_path / "tidegate.toml"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "tidegate.toml").write_text(CONFIG)


@pytest.fixture
def tables(deployed: None, endpoint: str) -> Iterator[None]:
    s3, glue = boto3.client("s3"), boto3.client("glue")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    properties = {"type": "glue", "warehouse": f"s3://{BUCKET}", "s3.endpoint": endpoint, "glue.endpoint": endpoint}
    warehouse.fill(load_catalog("lake", **properties))
    glue.create_table(DatabaseName="flights", TableInput={"Name": "of_hive", "StorageDescriptor": {}})
    yield
    for name in ("departures", "of_hive"):
        glue.delete_table(DatabaseName="flights", Name=name)
    glue.delete_database(Name="flights")
    for each in s3.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        s3.delete_object(Bucket=BUCKET, Key=each["Key"])
    s3.delete_bucket(Bucket=BUCKET)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main.app, ["sql", *arguments])


@pytest.mark.usefixtures("tables")
def test_a_query_is_answered_from_glue_and_s3():
    query = "select origin, count(*) as n from lake.flights.departures where flight >= 1500 group by origin order by 1"
    result = run(query, "--json")
    assert result.exit_code == Exit.OK, result.stderr
    document = json.loads(result.stdout)
    assert document["rows"] == [{"origin": "EWR", "n": 3}, {"origin": "JFK", "n": 2}]
    assert document["snapshots"].keys() == {"lake.flights.departures"}


@pytest.mark.usefixtures("tables")
def test_the_tables_of_the_routes_are_listed_and_what_is_not_there_yet():
    result = run()
    assert result.exit_code == Exit.OK, result.stderr
    assert "the catalog lake of deployment staging (glue, eu-central-1)" in " ".join(result.stdout.split())
    assert "lake.flights.departures  5 rows" in result.stdout
    assert "lake.flights.arrivals  not there yet" in result.stdout
    assert "of_hive" not in result.stdout


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from lake.flights.departure", "did you mean lake.flights.departures?"),
        ("select * from lake.flights.of_hive", "there is no table lake.flights.of_hive"),
        ("select * from flights.departuers", "did you mean lake.flights.departures?"),
        ("select orign from lake.flights.departures", '"origin"'),
        ("select * from read_parquet('s3://landing/x.parquet')", "disabled"),
    ],
)
def test_what_is_not_there_is_told(query: str, said: str):
    result = run(query)
    assert result.exit_code == Exit.USAGE, result.output
    assert said in " ".join(result.stderr.split())


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("fenced", ["by the kind of the statement", "by the files"])
def test_what_would_write_into_the_bucket_changes_nothing(fenced: str, monkeypatch: pytest.MonkeyPatch):
    before = objects()
    if fenced == "by the files":
        monkeypatch.setattr(engine, "_checked", lambda connection, query: query)
    for key in ("new.csv", max(before)):
        for first in ("", "explain analyze "):
            query = f"{first}copy (select 1 as x from lake.flights.departures) to 's3://{BUCKET}/{key}'"
            assert run(query).exit_code != Exit.OK
    assert objects() == before


def objects() -> dict[str, str]:
    return {each["Key"]: each["ETag"] for each in boto3.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]}


@pytest.mark.usefixtures("tables")
def test_files_that_s3_does_not_hand_out_are_no_traceback():
    s3 = boto3.client("s3")
    for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        if each["Key"].endswith(".parquet"):
            s3.delete_object(Bucket=BUCKET, Key=each["Key"])
    result = run("select * from lake.flights.departures")
    assert result.exit_code == Exit.NO_STACK
    assert "the files of a table cannot be read" in result.stderr
    assert "404" in result.stderr


@pytest.mark.usefixtures("deployed")
def test_a_catalog_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    result = run("select * from lake.flights.departures")
    assert result.exit_code == Exit.NO_STACK
    assert "Could not connect to the endpoint URL" in result.stderr
    assert "Traceback" not in result.stderr
