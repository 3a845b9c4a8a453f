"""A row per upload in a relational database, PROCESSING, PROCESSED or FAILED; and a daily audit of the bucket.

A row in any state but FAILED makes a notification a duplicate. The database cannot be reached before the work: the
notification is given back. It cannot be reached after the work: the row stays PROCESSING, and the author prefers at
most once. The audit lists the bucket, leaves out what is younger than 12 hours or older than 30 days, and submits again
what has no row or a FAILED one. Here it runs 24 and 48 hours after the first upload; all uploads are then old enough
and young enough, so the two bounds leave nothing out, and the purge of rows after 30 days is never reached.

The author's audit lists the current objects, because the author's keys are unique. Here they are not: it knows no
versions that were overwritten. So an audit that lists all versions is tried as well.

https://www.hydrogen18.com/blog/aws-s3-event-notifications-probably-once.html
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

from simulation.comparison.deployment import SchemeDeployment
from simulation.comparison.schemes.scheme import AnnouncedUpload, Arrival, Scheme, client
from simulation.comparison.schemes.stores import ConnectionBroken, Relational, Unavailable
from simulation.world.product import RESOURCES

AUDITS = 2
QUEUE = RESOURCES["buffer"].replace("buffer", "notifications")


def current_objects(bucket: str) -> list[AnnouncedUpload]:
    found = client("s3").list_objects_v2(Bucket=bucket).get("Contents", ())
    return [AnnouncedUpload(bucket, entry["Key"], entry["ETag"].strip('"'), "") for entry in found]


def all_versions(bucket: str) -> list[AnnouncedUpload]:
    """A bucket without versions lists `null` for the version."""
    found = client("s3").list_object_versions(Bucket=bucket).get("Versions", ())
    return [
        AnnouncedUpload(bucket, each["Key"], each["ETag"].strip('"'), each["VersionId"].replace("null", ""))
        for each in found
    ]


class StateRow(Scheme):
    """`lists` is what the daily audit lists of a bucket; None for no audit."""

    def __init__(self, here: SchemeDeployment, *, lists: Callable[[str], list[AnnouncedUpload]] | None) -> None:
        self._database = Relational(here.network)
        self._lists = lists
        super().__init__(here)

    def deploy(self) -> None:
        super().deploy()
        if self._lists:
            self.here.daily("audit", self._audit, AUDITS)

    def handle(self, upload: AnnouncedUpload, arrival: Arrival) -> None:
        if not self._database.begin(upload.identity):
            return
        try:
            self.work(upload)
        except Exception:
            self._database.mark(upload.identity, "FAILED")
            raise
        try:
            self._database.mark(upload.identity, "PROCESSED")
        except (ConnectionBroken, Unavailable):
            return  # the row stays PROCESSING, knowingly

    def _audit(self, event: Any, context: Any) -> None:
        assert self._lists is not None
        listed = [each for bucket in sorted(self.here.s3.buckets) for each in self._lists(bucket)]
        states = self._database.states()
        for upload in listed:
            if states.get(upload.identity, "FAILED") == "FAILED":
                client("sqs").send_message(QueueUrl=QUEUE, MessageBody=json.dumps(_submission(upload)))


def _submission(upload: AnnouncedUpload) -> dict[str, Any]:
    described = {"key": quote_plus(upload.key), "eTag": upload.etag}
    if upload.version_id:
        described["versionId"] = upload.version_id
    return {"Records": [{"s3": {"bucket": {"name": upload.bucket}, "object": described}}]}
