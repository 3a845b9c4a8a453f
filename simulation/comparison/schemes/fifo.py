"""A FIFO topic before a FIFO queue, a deduplication id, and as the last resort a conditional put on a composite key.

The publisher sends with a deduplication id made of x and y (here: key and ETag); the consumer puts an item under
partition key x and sort key y if there is none. If it is there, the consumer ends well, and the queue deletes the
message; any other error is raised. S3 cannot notify a FIFO topic, so a function bridges the two.

The author's item *is* the data (`FifoItem`): one conditional put decides and writes. Data that belong into a lake table
(`FifoTable`) need two steps, and its author says nothing of their order, so both are tried.

https://qasimalbaqali.medium.com/achieving-idempotency-in-the-aws-serverless-space-d0671a521479
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from simulation.comparison.deployment import SchemeDeployment
from simulation.comparison.schemes.scheme import AnnouncedUpload, Arrival, Scheme, client, put_if, uploads_in
from simulation.world.dynamodb import typed
from simulation.world.product import RESOURCES
from simulation.world.table import Row


class _Fifo(Scheme):
    def deploy(self) -> None:
        queue = self.here.queue("uploads.fifo")
        self.here.sns.subscribers.append(queue)
        self.here.feed(self.here.notifications, "publisher", self._publish)
        self.here.feed(queue, "consumer", self.receive)

    def _publish(self, event: Any, context: Any) -> None:
        for record in event["Records"]:
            for upload in uploads_in(record["body"]):
                entry = {
                    "Id": "0",
                    "Message": record["body"],
                    "MessageGroupId": _digest(f"{upload.bucket}/{upload.key}"),
                    "MessageDeduplicationId": _digest(upload.identity),
                }
                client("sns").publish_batch(TopicArn=RESOURCES["topic"], PublishBatchRequestEntries=[entry])

    def put(self, upload: AnnouncedUpload, data: tuple[Row, ...] = ()) -> bool:
        """False if the upload's item is there."""
        item = {
            "pk": {"S": f"{upload.bucket}/{upload.key}"},
            "sk": {"S": upload.etag},
            "data": {"L": [typed(list(row)) for row in data]},
        }
        return put_if("attribute_not_exists(pk)", "uploads", item)


class FifoItem(_Fifo):
    """The rows are in the item."""

    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        rows = self.read(upload)
        if rows is not None:
            self.put(upload, rows)

    def rows(self) -> Iterable[Row]:
        items = self.here.dynamodb.items.items()
        return [(uri, version, number) for _, item in items for uri, version, number in item["data"]]


class FifoTable(_Fifo):
    """The rows are in a lake table, and the item is put before the work or after it."""

    def __init__(self, here: SchemeDeployment, *, before: bool) -> None:
        self._before = before
        super().__init__(here)

    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        if not self._before:
            self.work(upload)
            self.put(upload)
        elif self.put(upload):
            self.work(upload)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
