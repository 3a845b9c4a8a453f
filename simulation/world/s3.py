"""S3: versions, conditional reads and writes, consistent listings."""

import datetime
import hashlib
import io
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulation.world.kernel import Kernel
from simulation.world.shelves import Shelved
from simulation.world.wire import Refusal

SUSPENDED = "null"
"""The version id of each put into a bucket with suspended versioning. The next put of the key replaces it."""


MARKER = "DeleteMarkerCreated"
"""How a version came that is the marker of a deletion."""


@dataclass(frozen=True)
class Version:
    """One version of one object, as it was put. `number` counts the puts of the world."""

    number: int
    bucket: str
    key: str
    version_id: str
    etag: str
    body: bytes
    at: float
    how: str = "Put"
    sequencer: str = ""


def _rolled_up(key: str, prefix: str, delimiter: str) -> str:
    """A listing's common prefix of a key, up to the delimiter."""
    end = key.find(delimiter, len(prefix)) if delimiter else -1
    return key if end < 0 else key[: end + len(delimiter)]


def _folder(key: str) -> str:
    return key[: key.rfind("/") + 1]


def _listed_id(version: Version) -> str:
    return version.version_id or SUSPENDED


@dataclass
class Bucket:
    versioned: bool
    suspended: bool = False
    current: Shelved[str, Version] = field(default_factory=lambda: Shelved(_folder))
    versions: dict[tuple[str, str], Version] = field(default_factory=dict)
    first_at: dict[str, float] = field(default_factory=dict)
    """When each key was put first."""


class S3:
    """`on_put` is called with every version that is put from outside into a bucket with notifications."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buckets: dict[str, Bucket] = {}
        self.on_put: Callable[[Version], None] = lambda version: None
        self.on_written: Callable[[str, str], None] = lambda bucket, key: None
        """Called with each object that a program has put."""
        self.sequencer_of: Callable[[int], str] = lambda number: f"{number:016X}"
        self.page = 1_000
        """The number of keys in a page of a listing."""
        self.marks: Callable[[], bool] = lambda: False
        """Whether a deletion in a bucket with versions is a version that is told of. Else nobody hears of it."""
        self.conflicts: Callable[[], bool] = lambda: False
        """Whether a conditional put conflicts with another one. It is refused, and the answer does not tell which one
        succeeds."""
        self.refused: dict[tuple[str, str], str] = {}
        """Objects, by bucket and key, that S3 refuses, with the error code."""
        self.closed: dict[str, str] = {}
        """Buckets that S3 refuses, with the error code."""
        self._numbers = itertools.count(1)

    # ---- what people do

    def put(self, bucket: str, key: str, body: bytes, how: str = "Put") -> Version:
        number, place = next(self._numbers), self.buckets[bucket]
        version_id = f"v{number:04}" if place.versioned else ""
        version = Version(
            number=number,
            bucket=bucket,
            key=key,
            version_id=SUSPENDED if place.suspended else version_id,
            # of what was uploaded in parts it is no digest of the bytes
            etag=hashlib.md5(body).hexdigest() + ("-2" if how == "CompleteMultipartUpload" else ""),
            body=body,
            at=self.kernel.now,
            how=how,
            sequencer=self.sequencer_of(number),
        )
        place.current[key] = version
        place.first_at.setdefault(key, version.at)
        if version.version_id:
            place.versions[key, version.version_id] = version
        self.on_put(version)
        return version

    def delete(self, bucket: str, key: str) -> None:
        """In a versioned bucket the versions stay: a marker hides them. Only the version `null` is deleted."""
        place = self.buckets[bucket]
        place.current.pop(key, None)
        place.versions.pop((key, SUSPENDED), None)
        if self.marks() and place.versioned and not place.suspended:
            number = next(self._numbers)
            told = self.sequencer_of(number)
            marker = Version(number, bucket, key, f"v{number:04}", "", b"", self.kernel.now, MARKER, told)
            place.versions[key, marker.version_id] = marker
            self.on_put(marker)

    # ---- what the SDK asks

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        name = request["Bucket"]
        if name not in self.buckets:
            raise Refusal(404, "NoSuchBucket", f"bucket {name} does not exist")
        bucket = self.buckets[name]
        if code := self.closed.get(name):
            raise Refusal(404 if code == "NoSuchBucket" else 403, code, "not for now")
        if operation == "GetObject":
            if code := self.refused.get((name, request["Key"])):
                raise Refusal(403 if code == "AccessDenied" else 400, code, "refused for good")
            return self._get(bucket, request["Key"], request.get("VersionId", ""), request.get("IfMatch", ""))
        if operation == "PutObject":
            return self._put(name, request["Key"], request["Body"], request.get("IfNoneMatch", ""))
        if operation == "HeadObject":
            return self._head(bucket, request["Key"], request.get("VersionId", ""))
        if operation == "HeadBucket":
            return {}
        if operation == "ListObjectVersions":
            return self._list_versions(bucket, request)
        assert operation == "ListObjectsV2", f"S3 {operation} is not simulated"
        return self._list(bucket, request)

    def _get(self, bucket: Bucket, key: str, version_id: str, if_match: str) -> dict[str, Any]:
        found = bucket.versions.get((key, version_id)) if version_id else bucket.current.get(key)
        if found is None:
            raise Refusal(404, "NoSuchVersion" if version_id else "NoSuchKey", f"{key} is not there")
        if found.how == MARKER:
            raise Refusal(405, "MethodNotAllowed", f"{key} was deleted")
        if if_match and if_match.strip('"') != found.etag:
            raise Refusal(412, "PreconditionFailed", "At least one of the preconditions you specified did not hold")
        version = {"VersionId": found.version_id} if found.version_id else {}
        return {
            "Body": io.BytesIO(found.body),
            "ContentLength": len(found.body),
            "ETag": f'"{found.etag}"',
            **version,
        }

    def _head(self, bucket: Bucket, key: str, version_id: str) -> dict[str, Any]:
        found = bucket.versions.get((key, version_id)) if version_id else bucket.current.get(key)
        if found is None or found.how == MARKER:
            raise Refusal(405 if found else 404, "", headers={"x-amz-delete-marker": "true"} if found else {})
        return {"VersionId": found.version_id} if found.version_id else {}

    def _put(self, name: str, key: str, body: bytes, if_none_match: str) -> dict[str, Any]:
        if if_none_match == "*":
            if self.conflicts():
                raise Refusal(409, "ConditionalRequestConflict", "another conditional request is under way")
            if key in self.buckets[name].current:
                raise Refusal(412, "PreconditionFailed", "At least one of the preconditions you specified did not hold")
        etag = self.put(name, key, body).etag
        self.on_written(name, key)
        return {"ETag": f'"{etag}"'}

    def _list(self, bucket: Bucket, request: Mapping[str, Any]) -> dict[str, Any]:
        prefix, delimiter = request.get("Prefix", ""), request.get("Delimiter", "")
        most, token = request.get("MaxKeys", self.page), request.get("ContinuationToken", "")
        after = token or request.get("StartAfter", "")
        keys = sorted(
            key
            for folder, keys in bucket.current.shelves.items()
            if folder.startswith(prefix) or prefix.startswith(folder)
            for key in keys
            if key.startswith(prefix) and key > after
        )
        # a folder counts as one; the page that the token ends has told of it, or of the key
        found = list(dict.fromkeys(_rolled_up(key, prefix, delimiter) for key in keys))
        if delimiter and token.endswith(delimiter):
            found = [name for name in found if name != token]
        page = found[:most]
        contents = [
            {"Key": name, "ETag": f'"{bucket.current[name].etag}"', "Size": len(bucket.current[name].body)}
            for name in page
            if not delimiter or not name.endswith(delimiter)
        ]
        folders = [{"Prefix": name} for name in page if delimiter and name.endswith(delimiter)]
        more = {"NextContinuationToken": page[-1]} if len(page) < len(found) else {}
        return {"Contents": contents, "CommonPrefixes": folders, "IsTruncated": bool(more), **more}

    def _list_versions(self, bucket: Bucket, request: Mapping[str, Any]) -> dict[str, Any]:
        """The keys in order, of each the newest version first. What was put without a version has the id `null`."""
        prefix, most = request.get("Prefix", ""), request.get("MaxKeys", self.page)
        after, after_version = request.get("KeyMarker", ""), request.get("VersionIdMarker", "")
        there = {*bucket.versions.values(), *bucket.current.values()}
        found = sorted((each.key, -each.number, each) for each in there if each.key.startswith(prefix))
        # a marker without a version is after the whole key; one whose version is gone is before it
        marked = [each.number for each in there if (each.key, _listed_id(each)) == (after, after_version)]
        before = (marked[0] if marked else math.inf) if after_version else -math.inf
        left = [each for key, _, each in found if key > after or (key == after and each.number < before)]
        page = left[:most]
        latest = {each.key: each.number for _, _, each in reversed(found)}
        answered: dict[str, Any] = {"Versions": [], "DeleteMarkers": [], "IsTruncated": len(page) < len(left)}
        for each in page:
            is_marker = each.how == MARKER
            # what was deleted, and left no marker, has no current version
            is_latest = latest[each.key] == each.number if is_marker else bucket.current.get(each.key) is each
            told = {
                "Key": each.key,
                "VersionId": _listed_id(each),
                "IsLatest": is_latest,
                "LastModified": datetime.datetime.fromtimestamp(int(each.at), datetime.UTC),
            }
            if not is_marker:
                told |= {"ETag": f'"{each.etag}"', "Size": len(each.body)}
            answered["DeleteMarkers" if is_marker else "Versions"].append(told)
        if answered["IsTruncated"]:
            answered |= {"NextKeyMarker": page[-1].key, "NextVersionIdMarker": _listed_id(page[-1])}
        return answered
