"""An upload: one version of one object, the thing whose rows must be in the table exactly once."""

import hashlib
from dataclasses import dataclass

ETAG_PREFIX = "etag:"


@dataclass(frozen=True, slots=True)
class Upload:
    """One version of one S3 object.

    `version` is S3's version id, or `etag:<etag>` where the bucket is unversioned. That pair is the
    only identity that notifications and listings both know, so `size` (bytes) and `sequencer` (orders
    the versions of one key, hex) are carried along but are no part of it.
    """

    bucket: str
    key: str
    version: str
    size: int
    sequencer: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        return (self.bucket, self.key, self.version)

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def version_id(self) -> str | None:
        """The S3 version id to GET, or None where the bucket is unversioned."""
        return None if self.version.startswith(ETAG_PREFIX) else self.version

    @property
    def etag(self) -> str | None:
        """The ETag to demand with `If-Match`, unquoted, or None where a version id says it all."""
        return self.version.removeprefix(ETAG_PREFIX) if self.version.startswith(ETAG_PREFIX) else None

    def __str__(self) -> str:
        return f"{self.uri} ({self.version})"


def version_of(version_id: str | None, etag: str | None) -> str:
    """The version part of the identity, from what S3 says; an empty string if it says neither.

    A bucket whose versioning is suspended gives every new object the version id `null` and overwrites
    it in place, so `null` names nothing and the ETag has to.
    """
    if version_id and version_id != "null":
        return version_id
    return ETAG_PREFIX + etag.strip('"') if etag and etag.strip('"') else ""


def is_later(sequencer: str, other: str) -> bool:
    """Whether S3 gave `sequencer` to a later event of the same key. Hexadecimal, not always of the same length, and
    compared digit by digit from the left, the shorter one padded with zeros on its right
    (https://repost.aws/knowledge-center/s3-duplicate-sqs-messages); False if one is missing.

    In an unversioned bucket an upload is named by its ETag, so only this tells the same bytes uploaded again from the
    same notification delivered again.
    """
    width = max(len(sequencer), len(other))
    return bool(sequencer and other) and sequencer.lower().ljust(width, "0") > other.lower().ljust(width, "0")


def object_hash(bucket: str, key: str) -> str:
    """A short fixed-length name for (bucket, key): keys may be 1,024 bytes, DynamoDB bills by the KB.

    The NUL cannot occur in a bucket's name, so no two pairs give the same input.
    """
    return hashlib.sha256(f"{bucket}\0{key}".encode()).hexdigest()[:40]
