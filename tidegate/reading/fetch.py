"""One GET for each object, or for each range of a large one, at exactly the claimed version.

obstore (Rust) takes a fifth of boto3's processor time, but its paths cannot express every S3 key: `a//b` is refused,
and `/a` or `a/` silently become `a`, another object. boto3 reads such keys (`is_plain`,
to be looked at when the version of obstore changes): a wrong object would land the rows of another upload.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from obstore.exceptions import GenericError, NotFoundError, PermissionDeniedError, PreconditionError
from obstore.store import S3Store

from tidegate.core.outcomes import Outcome
from tidegate.core.replacing import in_order, is_marker, listed_version
from tidegate.core.same_bytes import listed_bytes
from tidegate.core.uploads import Upload, neighbourhood
from tidegate.reading.s3_store import s3_store


class BucketMissing(Exception):
    """The landing bucket itself is gone. That is no statement about any object in it."""


@dataclass(frozen=True, slots=True)
class Missed:
    """The version does not exist any more."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Deleted(Missed):
    """The version is a delete marker: with it the object was deleted. The ending is that of a route which keeps."""

    outcome: Outcome = Outcome.VANISHED
    reason: str = "a deletion, and the route keeps the rows of what is deleted"


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The object was left unread: it has more bytes than a task may hold."""

    size: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The version exists, but S3 refuses to read it at every try."""

    reason: str


@dataclass(frozen=True, slots=True)
class Withheld:
    """S3 itself refused to read the version. The cause may be the object (a KMS key, a key of the uploader, an ACL of
    another account) or the caller. Reading its neighbours tells these apart."""

    reason: str


Range = tuple[int, int]
"""The first byte, and the one after the last."""
Fetched = bytes | Missed | TooLarge | Unreadable | Withheld

NOT_ABOUT_THE_OBJECT = frozenset(
    {
        "AccountProblem",
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "InternalError",
        "InvalidAccessKeyId",
        "InvalidSecurity",
        "InvalidToken",
        "NotSignedUp",
        "PermanentRedirect",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "RequestTimeout",
        "ServiceUnavailable",
        "SignatureDoesNotMatch",
        "SlowDown",
        "TemporaryRedirect",
        "TokenRefreshRequired",
    }
)
"""Errors about the caller or about S3, which would be the same for any object
(https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html)."""
PASSING = ("Throttl", "Internal", "Timeout", "Aborted", "Unavailable")
"""Parts of the names of errors that pass by themselves, of KMS too."""
NEIGHBOURS = 20

_ARCHIVED = Unreadable("archived: restore it to a storage class that can be read, and upload it again")

_GONE = Missed(Outcome.VANISHED, "deleted before it was read")
_DELETED_SINCE = Missed(Outcome.SUPERSEDED, "its object was deleted after it, before it was read")
_OVERWRITTEN = Missed(Outcome.SUPERSEDED, "overwritten before it was read; the newer version is an upload of its own")


def fetch(upload: Upload, max_bytes: int, owner: str = "") -> Fetched:
    """The bytes of the claimed version. If `owner` is given, S3 reads only from a bucket of that account. Raises on
    anything that a later try may cure, and BucketMissing."""
    return _read(upload, max_bytes, owner, None)


def fetch_unless_deleted(upload: Upload, max_bytes: int, owner: str = "") -> Fetched:
    """As `fetch`; Deleted for a delete marker. A version whose object was deleted after it is superseded, though it is
    there. It costs one HEAD more for each upload."""
    body = fetch(upload, max_bytes, owner)
    if isinstance(body, bytes | TooLarge):
        return deleted_since(upload, owner) or body
    gone = isinstance(body, Missed) and body.outcome is Outcome.VANISHED
    return Deleted() if gone and _is_marker(upload, owner) else body


def deleted_since(upload: Upload, owner: str = "") -> Missed | None:
    """How a version ends whose object was deleted after it; None if it was not."""
    if upload.version_id is None or _is_current(upload, owner):
        return None
    deleted = False
    for each in _listed(upload, owner):
        if listed_version(each) == upload.version:
            return _DELETED_SINCE if deleted else None
        deleted = deleted or is_marker(each)
    return None


def _is_current(upload: Upload, owner: str) -> bool:
    """Whether it is the version that a GET without a version reads. False if that cannot be told cheaply."""
    with suppress(NotFoundError, FileNotFoundError, PermissionDeniedError, GenericError):
        return is_plain(upload.key) and _store(upload.bucket, owner).head(upload.key).get("version") == upload.version
    return False


def _is_marker(upload: Upload, owner: str) -> bool:
    """S3 tells by its answer to a GET already (https://docs.aws.amazon.com/AmazonS3/latest/userguide/DeleteMarker.html).
    Services that imitate it tell by that to a HEAD only."""
    if upload.version_id is None:
        return False
    where = {"Bucket": upload.bucket, "Key": upload.key, **({"ExpectedBucketOwner": owner} if owner else {})}
    try:
        _client().head_object(**where, VersionId=upload.version_id)
    except ClientError as error:
        told = error.response["ResponseMetadata"]
        if told["HTTPStatusCode"] not in (404, 405):
            raise
        return "x-amz-delete-marker" in told["HTTPHeaders"]
    return False


def fetch_range(upload: Upload, start: int, end: int, owner: str = "") -> Fetched:
    """The bytes of the claimed version from `start` up to `end`, which lie in it. Otherwise as `fetch`."""
    return _read(upload, sys.maxsize, owner, (start, end))


def probe(upload: Upload, owner: str = "") -> Fetched:
    """TooLarge with the size of the claimed version, if it can be read, and it has a byte. Otherwise as `fetch`."""
    return _read(upload, 0, owner, (0, 1))


def _read(upload: Upload, max_bytes: int, owner: str, part: Range | None) -> Fetched:
    read = _with_obstore if is_plain(upload.key) else _with_boto3
    return read(upload, max_bytes, owner, part)


def is_plain(key: str) -> bool:
    """Whether obstore's path for this key is this key and no other."""
    return all(segment not in ("", ".", "..") for segment in key.split("/")) and not any(
        ord(character) < 0x20 or ord(character) == 0x7F for character in key
    )


def _with_obstore(upload: Upload, max_bytes: int, owner: str, part: Range | None) -> Fetched:
    options: Any = {"version": upload.version_id} if upload.version_id else {"if_match": f'"{upload.etag}"'}
    if part is not None:
        options["range"] = part
    try:
        answer = _store(upload.bucket, owner).get(upload.key, options=options)
        size = answer.meta["size"]
        return TooLarge(size) if size > max_bytes else bytes(answer.bytes())
    except PreconditionError:
        return _OVERWRITTEN
    except (NotFoundError, FileNotFoundError, PermissionDeniedError, GenericError) as error:
        # only S3's own answer counts: a 404 may also come from a proxy, or from a wrong endpoint
        found = re.search(r"<Code>([\w.]+)</Code>(?:\s*<Message>([^<]*)</Message>)?", str(error))
        ending = _ending_of(found[1], found[2] or "", upload) if found else None
        if ending is None:
            raise
        return ending


def _ending_of(code: str, message: str, upload: Upload) -> Fetched | None:
    """What an error of S3 means for the upload; None if it means nothing for it. Raises BucketMissing."""
    if code == "PreconditionFailed":
        return _OVERWRITTEN
    if code in ("NoSuchKey", "NoSuchVersion"):
        return _GONE
    if code == "MethodNotAllowed" and upload.version_id:
        return Deleted()
    if code == "NoSuchBucket":
        raise BucketMissing(f"bucket {upload.bucket} does not exist")
    if code == "InvalidObjectState":
        return _ARCHIVED
    if not code or code in NOT_ABOUT_THE_OBJECT or any(word in code for word in PASSING):
        return None
    return Withheld(f"{code}: {message}" if message else code)


def a_neighbour_is_readable(upload: Upload, owner: str = "") -> bool:
    """Whether another object near a refused one can be read, and the refused one still cannot. Then the refusal is
    about the refused object, and not about a moment that is over.

    The neighbour is read with a version if the upload has one, because a role may be allowed to do the one and not the
    other. An error is no proof.
    """
    _, folder, ending = neighbourhood(upload)
    where = {"Bucket": upload.bucket, **({"ExpectedBucketOwner": owner} if owner else {})}
    try:
        if upload.version_id:
            listed = _client().list_object_versions(**where, Prefix=folder, MaxKeys=NEIGHBOURS).get("Versions", ())
        else:
            listed = _client().list_objects_v2(**where, Prefix=folder, MaxKeys=NEIGHBOURS).get("Contents", ())
    except (BotoCoreError, ClientError):
        return False
    others = (each for each in listed if each["Size"] and each["Key"] != upload.key)
    near = (each for each in others if each["Key"].endswith(ending))
    readable = any(_is_readable(each["Key"], each["VersionId"] if upload.version_id else None, where) for each in near)
    return readable and not _is_readable(upload.key, upload.version_id, where)


def newest_first(upload: Upload, versions: Set[str], owner: str = "") -> dict[str, str]:
    """The versions of an upload's object, as uploads have them, in S3's order, the latest first, each with what tells
    its bytes from others; as far as all of `versions` that are there."""
    found: dict[str, str] = {}
    missing = set(versions)
    for each in _listed(upload, owner):
        version = listed_version(each)
        found[version] = listed_bytes(each)
        missing.discard(version)
        if not missing:
            break
    return found


def _listed(upload: Upload, owner: str) -> Iterator[Mapping[str, Any]]:
    """The versions of an upload's object as S3 lists them, the latest first."""
    where = {"Bucket": upload.bucket, "Prefix": upload.key, **({"ExpectedBucketOwner": owner} if owner else {})}
    marker: dict[str, str] = {}
    while True:
        page = _client().list_object_versions(**where, **marker)
        yield from (each for each in in_order(page) if each["Key"] == upload.key)
        # keys come in order, and this one is the first that begins so
        if not page["IsTruncated"] or page["NextKeyMarker"] != upload.key:
            return
        marker = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}


def _is_readable(key: str, version_id: str | None, where: Mapping[str, str]) -> bool:
    version = {"VersionId": version_id} if version_id else {}
    with suppress(BotoCoreError, ClientError):
        _client().get_object(**where, **version, Key=key, Range="bytes=0-0")
        return True
    return False


def _with_boto3(upload: Upload, max_bytes: int, owner: str, part: Range | None) -> Fetched:
    options = {"VersionId": upload.version_id} if upload.version_id else {"IfMatch": f'"{upload.etag}"'}
    if part is not None:
        options["Range"] = f"bytes={part[0]}-{part[1] - 1}"
    if owner:
        options["ExpectedBucketOwner"] = owner
    try:
        answer = _client().get_object(Bucket=upload.bucket, Key=upload.key, **options)
        # of a range, "bytes 0-0/1234"
        size = int(answer.get("ContentRange", "").rpartition("/")[2] or answer["ContentLength"])
        return TooLarge(size) if size > max_bytes else bytes(answer["Body"].read())
    except ClientError as error:
        said = error.response.get("Error", {})
        ending = _ending_of(str(said.get("Code", "")), str(said.get("Message", "")), upload)
        # an answer without a body, such as a proxy's, has its status for a code
        if ending is None or str(said.get("Code", "")).isdigit():
            raise
        return ending


@cache
def _store(bucket: str, owner: str) -> S3Store:
    return s3_store(bucket, headers={"x-amz-expected-bucket-owner": owner} if owner else None)


@cache
def _client() -> Any:
    return boto3.client("s3")
