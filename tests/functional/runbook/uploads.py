"""The alarms of uploads and routes, and the sections on quarantine."""

import json

from tests.functional.runbook import scenario
from tests.functional.runbook.stage import ROUTE, Stage
from tidegate import wiring
from tidegate.core.outcomes import Outcome
from tidegate.settings import DAY, HOUR

KEY = "flights/late.json"
ERROR = "line 1: column id: 'late' is no BIGINT"


def in_quarantine(stage: Stage) -> None:
    batch = stage.submitted(KEY, "flights/good.json")
    stage.published(batch.id, {KEY: (Outcome.QUARANTINED, ERROR)})
    assert stage.outcomes(KEY) == ["quarantined"]


@scenario("uploads-quarantined")
def a_column_was_of_the_wrong_type(stage: Stage) -> None:
    in_quarantine(stage)
    stage.deployment.clock.advance(2 * HOUR)
    stage.settle()
    assert stage.metrics["OldestQuarantinedSeconds", ROUTE] > 2 * HOUR
    listed = stage.types("resend quarantine --dry-run", ROUTE=ROUTE)
    assert (ERROR in listed, KEY in listed, "good.json" in listed) == (True, True, False)
    assert ERROR in stage.types("tidegate trace", BUCKET="landing", KEY=KEY)
    stage.deploys(lambda text: text.replace('schema = "id bigint"', 'schema = "id string"', 1))
    assert "1 upload is" in stage.types("resend quarantine --route", ROUTE=ROUTE, ERROR="is no BIGINT")
    assert stage.deliver() == []
    for _ in range(6):
        stage.settle()
    stage.published(stage.running.id)
    sums = stage.sums()
    assert (sums["notified"], sums["committed"], sums["quarantined"]) == (2, 2, 0)
    assert stage.metrics["OldestQuarantinedSeconds", ROUTE] == 0, "the alarm ends"
    assert KEY not in stage.shell.type("tidegate resend quarantine --dry-run").stdout


@scenario("uploads-quarantined")
def nobody_needs_it_any_more(stage: Stage) -> None:
    in_quarantine(stage)
    assert "1 upload is given up" in stage.types("abort quarantine", ROUTE=ROUTE, PATTERN=KEY, REASON="it was deleted")
    stage.settle()
    assert stage.metrics["OldestQuarantinedSeconds", ROUTE] == 0, "the alarm ends"
    sums = stage.sums()
    assert (sums["notified"], sums["committed"], sums["quarantined"], sums["dropped"]) == (2, 1, 0, 1)
    assert "it was deleted" in stage.shell.type(f"tidegate trace s3://landing/{KEY}").stdout


@scenario("Quarantine")
def one_of_them_is_sent_again(stage: Stage) -> None:
    in_quarantine(stage)
    stage.types("resend s3", BUCKET="landing", KEY=KEY)
    assert stage.deliver() == []
    for _ in range(6):
        stage.settle()
    assert stage.running.objects == 1
    stage.published(stage.running.id)
    assert stage.sums()["committed"] == 2


def lost(stage: Stage) -> None:
    """An upload that S3 did not announce, and an audit that looks for the first time before it."""
    stage.audit()
    stage.deployment.clock.advance(HOUR)
    stage.upload("flights/lost.json", announced=False)


@scenario("uploads-missed")
def nobody_announced_them(stage: Stage) -> None:
    lost(stage)
    stage.deployment.clock.advance(2 * DAY)
    assert stage.audit() == {"lost": 1}
    assert stage.metrics["UploadsFoundLost", ""] == 1
    told = stage.types("log Audit")
    assert "flights/lost.json" in told
    assert "lost" in json.loads(told)["why"]
    assert "QueueConfigurations" not in stage.types("get-bucket-notification", BUCKET="landing")
    assert stage.deliver() == []
    stage.upload("flights/another.json", announced=False)
    stage.deployment.clock.advance(2 * HOUR)
    assert "another.json" in stage.types("--until 1m", ROUTE=ROUTE, ends=1)
    stage.types("--until 1m --send", ROUTE=ROUTE)
    assert stage.deliver() == []
    assert stage.deployment.ledger.claims("landing", "flights/another.json")
    stage.types("--until 1m", ROUTE=ROUTE)


@scenario("nothing-received")
def the_bucket_does_not_announce(stage: Stage) -> None:
    lost(stage)
    shown = stage.types("list-objects-v2", BUCKET="landing", PREFIX="flights/")
    assert "flights/lost.json" in shown
    assert "flights/" in stage.types("tidegate check")
    assert "QueueConfigurations" not in stage.types("get-bucket-notification", BUCKET="landing")


@scenario("uploads-missed")
def a_route_is_mended_and_the_audit_sends_what_it_missed(stage: Stage) -> None:
    stage.upload("trains/a.json")
    assert stage.metrics["UploadsOfNoRoute", ""] == 1
    assert "trains/a.json" in stage.types("log Intake")
    assert "trains/" not in stage.types("tidegate check")
    stage.deploys(lambda text: text + text[text.rindex("[[route]]") :].replace("weather", "trains"))
    stage.deployment.clock.advance(HOUR)
    assert "trains/a.json" in stage.types("--until 1m", ROUTE="trains", ends=1)
    assert stage.deliver() == []
    assert not stage.deployment.ledger.claims("landing", "trains/a.json")
    stage.types("--until 1m --send", ROUTE="trains")
    assert stage.deliver() == []
    assert stage.deployment.ledger.claims("landing", "trains/a.json")
    stage.metrics.clear()
    stage.upload("trains/b.json")
    assert ("UploadsOfNoRoute", "") not in stage.metrics, "the alarm ends"


@scenario("batch-late")
def it_was_removed_at_once(stage: Stage) -> None:
    batch = stage.submitted()
    stage.deploys(lambda text: text[: text.index("[[route]]")] + text[text.rindex("[[route]]") :])
    assert ROUTE not in wiring.this_deployment().routes
    stage.settle()
    assert (stage.metrics["UnconfiguredNow", ""], stage.metrics["LateNow", ROUTE]) == (1, 0)
    stage.deployment.clock.advance(3 * HOUR)
    stage.settle()
    assert stage.metrics["LateNow", ROUTE] == 1, "its settings are the ledger's"
    assert ROUTE in stage.types("tidegate status")
    stage.published(batch.id)
    stage.settle()
    assert stage.metrics["UnconfiguredNow", ""] == 0
