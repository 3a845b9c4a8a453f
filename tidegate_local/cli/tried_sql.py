"""A route's SQL on the Spark of this machine, for `tidegate try`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidegate.core.routes import Dataset
from tidegate.sinks.iceberg.sql_trial import TriedSql
from tidegate_local.toolchain import spark_environment


@contextmanager
def tried_sql(dataset: Dataset) -> Iterator[TriedSql]:
    """Starts Spark, which takes some seconds. Raises Hopeless if no job could evaluate the SQL, and ToolMissing."""
    os.environ.update(spark_environment())
    with _without_stderr():
        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "1")
            .getOrCreate()
        )
    try:
        yield TriedSql(spark, dataset)
    finally:
        spark.stop()


@contextmanager
def _without_stderr() -> Iterator[None]:
    """What Java, started meanwhile, logs from now on is for nobody: Python gets its errors."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
