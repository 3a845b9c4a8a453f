"""The metadata of a table with as many snapshots as you like, without committing them."""

import json
import time
import uuid
from pathlib import Path
from typing import Any

FIRST_SNAPSHOT = 10**17
EVERY_MS = 60_000
"""Milliseconds between two snapshots: batches of one minute."""
DAY_MS = 86_400_000


def grown(metadata: Path, snapshots: int) -> Path:
    """A file beside `metadata` (an Iceberg metadata.json, version 2), whose `main` has this many snapshots.

    The nth is number `FIRST_SNAPSHOT` + n, the head the last of them, and publishes batch `batch_of(n)`. All of them
    have the manifest list, and so the rows, of the last snapshot of `metadata`.
    """
    told = json.loads(metadata.read_text())
    last = told["snapshots"][-1]
    begun = last["timestamp-ms"] - (snapshots - 1) * EVERY_MS
    told["snapshots"] = [_snapshot(last, number, begun + number * EVERY_MS) for number in range(snapshots)]
    told["snapshot-log"] = [
        {"timestamp-ms": each["timestamp-ms"], "snapshot-id": each["snapshot-id"]} for each in told["snapshots"]
    ]
    told["metadata-log"] = []
    told["last-sequence-number"] = snapshots
    told["current-snapshot-id"] = FIRST_SNAPSHOT + snapshots - 1
    told["refs"] = {"main": {"snapshot-id": told["current-snapshot-id"], "type": "branch"}}
    file = metadata.parent / f"grown-{snapshots}-{uuid.uuid4().hex}.metadata.json"
    file.write_text(json.dumps(told))
    return file


def grown_on(metadata: Path, snapshots: int, first: int) -> None:
    """A day passes for the table of this file: every time in it moves back. Then the head has been there for almost a
    day, and so many snapshots follow it on `main`, `EVERY_MS` apart, up to now. They have its manifest list, and so its
    rows. The nth publishes batch `batch_of(first + n)`. The file is written in place."""
    told = json.loads(metadata.read_text())
    for each in (*told["snapshots"], *told["snapshot-log"], *told["metadata-log"]):
        each["timestamp-ms"] -= DAY_MS
    head = told["current-snapshot-id"]
    (last,) = (each for each in told["snapshots"] if each["snapshot-id"] == head)
    begun = last["timestamp-ms"] = told["snapshot-log"][-1]["timestamp-ms"] = _now() - snapshots * EVERY_MS
    for number in range(1, snapshots + 1):
        added = _snapshot(last, first + number, begun + number * EVERY_MS)
        told["last-sequence-number"] += 1
        added |= {"parent-snapshot-id": head, "sequence-number": told["last-sequence-number"]}
        head = added["snapshot-id"]
        told["snapshots"].append(added)
        told["snapshot-log"].append({"timestamp-ms": added["timestamp-ms"], "snapshot-id": head})
    told["current-snapshot-id"] = told["refs"]["main"]["snapshot-id"] = head
    told["last-updated-ms"] = told["snapshots"][-1]["timestamp-ms"]
    metadata.write_text(json.dumps(told))
    # what Hadoop's local file system has written beside it
    metadata.with_name(f".{metadata.name}.crc").unlink(missing_ok=True)


def _now() -> int:
    return int(time.time() * 1000)


def batch_of(number: int) -> str:
    return f"B{number:025d}"


def _snapshot(like: dict[str, Any], number: int, timestamp: int) -> dict[str, Any]:
    parent = {"parent-snapshot-id": FIRST_SNAPSHOT + number - 1} if number else {}
    summary = {
        **like["summary"],
        "published-wap-id": batch_of(number),
        "source-snapshot-id": str(5 * FIRST_SNAPSHOT + number),
        "tidegate.batch": batch_of(number),
        "tidegate.driver": uuid.UUID(int=number).hex,
        "tidegate.attempt": "1",
    }
    return {
        **{name: value for name, value in like.items() if name != "parent-snapshot-id"},
        **parent,
        "snapshot-id": FIRST_SNAPSHOT + number,
        "sequence-number": number + 1,
        "timestamp-ms": timestamp,
        "summary": summary,
    }
