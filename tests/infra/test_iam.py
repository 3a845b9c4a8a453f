"""IAM's own rules let everybody do what they do, and nobody what they must not: requests, evaluated with every
condition, against the policies of the template.

What the functions ask for is recorded while the real handlers run (`test_calls.py`); what services send to one another
is read from the template.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from infra.roster import ROSTER
from tests.infra.account import ACCOUNT, REGION, Account
from tests.infra.evaluator import ALLOWED, DENIED, Request, evaluate
from tests.infra.test_calls import (  # noqa: F401 (the fixtures are used by name)
    PLATFORM,
    QUEUES,
    Call,
    Played,
    clients,
    deployment,
    played,
    stage,
)
from tests.infra.test_permissions import ROLES
from tests.support.emr import APPLICATION

SECURE = {"aws:SecureTransport": "true"}


# ---- what is asked


def platform(account: Account, who: str) -> Iterator[Call]:
    """What Lambda does under the role of a function."""
    for action in sorted(PLATFORM[who]):
        if action.startswith("logs:"):
            group = account.arn(account.find("AWS::Logs::LogGroup", f"{who.capitalize()}Log"))
            yield action, f"{group}:log-stream:2026/11/21/[$LATEST]0123", {}
        else:
            queue = QUEUES[who].strip("<>")
            yield action, account.arn(account.find("AWS::SQS::Queue", queue)), {}


@pytest.fixture
def recorded(played: Played) -> tuple[dict[str, list[Call]], dict[str, str]]:  # noqa: F811
    """The calls by function, and what the resources that they name are called."""
    there = played.resources
    names = {
        "BufferDeadLetters": there.dead_letters,
        "BusDeadLetters": there.notices_dead_letters,
        "BusTopic": there.topic.rpartition(":")[2],
        "EmrApplication": APPLICATION,
        "EmrJobRole": there.job_role,
        "LedgerTable": there.ledger,
        "WorkBucket": there.work,
    }
    # the template's configuration calls the landing bucket otherwise
    asked = {
        who: [(action, arn.replace(":::landing", ":::example-landing"), context) for action, arn, context in calls]
        for who, calls in played.asked.items()
    }
    return asked, {part: name.rpartition("/")[2] for part, name in names.items()}


# ---- who asks


def as_role(account: Account, who: str, asked: Sequence[Call]) -> list[Request]:
    """Requests of a role of the template."""
    role = account.find("AWS::IAM::Role", ROLES[who])
    (policy,) = account.identity_policies(role)
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
