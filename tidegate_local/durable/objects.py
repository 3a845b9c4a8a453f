"""S3's objects: each version of each key, and delete markers, in the order in which they came.

The bytes of a version leave the memory once they are on the disk, and are read from there.
"""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

from moto.s3.models import FakeBucket, FakeDeleteMarker, FakeKey, s3_backends
from moto.s3.utils import _VersionedKeyStore
from moto.utilities.utils import LowercaseDict

from tidegate_local.durable.changes import CHANGES
from tidegate_local.durable.database import Database, Transaction, chunks
from tidegate_local.environment import ACCOUNT, REGION
from tidegate_local.mends.patching import patch

if TYPE_CHECKING:
    from moto.s3.models import S3Backend

ATTRIBUTES = (
    *("_storage_class", "_etag", "_version_id", "_is_versioned", "contentsize", "website_redirect_location"),
    *("encryption", "kms_key_id", "bucket_key_enabled", "lock_mode", "lock_legal_status", "lock_until"),
    *("checksum_algorithm", "checksum_value", "checksum_type", "checksum_parts"),
)
"""What moto knows of an object, beside its key, bytes, time, metadata and tags. Access lists are not kept: nobody is
refused anything here."""
_ROW = "kept_as"
"""Where a version notes the number of its row."""


def backend() -> S3Backend:
    return s3_backends[ACCOUNT]["aws"]


class TouchedKeys(_VersionedKeyStore):
    """The versions of a bucket's keys, telling which keys change."""

    def __init__(self, bucket: str) -> None:
        super().__init__()
        self.bucket = bucket

    def __setitem__(self, key: str, value: Any) -> None:
        CHANGES.touch("object", self.bucket, key)
        super().__setitem__(key, value)

    def setlist(self, key: Any, list_: Any) -> None:
        CHANGES.touch("object", self.bucket, key)
        super().setlist(key, list_)

    def pop(self, key: str) -> None:  # type: ignore[override]
        CHANGES.touch("object", self.bucket, key)
        super().pop(key)


def tell_changed_keys() -> None:
    """Have every bucket that is made from now on tell which of its keys change."""
    original = FakeBucket.__init__

    def made(bucket: FakeBucket, *arguments: Any, **options: Any) -> None:
        original(bucket, *arguments, **options)
        bucket.keys = TouchedKeys(bucket.name)

    patch(FakeBucket, __init__=made)


class StoredContent:
    """The bytes of a version, in place of the temporary file that moto has for them."""

    def __init__(self, database: Database, version: int) -> None:
        self._database = database
        self._version = version
        self._position = 0

    def seek(self, position: int) -> int:
        self._position = position
        return position

    def read(self, size: int = -1) -> bytes:
        content = self._database.content(self._version)
        end = len(content) if size < 0 else self._position + size
        found = content[self._position : end]
        self._position += len(found)
        return found

    def close(self) -> None:
        """Nothing is open."""


class KeptObjects:
    """The rows of the objects."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[tuple[str, str], set[int]] = {}
        ((last,),) = database.rows("SELECT coalesce(max(id), 0) FROM versions")
        self._next = int(last) + 1

    def write(self, transaction: Transaction, bucket: str, key: str) -> None:
        """What is stored under a key now, against what its rows say."""
        found = backend().buckets.get(bucket)
        versions = found.keys.getlist(key, []) if found is not None else []
        before = self._rows.pop((bucket, key), set())
        present: set[int] = set()
        for version in versions:
            if (row := getattr(version, _ROW, None)) is None:
                row = self._insert(transaction, bucket, version)
            present.add(row)
        for gone in sorted(before - present):
            transaction.say("DELETE FROM versions WHERE id = ?", gone)
            transaction.say("DELETE FROM contents WHERE version = ?", gone)
        if present:
            self._rows[bucket, key] = present

    def describe_again(self, transaction: Transaction, bucket: str, key: str) -> None:
        """A request has changed what is known of a key's versions, and not the versions."""
        found = backend().buckets.get(bucket)
        for version in found.keys.getlist(key, []) if found is not None else []:
            kind, attributes = _describe(version)
            transaction.say(
                "UPDATE versions SET kind = ?, attributes = ? WHERE id = ?", kind, attributes, getattr(version, _ROW)
            )

    def fill(self) -> int:
        """Put every version into its bucket; the number of them."""
        count = 0
        for row, bucket, key, kind, attributes in self._database.rows(
            "SELECT id, bucket, key, kind, attributes FROM versions ORDER BY id"
        ):
            name = key.decode("utf-8", "surrogatepass")
            keys = backend().get_bucket(bucket).keys
            version = self._restored(row, bucket, name, kind, json.loads(attributes), keys.get(name))
            setattr(version, _ROW, row)
            keys[name] = version
            self._rows.setdefault((bucket, name), set()).add(row)
            count += 1
        return count

    def _insert(self, transaction: Transaction, bucket: str, version: Any) -> int:
        row, self._next = self._next, self._next + 1
        setattr(version, _ROW, row)
        kind, attributes = _describe(version)
        name = version.name.encode("utf-8", "surrogatepass")
        transaction.say("INSERT INTO versions VALUES (?, ?, ?, ?, ?)", row, bucket, name, kind, attributes)
        if isinstance(version, FakeKey):
            for number, part in chunks(version.value):
                transaction.say("INSERT INTO contents VALUES (?, ?, ?)", row, number, part)
            transaction.afterwards.append(lambda: setattr(version, "_value_buffer", StoredContent(self._database, row)))
        return row

    def _restored(self, row: int, bucket: str, name: str, kind: str, known: dict[str, Any], below: Any) -> Any:
        """`below` is the version of the key before it, if that is still there."""
        modified = datetime.datetime.fromisoformat(known["last_modified"])
        if kind != "object":
            hidden: Any = below if below is not None else _nothing(name, bucket)
            if kind == "marker of a marker" and not isinstance(hidden, FakeDeleteMarker):
                hidden = FakeDeleteMarker(hidden)  # what it marked is gone
            marker = FakeDeleteMarker(hidden)
            marker.last_modified, marker._version_id = modified, known["version_id"]
            return marker
        version = _nothing(name, bucket)
        for each in ATTRIBUTES:
            setattr(version, each, known[each])
        version.last_modified = modified
        version._metadata = LowercaseDict(known["metadata"])
        setattr(version, "_value_buffer", StoredContent(self._database, row))  # noqa: B010
        if known["tags"]:
            backend().tagger.tag_resource(
                version.arn, [{"Key": tag, "Value": value} for tag, value in known["tags"].items()]
            )
        return version


def _nothing(name: str, bucket: str) -> FakeKey:
    return FakeKey(name, b"", ACCOUNT, REGION, bucket_name=bucket)


def _describe(version: Any) -> tuple[str, str]:
    """Its kind, and what is known of it."""
    known: dict[str, Any] = {"last_modified": version.last_modified.isoformat()}
    if isinstance(version, FakeDeleteMarker):
        hidden: Any = version.key
        kind = "marker of a marker" if isinstance(hidden, FakeDeleteMarker) else "marker"
        return kind, json.dumps({**known, "version_id": version.version_id})
    _ = version.etag  # moto works it out when it is first asked for
    known |= {each: getattr(version, each) for each in ATTRIBUTES}
    known["metadata"] = dict(version.metadata)
    known["tags"] = backend().tagger.get_tag_dict_for_resource(version.arn)
    return "object", json.dumps(known)
