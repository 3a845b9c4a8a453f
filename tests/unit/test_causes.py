"""An error of a Spark task, as the driver reads it out of Spark's text."""

import pickle

import pytest
from pyspark.errors import PySparkException

from tidegate.sinks.iceberg.causes import TaskFailed, cause, reader_died


def raised(reason: str) -> TaskFailed:
    with pytest.raises(TaskFailed) as found, TaskFailed.told():
        raise ValueError(reason)
    return found.value


@pytest.mark.parametrize(
    "reason", ["bucket b is gone", 'with "quotes" and {braces}', "two\nlines", "tidegate-task-failed:"]
)
def test_what_a_task_raised_arrives_as_data(reason: str):
    text = (
        f"Job aborted.\nTraceback (most recent call last):\n  ...\nTaskFailed: {raised(reason)}\n\tat org.apache.spark"
    )
    told = TaskFailed.found_in(text)
    assert told is not None
    assert (told.kind, told.reason) == ("ValueError", reason)
    assert cause(PySparkException(text)) == f"ValueError: {reason.splitlines()[0]}"


def test_it_travels_between_processes():
    error = pickle.loads(pickle.dumps(raised("gone")))
    assert (error.kind, error.reason) == ("ValueError", "gone")


@pytest.mark.parametrize("rest", ["", "{", "[]", '{"kind": "E"}', "null"])
def test_what_was_cut_off_on_its_way_is_told_by_sparks_own_words(rest: str):
    assert cause(PySparkException(f"Job aborted.\ntidegate-task-failed:{rest}")) == "PySparkException: Job aborted."


@pytest.mark.parametrize(
    ("text", "died"),
    [
        ("Job aborted due to stage failure: ... Python worker exited unexpectedly (crashed)", True),
        ("Job aborted due to stage failure: ... ExecutorLostFailure (executor 1 exited caused by ...)", True),
        ("java.lang.OutOfMemoryError: Java heap space", True),
        ("Connection refused", False),
    ],
)
def test_whether_a_worker_died_is_in_sparks_words(text: str, died: bool):
    assert reader_died(PySparkException(text)) is died


def test_a_lack_of_memory_counts_as_a_death_and_another_error_of_a_task_does_not():
    with pytest.raises(TaskFailed) as found, TaskFailed.told():
        raise MemoryError("of Arrow")
    assert reader_died(PySparkException(f"Job aborted.\nTaskFailed: {found.value}"))
    assert not reader_died(PySparkException(f"ExecutorLostFailure in a text\nTaskFailed: {raised('gone')}"))
