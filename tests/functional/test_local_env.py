"""What a shell has after `eval "$(tidegate local env)"`, whatever it had before and whether or not a stack runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warehouse
from tidegate.cli.exits import Exit
from tidegate.environment import CATALOG_URI, WAREHOUSE
from tidegate_local.description import Description
from tidegate_local.environment import NOBODY, local_environment
from tidegate_local.lock import FolderLock

ROOT = Path(__file__).parents[2]
CLI = f"{sys.executable} -m tidegate.cli.main"
ACCOUNT = {
    "AWS_PROFILE": "production",
    "AWS_SESSION_TOKEN": "of an account",
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "of an account",
    "AWS_ENDPOINT_URL_EMR_SERVERLESS": "http://127.0.0.1:2",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "TIDEGATE_LEDGER": "of another stack",
    "TIDEGATE_NOTICES": "of another stack",
}


def shell_after(folder: Path, then: str = "env", before: dict[str, str] = ACCOUNT) -> dict[str, str]:
    """The variables of a shell with the variables `before`, after the environment of `folder` was evaluated."""
    words = ["sh", "-c", f"eval \"$({CLI} local env --dir '{folder}' 2>/dev/null)\"; {then}"]
    plain = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run(words, env={**plain, **before}, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(line.partition("=")[::2] for line in done.stdout.splitlines() if "=" in line)


def nothing_of_an_account(variables: dict[str, str]) -> bool:
    return (
        not {"AWS_PROFILE", "AWS_SESSION_TOKEN"} & variables.keys()
        and variables["AWS_ACCESS_KEY_ID"] == variables["AWS_SECRET_ACCESS_KEY"] == "testing"
        and variables["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
        and {name for name in variables if name.startswith("AWS_ENDPOINT_URL_")}
        <= {"AWS_ENDPOINT_URL_EMR_SERVERLESS", "AWS_ENDPOINT_URL_EVENTBRIDGE"}
    )


def test_when_no_stack_runs_the_warehouse_is_left_and_nothing_else(tmp_path: Path):
    warehouse.make(tmp_path)
    variables = shell_after(tmp_path)
    assert nothing_of_an_account(variables)
    assert variables["AWS_ENDPOINT_URL"] == NOBODY
    assert {name for name in variables if name.startswith("TIDEGATE_")} == {CATALOG_URI, WAREHOUSE}
    assert variables[WAREHOUSE] == f"file://{tmp_path / 'warehouse'}"


def test_when_nothing_was_ever_there_nothing_leads_anywhere(tmp_path: Path):
    variables = shell_after(tmp_path / "it's nowhere".replace("'", ""))
    assert nothing_of_an_account(variables)
    assert not [name for name in variables if name.startswith("TIDEGATE_")]


def test_when_the_stack_is_gone_a_shell_that_had_it_has_nothing_half(tmp_path: Path):
    """The shell was given the environment of the stack while it ran."""
    warehouse.make(tmp_path)
    urls = {"services": "http://127.0.0.1:3", "jobs": "http://127.0.0.1:4", "events": "http://127.0.0.1:5"}
    had = {**local_environment(tmp_path, **urls, ambient={}), "TIDEGATE_LEDGER": "tidegate", "TIDEGATE_WORK": "work"}
    variables = shell_after(tmp_path, before=had)
    assert nothing_of_an_account(variables)
    assert "AWS_ENDPOINT_URL_EMR_SERVERLESS" not in variables
    assert {name for name in variables if name.startswith("TIDEGATE_")} == {CATALOG_URI, WAREHOUSE}


def test_while_it_runs_all_of_it_is_set(tmp_path: Path):
    urls = {"services": "http://127.0.0.1:3", "jobs": "http://127.0.0.1:4", "events": "http://127.0.0.1:5"}
    local = local_environment(tmp_path, **urls, ambient={})
    Description("tidegate", {}, (), {"Ledger": "ledger"}, (), local).write(tmp_path)
    lock = FolderLock(tmp_path)
    lock.acquire()
    try:
        variables = shell_after(tmp_path)
    finally:
        lock.release()
    assert nothing_of_an_account(variables)
    assert variables["AWS_ENDPOINT_URL"] == "http://127.0.0.1:3"
    assert variables["TIDEGATE_LEDGER"] == "ledger"
    assert "TIDEGATE_NOTICES" not in variables


def test_no_call_of_such_a_shell_reaches_aws(tmp_path: Path):
    call = (
        f"{sys.executable} -c \"import boto3, botocore.config as c; boto3.client('s3',"
        " config=c.Config(retries={'total_max_attempts': 1})).list_buckets()\" 2>&1 | sed 's/^.*Could/said=Could/'"
    )
    assert shell_after(tmp_path, call)["said"] == f'Could not connect to the endpoint URL: "{NOBODY}/"'


@pytest.mark.parametrize("tables", [True, False])
def test_it_says_what_is_left_and_ends_with_3(tmp_path: Path, tables: bool):
    if tables:
        warehouse.make(tmp_path)
    words = [*CLI.split(), "local", "env", "--dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.NO_STACK
    said = " ".join(done.stderr.split())
    assert f"no stack runs in {tmp_path}" in said
    left = re.search(rf"Left are {CATALOG_URI} and {WAREHOUSE}: `(.+ sql.*)` asks the tables that are there\.", said)
    assert bool(left) == tables
    if left:
        asked = subprocess.run(["sh", "-c", f"{left[1]} --help"], cwd=ROOT, capture_output=True, text=True, check=True)
        assert "Ask the tables by SQL" in asked.stdout
    assert "All other TIDEGATE_ variables are unset" in said
    assert "no call of this shell reaches AWS" in said


def test_a_mistake_of_ours_leaves_no_shell_half_set(tmp_path: Path):
    """A stack's description that cannot be read at all."""
    (tmp_path / "stack.json").write_text("{")
    lock = FolderLock(tmp_path)
    lock.acquire()
    try:
        variables = shell_after(tmp_path)
    finally:
        lock.release()
    assert nothing_of_an_account(variables)
    assert "TIDEGATE_LEDGER" not in variables
