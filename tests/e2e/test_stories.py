"""What goes wrong in the life of a deployment, on the whole local stack: in the end all is there once, or named."""

import gzip
import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pyiceberg.types import LongType

from tests.e2e.conftest import LocalStack
from tests.e2e.test_path import kill_functions, lines, pids, put, settled, signal_all, unannounced
from tests.support.patience import eventually
from tidegate.environment import DEPLOYED, LOCAL_CONFIG
from tidegate_local.outages import PATH

pytestmark = pytest.mark.e2e

BUCKET, ROUTE, TABLE = "landing-mixed", "mixed", "e2e.mixed"
WIDE = 3_000_000_000
"""No `int` holds it."""
BOMB = 64_000_000
"""Bytes, of which the route reads a million."""
OUTAGE_SECONDS = 5.0
BROKEN_SERVICES = ["s3", "sns", "dynamodb"]


def trace(stack: LocalStack, key: str, bucket: str = BUCKET) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(stack.cli("trace", f"s3://{bucket}/{key}", "--json").stdout)["versions"]
    return found


def notified(stack: LocalStack, route: str = ROUTE) -> int:
    count: int = stack.status(route)["uploads"]["notified"]
    return count


def ended(stack: LocalStack, uploads: int, route: str = ROUTE) -> dict[str, int]:
    """How the route's uploads have ended, once there are so many."""
    found: dict[str, int] = settled(stack, route, uploads)["uploads"]  # type: ignore[assignment]
    assert found["holds"]
    return found


@pytest.fixture(scope="module")
def first(stack: LocalStack) -> dict[str, int]:
    """How the first uploads of the route ended: two that can be read, and two that cannot."""
    stack.look("audit")  # from now on it watches the bucket
    put(stack, BUCKET, "one.json", lines(1))
    put(stack, BUCKET, "bomb.json.gz", gzip.compress(b'{"id": 2}\n' + b" " * BOMB))
    put(stack, BUCKET, "wide.json", lines(WIDE))
    put(stack, BUCKET, "three.json.gz", gzip.compress(lines(3)))
    return ended(stack, 4)


def test_a_gzip_bomb_is_quarantined_by_name_and_its_neighbours_land(stack: LocalStack, first: dict[str, int]) -> None:
    assert (first["committed"], first["quarantined"]) == (2, 2)
    assert {1, 3} <= set(stack.ids(TABLE))
    (bomb,) = trace(stack, "bomb.json.gz")
    assert bomb["outcome"] == "quarantined"
    answer = stack.cli("resend", "quarantine", "--dry-run", "--route", ROUTE, "--key", "bomb*").stdout
    assert f"s3://{BUCKET}/bomb.json.gz" in answer
    assert "too large: more than 1000000 bytes decompressed" in answer
    assert "1 upload would be sent" in answer


def test_what_s3_did_not_announce_is_found_by_the_audit(stack: LocalStack, first: dict[str, int]) -> None:
    before = notified(stack)
    with unannounced(stack, BUCKET):
        put(stack, BUCKET, "dropped.json", lines(10))

    def is_known() -> bool:
        stack.let_an_hour_pass(ROUTE)
        return stack.look("audit") and notified(stack) > before

    assert notified(stack) == before
    eventually(is_known, waiting_for="the audit to find the upload", every=0.5)
    ended(stack, before + 1)
    assert stack.ids(TABLE).count(10) == 1
    assert notified(stack) == before + 1, "later runs find nothing"


def test_a_job_finds_what_s3_did_not_announce_and_it_lands_once(stack: LocalStack, first: dict[str, int]) -> None:
    before = notified(stack)
    with unannounced(stack, BUCKET):
        put(stack, BUCKET, "unseen/11.json", lines(11))

    def audited(*by: str) -> dict[str, int]:
        asked = ("audit", "--route", ROUTE, "--since", "1d", "--until", "1s", "--json", *by)
        (found,) = json.loads(stack.cli(*asked, check=False).stdout)["routes"]
        assert found["holds"]
        return {name: found[name] for name in ("lost", "stale", "gone")}

    time.sleep(2)  # until it is old enough for this window
    assert audited("--job", "--send") == {"lost": 1, "stale": 0, "gone": 0}
    ended(stack, before + 1)
    assert stack.ids(TABLE).count(11) == 1
    assert audited() == {"lost": 0, "stale": 0, "gone": 0}


def test_what_was_quarantined_lands_once_when_the_schema_is_mended_and_it_is_released(
    stack: LocalStack, first: dict[str, int]
) -> None:
    sums = stack.status(ROUTE)["uploads"]
    (version,) = trace(stack, "wide.json")
    assert version["outcome"] == "quarantined"
    # the table first, then the settings, as the runbook says
    with stack.catalog.load_table(TABLE).update_schema() as change:
        change.update_column("id", LongType())
    config = Path(stack.environment[LOCAL_CONFIG])
    config.write_text(config.read_text().replace('schema = "id int"', 'schema = "id bigint"'))
    # as `tidegate local up` does, which starts everything anew: what the stack runs by, and functions that read it
    (stack.folder / DEPLOYED).write_text(config.read_text())
    kill_functions(stack)
    for _ in range(2):  # the second finds nothing new to do
        stack.cli("resend", "quarantine", "--route", ROUTE, "--key", "wide.json", "--yes")
    after = stack.once(
        lambda: stack.status(ROUTE)["uploads"],
        lambda now: now["committed"] == sums["committed"] + 1 and not now["pending"],
        waiting_for="the released upload to land",
    )
    assert (after["notified"], after["quarantined"]) == (sums["notified"], sums["quarantined"] - 1)
    assert stack.ids(TABLE).count(WIDE) == 1


def test_the_table_follows_its_source(stack: LocalStack) -> None:
    """A file is corrected, deleted, and put again. S3 tells of one deletion, and an audit finds the other."""
    bucket, route, table = "landing-source", "source", "e2e.source"
    for key in ("a.json", "b.json"):
        put(stack, bucket, key, lines(1))
    ended(stack, 2, route)
    put(stack, bucket, "a.json", lines(2, 3))
    ended(stack, 3, route)
    assert stack.ids(table) == [1, 2, 3]
    stack.client("s3").delete_object(Bucket=bucket, Key="a.json")
    ended(stack, 4, route)
    assert stack.ids(table) == [1]
    first, corrected, deleted = trace(stack, "a.json", bucket)
    assert (first["replaced_by"], corrected["replaced_by"]) == (corrected["version"], deleted["version"])
    assert "the object is deleted, and 2 rows of it left" in deleted["answer"]
    listed = json.loads(stack.cli("files", "--route", route, "--key", "a.json", "--json").stdout)["files"]
    assert [(each["deletion"], each["replaced_rows"], (each["left"] or {}).get("replaced_by")) for each in listed] == [
        (True, 2, None),
        (False, 1, deleted["version"]),
        (False, 0, corrected["version"]),
    ]
    with unannounced(stack, bucket):
        stack.client("s3").delete_object(Bucket=bucket, Key="b.json")
    time.sleep(2)  # until it is old enough for this window
    asked = ("audit", "--route", route, "--since", "1d", "--until", "1s", "--send")
    assert ": a deletion" in stack.cli(*asked, check=False).stdout
    put(stack, bucket, "a.json", lines(4))
    ended(stack, 6, route)
    assert stack.ids(table) == [4]
    assert stack.cli("audit", "--tables", "--route", route, check=False).returncode == 0


def is_well(stack: LocalStack) -> bool:
    """Whether all of them answer."""
    calls = {"s3": "list_buckets", "sns": "list_topics", "dynamodb": "list_tables"}
    assert set(calls) == set(BROKEN_SERVICES)
    failed = []
    for service, call in calls.items():
        try:
            getattr(stack.client(service), call)()
        except ClientError as error:
            failed.append((service, error.response["ResponseMetadata"]["HTTPStatusCode"]))
    assert {status for _, status in failed} <= {503}
    return not failed


def test_services_that_fail_for_a_while_delay_uploads_and_lose_none(stack: LocalStack) -> None:
    before, rows = notified(stack), stack.ids(TABLE)
    numbers = list(range(100, 120))
    for number in numbers:
        put(stack, BUCKET, f"outage{number}.json", lines(number))
    request = urllib.request.Request(
        f"{stack.environment['AWS_ENDPOINT_URL']}{PATH}",
        data=json.dumps({"services": BROKEN_SERVICES, "seconds": OUTAGE_SECONDS}).encode(),
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=60).close()
    assert not is_well(stack)
    eventually(lambda: is_well(stack), waiting_for="the end of the outage", every=0.3)
    ended(stack, before + len(numbers))
    assert stack.ids(TABLE) == sorted([*rows, *numbers])


def test_a_batch_is_given_up_and_its_driver_wakes_later_and_changes_nothing(stack: LocalStack) -> None:
    bucket, route, table = "landing-given-up", "given-up", "e2e.given_up"
    put(stack, bucket, "a.json", lines(1, 2))
    batch = stack.once(
        lambda: next((each["id"] for each in stack.status(route)["unfinished"] if each["state"] == "SUBMITTED"), ""),
        waiting_for="its batch to be submitted",
    )
    work, s3 = stack.environment["TIDEGATE_WORK"], stack.client("s3")
    begun = eventually(
        lambda: (
            s3.list_objects_v2(Bucket=work, Prefix=f"batches/{batch}/floor.json")["KeyCount"]
            and pids("work", f"--work={work}")
        ),
        waiting_for="its driver to begin",
        every=0.02,
    )
    signal_all(begun, signal.SIGSTOP)
    try:
        stack.cli("abort", batch, "--yes")
        stack.once(lambda: not stack.status(route)["unfinished"], waiting_for="the fence to be recorded")
        assert stack.status(route)["batches"]["abandoned"] == 1
        fenced = stack.catalog.load_table(table).current_snapshot()
    finally:
        signal_all(begun, signal.SIGCONT)
    eventually(lambda: not pids("work", f"--work={work}"), waiting_for="the worker to end")
    assert stack.rows(table) == []
    assert stack.catalog.load_table(table).current_snapshot() == fenced
    stack.look()
    assert stack.status(route)["batches"]["abandoned"] == 1
    # its uploads are still there to be sent again
    stack.cli("resend", batch)
    stack.once(lambda: stack.status(route)["uploads"]["committed"] == 1, waiting_for="the upload to land")
    assert stack.ids(table) == [1, 2]
