"""The alarms of the queues, and of what is among the dead letters."""

import json

import boto3

from tests.functional.runbook import scenario
from tests.functional.runbook.parts import MAPPING
from tests.functional.runbook.stage import Stage
from tests.support.build import notice, s3_message, s3_record
from tests.support.faults import answered
from tidegate import wiring

DENIED = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}


def send(url: str, body: str, reason: str = "") -> None:
    """What intake or dispatch sets aside has a reason."""
    group = {"MessageGroupId": "g", "MessageDeduplicationId": body[:100]} if url.endswith(".fifo") else {}
    told = {"reason": {"DataType": "String", "StringValue": reason}} if reason else {}
    wiring._client("sqs").send_message(QueueUrl=url, MessageBody=body, MessageAttributes=told, **group)


def count(url: str) -> int:
    """What the alarm of a queue of dead letters looks at."""
    asked = wiring._client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return int(asked["Attributes"]["ApproximateNumberOfMessages"])


@scenario("messages-stuck")
def the_topic_refuses_and_the_mapping_is_off(stage: Stage) -> None:
    named, sns = stage.deployment.resources, wiring._client("sns")
    body = s3_message(s3_record("flights/a.json"))
    send(named.buffer, body)
    sns.delete_topic(TopicArn=named.topic)
    given_back = stage.invoke("intake", stage.notifications(body))["batchItemFailures"]
    assert len(given_back) == 1
    assert "given back" in stage.types("given back")
    assert "could not publish" in stage.types("log Intake ERROR")
    assert '"ApproximateNumberOfMessages": "1"' in stage.types("$TIDEGATE_BUFFER")
    mapping = stage.parts["Intake", MAPPING]
    boto3.client("lambda").update_event_source_mapping(UUID=mapping, Enabled=False)
    rows = json.loads(stage.types("list-event-source-mappings"))
    assert [state for _, state, uuid in rows if uuid == mapping] == ["Disabled"]
    stage.types("update-event-source-mapping", UUID=mapping)
    assert boto3.client("lambda").get_event_source_mapping(UUID=mapping)["State"] == "Enabled"
    sns.create_topic(Name=named.topic.rpartition(":")[2], Attributes={"FifoTopic": "true"})
    assert stage.invoke("intake", stage.notifications(body)) == {"batchItemFailures": []}


@scenario("messages-stuck")
def the_ledger_refuses(stage: Stage) -> None:
    stage.upload("flights/a.json")
    (body,) = stage.deployment.bodies(stage.deployment.resources.notices)
    send(stage.deployment.resources.notices, body)
    with answered(wiring._client("dynamodb"), "PutItem", 400, DENIED):
        (given_back,) = stage.deliver()
    assert "AccessDenied" in stage.types("log Dispatch ERROR")
    send(stage.deployment.resources.notices, f" {given_back}")
    assert '"ApproximateNumberOfMessages": "1"' in stage.types("$TIDEGATE_NOTICES")
    # the cause is gone
    assert stage.deliver() == []
    assert stage.deployment.ledger.route("flights").open_batch


@scenario("dead-letters")
def some_can_be_saved_and_garbage_cannot(stage: Stage) -> None:
    named = stage.deployment.resources
    send(named.dead_letters, s3_message(s3_record("flights/a.json")))
    send(named.dead_letters, "this is no JSON", "not JSON")
    seen = stage.types('$TIDEGATE_DEAD_LETTERS" --message')
    assert "not JSON" in seen
    assert "flights/a.json" in seen
    assert "this is no JSON" in stage.types("--dry-run", ends=1)
    assert count(named.dead_letters) == 2
    stage.types("resend dead-letters", ends=1)  # garbage stays
    assert (count(named.dead_letters), count(named.buffer)) == (1, 1)
    (body,) = stage.deployment.bodies(named.buffer)
    stage.invoke("intake", stage.notifications(body))
    assert stage.deliver() == []
    assert stage.deployment.ledger.claims("landing", "flights/a.json")
    ((handle, body),) = json.loads(stage.types("Messages[]"))
    assert body == "this is no JSON"
    stage.types("delete-message", HANDLE=handle)
    assert count(named.dead_letters) == 0, "the alarm ends"


@scenario("dead-letters")
def a_route_was_not_deployed(stage: Stage) -> None:
    named = stage.deployment.resources
    stage.submitted("flights/landed.json")
    send(named.notices_dead_letters, notice("flights/late.json").encode())
    send(named.notices_dead_letters, notice("trains/a.json", route="trains").encode())
    assert "trains" in stage.types("$TIDEGATE_NOTICES_DEAD_LETTERS")
    assert "trains" in stage.types("--dry-run", ends=1)
    stage.types("resend dead-letters", ends=1)  # nobody knows the route
    assert (count(named.notices_dead_letters), count(named.notices)) == (1, 1)
    assert stage.deliver() == []
    assert stage.deployment.ledger.claims("landing", "flights/late.json")
    stage.deploys(lambda text: text + text[text.rindex("[[route]]") :].replace("weather", "trains"))
    stage.types("resend dead-letters")
    assert count(named.notices_dead_letters) == 0, "the alarm ends"
    assert stage.deliver() == []
    assert stage.deployment.ledger.claims("landing", "trains/a.json")


@scenario("dead-letters")
def a_stranger_sends_something(stage: Stage) -> None:
    assert stage.invoke("intake", stage.notifications("this is no JSON")) == {"batchItemFailures": []}
    assert stage.metrics["RecordsSetAside", ""] == 1
    assert "not JSON" in stage.types("--dry-run", ends=1)
    stage.metrics.clear()
    stage.upload("flights/a.json")
    assert ("RecordsSetAside", "") not in stage.metrics, "intake went on"
