"""What the emulated services hold, over the end of their process: by kill -9, with a torn file, on a full disk."""

import collections
import contextlib
import json
import os
import re
import shutil
import signal
import threading
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.patience import HANGING, eventually
from tidegate_local.durable import database
from tidegate_local.durable.database import RECEIVERS_ARE_GONE, Database
from tidegate_local.environment import client, local_environment, process_environment
from tidegate_local.errors import LocalError
from tidegate_local.processes import answers, listen, python_module, spawn, url_of

ACCOUNT = "123456789012"


class Services:
    """The services as the supervisor runs them, with their state in a folder. They may be killed and started."""

    def __init__(self, folder, listener):
        self.folder = folder
        self.listener = listener
        self.url = url_of(listener)
        self.environment = local_environment(folder, services=self.url, jobs=self.url, events=self.url, ambient={})
        self.child = None

    def start(self, command=None, **changes):
        environment = process_environment(os.environ, {**self.environment, **changes})
        command = command or python_module("tidegate_local.services", "--dir", str(self.folder))
        self.child = spawn(
            "services", command, log=self.folder / "log", environment=environment, listener=self.listener
        )
        while not answers(self.url, timeout=10):
            assert self.child.is_alive, self.child.death()
        return self

    def kill(self):
        self.child.process.send_signal(signal.SIGKILL)
        self.child.kill()

    def again(self, **changes):
        self.kill()
        return self.start(**changes)

    def client(self, service, **options):
        return client(service, self.environment, **options)

    def said(self):
        return (self.folder / "log").read_text()


@pytest.fixture
def services(tmp_path):
    with listen() as listener:
        running = Services(tmp_path, listener).start()
        yield running
        running.child.stop(5)


def queue(services, name="q", **attributes):
    return services.client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]


def bucket(services, name, *, versioned=True, notifying=None):
    s3 = services.client("s3")
    s3.create_bucket(Bucket=name)
    if versioned:
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    if notifying:
        told = {"Id": "n", "QueueArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:{notifying}", "Events": ["s3:ObjectCreated:*"]}
        s3.put_bucket_notification_configuration(Bucket=name, NotificationConfiguration={"QueueConfigurations": [told]})
    return s3


def table(services, name="t"):
    dynamodb = services.client("dynamodb")
    keys = ("pk", "sk")
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in zip(keys, ("HASH", "RANGE"), strict=True)],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    return dynamodb


def receive(services, url, **options):
    asked = {"MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    return services.client("sqs").receive_message(QueueUrl=url, **asked, **options).get("Messages", [])


def everything(services, url):
    """All that the services answer about what the test below makes."""
    s3, dynamodb, sqs, sns = (services.client(each) for each in ("s3", "dynamodb", "sqs", "sns"))
    listed = s3.list_object_versions(Bucket="versioned")
    found = {
        "buckets": [each["Name"] for each in s3.list_buckets()["Buckets"]],
        "versions": listed["Versions"],
        "markers": listed["DeleteMarkers"],
        "plain": s3.list_objects_v2(Bucket="plain").get("Contents"),
        "versioning": [s3.get_bucket_versioning(Bucket=each).get("Status") for each in ("versioned", "plain")],
        "notifications": s3.get_bucket_notification_configuration(Bucket="versioned")["QueueConfigurations"],
        "bytes": [
            s3.get_object(Bucket="versioned", Key=each["Key"], VersionId=each["VersionId"])["Body"].read()
            for each in listed["Versions"]
        ],
        "tags": s3.get_object_tagging(Bucket="plain", Key="tagged")["TagSet"],
        "head": s3.head_object(Bucket="plain", Key="tagged"),
        "items": dynamodb.scan(TableName="t")["Items"],
        "ttl": dynamodb.describe_time_to_live(TableName="t")["TimeToLiveDescription"],
        "queues": sqs.list_queues()["QueueUrls"],
        "queue": sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"],
        "subscriptions": [
            sns.get_subscription_attributes(SubscriptionArn=each["SubscriptionArn"])["Attributes"]
            for each in sns.list_subscriptions()["Subscriptions"]
        ],
    }
    found["head"].pop("ResponseMetadata")
    for name in ("CreatedTimestamp", "LastModifiedTimestamp"):
        found["queue"].pop(name)
    return json.loads(json.dumps(found, default=repr))


def test_a_killed_process_leaves_all_that_it_answered(services):
    url = queue(services, "q.fifo", FifoQueue="true", VisibilityTimeout="7")
    queue(services)
    s3 = bucket(services, "versioned", notifying="q")
    bucket(services, "plain", versioned=False)
    for body in (b"1", b"22"):
        s3.put_object(Bucket="versioned", Key="a b+c\n/ü", Body=body)
    s3.put_object(Bucket="versioned", Key="marked", Body=b"3")
    for _ in range(2):
        s3.delete_object(Bucket="versioned", Key="marked")
    for body in (b"old", b"new"):
        s3.put_object(
            Bucket="plain", Key="tagged", Body=body, Metadata={"who": "me"}, ContentType="text/x", Tagging="a=b"
        )
    s3.put_object_tagging(Bucket="plain", Key="tagged", Tagging={"TagSet": [{"Key": "c", "Value": "d"}]})
    upload = s3.create_multipart_upload(Bucket="plain", Key="parts")["UploadId"]
    etag = s3.upload_part(Bucket="plain", Key="parts", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
    s3.complete_multipart_upload(
        Bucket="plain", Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}
    )
    dynamodb = table(services)
    dynamodb.update_time_to_live(
        TableName="t", TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires_at"}
    )
    inner = {"L": [{"N": "1.50"}, {"B": b"\0\xff"}, {"NULL": True}, {"BOOL": False}]}
    dynamodb.put_item(
        TableName="t",
        Item={"pk": {"S": "a"}, "sk": {"S": "1"}, "m": {"M": {"x": inner}}, "s": {"SS": ["p", "q"]}, "b": {"B": b"\1"}},
    )
    dynamodb.update_item(
        TableName="t",
        Key={"pk": {"S": "a"}, "sk": {"S": "2"}},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )
    dynamodb.batch_execute_statement(
        Statements=[{"Statement": "INSERT INTO \"t\" VALUE {'pk': ?, 'sk': ?}", "Parameters": [{"S": "b"}, {"S": "1"}]}]
    )
    sns = services.client("sns")
    topic = sns.create_topic(Name="t.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    subscription = sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=f"arn:aws:sqs:us-east-1:{ACCOUNT}:q.fifo",
        Attributes={"RawMessageDelivery": "true"},
        ReturnSubscriptionArn=True,
    )["SubscriptionArn"]
    sns.set_subscription_attributes(
        SubscriptionArn=subscription, AttributeName="FilterPolicy", AttributeValue=json.dumps({"a": ["v"]})
    )
    attribute = {"a": {"DataType": "String", "StringValue": "v"}}
    sns.publish(
        TopicArn=topic, Message="m", MessageGroupId="g", MessageDeduplicationId="d", MessageAttributes=attribute
    )
    before = everything(services, url)
    assert before["queue"]["ApproximateNumberOfMessages"] == "1"
    services.again()
    assert everything(services, url) == before
    # and what it says of it: the message is the same, and the same message again is still a repeat
    (message,) = receive(services, url)
    assert (message["Body"], message["MessageAttributes"]) == ("m", attribute)
    sns.publish(
        TopicArn=topic, Message="m", MessageGroupId="g2", MessageDeduplicationId="d", MessageAttributes=attribute
    )
    assert receive(services, url) == []
    assert len(receive(services, services.client("sqs").get_queue_url(QueueName="q")["QueueUrl"])) == 4


def test_a_second_start_finds_what_the_first_found(services):
    """What was restored is not taken for new, and what is made after a restart is kept, too."""
    url = queue(services, "q.fifo", FifoQueue="true")
    s3, dynamodb = bucket(services, "versioned", notifying=None), table(services)
    numbers = []
    for number in range(3):
        services.again()
        s3.put_object(Bucket="versioned", Key="k", Body=str(number).encode())
        dynamodb.put_item(TableName="t", Item={"pk": {"S": "a"}, "sk": {"S": str(number)}})
        sent = services.client("sqs").send_message(
            QueueUrl=url, MessageBody=str(number), MessageGroupId="g", MessageDeduplicationId=str(number)
        )
        numbers.append(sent["SequenceNumber"])
    services.again()
    listed = s3.list_object_versions(Bucket="versioned")["Versions"]
    bodies = [s3.get_object(Bucket="versioned", Key="k", VersionId=each["VersionId"])["Body"].read() for each in listed]
    assert bodies == [b"2", b"1", b"0"]
    assert s3.get_object(Bucket="versioned", Key="k")["Body"].read() == b"2"
    assert dynamodb.scan(TableName="t")["Count"] == 3
    assert [each["Body"] for each in receive(services, url)] == ["0", "1", "2"]
    assert numbers == sorted(numbers)


def attributes_of(services, url):
    return services.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


def queue_without_its_dead_letters(services):
    """A queue with a message, whose dead-letter queue was deleted; that one's address; and the resend policy."""
    dead = queue(services, "dead")
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:dead", "maxReceiveCount": 1}
    url = queue(services, RedrivePolicy=json.dumps(policy))
    sqs = services.client("sqs")
    sqs.send_message(QueueUrl=url, MessageBody="m")
    sqs.delete_queue(QueueUrl=dead)
    return url, dead, policy


def test_a_queue_whose_dead_letter_queue_was_deleted_is_there_again_and_it_is_said(services):
    url, _, policy = queue_without_its_dead_letters(services)
    services.again()
    assert "queue q names the dead-letter queue dead, which was deleted" in services.said()
    assert json.loads(attributes_of(services, url)["RedrivePolicy"]) == policy
    for _ in range(3):  # nothing is moved anywhere
        (message,) = receive(services, url, VisibilityTimeout=0)
        assert message["Body"] == "m"
    with pytest.raises(ClientError, match="Could not find DLQ"):
        queue(services, "other", RedrivePolicy=json.dumps(policy))


def test_a_dead_letter_queue_that_was_made_anew_gets_what_is_given_up(services):
    url, dead, _ = queue_without_its_dead_letters(services)
    queue(services, "dead")
    services.again()
    assert "was deleted" not in services.said()
    assert receive(services, url, VisibilityTimeout=0)
    assert not receive(services, url, VisibilityTimeout=0)
    assert [each["Body"] for each in receive(services, dead)] == ["m"]


def test_what_was_deleted_stays_deleted(services):
    url = queue(services)
    queue(services, "gone")
    s3, dynamodb, sqs, sns = (
        bucket(services, "versioned"),
        table(services),
        services.client("sqs"),
        services.client("sns"),
    )
    table(services, "gone")
    bucket(services, "gone")
    first = s3.put_object(Bucket="versioned", Key="k", Body=b"1")["VersionId"]
    s3.put_object(Bucket="versioned", Key="k", Body=b"2")
    s3.delete_object(Bucket="versioned", Key="k", VersionId=first)
    s3.put_object(Bucket="gone", Key="k", Body=b"1")
    versions = s3.list_object_versions(Bucket="gone")["Versions"]
    s3.delete_objects(
        Bucket="gone", Delete={"Objects": [{"Key": "k", "VersionId": each["VersionId"]} for each in versions]}
    )
    s3.delete_bucket(Bucket="gone")
    for name in ("t", "gone"):
        dynamodb.put_item(TableName=name, Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
    dynamodb.delete_item(TableName="t", Key={"pk": {"S": "a"}, "sk": {"S": "b"}})
    dynamodb.delete_table(TableName="gone")
    topic = sns.create_topic(Name="topic")["TopicArn"]
    subscribed = sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:us-east-1:{ACCOUNT}:q", ReturnSubscriptionArn=True
    )
    sns.unsubscribe(SubscriptionArn=subscribed["SubscriptionArn"])
    sns.delete_topic(TopicArn=sns.create_topic(Name="gone")["TopicArn"])
    for each in ("a", "b"):
        sqs.send_message(QueueUrl=url, MessageBody=each)
        sqs.send_message(QueueUrl=url.replace("/q", "/gone"), MessageBody=each)
    received = receive(services, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=received[0]["ReceiptHandle"])
    sqs.delete_queue(QueueUrl=url.replace("/q", "/gone"))
    services.again(**{RECEIVERS_ARE_GONE: "1"})
    (left,) = s3.list_object_versions(Bucket="versioned")["Versions"]
    assert s3.get_object(Bucket="versioned", Key="k")["Body"].read() == b"2"
    assert left["VersionId"] != first
    assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == ["versioned"]
    assert dynamodb.list_tables()["TableNames"] == ["t"]
    assert dynamodb.scan(TableName="t")["Items"] == []
    assert [each["TopicArn"] for each in sns.list_topics()["Topics"]] == [topic]
    assert sns.list_subscriptions()["Subscriptions"] == []
    assert sqs.list_queues()["QueueUrls"] == [url]
    assert [each["Body"] for each in receive(services, url)] == [received[1]["Body"]]


def test_messages_in_flight_come_back_and_their_receipts_hold(services):
    url = queue(services, VisibilityTimeout="600")
    sqs = services.client("sqs")
    for body in ("held", "lost"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    held, lost = sorted(receive(services, url), key=lambda each: each["Body"])
    services.again()  # the services alone: whoever received a message still has it
    assert receive(services, url) == []
    sqs.delete_message(QueueUrl=url, ReceiptHandle=held["ReceiptHandle"])
    services.again(**{RECEIVERS_ARE_GONE: "1"})
    (again,) = receive(services, url)
    assert again["MessageId"] == lost["MessageId"]
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    assert again["Attributes"]["SentTimestamp"] == lost["Attributes"]["SentTimestamp"]


def test_a_message_that_was_received_too_often_is_a_dead_letter_once(services):
    dead = queue(services, "dead")
    policy = json.dumps({"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:dead", "maxReceiveCount": 2})
    url = queue(services, RedrivePolicy=policy, VisibilityTimeout="0")
    services.client("sqs").send_message(QueueUrl=url, MessageBody="poison")
    for _ in range(2):
        assert len(receive(services, url)) == 1
        services.again()
    assert receive(services, url) == []
    services.again()
    assert receive(services, url) == []
    assert [each["Body"] for each in receive(services, dead)] == ["poison"]


def test_killed_among_many_requests_each_is_done_or_not_done_and_what_was_answered_is_done(services):
    """An object and its notification come together or not at all. What held for one holds for nobody else."""
    url = queue(services)
    bucket(services, "versioned", notifying="q")
    table(services)
    stop = threading.Event()
    put, won, sent = {}, [], []

    def work(worker):
        s3, dynamodb, sqs = (services.client(each) for each in ("s3", "dynamodb", "sqs"))
        number = 0
        while not stop.is_set():
            number += 1
            with contextlib.suppress(ClientError, BotoCoreError):
                put[f"{worker}/{number}"] = s3.put_object(
                    Bucket="versioned", Key=f"{worker}/{number}", Body=os.urandom(2000)
                )["VersionId"]
            with contextlib.suppress(ClientError, BotoCoreError):
                key = {"pk": {"S": "race"}, "sk": {"S": str(number)}}
                dynamodb.put_item(
                    TableName="t", Item={**key, "who": {"S": worker}}, ConditionExpression="attribute_not_exists(pk)"
                )
                won.append((str(number), worker))
            with contextlib.suppress(ClientError, BotoCoreError):
                sqs.send_message(QueueUrl=url, MessageBody=f"sent {worker}/{number}")
                sent.append(f"sent {worker}/{number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for each in threads:
        each.start()
    try:
        for _ in range(4):
            before = len(put)
            eventually(lambda before=before: len(put) > before + 30, waiting_for="more uploads")
            services.again()
    finally:
        stop.set()
        for each in threads:
            each.join(HANGING)
    s3, dynamodb = services.client("s3"), services.client("dynamodb")
    pages = s3.get_paginator("list_object_versions").paginate(Bucket="versioned")
    there = [(each["Key"], each["VersionId"]) for page in pages for each in page["Versions"]]
    assert set(put.items()) <= set(there)
    for key, version in there:
        assert len(s3.get_object(Bucket="versioned", Key=key, VersionId=version)["Body"].read()) == 2000
    bodies = []
    while messages := receive(services, url, VisibilityTimeout=600):
        bodies += [each["Body"] for each in messages]
    told = collections.Counter(
        (record["s3"]["object"]["key"], record["s3"]["object"]["versionId"])
        for body in bodies
        if body.startswith("{")
        for record in json.loads(body).get("Records", [])
    )
    assert told == collections.Counter(there)
    said = collections.Counter(body for body in bodies if body.startswith("sent"))
    assert set(sent) <= set(said)
    pages = dynamodb.get_paginator("scan").paginate(TableName="t")
    winners = {item["sk"]["S"]: item["who"]["S"] for page in pages for item in page["Items"]}
    assert len(won) == len(dict(won)), "two were told that they came first"
    assert dict(won).items() <= winners.items()


@pytest.mark.parametrize("cut", [1, 1_000, 5_000, 40_000])
def test_a_torn_end_of_the_file_costs_what_was_in_it_and_no_more(services, tmp_path, cut):
    """As a power cut may leave it: the end of the write-ahead log is missing."""
    s3 = bucket(services, "versioned", notifying=None)
    for number in range(20):
        s3.put_object(Bucket="versioned", Key=f"{number:02}", Body=os.urandom(3000))
    services.kill()
    log = tmp_path / database.FOLDER / f"{database.FILE}-wal"
    assert log.stat().st_size > cut
    os.truncate(log, log.stat().st_size - cut)
    services.start()
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket="versioned")["Contents"]]
    assert keys == [f"{number:02}" for number in range(len(keys))], "something is missing in the middle"
    assert len(keys) < 20
    for key in keys:
        assert len(s3.get_object(Bucket="versioned", Key=key)["Body"].read()) == 3000


def test_a_full_disk_ends_the_services_before_they_answer(services, tmp_path):
    s3 = bucket(services, "versioned")
    services.kill()
    command = python_module("tidegate_local.services", "--dir", str(tmp_path))
    # no file may become larger than 200 kB
    services.start(["bash", "-c", 'ulimit -f 200; exec "$@"', "limited", *command])
    impatient = services.client("s3", read_timeout=2)
    answered = []

    def fill():
        for number in range(100):
            impatient.put_object(Bucket="versioned", Key=str(number), Body=os.urandom(20_000))
            answered.append(str(number))

    with pytest.raises(BotoCoreError):
        fill()
    assert services.child.process.wait(HANGING) == 1
    assert re.search(r"services\.db cannot be written .*is the disk full\?", services.said())
    services.start()
    keys = {each["Key"] for each in s3.list_objects_v2(Bucket="versioned")["Contents"]}
    assert keys == set(answered)
    s3.put_object(Bucket="versioned", Key="now there is room", Body=b"x")


def test_what_is_seldom_asked_for_is_kept_too(services):
    """Nobody lists what may be asked: what is not known to change only data is taken for a definition."""
    s3, dynamodb, sqs = bucket(services, "versioned"), table(services), services.client("sqs")
    s3.put_object(Bucket="versioned", Key="k", Body=b"1")
    s3.put_object_acl(Bucket="versioned", Key="k", ACL="public-read")
    s3.put_bucket_tagging(Bucket="versioned", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    for sort in "bc":
        dynamodb.put_item(TableName="t", Item={"pk": {"S": "a"}, "sk": {"S": sort}})
    dynamodb.execute_statement(Statement="DELETE FROM \"t\" WHERE pk = 'a' AND sk = 'b'")
    url = queue(services)
    sqs.add_permission(QueueUrl=url, Label="l", AWSAccountIds=[ACCOUNT], Actions=["SendMessage"])
    services.again()
    assert len(s3.get_object_acl(Bucket="versioned", Key="k")["Grants"]) == 2
    assert s3.get_bucket_tagging(Bucket="versioned")["TagSet"] == [{"Key": "a", "Value": "b"}]
    assert [each["sk"]["S"] for each in dynamodb.scan(TableName="t")["Items"]] == ["c"]
    assert json.loads(attributes_of(services, url)["Policy"])["Statement"][0]["Sid"] == "l"


def test_one_process_has_the_file(services, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.1)
    with pytest.raises(LocalError, match="another process uses"):
        Database(tmp_path / database.FOLDER)


def test_bytes_leave_the_memory_and_rows_leave_the_file(services, tmp_path):
    s3 = bucket(services, "plain", versioned=False)
    for _ in range(3):
        s3.put_object(Bucket="plain", Key="k", Body=os.urandom(100_000))
    services.kill()
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / database.FOLDER, copy)
    there = Database(copy)
    assert [count for (count,) in there.rows("SELECT count(*) FROM contents")] == [1]
    there.close()
    services.start()
    assert len(s3.get_object(Bucket="plain", Key="k", Range="bytes=5-9")["Body"].read()) == 5


def test_the_file_does_not_grow_with_each_start(services, tmp_path):
    def define():
        queue(services, VisibilityTimeout="30")
        services.client("sqs").set_queue_attributes(
            QueueUrl=services.client("sqs").get_queue_url(QueueName="q")["QueueUrl"],
            Attributes={"VisibilityTimeout": "30"},
        )
        bucket(services, "versioned", notifying="q")

    counts = []
    for _ in range(3):
        define()
        services.kill()
        with contextlib.closing(Database(tmp_path / database.FOLDER)) as there:
            counts += [count for (count,) in there.rows("SELECT count(*) FROM definitions")]
        services.start()
    assert counts[0] == counts[1] == counts[2]


def test_a_file_of_another_version_is_not_read(tmp_path):
    folder = Path(tmp_path, "state")
    there = Database(folder)
    there._connection.execute("PRAGMA user_version = 99")
    there.close()
    assert database.version_of(folder) == 99
    with pytest.raises(LocalError, match="of version 99, and this Tidegate reads version 2"):
        Database(folder)
