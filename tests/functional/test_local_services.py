"""The emulated services, as a process: what the product relies on and plain moto does not give."""

import http.client
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError

from tidegate_local.environment import client, local_environment, process_environment
from tidegate_local.processes import answers, listen, python_module, spawn, url_of


@contextmanager
def running(folder, command=None):
    """The services as the supervisor starts them, and the environment that talks to them."""
    with listen() as listener:
        url = url_of(listener)
        local = local_environment(folder, services=url, jobs=url, events=url, ambient={})
        environment = process_environment(os.environ, local)
        child = spawn(
            "services",
            command or python_module("tidegate_local.services"),
            log=folder / "log",
            environment=environment,
            listener=listener,
        )
        try:
            while not answers(url, timeout=10):
                assert child.is_alive, child.death()
            yield local
        finally:
            child.stop(5)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    with running(tmp_path_factory.mktemp("services")) as local:
        yield local


@pytest.fixture(scope="module")
def sqs(environment):
    return client("sqs", environment)


@pytest.fixture(scope="module")
def s3(environment):
    return client("s3", environment, max_pool_connections=16)


@pytest.fixture(scope="module")
def dynamodb(environment):
    return client("dynamodb", environment, max_pool_connections=16)


def receive(sqs, url, **options):
    asked = {"MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"], **options}
    return sqs.receive_message(QueueUrl=url, **asked).get("Messages", [])


# --- S3 ---


def notified(s3, sqs, bucket, versioning, prefix=None, events=("s3:ObjectCreated:*",)):
    url = sqs.create_queue(QueueName=bucket)["QueueUrl"]
    s3.create_bucket(Bucket=bucket)
    if versioning:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    queue = {"QueueArn": f"arn:aws:sqs:us-east-1:123456789012:{bucket}", "Events": [*events]}
    if prefix:
        queue["Filter"] = {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}}
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [queue]})
    (test_event,) = receive(sqs, url)
    assert json.loads(test_event["Body"])["Event"] == "s3:TestEvent"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=test_event["ReceiptHandle"])
    return url


def test_a_notification_names_the_version_that_a_listing_names(s3, sqs):
    url = notified(s3, sqs, "versioned", versioning=True)
    for body in (b"1", b"22"):
        s3.put_object(Bucket="versioned", Key="d/a b+c.json", Body=body)
    records = [json.loads(message["Body"])["Records"][0] for message in receive(sqs, url)]
    told = {(each["s3"]["object"]["versionId"], each["s3"]["object"]["size"]) for each in records}
    versions = s3.list_object_versions(Bucket="versioned")["Versions"]
    assert told == {(each["VersionId"], each["Size"]) for each in versions}
    assert records[0]["s3"]["object"]["key"] == "d/a+b%2Bc.json"
    first, second = (each["s3"]["object"]["sequencer"] for each in records)
    assert first < second


def test_every_character_of_a_key_is_told_as_s3_encodes_it(s3, sqs):
    url = notified(s3, sqs, "characters", versioning=False)
    for key in ("d/a b+c.json", "!-_.*'()/1"):
        s3.put_object(Bucket="characters", Key=key, Body=b"1")
    keys = [json.loads(message["Body"])["Records"][0]["s3"]["object"]["key"] for message in receive(sqs, url)]
    assert keys == ["d/a+b%2Bc.json", "!-_.*'()/1"]


def test_a_notification_of_an_unversioned_bucket_names_no_version(s3, sqs):
    url = notified(s3, sqs, "unversioned", versioning=False)
    etag = s3.put_object(Bucket="unversioned", Key="k", Body=b"1")["ETag"]
    (message,) = receive(sqs, url)
    details = json.loads(message["Body"])["Records"][0]["s3"]["object"]
    assert "versionId" not in details
    assert details["eTag"] == etag.strip('"')


def test_every_way_to_create_an_object_is_told_once(s3, sqs):
    url = notified(s3, sqs, "created", versioning=True)
    s3.put_object(Bucket="created", Key="put", Body=b"1")
    s3.copy_object(Bucket="created", Key="copy", CopySource={"Bucket": "created", "Key": "put"})
    where = {"Bucket": "created", "Key": "parts"}
    upload = s3.create_multipart_upload(**where)["UploadId"]
    etag = s3.upload_part(**where, UploadId=upload, PartNumber=1, Body=b"1")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    s3.complete_multipart_upload(**where, UploadId=upload, MultipartUpload=parts)
    s3.delete_object(Bucket="created", Key="put")
    records = [json.loads(message["Body"])["Records"][0] for message in receive(sqs, url)]
    assert [(each["eventName"], each["s3"]["object"]["key"]) for each in records] == [
        ("ObjectCreated:Put", "put"),
        ("ObjectCreated:Copy", "copy"),
        ("ObjectCreated:CompleteMultipartUpload", "parts"),
    ]


def test_a_deletion_is_told_with_its_marker(s3, sqs):
    url = notified(s3, sqs, "deleted", versioning=True, events=["s3:ObjectRemoved:DeleteMarkerCreated"])
    s3.put_object(Bucket="deleted", Key="a b", Body=b"1")
    marker = s3.delete_object(Bucket="deleted", Key="a b")["VersionId"]
    records = [json.loads(message["Body"])["Records"][0] for message in receive(sqs, url)]
    told = [(each["eventName"], each["s3"]["object"]["key"], each["s3"]["object"]["versionId"]) for each in records]
    assert told == [("ObjectRemoved:DeleteMarkerCreated", "a+b", marker)]


def test_filters_are_written_as_notifications_write_keys(s3, sqs):
    url = notified(s3, sqs, "filtered", versioning=False, prefix="a+b/")
    for key in ("a b/1", "a+b/2", "a b2"):
        s3.put_object(Bucket="filtered", Key=key, Body=b"1")
    keys = [json.loads(message["Body"])["Records"][0]["s3"]["object"]["key"] for message in receive(sqs, url)]
    assert keys == ["a+b/1"]


def test_a_key_may_hold_a_line_break(s3):
    s3.create_bucket(Bucket="lines")
    for key in ("a", "a\nb", "a\nb/c"):
        s3.put_object(Bucket="lines", Key=key, Body=key.encode())
    assert s3.get_object(Bucket="lines", Key="a\nb")["Body"].read() == b"a\nb"
    assert [each["Key"] for each in s3.list_objects_v2(Bucket="lines")["Contents"]] == ["a", "a\nb", "a\nb/c"]


def test_a_listing_goes_on_after_any_text(s3):
    s3.create_bucket(Bucket="markers")
    s3.put_bucket_versioning(Bucket="markers", VersioningConfiguration={"Status": "Enabled"})
    for key in ("b", "b", "d", "d", "f"):
        s3.put_object(Bucket="markers", Key=key, Body=b"")
    for marker, follows in {"a": "bbddf", "b": "ddf", "c": "ddf", "d": "f", "e": "f", "f": "", "g": ""}.items():
        found = s3.list_object_versions(Bucket="markers", KeyMarker=marker).get("Versions", [])
        assert "".join(each["Key"] for each in found) == follows, marker


def test_listing_versions_leaves_the_objects_readable(s3):
    s3.create_bucket(Bucket="listed")
    s3.put_bucket_versioning(Bucket="listed", VersioningConfiguration={"Status": "Enabled"})
    versions = [s3.put_object(Bucket="listed", Key="k", Body=bytes([each]))["VersionId"] for each in range(3)]
    s3.delete_object(Bucket="listed", Key="k")
    for _ in range(2):
        listing = s3.list_object_versions(Bucket="listed")
        assert {each["VersionId"] for each in listing["Versions"]} == set(versions)
        assert [each["IsLatest"] for each in listing["DeleteMarkers"]] == [True]
    bodies = [s3.get_object(Bucket="listed", Key="k", VersionId=each)["Body"].read() for each in versions]
    assert bodies == [b"\0", b"\1", b"\2"]


def test_one_of_many_conditional_puts_of_an_object_wins(s3):
    s3.create_bucket(Bucket="contended")

    def put(number):
        try:
            s3.put_object(Bucket="contended", Key="floor.json", Body=str(number).encode(), IfNoneMatch="*")
        except ClientError as error:
            return error.response["Error"]["Code"]
        return number

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(put, range(64)))
    (winner,) = [each for each in answers if each != "PreconditionFailed"]
    assert s3.get_object(Bucket="contended", Key="floor.json")["Body"].read() == str(winner).encode()


# --- SQS ---


def fifo(sqs, name, **attributes):
    attributes = {"FifoQueue": "true", "VisibilityTimeout": "1", **attributes}
    return sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]


def send(sqs, url, body, group="g", deduplication=None):
    sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group, MessageDeduplicationId=deduplication or body)


def test_a_failed_fifo_batch_comes_back_in_order_and_blocks_its_group_until_then(sqs):
    url = fifo(sqs, "order")
    for number in range(4):
        send(sqs, url, str(number))
    assert [each["Body"] for each in receive(sqs, url, MaxNumberOfMessages=3)] == ["0", "1", "2"]
    assert receive(sqs, url) == []
    again = receive(sqs, url, WaitTimeSeconds=5)
    assert [each["Body"] for each in again] == ["0", "1", "2", "3"]
    assert [each["Attributes"]["ApproximateReceiveCount"] for each in again] == ["2", "2", "2", "1"]
    sequence = [each["Attributes"]["SequenceNumber"] for each in again]
    assert sequence == sorted(sequence)


def test_deduplication_survives_the_message(sqs):
    url = fifo(sqs, "deduplication")
    send(sqs, url, "a", deduplication="1")
    (message,) = receive(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    send(sqs, url, "a", deduplication="1")
    assert receive(sqs, url) == []


def test_dead_letters_keep_their_order(sqs):
    dead = fifo(sqs, "dead")
    arn = "arn:aws:sqs:us-east-1:123456789012:dead.fifo"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = fifo(sqs, "living", RedrivePolicy=policy, VisibilityTimeout="0")
    for number in range(3):
        send(sqs, url, str(number))
    assert len(receive(sqs, url)) == 3
    assert receive(sqs, url) == []
    assert [each["Body"] for each in receive(sqs, dead)] == ["0", "1", "2"]


def test_a_receiver_waits_for_what_comes(sqs):
    """How soon it is woken: tests/unit/test_local_mended_queues.py."""
    url = sqs.create_queue(QueueName="waiting")["QueueUrl"]
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(receive, sqs, url, WaitTimeSeconds=20)
        time.sleep(0.3)
        sqs.send_message(QueueUrl=url, MessageBody="x")
        assert [each["Body"] for each in waiting.result()] == ["x"]


def test_a_queue_counts_and_purges(sqs):
    url = sqs.create_queue(QueueName="counted")["QueueUrl"]
    for number in range(5):
        sqs.send_message(QueueUrl=url, MessageBody=str(number), DelaySeconds=60 if number == 4 else 0)
    receive(sqs, url, MaxNumberOfMessages=1)
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    kinds = ("", "NotVisible", "Delayed")
    assert [attributes[f"ApproximateNumberOfMessages{each}"] for each in kinds] == ["3", "1", "1"]
    sqs.purge_queue(QueueUrl=url)
    assert receive(sqs, url) == []


# --- DynamoDB ---


@pytest.fixture(scope="module")
def table(dynamodb):
    return make_table(dynamodb, "ledger")


def make_table(dynamodb, name):
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    return name


def key(pk, sk="-"):
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def test_one_of_many_conditional_puts_of_an_item_wins(dynamodb, table):
    def put(number):
        try:
            dynamodb.put_item(
                TableName=table,
                Item={**key("contended"), "owner": {"S": str(number)}},
                ConditionExpression="attribute_not_exists(pk)",
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            return None
        return number

    with ThreadPoolExecutor(16) as threads:
        winners = [each for each in threads.map(put, range(64)) if each is not None]
    assert len(winners) == 1


def test_an_insert_leaves_what_is_there(dynamodb):
    table = make_table(dynamodb, "inserted")

    def insert(*items):
        statement = f"INSERT INTO \"{table}\" VALUE {{'pk': ?, 'sk': ?, 'owner': ?}}"
        statements = [{"Statement": statement, "Parameters": list(each.values())} for each in items]
        answers = dynamodb.batch_execute_statement(Statements=statements)["Responses"]
        return [each.get("Error", {}).get("Code", "") for each in answers]

    first, second, other = ({**key("inserted", sk), "owner": {"S": owner}} for sk, owner in ("1a", "2b", "1c"))
    assert insert(first, second) == ["", ""]
    assert insert(other, {**other, **key("inserted", "3")}) == ["DuplicateItem", ""]
    assert dynamodb.get_item(TableName=table, Key=key("inserted", "1"))["Item"] == first
    with pytest.raises(ClientError, match="duplicates"):
        insert(other, other)


def test_a_cancelled_transaction_leaves_nothing_behind(dynamodb, table):
    dynamodb.put_item(TableName=table, Item={**key("batch"), "count": {"N": "1"}})
    dynamodb.put_item(TableName=table, Item=key("taken"))
    absent = "attribute_not_exists(pk)"
    count = {
        "TableName": table,
        "Key": key("batch"),
        "UpdateExpression": "ADD #c :one",
        "ExpressionAttributeNames": {"#c": "count"},
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as cancelled:
        dynamodb.transact_write_items(
            TransactItems=[
                {"Update": count},
                {"Put": {"TableName": table, "Item": key("new"), "ConditionExpression": absent}},
                {"Delete": {"TableName": table, "Key": key("taken")}},
                {"Put": {"TableName": table, "Item": key("batch", "other")}},
                {
                    "ConditionCheck": {
                        "TableName": table,
                        "Key": key("batch", "third"),
                        "ConditionExpression": "attribute_exists(pk)",
                    }
                },
            ]
        )
    codes = [each["Code"] for each in cancelled.value.response["CancellationReasons"]]
    assert codes == ["None", "None", "None", "None", "ConditionalCheckFailed"]

    def found(pk):
        return dynamodb.query(
            TableName=table, KeyConditionExpression="pk = :p", ExpressionAttributeValues={":p": {"S": pk}}
        )["Items"]

    assert found("batch") == [{**key("batch"), "count": {"N": "1"}}]
    assert found("new") == []
    assert found("taken") == [key("taken")]

    dynamodb.transact_write_items(TransactItems=[{"Update": count}, {"Put": {"TableName": table, "Item": key("new")}}])
    assert found("batch")[0]["count"] == {"N": "2"}
    assert found("new") == [key("new")]


def test_a_query_finds_its_partition_in_order(dynamodb, table):
    for sk in ("3", "1", "2"):
        dynamodb.put_item(TableName=table, Item=key("partition", sk))
    dynamodb.put_item(TableName=table, Item=key("partition-2", "0"))
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="pk = :p AND sk > :s",
        ExpressionAttributeValues={":p": {"S": "partition"}, ":s": {"S": "1"}},
        PaginationConfig={"PageSize": 1},
    )
    assert [item["sk"]["S"] for page in pages for item in page["Items"]] == ["2", "3"]
    assert dynamodb.scan(TableName=table, Select="COUNT")["Count"] >= 4


# --- who may ask ---


def test_a_web_page_may_not(environment):
    request = urllib.request.Request(f"{environment['AWS_ENDPOINT_URL']}/", headers={"Origin": "http://evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code == 403


SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host"}


def test_a_page_whose_name_was_made_to_lead_here_reads_no_bucket_and_no_queue(environment, s3, sqs):
    """DNS rebinding: for the browser the endpoint is the page's own site, and the bucket a part of its name."""
    s3.create_bucket(Bucket="rebound")
    s3.put_object(Bucket="rebound", Key="secret.json", Body=b"the secret")
    queue = sqs.create_queue(QueueName="rebound")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="the secret")
    receive = f"/?Action=ReceiveMessage&Version=2012-11-05&QueueUrl={queue}"
    for host in ("evil.example", "rebound.evil.example", "rebound.s3.amazonaws.com", ""):
        for path, headers in (
            ("/?list-type=2", {}),
            ("/rebound/secret.json", {}),
            ("/secret.json?X-Amz-Signature=0&X-Amz-Algorithm=AWS4-HMAC-SHA256", {}),
            ("/moto-api/data.json", {}),
            ("/_outages", {}),
            (receive, SIGNED),
        ):
            status, body = got(environment, host, path, headers)
            assert (status, b"secret" in body) == (403, False), (host, path)
    assert len(sqs.receive_message(QueueUrl=queue).get("Messages", [])) == 1


def got(environment, host, path, headers):
    connection = http.client.HTTPConnection(environment["AWS_ENDPOINT_URL"].removeprefix("http://"), timeout=20)
    connection.request("GET", path, headers={"Host": host, **headers})
    with connection.getresponse() as response:
        return response.status, response.read()


def test_plain_boto3_needs_nothing_but_the_environment(environment, tmp_path):
    script = (
        "import boto3; s3 = boto3.client('s3'); s3.create_bucket(Bucket='plain');"
        "s3.put_object(Bucket='plain', Key='k', Body=b'x');"
        "print(s3.get_object(Bucket='plain', Key='k')['Body'].read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=process_environment(os.environ, environment),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "b'x'\n"
