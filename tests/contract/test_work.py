"""What every `flows.ports.Work` must do: S3's, and the one in memory that tests of the flows use."""

from collections.abc import Iterator

import pytest

from tests.support.fakes import MemoryWork
from tests.support.ledgers import moto_client, moto_table
from tidegate.aws.work import S3Work
from tidegate.flows.ports import Work

BUCKET = "work"
NAMES = [
    "batches/01A/parts/x",
    "batches/01A/sealed.json",
    "batches/01B/parts/x",
    "batches/01C/receipt.json",
    "other/01D/x",
]


@pytest.fixture(params=["s3", "memory"])
def work(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "1")
    if request.param == "memory":
        yield MemoryWork()
        return
    with moto_table():
        moto_client("s3").create_bucket(Bucket=BUCKET)
        yield S3Work(moto_client("s3"), BUCKET)


def test_what_was_put_is_there_and_the_last_put_counts(work: Work):
    assert work.get("batches/01A/receipt.json") is None
    work.put("batches/01A/receipt.json", b"1")
    work.put("batches/01A/receipt.json", b"2")
    assert work.get("batches/01A/receipt.json") == b"2"


def test_what_is_there_is_not_put_again_if_absent_whatever_it_says(work: Work):
    body = b"the same"
    assert work.put_if_absent("sealed.json", body)
    assert not work.put_if_absent("sealed.json", body)
    assert not work.put_if_absent("sealed.json", b"other")
    assert work.get("sealed.json") == body


def test_names_are_listed_by_prefix_and_in_order(work: Work):
    for name in reversed(NAMES):
        work.put(name, b"")
    assert list(work.names("batches/01A/")) == NAMES[:2]
    assert list(work.names("batches/")) == NAMES[:4]
    assert list(work.names("nothing/")) == []


def test_folders_are_listed_from_one_on_however_many_pages_that_takes(work: Work):
    for name in NAMES:
        work.put(name, b"")
    assert list(work.folders("batches/", "")) == ["01A", "01B", "01C"]
    assert list(work.folders("batches/", "01B")) == ["01B", "01C"]
    assert list(work.folders("batches/", "01B0")) == ["01C"]
    assert list(work.folders("batches/", "01D")) == []
