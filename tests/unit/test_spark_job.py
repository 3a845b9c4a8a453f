"""The driver as a process begins it: how a worker differs from a job that makes one attempt."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.build import route
from tidegate.core.batches import Batch, State
from tidegate.core.routes import encode_dataset
from tidegate.spark import job


@pytest.mark.parametrize(("mode", "reads"), [("work", True), ("ingest", False), ("fence", False)])
def test_the_driver_of_a_worker_reads_and_that_of_a_later_attempt_does_not(
    monkeypatch: pytest.MonkeyPatch, mode: str, reads: bool
):
    """What kills a driver must not kill the one of the next attempt."""
    dataset, found = encode_dataset(route("flights").dataset), []

    def sink(*_: Any, **given: Any) -> Any:
        return SimpleNamespace(**given)

    def made(attempt: Any, _: object) -> int:
        found.append(attempt.sink.reads)
        return 0

    def work(_: object, make: Any) -> int:
        batch = Batch("01A", "flights", State.SUBMITTED, 0, attempt=1, dataset=dataset)
        return int(make(batch, "1234"))

    spark = SimpleNamespace(stop=lambda: None)
    builder = SimpleNamespace(appName=lambda _: SimpleNamespace(getOrCreate=lambda: spark))
    for name, fake in {
        "SparkSession": SimpleNamespace(builder=builder),
        "boto3": SimpleNamespace(client=lambda _: None),
        "IcebergSink": sink,
        "run_verb": made,
        "_work": work,
    }.items():
        monkeypatch.setattr(job, name, fake)
    with pytest.raises(SystemExit) as ended:
        job.main([mode, "--batch=01A", "--attempt=2", "--work=work", f"--dataset={dataset}", "--worker=w"])
    assert (ended.value.code, found) == (0, [reads])
