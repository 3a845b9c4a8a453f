"""Rows that the executors' tasks yield, as a DataFrame."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from tidegate.sinks.iceberg.causes import TaskFailed

T = TypeVar("T")


def rows_of_tasks(spark: SparkSession, tasks: Sequence[T], read: Callable[[T], Iterator[Any]], schema: Any) -> Any:
    """One partition for each task, without a listing and without a shuffle of the manifest. `read` yields the Arrow
    batches of a task, on an executor; `schema` is theirs, as Spark has it."""
    shipped = spark.sparkContext.broadcast(list(tasks))

    def of_tasks(batches: Any) -> Iterator[Any]:
        with TaskFailed.told():
            for numbers in batches:
                for number in numbers.column(0).to_pylist():
                    yield from read(shipped.value[number])

    return spark.range(0, len(tasks), 1, max(1, len(tasks))).mapInArrow(of_tasks, schema)
