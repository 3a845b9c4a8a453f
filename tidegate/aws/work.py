"""The work bucket on S3."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NotRequired, TypedDict

from botocore.exceptions import ClientError

from tidegate.aws.errors import asking, code_of

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


class _Where(TypedDict):
    """The bucket's arguments of every request."""

    Bucket: str
    ExpectedBucketOwner: NotRequired[str]


REFUSALS = ("SlowDown", "ServiceUnavailable")
"""S3 refuses requests that come too fast with the status 503
(https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html): no object was read or written."""
CONFLICTS = 3
"""So often a conditional write is tried while another one is under way. Then it is Retryable."""

asking_s3 = partial(asking, refusals=REFUSALS)


class S3Work:
    """`flows.ports.Work` on a bucket of the account `owner`. A bucket of another account, which took the name after it
    was given up, is neither read nor written. Without an owner this is not checked, as in tests of one account."""

    def __init__(self, client: "S3Client", bucket: str, owner: str = "") -> None:
        self._client = client
        self._bucket = bucket
        self._where: _Where = {"Bucket": bucket}
        if owner:
            self._where["ExpectedBucketOwner"] = owner

    def get(self, name: str) -> bytes | None:
        with asking_s3(f"read s3://{self._bucket}/{name}"):
            try:
                answer = self._client.get_object(**self._where, Key=name)
            except ClientError as error:
                if code_of(error) == "NoSuchKey":
                    return None
                raise
            body: bytes = answer["Body"].read()
        return body

    def put(self, name: str, body: bytes) -> None:
        with asking_s3(f"write s3://{self._bucket}/{name}"):
            self._client.put_object(**self._where, Key=name, Body=body)

    def put_if_absent(self, name: str, body: bytes) -> bool:
        with asking_s3(f"write s3://{self._bucket}/{name}"):
            for more in reversed(range(CONFLICTS)):
                try:
                    self._client.put_object(**self._where, Key=name, Body=body, IfNoneMatch="*")
                except ClientError as error:
                    if code_of(error) == "PreconditionFailed":
                        return False
                    # Another conditional write is under way, which may fail. S3 says to try again, and boto3 does not
                    # (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).
                    if code_of(error) != "ConditionalRequestConflict" or not more:
                        raise
                else:
                    break
        return True

    def names(self, prefix: str) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(**self._where, Prefix=prefix)
        with asking_s3(f"list s3://{self._bucket}/{prefix}"):
            for page in pages:
                for found in page.get("Contents", ()):
                    yield found["Key"]

    def folders(self, prefix: str, first: str) -> Iterator[str]:
        # the listing is sorted; `StartAfter` skips what sorts before, and NAME/ sorts after NAME
        # (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            **self._where, Prefix=prefix, Delimiter="/", StartAfter=prefix + first
        )
        with asking_s3(f"list the folders of s3://{self._bucket}/{prefix}"):
            for page in pages:
                for found in page.get("CommonPrefixes", ()):
                    yield found["Prefix"].removeprefix(prefix).rstrip("/")
