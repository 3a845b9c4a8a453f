"""The alarms of batches, and the sections on halted ones and pauses."""

import json

from tests.functional.runbook import scenario
from tests.functional.runbook.stage import ROUTE, Stage
from tests.support.build import BUCKET
from tests.support.fakes import play_publishing
from tests.support.faults import answered
from tests.support.ledgers import serve_one_at_a_time
from tidegate import wiring
from tidegate.core.batches import LONGEST_RETRY_WAIT, Batch, State
from tidegate.settings import DAY, HOUR

NO_COLUMN = "table lake.raw.flights has no column id, which is in the route's schema"
GONE = "the table is gone, and the batch was attempted before that. A person has to decide"
DENIED = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}


def lands_in_another(stage: Stage, batch: Batch) -> None:
    """The two uploads of the abandoned batch, which a resend has given back."""
    assert stage.deliver() == []
    for _ in range(6):
        stage.settle()
    again = stage.running
    assert (again.objects, again.id != batch.id) == (2, True)
    stage.published(again.id)
    assert (stage.sums()["notified"], stage.sums()["committed"]) == (2, 2), "once, and counted once"


@scenario("batch-halted")
def a_column_was_missing(stage: Stage) -> None:
    batch = stage.halted(NO_COLUMN)
    assert stage.metrics.pop(("BatchesHalted", ROUTE)) == 1
    stage.settle()
    assert (stage.metrics["HaltedNow", ROUTE], ("BatchesHalted", ROUTE) in stage.metrics) == (1, False)
    assert NO_COLUMN in stage.types("tidegate status", ends=1)
    assert json.loads(stage.types("s3 cp", BATCH=batch.id, ATTEMPT="1"))["reason"] == NO_COLUMN
    stage.types("resume", BATCH=batch.id)
    stage.settle()
    assert (stage.batch(batch.id).attempt, stage.metrics["HaltedNow", ROUTE]) == (2, 0)
    stage.published(batch.id)
    assert stage.batch(batch.id).state is State.COMMITTED


@scenario("batch-halted")
def it_cannot_be_saved(stage: Stage) -> None:
    batch = stage.halted(NO_COLUMN)
    stage.types("abort", BATCH=batch.id)
    stage.settle()
    assert stage.metrics["HaltedNow", ROUTE] == 0
    stage.types("resend", BATCH=batch.id, ends=1)  # not yet
    stage.fenced(batch.id)
    assert stage.batch(batch.id).state is State.ABANDONED
    stage.types("resend", BATCH=batch.id)
    lands_in_another(stage, batch)


@scenario("A halted batch")
def its_uploads_are_sent_again(stage: Stage) -> None:
    batch = stage.halted(NO_COLUMN)
    stage.types("--resend", BATCH=batch.id)
    stage.settle()
    assert "wish:" in stage.shell.type("tidegate status").stdout
    stage.fenced(batch.id)
    stage.settle()
    assert stage.batch(batch.id).state is State.ABANDONED
    assert "wish:" not in stage.shell.type("tidegate status").stdout
    stage.types("--resend", BATCH=batch.id)  # it may be repeated
    lands_in_another(stage, batch)


@scenario("A halted batch")
def its_uploads_are_given_up(stage: Stage) -> None:
    stage.audit()
    stage.deployment.clock.advance(HOUR)
    batch = stage.halted(NO_COLUMN)
    stage.types("--resend", BATCH=batch.id)
    stage.types("--drop", BATCH=batch.id)  # a person changes their mind
    stage.settle()
    stage.fenced(batch.id)
    stage.settle()
    assert (stage.sums()["dropped"], stage.sums()["pending"]) == (2, 0)
    assert stage.deployment.bodies(stage.deployment.resources.notices) == []
    stage.deployment.clock.advance(2 * DAY)
    assert stage.audit() == {"lost": 0}, "no audit sends them"
    assert stage.shell.type(f"tidegate resend {batch.id}").code == 0
    assert stage.deliver() == []
    for _ in range(6):
        stage.settle()
    stage.published(stage.running.id)
    sums = stage.sums()
    assert (sums["notified"], sums["committed"], sums["dropped"]) == (2, 2, 0)


def parts_are_deleted(stage: Stage, batch: Batch) -> None:
    """A person deletes the parts of a batch, in a bucket that keeps versions, as the stack makes it."""
    s3, bucket = wiring._client("s3"), stage.deployment.resources.work
    for each in s3.list_objects_v2(Bucket=bucket, Prefix=f"batches/{batch.id}/parts/")["Contents"]:
        s3.delete_object(Bucket=bucket, Key=each["Key"])


def given_up_with_versions(stage: Stage) -> Batch:
    bucket = stage.deployment.resources.work
    wiring._client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    batch = stage.halted(NO_COLUMN)
    assert stage.shell.type(f"tidegate abort {batch.id} --yes").code == 0
    stage.settle()
    stage.fenced(batch.id)
    assert stage.batch(batch.id).state is State.ABANDONED
    return batch


@scenario("A file of the work bucket is missing")
def a_part_was_deleted(stage: Stage) -> None:
    batch = given_up_with_versions(stage)
    stage.types("delete-object", BATCH=batch.id)  # nothing was deleted yet
    parts_are_deleted(stage, batch)
    told = stage.shell.type(f"tidegate abort {batch.id} --drop --yes")
    assert told.code == 1
    assert "lacks 1 file of" in told.stderr
    assert "with 2 uploads" in told.stderr
    stage.settle()
    assert "wish:" in stage.shell.type("tidegate status").stdout
    stage.types("delete-object", BATCH=batch.id)
    stage.settle()
    assert "wish:" not in stage.shell.type("tidegate status").stdout
    assert (stage.sums()["dropped"], stage.sums()["pending"]) == (2, 0)


@scenario("A file of the work bucket is missing")
def a_part_is_lost_for_good(stage: Stage) -> None:
    batch = given_up_with_versions(stage)
    parts_are_deleted(stage, batch)
    assert "with 2 uploads" in stage.types("--drop", BATCH=batch.id)
    assert "with 2 uploads" in stage.types("--resend", BATCH=batch.id)
    stage.settle()
    assert "wish:" not in stage.shell.type("tidegate status").stdout
    assert (stage.sums()["dropped"], stage.sums()["pending"]) == (0, 2)
    assert stage.shell.type(f"tidegate resend s3://{BUCKET}/flights/a.json").code == 0
    assert stage.deliver() == []
    for _ in range(6):
        stage.settle()
    stage.published(stage.running.id)
    assert (stage.sums()["committed"], stage.sums()["pending"]) == (1, 1)


@scenario("batch-late")
def the_catalog_did_not_answer(stage: Stage) -> None:
    batch = stage.submitted()
    stage.attempt_ends(batch, "could not load the table: the catalog does not answer")
    assert "delayed" in stage.types("tidegate status")
    assert "1.json" in stage.types("s3 ls", BATCH=batch.id)
    assert "does not answer" in stage.types("s3 cp", BATCH=batch.id, ATTEMPT="1")
    assert '"state": "FAILED"' in stage.types("get-job-run", RUN=batch.job_run)
    assert stage.batch(batch.id).attempt == 2
    stage.published(batch.id)
    assert (stage.batch(batch.id).state, stage.metrics["LateNow", ROUTE]) == (State.COMMITTED, 0)


@scenario("batch-late")
def its_job_hangs(stage: Stage) -> None:
    batch = stage.submitted()
    stage.deployment.clock.advance(3 * 3600)
    stage.settle()
    assert stage.metrics["OldestPendingSeconds", ROUTE] > 2 * 3600 + 60 + 300
    assert stage.metrics["LateNow", ROUTE] == 1
    assert batch.id in stage.shell.type("tidegate status --json").stdout
    stage.types("tidegate status")
    assert '"state": "RUNNING"' in stage.types("get-job-run", RUN=batch.job_run)
    stage.parts.log("settle", '{"level":"ERROR","message":"nothing of this batch"}')
    assert "nothing of this batch" in stage.types("log Settle ERROR")
    stage.types("cancel-job-run", RUN=batch.job_run)
    stage.deployment.clock.advance(LONGEST_RETRY_WAIT)
    stage.settle()
    assert stage.batch(batch.id).attempt == 2
    stage.published(batch.id)
    stage.settle()
    assert (stage.metrics["OldestPendingSeconds", ROUTE], stage.metrics["LateNow", ROUTE]) == (0, 0), "the alarm ends"


@scenario("Pause a route")
def a_person_changes_its_table(stage: Stage) -> None:
    first = stage.submitted("flights/a.json")
    stage.types("tidegate pause ROUTE", ROUTE=ROUTE)
    assert "paused" in stage.types("tidegate status")
    stage.upload("flights/b.json")
    assert stage.deliver() == []
    stage.settle()
    assert stage.metrics["OldestPendingSeconds", ROUTE] > 0, "what has begun is as old as in any route"
    stage.published(first.id)  # a job that has begun goes on
    stage.deployment.clock.advance(3 * HOUR)
    for _ in range(8):
        stage.settle()
    assert stage.deployment.ledger.route(ROUTE).running == ()
    assert stage.metrics["OldestPendingSeconds", ROUTE] == 0, "no alarm sounds for a pause"
    stage.types("ROUTE --end", ROUTE=ROUTE)
    stage.settle()
    stage.settle()
    assert stage.running.objects == 1


@scenario("settling-troubles")
def the_ledger_refuses_settling(stage: Stage) -> None:
    stage.submitted()
    with answered(wiring._client("dynamodb"), "GetItem", 400, DENIED, containing=f"r#{ROUTE}"):
        stage.settle()
    assert stage.metrics["SettlingTroubles", ""] == 1
    assert "AccessDenied" in stage.types("met trouble")
    stage.types("tidegate status")
    stage.metrics.clear()
    stage.settle()
    assert ("SettlingTroubles", "") not in stage.metrics, "the alarm ends"


@scenario("settling-troubles")
def the_bus_is_gone(stage: Stage) -> None:
    batch = stage.submitted()
    events = wiring._client("events")
    serve_one_at_a_time(events)  # or moto answers, too
    gone = {"__type": "com.amazonaws.events#InternalException", "message": "no bus today"}
    with answered(events, "PutEvents", 400, gone):
        stage.published(batch.id)
        stage.deployment.clock.advance(HOUR)
        stage.settle()
    assert stage.metrics["OldestUnannouncedSeconds", ""] > HOUR
    assert ("SettlingTroubles", "") not in stage.metrics
    assert "no bus today" in stage.types("bus")
    assert "1 committed batch waits to be announced" in stage.types("tidegate status")
    with answered(events, "PutEvents", 200, {"Entries": [{"EventId": "1"}]}):
        stage.settle()
    assert stage.metrics["OldestUnannouncedSeconds", ""] == 0, "the alarm ends"
    assert "to be announced" not in stage.types("tidegate status")


@scenario("settling-troubles")
def emr_refuses_the_job(stage: Stage) -> None:
    stage.upload("weather/a.json", "weather/b.json")  # two make this route's batch full
    stage.deployment.emr.refusal = (400, "ValidationException")
    assert stage.deliver() == []
    assert stage.metrics["HandOffsFailed", "weather"] == 1
    stage.settle()
    assert stage.metrics["SettlingTroubles", ""] == 1, "settling tries it, too"
    assert "ValidationException" in stage.types("log Dispatch")
    stage.types("tidegate status")
    stage.deployment.emr.refusal = None
    stage.settle()
    (batch,) = stage.deployment.ledger.route("weather").running
    assert (stage.batch(batch).attempt, bool(stage.batch(batch).job_run)) == (1, True), "no attempt was used up"


@scenario("The table cannot say")
def the_rows_are_in_the_table(stage: Stage) -> None:
    batch = stage.halted(GONE, undecided=True)
    play_publishing(stage.deployment.work, batch.id, receipt=False)
    stage.types(" --published", BATCH=batch.id)
    stage.settle()
    assert stage.batch(batch.id).state is State.COMMITTED


@scenario("The table cannot say")
def the_rows_are_not_in_the_table(stage: Stage) -> None:
    batch = stage.halted(GONE, undecided=True)
    stage.types("--not-published", BATCH=batch.id)
    stage.settle()
    assert (stage.batch(batch.id).attempt, stage.batch(batch.id).halted) == (2, "")
    stage.published(batch.id)
    assert stage.batch(batch.id).state is State.COMMITTED
