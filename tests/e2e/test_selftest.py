"""`tidegate doctor --aws --job` on the local stack: a real job runs as hand-off's do, and says what it found."""

import json
import sys
from pathlib import Path

import pytest
from pyiceberg.exceptions import NoSuchNamespaceError

from tests.e2e.conftest import LocalStack

pytestmark = pytest.mark.e2e


def test_the_self_test_runs_as_a_job_and_leaves_a_report_and_nothing_else(stack: LocalStack) -> None:
    before = tables(stack)
    config = stack.folder.parent / "tidegate.toml"
    done = stack.cli("doctor", "--aws", "--job", "--config", str(config), "--json", check=False)
    lines = {line["name"]: line for line in json.loads(done.stdout)["checks"] if line["name"].startswith("self-test")}
    assert {line["state"] for line in lines.values()} == {"ok"}, lines
    assert {
        *("self-test", "self-test driver", "self-test executor 1", "self-test versions", "self-test modules"),
        *("self-test work bucket", "self-test work bucket from an executor", "self-test iceberg"),
        *("self-test executors", "self-test route's table", "self-test data files"),
        "self-test own table",
    } <= lines.keys()
    assert f"at {sys.executable}" in lines["self-test driver"]["finding"]
    assert "region us-east-1" in lines["self-test executor 1"]["finding"]
    assert "100 rows were staged in lake.e2e.tidegate_selftest_" in lines["self-test own table"]["finding"]
    assert "it is SUCCESS" in done.stderr
    assert tables(stack) == before

    uri = lines["self-test"]["finding"].rpartition(" ")[2]
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    report = json.loads(stack.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    assert Path(report["driver"]["path"][0]).is_absolute()
    assert {each["interpreter"] for each in report["executors"]} == {report["driver"]["interpreter"]}


def tables(stack: LocalStack) -> list[tuple[str, ...]]:
    try:
        return sorted(stack.catalog.list_tables("e2e"))
    except NoSuchNamespaceError:
        return []
