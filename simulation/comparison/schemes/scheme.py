"""The common part of all schemes: a scheme gets a notification, and its work is to read the object and write its
rows."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote_plus

from botocore.exceptions import ClientError

from simulation.comparison.deployment import SchemeDeployment
from simulation.world.table import CommitStateUnknown, Metadata, ModelTable, NoAnswer, Row, Stored
from tidegate import wiring
from tidegate.sinks.iceberg.marks import IcebergSnapshot

TABLE = "lake.schemes.uploads"
GONE = frozenset({"NoSuchKey", "NoSuchVersion", "PreconditionFailed", "404", "412"})
STATUS_CHECKS = 3
"""Iceberg's `commit.status-check.num-retries`: https://iceberg.apache.org/docs/latest/configuration/"""


@dataclass(frozen=True)
class AnnouncedUpload:
    """`identity` is the same in every notification of it, and in a listing: no content comes twice here."""

    bucket: str
    key: str
    etag: str
    version_id: str

    @property
    def identity(self) -> str:
        return f"{self.bucket}/{self.key}@{self.etag}"


@dataclass(frozen=True)
class Arrival:
    """How a message came: how often it was received, and in which invocation."""

    receives: int
    context: Any


def client(service: str) -> Any:
    """The SDK as Tidegate configures it, its retries included."""
    return wiring._client(service)


class LakeTable(ModelTable):
    """One append, one atomic commit. After a lost answer it looks for its own snapshot, as Iceberg's catalogs do."""

    def append(self, rows: tuple[Row, ...]) -> None:
        number = next(self.catalog.ids)
        name = f"file-{number}"
        self.catalog.files[name] = rows

        def appended(base: Metadata) -> Metadata:
            stored = Stored(IcebergSnapshot(number, base.head, {}), (name,))
            return replace(base, version=base.version + 1, head=number, snapshots={**base.snapshots, number: stored})

        try:
            self._commit(appended)
        except CommitStateUnknown:
            if not self._landed(number):
                raise

    def _landed(self, snapshot: int) -> bool:
        for _ in range(STATUS_CHECKS):
            try:
                return snapshot in self._load().snapshots
            except NoAnswer:
                continue
        return False


class Scheme:
    """`handle` of a subclass has the steps before and after `work`. If it raises, the message is given back."""

    def __init__(self, here: SchemeDeployment) -> None:
        self.here = here
        here.catalog.tables[TABLE] = Metadata(1, "uuid", None, {})
        self.deploy()

    def deploy(self) -> None:
        self.here.feed(self.here.notifications, "consumer", self.receive)

    def receive(self, event: Any, context: Any) -> None:
        for record in event["Records"]:
            arrival = Arrival(int(record["attributes"]["ApproximateReceiveCount"]), context)
            for upload in uploads_in(record["body"]):
                self.handle(upload, arrival)

    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        raise NotImplementedError

    # ---- the work

    def work(self, upload: AnnouncedUpload) -> None:
        rows = self.read(upload)
        if rows is not None:
            LakeTable(self.here.catalog, self.here.network, TABLE, lambda: None).append(rows)

    def read(self, upload: AnnouncedUpload) -> tuple[Row, ...] | None:
        """The upload's rows; None if it was overwritten before it was read."""
        which = {"VersionId": upload.version_id} if upload.version_id else {"IfMatch": upload.etag}
        try:
            answer = client("s3").get_object(Bucket=upload.bucket, Key=upload.key, **which)
        except ClientError as error:
            if error.response["Error"]["Code"] in GONE:
                return None
            raise
        version = answer.get("VersionId") or f"etag:{upload.etag}"
        lines = answer["Body"].read().splitlines()
        return tuple((f"s3://{upload.bucket}/{upload.key}", version, number) for number in range(len(lines)))

    def rows(self) -> Iterable[Row]:
        """The rows that landed, for the oracle."""
        return [row for _, row in self.here.catalog.rows(TABLE)]


def uploads_in(body: str) -> list[AnnouncedUpload]:
    """The uploads that a notification names."""
    found = []
    for record in json.loads(body)["Records"]:
        described = record["s3"]["object"]
        found.append(
            AnnouncedUpload(
                record["s3"]["bucket"]["name"],
                unquote_plus(described["key"]),
                described["eTag"],
                described.get("versionId", ""),
            )
        )
    return found


def put_if(condition: str, table: str, item: dict[str, Any], **named: Any) -> bool:
    """A conditional put in DynamoDB; False if the condition is not met."""
    try:
        client("dynamodb").put_item(TableName=table, Item=item, ConditionExpression=condition, **named)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
            return False
        raise
    return True
