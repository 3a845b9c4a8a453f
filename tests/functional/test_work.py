"""The work bucket: its folders are listed in order, from any of them on, however many pages that takes."""

import pytest

from tests.support.fakes import MemoryWork
from tests.support.ledgers import moto_client, moto_table
from tests.support.world import WORK_BUCKET
from tidegate.aws.work import S3Work
from tidegate.flows.ports import Work

NAMES = [
    "batches/01A/parts/x",
    "batches/01A/sealed.json",
    "batches/01B/parts/x",
    "batches/01C/receipt.json",
    "other/01D/x",
]


@pytest.mark.parametrize("kind", ["s3", "memory"])
def test_folders_are_listed_from_one_on(kind, monkeypatch):
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "1")
    with moto_table():
        moto_client("s3").create_bucket(Bucket=WORK_BUCKET)
        work: Work = S3Work(moto_client("s3"), WORK_BUCKET) if kind == "s3" else MemoryWork()
        for name in NAMES:
            work.put(name, b"")
        assert list(work.folders("batches/", "")) == ["01A", "01B", "01C"]
        assert list(work.folders("batches/", "01B")) == ["01B", "01C"]
        assert list(work.folders("batches/", "01B0")) == ["01C"]
        assert list(work.folders("batches/", "01D")) == []
