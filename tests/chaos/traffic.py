"""Uploads to two routes, without a pause: some that S3 never announces, some twice, and some too large to be read.

S3 announces nothing of a bucket while its notifications are switched off, which is how uploads are lost in practice.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from tidegate.core.uploads import Upload, version_of

VERSIONED = "versioned"
UNVERSIONED = "unversioned"
ROUTES = (VERSIONED, UNVERSIONED)
BUCKETS = {route: f"chaos-{route}" for route in ROUTES}
TABLES = {route: f"chaos.{route}" for route in ROUTES}
SMALL, LARGE = 200, 10_000
"""The largest object in bytes that the routes read: before a person mends the settings, and after it."""

CONFIG = f"""
[deployment]
name = "chaos"

[audit]
every = "1h"

[[route]]
name = "{VERSIONED}"
bucket = "{BUCKETS[VERSIONED]}"
prefix = "in/"
suffix = ".json"
format = "json"
max_object_bytes = "{SMALL}B"
table = "lake.{TABLES[VERSIONED]}"
schema = "id bigint"

[route.batch]
max_wait = "2s"

[[route]]
name = "{UNVERSIONED}"
bucket = "{BUCKETS[UNVERSIONED]}"
versioned = false
format = "csv"
max_object_bytes = "{SMALL}B"
table = "lake.{TABLES[UNVERSIONED]}"
schema = "id bigint"

[route.batch]
max_wait = "2s"
"""

WAITS = {"min_age": 10, "attempts": 2, "retry_wait": 1, "step_aside": 15, "stay": 10}
"""What the functions of this stack run by (`tidegate_local.hurry`)."""
MENDED = CONFIG.replace(f"{SMALL}B", f"{LARGE}B")

PAUSE = (0.05, 0.4)
"""Seconds between two uploads, about: some 250 in a minute."""
MOST_ROWS = 4
OVERWRITTEN = {VERSIONED: 0.2, UNVERSIONED: 0.05}
"""The share of uploads under a key that had one before: a version more, or the end of what was not read yet."""
REPEATED = 0.1
"""The share whose notification is delivered again at once, and as many a while later."""
LATER = (1.0, 15.0)
DROPPED = 0.05
"""The share that S3 does not announce. Nobody else does either: only the audit can find these."""
OVERSIZED = 0.03
"""The share that is larger than SMALL. It is quarantined until the settings are mended and it is released."""
GARBAGE = 0.01
"""The share of moments in which a stranger sends the buffer something that is no notification."""


@dataclass(frozen=True, slots=True)
class Put:
    """An upload that S3 took, and the ids of its rows, which no other has."""

    route: str
    upload: Upload
    etag: str
    ids: tuple[int, ...]

    def notification(self) -> str:
        """What S3 says of it, with the key encoded as S3 does."""
        upload = self.upload
        details: dict[str, Any] = {"key": quote_plus(upload.key, safe="/"), "size": upload.size, "eTag": self.etag}
        if self.route == VERSIONED:
            details["versionId"] = upload.version
        record = {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": upload.bucket}, "object": details}}
        return json.dumps({"Records": [record]})


@dataclass
class Traffic:
    """Uploads from a thread of its own until `stop`. `seed` fixes what is uploaded, not when the others act."""

    s3: Any
    sqs: Any
    buffer: str
    seed: int
    puts: list[Put] = field(default_factory=list)
    overwritten: set[tuple[str, str, str]] = field(default_factory=set)
    """The identities of what may never be read: the unversioned bucket has other bytes there, or a later version landed
    while it was in quarantine, too large."""
    repeats: int = 0
    dropped: list[Put] = field(default_factory=list)
    oversized: int = 0
    garbage: list[str] = field(default_factory=list)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed} traffic")
        self._ids = itertools.count()
        self._last: dict[str, dict[str, Put]] = {route: {} for route in ROUTES}
        self._later: list[tuple[float, Put]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish what is under way, and deliver the repeats that still wait."""
        self._stopping.set()
        if self._thread.ident:
            self._thread.join(60)

    def repeat(self, puts: Iterable[Put]) -> None:
        for put in puts:
            self.sqs.send_message(QueueUrl=self.buffer, MessageBody=put.notification())
            self.repeats += 1

    def of(self, route: str) -> list[Put]:
        return [put for put in self.puts if put.route == route]

    def sample(self, count: int) -> list[Put]:
        """Some uploads that are in the table once everything has ended."""
        landed = [put for put in self.puts if put.upload.identity not in self.overwritten]
        return self._random.sample(landed, min(count, len(landed)))

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._random.uniform(*PAUSE)):
                self._upload(self._random.choice(ROUTES))
                now = time.monotonic()
                self.repeat(put for due, put in self._later if due <= now)
                self._later = [(due, put) for due, put in self._later if due > now]
            self.repeat(put for _, put in self._later)
        except Exception as error:
            self.error = error

    def _upload(self, route: str) -> None:
        chosen, bucket = self._random, BUCKETS[route]
        ids = tuple(itertools.islice(self._ids, chosen.randint(1, MOST_ROWS)))
        known = self._last[route]
        overwrites = bool(known) and chosen.random() < OVERWRITTEN[route]
        fate, dropped, oversized = chosen.random(), chosen.random() < DROPPED, chosen.random() < OVERSIZED
        if chosen.random() < GARBAGE:
            self.garbage.append(f"garbage {len(self.garbage)}")
            self.sqs.send_message(QueueUrl=self.buffer, MessageBody=self.garbage[-1])
        if overwrites:
            key = chosen.choice(list(known))
        else:
            key = f"in/{ids[0]} +%.json" if route == VERSIONED else f"{ids[0]}.csv"
        body = _body(route, ids, "x" * SMALL if oversized else "")
        answer = (self._put_unannounced if dropped else self._put)(bucket, key, body)
        version = version_of(answer.get("VersionId"), answer["ETag"])
        put = Put(route, Upload(bucket, key, version, len(body)), answer["ETag"].strip('"'), ids)
        if key in known and (route == UNVERSIONED or known[key].upload.size > SMALL):
            self.overwritten.add(known.pop(key).upload.identity)
        self.oversized += oversized
        if dropped:
            self.dropped.append(put)
        if route == VERSIONED or not dropped:
            known[key] = put  # what nobody knows of and is overwritten could never be found
        self.puts.append(put)
        if dropped:
            return
        if fate < REPEATED:
            self.repeat([put])
        elif fate < 2 * REPEATED:
            self._later.append((time.monotonic() + chosen.uniform(*LATER), put))

    def _put(self, bucket: str, key: str, body: str) -> Any:
        return self.s3.put_object(Bucket=bucket, Key=key, Body=body.encode())

    def _put_unannounced(self, bucket: str, key: str, body: str) -> Any:
        """As `_put`, while the bucket's notifications are switched off."""
        there = self.s3.get_bucket_notification_configuration(Bucket=bucket)
        there.pop("ResponseMetadata")
        self.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
        try:
            return self._put(bucket, key, body)
        finally:
            self.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=there)


def _body(route: str, ids: tuple[int, ...], note: str) -> str:
    """A file with a row for each id. `note` is in a column that the schema lacks, so that it is read past."""
    if route == VERSIONED:
        return "".join(json.dumps({"id": each, "note": note}) + "\n" for each in ids)
    return "id,note\n" + "".join(f"{each},{note}\n" for each in ids)
