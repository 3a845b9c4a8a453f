"""The checks of `tidegate doctor --aws`: every answer that AWS may give becomes a line. Nothing is called."""

import io
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.parsers import ResponseParserError
from typer.testing import CliRunner

from tests.support.answers import DENIED, Answers, No, Scripted
from tidegate.cli import main
from tidegate.cli.account import access, buckets, examine
from tidegate.cli.account.ask import Absent, Account, Answer, Denied, Examined, Found, Unanswered, permission_for, worth
from tidegate.cli.account.buckets import Held, SomebodyElses, held
from tidegate.cli.account.job import JobClock, SelfTest, judge_report, judge_run
from tidegate.cli.account.visit import visit
from tidegate.cli.checks import Check, CheckState, verdict
from tidegate.cli.exits import Exit
from tidegate.core.routes import Dataset, encode_route
from tidegate.settings import RouteSettings, Settings, parse
from tidegate.wiring import Resources

ROOT = Path(__file__).parents[2]
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


def test_an_answer_that_is_none_raises_nothing():
    def page(asked: dict[str, Any]) -> Any:
        raise ResponseParserError("Unable to parse response, invalid XML received:\n<html>")

    def unreachable(asked: dict[str, Any]) -> Any:
        raise EndpointConnectionError(endpoint_url="https://emr-serverless.mars-1.amazonaws.com")

    account = Account(Answers({"ListApplications": unreachable, "GetCallerIdentity": page}).session())
    answer = account.ask("emr-serverless", "list_applications")
    assert isinstance(answer, Unanswered)
    line = examine.emr_in("mars-1", answer)
    assert line.state is CheckState.FAIL
    assert "emr-serverless.mars-1" in line.finding
    told = "Unable to parse response, invalid XML received: <html>"
    assert account.ask("sts", "get_caller_identity") == Unanswered(told)


# --- whom we are ---


@pytest.mark.parametrize(
    ("region", "who", "exit"),
    [
        (None, Found({"Account": ACCOUNT}), Exit.USAGE),
        (REGION, Unanswered("Unable to locate credentials"), Exit.NO_STACK),
        (REGION, Denied("sts:GetCallerIdentity"), Exit.NO_STACK),
    ],
)
def test_without_region_or_credentials_the_examination_ends(region, who, exit):
    line = examine.credentials(region, who)
    assert (line.name, line.state, line.exit) == ("credentials", CheckState.FAIL, exit)


def test_bad_credentials_end_the_examination():
    answers = Answers({"GetCallerIdentity": No("ExpiredToken", 403, "The security token is expired")})
    lines = visit(settings(), RESOURCES, account=Account(answers.session()), job_minutes=1)
    assert [line.name for line in lines] == ["credentials", "self-test"]
    assert "ExpiredToken: The security token is expired" in lines[0].finding
    assert answers.asked == ["GetCallerIdentity"]
    assert verdict(lines) is Exit.NO_STACK


@pytest.mark.parametrize(
    ("account", "region", "configured", "state"),
    [
        (ACCOUNT, REGION, "tidegate", CheckState.OK),
        ("999999999999", REGION, "tidegate", CheckState.FAIL),
        (ACCOUNT, "us-east-1", "tidegate", CheckState.FAIL),
        (ACCOUNT, REGION, "staging", CheckState.FAIL),
    ],
)
def test_the_outputs_must_be_of_this_place_and_configuration(account, region, configured, state):
    line = examine.belongs(RESOURCES, configured, account, region)
    assert line.state is state
    assert line.exit is (Exit.OK if state is CheckState.OK else Exit.USAGE)


# --- buckets ---

OWN = Found({"Buckets": [{"Name": "landing", "BucketRegion": REGION}, {"Name": "landing-2"}]})


@pytest.mark.parametrize(
    ("answer", "own", "result"),
    [
        (Absent(), Absent(), Absent()),
        (Found({"BucketRegion": REGION}), Absent(), Held(REGION)),
        (Found({"ResponseMetadata": {"HTTPHeaders": {"x-amz-bucket-region": REGION}}}), Absent(), Held(REGION)),
        (NO, Found({"Buckets": [{"Name": "landing-2"}]}), SomebodyElses()),
        (NO, OWN, Held(REGION)),
        (NO, Denied("s3:ListAllMyBuckets"), Denied("s3:ListAllMyBuckets")),
        (NO, Absent(), NO),
        (SILENT, Absent(), SILENT),
    ],
)
def test_whose_a_bucket_is(answer, own, result):
    assert held(answer, own, "landing") == result


OF_THE_STACK = Found({"StackResourceSummaries": [{"PhysicalResourceId": "landing"}]})


@pytest.mark.parametrize(
    ("existing", "holder", "members", "state", "said"),
    [
        (False, Absent(), Absent(), CheckState.OK, "the name is free"),
        (False, Absent(), OF_THE_STACK, CheckState.FAIL, "is gone"),
        (False, Held(REGION), OF_THE_STACK, CheckState.OK, "made by stack tidegate"),
        (False, Held(REGION), Absent(), CheckState.FAIL, "stack tidegate has not made it"),
        (False, Held(REGION), Found({}), CheckState.FAIL, "stack tidegate has not made it"),
        (False, Held("us-east-1"), Absent(), CheckState.FAIL, "is in us-east-1, and this is eu-west-1"),
        (False, Held(REGION), NO, CheckState.WARN, "cannot tell whether stack tidegate made it"),
        (False, SomebodyElses(), Absent(), CheckState.FAIL, "belongs to another account"),
        (False, NO, Absent(), CheckState.WARN, "cannot tell whether it belongs"),
        (False, SILENT, Absent(), CheckState.WARN, "timed out"),
        (True, Held(REGION), Absent(), CheckState.OK, f"belongs to {ACCOUNT}"),
        (True, Held(), Absent(), CheckState.OK, f"belongs to {ACCOUNT}"),
        (True, Held("us-east-1"), Absent(), CheckState.FAIL, "is in us-east-1, and this is eu-west-1"),
        (True, Absent(), Absent(), CheckState.FAIL, "does not exist"),
        (True, SomebodyElses(), Absent(), CheckState.FAIL, f"does not belong to account {ACCOUNT}"),
        (True, NO, Absent(), CheckState.WARN, "cannot tell"),
    ],
)
def test_a_bucket_that_the_stack_makes_or_finds(existing, holder, members, state, said):
    here = Examined(settings(), Account(boto3.Session()), ACCOUNT, REGION, "tidegate", None)
    line = buckets.whose(route(existing=existing), holder, members, here)
    assert (line.state, said in line.finding) == (state, True)
    assert bool(line.advice) is (state is not CheckState.OK)


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


def announced(
    prefix: str = "", suffix: str = "", event: str = "s3:ObjectCreated:*", target: str = "arn:theirs", **more: Any
) -> Answer:
    rules = [{"Name": "Prefix", "Value": prefix}, {"Name": "Suffix", "Value": suffix}]
    each = {"LambdaFunctionArn": target, "Events": [event], "Filter": {"Key": {"FilterRules": rules}}}
    return Found({"LambdaFunctionConfigurations": [each], **more})


@pytest.mark.parametrize(
    ("there", "state"),
    [
        (Found({}), CheckState.OK),
        (announced("other/"), CheckState.OK),
        (announced("in+of/", ".csv"), CheckState.OK),
        (announced("in+of/", ".json", "s3:ObjectRemoved:*"), CheckState.OK),
        (announced(), CheckState.FAIL),
        (announced("in"), CheckState.FAIL),
        (announced("in%20of/2026/", ".gz.json"), CheckState.FAIL),
        (announced("", "n", "s3:ObjectCreated:Put"), CheckState.FAIL),
        (NO, CheckState.WARN),
    ],
)
def test_notifications_that_s3_would_not_take_beside_theirs(there, state):
    assert buckets.notified("landing", [route(existing=True)], there, "").state is state


@pytest.mark.parametrize(
    ("there", "state"),
    [
        (announced("in+of/", ".json", target=BUFFER), CheckState.OK),
        (announced("in+of/", ".json"), CheckState.FAIL),
        (announced("in+of/", ".csv", target=BUFFER), CheckState.FAIL),
        (announced("in+of/", ".json", "s3:ObjectRemoved:*", target=BUFFER), CheckState.FAIL),
        (Found({}), CheckState.FAIL),
        (NO, CheckState.WARN),
    ],
)
def test_the_notification_that_the_deployment_made_is_in_place(there, state):
    assert buckets.notified("landing", [route()], there, BUFFER).state is state


def test_a_route_that_removes_needs_to_hear_of_deletions():
    removing = route(on_overwrite="replace", on_delete="remove")
    both = {"Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:DeleteMarkerCreated"], "QueueArn": BUFFER}
    rules = [{"Name": "Prefix", "Value": "in+of/"}, {"Name": "Suffix", "Value": ".json"}]
    told = Found({"QueueConfigurations": [{**both, "Filter": {"Key": {"FilterRules": rules}}}]})
    assert buckets.notified("landing", [removing], told, BUFFER).state is CheckState.OK
    created = announced("in+of/", ".json", target=BUFFER)
    assert buckets.notified("landing", [removing], created, BUFFER).state is CheckState.FAIL
    theirs = announced("in+of/", ".json", "s3:ObjectRemoved:*")
    assert buckets.notified("landing", [removing], theirs, "").state is CheckState.FAIL


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ({"Status": "Enabled", "Filter": {}, "Expiration": {"Days": 30}}, CheckState.WARN),
        ({"Status": "Enabled", "Filter": {"Prefix": "in of/2026/"}, "Expiration": {"Days": 30}}, CheckState.WARN),
        ({"Status": "Enabled", "Filter": {"And": {"Prefix": "in"}}, "Expiration": {"Date": 1}}, CheckState.WARN),
        ({"Status": "Enabled", "Prefix": "", "Expiration": {"Days": 1}}, CheckState.WARN),
        ({"Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 30}}, CheckState.OK),
        ({"Status": "Disabled", "Filter": {}, "Expiration": {"Days": 30}}, CheckState.OK),
        ({"Status": "Enabled", "Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 3}}, CheckState.OK),
        ({"Status": "Enabled", "Filter": {}, "Expiration": {"ExpiredObjectDeleteMarker": True}}, CheckState.OK),
    ],
)
def test_a_rule_that_deletes_files_is_told_of(rule, state):
    removing = route(on_overwrite="replace", on_delete="remove")
    assert buckets.expiring("landing", [removing], Found({"Rules": [rule]})).state is state
    assert buckets.expiring("landing", [removing], Absent()).state is CheckState.OK
    assert buckets.expiring("landing", [removing], NO).state is CheckState.WARN


@pytest.mark.parametrize(
    ("there", "buffer", "state"),
    [
        (announced(), "", CheckState.OK),
        (Found({"EventBridgeConfiguration": {}}), BUFFER, CheckState.OK),
        (announced(target=BUFFER), BUFFER, CheckState.FAIL),
    ],
)
def test_with_eventbridge_there_is_always_room(there, buffer, state):
    assert buckets.notified("landing", [route(source="eventbridge")], there, buffer).state is state


# --- what others allow ---

SUBNETS = '[network]\nsubnets = ["subnet-01234567"]\nsecurity_groups = ["sg-01234567"]\n'


def examined(toml: str = CONFIG, **given: Scripted) -> dict[str, Check]:
    """The lines about a deployment, by name."""
    answers = Answers(
        {"GetCallerIdentity": {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/x"}, **given}, rest=DENIED
    )
    # the answers are of a session in another region than the deployment is in
    here = replace(RESOURCES, topic=RESOURCES.topic.replace(REGION, "us-east-1"))
    return {line.name: line for line in visit(settings(toml), here, account=Account(answers.session()))}


def network(*subnets: tuple[str, str], gateway: str = "nat-1", own: str = "") -> dict[str, Scripted]:
    """Subnets by network and zone. The main route table leads to the gateway, or that of the subnet `own`."""
    link = {"SubnetId": own} if own else {"Main": True}
    told = [
        {"SubnetId": f"subnet-0123456{number}", "VpcId": vpc, "AvailabilityZone": zone}
        for number, (vpc, zone) in enumerate(subnets, 7)
    ]
    table = {"Associations": [link], "Routes": [{"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": gateway}]}
    return {"DescribeSubnets": {"Subnets": told}, "DescribeRouteTables": {"RouteTables": [table]}}


TWO = ("vpc-1", "a"), ("vpc-1", "b")


@pytest.mark.parametrize(
    ("given", "state", "said"),
    [
        (network(*TWO), CheckState.OK, "private, in a, b"),
        (network(*TWO, gateway="igw-1"), CheckState.FAIL, "subnet-01234567 is public"),
        (network(*TWO, gateway="igw-1", own="subnet-01234567"), CheckState.FAIL, "subnet-01234567 is public"),
        (network(*TWO, gateway="igw-1", own="subnet-09999999"), CheckState.OK, "private"),
        (network(("vpc-1", "a"), ("vpc-2", "b")), CheckState.FAIL, "several networks: vpc-1, vpc-2"),
        (network(("vpc-1", "a")), CheckState.WARN, "all are in a"),
        ({"DescribeSubnets": No("InvalidSubnetID.NotFound")}, CheckState.FAIL, "not all of subnet-01234567 exist"),
        ({"DescribeSubnets": No("UnauthorizedOperation", 403)}, CheckState.WARN, "cannot tell whether they exist"),
        ({**network(*TWO), "DescribeRouteTables": DENIED}, CheckState.WARN, "cannot tell whether they are private"),
    ],
)
def test_workers_need_private_subnets_of_one_network(given: dict[str, Scripted], state: CheckState, said: str):
    line = examined(SUBNETS + CONFIG, **given)["subnets"]
    assert (line.state, said in line.finding) == (state, True), line
    assert "subnets" not in examined()


KEY = f'[security]\nencryption = "arn:aws:kms:{REGION}:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"\n'


def policy(*services: str) -> dict[str, Any]:
    statements = [
        {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}},
        {"Effect": "Deny", "Principal": {"Service": "s3.amazonaws.com"}},
        *({"Effect": "Allow", "Principal": {"Service": each}} for each in services),
    ]
    return {"Policy": json.dumps({"Statement": statements})}


SERVICES = re.findall(r'"Service": "([^"]+)"', (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (policy(*(each.replace("REGION", "us-east-1") for each in SERVICES)), CheckState.OK, "names every service"),
        (policy(*SERVICES[1:]), CheckState.FAIL, "does not let logs.us-east-1.amazonaws.com, s3.amazonaws.com use it"),
        (No("NotFoundException"), CheckState.FAIL, "does not exist"),
        (DENIED, CheckState.WARN, "cannot tell"),
    ],
)
def test_the_policy_of_a_key_names_the_services_of_the_page(answer: Scripted, state: CheckState, said: str):
    line = examined(KEY + CONFIG, GetKeyPolicy=answer)["key"]
    assert (line.state, said in line.finding) == (state, True), line
    assert "key" not in examined()


OTHER_ROUTE = """
[[route]]
name = "returns"
bucket = "landing"
prefix = "returns/"
suffix = ".json"
format = "json"
table = "lake.shop.returns"
schema = "id bigint"
"""


def remembered(toml: str) -> dict[str, Any]:
    """What settling has written of the routes of this configuration."""
    routes = settings(toml).core_routes()
    return {"Items": [{"sk": {"S": each.name}, "settings": {"S": encode_route(each)}} for each in routes]}


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (remembered(CONFIG), CheckState.OK, "the stack runs by the routes"),
        (remembered(CONFIG.replace("id bigint", "id int")), CheckState.WARN, "says of orders"),
        ({"Items": []}, CheckState.WARN, "says of orders"),
        (remembered(CONFIG + OTHER_ROUTE), CheckState.WARN, "that this tidegate.toml lacks: returns"),
        (remembered(CONFIG + OTHER_ROUTE + "retired = true\n"), CheckState.OK, "the stack runs by the routes"),
        (No("ResourceNotFoundException"), CheckState.FAIL, "there is no ledger"),
        (DENIED, CheckState.WARN, "cannot tell"),
    ],
)
def test_what_was_deployed_is_compared_with_the_file(answer: Scripted, state: CheckState, said: str):
    line = examined(Query=answer)["configuration"]
    assert (line.state, said in line.finding) == (state, True), line


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
    found = examined(S3TABLES.replace("REGION", region) + CONFIG, GetCatalog=answer)["table bucket tables"]
    assert (found.state, said in found.finding) == (state, True), found


# --- quotas ---


@pytest.mark.parametrize(
    ("wanted", "applied", "state"),
    [
        (16, Found({"Quota": {"Value": 16.0}}), CheckState.OK),
        (17, Found({"Quota": {"Value": 16.0}}), CheckState.FAIL),
        (16, Absent(), CheckState.WARN),
        (16, Denied("servicequotas:GetServiceQuota"), CheckState.WARN),
    ],
)
def test_vcpu_at_once(wanted, applied, state):
    assert examine.vcpu(wanted, applied).state is state


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
    line = examine.bootstrapped(answer, ACCOUNT, REGION)
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
    line = access.defaults(Found({"DataLakeSettings": given}), "")
    assert (line.state, said in line.finding) == (state, True)
    assert access.defaults(NO, "").state is CheckState.WARN


# --- the stack ---


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
    assert examine.stack_line("tidegate", answer, expected=True).state is state


def test_a_stack_that_is_not_there_is_no_fault_before_the_deployment():
    assert examine.stack_line("tidegate", Absent(), expected=False).state is CheckState.OK
    assert examine.stack_line("tidegate", Absent(), expected=True).state is CheckState.FAIL


@pytest.mark.parametrize("outputs", [[], [{"OutputKey": "Ledger", "OutputValue": "ledger"}]])
def test_a_stack_that_is_none_of_ours_is_no_deployment(outputs: list[dict[str, str]]):
    stack = {"StackStatus": "CREATE_COMPLETE", "Outputs": outputs}
    assert examine.outputs_of("tidegate", Found({"Stacks": [stack]})) is None
    assert examine.outputs_of("tidegate", Absent()) is None


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


@pytest.mark.parametrize(
    ("state", "lines", "said"),
    [
        ("FAILED", [("self-test", CheckState.FAIL)], "job run run1 is FAILED: why"),
        # it ended well, and left nothing
        (
            "SUCCESS",
            [("self-test", CheckState.OK), ("self-test report", CheckState.FAIL)],
            "job run run1 ended after 61s; its report is s3://work/batches/selftest-1/report.json",
        ),
    ],
)
def test_a_job_without_a_report_is_told_by_what_emr_says(state: str, lines: list[tuple[str, CheckState]], said: str):
    found, _ = run_it(Job([state]))
    assert [(line.name, line.state) for line in found] == lines
    assert found[0].finding == said


@pytest.mark.parametrize(
    ("refused", "finding", "advice"),
    [
        (
            No("ResourceNotFoundException", 404, "gone"),
            "could not be started: EMR Serverless has no such application",
            "deploy the stack again",
        ),
        (
            No("ValidationException", 400, "the role has no trust"),
            "could not be started: ValidationException: the role has no trust",
            "mend what it names, and run this again",
        ),
    ],
)
def test_a_job_that_cannot_be_started_is_advised_on_by_its_cause(refused: No, finding: str, advice: str):
    answers = Job([]).answers()
    answers.given = {**answers.given, "StartJobRun": refused}
    test = SelfTest(RESOURCES, Dataset("lake.a.b", "id int", "json"), Account(answers.session()), "selftest-1")
    (line,) = test.run(1, Time().clock, lambda text: None)
    assert (line.state, line.finding, line.advice) == (CheckState.FAIL, finding, advice)


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
        (
            {"steps": [{"name": "data files", "state": "slow", "said": "write.x is set"}]},
            "self-test data files",
            CheckState.WARN,
            "write.x is set",
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


def test_a_setting_that_makes_batches_slow_is_advised_on():
    lines = judge_report(report(steps=[{"name": "data files", "state": "slow", "said": "write.x is set"}]), REGION)
    (line,) = (each for each in lines if each.name == "self-test data files")
    assert line.finding == "write.x is set"
    assert line.advice.startswith("take the setting out")


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
