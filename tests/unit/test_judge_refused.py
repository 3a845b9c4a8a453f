"""When an upload that S3 would not hand out ends, by what else could be read in the same attempt."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.build import upload
from tidegate.core.errors import Retryable
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.flows.accounting import judge_refused, no_neighbour
from tidegate.reading import fetch

REFUSED = Read(Outcome.QUARANTINED, error="AccessDenied", refused=True)


def judge(*, last: bool, **reads: Read) -> None:
    # nothing else near them can be read
    ended = [(OwnedUpload("n" * 40, upload(f"in/{name}.json")), read) for name, read in reads.items()]
    judge_refused("batch", ended, last=last, can_read_near=no_neighbour)


def test_where_nothing_was_refused_nothing_is_judged() -> None:
    judge(last=False, a=Read(Outcome.VANISHED), b=Read(Outcome.COMMITTED, 1))


@pytest.mark.parametrize("neighbour", [Read(Outcome.COMMITTED, 1), Read(Outcome.COMMITTED, 0)], ids=["rows", "empty"])
def test_beside_one_that_could_be_read_it_ends_in_the_last_attempt(neighbour: Read) -> None:
    judge(last=True, a=REFUSED, b=neighbour)
    with pytest.raises(Retryable, match="If the last attempt finds the same"):
        judge(last=False, a=REFUSED, b=neighbour)


@pytest.mark.parametrize(
    "neighbour",
    [Read(Outcome.VANISHED), Read(Outcome.SUPERSEDED), REFUSED],
    ids=["vanished", "superseded", "refused, too"],
)
def test_a_neighbour_that_was_not_read_either_proves_nothing(neighbour: Read) -> None:
    with pytest.raises(Retryable, match="Nothing near it"):
        judge(last=True, a=REFUSED, b=neighbour)


class Bucket:
    """An S3 client for objects of which some are refused."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused

    def list_objects_v2(self, **_: Any) -> dict[str, Any]:
        return {"Contents": [{"Key": f"in/{name}.json", "Size": 1} for name in ("a", "b")]}

    list_object_versions = None

    def get_object(self, **asked: Any) -> dict[str, Any]:
        if asked["Key"] in self.refused:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")
        return {}


@pytest.mark.parametrize(
    ("refused", "proves"),
    [
        (["in/a.json"], True),
        (["in/a.json", "in/b.json"], False),
        # the bucket was opened between the two reads: whatever refused the upload is over
        ([], False),
    ],
)
def test_a_neighbour_proves_something_only_while_the_upload_is_still_refused(
    monkeypatch: pytest.MonkeyPatch, refused: list[str], proves: bool
) -> None:
    monkeypatch.setattr(fetch, "_client", lambda: Bucket(*refused))
    assert fetch.a_neighbour_is_readable(upload("in/a.json", version=f"etag:{'a' * 32}")) is proves
