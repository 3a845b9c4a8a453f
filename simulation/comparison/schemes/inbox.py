"""The inbox: the marker of the upload and its data commit in one atomic transaction. Two ways of it in DynamoDB.

`InboxTransaction` puts the marker, if its id is new, and the rows by one `TransactWriteItems`. A transaction that fails
at the marker means: processed already, acknowledge. `InboxDocument` keeps data, `version` and `processed_events` in one
document and replaces it where the version is still the one that was read.

The pattern needs a store that holds data and marker and commits both at once. Here that is DynamoDB, so the rows land
there and not in the lake table, which is no such store. A transaction takes 100 items at most, at twice the price of
plain writes; a document holds 400 KB. Row ids are random: nothing but the marker keeps rows from landing twice.

https://newsletter.theburningmonk.com/posts/the-inbox-outbox-patterns-for-reliable-event-processing
"""

import uuid
from collections.abc import Iterable
from typing import Any

from botocore.exceptions import ClientError

from simulation.comparison.schemes.scheme import AnnouncedUpload, Arrival, Scheme, client, put_if
from simulation.world.dynamodb import typed
from simulation.world.table import Row

TABLE = "data"
TRIES = 5


class InboxTransaction(Scheme):
    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        rows = self.read(upload)
        if rows is None:
            return
        marker = {
            "TableName": TABLE,
            "Item": {"pk": {"S": f"i#{upload.identity}"}, "sk": {"S": "inbox"}},
            "ConditionExpression": "attribute_not_exists(pk)",
        }
        puts = [{"Put": marker}, *({"Put": {"TableName": TABLE, "Item": _item(row)}} for row in rows)]
        try:
            client("dynamodb").transact_write_items(TransactItems=puts)
        except ClientError as error:
            reasons = error.response.get("CancellationReasons", [])
            if not reasons or reasons[0]["Code"] != "ConditionalCheckFailed":
                raise

    def rows(self) -> Iterable[Row]:
        return [
            (item["uri"], item["version"], item["number"])
            for (_, pk, _), item in self.here.dynamodb.items.items()
            if pk.startswith("r#")
        ]


def _item(row: Row) -> dict[str, Any]:
    uri, version, number = row
    described = {"pk": f"r#{uuid.uuid4()}", "sk": "row", "uri": uri, "version": version, "number": number}
    return {name: typed(value) for name, value in described.items()}


class InboxDocument(Scheme):
    """One document for each bucket."""

    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        rows = self.read(upload)
        if rows is None:
            return
        for _ in range(TRIES):
            if self._replaced(upload, rows):
                return
        raise TimeoutError(f"the document of {upload.bucket} was changed by others {TRIES} times")

    def _replaced(self, upload: AnnouncedUpload, rows: tuple[Row, ...]) -> bool:
        key = {"pk": {"S": f"d#{upload.bucket}"}, "sk": {"S": "document"}}
        found = client("dynamodb").get_item(TableName=TABLE, Key=key, ConsistentRead=True).get("Item")
        before = found or {"version": {"N": "0"}, "processed_events": {"L": []}, "data": {"L": []}}
        if {"S": upload.identity} in before["processed_events"]["L"]:
            return True
        after = {
            **key,
            "version": {"N": str(int(before["version"]["N"]) + 1)},
            "processed_events": {"L": [*before["processed_events"]["L"], {"S": upload.identity}]},
            "data": {"L": [*before["data"]["L"], *(typed(list(row)) for row in rows)]},
        }
        condition = "#version = :read" if found else "attribute_not_exists(#version)"
        read = {"ExpressionAttributeValues": {":read": before["version"]}} if found else {}
        return put_if(condition, TABLE, after, ExpressionAttributeNames={"#version": "version"}, **read)

    def rows(self) -> Iterable[Row]:
        return [
            (uri, version, number)
            for (_, pk, _), item in self.here.dynamodb.items.items()
            if pk.startswith("d#")
            for uri, version, number in item["data"]
        ]
