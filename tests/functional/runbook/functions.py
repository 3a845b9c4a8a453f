"""The alarms that each function has."""

import boto3

from infra.roster import ROSTER, Schedule
from tests.functional.runbook import scenario
from tests.functional.runbook.parts import FUNCTION, RULE
from tests.functional.runbook.stage import Stage
from tests.functional.test_handlers import event
from tidegate import wiring

CAUSE = "AccessDenied: the audit may not list the bucket"


@scenario("function-errors")
def a_function_may_not_do_what_it_has_to(stage: Stage) -> None:
    wiring._client("s3").delete_bucket(Bucket="landing")
    assert stage.invoke("audit", event("settle_schedule")) is not None, "its first run looks at nothing"
    stage.deployment.clock.advance(3 * 86_400)
    assert stage.audit() is None
    assert "NoSuchBucket" in stage.types("log FUNCTION ERROR", FUNCTION="Audit")
    stage.parts.log("settle", "2026-11-22T10:21:00Z 52fdfc07 Task timed out after 120.00 seconds")
    assert "120.00 seconds" in stage.types("Task timed out", FUNCTION="Settle")
    # the cause is removed, and the next run ends well
    wiring._client("s3").create_bucket(Bucket="landing")
    assert stage.audit() == {"lost": 0}


@scenario("function-silent")
def its_rules_are_disabled(stage: Stage) -> None:
    events = boto3.client("events")
    scheduled = [row.construct for row in ROSTER if isinstance(row.started_by, Schedule)]
    for construct in scheduled:
        rule = stage.parts[construct, RULE]
        events.disable_rule(Name=rule)
        assert "DISABLED" in stage.types("describe-rule", FUNCTION=construct)
        stage.types("enable-rule", FUNCTION=construct)
        assert events.describe_rule(Name=rule)["State"] == "ENABLED"


@scenario("function-silent")
def it_is_throttled(stage: Stage) -> None:
    boto3.client("lambda").put_function_concurrency(
        FunctionName=stage.parts["Settle", FUNCTION], ReservedConcurrentExecutions=2
    )
    assert '"ReservedConcurrentExecutions": 2' in stage.types("get-function-concurrency", FUNCTION="Settle")
    stage.types("get-account-settings", moto_lacks=True)
