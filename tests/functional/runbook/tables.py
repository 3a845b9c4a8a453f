"""The sections on what a table holds: a backfill, a lost ledger, and a table that differs."""

import json
from dataclasses import replace

from tests.functional.runbook import scenario
from tests.functional.runbook.stage import ROUTE, Stage
from tests.functional.test_handlers import event
from tests.support.build import BUCKET
from tests.support.ledgers import create_table
from tidegate import wiring
from tidegate.core.batches import Batch, State
from tidegate.core.lineage import Landed
from tidegate.core.manifests import floor_name
from tidegate.core.publication import Floor, History, Snapshot
from tidegate.core.receipts import encode_floor
from tidegate.settings import HOUR

TABLE = "lake.raw.flights"
HOLDS = "the tables hold what the ledger has committed"


def landed(stage: Stage, *keys: str) -> Batch:
    """A batch that is in the table, and settled."""
    batch = stage.submitted(*keys)
    stage.published(batch.id)
    assert stage.batch(batch.id).state is State.COMMITTED
    return stage.batch(batch.id)


def what_is_on_its_way_lands(stage: Stage) -> None:
    assert stage.deliver() == []
    for _ in range(8):
        stage.settle()
        for batch in stage.deployment.ledger.route(ROUTE).running:
            stage.published(batch)


# ---- a backfill


@scenario("Backfill")
def files_were_there_before_the_deployment(stage: Stage) -> None:
    stage.upload("flights/old-1.json", "flights/old-2.json", "weather/old.json", announced=False)
    stage.deployment.clock.advance(HOUR)
    landed(stage, "flights/new.json")
    found = stage.types("tidegate audit s3://BUCKET/PREFIX", BUCKET=BUCKET, PREFIX="flights/", ends=1)
    assert "flights/old-1.json" in found
    assert "flights/old-2.json" in found
    assert "new.json" not in found
    assert "weather" not in found
    what_is_on_its_way_lands(stage)
    assert set(stage.tables.times(TABLE)) == {"flights/new.json"}, "a dry run sends nothing"
    asked = stage.types("PREFIX --send", BUCKET=BUCKET, PREFIX="flights/", answers="n\n", ends=1)
    assert "that costs about $" in asked
    assert "Go on?" in asked
    assert stage.deliver() == []
    assert not stage.deployment.ledger.claims(BUCKET, "flights/old-1.json"), "it says what it costs, and asks"
    assert "2 uploads are on their way" in stage.types("PREFIX --send", BUCKET=BUCKET, PREFIX="flights/", answers="y\n")
    # once more, before these have landed
    assert "2 uploads are on their way" in stage.types("PREFIX --send", BUCKET=BUCKET, PREFIX="flights/", answers="y\n")
    what_is_on_its_way_lands(stage)
    once = {"flights/old-1.json": 1, "flights/old-2.json": 1, "flights/new.json": 1}
    assert stage.tables.times(TABLE) == once
    stage.types("tidegate audit s3://BUCKET/PREFIX", BUCKET=BUCKET, PREFIX="flights/")
    assert (stage.sums()["notified"], stage.sums()["committed"]) == (3, 3)


@scenario("Backfill")
def somebody_removed_rows_and_a_job_fails(stage: Stage) -> None:
    batch = landed(stage, "flights/a.json")
    stage.tables.rows(TABLE).clear()
    found = stage.types("PREFIX --send", BUCKET=BUCKET, PREFIX="flights/", answers="y\n", ends=1)
    assert f"committed: s3://{BUCKET}/flights/a.json" in found
    assert stage.deliver() == []
    assert stage.sums()["notified"] == 1, "its claim lives: it is counted, and not sent"
    told = stage.shell.type(f"tidegate trace s3://{BUCKET}/flights/a.json").stdout
    assert batch.id in told
    assert str(batch.snapshot) in told

    stage.deployment.emr.plays = lambda run, arguments: stage.deployment.emr.end(run, "FAILED", "the driver ended")
    failed = stage.types("tidegate audit s3://BUCKET/PREFIX", BUCKET=BUCKET, PREFIX="flights/", ends=3)
    assert "is FAILED: the driver ended" in failed


@scenario("Load files once more")
def what_has_landed_is_reloaded(stage: Stage) -> None:
    first = landed(stage, "flights/a.json", "flights/b.json")
    stage.upload("weather/c.json")
    assert stage.deliver() == []
    asked = stage.types("--reload", BUCKET=BUCKET, PREFIX="flights/", answers="n\n", ends=1)
    assert "To load all of them again costs about $" in asked
    assert stage.deliver() == [], "it says what it costs, and asks"
    assert stage.deployment.ledger.route(ROUTE).open_batch == ""
    sent = stage.types("--reload", BUCKET=BUCKET, PREFIX="flights/", answers="y\n")
    assert "2 uploads are on their way" in sent
    assert stage.deliver() == []
    claims = [each for key in "ab" for each in stage.deployment.ledger.claims(BUCKET, f"flights/{key}.json")]
    assert {batch.id for _, batch in stage.deployment.ledger.owners(claims).values() if batch} != {first.id}
    assert stage.sums()["notified"] == 2, "nothing is notified twice"


# ---- a lost ledger


def lose_the_ledger(stage: Stage, *, work: bool = False) -> None:
    """Its table is gone, and an empty one of that name was made; with `work` the work bucket is empty, too."""
    client, name = wiring._client("dynamodb"), stage.deployment.resources.ledger
    client.delete_table(TableName=name)
    create_table(client, name)
    if work:
        s3, bucket = wiring._client("s3"), stage.deployment.resources.work
        for each in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
            s3.delete_object(Bucket=bucket, Key=each["Key"])


def rebuilt(stage: Stage, batch: Batch) -> None:
    """The commands that rebuild, over a ledger that had this batch."""
    stage.types("--dry-run")
    ledger = wiring.this_deployment().ports(guarded=False).ledger
    assert ledger.batch(batch.id) is None, "a dry run writes nothing"
    stage.types("ledger rebuild")
    assert stage.batch(batch.id).state is State.COMMITTED
    stage.types("tidegate status")
    assert HOLDS in stage.types("tidegate audit --tables")


def announced_again(stage: Stage, *keys: str) -> None:
    """Traffic is let in, and what has landed is uploaded again."""
    before = stage.tables.times(TABLE)
    stage.upload(*keys)
    what_is_on_its_way_lands(stage)
    assert all(stage.tables.times(TABLE)[key] == before[key] == 1 for key in keys), "it is refused, as before"


@scenario("Rebuild")
def its_table_is_gone(stage: Stage) -> None:
    batch = landed(stage, "flights/a.json", "flights/b.json")
    pending = stage.submitted("flights/c.json")
    stage.upload("flights/d.json")
    assert stage.deliver() == []
    lose_the_ledger(stage)
    rebuilt(stage, batch)
    announced_again(stage, "flights/a.json", "flights/b.json")
    assert stage.batch(pending.id).state is State.COMMITTED
    assert stage.tables.times(TABLE) == dict.fromkeys((f"flights/{name}.json" for name in "abcd"), 1)
    assert "never put right in place" in stage.types("ledger rebuild", ends=1)
    assert (stage.sums()["notified"], stage.sums()["committed"]) == (4, 4)


@scenario("Rebuild")
def the_work_bucket_is_lost_as_well(stage: Stage) -> None:
    batch = landed(stage, "flights/a.json", "flights/b.json")
    stage.upload("flights/c.json")
    assert stage.deliver() == []
    lose_the_ledger(stage, work=True)
    rebuilt(stage, batch)
    stage.deployment.clock.advance(2 * HOUR)
    assert "flights/c.json" in stage.types("audit --since")
    announced_again(stage, "flights/a.json", "flights/b.json")
    assert stage.tables.times(TABLE) == dict.fromkeys((f"flights/{name}.json" for name in "abc"), 1)
    assert (stage.sums()["notified"], stage.sums()["committed"]) == (3, 3)


@scenario("Rebuild")
def its_files_are_incomplete(stage: Stage) -> None:
    batch = stage.submitted("flights/a.json")
    stage.published(batch.id)
    s3, bucket = wiring._client("s3"), stage.deployment.resources.work
    name = f"batches/{batch.id}/receipt.json"
    receipt = stage.deployment.work.get(name)
    assert receipt
    s3.delete_object(Bucket=bucket, Key=name)
    lose_the_ledger(stage)
    assert f"the work bucket has neither {name} nor" in stage.types("ledger rebuild", ends=1)
    started = len(stage.deployment.emr.runs)
    for _ in range(3):
        stage.settle()
    assert len(stage.deployment.emr.runs) == started, "no job is started for it"
    stage.deployment.work.put(name, receipt)
    stage.types("ledger rebuild")
    assert stage.batch(batch.id).state is State.COMMITTED


# ---- a table that differs


@scenario("The ledger and the table differ")
def the_table_was_rolled_back(stage: Stage) -> None:
    kept, gone = landed(stage, "flights/a.json"), landed(stage, "flights/b.json", "flights/c.json")
    assert HOLDS in stage.types("audit --tables")
    stage.tables.roll_back(gone)
    found = stage.types("audit --tables", ends=1)
    assert f"missing: batch {gone.id}" in found
    assert f"tidegate resend {gone.id}" in found
    assert kept.id not in found
    before = stage.sums()
    assert "2 uploads of batch" in stage.types("resend", BATCH=gone.id, answers="y\n")
    assert stage.batch(gone.id) == replace(gone, rows_removed=True, sent_again=True)
    what_is_on_its_way_lands(stage)
    assert HOLDS in stage.types("audit --tables")
    assert "nothing of batch" in stage.types("resend", BATCH=gone.id, answers="y\n", ends=1)
    assert stage.tables.times(TABLE) == dict.fromkeys((f"flights/{name}.json" for name in "abc"), 1)
    assert stage.sums() == before


@scenario("The ledger and the table differ")
def the_table_was_rolled_back_past_a_fence(stage: Stage) -> None:
    batch = stage.submitted("flights/a.json")
    stage.deployment.work.put(f"batches/{batch.id}/{floor_name(0)}", encode_floor(Floor("u", 1)))
    assert stage.deployment.ledger.resume(batch.id, ROUTE, 2, fencing=True)
    stage.fenced(batch.id)
    assert stage.batch(batch.id).state is State.ABANDONED
    fence, first = Snapshot(2, 1, frozenset({batch.id})), Snapshot(1, None)
    stage.tables.lineage.histories[TABLE] = History("u", (fence, first))
    assert HOLDS in stage.types("audit --tables")
    stage.tables.lineage.histories[TABLE] = History("u", (first,))
    found = stage.types("audit --tables", ends=1)
    assert f"not fenced: batch {batch.id}" in found
    assert f"{ROUTE}-{batch.id}-1 to {ROUTE}-{batch.id}-2" in found
    # a driver that was alive publishes it
    stage.tables.lineage.histories[TABLE] = History("u", (Snapshot(3, 1, frozenset({batch.id})), first))
    stage.tables.rows(TABLE).append(Landed(BUCKET, "flights/a.json", "v1", batch.id, 1))
    assert f"not committed: batch {batch.id}" in stage.types("audit --tables", ends=1)


@scenario("The ledger and the table differ")
def several_are_named_at_once(stage: Stage) -> None:
    gone = [landed(stage, f"flights/{name}.json") for name in "ab"]
    for each in gone:
        stage.tables.roll_back(each)
    stage.types("resend", BATCH=" ".join(each.id for each in gone), answers="y\n")
    assert HOLDS in stage.types("audit --tables")


@scenario("The ledger and the table differ")
def rows_were_deleted(stage: Stage) -> None:
    batch = landed(stage)
    rows = stage.tables.rows(TABLE)
    rows.pop()
    found = stage.types("audit --tables", ends=1)
    assert f"fewer: batch {batch.id}" in found
    assert "holds 1 row of 1 upload, the ledger has committed 2 of 2" in found
    rows.clear()
    assert f"missing: batch {batch.id}" in stage.types("audit --tables", ends=1)
    # rows that were deleted are not brought back: the snapshot is there
    assert "still in its history" in stage.types("resend", BATCH=batch.id, answers="y\n", ends=1)
    # if that has expired, nothing but the person can tell: so it asks
    stage.tables.rolled_back.add(batch.id)
    stage.types("resend", BATCH=batch.id, answers="n\n", ends=1)
    assert not rows
    # one of two is there again
    stage.tables.lands(batch)
    rows.pop()
    stage.tables.rolled_back.add(batch.id)
    assert "holds 1 of the 2 rows" in stage.types("resend", BATCH=batch.id, answers="y\n", ends=1)


@scenario("The ledger and the table differ")
def the_table_has_rows_of_others(stage: Stage) -> None:
    batch, other = landed(stage, "flights/a.json"), landed(stage, "flights/b.json")
    rows = stage.tables.rows(TABLE)
    (first, _) = rows
    rows[0] = replace(first, rows=2)
    assert f"more: batch {batch.id}" in stage.types("audit --tables", ends=1)
    rows[0] = first
    rows.append(replace(first, batch=other.id))
    assert f"and in batch {other.id}" in stage.types("audit --tables", ends=1)
    rows.pop()
    stranger = wiring.new_id()
    rows.append(Landed(BUCKET, "flights/x.json", "v1", stranger, 1))
    assert f"unknown: batch {stranger}" in stage.types("audit --tables", ends=1)
    rows.pop()
    rows.append(Landed(BUCKET, "flights/x.json", "v1", "of another tool", 1))
    assert HOLDS in stage.types("audit --tables")
    stage.upload("flights/c.json")
    assert stage.deliver() == []
    gathering = stage.deployment.ledger.route(ROUTE).open_batch
    rows.append(Landed(BUCKET, "flights/c.json", "v1", gathering, 1))
    assert f"not committed: batch {gathering}" in stage.types("audit --tables", ends=1)
    rows.pop()
    # beside traffic: published, and not recorded yet
    for _ in range(6):
        stage.settle()
    stage.publishes(gathering)
    shown = json.loads(stage.shell.type("tidegate audit --tables --json").stdout)
    assert (shown["holds"], shown["pending_batches"]) == (True, 1)


@scenario("tables-not-maintained")
def the_job_may_not_delete(stage: Stage) -> None:
    stage.tables.denied = "AccessDenied: s3:DeleteObject"
    stage.invoke("maintain", event("settle_schedule"))
    assert stage.metrics["TablesNotMaintained", ""] >= 1
    assert "s3:DeleteObject" in stage.types("log Maintain")
    stage.types("tidegate maintain --dry-run", ends=1)
    stage.tables.denied = ""
    stage.types("tidegate maintain --dry-run")
    assert "not finished" not in stage.types("tidegate maintain")
    stage.metrics.clear()
    stage.deployment.clock.advance(86_400)
    stage.invoke("maintain", event("settle_schedule"))
    assert ("TablesNotMaintained", "") not in stage.metrics, "the alarm ends"
