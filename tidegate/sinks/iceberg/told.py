"""What a task of Spark reads, and what it tells beside its rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from tidegate.core.manifests import unpack_task
from tidegate.core.outcomes import Read
from tidegate.core.unknown import NamesOfTask
from tidegate.formats.added import NewNames, dialect_of
from tidegate.formats.registry import FORMATS, adds
from tidegate.reading.reader import Reader
from tidegate.sinks.iceberg.splits import SplitTask
from tidegate.sinks.iceberg.widen import MOST_ADDED

Task = bytes | SplitTask
"""What a task of Spark reads: packed uploads, or a split of one."""


@dataclass(frozen=True)
class Told:
    """What the tasks of one job tell of the uploads, and of the splits of some. `sums` are those of the rows that are
    left out (`route_sql`). `slowly` is as in `Staged`."""

    endings: Any
    of_splits: Any
    names: Any
    sums: Any = None
    slowly: str = ""

    def read(self, reader: Reader, task: Task) -> Iterator[Any]:
        """The rows of a task, on an executor."""
        given = reader.dataset
        options = dict(given.options)
        names = NewNames(dialect_of(FORMATS[given.format], options)) if adds(given.options) else None
        reader = replace(reader, names=names)
        if isinstance(task, SplitTask):
            yield from reader.read_split(task.item, task.split, partial(self._report_split, task))
        else:
            yield from reader.read(unpack_task(task), partial(self._report, NamesOfTask()))
        if names is not None:
            found = names.types()
            new = {name: kind for name, kind in found.items() if name not in reader.beside.names}
            if new:
                # of more none is added: so many say that there are more
                self.names.add(dict(islice(new.items(), MOST_ADDED + 1)))

    def _report(self, told: NamesOfTask, position: int, ended: Read) -> None:
        self.endings.add({position: replace(ended, unknown=told.of(ended.unknown)) if ended.unknown else ended})

    def _report_split(self, task: SplitTask, ended: Read) -> None:
        self.of_splits.add({(task.position, task.number): ended})
