"""An upload: one version of one object. Its rows must be in the table exactly once."""

import hashlib
from dataclasses import dataclass, field

ETAG_PREFIX = "etag:"


@dataclass(frozen=True, slots=True)
class Upload:
    """One version of one S3 object.

    `version` is S3's version id, or `etag:<etag>` if the bucket is unversioned. Notifications and listings have no
    other identity in common, so `size` (bytes) and `sequencer` (hex, orders the versions of one key) are no part of it.
    `at` is when S3 created it, in epoch seconds, 0 if unknown; uploads are compared without it.
    """

    bucket: str
    key: str
    version: str
    size: int
    sequencer: str = ""
    at: int = field(default=0, compare=False)

    @property
    def identity(self) -> tuple[str, str, str]:
        return (self.bucket, self.key, self.version)

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def version_id(self) -> str | None:
        """The S3 version id to GET, or None if the bucket is unversioned."""
        return None if self.version.startswith(ETAG_PREFIX) else self.version

    @property
    def etag(self) -> str | None:
        """The ETag for `If-Match`, unquoted, or None if there is a version id."""
        return self.version.removeprefix(ETAG_PREFIX) if self.version.startswith(ETAG_PREFIX) else None

    def __str__(self) -> str:
        return f"{self.uri} ({self.version})"


def version_of(version_id: str | None, etag: str | None) -> str:
    """The version part of the identity, from S3's version id and ETag; an empty string without both.

    A bucket with suspended versioning gives every new object the version id `null` and overwrites it in place. So
    `null` identifies nothing, and the ETag is used.
    """
    if version_id and version_id != "null":
        return version_id
    return ETAG_PREFIX + etag.strip('"') if etag and etag.strip('"') else ""


def is_later(sequencer: str, other: str) -> bool:
    """Whether S3 gave `sequencer` to a later event of the same key; False if one is missing.

    Sequencers are hexadecimal, and may differ in length. They are compared digit by digit from the left, the shorter
    one padded with zeros on its right (https://repost.aws/knowledge-center/s3-duplicate-sqs-messages).

    In an unversioned bucket an upload is identified by its ETag, so only the sequencer tells the same bytes uploaded
    again from the same notification delivered again.
    """
    width = max(len(sequencer), len(other))
    return bool(sequencer and other) and sequencer.lower().ljust(width, "0") > other.lower().ljust(width, "0")


def object_hash(bucket: str, key: str) -> str:
    """A short name of fixed length for (bucket, key): keys may have 1,024 bytes, and DynamoDB bills by the KB.

    A bucket's name contains no NUL, so no two pairs give the same input.
    """
    return hashlib.sha256(f"{bucket}\0{key}".encode()).hexdigest()[:40]


def neighbourhood(upload: Upload) -> tuple[str, str, str]:
    """The bucket, the folder and the suffix of an upload. A role usually has the same permissions for all of them."""
    folder, slash, name = upload.key.rpartition("/")
    return upload.bucket, folder + slash, name.rpartition(".")[2] if "." in name else ""
