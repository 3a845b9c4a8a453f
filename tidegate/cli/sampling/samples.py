"""The files that a verb is given: of this machine, or objects in S3. One that is named is read; of a folder or a prefix
the first ones are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import boto3
import typer
from botocore.exceptions import ClientError

from tidegate.aws.errors import asking, code_of
from tidegate.cli.exits import Exit, Expected
from tidegate.core.uploads import Upload, version_of
from tidegate.formats.streams import ByteSource
from tidegate.reading.local_files import LocalFile, files_under

SCHEME = "s3://"


class SampleMissing(Expected):
    """A file that was named is not there, or cannot be read."""

    code = Exit.USAGE


@dataclass(frozen=True, slots=True)
class Sample:
    """A file: how it was named, its key (of a file of this machine without the prefix of a route), its bytes. `upload`
    is the object, if it is one in S3."""

    name: str
    key: str
    source: ByteSource
    upload: Upload | None = None


@dataclass(frozen=True, slots=True)
class S3Bytes:
    """One version of an object, as a source of bytes (`formats.streams.ByteSource`). Raises TidegateError."""

    client: Any
    upload: Upload
    owner: str = ""

    @property
    def size(self) -> int:
        return self.upload.size

    def read(self, start: int, end: int) -> bytes:
        of = self.upload
        version = {"VersionId": of.version_id} if of.version_id else {"IfMatch": f'"{of.etag}"'}
        with asking(f"read {of.uri}"):
            answer = self.client.get_object(
                Bucket=of.bucket, Key=of.key, Range=f"bytes={start}-{end - 1}", **version, **_owned(self.owner)
            )
            return bytes(answer["Body"].read())


def samples(given: Sequence[str], most: int, owner: str = "") -> Iterator[Sample]:
    """What is named: of each folder and each prefix at most `most` files, those without a byte too. Raises
    SampleMissing, and TidegateError for what S3 refuses. If `owner` is given, the buckets must belong to that
    account."""
    for each in given:
        if each.startswith(SCHEME):
            yield from _in_s3(each, most, owner)
        else:
            yield from _local(Path(each), most)


def _local(path: Path, most: int) -> Iterator[Sample]:
    try:
        if path.is_dir():
            for file in islice(files_under(path), most):
                yield Sample(str(file), file.relative_to(path).as_posix(), LocalFile.of(file))
        else:
            yield Sample(str(path), path.name, LocalFile.of(path))
    except OSError as error:
        raise SampleMissing(f"{error.filename or path} cannot be read: {error.strerror or error}") from error


def _in_s3(uri: str, most: int, owner: str) -> Iterator[Sample]:
    bucket, _, key = uri.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise typer.BadParameter(f"{uri!r} is not s3://bucket/key; the key is taken as it is, not URL-encoded")
    with asking(f"read {uri}"):
        client = boto3.client("s3")
    found = None if not key or key.endswith("/") else _object(client, bucket, key, owner)
    uploads = [found] if found else list(islice(_under(client, bucket, key, owner), most))
    if not uploads:
        raise SampleMissing(f"there is no object {uri}, nor one whose key begins so")
    for upload in uploads:
        yield Sample(upload.uri, upload.key, S3Bytes(client, upload, owner), upload)


def _object(client: Any, bucket: str, key: str, owner: str) -> Upload | None:
    """The current version of an object; None if there is none."""
    with asking(f"read {SCHEME}{bucket}/{key}"):
        try:
            about = client.head_object(Bucket=bucket, Key=key, **_owned(owner))
        except ClientError as error:
            if code_of(error) in ("404", "NoSuchKey", "NotFound"):
                return None
            raise
    return Upload(bucket, key, version_of(about.get("VersionId"), about["ETag"]), int(about["ContentLength"]))


def _under(client: Any, bucket: str, prefix: str, owner: str) -> Iterator[Upload]:
    with asking(f"list {SCHEME}{bucket}/{prefix}"):
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **_owned(owner))
        for page in pages:
            for each in page.get("Contents", ()):
                if not each["Key"].endswith("/"):
                    yield Upload(bucket, each["Key"], version_of(None, each["ETag"]), int(each["Size"]))


def _owned(owner: str) -> dict[str, str]:
    return {"ExpectedBucketOwner": owner} if owner else {}
