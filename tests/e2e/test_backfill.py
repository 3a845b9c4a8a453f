"""`tidegate audit` on the local stack: a real job reads the lineage of a real table, and what is missing lands."""

import json
from typing import Any

import pytest

from tests.e2e.conftest import LocalStack
from tests.e2e.test_path import lines, put, settled, unannounced

pytestmark = pytest.mark.e2e

BUCKET = "landing-old"


def backfill(stack: LocalStack, *arguments: str) -> dict[str, Any]:
    done = stack.cli("audit", f"s3://{BUCKET}/", "--json", *arguments, check=False)
    assert done.stdout, done.stderr
    (route,) = json.loads(done.stdout)["routes"]
    found: dict[str, Any] = route
    return found


def test_what_nobody_announced_is_loaded_once_beside_what_was(stack: LocalStack) -> None:
    with unannounced(stack, BUCKET):
        for number in range(3):
            put(stack, BUCKET, f"{number} +%ö.json", lines(number))
        put(stack, BUCKET, "2 +%ö.json", lines(12))  # its first version is not current any more
    put(stack, BUCKET, "live.json", lines(7))
    settled(stack, "old", 1)

    done = stack.cli("audit", f"s3://{BUCKET}/", "--send", "--yes")
    assert "3 uploads are on their way" in done.stdout
    assert "is SUCCESS" in done.stderr
    settled(stack, "old", 4)
    assert stack.ids("e2e.old") == [0, 1, 7, 12]

    again = backfill(stack, "--send", "--yes", "--all-versions")
    assert (again["missing"], again["landed"]) == (1, 4)
    settled(stack, "old", 5)
    assert stack.ids("e2e.old") == [0, 1, 2, 7, 12]
