"""Errors of Spark, in one line for people.

An error of a task crosses three processes: the Python worker, the executor's JVM, and the driver's. It travels as JSON
in the text of the exception, because Spark carries only text.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)

_MARK = "tidegate-task-failed:"

MISTAKES = (ParseException, AnalysisException, IllegalArgumentException, UnsupportedOperationException)
"""What Spark raises if a table cannot be created as it is described. An unreachable catalog is a temporary error."""


_REFUSALS = ("IllegalArgumentException", "ValidationException")
"""What Iceberg raises of a change that no table would take, or not this one."""


class TaskFailed(Exception):
    """An error of a task, as data: `kind` is the name of the error, `reason` its text."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(_MARK + json.dumps({"kind": kind, "reason": reason}))
        self.kind = kind
        self.reason = reason

    @staticmethod
    @contextmanager
    def told() -> Iterator[None]:
        """Around a task's work: any error leaves it as TaskFailed."""
        try:
            yield
        except Exception as error:
            raise TaskFailed(type(error).__name__, str(error)) from error

    @staticmethod
    def found_in(text: str) -> "TaskFailed | None":
        """The last TaskFailed in the text of an exception."""
        marked = re.findall(rf"{_MARK}(.*)$", text, re.MULTILINE)
        if not marked:
            return None
        try:
            told, _ = json.JSONDecoder().raw_decode(marked[-1])
            return TaskFailed(str(told["kind"]), str(told["reason"]))
        except (ValueError, KeyError, TypeError):
            return None  # cut off on its way

    def __reduce__(self) -> tuple[type["TaskFailed"], tuple[str, str]]:
        return TaskFailed, (self.kind, self.reason)


def cause(error: Exception) -> str:
    """The cause of an error, in one line: Py4J and Spark put the Java class and a trace in front of it."""
    if isinstance(error, Py4JJavaError):
        java = error.java_exception
        try:
            while java.getCause() is not None:
                java = java.getCause()
        except Exception:
            return "Spark's process does not answer any more"
        return f"{java.getClass().getSimpleName()}: {_first_line(str(java.getMessage()))}"
    if isinstance(error, PySparkException) and (failed := TaskFailed.found_in(str(error))):
        return f"{failed.kind}: {_first_line(failed.reason)}"
    return f"{type(error).__name__}: {_first_line(str(error))}"


def is_refusal(error: Exception) -> bool:
    """Whether Spark or Iceberg refuses what it was told, so that to try again is of no use."""
    return isinstance(error, MISTAKES) or cause(error).partition(":")[0] in _REFUSALS


def reader_died(error: Exception) -> bool:
    """Whether a process that ran tasks died, or lacked memory. Spark reports that in words only (4.1.1: `PythonWorker`,
    `ExecutorLostFailure`, `TaskSetManager`)."""
    text = str(error)
    failed = TaskFailed.found_in(text)
    if failed is not None:
        return failed.kind in ("MemoryError", "ArrowMemoryError")
    return any(
        said in text for said in ("Python worker exited unexpectedly", "ExecutorLostFailure", "OutOfMemoryError")
    )


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]
