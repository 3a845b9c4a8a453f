"""Each mend of moto is left out in turn, and what it is for goes wrong. If it does not, moto needs it no more."""

import inspect
import json
import os
import subprocess
import sys

import pytest
from botocore.exceptions import ClientError

from tests.functional import test_local_services as services
from tidegate_local.environment import client
from tidegate_local.mends import MENDS

WITHOUT = """
import functools, sys
from tidegate_local import services
services.mend = functools.partial(services.mend, but=sys.argv.pop(1))
services.main()
"""

TOLD = [
    ("notifications_name_the_version", services.test_a_notification_names_the_version_that_a_listing_names),
    ("notifications_of_a_key_are_in_order", services.test_a_notification_names_the_version_that_a_listing_names),
    ("notifications_encode_keys", services.test_every_character_of_a_key_is_told_as_s3_encodes_it),
    ("filters_are_compared_with_encoded_keys", services.test_filters_are_written_as_notifications_write_keys),
    ("a_multipart_upload_is_told_when_it_completes", services.test_every_way_to_create_an_object_is_told_once),
    ("a_delete_marker_is_told", services.test_a_deletion_is_told_with_its_marker),
    ("keys_may_hold_line_breaks", services.test_a_key_may_hold_a_line_break),
    ("a_listing_of_versions_goes_on_after_any_text", services.test_a_listing_goes_on_after_any_text),
    ("queues_keep_order_and_deduplication", services.test_deduplication_survives_the_message),
    (
        "queues_keep_order_and_deduplication",
        services.test_a_failed_fifo_batch_comes_back_in_order_and_blocks_its_group_until_then,
    ),
    ("inserts_put_what_is_not_there", services.test_an_insert_leaves_what_is_there),
]
"""Each mend with a test of the services that needs it."""

COSTS = """
import collections, json, sys
from tidegate_local.mends import mend
mend(but=sys.argv[1])

import boto3
from moto import mock_aws
from moto.dynamodb.models.dynamo_type import Item
from moto.dynamodb.models.table import Table
from moto.s3.models import FakeKey

counts = collections.Counter()
state, copied, all_items = FakeKey.__getstate__, Item.__deepcopy__, Table.all_items
FakeKey.__getstate__ = lambda key: counts.update(objects=1) or state(key)
Item.__deepcopy__ = lambda item, memo: counts.update(items=1) or copied(item, memo)
def counted(table):
    found = list(all_items(table))
    counts.update(read=len(found))
    return found
Table.all_items = counted

with mock_aws():
    s3 = boto3.client("s3", "us-east-1")
    s3.create_bucket(Bucket="objects")
    s3.put_bucket_versioning(Bucket="objects", VersioningConfiguration={"Status": "Enabled"})
    dynamodb = boto3.client("dynamodb", "us-east-1")
    keys = [("pk", "HASH"), ("sk", "RANGE")]
    dynamodb.create_table(
        TableName="t",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
    )
    for number in range(20):
        s3.put_object(Bucket="objects", Key=str(number), Body=b"1")
        dynamodb.put_item(TableName="t", Item={"pk": {"S": f"p{number % 10}"}, "sk": {"S": str(number)}})
    results = {}

    counts.clear()
    assert len(s3.list_object_versions(Bucket="objects")["Versions"]) == 20
    results["a_listing_copies_no_object"] = counts["objects"]

    counts.clear()
    found = dynamodb.query(
        TableName="t", KeyConditionExpression="pk = :p", ExpressionAttributeValues={":p": {"S": "p3"}}
    )["Items"]
    assert [each["sk"]["S"] for each in found] == ["13", "3"]
    results["a_query_reads_its_partition_only"] = counts["read"]

    counts.clear()
    item = {"pk": {"S": "p1"}, "sk": {"S": "1"}}
    dynamodb.transact_write_items(TransactItems=[{"Put": {"TableName": "t", "Item": item}}])
    results["a_transaction_copies_its_items_only"] = counts["items"]
print(json.dumps(results))
"""

DEAR = {
    "a_listing_copies_no_object": (0, 20),
    "a_query_reads_its_partition_only": (2, 20),
    "a_transaction_copies_its_items_only": (1, 20),
}
"""By mend, the most objects or items that the work may touch with it, and the least without it."""


def test_every_mend_has_a_test():
    assert [each.__name__ for each in MENDS] == [*dict(TOLD), *DEAR]
    assert all("https://docs.aws.amazon.com/" in inspect.getdoc(each) for each in MENDS if each.__name__ in dict(TOLD))


@pytest.mark.parametrize(("mend", "test"), TOLD, ids=lambda each: getattr(each, "__name__", each))
def test_without_a_mend_of_an_answer_its_test_fails(tmp_path, mend, test):
    with services.running(tmp_path, [sys.executable, "-c", WITHOUT, mend]) as environment:
        clients = {name: client(name, environment) for name in inspect.signature(test).parameters}
        with pytest.raises((AssertionError, ClientError, KeyError)):
            test(**clients)


def costs(mend: str) -> dict[str, int]:
    # moto answers within that process, wherever other tests have their endpoints
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-c", COSTS, mend]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def test_what_is_done_costs_what_it_touches():
    counted = costs("")
    assert {mend: counted[mend] <= most for mend, (most, _) in DEAR.items()} == dict.fromkeys(DEAR, True), counted


@pytest.mark.parametrize("mend", DEAR)
def test_without_a_mend_of_a_cost_it_grows_with_all_there_is(mend):
    assert costs(mend)[mend] >= DEAR[mend][1]
