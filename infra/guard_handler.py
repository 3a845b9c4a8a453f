"""What CloudFormation cannot do by itself; written into the template as it stands here.

Names: before all else, no landing bucket's name is taken. Archive: of the topic; SNS deletes no topic that has one, so
it comes and goes apart from it. Protection: of the ledger from deletion, but not from the rollback of its creation.
Application: is stopped before it is deleted.
"""

import json
import time
from urllib.request import Request, urlopen

import boto3
from botocore.exceptions import ClientError

TRIES, PAUSE = 12, 10  # a new role's permissions are not everywhere at once
GONE = ("404", "NotFound", "NotFoundException", "ResourceNotFoundException")


class Refused(Exception):
    """Asking again would not help."""


def handler(event: dict, context: object) -> None:
    kind, of = event["ResourceType"].partition("Tidegate")[2], event["ResourceProperties"]["Of"]
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {"Status": "SUCCESS", "PhysicalResourceId": f"{kind}/{of[-99:]}"}
    try:
        patiently(kind, event, of)
    except Exception as error:
        answer |= {"Status": "FAILED", "Reason": f"{kind}: {error}"}
    print(answer)
    urlopen(Request(event["ResponseURL"], json.dumps(answer).encode(), {"content-type": ""}, method="PUT"))


def patiently(kind: str, event: dict, of: str) -> None:
    for left in reversed(range(TRIES)):
        try:
            return DO[kind](event, of, event["RequestType"] == "Delete")
        except Exception as error:
            if getattr(error, "response", {}).get("Error", {}).get("Code") in GONE and event["RequestType"] == "Delete":
                return None
            if isinstance(error, Refused) or not left:
                raise
        time.sleep(PAUSE)


def names(event: dict, of: str, delete: bool) -> None:
    for name in () if delete else of.split():
        try:
            boto3.client("s3").head_bucket(Bucket=name)
        except ClientError as error:
            if error.response["Error"]["Code"] in GONE:
                continue
            raise RuntimeError(f"{error}: bucket {name} seems to be another account's; take another name") from error
        pages = (
            boto3.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=event["StackId"])
        )
        if name not in [each.get("PhysicalResourceId") for page in pages for each in page["StackResourceSummaries"]]:
            raise Refused(f"bucket {name} exists and is not of this stack; set `existing = true`, or import it")


def archive(event: dict, of: str, delete: bool) -> None:
    policy = {} if delete else {"MessageRetentionPeriod": event["ResourceProperties"]["Days"]}
    value = json.dumps(policy)
    boto3.client("sns").set_topic_attributes(TopicArn=of, AttributeName="ArchivePolicy", AttributeValue=value)


def protection(event: dict, of: str, delete: bool) -> None:
    if delete:
        (stack,) = boto3.client("cloudformation").describe_stacks(StackName=event["StackId"])["Stacks"]
        if stack["StackStatus"] != "ROLLBACK_IN_PROGRESS":
            return
    dynamodb = boto3.client("dynamodb")
    if dynamodb.describe_table(TableName=of)["Table"].get("DeletionProtectionEnabled", False) == delete:
        dynamodb.update_table(TableName=of, DeletionProtectionEnabled=not delete)
    dynamodb.get_waiter("table_exists").wait(TableName=of, WaiterConfig={"Delay": 5, "MaxAttempts": 40})


def application(event: dict, of: str, delete: bool) -> None:
    if not delete:
        return
    emr = boto3.client("emr-serverless")
    state = emr.get_application(applicationId=of)["application"]["state"]
    if state in ("STARTING", "STARTED"):
        emr.stop_application(applicationId=of)
    if state not in ("CREATED", "STOPPED", "TERMINATED"):
        raise RuntimeError(f"application {of} is {state} still")


DO = {"Names": names, "Archive": archive, "Protection": protection, "Application": application}
