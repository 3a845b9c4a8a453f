"""Every function, run from its bundle as Lambda runs it: what it answers to each event, and what it does."""

import filecmp
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.roster import ROSTER
from tests.rie.conftest import EVENTS, Deployed, event, failures
from tests.support.build import BUCKET
from tests.support.emf import emitted
from tests.support.fakes import play_publishing
from tests.support.rie import PYTHON, Failed, function_environment, read_answer
from tidegate.core.batches import State
from tidegate.core.notices import decode
from tidegate_local.environment import client

DENIED = json.dumps({"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}).encode()


def notice_id(name: str, position: int) -> str:
    """The id of the notice in one of an event's messages."""
    return decode(event(name)["Records"][position]["body"]).id


def counted(stack: Deployed, function: str, since: int) -> dict[tuple[str, str], float]:
    """What a function has counted in what it wrote after the first `since` characters."""
    found: dict[tuple[str, str], float] = {}
    for each in emitted(stack.emulators[function].written()[since:]):
        found[each.name, each.route] = found.get((each.name, each.route), 0) + each.value
    return found


# ---- the code and its surroundings


def test_the_bundle_is_what_the_template_names_and_what_that_needs(stack: Deployed):
    """The asset beside this template has no dependencies, being made for the local stack; all else is alike."""
    functions = [
        each for each in stack.built.assembly.template["Resources"].values() if each["Type"] == "AWS::Lambda::Function"
    ]
    handled = [each for each in functions if each["Properties"]["Handler"].startswith("lambdas.")]
    assert len(handled) == len(stack.emulators) == len(ROSTER)
    (asset,) = {stack.built.assembly.folder / each["Metadata"]["aws:asset:path"] for each in handled}
    code = stack.built.code
    packed = [path.relative_to(asset) for path in sorted(asset.rglob("*")) if path.is_file()]
    same, different, missing = filecmp.cmpfiles(asset, code, map(str, packed), shallow=False)
    assert (len(same), different, missing) == (len(packed), [], [])
    assert not list(code.rglob("__pycache__")), "running it has changed it"


def test_a_function_finds_all_it_imports_in_its_bundle_and_nothing_of_ours(stack: Deployed):
    """Nothing on its path but the bundle, the runtime client and the standard library: so an import that is missing
    in the bundle cannot be made good by what happens to be installed here."""
    script = (
        "import importlib, json, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(json.dumps([sys.path, sorted({m.__file__ for m in sys.modules.values() if getattr(m, '__file__', 0)})]))"
    )
    built, functions = stack.built, stack.description.functions
    environment = function_environment(functions["settle"], stack.local, built.runtime, built.code)
    handlers = [each.handler.rpartition(".")[0] for each in functions.values()]
    done = subprocess.run(
        [*PYTHON, "-c", script, *handlers, "awslambdaric.bootstrap"],
        cwd=built.code,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path, files = json.loads(done.stdout)
    library = Path(subprocess.__file__).parent
    allowed = (built.code, built.runtime, library)
    assert not [each for each in files if not any(Path(each).is_relative_to(folder) for folder in allowed)]
    assert not [each for each in (*path, *files) if "site-packages" in each]
    assert {"boto3", "botocore", "aws_lambda_powertools", "pydantic", "tidegate"} <= {
        Path(each).relative_to(built.code).parts[0] for each in files if Path(each).is_relative_to(built.code)
    }


def test_every_event_is_one_that_some_function_here_is_given():
    """The files are for people, too, who run `sam local invoke` with them: one that nothing runs would rot."""
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    names = {path.stem for path in EVENTS.glob("*.json")}
    assert names
    assert {name for name in names if f'event("{name}")' in tests} == names


# ---- what the emulator says


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (200, "Task timed out after 3.00 seconds"),
        (200, '{"errorMessage": "no", "errorType": "KeyError", "requestId": "1", "stackTrace": []}'),
        (502, ""),
        (502, "null"),
    ],
)
def test_an_error_is_no_answer_though_the_emulator_says_200(status: int, text: str):
    with pytest.raises(Failed):
        read_answer(status, text)


@pytest.mark.parametrize(("function", "proper"), [("intake", "intake_test_event"), ("dispatch", "dispatch_garbage")])
def test_what_is_no_event_of_a_queue_is_an_error_and_the_next_event_is_answered(
    stack: Deployed, function: str, proper: str
):
    with pytest.raises(Failed, match="Error"):
        stack.invoke(function, event("settle_schedule"))
    assert stack.items() == []
    given_back = ["message-2"] if proper == "dispatch_garbage" else []
    assert failures(stack.invoke(function, event(proper))) == given_back


# ---- intake


def test_notifications_of_s3_become_notices(stack: Deployed):
    start = len(stack.emulators["intake"].written())
    assert failures(stack.invoke("intake", event("intake_s3"))) == []
    found = {each.route: each for each in stack.notices()}
    assert [entry.upload.key for entry in found["flights"].entries] == ["flights/2013/01 a+b.json"]
    assert [entry.upload.key for entry in found["weather"].entries] == ["weather/é.json"]
    assert found["flights"].entries[0].upload.version == "096fKKXTRTtl3on89fVO.nfljtsv6qko"
    assert counted(stack, "intake", start) == {("UploadsNotified", "flights"): 1, ("UploadsNotified", "weather"): 1}


def test_an_event_of_eventbridge_becomes_a_notice(stack: Deployed):
    assert failures(stack.invoke("intake", event("intake_eventbridge"))) == []
    (notice,) = stack.notices()
    assert [entry.upload.key for entry in notice.entries] == ["flights/2013/02 a+b.json"]


def test_s3s_test_event_is_acknowledged_and_has_no_effect(stack: Deployed):
    assert failures(stack.invoke("intake", event("intake_test_event"))) == []
    assert (stack.notices(), stack.messages("DeadLetters")) == ([], [])


def test_an_upload_that_is_notified_twice_at_once_is_in_one_notice_once(stack: Deployed):
    assert failures(stack.invoke("intake", event("intake_duplicate"))) == []
    (notice,) = stack.notices()
    assert [entry.upload.key for entry in notice.entries] == ["flights/2013/01 a+b.json"]


def test_garbage_goes_to_the_dead_letters_and_takes_nothing_with_it(stack: Deployed):
    assert failures(stack.invoke("intake", event("intake_garbage"))) == []
    (notice,) = stack.notices()
    assert [entry.upload.key for entry in notice.entries] == ["flights/good.json"]
    first, second = sorted(stack.messages("DeadLetters"), key=len)
    assert first == "this is no JSON"
    assert "flights/%FF.json" in second


def test_what_the_topic_does_not_take_is_given_back_and_nothing_else(stack: Deployed):
    client("sns", stack.local).delete_topic(TopicArn=stack.output("Topic"))
    messages = event("intake_s3")["Records"] + [
        {**each, "messageId": "message-test"} for each in event("intake_test_event")["Records"]
    ]
    assert failures(stack.invoke("intake", {"Records": messages})) == ["message-0"]


# ---- dispatch


def test_notices_of_two_groups_join_their_routes_batches_and_a_full_one_is_handed_off_once(stack: Deployed):
    start = len(stack.emulators["dispatch"].written())
    assert failures(stack.invoke("dispatch", event("dispatch_two_groups"))) == []
    assert (stack.open_batch("flights").state, stack.open_batch("flights").objects) == (State.OPEN, 3)
    weather = stack.running("weather")
    assert (weather.state, weather.attempt, weather.objects) == (State.SUBMITTED, 1, 2)
    assert stack.started() == [f"{weather.id}-1"]
    assert weather.job_run in stack.jobs.runs
    assert stack.work.get(f"batches/{weather.id}/sealed.json") is not None
    found = counted(stack, "dispatch", start)
    assert (found["UploadsRegistered", "flights"], found["UploadsRegistered", "weather"]) == (3, 2)
    assert found["JobsStarted", "weather"] == 1


def test_the_same_event_again_does_nothing_twice(stack: Deployed):
    for _ in range(2):
        assert failures(stack.invoke("dispatch", event("dispatch_two_groups"))) == []
    assert stack.open_batch("flights").objects == 3
    weather = stack.running("weather")
    assert (weather.objects, stack.started()) == (2, [f"{weather.id}-1"])
    assert stack.ledger.route("weather").open_batch == ""


def test_a_notice_that_is_delivered_twice_is_registered_once(stack: Deployed):
    for times in (1, 2):
        assert failures(stack.invoke("dispatch", event("dispatch_duplicate"))) == []
        record = stack.ledger.route("flights")
        deliveries = times * len(event("dispatch_duplicate")["Records"])
        assert (stack.batch(record.open_batch).objects, record.refused) == (2, 2 * (deliveries - 1))


def test_of_two_groups_the_one_that_fails_is_given_back_from_its_first_failure_on(stack: Deployed):
    failing = notice_id("dispatch_two_groups", 0)
    with stack.services.refusing("PutItem", failing, status=400, body=DENIED) as refusal:
        assert failures(stack.invoke("dispatch", event("dispatch_two_groups"))) == ["message-0", "message-2"]
    assert refusal.times > 0
    assert stack.ledger.route("flights").open_batch == ""
    assert stack.running("weather").objects == 2
    # the next delivery finds nothing in its way
    assert failures(stack.invoke("dispatch", event("dispatch_two_groups"))) == []
    assert stack.open_batch("flights").objects == 3
    assert len(stack.started()) == 1


def test_a_failure_in_the_middle_of_a_group_gives_back_what_follows_it_only(stack: Deployed):
    with stack.services.refusing("PutItem", notice_id("dispatch_two_groups", 2), status=400, body=DENIED):
        assert failures(stack.invoke("dispatch", event("dispatch_two_groups"))) == ["message-2"]
    assert stack.open_batch("flights").objects == 2
    assert stack.running("weather").objects == 2


def test_what_is_no_notice_of_ours_is_set_aside_and_its_group_goes_on(stack: Deployed):
    messages = event("dispatch_garbage")["Records"]
    # a notice of a route that nobody knows is given back: the route may be just being deployed
    assert failures(stack.invoke("dispatch", event("dispatch_garbage"))) == ["message-2"]
    assert sorted(stack.messages("NoticesDeadLetters")) == sorted(each["body"] for each in messages[:2])
    assert stack.open_batch("flights").objects == 1


def test_a_job_that_emr_refuses_gives_no_notice_back_and_the_schedule_starts_it(stack: Deployed):
    refused = json.dumps({"message": "no"}).encode()
    with stack.emr.refusing("POST", "/jobruns", status=402, body=refused) as refusal:
        assert failures(stack.invoke("dispatch", event("dispatch_two_groups"))) == []
    assert refusal.times == 1
    weather = stack.running("weather")
    assert (weather.job_run, stack.started()) == ("", [])
    assert stack.invoke("settle", event("settle_schedule")) == {"troubles": 0}
    (started,) = stack.started()
    assert started.removesuffix("-1") in (weather.id, stack.running("flights").id), "one worker is to take both"


# ---- settle


def test_with_nothing_to_do_nothing_is_done(stack: Deployed):
    assert stack.invoke("settle", event("settle_schedule")) == {"troubles": 0}
    # the routes are remembered, and that the ledger is whole
    assert {item["pk"]["S"] for item in stack.items()} == {"routes", "ledger"}
    assert stack.started() == []


def test_the_schedule_hands_off_what_is_due_and_only_once(stack: Deployed):
    stack.invoke("dispatch", event("dispatch_two_groups"))
    weather = stack.running("weather")
    for _ in range(2):
        assert stack.invoke("settle", event("settle_schedule")) == {"troubles": 0}
    flights = stack.running("flights")
    assert (flights.state, flights.objects) == (State.SUBMITTED, 3)
    assert stack.started() == [f"{weather.id}-1"]
    assert flights.job_run == "", "the worker of the other is to take it"


def test_a_job_that_ended_is_settled_and_settling_again_adds_nothing(stack: Deployed):
    stack.invoke("dispatch", event("dispatch_two_groups"))
    weather = stack.running("weather")
    play_publishing(stack.work, weather.id, rows=5)
    stack.end_job(weather.job_run)
    for _ in range(2):
        assert stack.invoke("settle", event("settle_job_state_change")) == {"troubles": 0}
        record = stack.ledger.route("weather")
        assert stack.batch(weather.id).state is State.COMMITTED
        assert (record.running, record.tally.committed, record.tally.rows) == ((), 2, 10)


def test_a_job_that_failed_is_tried_again_under_another_token(stack: Deployed):
    stack.invoke("dispatch", event("dispatch_two_groups"))
    weather = stack.running("weather")
    stack.end_job(weather.job_run, code=1)
    stack.let_the_wait_pass(weather.id)
    assert stack.invoke("settle", event("settle_job_state_change")) == {"troubles": 0}
    assert [token for token in stack.started() if weather.id in token] == [f"{weather.id}-1", f"{weather.id}-2"]
    assert stack.running("weather").attempt == 2


# ---- all of them


def test_an_upload_goes_the_whole_way_and_its_repeated_notification_goes_nowhere(stack: Deployed):
    """The queues feed the functions here, and what these answer decides what stays in the queues."""
    s3, sqs = client("s3", stack.local), client("sqs", stack.local)
    keys = ["weather/1.json", "weather/é +2.json"]
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b'{"id": 1}')
    told: list[dict[str, Any]] = sqs.receive_message(
        QueueUrl=stack.output("Buffer"), MaxNumberOfMessages=10, VisibilityTimeout=0
    )["Messages"]
    assert stack.deliver("intake") == []
    assert stack.deliver("dispatch") == []
    weather = stack.running("weather")
    play_publishing(stack.work, weather.id)
    stack.end_job(weather.job_run)
    for message in told:
        sqs.send_message(QueueUrl=stack.output("Buffer"), MessageBody=message["Body"])
    assert stack.deliver("intake") == []
    assert stack.deliver("dispatch") == []
    assert stack.invoke("settle", event("settle_schedule")) == {"troubles": 0}
    record = stack.ledger.route("weather")
    assert (record.tally.committed, record.refused, record.unfinished) == (2, 2, ())
    assert stack.started() == [f"{weather.id}-1"]
    assert [len(stack.ledger.claims(BUCKET, key)) for key in keys] == [1, 1]
    for queue in ("Buffer", "Notices", "DeadLetters", "NoticesDeadLetters"):
        assert stack.messages(queue) == []


# ---- audit


def test_the_audit_begins_to_watch_each_route(stack: Deployed):
    assert stack.invoke("audit", event("settle_schedule")) == {"lost": 0}
    assert sorted((item["pk"]["S"], item["prefix"]["S"]) for item in stack.items() if "prefix" in item) == [
        ("audits", "flights/"),
        ("audits", "weather/"),
    ]
    before = stack.items()
    assert stack.invoke("audit", event("settle_schedule")) == {"lost": 0}
    assert stack.items() == before, "nothing is due"


# ---- maintain


def test_maintain_asks_for_one_job_in_a_period(stack: Deployed):
    assert stack.invoke("maintain", event("settle_schedule")) == {"looked_at": 1}
    assert len(stack.started()) == 1
    assert stack.items() == [], "it writes nothing to the ledger"
