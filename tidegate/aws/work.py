"""The work bucket on S3."""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from tidegate.aws.errors import asking, code_of


class S3Work:
    """`flows.ports.Work` on a bucket of the account `owner`: one that belongs to somebody else, because the name was
    let go of and taken, is neither read nor written. Without an owner nobody checks, as in tests of one account."""

    def __init__(self, client: Any, bucket: str, owner: str = "") -> None:
        self._client = client
        self._bucket = bucket
        self._where = {"Bucket": bucket, **({"ExpectedBucketOwner": owner} if owner else {})}

    def get(self, name: str) -> bytes | None:
        with asking(f"read s3://{self._bucket}/{name}"):
            try:
                answer = self._client.get_object(**self._where, Key=name)
            except ClientError as error:
                if code_of(error) == "NoSuchKey":
                    return None
                raise
            body: bytes = answer["Body"].read()
        return body

    def put(self, name: str, body: bytes) -> None:
        with asking(f"write s3://{self._bucket}/{name}"):
            self._client.put_object(**self._where, Key=name, Body=body)

    def put_if_absent(self, name: str, body: bytes) -> bool:
        with asking(f"write s3://{self._bucket}/{name}"):
            try:
                self._client.put_object(**self._where, Key=name, Body=body, IfNoneMatch="*")
            except ClientError as error:
                # 409, another conditional write under way, says nothing: that one may fail. It is raised, as Retryable
                if code_of(error) == "PreconditionFailed":
                    return False
                raise
        return True

    def names(self, prefix: str) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(**self._where, Prefix=prefix)
        with asking(f"list s3://{self._bucket}/{prefix}"):
            for page in pages:
                for found in page.get("Contents", ()):
                    yield found["Key"]

    def folders(self, prefix: str, first: str) -> Iterator[str]:
        # sorted, and `StartAfter` leaves out what sorts before: NAME/ sorts after NAME
        # (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html)
        pages = self._client.get_paginator("list_objects_v2").paginate(
            **self._where, Prefix=prefix, Delimiter="/", StartAfter=prefix + first
        )
        with asking(f"list the folders of s3://{self._bucket}/{prefix}"):
            for page in pages:
                for found in page.get("CommonPrefixes", ()):
                    yield found["Prefix"].removeprefix(prefix).rstrip("/")
