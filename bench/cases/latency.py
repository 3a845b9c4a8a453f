"""From a put to a visible row, by stage, on the local stack: real functions, queues and jobs.

Uploads come one every few seconds (the trickle), then many at once (the load). The stages are read afterwards from what
the product recorded: when the upload was claimed, when its batch was handed off, and when the table's snapshot was
committed. The ledger counts whole seconds.
"""

import json
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from bench.findings import BenchFindings, BenchTable, WrongAnswer
from bench.inputs import BUCKET, ROUTE, SETTINGS
from tidegate.flows.ledger import Ledger
from tidegate.settings import load
from tidegate.stores.dynamodb import DynamoDbStore
from tidegate.wiring import settings_file
from tidegate_local import stack as local_stack
from tidegate_local.environment import client

CONFIG = f'[deployment]\nname = "bench"\n{SETTINGS}\n[route.batch]\nmax_wait = "2s"\n'
TRICKLE, EVERY, LOAD = 12, 5.0, 500
PATIENCE = 600.0
STAGES = ("put to claimed", "claimed to handed off", "handed off to visible", "put to visible")


@dataclass(frozen=True, slots=True)
class PutUpload:
    """`at` in epoch seconds."""

    key: str
    at: float


def run(small: bool) -> BenchFindings:
    trickle, every, load_of = (2, 0.0, 5) if small else (TRICKLE, EVERY, LOAD)
    warm = [] if small else ["warm"]
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        config = folder / "tidegate.toml"
        config.write_text(CONFIG)
        running = local_stack.detach(config, folder / "local", on_progress=lambda said: None)
        try:
            stack = dict(running.environment)
            s3 = client("s3", stack)
            # what is measured waits for the schedule, what is only tried need not
            look = (lambda: settle(folder / "local")) if small else (lambda: None)
            put(s3, warm, 0)
            visible(stack, len(warm), look)
            slow = put(s3, [f"slow-{number:04}" for number in range(trickle)], every)
            visible(stack, len(warm) + trickle, look)
            many = put(s3, [f"many-{number:04}" for number in range(load_of)], 0)
            visible(stack, len(warm) + trickle + load_of, look)
            once, found = f"{load_of} at once", stages(stack, many)
            last = max(upload.at + each[-1] for upload, each in zip(many, found, strict=True)) - many[-1].at
            rows = [
                *lines(f"one every {every:.0f} s", slow, stages(stack, slow)),
                *lines(once, many, found),
                (once, "last put to last visible", "", "", f"{last:.1f}"),
            ]
        finally:
            local_stack.down(folder / "local")
    head = ("uploads", "stage", "median, s", "nine of ten, s", "longest, s")
    return BenchFindings((BenchTable("latency", head, rows, f'`max_wait = "2s"`; {trickle} and {load_of} uploads.'),))


def put(s3: Any, names: Sequence[str], every: float) -> list[PutUpload]:
    done = []
    for name in names:
        key = f"{ROUTE}/{name}.json"
        body = json.dumps({"id": len(done), "cents": 1, "text": name}).encode()
        done.append(PutUpload(key, time.time()))
        s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        time.sleep(every)
    return done


def table(stack: Mapping[str, str]) -> Any:
    catalog = SqlCatalog("lake", uri=stack["TIDEGATE_CATALOG_URI"], warehouse=stack["TIDEGATE_WAREHOUSE"])
    return catalog.load_table(f"lake.raw.{ROUTE}".removeprefix("lake."))


def settle(folder: Path) -> None:
    """Have settle look now, as its schedule does once a minute."""
    url = json.loads((folder / "stack.json").read_text())["invoke"]["settle"]
    event = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
    asked = f"{url}/2015-03-31/functions/settle/invocations"
    urllib.request.urlopen(asked, data=json.dumps(event).encode(), timeout=PATIENCE).close()


def visible(stack: Mapping[str, str], rows: int, look: Callable[[], None]) -> None:
    """Wait until the table has so many rows, and `look` meanwhile. Raises WrongAnswer if it has more, or not so many in
    time."""
    end, found = time.monotonic() + PATIENCE, 0
    while time.monotonic() < end:
        try:
            found = table(stack).scan().to_arrow().num_rows
        except Exception:  # there is no table before the first batch
            found = 0
        if found >= rows:
            break
        look()
        time.sleep(0.5)
    if found != rows:
        raise WrongAnswer(f"latency: the table has {found} rows, {rows} were uploaded")


def stages(stack: Mapping[str, str], uploads: Sequence[PutUpload]) -> list[tuple[float, float, float, float]]:
    """The seconds of each of `STAGES`, for each upload."""
    settings = load(settings_file(stack))
    store = DynamoDbStore(client("dynamodb", stack), stack["TIDEGATE_LEDGER"])
    ledger = Ledger(store, lambda: int(time.time()), settings.retention.claims)
    published = {
        snapshot.summary["published-wap-id"]: snapshot.timestamp_ms / 1e3
        for snapshot in table(stack).snapshots()
        if snapshot.summary and "published-wap-id" in snapshot.summary
    }
    found = []
    for upload in uploads:
        (claim,) = ledger.claims(BUCKET, upload.key)
        notice = ledger.notice(claim.notice)
        assert notice is not None
        batch = ledger.batch(notice.batch)
        assert batch is not None
        seen = published[batch.id]
        marks = (upload.at, claim.claimed_at, batch.submitted_at, seen)
        found.append((marks[1] - marks[0], marks[2] - marks[1], marks[3] - marks[2], marks[3] - marks[0]))
    return found


def lines(
    title: str, uploads: Sequence[PutUpload], found: Sequence[tuple[float, float, float, float]]
) -> list[tuple[str, ...]]:
    rows = []
    for number, stage in enumerate(STAGES):
        seconds = sorted(max(0.0, each[number]) for each in found)
        most = seconds[min(len(seconds) - 1, int(0.9 * len(seconds)))]
        rows.append((title, stage, f"{median(seconds):.1f}", f"{most:.1f}", f"{seconds[-1]:.1f}"))
    return rows
