"""Rows that the executors' tasks yield: as a DataFrame, or as the data files to which they write them."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from zipimport import zipimporter

from pyspark import TaskContext
from pyspark.sql import SparkSession

from tidegate.sinks.iceberg.causes import TaskFailed
from tidegate.sinks.iceberg.data_files.layout import Layout
from tidegate.sinks.iceberg.data_files.write import WRITTEN, DataFile, most_partitions, try_to_remove, write

T = TypeVar("T")


def files_of_tasks(
    spark: SparkSession, tasks: Sequence[T], read: Callable[[T], Iterator[Any]], layout: Layout, name: str
) -> list[DataFile] | None:
    """The data files to which the tasks write their rows; `name` begins their names. None if the rows of a task are
    scattered over many partitions: then no table may have any of the files, and those that are there are removed."""
    most = most_partitions(len(tasks))
    found = _of_tasks(
        spark, tasks, lambda number, task: write(layout, f"{name}-{number:05}", read(task), most), WRITTEN
    )
    return _written([each.asDict() for each in found.collect()], layout)


def files_of_rows(
    rows: Any, tasks: int, judged: Callable[[Iterator[Any]], Iterator[Any]], layout: Layout, name: str
) -> list[DataFile] | None:
    """The same of a DataFrame of so many tasks, of which `judged` takes each task's rows."""
    most = most_partitions(tasks)

    def of_task(batches: Iterator[Any]) -> Iterator[Any]:
        task = TaskContext.get()
        assert task is not None, "rows are written by a task"
        with TaskFailed.told():
            yield from write(layout, f"{name}-{task.partitionId():05}", judged(batches), most)
        keep_zips_read()

    return _written([each.asDict() for each in rows.mapInArrow(of_task, WRITTEN).collect()], layout)


def files_of_driver(task: T, read: Callable[[T], Iterator[Any]], layout: Layout, name: str) -> list[DataFile] | None:
    """The same of one task, which the driver itself does: Spark takes longer to begin a task than a small one takes."""
    found = write(layout, f"{name}-{0:05}", read(task), most_partitions(1))
    told = [row for batch in found for row in batch.to_pylist()]
    return _written(told, layout)


def _written(told: Sequence[Mapping[str, Any]], layout: Layout) -> list[DataFile] | None:
    files = [
        DataFile(**{**each, "offsets": tuple(each["offsets"]), "partition": tuple(each["partition"])})
        for each in told
        if each["location"]
    ]
    if len(files) == len(told):
        return files
    for each in files:
        try_to_remove(layout, each.location)
    return None


def rows_of_tasks(spark: SparkSession, tasks: Sequence[T], read: Callable[[T], Iterator[Any]], schema: Any) -> Any:
    """The rows as a DataFrame. `read` yields the Arrow batches of a task, on an executor; `schema` is theirs, as Spark
    has it."""
    return _of_tasks(spark, tasks, lambda _, task: read(task), schema)


def _of_tasks(spark: SparkSession, tasks: Sequence[T], run: Callable[[int, T], Iterator[Any]], schema: Any) -> Any:
    """One partition for each task, without a listing and without a shuffle of the manifest. `run` gets the number of a
    task, and the task."""
    shipped = spark.sparkContext.broadcast(list(tasks))

    def of_tasks(batches: Any) -> Iterator[Any]:
        with TaskFailed.told():
            for numbers in batches:
                for number in numbers.column(0).to_pylist():
                    yield from run(number, shipped.value[number])
        keep_zips_read()

    return spark.range(0, len(tasks), 1, max(1, len(tasks))).mapInArrow(of_tasks, schema)


def keep_zips_read() -> None:
    """Spark makes Python forget what it knows of its path before each task of a worker, and Python 3.11 then reads the
    directories of all zips on it again: those of Spark's own classes take 60 ms. A zip that has no finder is not read,
    and gets one from what was read first, as soon as a module is looked for."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)
