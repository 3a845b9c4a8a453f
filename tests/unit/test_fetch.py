"""What S3's answers say about an upload, and what they do not."""

import http.server
import re
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tidegate.core.outcomes import Outcome
from tidegate.core.uploads import Upload
from tidegate.reading import fetch as module
from tidegate.reading.fetch import (
    BucketMissing,
    Missed,
    TooLarge,
    Unreadable,
    Withheld,
    fetch,
    fetch_range,
    fetch_unless_deleted,
    is_plain,
    probe,
)

PLAIN, ODD = "in/a.json", "in//a.json"


class S3(http.server.BaseHTTPRequestHandler):
    answer: ClassVar[tuple[int, bytes]] = (200, b"")
    headers_seen: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        type(self).headers_seen = {name.lower(): value for name, value in self.headers.items()}
        type(self).headers_seen["path"] = self.path
        status, body = self.answer
        if asked := re.fullmatch(r"bytes=([0-9]+)-([0-9]+)", self.headers.get("Range", "")):
            total, (first, last) = len(body), map(int, asked.groups())
            if status == 200:
                status, body = 206, body[first : last + 1]
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"e"')
        self.send_header("Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), S3)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{running.server_port}")
        for name, value in (("AWS_REGION", "us-east-1"), ("AWS_DEFAULT_REGION", "us-east-1")):
            patch.setenv(name, value)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_MAX_ATTEMPTS", "1")
        module._store.cache_clear()
        module._client.cache_clear()
        yield
    module._store.cache_clear()
    module._client.cache_clear()
    running.shutdown()


def error(code: str) -> bytes:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>m</Message></Error>'.encode()


def ask(key: str, status: int, body: bytes, max_bytes: int = 100) -> Any:
    S3.answer = (status, body)
    return fetch(Upload("landing", key, "etag:e", 1), max_bytes)


@pytest.mark.parametrize("key", [PLAIN, ODD])
class TestEitherClient:
    def test_the_bytes(self, key: str):
        assert ask(key, 200, b"body") == b"body"

    def test_a_large_one_is_left_unread(self, key: str):
        assert ask(key, 200, b"x" * 101) == TooLarge(101)

    @pytest.mark.parametrize("version", ["etag:e", "v1"])
    def test_a_range_of_exactly_the_claimed_version(self, key: str, version: str):
        S3.answer = (200, b"0123456789")
        assert fetch_range(Upload("landing", key, version, 10), 2, 5) == b"234"
        asked = S3.headers_seen
        assert asked["range"] == "bytes=2-4"
        assert ("versionId=v1" in asked["path"]) if version == "v1" else (asked["if-match"] == '"e"')

    def test_a_probe_learns_the_size_from_one_byte(self, key: str):
        S3.answer = (200, b"0123456789")
        assert probe(Upload("landing", key, "etag:e", 10)) == TooLarge(10)
        assert S3.headers_seen["range"] == "bytes=0-0"

    def test_a_range_of_what_was_overwritten_or_deleted_meanwhile(self, key: str):
        for status, code, outcome in ((412, "PreconditionFailed", "superseded"), (404, "NoSuchVersion", "vanished")):
            S3.answer = (status, error(code))
            found = fetch_range(Upload("landing", key, "etag:e", 10), 2, 5)
            assert isinstance(found, Missed)
            assert found.outcome.value == outcome

    @pytest.mark.parametrize(
        ("status", "code", "outcome"),
        [
            (404, "NoSuchKey", Outcome.VANISHED),
            (404, "NoSuchVersion", Outcome.VANISHED),
            (412, "PreconditionFailed", Outcome.SUPERSEDED),
        ],
    )
    def test_what_ends_an_upload(self, key: str, status: int, code: str, outcome: Outcome):
        answer = ask(key, status, error(code))
        assert isinstance(answer, Missed)
        assert answer.outcome is outcome

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (404, b""),
            (404, b"<html>not found</html>"),
            (403, b""),
            (400, error("ExpiredToken")),
            (403, error("InvalidAccessKeyId")),
            (403, error("RequestTimeTooSkewed")),
        ],
    )
    def test_what_says_nothing_about_the_upload_is_raised(self, key: str, status: int, body: bytes):
        with pytest.raises(Exception) as raised:  # noqa: PT011
            ask(key, status, body)
        assert not isinstance(raised.value, BucketMissing)

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (403, "AccessDenied"),
            (400, "InvalidRequest"),
            (400, "KMS.DisabledException"),
            (405, "MethodNotAllowed"),
            (404, "NoSuchAccessPoint"),
        ],
    )
    def test_what_may_be_about_the_upload_or_about_us_is_told_in_its_own_words(self, key: str, status: int, code: str):
        assert ask(key, status, error(code)) == Withheld(f"{code}: m")

    def test_what_s3_refuses_is_refused_whether_it_was_deleted_or_not(self, key: str):
        """As an object whose key only its uploader has, and S3 hands out to nobody else, not even its HEAD."""
        S3.answer = (400, error("InvalidRequest"))
        assert fetch_unless_deleted(Upload("landing", key, "v1", 1), 100) == Withheld("InvalidRequest: m")
        S3.answer = (404, error("NoSuchBucket"))
        with pytest.raises(BucketMissing):
            fetch_unless_deleted(Upload("landing", key, "v1", 1), 100)

    def test_a_missing_bucket_is_no_missing_object(self, key: str):
        with pytest.raises(BucketMissing, match="bucket landing does not exist"):
            ask(key, 404, error("NoSuchBucket"))

    def test_what_will_never_be_handed_out_is_set_aside(self, key: str):
        assert isinstance(ask(key, 403, error("InvalidObjectState")), Unreadable)


@pytest.mark.parametrize("code", ["SlowDown", "InternalError", "ServiceUnavailable", "KMS.ThrottlingException"])
def test_what_s3_could_not_do_is_no_refusal(code: str):
    """obstore repeats these itself for a while."""
    assert module._ending_of(code, "m", Upload("landing", PLAIN, "etag:e", 1)) is None


def test_a_key_that_looks_like_an_error_is_a_key():
    answer = ask("in/NoSuchBucket<Code>NoSuchBucket", 404, error("NoSuchKey"))
    assert isinstance(answer, Missed)


@pytest.mark.parametrize("key", ["/a", "a/", "a//b", "./a", "a/../b", "a\nb", "\x7f"])
def test_keys_that_paths_cannot_name_go_the_other_way(key: str):
    assert not is_plain(key)


@pytest.mark.parametrize("key", [PLAIN, ODD])
def test_s3_is_told_whose_the_bucket_must_be_under_signature(key: str):
    S3.answer = (200, b"body")
    assert fetch(Upload("landing", key, "etag:e", 1), 100, "123456789012") == b"body"
    assert S3.headers_seen["x-amz-expected-bucket-owner"] == "123456789012"
    # S3 refuses a request with an x-amz-* header that is not signed
    signed = re.search(r"SignedHeaders=([^,]+)", S3.headers_seen["authorization"])
    assert signed
    assert "x-amz-expected-bucket-owner" in signed[1].split(";")


@pytest.mark.parametrize("key", [PLAIN, ODD])
def test_a_bucket_of_somebody_else_is_no_missing_object(key: str):
    S3.answer = (403, error("AccessDenied"))
    assert fetch(Upload("landing", key, "etag:e", 1), 100, "123456789012") == Withheld("AccessDenied: m")


@pytest.mark.parametrize("key", [PLAIN, ODD])
def test_without_an_owner_nobody_checks(key: str):
    ask(key, 200, b"body")
    assert "x-amz-expected-bucket-owner" not in S3.headers_seen


LISTED = [("a", "v4"), ("a", "v3"), ("a", "null"), ("a", "v1"), ("ab", "v9")]


@pytest.mark.parametrize(
    ("wanted", "found", "pages"),
    [
        ({"v4"}, ["v4"], 1),
        ({"v4", "v3"}, ["v4", "v3"], 2),
        ({"v4", "etag:e"}, ["v4", "v3", "etag:e"], 3),
        ({"v4", "gone"}, ["v4", "v3", "etag:e", "v1"], 5),
    ],
)
def test_the_versions_of_an_object_are_listed_as_far_as_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, wanted: set[str], found: list[str], pages: int
):
    asked: list[dict[str, Any]] = []

    def list_object_versions(**request: Any) -> dict[str, Any]:
        asked.append(request)
        here = len(asked) - 1
        key, version = LISTED[here]
        more = {"NextKeyMarker": key, "NextVersionIdMarker": version} if here + 1 < len(LISTED) else {}
        return {
            "Versions": [{"Key": key, "VersionId": version, "ETag": '"e"', "Size": 3}],
            "IsTruncated": bool(more),
            **more,
        }

    monkeypatch.setattr(module, "_client", lambda: SimpleNamespace(list_object_versions=list_object_versions))
    there = module.newest_first(Upload("landing", "a", "v4", 1), wanted, "1234")
    assert (list(there), set(there.values())) == (found, {'"e"/3'})
    assert len(asked) == pages
    assert {each["ExpectedBucketOwner"] for each in asked} == {"1234"}
    assert [each.get("VersionIdMarker") for each in asked] == [None, "v4", "v3", "null", "v1"][:pages]


def test_a_deletion_counts_for_all_versions_before_it(monkeypatch: pytest.MonkeyPatch):
    listed = [
        {"Key": "k", "VersionId": "v3", "Size": 1},
        {"Key": "k", "VersionId": "m"},
        {"Key": "k", "VersionId": "v2", "Size": 1},
        {"Key": "k", "VersionId": "v1", "Size": 1},
    ]
    monkeypatch.setattr(module, "_listed", lambda upload, owner: iter(listed))
    monkeypatch.setattr(module, "_is_current", lambda upload, owner: False)
    ended = {each: module.deleted_since(Upload("b", "k", each, 1)) for each in ("v1", "v2", "v3")}
    assert ended["v3"] is None
    assert [each and each.outcome for each in (ended["v2"], ended["v1"])] == [Outcome.SUPERSEDED] * 2
