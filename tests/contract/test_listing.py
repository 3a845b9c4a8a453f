"""What every `flows.ports.Listing` must do: S3's, and the one in memory that tests of the flows use."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.build import upload
from tests.support.fakes import MemoryListing
from tests.support.ledgers import moto_client, moto_table
from tidegate.aws.listing import S3Listing
from tidegate.core.audit import BEGINNING, Listed
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.notifications import Notified, parse
from tidegate.flows.ports import Listing

BUCKET = "landing"
KEYS = ["a/1 +ä.json", "a/2.json", "a/2.json.bak", "a/3.json", "b/1.json"]


def pages(listing: Listing, prefix: str = "a/") -> list[list[Listed]]:
    found, after = [], BEGINNING
    while after:
        page = listing.page(BUCKET, prefix, after, "")
        found.append(list(page.listed))
        after = page.after
    return found


def names(listing: Listing, prefix: str = "a/") -> list[str]:
    return [each.upload.key for page in pages(listing, prefix) for each in page]


@pytest.fixture
def s3() -> Iterator[Any]:
    with moto_table():
        client = moto_client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield client


def versioning(s3: Any, status: str) -> None:
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": status})


Small = Callable[[int], Listing]


@pytest.fixture(params=["s3", "memory"])
def small(request: pytest.FixtureRequest, s3: Any) -> Small:
    """Makes a listing of `KEYS` in pages of so many."""

    def made(size: int) -> Listing:
        if request.param == "memory":
            return MemoryListing({upload(key, bucket=BUCKET): 5 for key in KEYS}, size)
        for key in KEYS:
            s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")
        return S3Listing(_InPages(s3, size))

    return made


class _InPages:
    """S3 with smaller pages than its 1,000."""

    def __init__(self, client: Any, size: int) -> None:
        self._client = client
        self._size = size
        self.asked: list[dict[str, Any]] = []

    def list_object_versions(self, **given: Any) -> Any:
        self.asked.append(given)
        return self._client.list_object_versions(**given, MaxKeys=self._size)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_every_key_under_the_prefix_is_listed_once_and_in_order_whatever_the_size_of_a_page(small: Small, size: int):
    assert names(small(size)) == KEYS[:4]


def test_a_prefix_without_objects_has_one_empty_page(small: Small):
    assert pages(small(2), "c/") == [[]]


# ---- S3's own


@pytest.mark.parametrize("status", ["", "Enabled", "Suspended"])
def test_an_upload_is_listed_under_the_identity_that_s3_announces(s3: Any, status: str):
    """In a bucket without versions, or with suspended ones, that is the ETag."""
    if status:
        versioning(s3, status)
    put = s3.put_object(Bucket=BUCKET, Key="a/1.json", Body=b"123")
    object_ = {"key": "a/1.json", "size": 3, "eTag": put["ETag"].strip('"')}
    if "VersionId" in put and status:
        object_["versionId"] = put["VersionId"] if status == "Enabled" else "null"
    record = {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": BUCKET}, "object": object_}}
    (announced,) = parse(json.dumps({"Records": [record]}))
    assert isinstance(announced, Notified)
    ((listed,),) = pages(S3Listing(s3))
    assert listed.upload == announced.upload
    head = s3.head_object(Bucket=BUCKET, Key="a/1.json")
    assert listed.modified == int(head["LastModified"].timestamp())


def test_every_version_is_listed_and_each_deletion_before_what_it_hides(s3: Any):
    versioning(s3, "Enabled")
    ids = [s3.put_object(Bucket=BUCKET, Key="a/1.json", Body=body)["VersionId"] for body in (b"1", b"22", b"333")]
    marker = s3.delete_object(Bucket=BUCKET, Key="a/1.json")["VersionId"]
    for size in (1, 2, 100):
        first, *listed = [each for page in pages(S3Listing(_InPages(s3, size))) for each in page]
        assert (first.upload.version, first.upload.size, first.deletion, first.latest) == (marker, 0, True, True)
        assert {each.upload.version: each.upload.size for each in listed} == dict(zip(ids, (1, 2, 3), strict=True))
        assert not any(each.latest or each.deletion for each in listed), "a deleted object has no current version"


def test_the_current_version_is_told(s3: Any):
    versioning(s3, "Enabled")
    ids = [s3.put_object(Bucket=BUCKET, Key="a/1.json", Body=body)["VersionId"] for body in (b"1", b"22")]
    ((*listed,),) = pages(S3Listing(s3))
    assert {each.upload.version: each.latest for each in listed} == {ids[0]: False, ids[1]: True}


def test_what_is_overwritten_without_versions_is_gone(s3: Any):
    s3.put_object(Bucket=BUCKET, Key="a/1.json", Body=b"1")
    s3.put_object(Bucket=BUCKET, Key="a/1.json", Body=b"22")
    ((listed,),) = pages(S3Listing(s3))
    assert listed.upload.size == 2


@pytest.mark.parametrize(("owner", "expected"), [("", "111111111111"), ("222222222222", "222222222222")])
def test_s3_is_told_whose_bucket_it_is(s3: Any, owner: str, expected: str):
    asking = _InPages(s3, 10)
    S3Listing(asking, "111111111111").page(BUCKET, "a/", BEGINNING, owner)
    (asked,) = asking.asked
    assert asked == {"Bucket": BUCKET, "Prefix": "a/", "ExpectedBucketOwner": expected}


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "AccessDenied", Retryable),
        (503, "SlowDown", Retryable),
        (500, "InternalError", OutcomeUnknown),
    ],
)
def test_trouble_names_the_bucket_and_the_prefix(status: int, code: str, error: type[Exception]):
    class Refusing:
        def list_object_versions(self, **given: Any) -> Any:
            answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(answer, "ListObjectVersions")

    with pytest.raises(error, match=f"could not list s3://{BUCKET}/a/: {code}: no"):
        S3Listing(Refusing()).page(BUCKET, "a/", BEGINNING, "")


def test_a_listing_that_does_not_go_on_is_trouble():
    class Stuck:
        def list_object_versions(self, **given: Any) -> Any:
            return {"IsTruncated": True}

    with pytest.raises(OutcomeUnknown, match="where the next page begins"):
        S3Listing(Stuck()).page(BUCKET, "a/", BEGINNING, "")
