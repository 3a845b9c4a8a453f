"""The driver adds data files that tasks have put to a branch of the table.

    line                                     if the driver dies right after it     if a twin runs beside it
    1 load the table, decide on its layout   nothing has changed                   each loads for itself
    2 the tasks put files                    files that no table has               each has names of its own
    3 create the branch                      a branch without rows                 each has a branch of its own
    4 read the footers                       as 3                                  as 2
    5 commit them to the branch, with marks  a branch that nobody publishes        as without these files

- Lines 1 and 5 use one loaded table. If the table was dropped and created anew in between, its columns may have other
  ids. Iceberg refuses the commit then, because the table's uuid has changed (`BaseMetastoreTableOperations`,
  1.11.0; a REST catalog demands the uuid).
- A column that is renamed in between keeps its id; one that is dropped is read by nobody (or the
  attempt fails, if a partition is made of it); a partition that is added
  does not count for these files, which keep the spec of line 1. So what was decided in line 1 holds.
- Iceberg itself reads the footers, and computes from them what it keeps of each file. A file that is not there, is not
  as long as its task has said, or has not as many rows, fails the attempt.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegate.core.errors import Retryable
from tidegate.sinks.iceberg.data_files.layout import PROBE, TableFacts
from tidegate.sinks.iceberg.data_files.write import DataFile

FOOTERS_AT_ONCE = 16


def plain(jvm: Any, properties: Any) -> dict[str, str]:
    """A map of Java, in one call: py4j asks for each entry, and ends by an exception that costs more than all."""
    found: dict[str, str] = json.loads(jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(properties))
    return found


@dataclass(frozen=True)
class LoadedTable:
    """Iceberg's table in the JVM, as it was when it was loaded."""

    jvm: Any
    gateway: Any
    table: Any
    spec: Any
    """Its partitions then. Those of `table` change when Iceberg commits."""

    def facts(self) -> TableFacts:
        table = self.table
        io = table.io()
        name = str(io.getClass().getName())
        return TableFacts(
            version=int(table.operations().current().formatVersion()),
            schema=str(self.jvm.org.apache.iceberg.SchemaParser.toJson(table.schema())),
            spec=str(self.jvm.org.apache.iceberg.PartitionSpecParser.toJson(self.spec)),
            sorted=not table.sortOrder().isUnsorted(),
            encrypted=not str(table.encryption().getClass().getName()).endswith(".PlaintextEncryptionManager"),
            location=str(table.locationProvider().newDataLocation(PROBE)),
            io=name,
            store=plain(self.jvm, io.properties()),
            confided=self._confided(io),
            properties=plain(self.jvm, table.properties()),
        )

    def _confided(self, io: Any) -> bool:
        credentials = self.jvm.java.lang.Class.forName(
            "org.apache.iceberg.io.SupportsStorageCredentials",
            True,
            self.jvm.java.lang.Thread.currentThread().getContextClassLoader(),
        )
        return bool(credentials.isInstance(io)) and not io.credentials().isEmpty()

    def append(self, files: Sequence[DataFile], branch: str, properties: Mapping[str, str]) -> None:
        """Commit the files to the branch. Raises Retryable for a file that is not what its task has said."""
        append = self.table.newAppend().toBranch(branch)
        for name, value in properties.items():
            append = append.set(name, value)
        config = self.jvm.org.apache.iceberg.MetricsConfig.forTable(self.table)
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            for found in pool.map(partial(self._found, config), files):
                append = append.appendFile(found)
        append.commit()

    def _found(self, config: Any, file: DataFile) -> Any:
        iceberg = self.jvm.org.apache.iceberg
        stored = self.table.io().newInputFile(file.location, file.bytes)
        metrics = iceberg.parquet.ParquetUtil.fileMetrics(stored, config)
        if (rows := int(metrics.recordCount())) != file.rows:
            raise Retryable(f"{file.location} has {rows} rows, and its task has written {file.rows}")
        return (
            iceberg.DataFiles.builder(self.spec)
            .withPath(file.location)
            .withFormat("PARQUET")
            .withFileSizeInBytes(file.bytes)
            .withMetrics(metrics)
            .withSplitOffsets(self._longs(file.offsets))
            .withPartitionValues(self._texts(file.partition))
            .build()
        )

    def _texts(self, values: Sequence[str]) -> Any:
        found = self.jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found

    def _longs(self, numbers: Sequence[int]) -> Any:
        """A list of Long. Py4J would make small numbers an Integer."""
        array = self.gateway.new_array(self.jvm.long, len(numbers))
        for at, number in enumerate(numbers):
            array[at] = number
        return self.jvm.java.util.stream.LongStream.of(array).boxed().toList()
