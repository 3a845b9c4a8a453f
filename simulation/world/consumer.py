"""A consumer of Tidegate's events, in the words of docs/consumers.md: it adds up the rows of each table."""

import json
from typing import Any

from tidegate import wiring
from tidegate.inbox import Inbox

TABLE = "totals"
"""Its table, which is no part of the deployment."""


def handler(event: dict[str, Any], context: object) -> None:
    inbox = Inbox(wiring._client("dynamodb"), TABLE, "rows-per-table", sort="sk")
    for record in event["Records"]:
        batch = json.loads(record["body"])["detail"]
        add = {
            "TableName": TABLE,
            "Key": {"pk": {"S": f"rows#{batch['table']}"}, "sk": {"S": "total"}},
            "UpdateExpression": "ADD #rows :rows",
            "ExpressionAttributeNames": {"#rows": "rows"},
            "ExpressionAttributeValues": {":rows": {"N": str(batch["rows"] - batch["replaced_rows"])}},
        }
        inbox.once(batch["id"], [{"Update": add}])
