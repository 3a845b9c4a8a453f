"""Each function's role allows what the function calls, and no more.

The real handlers run through every path they have, and every request that boto3 is about to send is noted with the
action, the resource and the conditions that IAM would be asked for. What is noted is held against the policies in the
template, here and, by IAM's rules, in test_iam.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

import pytest
import time_machine

from infra.roster import ROSTER, Feed, FeedQueue, Schedule
from lambdas.dispatch.app import handler as dispatch
from lambdas.intake.app import handler as intake
from tests.functional.test_handlers import Context, Deployment, clients, deployment, event  # noqa: F401
from tests.infra.test_permissions import listed, statements, text
from tests.support.build import ETAG, notice, upload
from tests.support.emr import APPLICATION
from tests.support.fakes import play_fencing, play_giving_up, play_publishing, play_screening
from tests.support.faults import answered
from tidegate import wiring
from tidegate.core.batches import BatchLimits
from tidegate.core.errors import Retryable
from tidegate.core.notices import Notice
from tidegate.core.outcomes import Outcome
from tidegate.core.workers import LONGEST
from tidegate.flows.abort import abort
from tidegate.flows.resume import resume
from tidegate.settings import DAY, fixed

ACCOUNT = "123456789012"
LOG = {"logs:CreateLogStream", "logs:PutLogEvents"}
POLL = {
    *("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl"),
    "sqs:ReceiveMessage",
}
PLATFORM = {row.name: LOG | POLL if isinstance(row.started_by, Feed) else LOG for row in ROSTER}
"""What Lambda does under the function's role: it writes the log, and polls the queue for the event source."""
QUEUES = {
    row.name: {FeedQueue.BUFFER: "<BufferQueue>", FeedQueue.NOTICES: "<BusNotices>"}[row.started_by.queue]
    for row in ROSTER
    if isinstance(row.started_by, Feed)
}
SCHEDULED = {
    row.name: import_module(f"lambdas.{row.name}.app").handler for row in ROSTER if isinstance(row.started_by, Schedule)
}

Call = tuple[str, str, Mapping[str, str | Sequence[str]]]
"""An action, the ARN it is for, and what IAM is told besides."""


def queue_arn(url: str) -> str:
    return f"arn:aws:sqs:us-east-1:{ACCOUNT}:{url.rpartition('/')[2]}"


def dynamodb(name: str, asked: dict[str, Any]) -> Iterator[Call]:
    """https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html: LeadingKeys are the
    partition keys of a request."""

    def call(action: str, table: str, keys: list[dict[str, Any]], **context: str) -> Call:
        leading = {"dynamodb:LeadingKeys": [each["pk"]["S"] for each in keys]}
        arn = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/{table}"
        return f"dynamodb:{action}", arn, leading | {f"dynamodb:{key}": value for key, value in context.items()}

    match name:
        case "TransactWriteItems":
            actions = {"ConditionCheck": "ConditionCheckItem", "Put": "PutItem", "Update": "UpdateItem"}
            for item in asked["TransactItems"]:
                for kind, of in item.items():
                    yield call(actions[kind], of["TableName"], [of.get("Key") or of["Item"]], EnclosingOperation=name)
        case "BatchGetItem":
            for table, of in asked["RequestItems"].items():
                yield call(name, table, of["Keys"])
        case "BatchExecuteStatement":
            for each in asked["Statements"]:
                insert, table, fields = each["Statement"].split('"')
                assert (insert, fields[:12]) == ("INSERT INTO ", " VALUE {'pk'")
                yield call("PartiQLInsert", table, [{"pk": each["Parameters"][0]}])
        case "DeleteItem" | "GetItem" | "PutItem" | "Query" | "UpdateItem":
            # a query names its partition key in a condition
            values = asked.get("ExpressionAttributeValues", {})
            key = asked.get("Key") or asked.get("Item") or {"pk": values[":pk"]}
            yield call(name, asked["TableName"], [key])
        case _:
            raise AssertionError(f"say which action {name} is")


def s3(name: str, asked: dict[str, Any]) -> Iterator[Call]:
    bucket = f"arn:aws:s3:::{asked['Bucket']}"
    assert asked["ExpectedBucketOwner"] == ACCOUNT, f"{name} does not say whose the bucket is"
    match name:
        case "GetObject":
            yield "s3:GetObject", f"{bucket}/{asked['Key']}", {}
            # without it S3 answers 403 where there is no object; it asks whether all of the bucket may be listed
            yield "s3:ListBucket", bucket, {}
        case "PutObject":
            yield "s3:PutObject", f"{bucket}/{asked['Key']}", {}
        case "ListObjectsV2":
            yield "s3:ListBucket", bucket, {"s3:prefix": asked["Prefix"]}
        case "ListObjectVersions":
            yield "s3:ListBucketVersions", bucket, {}
        case _:
            raise AssertionError(f"say which action {name} is")


def emr(name: str, asked: dict[str, Any]) -> Iterator[Call]:
    application = f"arn:aws:emr-serverless:us-east-1:{ACCOUNT}:/applications/{asked['applicationId']}"
    match name:
        case "StartJobRun":
            tags: dict[str, str | Sequence[str]] = {
                f"aws:RequestTag/{key}": each for key, each in asked["tags"].items()
            }
            tags |= {"aws:TagKeys": sorted(asked["tags"])}
            yield "emr-serverless:StartJobRun", application, tags
            yield "emr-serverless:TagResource", f"{application}/jobruns/new", tags
            yield "iam:PassRole", asked["executionRoleArn"], {"iam:PassedToService": "emr-serverless.amazonaws.com"}
        case "GetJobRun":
            yield "emr-serverless:GetJobRun", f"{application}/jobruns/{asked['jobRunId']}", {}
        case _:
            raise AssertionError(f"say which action {name} is")


def sns(name: str, asked: dict[str, Any]) -> Iterator[Call]:
    assert name == "PublishBatch", f"say which action {name} is"
    yield "sns:Publish", asked["TopicArn"], {}


def events(name: str, asked: dict[str, Any]) -> Iterator[Call]:
    assert name == "PutEvents", f"say which action {name} is"
    for bus in {each["EventBusName"] for each in asked["Entries"]}:
        yield "events:PutEvents", f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus/{bus}", {}


def sqs(name: str, asked: dict[str, Any]) -> Iterator[Call]:
    assert name == "SendMessage", f"say which action {name} is"
    yield "sqs:SendMessage", queue_arn(asked["QueueUrl"]), {}


SERVICES: dict[str, Callable[[str, dict[str, Any]], Iterator[Call]]] = {
    "dynamodb": dynamodb,
    "emr-serverless": emr,
    "events": events,
    "s3": s3,
    "sns": sns,
    "sqs": sqs,
}


@dataclass
class Stage:
    """The deployment, and what each function asked for on it."""

    deployment: Deployment
    asked: dict[str, dict[str, Call]] = field(default_factory=lambda: {who: {} for who in PLATFORM})
    who: str = ""

    def note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        if self.who:
            for call in SERVICES[model.service_model.service_name](model.name, params):
                self.asked[self.who].setdefault(repr(call), call)

    @contextmanager
    def running(self, who: str) -> Iterator[None]:
        self.who = who
        try:
            yield
        finally:
            self.who = ""

    def intake(self, name: str) -> None:
        with self.running("intake"):
            intake(event(name), Context())

    def dispatch(self, *notices: Notice) -> None:
        self.dispatch_event(
            {
                "Records": [
                    {**event("dispatch_two_groups")["Records"][0], "messageId": f"message-{at}", "body": each.encode()}
                    for at, each in enumerate(notices)
                ]
            }
        )

    def dispatch_event(self, of: dict[str, Any]) -> None:
        with self.running("dispatch"):
            dispatch(of, Context())

    def look(self) -> None:
        """Every function that runs by a schedule runs."""
        for who, handler in SCHEDULED.items():
            with self.running(who):
                handler(event("settle_schedule"), Context())

    def running_batch(self, route: str) -> str:
        (batch_id,) = self.deployment.ledger.route(route).running
        return batch_id


@pytest.fixture
def stage(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:  # noqa: F811
    monkeypatch.setenv("TIDEGATE_ACCOUNT", ACCOUNT)
    wiring.this_deployment.cache_clear()
    made = Stage(deployment)
    for service in SERVICES:
        wiring._client(service).meta.events.register(f"provide-client-params.{service}", made.note)
    yield made
    for service in SERVICES:
        wiring._client(service).meta.events.unregister(f"provide-client-params.{service}", made.note)


def every_path(stage: Stage) -> None:
    """All that can happen to a function, as far as it asks AWS for anything."""
    there = stage.deployment
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    for name in ("intake_s3", "intake_eventbridge", "intake_test_event", "intake_garbage"):
        stage.intake(name)
    for name in ("dispatch_two_groups", "dispatch_two_groups", "dispatch_duplicate", "dispatch_garbage"):
        stage.dispatch_event(event(name))

    # a job that ends without a receipt, one that gives up, a person who resumes, one that publishes with exceptions
    weather = stage.running_batch("weather")
    there.emr.end("run-1", "FAILED")
    there.clock.advance(BatchLimits().retry_wait)
    stage.look()
    play_giving_up(there.work, weather, 2, "the table is gone", hopeless=True)
    there.emr.end("run-2", "FAILED")
    stage.look()
    resume(weather, there.ports)
    stage.look()
    keys = {"weather/a.json": (Outcome.QUARANTINED, "no JSON"), "weather/b.json": (Outcome.VANISHED, "gone")}
    play_publishing(there.work, weather, keys)
    stage.look()

    # the same bytes come again, before it is known that they ended badly and after: settle publishes a notice of its
    # own, and so does dispatch
    first = replace(upload("flights/again.json", f"etag:{ETAG}"), sequencer="0055AED6DCD90281E5")
    meanwhile = replace(upload("flights/meanwhile.json", f"etag:{ETAG}"), sequencer="0055AED6DCD90281E5")
    stage.dispatch(notice(first, meanwhile))
    stage.dispatch(notice(replace(meanwhile, sequencer="0055AED6DCD90281E6")))
    there.clock.advance(300)
    stage.look()
    bad = (Outcome.QUARANTINED, "no JSON")
    ended = {"flights/again.json": bad, "flights/meanwhile.json": bad}
    play_publishing(there.work, stage.running_batch("flights"), ended)
    stage.look()
    stage.dispatch(notice(replace(first, sequencer="0055AED6DCD90281E6")))

    # a hand-off that EMR refuses, by either function, and one whose record cannot be written; of so many uploads that
    # they are claimed together
    for run in there.emr.runs:
        there.emr.end(run)  # and no worker is counted on any more
    there.clock.advance(LONGEST)
    there.emr.refusal = (402, "ServiceQuotaExceededException")
    stage.dispatch(notice(*(f"weather/late-{number}.json" for number in range(6)), route="weather"))
    with suppress(Retryable):  # of maintain, the last
        stage.look()
    there.emr.refusal = None
    with answered(wiring._client("dynamodb"), "PutItem", 400, denied, containing="hand-off"):
        stage.look()
    stage.look()

    # uploads that nobody announced, and one whose notice died after it had claimed it
    held = upload("flights/held.json", f"etag:{ETAG}")
    with time_machine.travel(there.clock.now, tick=False):
        for key in ("flights/lost.json", held.key):
            wiring._client("s3").put_object(Bucket="landing", Key=key, Body=b"{}")
    listed = wiring._client("s3").head_object(Bucket="landing", Key=held.key)
    there.ledger.claim(notice(replace(held, version=f"etag:{listed['ETag'].strip(chr(34))}")))
    there.clock.advance(DAY)
    stage.look()

    # a bucket so large that a job screens it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fixed, "JOB_ABOVE", 1)
        there.clock.advance(DAY)
        stage.look()
        stage.look()
    for route in ("flights", "weather"):
        if (run := there.ledger.audit(wiring.this_deployment().routes[route].place)) and run.job:
            play_screening(there.work, run.id, [upload("flights/lost.json")])
    stage.look()

    # a batch that is given up
    fenced = stage.running_batch("weather")
    abort(fenced, there.ports)
    stage.look()
    play_fencing(there.work, fenced)
    stage.look()


@dataclass(frozen=True)
class Played:
    """What came of `every_path`: what each function asked for, and what jobs were given."""

    asked: dict[str, list[Call]]
    resources: wiring.Resources
    jobs: list[dict[str, Any]]


_PLAYED: list[Played] = []


@pytest.fixture
def played(request: pytest.FixtureRequest) -> Played:
    """Played once, for whoever asks first."""
    if not _PLAYED:
        stage: Stage = request.getfixturevalue("stage")
        every_path(stage)
        asked = {who: [*calls.values()] for who, calls in stage.asked.items()}
        _PLAYED.append(Played(asked, stage.deployment.resources, [*stage.deployment.emr.asked]))
    return _PLAYED[0]


def allowed(template: Any, who: str, resources: wiring.Resources) -> set[tuple[str, str]]:
    """What the role allows, with the ARNs that the resources have on this stage."""
    arns = {
        "BufferDeadLetters": queue_arn(resources.dead_letters),
        "BusDeadLetters": queue_arn(resources.notices_dead_letters),
        "BusTopic": resources.topic,
        "EmrApplication": f"arn:aws:emr-serverless:us-east-1:{ACCOUNT}:/applications/{APPLICATION}",
        "EmrJobRole": resources.job_role,
        "LedgerTable": f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/{resources.ledger}",
        "WorkBucket": f"arn:aws:s3:::{resources.work}",
    }
    found = set()
    for statement in statements(template, who):
        for action in listed(statement["Action"]):
            for resource in map(text, listed(statement["Resource"])):
                if resource == "arn:<AWS::Partition>:s3:::example-landing":
                    found.add((action, "arn:aws:s3:::landing"))
                    continue
                if ":event-bus/" in resource:
                    found.add((action, f"arn:aws:events:us-east-1:{ACCOUNT}:event-bus/{resource.rpartition('/')[2]}"))
                    continue
                name, _, rest = resource.removeprefix("<").partition(">")
                found.add((action, arns.get(name[:-8], f"<{name[:-8]}>") + rest))
    return found


@pytest.mark.parametrize("who", PLATFORM)
def test_a_function_may_do_nothing_that_it_does_not_do(simple, played, who):
    """tests/infra/test_iam.py shows that it may do all that it does."""
    rules = {rule for rule in allowed(simple, who, played.resources) if rule[0] not in PLATFORM[who]}
    asked = {(action, arn) for action, arn, _ in played.asked[who]}
    assert asked
    assert not {
        (action, on) for action, on in rules if not any(action == each and fnmatchcase(arn, on) for each, arn in asked)
    }


@pytest.mark.parametrize("who", PLATFORM)
def test_what_lambda_does_for_a_function_is_allowed_on_its_own_log_and_queue_only(simple, stage, who):
    rules = {rule for rule in allowed(simple, who, stage.deployment.resources) if rule[0] in PLATFORM[who]}
    assert {action for action, _ in rules} == PLATFORM[who]
    assert {on for _, on in rules} == {f"<{who.capitalize()}Log>", QUEUES.get(who, "")} - {""}


def test_what_is_deleted_from_the_ledger_is_a_hand_off_or_a_worker_or_was_announced(played):
    calls = [call for asked in played.asked.values() for call in asked if call[0] == "dynamodb:DeleteItem"]
    assert {key for _, _, context in calls for key in context["dynamodb:LeadingKeys"]} == {
        "h#hand-off",
        "work",
        "outbox",
    }


def test_the_job_is_told_whose_buckets_it_reads(played):
    assert played.jobs
    for asked in played.jobs:
        arguments = asked["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        assert f"--account={ACCOUNT}" in arguments
        # a worker is told with each batch that it takes
        assert f"--landing-owner={ACCOUNT}" in arguments or arguments[0] in ("work", "screen", "maintain")
        assert asked["executionTimeoutMinutes"] == 480


def test_the_job_is_told_of_a_bucket_that_another_account_owns(stage, tmp_path, monkeypatch):
    config = tmp_path / "other.toml"
    config.write_text(
        (tmp_path / "tidegate.toml")
        .read_text()
        .replace('bucket = "landing"', 'bucket = "landing"\nexisting = true\nbucket_owner = "999999999999"')
    )
    monkeypatch.setenv("TIDEGATE_CONFIG", str(config))
    wiring.this_deployment.cache_clear()
    stage.dispatch_event(event("dispatch_two_groups"))
    assert {each.owner for each in stage.deployment.ledger.pool().offers} == {"999999999999"}
