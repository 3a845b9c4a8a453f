"""The Lambda handlers, as Lambda calls them: real events, moto behind boto3, metrics on standard output."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import time_machine
from aws_lambda_powertools.shared import user_agent
from moto import mock_aws

from lambdas.dispatch.app import handler as dispatch
from lambdas.intake.app import handler as intake
from lambdas.settle.app import handler as settle
from tests.support.build import BUCKET
from tests.support.emf import emitted
from tests.support.emr import APPLICATION, EmrService
from tests.support.fakes import Died, play_giving_up, play_publishing
from tests.support.faults import answered
from tests.support.ledgers import START, SettableClock, create_table, mended_inserts, serve_one_at_a_time
from tidegate import wiring
from tidegate.aws.jobs import REMEMBER_SECONDS
from tidegate.core.batches import Batch, JobState, State
from tidegate.core.errors import OutcomeUnknown, Retryable, TidegateError
from tidegate.core.notices import decode
from tidegate.core.routes import Dataset
from tidegate.core.workers import LONGEST, STAY
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import Jobs, Ports, Work
from tidegate.metrics import Metric

EVENTS = Path(__file__).parents[1] / "events"

CONFIG = """
[network]
subnets = ["subnet-01234567"]
security_groups = ["sg-01234567"]

[deployment]
name = "tidegate"

[[route]]
name = "flights"
bucket = "landing"
prefix = "flights/"
suffix = ".json"
format = "json"
table = "lake.raw.flights"
schema = "id bigint"

[route.batch]
max_wait = "5m"

[[route]]
name = "weather"
bucket = "landing"
prefix = "weather/"
suffix = ".json"
format = "json"
table = "lake.raw.weather"
schema = "id bigint"

[route.batch]
max_wait = "5m"
target_bytes = 20
"""


@dataclass
class Context:
    """What Lambda tells a function of the invocation."""

    function_name: str = "tidegate"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:tidegate"
    aws_request_id: str = "52fdfc07-2182-454f-963f-5f0f9a621d72"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@dataclass
class Deployment:
    emr: EmrService
    clock: SettableClock
    resources: wiring.Resources

    @property
    def ports(self) -> Ports:
        """As another invocation has them."""
        return wiring.this_deployment().ports("by-hand", lambda_context=Context())

    @property
    def ledger(self) -> Ledger:
        return self.ports.ledger

    @property
    def work(self) -> Work:
        return self.ports.work

    def jobs(self) -> Jobs:
        return self.ports.jobs

    def bodies(self, url: str) -> list[str]:
        found: list[str] = []
        while batch := wiring._client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in batch:
                wiring._client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                found.append(message["Body"])
        return found


EMR = EmrService()


@pytest.fixture(scope="module", autouse=True)
def clients() -> Iterator[None]:
    """The clients as the product makes them. They take longer to make than these tests to run, so they are kept."""
    with pytest.MonkeyPatch.context() as patch:
        for service in ("", "_DYNAMODB", "_S3", "_SNS", "_SQS", "_EMR_SERVERLESS"):
            patch.delenv(f"AWS_ENDPOINT_URL{service}", raising=False)
        wiring._client.cache_clear()
        wiring._hand_off_records.cache_clear()
        serve_one_at_a_time(wiring._client("dynamodb"))
        EMR.attach(wiring._client("emr-serverless"))
        yield
        wiring._client.cache_clear()
        wiring._hand_off_records.cache_clear()


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    config = tmp_path / "tidegate.toml"
    config.write_text(CONFIG)
    EMR.forget()
    with mock_aws(), mended_inserts():
        # moto's S3 works with the bucket's name in the host as well as in the path
        sqs, sns = wiring._client("sqs"), wiring._client("sns")
        fifo = {"FifoQueue": "true"}
        notices = sqs.create_queue(QueueName="notices.fifo", Attributes=fifo)["QueueUrl"]
        topic = sns.create_topic(Name="notices.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
        sns.subscribe(
            TopicArn=topic,
            Protocol="sqs",
            Endpoint="arn:aws:sqs:us-east-1:123456789012:notices.fifo",
            Attributes={"RawMessageDelivery": "true"},
        )
        resources = wiring.Resources(
            deployment="tidegate",
            ledger="ledger",
            topic=topic,
            buffer=sqs.create_queue(QueueName="buffer")["QueueUrl"],
            dead_letters=sqs.create_queue(QueueName="dead")["QueueUrl"],
            notices=notices,
            notices_dead_letters=sqs.create_queue(QueueName="dead.fifo", Attributes=fifo)["QueueUrl"],
            work="work",
            application=APPLICATION,
            job_role="arn:aws:iam::123456789012:role/job",
            entry_point="s3://assets/entry.py",
            spark_parameters="--conf spark.archives=s3://assets/environment.zip#environment",
        )
        for name in wiring.Resources.__slots__:
            monkeypatch.setenv(f"TIDEGATE_{name.upper()}", getattr(resources, name))
        monkeypatch.setenv("TIDEGATE_CONFIG", str(config))
        clock = SettableClock()
        monkeypatch.setattr(wiring, "clock", clock)
        create_table(wiring._client("dynamodb"), "ledger")
        for bucket in ("work", "landing"):
            wiring._client("s3").create_bucket(Bucket=bucket)
        wiring.this_deployment.cache_clear()
        wiring._ledger.cache_clear()  # it would keep the clock and the client of whoever asked first
        yield Deployment(EMR, clock, resources)
        wiring.this_deployment.cache_clear()


def event(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return found


def failures(answer: dict[str, Any]) -> list[str]:
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


GAUGES = {metric.value.name: metric.value.unit.value for metric in Metric if metric.value.gauge}


@pytest.fixture
def metrics(capsys: pytest.CaptureFixture[str]) -> Any:
    """Reads what was counted since it was last asked: {(name, route): sum}."""

    def read() -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for each in emitted(capsys.readouterr().out):
            assert each.namespace == "Tidegate"
            assert each.dimensions == {("deployment", "tidegate"), *([("route", each.route)] if each.route else [])}
            if each.name not in GAUGES:
                assert each.unit == "Count"
                found[each.name, each.route] = found.get((each.name, each.route), 0) + each.value
        return found

    return read


@pytest.fixture
def gauges(capsys: pytest.CaptureFixture[str]) -> Any:
    """Reads how routes stood when it was last said: {(name, route): value}."""

    def read() -> dict[tuple[str, str], float]:
        found = [each for each in emitted(capsys.readouterr().out) if each.name in GAUGES and each.route]
        assert all(each.unit == GAUGES[each.name] for each in found)
        return {(each.name, each.route): each.value for each in found}

    return read


def test_a_warm_function_leaves_nothing_behind_in_the_client(deployment: Deployment, monkeypatch: pytest.MonkeyPatch):
    registered: list[str] = []
    monkeypatch.setattr(user_agent, "register_feature_to_client", lambda client, feature: registered.append(feature))
    wiring._hand_off_records.cache_clear()
    for _ in range(3):
        settle(event("settle_schedule"), Context())
        dispatch(event("dispatch_two_groups"), Context())
    assert registered == ["idempotency"]


# ---- intake


def test_ports_make_no_client_before_one_is_used(deployment: Deployment, monkeypatch: pytest.MonkeyPatch):
    """A function's first invocation waits for every client that is made: intake needs no DynamoDB."""
    made: list[str] = []
    monkeypatch.setattr(wiring, "_client", made.append)
    for name in ("_ledger", "_hand_off_records"):
        monkeypatch.setattr(wiring, name, getattr(wiring, name).__wrapped__)
    wiring.this_deployment().ports("by-hand", lambda_context=Context())
    assert made == []


def test_notifications_of_s3_become_notices(deployment: Deployment, metrics: Any):
    assert intake(event("intake_s3"), Context()) == {"batchItemFailures": []}
    found = {each.route: each for each in map(decode, deployment.bodies(deployment.resources.notices))}
    assert [entry.upload.key for entry in found["flights"].entries] == ["flights/2013/01 a+b.json"]
    assert [entry.upload.key for entry in found["weather"].entries] == ["weather/é.json"]
    assert found["flights"].entries[0].upload.version == "096fKKXTRTtl3on89fVO.nfljtsv6qko"
    assert found["weather"].entries[0].upload.version.startswith("etag:")
    assert metrics() == {("UploadsNotified", "flights"): 1, ("UploadsNotified", "weather"): 1}


def test_events_of_eventbridge_become_notices(deployment: Deployment):
    assert intake(event("intake_eventbridge"), Context()) == {"batchItemFailures": []}
    (body,) = deployment.bodies(deployment.resources.notices)
    assert [entry.upload.key for entry in decode(body).entries] == ["flights/2013/02 a+b.json"]


def test_s3s_test_event_is_acknowledged(deployment: Deployment, metrics: Any):
    assert intake(event("intake_test_event"), Context()) == {"batchItemFailures": []}
    assert deployment.bodies(deployment.resources.notices) == []
    assert deployment.bodies(deployment.resources.dead_letters) == []
    assert metrics() == {("RecordsNotUploads", ""): 1}


def test_garbage_goes_to_the_dead_letters_and_takes_nothing_with_it(deployment: Deployment, metrics: Any):
    assert intake(event("intake_garbage"), Context()) == {"batchItemFailures": []}
    (body,) = deployment.bodies(deployment.resources.notices)
    assert [entry.upload.key for entry in decode(body).entries] == ["flights/good.json"]
    first, second = sorted(deployment.bodies(deployment.resources.dead_letters), key=len)
    assert first == "this is no JSON"
    assert "flights/%FF.json" in second
    assert metrics() == {
        ("UploadsNotified", "flights"): 1,
        ("RecordsSetAside", ""): 2,
        ("UploadsOfNoRoute", ""): 1,
        ("RecordsNotUploads", ""): 1,
    }


def test_when_the_topic_is_gone_the_messages_are_given_back(deployment: Deployment):
    wiring._client("sns").delete_topic(TopicArn=deployment.resources.topic)
    assert failures(intake(event("intake_s3"), Context())) == ["message-0"]
    assert failures(intake(event("intake_test_event"), Context())) == []


# ---- dispatch


def test_notices_of_two_groups_join_their_routes_batches(deployment: Deployment, metrics: Any):
    assert dispatch(event("dispatch_two_groups"), Context()) == {"batchItemFailures": []}
    flights = deployment.ledger.route("flights")
    assert deployment.ledger.batch(flights.open_batch).objects == 3
    counted = metrics()
    assert counted["UploadsRegistered", "flights"] == 3
    assert counted["UploadsRegistered", "weather"] == 2


def test_a_batch_that_became_full_is_handed_off_at_once(deployment: Deployment, metrics: Any):
    dispatch(event("dispatch_two_groups"), Context())
    weather = deployment.ledger.route("weather")
    (batch_id,) = weather.running
    batch = deployment.ledger.batch(batch_id)
    assert (batch.state, batch.attempt, batch.job_run, batch.objects) == (State.SUBMITTED, 1, "run-1", 2)
    assert deployment.work.get(f"batches/{batch_id}/sealed.json") is not None
    assert deployment.ledger.route("flights").running == ()
    counted = metrics()
    assert (counted["BatchesSealed", "weather"], counted["JobsStarted", "weather"]) == (1, 1)


def test_of_two_groups_the_one_that_fails_is_given_back_from_its_first_failure_on(deployment: Deployment):
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    failing = decode(event("dispatch_two_groups")["Records"][0]["body"])
    with answered(wiring._client("dynamodb"), "PutItem", 400, denied, containing=failing.id):
        answer = dispatch(event("dispatch_two_groups"), Context())
    assert failures(answer) == ["message-0", "message-2"]
    assert deployment.ledger.route("flights").open_batch == ""
    assert len(deployment.ledger.route("weather").running) == 1
    # the next delivery finds nothing in its way
    assert failures(dispatch(event("dispatch_two_groups"), Context())) == []
    assert deployment.ledger.batch(deployment.ledger.route("flights").open_batch).objects == 3


def test_a_failure_in_the_middle_of_a_group_gives_back_what_follows_it_only(deployment: Deployment):
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    failing = decode(event("dispatch_two_groups")["Records"][2]["body"])
    with answered(wiring._client("dynamodb"), "PutItem", 400, denied, containing=failing.id):
        answer = dispatch(event("dispatch_two_groups"), Context())
    assert failures(answer) == ["message-2"]


def test_a_slow_ledger_costs_no_more_than_what_was_not_begun(deployment: Deployment):
    """Else a batch that takes longer than the function may would be given back whole, for ever."""

    class Slow(Context):
        left = 120_000

        def get_remaining_time_in_millis(self) -> int:
            self.left -= 20_000
            return self.left

    answer = dispatch(event("dispatch_two_groups"), Slow())
    assert failures(answer) == ["message-2", "message-3"]
    assert deployment.ledger.batch(deployment.ledger.route("flights").open_batch).objects == 2
    assert failures(dispatch(event("dispatch_two_groups"), Context())) == []
    assert deployment.ledger.batch(deployment.ledger.route("flights").open_batch).objects == 3


def test_when_everything_fails_everything_is_given_back_and_nothing_raised(deployment: Deployment):
    wiring._client("dynamodb").delete_table(TableName="ledger")
    answer = dispatch(event("dispatch_two_groups"), Context())
    assert sorted(failures(answer)) == ["message-0", "message-1", "message-2", "message-3"]


def test_a_notice_delivered_twice_is_refused_once(deployment: Deployment, metrics: Any):
    assert dispatch(event("dispatch_duplicate"), Context()) == {"batchItemFailures": []}
    record = deployment.ledger.route("flights")
    assert (deployment.ledger.batch(record.open_batch).objects, record.refused) == (2, 2)
    counted = metrics()
    assert (counted["UploadsRegistered", "flights"], counted["DuplicatesRefused", "flights"]) == (2, 2)


def test_what_is_no_notice_of_ours_is_set_aside_and_its_group_goes_on(deployment: Deployment):
    # a notice of a route that nobody knows is given back: the route may be just being deployed
    assert failures(dispatch(event("dispatch_garbage"), Context())) == ["message-2"]
    letters = deployment.bodies(deployment.resources.notices_dead_letters)
    assert sorted(letters) == sorted(record["body"] for record in event("dispatch_garbage")["Records"][:2])
    assert deployment.ledger.batch(deployment.ledger.route("flights").open_batch).objects == 1


def test_what_cannot_be_set_aside_is_given_back(deployment: Deployment):
    wiring._client("sqs").delete_queue(QueueUrl=deployment.resources.notices_dead_letters)
    # of the group flights everything, for its order; of the group trains its one message
    assert sorted(failures(dispatch(event("dispatch_garbage"), Context()))) == [
        "message-0",
        "message-1",
        "message-2",
        "message-3",
    ]


@pytest.mark.parametrize("refusal", [(400, "ValidationException"), (402, "ServiceQuotaExceededException")])
def test_a_hand_off_that_fails_gives_no_notice_back(deployment: Deployment, refusal: tuple[int, str], metrics: Any):
    deployment.emr.refusal = refusal
    assert dispatch(event("dispatch_two_groups"), Context()) == {"batchItemFailures": []}
    assert metrics()["HandOffsFailed", "weather"] == 1
    (batch_id,) = deployment.ledger.route("weather").running
    assert deployment.ledger.batch(batch_id).job_run == ""
    deployment.emr.refusal = None
    settle(event("settle_schedule"), Context())
    assert deployment.ledger.batch(batch_id).job_run == "run-1"


def test_an_empty_batch_of_messages_is_answered(deployment: Deployment):
    assert intake({"Records": []}, Context()) == {"batchItemFailures": []}


# ---- settle


def test_an_error_that_nobody_foresaw_in_a_hand_off_gives_no_notice_back(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    def unforeseen(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tidegate.flows.settle.advance", unforeseen)
    assert dispatch(event("dispatch_two_groups"), Context()) == {"batchItemFailures": []}


@pytest.mark.parametrize("name", ["settle_schedule", "settle_job_state_change"])
def test_settling_commits_what_was_published_and_hands_off_what_is_due(deployment: Deployment, name: str, metrics: Any):
    dispatch(event("dispatch_two_groups"), Context())
    (weather,) = deployment.ledger.route("weather").running
    play_publishing(deployment.work, weather, rows=5)
    deployment.emr.end("run-1")
    deployment.clock.advance(LONGEST)
    metrics()
    assert settle(event(name), Context()) == {"troubles": 0}
    assert deployment.ledger.batch(weather).state is State.COMMITTED
    (flights,) = deployment.ledger.route("flights").running
    assert deployment.ledger.batch(flights).job_run == "run-2"
    assert metrics() == {
        ("BatchesCommitted", "weather"): 1,
        ("SettledCommitted", "weather"): 2,
        ("SettledRows", "weather"): 10,
        ("BatchesSealed", "flights"): 1,
        ("JobsStarted", "flights"): 1,
    }


def test_a_job_that_failed_is_tried_again_under_another_token(deployment: Deployment):
    dispatch(event("dispatch_two_groups"), Context())
    deployment.emr.end("run-1", "FAILED", "the driver was killed")
    settle(event("settle_job_state_change"), Context())
    (weather,) = deployment.ledger.route("weather").running
    assert deployment.ledger.batch(weather).attempt == 1, "the second attempt waits"
    deployment.clock.advance(120)
    settle(event("settle_schedule"), Context())
    assert (deployment.ledger.batch(weather).attempt, deployment.ledger.batch(weather).job_run) == (2, "run-2")
    tokens = [asked["clientToken"] for asked in deployment.emr.asked]
    assert [token.rpartition("-")[0] for token in tokens] == [f"{weather}-1", f"{weather}-2"]


def test_trouble_with_one_route_does_not_keep_another_from_settling(deployment: Deployment, metrics: Any):
    dispatch(event("dispatch_two_groups"), Context())
    (weather,) = deployment.ledger.route("weather").running
    del deployment.emr.runs["run-1"]
    deployment.clock.advance(300)
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    with answered(wiring._client("dynamodb"), "GetItem", 400, denied, containing="r#weather"):
        assert settle(event("settle_schedule"), Context()) == {"troubles": 1}
    assert len(deployment.ledger.route("flights").running) == 1
    assert metrics()["SettlingTroubles", ""] == 1
    assert deployment.ledger.batch(weather).attempt == 1


NOTHING_LATE_OR_IN_QUARANTINE = {
    (name, route): 0
    for name in ("QuarantinedNow", "OldestQuarantinedSeconds", "LateNow")
    for route in ("flights", "weather")
}


def test_settling_says_of_every_route_how_old_its_oldest_batch_is_and_how_many_have_halted(
    deployment: Deployment, gauges: Any
):
    dispatch(event("dispatch_two_groups"), Context())  # the batch of weather is full and its job starts
    deployment.clock.advance(40)
    settle(event("settle_schedule"), Context())
    assert gauges() == {
        ("OldestPendingSeconds", "flights"): 40,
        ("OldestPendingSeconds", "weather"): 40,
        ("HaltedNow", "flights"): 0,
        ("HaltedNow", "weather"): 0,
        **NOTHING_LATE_OR_IN_QUARANTINE,
    }
    (weather,) = deployment.ledger.route("weather").running
    play_giving_up(deployment.work, weather, 1, "no such column", hopeless=True)
    deployment.emr.end("run-1", "FAILED")
    for _ in range(2):  # said again every minute, until somebody acts
        deployment.clock.advance(60)
        settle(event("settle_schedule"), Context())
        found = gauges()
        assert (found["HaltedNow", "weather"], found["HaltedNow", "flights"]) == (1, 0)
    assert found["OldestPendingSeconds", "weather"] == 160
    play_publishing(deployment.work, weather)
    settle(event("settle_schedule"), Context())
    found = gauges()
    assert (found["HaltedNow", "weather"], found["OldestPendingSeconds", "weather"]) == (0, 0)


def test_of_a_route_that_cannot_be_asked_nothing_is_said_and_of_the_others_all_is(deployment: Deployment, gauges: Any):
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    with answered(wiring._client("dynamodb"), "GetItem", 400, denied, containing="r#flights"):
        assert settle(event("settle_schedule"), Context()) == {"troubles": 1}
    assert {name: value for (name, route), value in gauges().items() if route == "weather"} == {
        **dict.fromkeys(
            ("OldestPendingSeconds", "LateNow", "HaltedNow", "QuarantinedNow", "OldestQuarantinedSeconds"), 0
        )
    }


def test_with_nothing_to_do_nothing_is_done(deployment: Deployment):
    assert settle(event("settle_schedule"), Context()) == {"troubles": 0}
    assert deployment.emr.asked == []


def test_an_upload_goes_the_whole_way_from_notification_to_committed(deployment: Deployment):
    intake(event("intake_s3"), Context())
    records = [
        {**event("dispatch_two_groups")["Records"][0], "messageId": f"message-{number}", "body": body}
        for number, body in enumerate(deployment.bodies(deployment.resources.notices))
    ]
    assert failures(dispatch({"Records": records}, Context())) == []
    deployment.clock.advance(300)
    settle(event("settle_schedule"), Context())
    for name, key in (("flights", "flights/2013/01 a+b.json"), ("weather", "weather/é.json")):
        (batch_id,) = deployment.ledger.route(name).running
        play_publishing(deployment.work, batch_id)
        settle(event("settle_job_state_change"), Context())
        assert deployment.ledger.route(name).tally.committed == 1
        assert len(deployment.ledger.claims(BUCKET, key)) == 1


# ---- the hand-off to EMR Serverless

BATCH = Batch("01JABCDEFGHJKMNPQRSTVWXYZ0", "flights", State.SUBMITTED, START, objects=3, attempt=1)
DATASET = Dataset("lake.raw.flights", "id bigint", "json")


def test_a_second_start_of_an_attempt_is_the_same_run_and_asks_nobody(deployment: Deployment):
    deployment.emr.knows_tokens = False  # so that only what Powertools remembers can tell
    assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
    assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
    assert len(deployment.emr.asked) == 1


def test_what_one_function_started_another_finds(deployment: Deployment, monkeypatch: pytest.MonkeyPatch):
    deployment.emr.knows_tokens = False
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "tidegate-dispatch")
    assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "tidegate-settle")
    assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"


def test_another_attempt_is_another_run(deployment: Deployment):
    assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
    second = Batch(BATCH.id, "flights", State.SUBMITTED, START, attempt=2)
    assert deployment.jobs().start(second, DATASET, owner="", last=False) == "run-2"


def test_what_powertools_forgot_the_client_token_remembers(deployment: Deployment):
    assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
    table = wiring._client("dynamodb")
    for item in table.scan(TableName="ledger")["Items"]:
        table.delete_item(TableName="ledger", Key={"pk": item["pk"], "sk": item["sk"]})
    assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
    assert len(deployment.emr.asked) == 2


def test_the_hand_offs_record_lives_in_the_ledger_and_expires(deployment: Deployment):
    deployment.jobs().start(BATCH, DATASET, owner="", last=False)
    (item,) = wiring._client("dynamodb").scan(TableName="ledger")["Items"]
    assert item["pk"] == {"S": "h#hand-off"}
    assert item["status"] == {"S": "COMPLETED"}
    digest = hashlib.sha256(json.dumps({"attempt": 1, "batch": BATCH.id}).encode()).hexdigest()
    assert item["sk"]["S"].endswith(f"#{digest}")
    assert REMEMBER_SECONDS == 24 * 60 * 60
    assert "expires_at" in item


def test_what_powertools_remembers_is_forgotten_after_a_day(deployment: Deployment):
    deployment.emr.knows_tokens = False
    with time_machine.travel(START, tick=False) as time:
        assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
        time.shift(REMEMBER_SECONDS)
        assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
        time.shift(1)
        assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-2"


def test_what_the_job_is_told(deployment: Deployment):
    deployment.jobs().start(BATCH, DATASET, owner="", last=True)
    (asked,) = deployment.emr.asked
    assert re.fullmatch(rf"{BATCH.id}-1-[0-9a-f]{{16}}", asked["clientToken"])
    assert len(asked["clientToken"]) <= 64
    assert asked["executionRoleArn"] == deployment.resources.job_role
    assert asked["tags"] == {"tidegate:route": "flights", "tidegate:batch": BATCH.id}
    submit = asked["jobDriver"]["sparkSubmit"]
    assert submit["entryPoint"] == "s3://assets/entry.py"
    assert submit["sparkSubmitParameters"] == deployment.resources.spark_parameters
    verb, *rest = submit["entryPointArguments"]
    assert verb == "ingest"
    rest.remove("--last")
    told = dict(argument.removeprefix("--").split("=", 1) for argument in rest)
    assert (told["batch"], told["attempt"], told["work"]) == (BATCH.id, "1", "work")
    assert (told["digest"], told["floors"], told["landing-owner"]) == ("", "0", deployment.resources.account)
    assert json.loads(told["dataset"])["table"] == "lake.raw.flights"


def test_what_a_worker_is_told(deployment: Deployment):
    jobs = deployment.jobs()
    jobs.start(BATCH, DATASET, owner="", last=False)
    verb, *rest = deployment.emr.asked[0]["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    assert verb == "work"
    told = dict(argument.removeprefix("--").split("=", 1) for argument in rest)
    assert (told["worker"], told["ledger"], told["work"]) == (f"{BATCH.id}-1", "ledger", "work")
    assert (told["code"], told["stay"], told["takes-for"]) == (jobs.code, str(STAY), str(jobs.takes_for))
    assert "dataset" not in told, "it reads that with each batch"


def test_an_attempt_whose_start_was_not_recorded_is_started_by_new_code(deployment: Deployment):
    """Under the token of the first start EMR would refuse other parameters, for as long as it knows the token."""

    def start(parameters: str) -> str:
        application = replace(deployment.jobs()._application, spark_parameters=parameters)
        return application.start("flights", ["ingest"], token=f"{BATCH.id}-1", tags={})

    first = start("--conf spark.archives=old.zip")
    assert start("--conf spark.archives=old.zip") == first, "no answer, and asked again"
    second = start("--conf spark.archives=new.zip")
    assert second != first
    assert start("--conf spark.archives=new.zip") == second


def test_a_batch_that_is_being_fenced_is_told_to_fence(deployment: Deployment):
    deployment.jobs().start(
        Batch(BATCH.id, "flights", State.SUBMITTED, START, attempt=2, fencing=True), DATASET, owner="", last=False
    )
    assert deployment.emr.asked[0]["jobDriver"]["sparkSubmit"]["entryPointArguments"][0] == "fence"
    assert len(deployment.emr.asked[0]["clientToken"]) <= 64


def test_a_fence_is_no_job_that_emr_knows_from_the_time_that_a_restored_ledger_lost(deployment: Deployment):
    assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
    dynamodb = wiring._client("dynamodb")
    (item,) = dynamodb.scan(TableName="ledger")["Items"]
    dynamodb.delete_item(TableName="ledger", Key={"pk": item["pk"], "sk": item["sk"]})
    fencing = Batch(BATCH.id, "flights", State.SUBMITTED, START, attempt=1, fencing=True)
    assert deployment.jobs().start(fencing, DATASET, owner="", last=False) == "run-2"
    assert [job["jobDriver"]["sparkSubmit"]["entryPointArguments"][0] for job in deployment.emr.asked] == [
        "work",
        "fence",
    ]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(400, "ValidationException", Retryable), (402, "ServiceQuotaExceededException", Retryable)],
)
def test_a_start_that_was_refused_can_be_tried_again(
    deployment: Deployment, status: int, code: str, kind: type[TidegateError]
):
    deployment.emr.refusal = (status, code)
    with pytest.raises(kind, match=f"batch {BATCH.id}, attempt 1.*{code}"):
        deployment.jobs().start(BATCH, DATASET, owner="", last=False)
    deployment.emr.refusal = None
    assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"


def test_a_start_that_somebody_else_is_in_the_middle_of_is_left_to_them(deployment: Deployment):
    found: list[str | None] = []

    def meanwhile(**_: Any) -> None:
        if not found:
            found.append("asking")
            found.append(deployment.jobs().start(BATCH, DATASET, owner="", last=False))

    events = wiring._client("emr-serverless").meta.events
    events.register_first("before-send.emr-serverless.StartJobRun", meanwhile)
    try:
        assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"
    finally:
        events.unregister("before-send.emr-serverless.StartJobRun", meanwhile)
    assert found == ["asking", None]


def test_a_start_whose_function_died_is_left_to_it_until_its_time_was_up_and_then_made_anew(deployment: Deployment):
    def die(**_: Any) -> None:
        raise Died("start_job_run")

    events = wiring._client("emr-serverless").meta.events
    with time_machine.travel(START, tick=False) as time:
        events.register_first("before-send.emr-serverless.StartJobRun", die)
        try:
            with pytest.raises(Died):
                deployment.jobs().start(BATCH, DATASET, owner="", last=False)
        finally:
            events.unregister("before-send.emr-serverless.StartJobRun", die)
        # if nobody asked again, DynamoDB would delete its record as any other
        (item,) = wiring._client("dynamodb").scan(TableName="ledger")["Items"]
        assert (item["status"]["S"], item["expires_at"]["N"]) == ("INPROGRESS", str(START + REMEMBER_SECONDS))
        time.shift(Context().get_remaining_time_in_millis() // 1000)
        assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) is None
        time.shift(1)
        assert deployment.jobs().start(BATCH, DATASET, owner="", last=False) == "run-1"


def test_a_ledger_that_cannot_be_asked_is_one_of_the_four_errors(deployment: Deployment):
    wiring._client("dynamodb").delete_table(TableName="ledger")
    with pytest.raises(TidegateError):
        deployment.jobs().start(BATCH, DATASET, owner="", last=False)


def test_a_start_whose_record_could_not_be_completed_is_one_of_the_four_errors(deployment: Deployment):
    # the job runs, but Powertools could not note which: that may have happened, says OutcomeUnknown
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    with (
        answered(wiring._client("dynamodb"), "UpdateItem", 400, denied, containing="hand-off"),
        pytest.raises(TidegateError),
    ):
        deployment.jobs().start(BATCH, DATASET, owner="", last=False)


def test_trouble_with_the_hand_offs_record_of_one_batch_does_not_keep_the_others_from_settling(deployment: Deployment):
    dispatch(event("dispatch_two_groups"), Context())
    deployment.clock.advance(LONGEST)
    (weather,) = deployment.ledger.route("weather").running
    play_publishing(deployment.work, weather)
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    with answered(wiring._client("dynamodb"), "PutItem", 400, denied, containing="hand-off"):
        assert settle(event("settle_schedule"), Context())["troubles"] == 1
    assert deployment.ledger.batch(weather).state is State.COMMITTED


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        *(
            (state, JobState.ACTIVE)
            for state in ("SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING", "CANCELLING")
        ),
        *((state, JobState.ENDED) for state in ("SUCCESS", "FAILED", "CANCELLED")),
    ],
)
def test_what_emr_says_of_a_run(deployment: Deployment, state: str, expected: JobState):
    run = deployment.jobs().start(BATCH, DATASET, owner="", last=False)
    assert run is not None
    deployment.emr.end(run, state, "in its words")
    report = deployment.jobs().report(run)
    assert (report.state, report.details) == (expected, "in its words")


def test_a_run_that_emr_does_not_know_any_more_has_ended(deployment: Deployment):
    report = deployment.jobs().report("run-of-last-year")
    assert report.state is JobState.ENDED
    assert "run-of-last-year" in report.details


def test_emr_that_does_not_answer_leaves_the_outcome_unknown(deployment: Deployment, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wiring._client("emr-serverless").meta.config, "retries", {"total_max_attempts": 1})
    body = {"message": "no"}
    with (
        answered(wiring._client("emr-serverless"), "GetJobRun", 501, body),
        pytest.raises(OutcomeUnknown, match="ask for job run run-1"),
    ):
        deployment.jobs().report("run-1")


# ---- wiring


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch, deployment: Deployment):
    monkeypatch.delenv("TIDEGATE_TOPIC")
    wiring.this_deployment.cache_clear()
    with pytest.raises(KeyError, match="TIDEGATE_TOPIC"):
        wiring.this_deployment()


def test_where_the_settings_are():
    assert wiring.settings_file({"TIDEGATE_CONFIG": "/etc/mine.toml"}) == Path("/etc/mine.toml")
    assert wiring.settings_file({"LAMBDA_TASK_ROOT": "/var/task"}) == Path("/var/task/tidegate.toml")
    assert wiring.settings_file({}) == Path("tidegate.toml")


def test_batch_ids_are_ulids_that_sort_by_age_and_never_repeat():
    ids = [wiring.new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {len(each) for each in ids} == {26}
    assert [each[:10] for each in ids] == sorted(each[:10] for each in ids)
