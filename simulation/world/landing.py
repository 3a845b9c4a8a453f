"""The landing buckets and S3's notifications: the same for Tidegate's world and for every scheme."""

import datetime
import json
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

from simulation.world.kernel import Kernel
from simulation.world.network import Network
from simulation.world.s3 import MARKER, S3, Version

STRANGE: dict[str, dict[str, Any]] = {
    "unreadable": {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "landing"}}},
    "of no route": {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventTime": "2027-01-15T08:00:00.000Z",
        "eventName": "ObjectCreated:Put",
        "s3": {
            "bucket": {"name": "landing"},
            "object": {"key": "nobody/takes.this", "size": 1, "eTag": "0" * 32, "sequencer": "00", "versionId": "v"},
        },
    },
}
"""Records that S3 or somebody else may put into a message beside those of uploads."""


class Landing:
    """The uploads, and when S3 notifies of them. Subclasses send the messages (`_tell`)."""

    kernel: Kernel
    network: Network
    s3: S3

    def _open(self) -> None:
        self.notified: dict[int, int] = {}
        """How often a notification of each version (by its number) reached the queue."""
        self.heard_at: dict[int, float] = {}
        """When a notification of each version first reached the queue."""
        self.announce: Callable[[Version], list[float]] = lambda version: [1.0]
        """When (seconds after the put) S3 notifies of a version: once, several times, or never."""
        self.bundled: Callable[[], float] = lambda: 0.0
        """For how long S3 gathers records for one message (seconds)."""
        self.strange: Callable[[], str] = lambda: ""
        """What a message has besides its records, before or after them (`STRANGE`)."""
        self.unreadable = 0
        """How many messages had a record that cannot be read."""
        self.history: list[Version] = []
        """Every version put into a landing bucket, in order."""
        self.removed: list[tuple[float, str, str]] = []
        """(when, bucket, key) of everything that was deleted."""
        self.expired: list[Version] = []
        """What has expired (`simulation.world.expiring`)."""
        self.refused: set[tuple[str, str]] = set()
        """(bucket, key) of the objects that S3 refused at some time."""
        self._gathered: list[dict[str, Any]] = []
        self.s3.on_put = self._put

    def upload(self, key: str, body: bytes, *, bucket: str = "landing", after: float = 0.0, how: str = "Put") -> None:
        """`how` as S3 says it: Put, Copy, or CompleteMultipartUpload."""
        self.kernel.after(after, lambda: self.s3.put(bucket, key, body, how))

    def remove(self, key: str, *, bucket: str, after: float) -> None:
        def delete() -> None:
            self.s3.delete(bucket, key)
            self.removed.append((self.kernel.now, bucket, key))

        self.kernel.after(after, delete)

    def refuse(self, bucket: str, key: str, code: str, seconds: float) -> None:
        """From now on S3 refuses this object, for so long."""
        self.refused.add((bucket, key))
        self.s3.refused[bucket, key] = code
        if seconds < math.inf:
            self.kernel.after(seconds, lambda: self.s3.refused.pop((bucket, key)))

    def _put(self, version: Version) -> None:
        if version.bucket == "work":
            return
        self.history.append(version)
        self.kernel.note("put", version.bucket, version.key, version.version_id)
        for delay in self.announce(version):
            self.kernel.after(delay, lambda: self._notify(version))

    def _notify(self, version: Version) -> None:
        times = self.network.arrivals("s3 notification")
        if not times:
            return
        self.notified[version.number] = self.notified.get(version.number, 0) + times
        wait = self.bundled()
        self.heard_at.setdefault(version.number, self.kernel.now + wait)
        if not wait:
            self._tell(self._message(notification(version)["Records"]), times)
            return
        self._gathered += notification(version)["Records"] * times
        self.kernel.after(wait, self._send_gathered)

    def _send_gathered(self) -> None:
        if self._gathered:
            self._tell(self._message(self._gathered), 1)
            self._gathered = []

    def _message(self, records: list[dict[str, Any]]) -> str:
        where, _, what = self.strange().partition(" ")
        more = [STRANGE[what]] if what else []
        body = json.dumps({"Records": [*more, *records] if where == "before" else [*records, *more]})
        if what == "unreadable":
            self.unreadable += 1
        return body

    def _tell(self, body: str, times: int) -> None:
        raise NotImplementedError


def notification(version: Version) -> dict[str, Any]:
    """S3's notification of a put."""
    described = {
        "key": quote_plus(version.key),
        "sequencer": version.sequencer,
        **({"versionId": version.version_id} if version.version_id else {}),
        **({"size": len(version.body), "eTag": version.etag} if version.how != MARKER else {}),
    }
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventTime": datetime.datetime.fromtimestamp(version.at, datetime.UTC).isoformat(),
        "eventName": f"ObjectRemoved:{MARKER}" if version.how == MARKER else f"ObjectCreated:{version.how}",
        "s3": {"bucket": {"name": version.bucket}, "object": described},
    }
    return {"Records": [record]}
