"""The supervisor, the loader, the workers and the event bus together, on a small template with handlers of its own."""

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError

from tests.support import warehouse
from tests.support.patience import HANGING, eventually
from tidegate_local import stack, supervisor
from tidegate_local.cli.deployment import enter
from tidegate_local.continuing import Past
from tidegate_local.environment import client
from tidegate_local.errors import LocalError
from tidegate_local.loader import load, read_assembly
from tidegate_local.processes import listen, python_module

CONFIG = Path(__file__).parents[2] / "tidegate.example.toml"

HANDLERS = '''
import json, os, sys, time
from pathlib import Path

print("handlers imported", os.environ["AWS_LAMBDA_FUNCTION_NAME"])

def note(kind, value):
    with open(Path(os.environ["RECORD"], kind), "a") as file:
        file.write(json.dumps(value) + "\\n")

def buffer(event, context):
    """Fails with `bad` the first four times it comes."""
    failures = []
    for record in event["Records"]:
        body = json.loads(record["body"])
        for each in body.get("Records", []):
            note("buffer", [each["s3"]["object"]["key"], record["attributes"]["ApproximateReceiveCount"]])
            if each["s3"]["object"]["key"] == "in/bad" and int(record["attributes"]["ApproximateReceiveCount"]) < 5:
                failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}

def notices(event, context):
    """Fails with `b`, and so with all that follows, the first time it comes."""
    for at, record in enumerate(event["Records"]):
        note("notices", [record["body"], record["attributes"]["MessageGroupId"]])
        if record["body"] == "b" and record["attributes"]["ApproximateReceiveCount"] == "1":
            return {"batchItemFailures": [{"itemIdentifier": each["messageId"]} for each in event["Records"][at:]]}

def timer(event, context):
    note("timer", [event.get("detail-type", ""), os.environ["TIDEGATE_APPLICATION"]])
    if event.get("crash"):
        os._exit(3)
    if event.get("sleep"):
        time.sleep(event["sleep"])
    if event.get("fail"):
        raise LookupError("asked to")
    return {"pid": os.getpid()}
'''


def arn(name):
    return {"Fn::GetAtt": [name, "Arn"]}


def function(handler, folder, **properties):
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Handler": f"fakes.{handler}",
            "Runtime": "python3.13",
            "Role": arn("Role"),
            "Code": {"S3Bucket": {"Fn::Sub": "assets-${AWS::AccountId}"}, "S3Key": "code.zip"},
            "Environment": {
                "Variables": {
                    "RECORD": str(folder),
                    "TIDEGATE_APPLICATION": {"Fn::GetAtt": ["Application", "ApplicationId"]},
                    "POWERTOOLS_SERVICE_NAME": handler,
                }
            },
            **properties,
        },
    }


def mapping(queue, handler, **properties):
    return {
        "Type": "AWS::Lambda::EventSourceMapping",
        "Properties": {
            "EventSourceArn": arn(queue),
            "FunctionName": {"Ref": handler},
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            **properties,
        },
    }


def rule(**properties):
    return {"Type": "AWS::Events::Rule", "Properties": {"Targets": [{"Arn": arn("Timer"), "Id": "T"}], **properties}}


def resources(folder):
    return {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {}},
        "Landing": {
            "Type": "AWS::S3::Bucket",
            "DependsOn": ["BufferPolicy"],
            "Properties": {
                "BucketName": "landing",
                "VersioningConfiguration": {"Status": "Enabled"},
                "BucketEncryption": {},
                "Tags": [{"Key": "a", "Value": "b"}],
                "NotificationConfiguration": {
                    "QueueConfigurations": [
                        {
                            "Event": "s3:ObjectCreated:*",
                            "Queue": arn("Buffer"),
                            "Filter": {"S3Key": {"Rules": [{"Name": "prefix", "Value": "in/"}]}},
                        }
                    ]
                },
            },
        },
        "Existing": {
            "Type": "Custom::S3BucketNotifications",
            "Properties": {
                "ServiceToken": arn("NotificationsHandler"),
                "BucketName": "theirs",
                "Managed": False,
                "NotificationConfiguration": {
                    "QueueConfigurations": [{"QueueArn": arn("Buffer"), "Events": ["s3:ObjectCreated:*"]}]
                },
            },
        },
        "NotificationsHandler": {
            "Type": "AWS::Lambda::Function",
            "Properties": {"Code": {"ZipFile": "x"}, "Handler": "index.handler", "Runtime": "python3.13"},
        },
        "BufferPolicy": {"Type": "AWS::SQS::QueuePolicy", "Properties": {"Queues": [{"Ref": "Buffer"}]}},
        "Dead": {"Type": "AWS::SQS::Queue"},
        "Buffer": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "VisibilityTimeout": 360,
                "RedrivePolicy": {"deadLetterTargetArn": arn("Dead"), "maxReceiveCount": 5},
                "SqsManagedSseEnabled": True,
            },
        },
        "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"FifoTopic": True}},
        "Notices": {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True, "VisibilityTimeout": 720}},
        "Subscription": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {
                "TopicArn": {"Ref": "Topic"},
                "Protocol": "sqs",
                "Endpoint": arn("Notices"),
                "RawMessageDelivery": True,
            },
        },
        "Ledger": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                "BillingMode": "PAY_PER_REQUEST",
                "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
                "KinesisStreamSpecification": {},
            },
        },
        "Application": {
            "Type": "AWS::EMRServerless::Application",
            "Properties": {
                "ReleaseLabel": "emr-spark-8.1.0",
                "Type": "Spark",
                "RuntimeConfiguration": [{"Classification": "spark-defaults", "Properties": {"spark.x": "1"}}],
            },
        },
        "BufferFunction": function("buffer", folder, Timeout=60),
        "NoticesFunction": function("notices", folder, Timeout=60),
        "Timer": function("timer", folder, Timeout=600),
        "Brief": function("timer", folder, FunctionName="brief", Timeout=2),
        "BufferSource": mapping("Buffer", "BufferFunction", BatchSize=100, MaximumBatchingWindowInSeconds=1),
        "NoticesSource": mapping("Notices", "NoticesFunction", BatchSize=10),
        "Every": rule(ScheduleExpression="rate(1 minute)"),
        "Ended": rule(
            EventPattern={
                "source": ["aws.emr-serverless"],
                "detail": {"applicationId": [{"Fn::GetAtt": ["Application", "ApplicationId"]}], "state": ["FAILED"]},
            }
        ),
    }


def write_assembly(folder, changes=None):
    """What `cdk synth` would write for the resources above."""
    assembly = folder / "assembly"
    (assembly / "code").mkdir(parents=True, exist_ok=True)
    (folder / "record").mkdir(exist_ok=True)
    (assembly / "code" / "fakes.py").write_text(HANDLERS)
    (assembly / "entry.py").write_text("raise SystemExit('an entry script')")
    template = {
        "Resources": {**resources(folder / "record"), **(changes or {})},
        "Outputs": {
            "Ledger": {"Value": {"Ref": "Ledger"}},
            "Topic": {"Value": {"Ref": "Topic"}},
            "NoticesQueue": {"Value": {"Ref": "Notices"}},
            "EntryPoint": {"Value": {"Fn::Sub": "s3://assets-${AWS::AccountId}/entry.py"}},
        },
    }
    destination = {"bucketName": "assets-${AWS::AccountId}"}
    files = {
        "t": {"source": {"path": "small.template.json", "packaging": "file"}, "destinations": {}},
        "c": {
            "source": {"path": "code", "packaging": "zip"},
            "destinations": {"here": {**destination, "objectKey": "code.zip"}},
        },
        "e": {
            "source": {"path": "entry.py", "packaging": "file"},
            "destinations": {"here": {**destination, "objectKey": "entry.py"}},
        },
    }
    artifacts = {
        "small": {"type": "aws:cloudformation:stack", "properties": {"templateFile": "small.template.json"}},
        "small.assets": {"type": "cdk:asset-manifest", "properties": {"file": "small.assets.json"}},
        "Tree": {"type": "cdk:tree", "properties": {}},
    }
    for name, content in (
        ("small.template.json", template),
        ("small.assets.json", {"files": files}),
        ("manifest.json", {"artifacts": artifacts}),
    ):
        (assembly / name).write_text(json.dumps(content))
    return assembly


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path("/proc/self").exists() else True


class Running:
    """A stack of the small template, and what its handlers recorded."""

    def __init__(self, folder, running):
        self.folder = folder
        self.stack = running

    def client(self, service):
        return client(service, self.stack.environment)

    def recorded(self, kind):
        path = self.folder / "record" / kind
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def invoke(self, name, event, kind="RequestResponse"):
        url = self.stack.description.invoke[name]
        once = Config(retries={"total_max_attempts": 1})  # a repeated event is another event for the handler
        lambda_ = boto3.client("lambda", endpoint_url=url, region_name="us-east-1", config=once)
        return lambda_.invoke(FunctionName=name, InvocationType=kind, Payload=json.dumps(event))

    def pids(self):
        return {name: each.child.process.pid for name, each in self.stack._processes.items()}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "synthesize", lambda config, target: write_assembly(folder))
        with stack.up(CONFIG, folder / "dir", patience=1, on_progress=lambda step: None) as up:
            waiting = threading.Thread(target=up.wait)
            waiting.start()
            yield Running(folder, up)
            pids = Running(folder, up).pids()
            up.stop()
            waiting.join(HANGING)
    assert not any(is_alive(pid) for pid in pids.values())
    assert not stack.is_running(folder / "dir")


# --- loading ---


def test_the_environment_names_what_was_created(running):
    environment = stack.describe(running.folder / "dir")
    assert environment == running.stack.environment
    assert environment["TIDEGATE_LEDGER"] == "small-Ledger"
    assert environment["TIDEGATE_NOTICES_QUEUE"].endswith("/small-Notices.fifo")
    assert environment["TIDEGATE_DEPLOYMENT"] == "small"
    for service in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EMR_SERVERLESS"):
        assert environment[service].startswith("http://127.0.0.1:")
    bucket, key = environment["TIDEGATE_ENTRY_POINT"].removeprefix("s3://").split("/")
    assert b"an entry script" in running.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()


def test_what_differs_from_aws_is_noted(running):
    notes = "\n".join(running.stack.notes)
    assert "KinesisStreamSpecification is not applied" in notes
    assert "bucket theirs is to exist already" in notes
    assert "hidden for 1 s" in notes
    assert "PointInTime" not in notes


def test_loading_again_changes_nothing(running):
    assembly = read_assembly(running.folder / "assembly")
    again = load(assembly, running.stack.description.environment, patience=1)
    assert again.functions == running.stack.description.functions
    assert again.outputs == running.stack.outputs
    assert again.rules == running.stack.description.rules
    assert len(running.client("emr-serverless").list_applications()["applications"]) == 1
    assert len(running.client("sns").list_subscriptions()["Subscriptions"]) == 1
    ledger = running.client("dynamodb").describe_time_to_live(TableName="small-Ledger")
    assert ledger["TimeToLiveDescription"]["AttributeName"] == "expires_at"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"New": {"Type": "AWS::Kinesis::Stream"}}, "cannot create: AWS::Kinesis::Stream"),
        ({"Every": rule(ScheduleExpression="cron(0 4 * * ? *)")}, "knows rate"),
        ({"Ended": rule(EventPattern={"source": [{"prefix": "aws."}]})}, "compares values only"),
        ({"BufferSource": mapping("Buffer", "BufferFunction", FilterCriteria={"Filters": [1]})}, "filters messages"),
        ({"Timer": function("gone", "/", Handler="gone.handler")}, "no .*gone.py"),
        ({"A": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": {"Ref": "A"}}}}, "need each other: A -> A"),
        ({"A": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": {"Ref": "Gone"}}}}, "refers to 'Gone'"),
    ],
)
def test_what_cannot_be_done_is_an_error(running, tmp_path, changes, complaint):
    with pytest.raises(LocalError, match=complaint):
        load(read_assembly(write_assembly(tmp_path, changes)), running.stack.description.environment, patience=1)


# --- running ---


def test_a_second_stack_in_the_folder_is_refused(running):
    with pytest.raises(LocalError, match=f"process {os.getpid()}"):
        stack.up(CONFIG, running.folder / "dir")


def test_uploads_reach_the_function_and_only_what_failed_comes_again(running):
    for key in ("in/good", "in/bad", "out/side"):
        running.client("s3").put_object(Bucket="landing", Key=key, Body=b"x")
    running.client("s3").put_object(Bucket="theirs", Key="other", Body=b"x")
    # patience is one second here: on a slow machine what was handled may have come again before it was deleted, but
    # only what failed goes on coming
    eventually(
        lambda: {key: int(count) for key, count in running.recorded("buffer")},
        lambda counts: counts.get("in/bad", 0) > max(counts.get("in/good", 9), counts.get("other", 9)) + 1,
        waiting_for="what failed to come again, and nothing else",
    )
    assert "out/side" not in dict(running.recorded("buffer"))


def test_a_fifo_group_is_handled_in_order_through_a_failure(running):
    sns, topic = running.client("sns"), running.stack.outputs["Topic"]
    entries = [{"Id": each, "Message": each, "MessageGroupId": "g", "MessageDeduplicationId": each} for each in "abcd"]
    sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries)
    eventually(
        lambda: running.recorded("notices"),
        lambda recorded: ["d", "g"] in recorded,
        waiting_for="the last message of the group",
    )
    # each may have come more often: patience is one second here
    bodies = [body for body, _ in running.recorded("notices")]
    failed, again = [at for at, body in enumerate(bodies) if body == "b"][:2]
    assert bodies.index("a") < failed < again < bodies.index("c") < bodies.index("d"), "one overtook another"
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    url = running.stack.environment["TIDEGATE_NOTICES_QUEUE"]
    eventually(
        lambda: running.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"],
        lambda counts: set(counts.values()) == {"0"},
        waiting_for="the queue to be empty",
    )


def test_an_event_that_matches_invokes_its_target(running):
    application = running.client("emr-serverless").list_applications()["applications"][0]["id"]
    for state in ("RUNNING", "FAILED"):
        detail = json.dumps({"applicationId": application, "state": state})
        entry = {"Source": "aws.emr-serverless", "DetailType": f"now {state}", "Detail": detail}
        assert running.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0
    eventually(
        lambda: running.recorded("timer"),
        lambda recorded: ["now FAILED", application] in recorded,
        waiting_for="the event to arrive",
    )
    assert not any(kind == "now RUNNING" for kind, _ in running.recorded("timer"))


def test_a_function_is_invoked_as_lambdas_api_has_it(running):
    answer = running.invoke("timer", {})
    assert json.loads(answer["Payload"].read())["pid"] == running.pids()["timer"]
    failed = running.invoke("timer", {"fail": True})
    assert failed["FunctionError"] == "Unhandled"
    assert json.loads(failed["Payload"].read())["errorMessage"] == "asked to"
    assert running.invoke("timer", {}, kind="Event")["StatusCode"] == 202


@pytest.mark.parametrize(("name", "event"), [("timer", {"crash": True}), ("brief", {"sleep": 3600})])
def test_a_worker_that_dies_or_times_out_is_started_again(running, name, event):
    before = running.pids()[name]
    with contextlib.suppress(ConnectionClosedError):  # the worker may die before its 202 has left
        running.invoke(name, event, kind="Event")
    after = eventually(lambda: running.pids()[name], lambda pid: pid != before, waiting_for=f"another {name}")
    if name == "timer":
        assert json.loads(running.invoke(name, {})["Payload"].read())["pid"] == after
    else:  # it may be too slow for another invocation, too
        assert "timed out after 2" in (running.folder / "dir" / "logs" / f"{name}.log").read_text()
    assert not is_alive(before)


def test_a_worker_that_is_killed_again_and_again_is_started_every_time(running):
    for _ in range(supervisor._QUICK_DEATHS + 2):
        before = running.pids()["timer"]
        os.kill(before, signal.SIGKILL)
        eventually(
            lambda: running.pids()["timer"], lambda pid, before=before: pid != before, waiting_for="another timer"
        )
    assert json.loads(running.invoke("timer", {})["Payload"].read())["pid"] == running.pids()["timer"]


# --- the end ---

UP = """
import sys, time
from pathlib import Path
from tidegate_local import stack, supervisor
supervisor.synthesize = lambda config, folder: Path(sys.argv[2])
with stack.up(Path(sys.argv[1]), Path(sys.argv[3]), on_progress=lambda step: None) as up:
    print(*(each.child.process.pid for each in up._processes.values()), flush=True)
    up.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_however_it_ends_no_process_stays_behind(tmp_path, number):
    command = [sys.executable, "-c", UP, str(CONFIG), str(write_assembly(tmp_path)), str(tmp_path / "dir")]
    supervisor = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pids = [int(pid) for pid in supervisor.stdout.readline().split()]
    assert len(pids) == 7
    supervisor.send_signal(number)
    supervisor.wait(HANGING)
    supervisor.stdout.close()
    eventually(
        lambda: [pid for pid in pids if is_alive(pid)],
        lambda left: not left,
        waiting_for="every process of the stack to end",
    )
    assert not stack.is_running(tmp_path / "dir")


class Detached:
    """A stack of the small template in a process of its own, which may be killed with all that it started."""

    def __init__(self, folder, changes=None):
        self.folder = folder
        self.changes = changes

    def up(self):
        command = [sys.executable, "-c", UP, str(CONFIG), str(write_assembly(self.folder, self.changes))]
        self.process = subprocess.Popen(
            [*command, str(self.folder / "dir")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.pids = [int(pid) for pid in line.split()]
        self.environment = stack.describe(self.folder / "dir")
        return self.environment

    def end(self, number=signal.SIGTERM):
        if number == signal.SIGKILL:
            self.process.send_signal(signal.SIGSTOP)  # else it would start again what dies first
            for pid in self.pids:
                os.kill(pid, number)
        self.process.send_signal(number)
        self.process.wait(HANGING)
        self.process.stdout.close()
        self.process.stderr.close()

    def recorded(self, kind):
        return Running(self.folder, None).recorded(kind)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_next_stack_goes_on_where_the_one_before_ended(tmp_path, number):
    detached = Detached(tmp_path)
    before = detached.up()
    s3 = client("s3", before)
    version = s3.put_object(Bucket="landing", Key="in/1", Body=b"x")["VersionId"]
    eventually(lambda: detached.recorded("buffer"), waiting_for="the upload to be handled")
    # a message that nobody handles: it is still there
    url = client("sqs", before).get_queue_url(QueueName="small-Dead")["QueueUrl"]
    client("sqs", before).send_message(QueueUrl=url, MessageBody="dead")
    detached.end(number)
    try:
        assert detached.up() == before, "something listens elsewhere, or is called otherwise"
        (there,) = s3.list_object_versions(Bucket="landing")["Versions"]
        assert there["VersionId"] == version
        s3.put_object(Bucket="landing", Key="in/2", Body=b"x")
        eventually(
            lambda: detached.recorded("buffer"),
            lambda recorded: ["in/2", "1"] in recorded,
            waiting_for="another upload to be handled",
        )
        assert collections.Counter(key for key, _ in detached.recorded("buffer"))["in/2"] == 1, "it was notified twice"
        assert number == signal.SIGKILL or detached.recorded("buffer").count(["in/1", "1"]) == 1
        (message,) = client("sqs", before).receive_message(QueueUrl=url)["Messages"]
        assert message["Body"] == "dead"
        assert len(client("emr-serverless", before).list_applications()["applications"]) == 1
        assert len(client("sns", before).list_subscriptions()["Subscriptions"]) == 1
    finally:
        detached.end()


def test_a_port_that_is_taken_is_told_and_another_one_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "synthesize", lambda config, target: write_assembly(tmp_path))
    with stack.up(CONFIG, tmp_path / "dir", on_progress=lambda step: None) as first:
        url = first.environment["AWS_ENDPOINT_URL"]
        client("s3", first.environment).put_object(Bucket="landing", Key="k", Body=b"x")
    port = int(url.rpartition(":")[2])
    said = []
    with listen(port), stack.up(CONFIG, tmp_path / "dir", on_progress=said.append) as second:
        assert second.environment["AWS_ENDPOINT_URL"] != url
        assert client("s3", second.environment).get_object(Bucket="landing", Key="k")["Body"].read() == b"x"
    assert any(f"port {port} is taken" in line and "services" in line for line in said), said


def test_services_that_are_killed_come_back_with_all_that_they_held(running):
    s3 = running.client("s3")
    s3.put_object(Bucket="landing", Key="out/kept", Body=b"x")
    for name in ("services", "emr"):
        before = running.pids()[name]
        os.kill(before, signal.SIGKILL)
        eventually(lambda name=name: running.pids()[name], lambda pid, old=before: pid != old, waiting_for=name)
    assert s3.get_object(Bucket="landing", Key="out/kept")["Body"].read() == b"x"
    assert len(running.client("emr-serverless").list_applications()["applications"]) == 1


def test_a_changed_file_is_applied_by_a_stack_that_runs_and_by_the_next_one(tmp_path, monkeypatch, capsys):
    config = tmp_path / "tidegate.toml"
    config.write_text(CONFIG.read_text())
    changes = {}
    monkeypatch.setattr(supervisor, "synthesize", lambda config, target: write_assembly(tmp_path, changes))
    said = []
    with stack.up(config, tmp_path / "dir", on_progress=said.append, patience=1) as up:
        running = Running(tmp_path, up)
        waiting = threading.Thread(target=up.wait)
        waiting.start()
        assert stack.apply(config, tmp_path / "dir") is None, "nothing has changed"
        before = running.pids()
        config.write_text("[[route]]\nname = 'x'\n")
        with pytest.raises(LocalError, match=r"could not be applied, and the stack runs as before: .*required"):
            stack.apply(config, tmp_path / "dir")
        assert running.pids() == before
        # another key is notified, a route's notification of an existing bucket is gone, and a function is new
        other = json.loads(json.dumps(resources(tmp_path / "record")["Landing"]).replace("in/", "other/"))
        changes.update(
            {
                "Landing": other,
                "Existing": {"Type": "AWS::IAM::Role"},
                "NotificationsHandler": {"Type": "AWS::IAM::Role"},
                "Later": function("timer", tmp_path / "record", FunctionName="later"),
            }
        )
        config.write_text(CONFIG.read_text() + "\n# changed\n")
        # `resume` does it so
        with pytest.MonkeyPatch.context() as process:
            process.setattr(os, "environ", dict(os.environ))
            enter(tmp_path / "dir", up_to_date=True)
            assert "has changed: the stack in" in capsys.readouterr().err
            assert os.environ["TIDEGATE_LOCAL_STACK"] == str(tmp_path / "dir")
        assert stack.apply(config, tmp_path / "dir") is None
        after = running.pids()
        assert {name for name in after if after[name] == before.get(name)} == {"services", "emr"}
        assert json.loads(running.invoke("later", {})["Payload"].read())["pid"] == after["later"]
        s3 = running.client("s3")
        for key in ("in/x", "other/x"):
            s3.put_object(Bucket="landing", Key=key, Body=b"x")
        s3.put_object(Bucket="theirs", Key="x", Body=b"x")
        eventually(lambda: running.recorded("buffer"), waiting_for="an upload")
        assert {key for key, _ in running.recorded("buffer")} == {"other/x"}
        up.stop()
        waiting.join(HANGING)
    assert not any("is not what the stack was made from" in line for line in said)
    config.write_text(CONFIG.read_text() + "\n# changed again\n")
    changes.pop("Later")
    with stack.up(config, tmp_path / "dir", on_progress=said.append, patience=1) as up:
        assert "later" not in Running(tmp_path, up).pids()
        assert "QueueConfigurations" not in client("s3", up.environment).get_bucket_notification_configuration(
            Bucket="theirs"
        )
    assert any("is not what the stack was made from: what has changed is applied" in line for line in said)


def test_a_changed_type_is_told_as_it_is_applied_if_the_table_is_there(tmp_path, monkeypatch):
    """The batches of the route would halt."""
    config, folder = tmp_path / "tidegate.toml", tmp_path / "dir"
    config.write_text(CONFIG.read_text())
    monkeypatch.setattr(supervisor, "synthesize", lambda config, target: write_assembly(tmp_path))
    with stack.up(config, folder, on_progress=lambda step: None) as up:
        config.write_text(CONFIG.read_text().replace("flight int", "flight string"))
        assert up.apply(config)
        assert not any("flight" in note for note in up.notes)
        warehouse.fill(warehouse.opened(folder), (1,))
        config.write_text(CONFIG.read_text())
        assert up.apply(config)
        (told,) = (note for note in up.notes if "flight" in note)
        assert "table lake.flights.departures does not fit route flights, and its batches halt: " in told
        assert "it has no year" in told
        assert (folder / "deployed.toml").read_text() == CONFIG.read_text()


def test_forgetting_leaves_what_is_not_the_stacks_own(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "synthesize", lambda config, target: write_assembly(tmp_path))
    folder = tmp_path / "dir"
    with stack.up(CONFIG, folder, on_progress=lambda step: None) as up:
        client("s3", up.environment).put_object(Bucket="landing", Key="k", Body=b"x")
        with pytest.raises(LocalError, match="already"):
            stack.forget(folder)
    (folder / "mine").write_text("mine")
    assert stack.forget(folder)
    assert [each.name for each in folder.iterdir()] == ["mine"]
    (folder / "mine").unlink()
    with stack.up(CONFIG, folder, on_progress=lambda step: None) as up:
        assert up.past is Past.NONE
        assert "Contents" not in client("s3", up.environment).list_objects_v2(Bucket="landing")
    assert stack.forget(folder)
    assert not folder.exists()
    assert not stack.forget(folder)


def test_a_stack_that_cannot_start_says_why_and_leaves_nothing(tmp_path, monkeypatch):
    broken = {"Timer": function("timer", tmp_path, Handler="fakes.absent")}
    monkeypatch.setattr(supervisor, "synthesize", lambda config, target: write_assembly(tmp_path, broken))
    with pytest.raises(LocalError, match=r"timer ended with code 1(.|\n)*AttributeError"):
        stack.up(CONFIG, tmp_path / "dir", on_progress=lambda step: None)
    assert not stack.is_running(tmp_path / "dir")


def test_a_process_of_ours_imports_nothing_from_the_folder_it_runs_in(tmp_path):
    """A function's bundle has a `tidegate` of its own, and a folder of data may have any module's name."""
    (tmp_path / "tidegate").mkdir()
    (tmp_path / "tidegate" / "__init__.py").write_text("raise SystemExit('of the folder')")
    (tmp_path / "psutil.py").write_text("raise SystemExit('of the folder')")
    command = python_module("tidegate_local.guard", sys.executable, "-c", "print('ran')")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANGING, check=False)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
