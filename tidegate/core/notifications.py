"""S3's notifications of uploads, in each of their shapes.

Shapes: the S3 event notification, the EventBridge event, and the `s3:TestEvent` that S3 sends to a queue when a
notification is set up. `eventVersion` is deliberately not checked: minor versions only add fields
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html).
"""

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote_plus

from tidegate.core.errors import Rejected
from tidegate.core.uploads import Upload, version_of

MAX_KEY_BYTES = 1024
MAX_VERSION_CHARACTERS = 1024
MARKED = "ObjectRemoved:DeleteMarkerCreated"
"""Of a bucket with versions (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html,
as the other names; of EventBridge: .../userguide/ev-events.html)."""


@dataclass(frozen=True, slots=True)
class Notified:
    """One record that names an upload. `deletion`: it is a delete marker, the version that hides a deleted object."""

    upload: Upload
    deletion: bool = False


@dataclass(frozen=True, slots=True)
class NotAnUpload:
    """One well-formed record of something else, such as a test event or a deletion."""

    what: str


@dataclass(frozen=True, slots=True)
class Garbage:
    """One record that cannot be parsed. `body` is what to set aside, `reason` what is wrong with it."""

    body: str
    reason: str


Record = Notified | NotAnUpload | Garbage


def parse(body: str) -> list[Record]:
    """Every record in one message. Each is parsed by itself, so a broken one does not affect the others."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        return [Garbage(body, f"the message is not JSON: {error}")]
    if not isinstance(message, dict):
        return [Garbage(body, "the message is JSON but not an object")]
    if "detail" in message or "detail-type" in message:
        return [_judge(message, _from_eventbridge, lambda: body)]
    if message.get("Event") == "s3:TestEvent":
        return [NotAnUpload("s3:TestEvent")]
    records = message.get("Records")
    if not isinstance(records, list):
        return [Garbage(body, "the message has no list `Records`, no `detail`, and is not an s3:TestEvent")]
    return [_judge(each, _from_s3, partial(_alone, each)) for each in records]


def _alone(record: Any) -> str:
    """A message with this record only."""
    return json.dumps({"Records": [record]})


def _judge(record: Any, read: Callable[[Any], Record], body: Callable[[], str]) -> Record:
    """`body` is asked for garbage only: to write each record again took half of the time."""
    try:
        return read(record)
    except Rejected as error:
        return Garbage(body(), str(error))


def _from_s3(record: Any) -> Record:
    event = _text(record, "eventName")
    deletion = event.endswith(MARKED)
    if "ObjectCreated:" not in event and not deletion:
        return NotAnUpload(event)
    # S3 form-encodes the key once. errors="strict", because a replaced byte would name another object
    encoded = _text(record, "s3", "object", "key")
    try:
        key = unquote_plus(encoded, errors="strict")
    except UnicodeDecodeError:
        raise Rejected(f"the key {encoded!r} does not decode to UTF-8") from None
    details = record["s3"]["object"]
    bucket, at = _text(record, "s3", "bucket", "name"), _when(record.get("eventTime"))
    return _upload(bucket, key, details, details.get("versionId"), details.get("eTag"), at, deletion)


def _from_eventbridge(event: Any) -> Record:
    kind = _text(event, "detail-type")
    detail = event.get("detail")
    marked = isinstance(detail, dict) and detail.get("deletion-type") == "Delete Marker Created"
    deletion = kind == "Object Deleted" and marked
    if kind != "Object Created" and not deletion:
        return NotAnUpload(kind)
    # EventBridge does not encode the key: a `+` is a plus
    key = _text(event, "detail", "object", "key")
    details = event["detail"]["object"]
    bucket, at = _text(event, "detail", "bucket", "name"), _when(event.get("time"))
    return _upload(bucket, key, details, details.get("version-id"), details.get("etag"), at, deletion)


def _when(time: Any) -> int:
    """The epoch second of an ISO 8601 time, such as "2026-11-21T10:00:00.000Z"; 0 if it is none."""
    try:
        found = datetime.datetime.fromisoformat(time)
    except (ValueError, TypeError):
        return 0
    return max(0, int(found.timestamp())) if found.tzinfo else 0


def _upload(
    bucket: str, key: str, details: Mapping[str, Any], version_id: Any, etag: Any, at: int, deletion: bool
) -> Record:
    for name, value in (("version id", version_id), ("ETag", etag)):
        if value is not None and not isinstance(value, str):
            raise Rejected(f"the {name} of s3://{bucket}/{key} is not text: {value!r}")
    if deletion and version_id in (None, "", "null"):
        return NotAnUpload("a deletion in a bucket whose versioning is suspended")
    version = version_of(version_id, etag)
    if not version:
        raise Rejected(f"the record of s3://{bucket}/{key} has neither a version id nor an ETag")
    if not version.isascii() or len(version) > MAX_VERSION_CHARACTERS:
        raise Rejected(f"the version of s3://{bucket}/{key} is none of S3's: {version[:100]!r}")
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        raise Rejected(f"the key {key!r} is not valid Unicode") from None
    if length > MAX_KEY_BYTES:
        raise Rejected(f"the key of {length} bytes is longer than S3's {MAX_KEY_BYTES}")
    # S3 leaves `size` out in some event types. 0 is then wrong, but the size is only a hint
    size = details.get("size", 0)
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**63:
        raise Rejected(f"the size of s3://{bucket}/{key} is not a count of bytes: {size!r}")
    sequencer = details.get("sequencer") or ""
    return Notified(Upload(bucket, key, version, size, str(sequencer), at), deletion)


def _text(record: Any, *path: str) -> str:
    """The non-empty string at `path`."""
    value = record
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if not isinstance(value, str) or not value:
        raise Rejected(f"the record has no text at `{'.'.join(path)}`")
    return value
