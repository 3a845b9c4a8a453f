"""A consumer: the number of rows that each table has got, kept in DynamoDB. docs/consumers.md explains it."""

import json
import os
from typing import Any

import boto3

from tidegate.inbox import Inbox

TOTALS = os.environ["TOTALS"]
dynamodb = boto3.client("dynamodb")
inbox = Inbox(dynamodb, TOTALS, "rows-per-table")


def handler(event: dict[str, Any], context: object) -> None:
    """Called by Lambda with messages of a queue, to which a rule sends Tidegate's events."""
    for record in event["Records"]:
        count(json.loads(record["body"])["detail"])


def count(batch: dict[str, Any]) -> bool:
    """Add the batch's rows to its table's total, once, however often the event comes."""
    add = {
        "TableName": TOTALS,
        "Key": {"pk": {"S": f"rows#{batch['table']}"}},
        "UpdateExpression": "ADD #rows :rows",
        "ExpressionAttributeNames": {"#rows": "rows"},
        "ExpressionAttributeValues": {":rows": {"N": str(batch["rows"] - batch.get("replaced_rows", 0))}},
    }
    return inbox.once(batch["id"], [{"Update": add}])
