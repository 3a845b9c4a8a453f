"""The judgements of `tidegate doctor --aws`: every answer that AWS may give becomes a line. Nothing is called."""

import io
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.parsers import ResponseParserError
from typer.testing import CliRunner

from infra.roster import ROSTER
from tests.support.answers import DENIED, Answers, No, Scripted
from tidegate.cli import main
from tidegate.cli.account import buckets, catalog, examine, parts, quotas, roles, sources
from tidegate.cli.account.ask import Absent, Account, Answer, Denied, Found, Unanswered, permission_for, worth
from tidegate.cli.account.buckets import Held, Whose, held
from tidegate.cli.account.job import JobClock, SelfTest, judge_report, judge_run
from tidegate.cli.account.visit import visit
from tidegate.cli.checks import Check, CheckState, verdict
from tidegate.cli.exits import Exit
from tidegate.core.routes import Dataset
from tidegate.settings import LimitSettings, RouteSettings, Settings, parse
from tidegate.wiring import Resources

ACCOUNT, REGION = "123456789012", "eu-west-1"
NO = Denied("s3:Some")
SILENT = Unanswered("timed out")
CONFIG = """
[[route]]
name = "orders"
bucket = "landing"
prefix = "in of/"
suffix = ".json"
format = "json"
table = "lake.shop.orders"
schema = "id bigint"
"""
BUFFER = f"arn:aws:sqs:{REGION}:{ACCOUNT}:buffer"
RESOURCES = Resources(
    deployment="tidegate",
    ledger="ledger",
    topic=f"arn:aws:sns:{REGION}:{ACCOUNT}:topic.fifo",
    buffer="https://queues/buffer",
    dead_letters="https://queues/dead",
    notices="https://queues/notices.fifo",
    notices_dead_letters="https://queues/dead.fifo",
    work="work",
    application="00app",
    job_role=f"arn:aws:iam::{ACCOUNT}:role/job",
    entry_point="s3://assets/entry.py",
    spark_parameters="--conf a=b",
    account=ACCOUNT,
)


def settings(toml: str = CONFIG) -> Settings:
    return parse(toml)


def route(**changes: Any) -> RouteSettings:
    return settings().routes[0].model_copy(update=changes)


# --- answers ---


def refusal(code: str, status: int = 400, message: str = "") -> ClientError:
    told = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(told, "Operation")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (refusal("404", 404), Absent()),
        (refusal("ValidationError", 400, "Stack with id tidegate does not exist"), Absent()),
        (refusal("ValidationError", 400, "1 validation error detected"), None),
        (refusal("403", 403), Denied("p")),
        (refusal("AccessDeniedException"), Denied("p")),
        (refusal("AuthorizationError", 403), Denied("p")),
        # bad credentials are no lack of a permission
        (refusal("InvalidClientTokenId", 403, "The security token is invalid"), None),
        (refusal("ThrottlingException", 400, "Rate exceeded"), None),
        (refusal("500", 500, "<html>\n<h1>Oops</h1>" + "x" * 1000), None),
    ],
)
def test_a_refusal_is_worth_what_it_says(error: ClientError, answer: Answer | None):
    found = worth(error, "p")
    if answer is None:
        assert isinstance(found, Unanswered)
        assert "\n" not in found.reason
        assert len(found.reason) <= 300
    else:
        assert found == answer


def test_permissions_are_called_as_iam_calls_them():
    assert permission_for("s3", "HeadBucket") == "s3:ListBucket"
    assert permission_for("service-quotas", "GetServiceQuota") == "servicequotas:GetServiceQuota"
    assert permission_for("sqs", "GetQueueAttributes") == "sqs:GetQueueAttributes"


def test_an_endpoint_that_is_not_there_raises_nothing():
    def unreachable(asked: dict[str, Any]) -> Any:
        raise EndpointConnectionError(endpoint_url="https://emr-serverless.mars-1.amazonaws.com")

    account = Account(Answers({"ListApplications": unreachable}).session())
    answer = account.ask("emr-serverless", "list_applications")
    assert isinstance(answer, Unanswered)
    line = examine.emr_in("mars-1", answer)
    assert line.state is CheckState.FAIL
    assert "emr-serverless.mars-1" in line.finding


def test_a_page_in_place_of_an_answer_raises_nothing():
    def page(asked: dict[str, Any]) -> Any:
        raise ResponseParserError("Unable to parse response, invalid XML received:\n<html>")

    answer = Account(Answers({"GetCallerIdentity": page}).session()).ask("sts", "get_caller_identity")
    assert answer == Unanswered("Unable to parse response, invalid XML received: <html>")


# --- whom we are ---


@pytest.mark.parametrize(
    ("region", "who", "name", "exit"),
    [
        (None, Found({"Account": ACCOUNT}), "region", Exit.USAGE),
        (REGION, Unanswered("Unable to locate credentials"), "credentials", Exit.NO_STACK),
        (REGION, Denied("sts:GetCallerIdentity"), "credentials", Exit.NO_STACK),
    ],
)
def test_without_region_or_credentials_nothing_else_is_asked(region, who, name, exit):
    line = examine.whereabouts(region, who)
    assert isinstance(line, Check)
    assert (line.name, line.state, line.exit) == (name, CheckState.FAIL, exit)


def test_bad_credentials_end_the_examination():
    answers = Answers({"GetCallerIdentity": No("ExpiredToken", 403, "The security token is expired")})
    lines = visit(settings(), RESOURCES, account=Account(answers.session()), job_minutes=1)
    assert [line.name for line in lines] == ["credentials", "self-test"]
    assert "ExpiredToken: The security token is expired" in lines[0].finding
    assert answers.asked == ["GetCallerIdentity"]
    assert verdict(lines) is Exit.NO_STACK


@pytest.mark.parametrize(
    ("place", "configured", "state"),
    [
        (examine.AccountRegion(ACCOUNT, REGION), "tidegate", CheckState.OK),
        (examine.AccountRegion("999999999999", REGION), "tidegate", CheckState.FAIL),
        (examine.AccountRegion(ACCOUNT, "us-east-1"), "tidegate", CheckState.FAIL),
        (examine.AccountRegion(ACCOUNT, REGION), "staging", CheckState.FAIL),
    ],
)
def test_the_outputs_must_be_of_this_place_and_configuration(place, configured, state):
    line = examine.belongs(RESOURCES, configured, place)
    assert line.state is state
    assert line.exit is (Exit.OK if state is CheckState.OK else Exit.USAGE)


# --- buckets ---

HERE = Found({"BucketRegion": REGION})
OWN = Found({"Buckets": [{"Name": "landing", "BucketRegion": REGION}, {"Name": "landing-2"}]})


@pytest.mark.parametrize(
    ("plain", "as_owner", "own", "result"),
    [
        (Absent(), Absent(), Absent(), Held(Whose.NOBODYS)),
        (HERE, HERE, Absent(), Held(Whose.OURS, REGION)),
        (HERE, NO, Absent(), Held(Whose.SOMEBODY_ELSES, REGION)),
        (NO, NO, Found({"Buckets": [{"Name": "landing-2"}]}), Held(Whose.SOMEBODY_ELSES)),
        (NO, NO, OWN, Held(Whose.OURS, REGION)),
        (NO, NO, Denied("s3:ListAllMyBuckets"), NO),
        (NO, NO, Absent(), NO),
        (SILENT, SILENT, Absent(), SILENT),
        (HERE, SILENT, Absent(), SILENT),
    ],
)
def test_whose_a_bucket_is(plain, as_owner, own, result):
    assert held(plain, as_owner, own, "landing") == result


def test_the_region_of_a_bucket_may_come_in_a_header():
    header = Found({"ResponseMetadata": {"HTTPHeaders": {"x-amz-bucket-region": "us-west-2"}}})
    assert held(header, header, Absent(), "landing") == Held(Whose.OURS, "us-west-2")


OF_THE_STACK = Found({"StackResourceSummaries": [{"PhysicalResourceId": "landing"}]})


@pytest.mark.parametrize(
    ("who", "members", "state", "said"),
    [
        (Held(Whose.NOBODYS), Absent(), CheckState.OK, "the name is free"),
        (Held(Whose.NOBODYS), OF_THE_STACK, CheckState.FAIL, "is gone"),
        (Held(Whose.OURS, REGION), OF_THE_STACK, CheckState.OK, "made by stack tidegate"),
        (Held(Whose.OURS, REGION), Absent(), CheckState.FAIL, "stack tidegate has not made it"),
        (Held(Whose.OURS, REGION), Found({}), CheckState.FAIL, "stack tidegate has not made it"),
        (Held(Whose.OURS, "us-east-1"), Absent(), CheckState.FAIL, "in us-east-1"),
        (Held(Whose.OURS, REGION), NO, CheckState.WARN, "cannot tell whether stack tidegate made it"),
        (Held(Whose.SOMEBODY_ELSES), Absent(), CheckState.FAIL, "belongs to another account"),
        (NO, Absent(), CheckState.WARN, "cannot tell whose it is"),
        (SILENT, Absent(), CheckState.WARN, "timed out"),
    ],
)
def test_a_bucket_that_the_stack_makes(who, members, state, said):
    line = buckets.created("landing", who, REGION, "tidegate", members)
    assert (line.state, said in line.finding) == (state, True)
    assert bool(line.advice) is (state is not CheckState.OK)


@pytest.mark.parametrize(
    ("who", "state", "said"),
    [
        (Held(Whose.OURS, REGION), CheckState.OK, f"belongs to {ACCOUNT}"),
        (Held(Whose.OURS), CheckState.OK, f"belongs to {ACCOUNT}"),
        (Held(Whose.OURS, "us-east-1"), CheckState.FAIL, "is in us-east-1, and this is eu-west-1"),
        (Held(Whose.NOBODYS), CheckState.FAIL, "does not exist"),
        (Held(Whose.SOMEBODY_ELSES, REGION), CheckState.FAIL, f"does not belong to account {ACCOUNT}"),
        (NO, CheckState.WARN, "cannot tell"),
    ],
)
def test_a_bucket_that_exists_already(who, state, said):
    line = buckets.existing("landing", who, REGION, ACCOUNT)
    assert (line.state, said in line.finding) == (state, True)


@pytest.mark.parametrize(
    ("body", "believed", "state"),
    [
        ({"Status": "Enabled"}, True, CheckState.OK),
        ({"Status": "Enabled"}, False, CheckState.OK),
        ({"Status": "Suspended"}, True, CheckState.WARN),
        ({}, True, CheckState.WARN),
        ({}, False, CheckState.OK),
    ],
)
def test_versions_are_held_against_what_the_route_believes(body, believed, state):
    assert buckets.versions("landing", believed, Found(body)).state is state
    assert buckets.versions("landing", believed, NO).state is CheckState.WARN


def notified(
    prefix: str = "", suffix: str = "", event: str = "s3:ObjectCreated:*", target: str = "arn:theirs", **more: Any
) -> Answer:
    rules = [{"Name": "Prefix", "Value": prefix}, {"Name": "Suffix", "Value": suffix}]
    each = {"LambdaFunctionArn": target, "Events": [event], "Filter": {"Key": {"FilterRules": rules}}}
    return Found({"LambdaFunctionConfigurations": [each], **more})


@pytest.mark.parametrize(
    ("there", "state"),
    [
        (Found({}), CheckState.OK),
        (notified("other/"), CheckState.OK),
        (notified("in+of/", ".csv"), CheckState.OK),
        (notified("in+of/", ".json", "s3:ObjectRemoved:*"), CheckState.OK),
        (notified(), CheckState.FAIL),
        (notified("in"), CheckState.FAIL),
        (notified("in%20of/2026/", ".gz.json"), CheckState.FAIL),
        (notified("", "n", "s3:ObjectCreated:Put"), CheckState.FAIL),
        (NO, CheckState.WARN),
    ],
)
def test_notifications_that_s3_would_not_take_beside_theirs(there, state):
    assert buckets.room("landing", [route(existing=True)], there).state is state


def test_with_eventbridge_there_is_always_room():
    by_rule = [route(existing=True, source="eventbridge")]
    assert buckets.room("landing", by_rule, notified()).state is CheckState.OK


@pytest.mark.parametrize(
    ("there", "state"),
    [
        (notified("in+of/", ".json", target=BUFFER), CheckState.OK),
        (notified("in+of/", ".json"), CheckState.FAIL),
        (notified("in+of/", ".csv", target=BUFFER), CheckState.FAIL),
        (notified("in+of/", ".json", "s3:ObjectRemoved:*", target=BUFFER), CheckState.FAIL),
        (Found({}), CheckState.FAIL),
        (NO, CheckState.WARN),
    ],
)
def test_the_notification_that_the_deployment_made_is_in_place(there, state):
    assert buckets.in_place("landing", [route()], there, BUFFER).state is state


def test_events_that_go_to_eventbridge_are_in_place():
    by_rule = [route(source="eventbridge")]
    assert buckets.in_place("landing", by_rule, Found({"EventBridgeConfiguration": {}}), BUFFER).state is CheckState.OK
    assert buckets.in_place("landing", by_rule, notified(target=BUFFER), BUFFER).state is CheckState.FAIL


# --- what the configuration names ---

NOW = 1_795_219_200
"""2026-11-21T00:00:00Z."""


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (Found({"Name": "news"}), CheckState.OK, "exists"),
        (Absent(), CheckState.FAIL, "does not exist: committed batches wait to be announced"),
        (Denied("events:DescribeEventBus"), CheckState.WARN, "the call was denied"),
    ],
)
def test_the_bus_that_is_announced_on_must_be_there(answer, state, said):
    line = sources.bus("news", answer)
    assert (line.name, line.state, said in line.finding) == ("event bus news", state, True)


def lists(*names: str) -> Found:
    return Found({"CommonPrefixes": [{"Prefix": f"lists/landing/all/{name}/"} for name in names]})


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (lists("2026-11-18T01-00Z", "2026-11-19T01-00Z", "data", "hive"), CheckState.OK, "begun at 2026-11-19T01-00Z"),
        (lists("2026-11-01T01-00Z"), CheckState.FAIL, "has no list of the last 10d"),
        (lists("data", "hive"), CheckState.FAIL, "has no list"),
        (Found({}), CheckState.FAIL, "has no list"),
        (Absent(), CheckState.FAIL, "does not exist"),
        (Denied("s3:ListBucket"), CheckState.WARN, "the call was denied"),
    ],
)
def test_an_inventory_has_a_recent_list(answer, state, said):
    line = sources.inventory("orders", "s3://lists/landing/all", answer, NOW)
    assert (line.name, line.state, said in line.finding) == ("inventory of orders", state, True)
    assert bool(line.advice) is (state is not CheckState.OK)


def metadata_tables(**tables: dict[str, Any]) -> Found:
    return Found({"GetBucketMetadataConfigurationResult": {"MetadataConfigurationResult": tables}})


@pytest.mark.parametrize(
    ("source", "answer", "state", "said"),
    [
        (
            "s3-metadata-inventory",
            metadata_tables(
                InventoryTableConfigurationResult={"ConfigurationState": "ENABLED", "TableStatus": "ACTIVE"}
            ),
            CheckState.OK,
            "is ACTIVE",
        ),
        (
            "s3-metadata-inventory",
            metadata_tables(InventoryTableConfigurationResult={"ConfigurationState": "DISABLED"}),
            CheckState.FAIL,
            "has no table for s3-metadata-inventory",
        ),
        (
            "s3-metadata-inventory",
            metadata_tables(JournalTableConfigurationResult={"TableStatus": "ACTIVE"}),
            CheckState.FAIL,
            "has no table for s3-metadata-inventory",
        ),
        (
            "s3-metadata-journal",
            metadata_tables(JournalTableConfigurationResult={"TableStatus": "BACKFILLING"}),
            CheckState.WARN,
            "is BACKFILLING",
        ),
        (
            "s3-metadata-journal",
            metadata_tables(
                JournalTableConfigurationResult={
                    "TableStatus": "FAILED",
                    "Error": {"ErrorCode": "AccessDenied", "ErrorMessage": "the key"},
                }
            ),
            CheckState.FAIL,
            "is FAILED for landing: AccessDenied: the key",
        ),
        ("s3-metadata-journal", Absent(), CheckState.FAIL, "is not switched on"),
        ("s3-metadata-journal", NO, CheckState.WARN, "the call was denied"),
    ],
)
def test_the_tables_of_s3_metadata_must_be_switched_on(source, answer, state, said):
    line = sources.metadata("orders", source, "landing", answer)
    assert (line.name, line.state, said in line.finding) == ("inventory of orders", state, True)


def test_where_an_audit_looks_is_asked_as_it_is_configured():
    toml = CONFIG + 'audit_from = "s3://lists/all/landing/daily"\n[announce]\nbus = "news"\n'
    asked: dict[str, Any] = {}

    def listed(given: dict[str, Any]) -> dict[str, Any]:
        asked.update(given)
        return {}

    answers = Answers(
        {
            "GetCallerIdentity": {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/x"},
            "DescribeEventBus": No("ResourceNotFoundException"),
            "ListObjectsV2": listed,
        },
        rest=DENIED,
    )
    account = Account(answers.session())
    found = {line.name: line.state for line in visit(settings(toml), None, account=account)}
    assert found["event bus news"] is CheckState.FAIL
    assert found["inventory of orders"] is CheckState.FAIL
    assert (asked["Bucket"], asked["Prefix"], asked["ExpectedBucketOwner"]) == ("lists", "all/landing/daily/", ACCOUNT)
    assert {"events:DescribeEventBus", "s3:ListBucket"} <= account.needed


def test_a_route_that_is_listed_on_the_default_bus_needs_neither():
    answers = Answers({"GetCallerIdentity": {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/x"}}, rest=DENIED)
    names = [line.name for line in visit(settings(), None, account=Account(answers.session()))]
    assert not [name for name in names if name.startswith(("event bus", "inventory"))]


# --- roles ---


def decided(*decisions: str) -> Found:
    return Found({"EvaluationResults": [{"EvalDecision": each} for each in decisions]})


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (decided("allowed"), CheckState.OK, "may do dynamodb:PartiQLInsert"),
        (decided("implicitDeny"), CheckState.WARN, "may not do dynamodb:PartiQLInsert (implicitDeny): it is slow"),
        (decided("explicitDeny"), CheckState.WARN, "(explicitDeny)"),
        (Denied("iam:SimulatePrincipalPolicy"), CheckState.WARN, "cannot tell"),
        (Absent(), CheckState.WARN, "cannot tell"),
    ],
)
def test_what_a_role_may_do_is_simulated(answer, state, said):
    line = roles.may("dispatch", "dynamodb:PartiQLInsert", "it is slow", answer)
    assert (line.name, line.state, said in line.finding) == ("role of dispatch", state, True)


SUBNETS = '[network]\nsubnets = ["subnet-01234567"]\nsecurity_groups = ["sg-01234567"]\n'


def examined(toml: str = CONFIG, **given: Scripted) -> tuple[dict[str, Check], list[dict[str, Any]]]:
    """The lines about a deployment, by name; and what IAM was asked to simulate."""
    simulated: list[dict[str, Any]] = []

    def simulate(asked: dict[str, Any]) -> dict[str, Any]:
        simulated.append(asked)
        return {"EvaluationResults": [{"EvalActionName": "x:y", "EvalDecision": "implicitDeny"}]}

    function = {"ResourceType": "AWS::Lambda::Function", "LastUpdatedTimestamp": 0, "ResourceStatus": "CREATE_COMPLETE"}
    members = [
        {**function, "LogicalResourceId": "Dispatch12345678", "PhysicalResourceId": "tidegate-dispatch"},
        {**function, "LogicalResourceId": "Intake12345678", "PhysicalResourceId": "tidegate-intake"},
    ]
    answers = Answers(
        {
            "GetCallerIdentity": {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/x"},
            "ListStackResources": {"StackResourceSummaries": members},
            "GetFunctionConfiguration": lambda asked: {"Role": f"arn:aws:iam::{ACCOUNT}:role/{asked['FunctionName']}"},
            "SimulatePrincipalPolicy": simulate,
            **given,
        },
        rest=DENIED,
    )
    lines = visit(settings(toml), RESOURCES, account=Account(answers.session()))
    return {line.name: line for line in lines}, simulated


def test_the_roles_are_asked_for_what_their_code_does_without():
    lines, simulated = examined(SUBNETS + CONFIG)
    assert "ten times as long" in lines["role of dispatch"].finding
    assert "settled by the minute" in lines["role of jobs"].finding
    assert [(each["PolicySourceArn"], each["ActionNames"], each["ResourceArns"]) for each in simulated] == [
        (
            f"arn:aws:iam::{ACCOUNT}:role/tidegate-dispatch",
            ["dynamodb:PartiQLInsert"],
            [f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/ledger"],
        ),
        (RESOURCES.job_role, ["events:PutEvents"], [f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus/default"]),
    ]


def test_a_job_that_takes_no_batch_along_puts_no_events():
    lines, simulated = examined()
    assert "role of jobs" not in lines
    assert len(simulated) == 1


@pytest.mark.parametrize("unknown", ["ListStackResources", "GetFunctionConfiguration"])
def test_a_role_that_cannot_be_told_is_no_good_news(unknown: str):
    lines, simulated = examined(SUBNETS + CONFIG, **{unknown: DENIED})
    assert lines["role of dispatch"].state is CheckState.WARN
    assert "cannot tell" in lines["role of dispatch"].finding
    assert len(simulated) == 1


# --- table buckets ---

S3TABLES = f'[catalog]\nwarehouse = "arn:aws:s3tables:REGION:{ACCOUNT}:bucket/tables"\n'
TO_IAM = {"CreateTableDefaultPermissions": [{"Principal": {"DataLakePrincipalIdentifier": "IAM_ALLOWED_PRINCIPALS"}}]}


@pytest.mark.parametrize(
    ("region", "answer", "state", "said"),
    [
        ("us-east-1", {"Catalog": TO_IAM}, CheckState.OK, "is a catalog in Glue, whose new tables are left to IAM"),
        ("us-east-1", {"Catalog": {}}, CheckState.WARN, "Lake Formation decides"),
        ("us-east-1", No("EntityNotFoundException", 400), CheckState.FAIL, "is no catalog in Glue"),
        ("us-east-1", DENIED, CheckState.WARN, "cannot tell whether it is a catalog in Glue"),
        ("eu-central-1", {"Catalog": TO_IAM}, CheckState.FAIL, "is in eu-central-1, and jobs in us-east-1 reach only"),
    ],
)
def test_a_table_bucket_is_reached_as_a_catalog_of_glue(region: str, answer: Scripted, state: CheckState, said: str):
    lines, _ = examined(S3TABLES.replace("REGION", region) + CONFIG, GetCatalog=answer)
    found = lines["table bucket tables"]
    assert (found.state, said in found.finding) == (state, True), found


def test_the_tables_of_s3_metadata_are_reached_so_too():
    asked: list[dict[str, Any]] = []

    def catalog(parameters: dict[str, Any]) -> dict[str, Any]:
        asked.append(parameters)
        return {"Catalog": TO_IAM}

    toml = CONFIG.replace("[[route]]", '[[route]]\naudit_from = "s3-metadata-journal"', 1)
    lines, _ = examined(toml, GetCatalog=catalog)
    assert lines["table bucket aws-s3"].state is CheckState.OK
    assert [each["CatalogId"] for each in asked] == [f"{ACCOUNT}:s3tablescatalog/aws-s3"]
    assert not [name for name in examined()[0] if name.startswith("table bucket")]


# --- quotas ---


def lambda_account(total: int, unreserved: int) -> Found:
    return Found({"AccountLimit": {"ConcurrentExecutions": total, "UnreservedConcurrentExecutions": unreserved}})


LANES, RESERVE = "lanes = 4", "[limits]\nreserve_concurrency = true"


def test_every_function_counts():
    settings = parse(CONFIG.replace("[[route]]", "[[route]]\nlanes = 16", 1))
    assert sum(row.concurrency(settings) for row in ROSTER) == 2 * 16 + quotas.OTHERS_AT_ONCE


@pytest.mark.parametrize(
    ("said", "answer", "reserved", "state"),
    [
        # the defaults want ten, which is what a new account has
        ("", lambda_account(10, 10), 0, CheckState.OK),
        (LANES, lambda_account(10, 10), 0, CheckState.WARN),
        ("", lambda_account(1000, 8), 0, CheckState.WARN),
        (RESERVE, lambda_account(10, 10), 0, CheckState.FAIL),
        (RESERVE, lambda_account(1000, 110), 0, CheckState.OK),
        (RESERVE, lambda_account(1000, 109), 0, CheckState.FAIL),
        # what is reserved already is the deployment's own
        (RESERVE, lambda_account(1000, 100), 10, CheckState.OK),
        (
            RESERVE,
            lambda_account(1000, 100),
            Denied("lambda:GetFunctionConcurrency"),
            CheckState.WARN,
        ),
        ("", Denied("lambda:GetAccountSettings"), 0, CheckState.WARN),
    ],
)
def test_invocations_at_once(said, answer, reserved, state):
    config = CONFIG.replace("[[route]]", f"[[route]]\n{said}", 1) if said == LANES else f"{said}\n{CONFIG}"
    line = quotas.invocations(parse(config), answer, reserved)
    assert line.state is state
    assert bool(line.advice) is (state is not CheckState.OK)


@pytest.mark.parametrize(
    ("vcpu", "applied", "default", "state"),
    [
        (16, Found({"Quota": {"Value": 16.0}}), Absent(), CheckState.OK),
        (17, Found({"Quota": {"Value": 16.0}}), Absent(), CheckState.FAIL),
        (16, Absent(), Found({"Quota": {"Value": 4000.0}}), CheckState.WARN),
        (32, Absent(), Found({"Quota": {"Value": 16.0}}), CheckState.FAIL),
        (16, Absent(), Absent(), CheckState.WARN),
        # a default says nothing while the applied value is hidden
        (16, Denied("servicequotas:GetServiceQuota"), Found({"Quota": {"Value": 16.0}}), CheckState.WARN),
    ],
)
def test_vcpu_at_once(vcpu, applied, default, state):
    assert quotas.vcpu(LimitSettings(vcpu=vcpu), applied, default).state is state


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Found({"Parameter": {"Value": "6"}}), CheckState.OK),
        (Found({"Parameter": {"Value": "5"}}), CheckState.FAIL),
        (Absent(), CheckState.FAIL),
        (Denied("ssm:GetParameter"), CheckState.WARN),
    ],
)
def test_bootstrap(answer, state):
    line = quotas.bootstrap(answer, ACCOUNT, REGION)
    assert line.state is state
    assert (f"npx cdk bootstrap aws://{ACCOUNT}/{REGION}" in line.advice) is (state is CheckState.FAIL)


# --- lake formation ---

ANYBODY = {"Principal": {"DataLakePrincipalIdentifier": "IAM_ALLOWED_PRINCIPALS"}, "Permissions": ["ALL"]}


@pytest.mark.parametrize(
    ("given", "state", "said"),
    [
        (
            {"CreateDatabaseDefaultPermissions": [ANYBODY], "CreateTableDefaultPermissions": [ANYBODY]},
            CheckState.OK,
            "leaves",
        ),
        (
            {"CreateDatabaseDefaultPermissions": [ANYBODY], "CreateTableDefaultPermissions": []},
            CheckState.WARN,
            "about new tables,",
        ),
        ({"CreateTableDefaultPermissions": None}, CheckState.WARN, "about new databases and tables,"),
    ],
)
def test_lake_formations_defaults(given, state, said):
    line = catalog.defaults(Found({"DataLakeSettings": given}), "")
    assert (line.state, said in line.finding) == (state, True)
    assert catalog.defaults(NO, "").state is CheckState.WARN


def test_a_database_that_the_job_makes_itself_needs_no_line():
    assert catalog.database("shop", Absent(), Absent(), "role") is None


@pytest.mark.parametrize(
    ("permission", "state"), [("ALL", CheckState.OK), ("CREATE_TABLE", CheckState.OK), ("DESCRIBE", CheckState.FAIL)]
)
def test_a_grant_to_the_job_role_counts(permission, state):
    given = {"Principal": {"DataLakePrincipalIdentifier": "role"}, "Permissions": [permission]}
    granted = Found({"PrincipalResourcePermissions": [given]})
    line = catalog.database("shop", Found({}), granted, "role")
    assert line is not None
    assert line.state is state
    other = catalog.database("shop", Found({}), granted, "another")
    assert other is not None
    assert other.state is CheckState.FAIL


# --- parts ---


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("CREATE_COMPLETE", CheckState.OK),
        ("UPDATE_COMPLETE", CheckState.OK),
        ("UPDATE_IN_PROGRESS", CheckState.WARN),
        ("UPDATE_ROLLBACK_COMPLETE", CheckState.WARN),
        ("ROLLBACK_COMPLETE", CheckState.FAIL),
        ("UPDATE_ROLLBACK_FAILED", CheckState.FAIL),
        ("DELETE_FAILED", CheckState.FAIL),
    ],
)
def test_the_stack(status, state):
    answer = Found({"Stacks": [{"StackStatus": status, "StackStatusReason": "because"}]})
    assert parts.stack("tidegate", answer, expected=True).state is state


def test_a_stack_that_is_not_there_is_no_fault_before_the_deployment():
    assert parts.stack("tidegate", Absent(), expected=False).state is CheckState.OK
    assert parts.stack("tidegate", Absent(), expected=True).state is CheckState.FAIL


@pytest.mark.parametrize("outputs", [[], [{"OutputKey": "Ledger", "OutputValue": "ledger"}]])
def test_a_stack_that_is_none_of_ours_is_no_deployment(outputs: list[dict[str, str]]):
    stack = {"StackStatus": "CREATE_COMPLETE", "Outputs": outputs}
    assert examine.outputs_of("tidegate", Found({"Stacks": [stack]})) is None
    assert examine.outputs_of("tidegate", Absent()) is None


def mapping(state: str = "Enabled", result: str | None = "OK") -> dict[str, Any]:
    return {"UUID": "u", "State": state, "LastProcessingResult": result, "FunctionArn": "arn:intake"}


@pytest.mark.parametrize(
    ("mappings", "state", "said"),
    [
        ([mapping()], CheckState.OK, "OK"),
        ([mapping(result="No records processed")], CheckState.OK, "No records processed"),
        ([mapping(result=None)], CheckState.OK, "nothing yet"),
        ([mapping(result="PROBLEM: Function call failed")], CheckState.FAIL, "PROBLEM: Function call failed"),
        ([mapping(result="something new")], CheckState.WARN, "something new"),
        ([mapping("Disabled")], CheckState.FAIL, "Disabled"),
        ([mapping("Enabling")], CheckState.WARN, "Enabling"),
        ([], CheckState.FAIL, "no function reads"),
        ([mapping(), mapping()], CheckState.FAIL, "several functions"),
    ],
)
def test_the_source_of_a_function(mappings, state, said):
    line = parts.source("intake", BUFFER, Found({"EventSourceMappings": mappings}))
    assert (line.state, said in line.finding) == (state, True)


def test_a_rule_that_somebody_deleted_is_missed():
    member = {"LogicalResourceId": "SettleSchedule3C139D7E", "PhysicalResourceId": "rule"}
    (line,) = parts.rules([member], {"rule": Absent()})
    assert (line.name, line.state) == ("rule SettleSchedule", CheckState.FAIL)


@pytest.mark.parametrize("hidden", [0, 1])
def test_dead_letters_count_while_somebody_looks_at_them(hidden):
    attributes = {"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": str(hidden)}
    line = parts.dead_letters("buffer dead letters", Found({"Attributes": attributes}))
    assert line.state is (CheckState.WARN if hidden else CheckState.OK)


def test_a_ledger_that_is_gone_is_one_line():
    lines = parts.ledger(Absent(), Absent(), Absent())
    assert [(line.name, line.state) for line in lines] == [("ledger", CheckState.FAIL)]


def test_expiry_by_another_attribute_is_no_expiry():
    table = Found({"Table": {"TableStatus": "ACTIVE", "TableName": "ledger"}})
    ttl = Found({"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}})
    _, expiry, _ = parts.ledger(table, ttl, NO)
    assert expiry.state is CheckState.WARN


@pytest.mark.parametrize(
    ("subscriptions", "state"),
    [
        ([{"Endpoint": BUFFER, "SubscriptionArn": "arn:aws:sns:x"}], CheckState.OK),
        ([{"Endpoint": BUFFER, "SubscriptionArn": "PendingConfirmation"}], CheckState.FAIL),
        ([{"Endpoint": "arn:another", "SubscriptionArn": "arn:aws:sns:x"}], CheckState.FAIL),
        ([], CheckState.FAIL),
    ],
)
def test_the_subscription(subscriptions, state):
    assert parts.subscription(BUFFER, Found({"Subscriptions": subscriptions})).state is state


@pytest.mark.parametrize(
    ("state_of_it", "state"),
    [
        ("CREATED", CheckState.OK),
        ("STOPPED", CheckState.OK),
        ("CREATING", CheckState.WARN),
        ("TERMINATED", CheckState.FAIL),
    ],
)
def test_the_application(state_of_it, state):
    answer = Found({"application": {"state": state_of_it, "releaseLabel": "emr-spark-8.1.0"}})
    assert parts.application("00app", answer).state is state
    assert parts.application("00app", Absent()).state is CheckState.FAIL
    assert parts.application("00app", NO).state is CheckState.WARN


# --- the self-test ---


@dataclass
class Time:
    """Passes only while somebody sleeps."""

    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def clock(self) -> JobClock:
        return JobClock(lambda: self.now, self.sleep)


@dataclass
class Job:
    """A job run that goes through `states`, one at each look, and stays in the last."""

    states: list[str]
    report: Scripted = field(default_factory=lambda: No("NoSuchKey", 404))
    started: list[dict[str, Any]] = field(default_factory=list)
    read: list[dict[str, Any]] = field(default_factory=list)

    def answers(self) -> Answers:
        return Answers({"StartJobRun": self.start, "GetJobRun": self.look, "GetObject": self.fetch})

    def start(self, asked: dict[str, Any]) -> Any:
        self.started.append(asked)
        return {"jobRunId": "run1"}

    def look(self, asked: dict[str, Any]) -> Any:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {
            "jobRun": {"jobRunId": "run1", "state": state, "stateDetails": "why", "totalExecutionDurationSeconds": 61}
        }

    def fetch(self, asked: dict[str, Any]) -> Any:
        self.read.append(asked)
        return self.report


def process(**changes: Any) -> dict[str, Any]:
    return {
        "host": "h",
        "interpreter": "/usr/bin/python3.13",
        "python": "3.13.1",
        "machine": "aarch64",
        "path": ["/modules"],
        "modules_from": "/modules",
        "region": REGION,
        "variables": {},
        "modules": {"pyarrow": "21.0.0", "tidegate.reading.reader": "0.1.0"},
        **changes,
    }


def report(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "id": "selftest-1",
        "driver": process(),
        "executors": [process(tasks=8)],
        "steps": [{"name": "work bucket", "state": "ok", "said": "written"}],
        **changes,
    }


def test_a_setting_that_makes_batches_slow_is_a_warning():
    said = "the tasks write those of 1 tables; Spark, which takes longer, those of lake.a.b (write.x is set)"
    (line,) = [
        each
        for each in judge_report(report(steps=[{"name": "data files", "state": "slow", "said": said}]), REGION)
        if each.name == "self-test data files"
    ]
    assert (line.state, line.finding) == (CheckState.WARN, said)
    assert line.advice.startswith("take the setting out")


def run_it(job: Job, minutes: int = 15, time: Time | None = None) -> tuple[list[Check], list[str]]:
    session = job.answers().session()
    told: list[str] = []
    test = SelfTest(RESOURCES, Dataset("lake.shop.orders", "id bigint", "json"), Account(session), "selftest-1")
    return [*test.run(minutes, (time or Time()).clock, told.append)], told


def test_the_job_is_started_as_hand_off_starts_one_and_its_report_is_read():
    body = {"Body": io.BytesIO(json.dumps(report()).encode())}
    job = Job(["SCHEDULED", "RUNNING", "RUNNING", "SUCCESS"], body)
    lines, told = run_it(job)
    # the region of the session is another one than the report's
    assert [(line.name, line.state) for line in lines if line.state is not CheckState.OK] == [
        ("self-test driver", CheckState.FAIL),
        ("self-test executor 1", CheckState.FAIL),
    ]
    assert lines[0].finding == ("job run run1 ended after 61s; its report is s3://work/batches/selftest-1/report.json")
    (started,) = job.started
    assert (started["applicationId"], started["executionRoleArn"]) == (RESOURCES.application, RESOURCES.job_role)
    submit = started["jobDriver"]["sparkSubmit"]
    assert (submit["entryPoint"], submit["sparkSubmitParameters"]) == ("s3://assets/entry.py", "--conf a=b")
    assert submit["entryPointArguments"][:2] == ["selftest", "--batch=selftest-1"]
    (read,) = job.read
    assert (read["Bucket"], read["Key"]) == ("work", "batches/selftest-1/report.json")
    assert read["ExpectedBucketOwner"] == ACCOUNT
    assert told[1:] == ["it is SCHEDULED", "it is RUNNING", "it is SUCCESS"]


@pytest.mark.parametrize(
    ("state", "waits_for"), [("QUEUED", "a slot"), ("SCHEDULED", "workers"), ("RUNNING", "the driver")]
)
def test_a_job_that_does_not_end_says_what_it_waits_for(state: str, waits_for: str):
    time = Time()
    lines, _ = run_it(Job([state]), minutes=3, time=time)
    (line,) = lines
    assert line.state is CheckState.FAIL
    assert f"has not ended after 3m: it is {state}, so it waits for {waits_for}" in line.finding
    assert "cancel-job-run --application-id 00app --job-run-id run1" in line.advice
    assert time.now == 180


def test_a_job_that_failed_without_a_report_says_what_emr_says():
    lines, _ = run_it(Job(["FAILED"]))
    (line,) = lines
    assert (line.state, line.finding) == (CheckState.FAIL, "job run run1 is FAILED: why")


def test_a_job_that_ended_well_and_left_nothing_did_not():
    lines, _ = run_it(Job(["SUCCESS"]))
    assert [(line.name, line.state) for line in lines] == [
        ("self-test", CheckState.OK),
        ("self-test report", CheckState.FAIL),
    ]


@pytest.mark.parametrize(
    ("call", "permission"),
    [
        ("StartJobRun", "emr-serverless:StartJobRun, emr-serverless:TagResource, iam:PassRole"),
        ("GetJobRun", "emr-serverless:GetJobRun"),
        ("GetObject", "s3:GetObject"),
    ],
)
def test_a_denied_call_is_no_finding(call: str, permission: str):
    job = Job(["SUCCESS"])
    answers = job.answers()
    answers.given = {**answers.given, call: DENIED}
    test = SelfTest(RESOURCES, Dataset("lake.a.b", "id int", "json"), Account(answers.session()), "selftest-1")
    lines = [*test.run(1, Time().clock, lambda text: None)]
    assert lines[-1].state is CheckState.WARN
    assert lines[-1].advice.endswith(f"permission {permission}")


def test_an_application_that_refuses_is_a_failure():
    answers = Answers({"StartJobRun": No("ConflictException", 409, "the application is terminated")})
    test = SelfTest(RESOURCES, Dataset("lake.a.b", "id int", "json"), Account(answers.session()), "selftest-1")
    (line,) = test.run(1, Time().clock, lambda text: None)
    assert line.state is CheckState.FAIL
    assert "the application is terminated" in line.finding


def test_a_good_report_is_good():
    assert {line.state for line in judge_report(report(), REGION)} == {CheckState.OK}


@pytest.mark.parametrize(
    ("changes", "name", "state", "said"),
    [
        ({"driver": process(region=None)}, "self-test driver", CheckState.WARN, "boto3 finds no region"),
        (
            {"driver": process(region="us-east-1")},
            "self-test driver",
            CheckState.FAIL,
            "region us-east-1, not eu-west-1",
        ),
        (
            {"executors": [process(modules={"pyarrow": "20.0.0", "tidegate.reading.reader": "0.1.0"})]},
            "self-test versions",
            CheckState.FAIL,
            "but pyarrow 20.0.0 on h",
        ),
        (
            {"executors": [process(python="3.11.9")]},
            "self-test versions",
            CheckState.FAIL,
            "but python 3.11.9 on h",
        ),
        (
            {"steps": [{"name": "own table", "state": "skipped", "said": "not allowed: x"}]},
            "self-test own table",
            CheckState.OK,
            "skipped: not allowed: x",
        ),
        (
            {"steps": [{"name": "own table", "state": "failed", "said": "IOException: x"}]},
            "self-test own table",
            CheckState.FAIL,
            "IOException: x",
        ),
        ({"version": 2}, "self-test report", CheckState.FAIL, "is of version 2"),
    ],
)
def test_what_a_report_says_becomes_a_line(changes: dict[str, Any], name: str, state: CheckState, said: str):
    lines = judge_report(report(**changes), REGION)
    (line,) = (each for each in lines if each.name == name)
    assert (line.state, said in line.finding) == (state, True)
    assert [each.name for each in lines if each.state is not CheckState.OK] == (
        [] if state is CheckState.OK else [name]
    )


def test_a_failed_job_with_a_report_shows_both():
    run = {"jobRunId": "run1", "state": "FAILED", "stateDetails": "the driver said nothing"}
    lines = judge_run(run, Found({"bytes": json.dumps(report()).encode()}), "s3://work/x", REGION)
    assert lines[0].state is CheckState.FAIL
    assert "self-test driver" in {line.name for line in lines}


# --- the verb ---


def test_no_other_verb_waits_for_it():
    loaded = (
        "import sys, tidegate.cli.doctor; print([name for name in sys.modules if name.startswith('tidegate.cli.')])"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert "tidegate.cli.checks" in done.stdout
    assert "tidegate.cli.account" not in done.stdout


@pytest.mark.parametrize("arguments", [["--job"], ["--outputs", "outputs.json"]])
def test_what_goes_with_aws_goes_with_nothing_else(arguments: list[str]):
    result = CliRunner().invoke(main.app, ["doctor", *arguments])
    assert result.exit_code == Exit.USAGE
    assert "--aws" in re.sub(r"\x1b\[[0-9;]*m", "", result.output)


def test_a_self_test_needs_a_deployment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    identity: dict[str, Scripted] = {"GetCallerIdentity": {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/x"}}
    session = Answers(identity, rest=DENIED).session()
    monkeypatch.setattr(boto3, "Session", lambda: session)
    monkeypatch.delenv("TIDEGATE_LEDGER", raising=False)
    config = tmp_path / "tidegate.toml"
    config.write_text(CONFIG)
    result = CliRunner().invoke(main.app, ["doctor", "--aws", "--job", "--config", str(config)])
    assert result.exit_code == Exit.USAGE
    assert "there is no deployment to test" in result.stdout


def test_outputs_of_an_older_deployment_are_refused_with_what_they_lack(tmp_path: Path):
    config, outputs = tmp_path / "tidegate.toml", tmp_path / "outputs.json"
    config.write_text(CONFIG)
    outputs.write_text(json.dumps({"tidegate": {"Ledger": "ledger"}}))
    arguments = ["doctor", "--aws", "--config", str(config), "--outputs", str(outputs)]
    result = CliRunner().invoke(main.app, arguments)
    assert result.exit_code == Exit.USAGE
    assert "the deployment has no TIDEGATE_TOPIC" in result.stderr
