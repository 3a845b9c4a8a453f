"""The simulated S3 answers as S3 does: versions, conditions, what is gone, listings. The same body runs on moto."""

import hashlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.world.differences import MOTO, SIMULATED
from simulation.world.kernel import Kernel
from simulation.world.s3 import S3, Bucket
from tests.conformance.backends import code_of, expect_differences, moto, simulated

VERSIONED, PLAIN = "landing", "work"
KEYS = ["a.json", "events/x y+z.json", "events/50%.json", "events/é/日😀.json", "a&b<c>.json", "a//b/../c.json"]


@dataclass(frozen=True)
class Store:
    client: Any

    def put(self, bucket: str, key: str, body: bytes, **conditions: str) -> None:
        self.client.put_object(Bucket=bucket, Key=key, Body=body, **conditions)

    def read(self, bucket: str, key: str, **which: str) -> tuple[bytes, str, str]:
        """Body, ETag and version (empty in an unversioned bucket)."""
        answer = self.client.get_object(Bucket=bucket, Key=key, **which)
        version = answer.get("VersionId", "")
        return answer["Body"].read(), answer["ETag"], "" if version == "null" else version

    def names(self, bucket: str, prefix: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]


class _Deleting:
    """People delete what they uploaded; the product never does, and so the simulated S3 lacks the call."""

    def __init__(self, client: Any, service: S3) -> None:
        self._client = client
        self._service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def delete_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803
        self._service.delete(Bucket, Key)


@contextmanager
def opened(backend: str) -> Iterator[Store]:
    if backend == SIMULATED:
        service = S3(Kernel(0))
        service.buckets = {VERSIONED: Bucket(versioned=True), PLAIN: Bucket(versioned=False)}
        with simulated("s3", service.answer) as client:
            yield Store(_Deleting(client, service))
        return
    with moto("s3") as client:
        for bucket in (VERSIONED, PLAIN):
            client.create_bucket(Bucket=bucket)
        client.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
        yield Store(client)


@pytest.fixture(params=[SIMULATED, MOTO])
def s3(request: pytest.FixtureRequest) -> Iterator[Store]:
    expect_differences(request, request.param)
    with opened(request.param) as store:
        yield store


def etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


both = pytest.mark.parametrize("bucket", [VERSIONED, PLAIN])


# ---- reading


@both
@pytest.mark.parametrize("key", KEYS)
def test_what_was_put_is_read_under_its_key(s3: Store, bucket: str, key: str) -> None:
    s3.put(bucket, key, b"one")
    body, tag, version = s3.read(bucket, key)
    assert (body, tag, bool(version)) == (b"one", etag(b"one"), bucket == VERSIONED)
    assert s3.names(bucket, "") == [key]


@both
def test_a_key_that_was_never_put(s3: Store, bucket: str) -> None:
    assert code_of(lambda: s3.read(bucket, "never")) == "NoSuchKey"


def test_a_bucket_that_is_not_there(s3: Store) -> None:
    assert code_of(lambda: s3.read("nobodys", "never")) == "NoSuchBucket"
    assert code_of(lambda: s3.put("nobodys", "never", b"")) == "NoSuchBucket"
    assert code_of(lambda: s3.names("nobodys", "")) == "NoSuchBucket"


@both
def test_a_key_that_was_deleted(s3: Store, bucket: str) -> None:
    s3.put(bucket, "a", b"one")
    s3.client.delete_object(Bucket=bucket, Key="a")
    assert code_of(lambda: s3.read(bucket, "a")) == "NoSuchKey"
    assert s3.names(bucket, "") == []


def test_a_version_is_read_after_it_was_overwritten_and_deleted(s3: Store) -> None:
    s3.put(VERSIONED, "a", b"one")
    first = s3.read(VERSIONED, "a")
    s3.put(VERSIONED, "a", b"two")
    second = s3.read(VERSIONED, "a")
    s3.client.delete_object(Bucket=VERSIONED, Key="a")
    assert s3.read(VERSIONED, "a", VersionId=first[2]) == first == (b"one", etag(b"one"), first[2])
    assert s3.read(VERSIONED, "a", VersionId=second[2]) == second == (b"two", etag(b"two"), second[2])
    assert first[2] != second[2]


def test_the_same_bytes_put_again_are_another_version(s3: Store) -> None:
    s3.put(VERSIONED, "a", b"one")
    first = s3.read(VERSIONED, "a")
    s3.put(VERSIONED, "a", b"one")
    second = s3.read(VERSIONED, "a")
    assert first[:2] == second[:2]
    assert first[2] != second[2]


def test_a_version_of_another_key_is_none_of_this_one(s3: Store) -> None:
    for key in ("a", "b"):
        s3.put(VERSIONED, key, key.encode())
    version = s3.read(VERSIONED, "b")[2]
    assert code_of(lambda: s3.read(VERSIONED, "a", VersionId=version)) == "NoSuchVersion"


def test_a_put_tells_its_version(s3: Store) -> None:
    answer = s3.client.put_object(Bucket=VERSIONED, Key="a", Body=b"one")
    assert answer.get("VersionId") == s3.read(VERSIONED, "a")[2]


@both
def test_if_match_reads_what_is_still_there(s3: Store, bucket: str) -> None:
    s3.put(bucket, "a", b"one")
    assert s3.read(bucket, "a", IfMatch=etag(b"one"))[0] == b"one"
    assert s3.read(bucket, "a", IfMatch=etag(b"one").strip('"'))[0] == b"one"
    s3.put(bucket, "a", b"two")
    assert code_of(lambda: s3.read(bucket, "a", IfMatch=etag(b"one"))) == "PreconditionFailed"
    s3.put(bucket, "a", b"one")
    assert s3.read(bucket, "a", IfMatch=etag(b"one"))[0] == b"one"


@both
def test_if_match_of_what_is_gone_is_not_found(s3: Store, bucket: str) -> None:
    assert code_of(lambda: s3.read(bucket, "a", IfMatch=etag(b"one"))) == "NoSuchKey"


# ---- writing


@both
def test_if_none_match_writes_once(s3: Store, bucket: str) -> None:
    s3.put(bucket, "a", b"one", IfNoneMatch="*")
    for body in (b"one", b"two"):
        assert code_of(lambda body=body: s3.put(bucket, "a", body, IfNoneMatch="*")) == "PreconditionFailed"
    assert s3.read(bucket, "a")[0] == b"one"


@both
def test_if_none_match_writes_again_once_it_is_deleted(s3: Store, bucket: str) -> None:
    s3.put(bucket, "a", b"one", IfNoneMatch="*")
    s3.client.delete_object(Bucket=bucket, Key="a")
    s3.put(bucket, "a", b"two", IfNoneMatch="*")
    assert s3.read(bucket, "a")[0] == b"two"


@both
def test_the_answer_to_a_put_has_the_etag(s3: Store, bucket: str) -> None:
    assert s3.client.put_object(Bucket=bucket, Key="a", Body=b"one")["ETag"] == etag(b"one")


# ---- listing


def test_a_listing_is_in_order_and_has_what_begins_with_the_prefix(s3: Store) -> None:
    keys = ["batches/A/sealed.json", "batches/B/parts/1", "batches/B/parts/2", "batches/B/sealed.json", "batches/BB/x"]
    for key in reversed(keys):
        s3.put(PLAIN, key, key.encode())
    assert s3.names(PLAIN, "batches/B/") == keys[1:4]
    assert s3.names(PLAIN, "batches/B") == keys[1:]
    assert s3.names(PLAIN, "") == keys
    assert s3.names(PLAIN, "nothing") == []


def test_a_listing_has_size_and_etag_of_the_newest(s3: Store) -> None:
    s3.put(VERSIONED, "a", b"one")
    s3.put(VERSIONED, "a", b"three")
    (found,) = s3.client.list_objects_v2(Bucket=VERSIONED)["Contents"]
    assert (found["Key"], found["Size"], found["ETag"]) == ("a", 5, etag(b"three"))


def test_a_listing_comes_in_pages(s3: Store) -> None:
    keys = [f"parts/{number}" for number in range(3)]
    for key in keys:
        s3.put(PLAIN, key, b"")
    first = s3.client.list_objects_v2(Bucket=PLAIN, MaxKeys=2)
    assert ([found["Key"] for found in first["Contents"]], first["IsTruncated"]) == (keys[:2], True)
    second = s3.client.list_objects_v2(Bucket=PLAIN, MaxKeys=2, ContinuationToken=first["NextContinuationToken"])
    assert ([found["Key"] for found in second["Contents"]], second["IsTruncated"]) == (keys[2:], False)


def folders(s3: Store, prefix: str, **more: str) -> tuple[list[str], list[str]]:
    """(folders page by page, keys beside them), two of a page."""
    pages = s3.client.get_paginator("list_objects_v2").paginate(
        Bucket=PLAIN, Prefix=prefix, Delimiter="/", PaginationConfig={"PageSize": 2}, **more
    )
    found = [each["Prefix"] for page in pages for each in page.get("CommonPrefixes", ())]
    return found, [each["Key"] for page in pages for each in page.get("Contents", ())]


def test_a_listing_of_folders_names_each_once_however_many_pages_it_takes(s3: Store) -> None:
    for name in ("b/01/parts/1", "b/01/parts/2", "b/02/sealed", "b/03/a", "b/03/b", "b/beside", "c/04/a"):
        s3.put(PLAIN, name, b"")
    assert folders(s3, "b/") == (["b/01/", "b/02/", "b/03/"], ["b/beside"])
    assert folders(s3, "b/", StartAfter="b/02") == (["b/02/", "b/03/"], ["b/beside"])
    assert folders(s3, "b/", StartAfter="b/021") == (["b/03/"], ["b/beside"])


def versions(s3: Store, bucket: str, prefix: str, size: int) -> list[tuple[str, str, int, str]]:
    """(key, ETag, size, version id) of each listed version, page by page. A version id of its own is left out."""
    pages = s3.client.get_paginator("list_object_versions").paginate(
        Bucket=bucket, Prefix=prefix, PaginationConfig={"PageSize": size}
    )
    found = [each for page in pages for each in page.get("Versions", ())]
    assert all(each["LastModified"].tzinfo is not None for each in found)
    return [
        (each["Key"], each["ETag"], each["Size"], "null" if each["VersionId"] == "null" else "one of its own")
        for each in found
    ]


@pytest.mark.parametrize("size", [1, 2, 1_000])
def test_versions_are_listed_by_key_and_the_newest_first(s3: Store, size: int) -> None:
    for key, body in (("b/1", b"one"), ("a", b"a"), ("b/1", b"three"), ("b/2", b"two"), ("b/1", b"one")):
        s3.put(VERSIONED, key, body)
    s3.client.delete_object(Bucket=VERSIONED, Key="b/2")
    own = "one of its own"
    assert versions(s3, VERSIONED, "b/", size) == [
        ("b/1", etag(b"one"), 3, own),
        ("b/1", etag(b"three"), 5, own),
        ("b/1", etag(b"one"), 3, own),
        ("b/2", etag(b"two"), 3, own),
    ]


def test_the_current_version_is_the_latest_and_a_deleted_object_has_none(s3: Store) -> None:
    for bucket, key, body in (
        (VERSIONED, "a", b"one"),
        (VERSIONED, "a", b"two"),
        (VERSIONED, "b", b"gone"),
        (PLAIN, "a", b"one"),
        (PLAIN, "a", b"two"),
    ):
        s3.put(bucket, key, body)
    s3.client.delete_object(Bucket=VERSIONED, Key="b")
    found = {
        bucket: [(each["Key"], each["ETag"], each["IsLatest"]) for each in listed["Versions"]]
        for bucket in (VERSIONED, PLAIN)
        for listed in [s3.client.list_object_versions(Bucket=bucket)]
    }
    assert found == {
        VERSIONED: [("a", etag(b"two"), True), ("a", etag(b"one"), False), ("b", etag(b"gone"), False)],
        PLAIN: [("a", etag(b"two"), True)],
    }


@pytest.mark.parametrize("size", [1, 1_000])
def test_without_versions_what_is_there_is_listed_as_null(s3: Store, size: int) -> None:
    for key, body in (("b", b"one"), ("a", b"one"), ("b", b"two"), ("c", b"gone")):
        s3.put(PLAIN, key, body)
    s3.client.delete_object(Bucket=PLAIN, Key="c")
    assert versions(s3, PLAIN, "", size) == [("a", etag(b"one"), 3, "null"), ("b", etag(b"two"), 3, "null")]


def test_the_bucket_of_another_account_is_refused(s3: Store) -> None:
    s3.put(PLAIN, "a", b"one")
    assert code_of(lambda: s3.read(PLAIN, "a", ExpectedBucketOwner="999999999999")) == "AccessDenied"


# ---- any sequence of operations

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from([VERSIONED, PLAIN]),
        st.sampled_from(["put", "put once", "delete", "read", "read if one", "read first"]),
        st.sampled_from(["a", "a b", "é"]),
        st.sampled_from([b"one", b"two"]),
    ),
    min_size=3,
    max_size=15,
)


def perform(store: Store, prefix: str, versions: list[str], operation: tuple[str, str, str, bytes]) -> Any:
    """What the caller gets to see, with each version by its number among those that were seen."""
    bucket, verb, name, body = operation
    key = prefix + name
    found: list[tuple[bytes, str, str]] = []
    which: dict[str, str] = {}
    if verb == "read if one":
        which = {"IfMatch": etag(b"one")}
    elif verb == "read first" and versions and bucket == VERSIONED:
        which = {"VersionId": versions[0]}

    def call() -> None:
        if verb == "put":
            store.put(bucket, key, body)
        elif verb == "put once":
            store.put(bucket, key, body, IfNoneMatch="*")
        elif verb == "delete":
            store.client.delete_object(Bucket=bucket, Key=key)
        else:
            found.append(store.read(bucket, key, **which))

    code = code_of(call)
    if code or not found:
        return code, store.names(bucket, prefix)
    content, tag, version = found[0]
    if version and version not in versions:
        versions.append(version)
    return content, tag, versions.index(version) if version else None


def test_any_sequence_gives_what_it_gives_on_moto() -> None:
    prefixes = (f"{number}/" for number in itertools.count())
    with opened(SIMULATED) as here, opened(MOTO) as there:

        @settings(max_examples=25)
        @given(operations=OPERATIONS)
        def check(operations: list[tuple[str, str, str, bytes]]) -> None:
            prefix = next(prefixes)
            versions: dict[str, list[str]] = {SIMULATED: [], MOTO: []}
            for operation in operations:
                found = perform(here, prefix, versions[SIMULATED], operation)
                assert found == perform(there, prefix, versions[MOTO], operation), operation

        check()
