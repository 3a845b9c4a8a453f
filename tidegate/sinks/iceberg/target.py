"""A table to which a driver publishes: `flows.sink.PublishTarget` on Iceberg."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.publication import Floor, History, Published, Unprovable
from tidegate.flows.sink import ReaderDied, SeenVersion
from tidegate.sinks.iceberg.causes import cause, reader_died
from tidegate.sinks.iceberg.table import IcebergTable


@contextmanager
def asking(what: str = "") -> Iterator[None]:
    """Around calls of Spark and Iceberg: an error becomes Retryable, with its cause in one line, after `what`. What is
    published does not depend on whether such a call took effect."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise (ReaderDied if reader_died(error) else Retryable)(f"{what}{cause(error)}") from error


@dataclass(frozen=True)
class IcebergTarget:
    """`marks` are the properties in the summary of each snapshot of this driver."""

    iceberg: IcebergTable
    batch: str
    marks: Mapping[str, str]

    @property
    def table(self) -> str:
        return self.iceberg.name

    @property
    def exists(self) -> bool:
        with asking():
            return self.iceberg.exists

    def position(self) -> Floor:
        with asking():
            position = self.iceberg.position()
            if position.head is None:
                self.iceberg.begin()
                position = self.iceberg.position()
            return position

    def history(self, floor: Floor) -> History:
        with asking():
            return self.iceberg.history(floor)

    def publish(self, staged: int, floor: Floor, seen: SeenVersion | None = None) -> Published | Unprovable:
        try:
            return self.iceberg.publish(staged, self.batch, floor, self.marks, seen)
        except (Py4JJavaError, PySparkException) as error:
            raise OutcomeUnknown(cause(error)) from error
