"""A notice: a set of uploads of one route that travel, and are claimed, together.

Its id is a hash of its content, so one read recognises a second delivery of the same notice. Two fields are part of
the content for this reason:

- The origin. A deliberate resubmission (audit, resend, backfill) names its run there, so it is never taken for a
  repeated delivery.
- Each sequencer. In an unversioned bucket nothing else tells the same bytes uploaded again from the same notification
  delivered again.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tidegate.core.errors import Rejected
from tidegate.core.uploads import Upload, is_later
from tidegate.core.versions import check_version

VERSION = 1
ORIGIN_S3 = "s3"
ORIGIN_AGAIN = "again"
"""The origin of a notice for uploads whose same bytes had ended without a row (docs/adr/0020)."""
ORIGIN_RESEND = "resend"
"""The origin of a notice for uploads that a person sends again begins with this, and names the person's command."""
ORIGIN_RELOAD = "reload"
"""As ORIGIN_RESEND, for uploads that may have landed: what they give replaces their rows."""
# SNS allows 256 KiB (https://docs.aws.amazon.com/sns/latest/api/API_Publish.html). The envelope and the transport's
# own attributes need a little of it.
MAX_BYTES = 250_000
MOST_OBJECT_BYTES = 10_000_000_000
"""Bytes of the files that a notice names, unless it names one only. A batch is closed between notices: without a bound
a thousand large files would be one batch, and its job would outlast `job_timeout`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One upload of a notice. `takes_from` names the notice whose claim on it this notice takes over."""

    upload: Upload
    takes_from: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """A set of uploads of one route and bucket. Build it with `make_notice`, which computes the id.

    `at` (epoch seconds) is when the oldest of its uploads was created, or when somebody made it for uploads of another
    notice; 0 if that is unknown. It is no part of the id.
    """

    id: str
    route: str
    bucket: str
    origin: str
    entries: tuple[Entry, ...]
    at: int = 0

    @property
    def reloads(self) -> bool:
        """Whether the rows of its uploads are replaced by what their files give today (`flows.resend`)."""
        return self.origin.startswith(ORIGIN_RELOAD)

    def encode(self) -> str:
        """The message body: compact JSON, the same text for the same notice."""
        return _json(
            {
                "v": VERSION,
                "id": self.id,
                "route": self.route,
                "bucket": self.bucket,
                "origin": self.origin,
                **({"at": self.at} if self.at else {}),
                "uploads": [_encode_entry(entry) for entry in self.entries],
            }
        )


@dataclass(frozen=True, slots=True)
class NoticeRecord:
    """A decided notice: registered in `batch`, or void (`batch` is then empty). Both are final."""

    id: str
    route: str
    batch: str
    part: str
    objects: int
    bytes: int
    decided_at: int

    @property
    def void(self) -> bool:
        return not self.batch


def make_notice(route: str, bucket: str, origin: str, entries: Iterable[Entry], *, at: int = 0) -> Notice:
    """The notice of these entries. Their order does not matter. Of repeats the latest stays. `at` as in `Notice`; 0 for
    when S3 created the oldest of the uploads.

    Raises ValueError for a programming mistake: no entries, or entries of several buckets.
    """
    by_identity: dict[tuple[str, str, str], Entry] = {}
    for entry in entries:
        known = by_identity.get(entry.upload.identity)
        # the same bytes uploaded again are a new upload: a claim records the later sequencer
        if known is None or not known.upload.sequencer or is_later(entry.upload.sequencer, known.upload.sequencer):
            by_identity[entry.upload.identity] = entry
    ordered = tuple(by_identity[identity] for identity in sorted(by_identity))
    if not ordered or any(entry.upload.bucket != bucket for entry in ordered):
        raise ValueError(f"a notice of route {route} needs uploads, all of bucket {bucket}")
    # the same bytes, uploaded again, are another notice (docs/adr/0005)
    content = [[each.upload.key, each.upload.version, each.takes_from, each.upload.sequencer] for each in ordered]
    digest = hashlib.sha256(_json([route, bucket, origin, content]).encode()).hexdigest()[:40]
    times = [entry.upload.at for entry in ordered if entry.upload.at]
    return Notice(digest, route, bucket, origin, ordered, at or min(times, default=0))


def decode(body: str) -> Notice:
    """The notice in a message body. Raises Rejected if it is not a notice, or if its id does not match its content."""
    try:
        data = json.loads(body)
        check_version(data["v"], "the notice", VERSION)
        bucket = data["bucket"]
        entries = [_decode_entry(bucket, fields) for fields in data["uploads"]]
        notice = make_notice(data["route"], bucket, data["origin"], entries)
        said, at = data["id"], data.get("at", 0)
        if not isinstance(at, int) or isinstance(at, bool) or at < 0:
            raise Rejected(f"the notice says that its uploads are of {at!r}, which is no time")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Rejected(f"the message is not a notice ({type(error).__name__}: {error})") from error
    if notice.id != said:
        raise Rejected(f"the notice says its id is {said}, its content says {notice.id}")
    return replace(notice, at=at)


def pack(
    route: str, bucket: str, uploads: Iterable[Upload], *, origin: str = ORIGIN_S3, max_bytes: int = MAX_BYTES
) -> Iterator[Notice]:
    """`pack_entries` of uploads that no other notice owns."""
    return pack_entries(route, bucket, map(Entry, uploads), origin=origin, max_bytes=max_bytes)


def pack_entries(
    route: str, bucket: str, entries: Iterable[Entry], *, origin: str, max_bytes: int = MAX_BYTES, at: int = 0
) -> Iterator[Notice]:
    """As few notices as can hold `entries`, each at most `max_bytes` when encoded as UTF-8, and of files of at most
    `MOST_OBJECT_BYTES`. `at` as in `make_notice`.

    The entries are sorted first, so the same set packs into the same notices. Uploads of different days travel apart:
    a notice is as old as its oldest upload, and one that is too old must not take new ones along (rule 12).
    """
    about = {"v": VERSION, "id": "0" * 40, "route": route, "bucket": bucket, "origin": origin}
    coming = sorted(entries, key=lambda each: (_day(each), each.upload.identity))
    latest = max([at, *(each.upload.at for each in coming)])
    envelope = len(_json({**about, "at": latest} if latest else about)) + 20
    gathered: list[Entry] = []
    size, files = envelope, 0
    for entry in coming:
        length = len(_json(_encode_entry(entry))) + 1  # and its comma; _json is ASCII, so characters are bytes
        full = size + length > max_bytes or files + entry.upload.size > MOST_OBJECT_BYTES
        if gathered and (full or _day(gathered[0]) != _day(entry)):
            yield make_notice(route, bucket, origin, gathered, at=at)
            gathered, size, files = [], envelope, 0
        gathered.append(entry)
        size += length
        files += entry.upload.size
    if gathered:
        yield make_notice(route, bucket, origin, gathered, at=at)


def _day(entry: Entry) -> int:
    return entry.upload.at // (24 * 60 * 60)


def _encode_entry(entry: Entry) -> list[Any]:
    upload = entry.upload
    fields: list[Any] = [upload.key, upload.version, upload.size, upload.sequencer]
    return [*fields, entry.takes_from] if entry.takes_from else fields


def _decode_entry(bucket: str, fields: list[Any]) -> Entry:
    key, version, size, sequencer, *rest = fields
    takes_from = rest[0] if rest else ""
    if not (isinstance(size, int) and all(isinstance(each, str) for each in (key, version, sequencer, takes_from))):
        raise Rejected(f"the notice has an upload that is none: {fields!r}")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise Rejected(f"the notice has a key that is not valid Unicode: {key!r}") from None
    return Entry(Upload(bucket, key, version, size, sequencer), takes_from)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)
