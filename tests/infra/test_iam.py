"""IAM's own rules let everybody do what they do, and nobody what they must not: requests, evaluated with every
condition, against the policies of the template.

What the functions ask for is recorded while the real handlers run (`test_calls.py`); what services send to one another
is read from the template.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from infra.roster import ROSTER, May
from tests.infra.account import ACCOUNT, REGION, Account, Policy, listed
from tests.infra.evaluator import ALLOWED, DENIED, FORBIDDEN, Request, evaluate
from tests.infra.test_calls import (  # noqa: F401 (the fixtures are used by name)
    PLATFORM,
    QUEUES,
    SERVICES,
    Stage,
    clients,
    deployment,
    every_path,
    queue_arn,
    stage,
)
from tests.infra.test_permissions import ROLES, who_may
from tests.support.emr import APPLICATION
from tidegate import wiring

Call = tuple[str, str, Mapping[str, str | Sequence[str]]]
"""An action, the ARN it is for, and what IAM is told besides."""
SECURE = {"aws:SecureTransport": "true"}


# ---- what a call of the SDK asks IAM for


def dynamodb(name: str, asked: dict[str, Any]) -> Iterator[Call]:
    """https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html: LeadingKeys are the
    partition keys of a request."""

    def call(action: str, table: str, keys: list[dict[str, Any]], **context: str) -> Call:
        leading = {"dynamodb:LeadingKeys": [each["pk"]["S"] for each in keys]}
        arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}"
        return f"dynamodb:{action}", arn, leading | {f"dynamodb:{key}": value for key, value in context.items()}

    match name:
        case "TransactWriteItems":
            actions = {"ConditionCheck": "ConditionCheckItem", "Put": "PutItem", "Update": "UpdateItem"}
            for item in asked["TransactItems"]:
                for kind, of in item.items():
                    keys = [of.get("Key") or of["Item"]]
                    yield call(actions[kind], of["TableName"], keys, EnclosingOperation=name)
        case "BatchGetItem":
            for table, of in asked["RequestItems"].items():
                yield call(name, table, of["Keys"])
        case "BatchExecuteStatement":
            for each in asked["Statements"]:
                insert, table, fields = each["Statement"].split('"')
                assert (insert, fields[:12]) == ("INSERT INTO ", " VALUE {'pk'")
                yield call("PartiQLInsert", table, [{"pk": each["Parameters"][0]}])
        case _:
            values = asked.get("ExpressionAttributeValues", {})
            # a query names its partition key in a condition
            key = asked.get("Key") or asked.get("Item") or {"pk": values[":pk"]}
            yield call(name, asked["TableName"], [key])


def calls(service: str, name: str, asked: dict[str, Any]) -> Iterator[Call]:
    if service == "dynamodb":
        yield from dynamodb(name, asked)
        return
    for action, arn in SERVICES[service](name, asked):
        match action:
            case "iam:PassRole":
                yield action, arn, {"iam:PassedToService": "emr-serverless.amazonaws.com"}
            case "emr-serverless:TagResource" | "emr-serverless:StartJobRun":
                tags = {f"aws:RequestTag/{key}": value for key, value in asked["tags"].items()}
                yield action, arn, tags | {"aws:TagKeys": sorted(asked["tags"])}
            case "s3:ListBucket" if name == "ListObjectsV2":
                yield action, arn, {"s3:prefix": asked["Prefix"]}
            case _:
                # of an object that is not there S3 asks whether the bucket may be listed, all of it
                yield action, arn, {}


def platform(account: Account, who: str) -> Iterator[Call]:
    """What Lambda does under the role of a function."""
    for action in sorted(PLATFORM[who]):
        if action.startswith("logs:"):
            group = account.arn(account.find("AWS::Logs::LogGroup", f"{who.capitalize()}Log"))
            yield action, f"{group}:log-stream:2026/11/21/[$LATEST]0123", {}
        else:
            queue = QUEUES[who].strip("<>")
            yield action, account.arn(account.find("AWS::SQS::Queue", queue)), {}


Recorded = dict[str, list[Call]]
_RECORDED: list[tuple[Recorded, dict[str, str]]] = []
"""Playing every path takes a while, and the calls stay the same."""


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> tuple[Recorded, dict[str, str]]:
    """The calls by function, and what the resources that they name are called."""
    if not _RECORDED:
        played: Stage = request.getfixturevalue("stage")
        found: dict[str, dict[str, Call]] = {who: {} for who in PLATFORM}

        def note(params: dict[str, Any], model: Any, **_: Any) -> None:
            if played.who:
                for action, on, context in calls(model.service_model.service_name, model.name, params):
                    # the template's configuration calls the landing bucket otherwise
                    call = (action, on.replace(":::landing", ":::example-landing"), context)
                    found[played.who].setdefault(repr(call), call)

        for service in SERVICES:
            wiring._client(service).meta.events.register(f"provide-client-params.{service}", note)
        try:
            every_path(played)
        finally:
            for service in SERVICES:
                wiring._client(service).meta.events.unregister(f"provide-client-params.{service}", note)
        there = played.deployment.resources
        names = {
            "BufferDeadLetters": there.dead_letters,
            "BusDeadLetters": there.notices_dead_letters,
            "BusTopic": there.topic.rpartition(":")[2],
            "EmrApplication": APPLICATION,
            "EmrJobRole": there.job_role,
            "LedgerTable": there.ledger,
            "WorkBucket": there.work,
        }
        names = {part: name.rpartition("/")[2] for part, name in names.items()}
        _RECORDED.append(({who: [*each.values()] for who, each in found.items()}, names))
    return _RECORDED[0]


# ---- who asks


def as_role(account: Account, who: str, asked: Sequence[Call], *, without: int | None = None) -> list[Request]:
    """Requests of a role of the template. `without` leaves out one of its statements."""
    role = account.find("AWS::IAM::Role", ROLES[who])
    (policy,) = account.identity_policies(role)
    if without is not None:
        statements = [each for at, each in enumerate(policy["Statement"]) if at != without]
        policy = {**policy, "Statement": statements}
    return [
        Request(account.arn(role), action, arn, {**SECURE, **context}, [policy], account.resource_policy_of(arn))
        for action, arn, context in asked
    ]


def as_service(account: Account, service: str, action: str, arn: str, source: str, **context: str) -> Request:
    told = {f"aws:{key}": value for key, value in {"SourceArn": source, **context}.items()}
    return Request(f"{service}.amazonaws.com", action, arn, {**SECURE, **told}, (), account.resource_policy_of(arn))


def not_allowed(requests: Sequence[Request]) -> list[str]:
    answers = zip(requests, evaluate(requests), strict=True)
    return [f"{answer}: {request}" for request, answer in answers if answer != ALLOWED]


def answers(requests: Sequence[Request]) -> set[str]:
    return set(evaluate(requests))


# ---- functions


def test_iam_allows_every_call_that_the_functions_make(simple, recorded):
    asked, names = recorded
    account = Account(simple, names)
    requests = [
        request for who in PLATFORM for request in as_role(account, who, [*asked[who], *platform(account, who)])
    ]
    assert all(asked[who] for who in PLATFORM)
    assert not_allowed(requests) == []


def test_without_any_one_statement_some_call_is_refused(simple, recorded):
    asked, names = recorded
    account = Account(simple, names)
    cases: list[tuple[str, int, list[Request]]] = []
    for who in PLATFORM:
        (policy,) = account.identity_policies(account.find("AWS::IAM::Role", ROLES[who]))
        every = [*asked[who], *platform(account, who)]
        # one call of each kind is enough, and keeps this short
        kinds = {
            (
                action,
                *arn.split("/")[: 2 if action.startswith("s3:") else 1],
                *context,
                *_partitions(action, context),
            ): (
                action,
                arn,
                context,
            )
            for action, arn, context in every
        }
        cases += [
            (who, at, as_role(account, who, [*kinds.values()], without=at)) for at in range(len(policy["Statement"]))
        ]
    found = iter(evaluate([request for _, _, requests in cases for request in requests]))
    needless = [(who, at) for who, at, requests in cases if {next(found) for _ in requests} == {ALLOWED}]
    assert len(cases) > 20
    assert needless == []


def _partitions(action: str, context: Mapping[str, Any]) -> list[str]:
    """The kinds of records that a call deletes: each has a statement of its own."""
    keys = context.get("dynamodb:LeadingKeys", []) if action == "dynamodb:DeleteItem" else []
    return [key.partition("#")[0] for key in keys]


def _condition(template: Any, action: str, condition: dict[str, Any]) -> Any:
    """The template with another condition wherever roles are granted this action."""
    body = deepcopy(template.body)
    changed = 0
    for each in body["Resources"].values():
        if each["Type"] == "AWS::IAM::Policy":
            for statement in each["Properties"]["PolicyDocument"]["Statement"]:
                if action in listed(statement["Action"]):
                    statement["Condition"] = condition
                    changed += 1
    assert changed
    return replace(template, body=body)


@pytest.mark.parametrize(
    ("action", "condition"),
    [
        ("dynamodb:DeleteItem", {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["o#*"]}}),
        ("iam:PassRole", {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}}),
        ("s3:ListBucket", {"StringLike": {"s3:prefix": "batches/*"}}),
    ],
)
def test_under_another_condition_the_same_calls_are_refused(simple, recorded, action, condition):
    asked, names = recorded
    account = Account(_condition(simple, action, condition), names)
    for who in (each for each in who_may(May.START_JOBS) if action in {call[0] for call in asked[each]}):
        refused = not_allowed(as_role(account, who, asked[who]))
        assert refused
        assert all(f" {action} " in each for each in refused)


def test_functions_are_refused_what_they_must_not_do(simple):
    account = Account(simple)

    def arn(kind: str, part: str) -> str:
        return account.arn(account.find(kind, part))

    table, work = arn("AWS::DynamoDB::Table", "Ledger"), arn("AWS::S3::Bucket", "Work")
    job_role = arn("AWS::IAM::Role", "EmrJobRole")
    forbidden: list[Call] = [
        # a claim, and a claim beside a hand-off
        ("dynamodb:DeleteItem", table, {"dynamodb:LeadingKeys": ["o#1"]}),
        ("dynamodb:DeleteItem", table, {"dynamodb:LeadingKeys": ["h#hand-off", "o#1"]}),
        ("dynamodb:DeleteItem", table, {"dynamodb:LeadingKeys": ["outbox", "o#1"]}),
        ("events:PutEvents", f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/other", {}),
        ("iam:PassRole", job_role, {"iam:PassedToService": "lambda.amazonaws.com"}),
        ("iam:PassRole", arn("AWS::IAM::Role", "IntakeRole"), {"iam:PassedToService": "emr-serverless.amazonaws.com"}),
        ("s3:DeleteObject", f"{work}/batches/1/sealed.json", {}),
        ("s3:PutObject", f"{work}/elsewhere", {}),
        ("sqs:SendMessage", arn("AWS::SQS::Queue", "BusNotices"), {}),
        ("sqs:SendMessage", arn("AWS::SQS::Queue", "BufferQueue"), {}),
        ("emr-serverless:StartJobRun", f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/other", {}),
    ]
    for who in PLATFORM:
        assert answers(as_role(account, who, forbidden)) == {DENIED}, who


def test_nobody_is_served_without_tls(simple, recorded):
    asked, names = recorded
    account = Account(simple, names)
    guarded = [
        replace(request, context={**request.context, "aws:SecureTransport": "false"})
        for who in PLATFORM
        for request in as_role(account, who, asked[who])
        if request.resource_policy
    ]
    assert {each.action.partition(":")[0] for each in guarded} == {"s3", "sns", "sqs", "iam"}
    # the trust of the job role says nothing of who may pass it
    assert answers([each for each in guarded if not each.action.startswith("iam:")]) == {FORBIDDEN}


# ---- jobs


def test_the_job_may_read_what_the_routes_take_and_nothing_beside_it(many):
    account = Account(many)
    taken = {
        "example-landing": ["shop/day=1 a/x.csv", "shop/items/1.json", "shop/items/a/b.json"],
        "example-archive": ["anything"],
        "example-theirs": ["stock/1.csv"],
    }
    others = {
        "example-landing": ["shop/day=1/x.csv", "shop/items/1.csv", "other/1.json"],
        # the route's prefix is "prices/*$/": a star of the key itself is no wildcard
        "example-theirs": ["prices/abc/1.json", "prices/abc$/1.json", "stock/1.json"],
        "example-elsewhere": ["shop/items/1.json"],
    }

    def reads(keys: dict[str, list[str]]) -> list[Request]:
        return as_role(
            account,
            "job",
            [
                (action, f"arn:aws:s3:::{bucket}/{key}", {})
                for action in ("s3:GetObject", "s3:GetObjectVersion")
                for bucket, each in keys.items()
                for key in each
            ],
        )

    assert not_allowed(reads(taken)) == []
    assert answers(reads(others)) == {DENIED}
    listing: list[Call] = [
        (action, f"arn:aws:s3:::{bucket}", {})
        for action in ("s3:ListBucket", "s3:ListBucketVersions")
        for bucket in taken
    ]
    assert not_allowed(as_role(account, "job", listing)) == []


def test_the_job_may_write_tables_and_batches_and_delete_in_the_warehouse_only(many):
    account = Account(many)
    warehouse, work = (account.arn(account.find("AWS::S3::Bucket", name)) for name in ("Warehouse", "Work"))
    glue = f"arn:aws:glue:{REGION}:{ACCOUNT}:"
    # Glue asks for each of the three (https://docs.aws.amazon.com/glue/latest/dg/glue-specifying-resource-arns.html)
    table = [f"{glue}catalog", f"{glue}database/shop", f"{glue}table/shop/orders"]
    allowed: list[Call] = [
        *((f"s3:{verb}", f"{warehouse}/shop/orders/data/1.parquet", {}) for verb in ("PutObject", "GetObject")),
        ("s3:DeleteObject", f"{warehouse}/shop/orders/data/1.parquet", {}),
        *((f"s3:{verb}", f"{work}/batches/1/floor.json", {}) for verb in ("PutObject", "GetObject")),
        ("s3:PutObject", f"{work}/lineage/1/complete.json", {}),
        *((f"glue:{verb}Table", arn, {}) for verb in ("Create", "Get", "Update") for arn in table),
    ]
    denied: list[Call] = [
        ("s3:DeleteObject", f"{work}/batches/1/floor.json", {}),
        ("s3:DeleteObject", f"{work}/lineage/1/complete.json", {}),
        ("s3:PutObject", "arn:aws:s3:::example-landing/shop/items/1.json", {}),
        ("s3:DeleteObject", "arn:aws:s3:::example-landing/shop/items/1.json", {}),
        ("glue:UpdateTable", f"{glue}table/shop/other", {}),
        ("glue:UpdateTable", f"{glue}database/other", {}),
    ]
    assert not_allowed(as_role(account, "job", allowed)) == []
    assert answers(as_role(account, "job", denied)) == {DENIED}


# ---- services


@pytest.mark.parametrize("name", ["simple", "eventbridge"])
def test_services_may_become_the_roles_that_are_made_for_them(variant, name):
    account = Account(variant(name))

    def assumes(service: str, part: str, source: str, owner: str = ACCOUNT) -> Request:
        role = account.arn(account.find("AWS::IAM::Role", part))
        return as_service(account, service, "sts:AssumeRole", role, source, SourceAccount=owner)

    application = account.arn(account.find("AWS::EMRServerless::Application"))
    functions = [
        assumes("lambda", f"{each}Role", account.arn(account.find("AWS::Lambda::Function", f"{each}Function")))
        for each in (row.construct for row in ROSTER)
    ]
    assert not_allowed([*functions, assumes("emr-serverless", "EmrJobRole", application)]) == []
    wrong = [
        assumes("emr-serverless", "EmrJobRole", f"{application}x"),
        assumes("emr-serverless", "EmrJobRole", application, "999999999999"),
        assumes("lambda", "EmrJobRole", application),
        assumes("emr-serverless", "IntakeRole", application),
    ]
    assert answers(wrong) == {DENIED}


Sending = tuple[str, str, str, str]
"""A service, an action, the ARN of what is sent to, and the ARN of what sends."""


def sendings(account: Account) -> list[Sending]:
    """Everything that the template has one service send to another."""
    return [
        (service, action, account.resolve(target), account.resolve(source))
        for name, each in account.resources.items()
        for service, action, target, source in _sendings(account, name, each["Type"], each.get("Properties", {}))
    ]


def _sendings(account: Account, name: str, kind: str, of: dict[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    match kind:
        case "AWS::S3::Bucket":
            for each in of.get("NotificationConfiguration", {}).get("QueueConfigurations", []):
                yield "s3", "sqs:SendMessage", each["Queue"], account.arn(name)
        case "Custom::S3BucketNotifications":
            for each in of["NotificationConfiguration"].get("QueueConfigurations", []):
                bucket = account.resolve(of["BucketName"])
                yield "s3", "sqs:SendMessage", each["QueueArn"], f"arn:aws:s3:::{bucket}"
        case "AWS::Events::Rule":
            for target in of["Targets"]:
                arn = account.resolve(target["Arn"])
                action = "sqs:SendMessage" if ":sqs:" in arn else "lambda:InvokeFunction"
                yield "events", action, arn, account.arn(name)
                if "DeadLetterConfig" in target:
                    yield "events", "sqs:SendMessage", target["DeadLetterConfig"]["Arn"], account.arn(name)
        case "AWS::SNS::Subscription" if of["Protocol"] == "sqs":
            yield "sns", "sqs:SendMessage", of["Endpoint"], of["TopicArn"]
            yield "sns", "sqs:SendMessage", of["RedrivePolicy"]["deadLetterTargetArn"], of["TopicArn"]
        case "AWS::CloudWatch::Alarm":
            for topic in of.get("AlarmActions", []):
                yield "cloudwatch", "sns:Publish", topic, account.arn(name)


SENDERS = {
    "many": {"s3", "sns", "events", "cloudwatch"},
    "eventbridge": {"sns", "events", "cloudwatch"},
    "customer": {"s3", "sns", "events", "cloudwatch"},
}


@pytest.mark.parametrize("name", SENDERS)
def test_services_may_send_what_the_template_has_them_send(variant, name):
    account = Account(variant(name))
    found = sendings(account)
    assert {service for service, *_ in found} == SENDERS[name]
    requests = [
        as_service(account, service, action, target, source, **context)
        for service, action, target, source in found
        # S3 tells whose the bucket is; of the others it is not sure that they do
        for context in ({"SourceAccount": ACCOUNT}, *([] if service == "s3" else [{}]))
    ]
    assert not_allowed(requests) == []


@pytest.mark.parametrize("name", SENDERS)
def test_nothing_else_may_send_there(variant, name):
    """Another source of the same service, the same source in another account, and another service."""
    account = Account(variant(name))
    found = sendings(account)
    alarms = f"arn:aws:cloudwatch:{REGION}:999999999999:alarm:any"
    # any alarm of the account may use the topic, so another one of it would be allowed
    elsewhere = [
        as_service(account, service, action, target, alarms if service == "cloudwatch" else f"{source}x")
        for service, action, target, source in found
    ]
    others = [
        as_service(account, service, action, target, source, SourceAccount="999999999999")
        for service, action, target, source in found
        # the policy of a function compares the ARN, which names the account
        if action != "lambda:InvokeFunction"
    ]
    strangers = [
        as_service(account, "ses", action, target, source, SourceAccount=ACCOUNT) for _, action, target, source in found
    ]
    assert answers([*elsewhere, *others, *strangers]) == {DENIED}


def test_a_sender_that_the_policy_does_not_name_is_refused(many):
    """What the checks above would say if the policy of the buffer named another bucket."""
    body = deepcopy(many.body)
    account = Account(replace(many, body=body))
    buffer = {"Ref": account.find("AWS::SQS::Queue", "BufferQueue")}
    (policy,) = (
        each["Properties"]["PolicyDocument"]
        for each in body["Resources"].values()
        if each["Type"] == "AWS::SQS::QueuePolicy" and buffer in each["Properties"]["Queues"]
    )
    (statement,) = (each for each in policy["Statement"] if each["Effect"] == "Allow")
    sources = account.resolve(statement["Condition"]["ArnEquals"]["aws:SourceArn"])
    assert "arn:aws:s3:::example-archive" in sources
    statement["Condition"]["ArnEquals"]["aws:SourceArn"] = [each.replace("archive", "other") for each in sources]
    refused = not_allowed(
        [
            as_service(account, service, action, target, source, SourceAccount=ACCOUNT)
            for service, action, target, source in sendings(account)
        ]
    )
    assert refused
    assert all("arn:aws:s3:::example-archive" in each for each in refused)


# ---- the key


def test_the_key_serves_the_roles_and_services_of_this_account_and_nobody_else(variant):
    account = Account(variant("customer"))
    key = account.arn(account.find("AWS::KMS::Key"))
    use = ("kms:Decrypt", "kms:GenerateDataKey")
    mine = [request for who in ROLES for request in as_role(account, who, [(action, key, {}) for action in use])]
    table = ("kms:DescribeKey", "kms:Encrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo")
    mine += [
        request
        for who in who_may(May.USE_LEDGER)
        for request in as_role(account, who, [(action, key, {}) for action in table])
    ]
    # what is under the key is sent by these, and each of them asks for the key
    senders = {(service, source) for service, _, _, source in sendings(account)}
    mine += [
        as_service(account, service, action, key, source, SourceAccount=ACCOUNT)
        for service, source in sorted(senders)
        for action in use
    ]
    assert not_allowed(mine) == []
    strangers: list[Request] = [
        as_service(account, service, action, key, source, SourceAccount="999999999999")
        for service, source in sorted(senders)
        for action in use
    ]
    function_without_grant = replace(mine[0], identity=[_nothing()])
    assert answers([*strangers, function_without_grant]) == {DENIED}


def _nothing() -> Policy:
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sns:ListTopics", "Resource": "*"}],
    }
