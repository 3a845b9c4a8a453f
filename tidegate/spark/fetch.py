"""One GET an object, at exactly the claimed version.

obstore (Rust) costs a fifth of boto3's processor time, but its paths cannot say every S3 key: `a//b` is refused, and
`/a` or `a/` silently become `a`, another object. Such keys go through boto3, which takes any. See docs/adr/.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.exceptions import GenericError, NotFoundError, PermissionDeniedError, PreconditionError
from obstore.store import S3Store

from tidegate.core.outcomes import Outcome
from tidegate.core.uploads import Upload

CREDENTIALS_LIVE = timedelta(minutes=10)
"""How long obstore may use credentials before it asks again: boto3 renews them in their last 15 minutes only."""


class BucketMissing(Exception):
    """The landing bucket itself is gone: not a word about any object in it."""


@dataclass(frozen=True, slots=True)
class Missed:
    """The version is not to be had any more."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The object was left unread: it has more bytes than a task may hold."""

    size: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The version is there, but S3 will not hand it out however often it is asked."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """S3 would not hand the version out, in words of its own. That may be about this object (a key of KMS or of the
    uploader's own, an ACL of another account) or about whoever asks: what its neighbours answer tells them apart."""

    reason: str


Fetched = bytes | Missed | TooLarge | Unreadable | Refused

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
"""Errors that say something of the caller or of S3, and would be the same for any object
(https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html)."""
NEIGHBOURS = 20

_ARCHIVED = Unreadable("archived: restore it to a storage class that can be read, and upload it again")

_GONE = Missed(Outcome.VANISHED, "deleted before it was read")
_OVERWRITTEN = Missed(Outcome.SUPERSEDED, "overwritten before it was read; the newer version is an upload of its own")


def fetch(upload: Upload, max_bytes: int, owner: str = "") -> Fetched:
    """The bytes of the claimed version, from a bucket of the account `owner`, if one is given: S3 refuses to read from
    anybody else's. Raises on anything that a later try may cure, and BucketMissing."""
    read = _with_obstore if is_plain(upload.key) else _with_boto3
    return read(upload, max_bytes, owner)


def is_plain(key: str) -> bool:
    """Whether obstore's paths name this key and no other one."""
    return all(segment not in ("", ".", "..") for segment in key.split("/")) and not any(
        ord(character) < 0x20 or ord(character) == 0x7F for character in key
    )


def _with_obstore(upload: Upload, max_bytes: int, owner: str) -> Fetched:
    options: Any = {"version": upload.version_id} if upload.version_id else {"if_match": f'"{upload.etag}"'}
    try:
        answer = _store(upload.bucket, owner).get(upload.key, options=options)
        size = answer.meta["size"]
        return TooLarge(size) if size > max_bytes else bytes(answer.bytes())
    except PreconditionError:
        return _OVERWRITTEN
    except (NotFoundError, FileNotFoundError, PermissionDeniedError, GenericError) as error:
        # only S3's own words count: a 404 may as well come from a proxy, or from a wrong endpoint
        found = re.search(r"<Code>([\w.]+)</Code>(?:\s*<Message>([^<]*)</Message>)?", str(error))
        ending = _ending_of(found[1], found[2] or "", upload) if found else None
        if ending is None:
            raise
        return ending


def _ending_of(code: str, message: str, upload: Upload) -> Fetched | None:
    """What an error of S3's says about the upload, if it says anything. Raises BucketMissing."""
    if code == "PreconditionFailed":
        return _OVERWRITTEN
    if code in ("NoSuchKey", "NoSuchVersion"):
        return _GONE
    if code == "NoSuchBucket":
        raise BucketMissing(f"bucket {upload.bucket} does not exist")
    if code == "InvalidObjectState":
        return _ARCHIVED
    if code.startswith("KMS."):
        return Unreadable(f"its KMS key cannot be used ({code}): make it usable and upload the file again")
    if not code or code in NOT_ABOUT_THE_OBJECT:
        return None
    return Refused(f"{code}: {message}" if message else code)


def a_neighbour_is_readable(upload: Upload, owner: str = "") -> bool:
    """Whether some other object near a refused one can be read: then the refusal is about that one.

    Looks at objects in the same folder whose names end alike, because the role may be allowed no others. Anything that
    goes wrong is no proof.
    """
    folder, _, name = upload.key.rpartition("/")
    ending = name.rpartition(".")[2] if "." in name else ""
    where = {"Bucket": upload.bucket, **({"ExpectedBucketOwner": owner} if owner else {})}
    try:
        listed = _client().list_objects_v2(**where, Prefix=f"{folder}/" if folder else "", MaxKeys=NEIGHBOURS)
    except (BotoCoreError, ClientError):
        return False
    keys = (each["Key"] for each in listed.get("Contents", ()) if each["Size"])
    for key in (key for key in keys if key != upload.key and key.endswith(ending)):
        with suppress(BotoCoreError, ClientError):
            _client().get_object(**where, Key=key, Range="bytes=0-0")
            return True
    return False


def _with_boto3(upload: Upload, max_bytes: int, owner: str) -> Fetched:
    options = {"VersionId": upload.version_id} if upload.version_id else {"IfMatch": f'"{upload.etag}"'}
    if owner:
        options["ExpectedBucketOwner"] = owner
    try:
        answer = _client().get_object(Bucket=upload.bucket, Key=upload.key, **options)
        size = answer["ContentLength"]
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
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    # boto3's idea of credentials, because it knows every place where AWS puts them, and renews them
    config: dict[str, Any] = {"credential_provider": Boto3CredentialProvider(ttl=CREDENTIALS_LIVE)}
    client_options: Any = {}
    if owner:
        # object_store signs default headers along with its own, as S3 demands of every x-amz-* header
        client_options["default_headers"] = {"x-amz-expected-bucket-owner": owner}
    if region:
        config["region"] = region
    if endpoint:
        client_options["allow_http"] = endpoint.startswith("http://")
        config |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    return S3Store(bucket, client_options=client_options, **config)


@cache
def _client() -> Any:
    return boto3.client("s3")
