"""Large files that several tasks read (`tidegate.formats.splits`), and what becomes of one that a split refuses.

    line                              if the driver dies right after it    if a twin runs beside it
    1 survey the large files          nothing has changed                  each surveys for itself
    2 stage, some files in splits     a branch that nobody publishes       each stages on its own branch
    3 a split is refused: read its    as 2                                 each finds its own ending of the file
      file as a whole, emit nothing
    4 stage again, without the file,  as 2                                 one is published
      or with it as a whole

- Splits are an economy. What they say counts only if all of a file's splits landed, each with as many rows as it was
  surveyed to have. Then the file has the rows, and the row numbers, that it has as a whole.
- Else the whole file is read once more by one task, and that is its ending: its reason, its line. If it is fine (a
  survey may be wrong), the snapshot is spoiled all the same, and the next staging reads it as a whole. So each staging
  has fewer files in splits.
- An object that changes between survey and staging is another version. All requests name the version that was claimed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark import SparkContext

from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.splits import joined, split_bytes, to_split
from tidegate.core.uploads import Upload
from tidegate.formats.splits import Split
from tidegate.reading.reader import Reader
from tidegate.sinks.iceberg.causes import TaskFailed
from tidegate.sinks.iceberg.endings import Endings

Splits = dict[Upload, list[Split]]
"""Of the files that are read in splits."""
Reports = Mapping[tuple[int, int], Read | None]
"""Of the splits: by the file's position among the items, and the number of the split."""


@dataclass(frozen=True, slots=True)
class SplitTask:
    """What one task reads of a file."""

    position: int
    number: int
    item: OwnedUpload
    split: Split


def in_splits(items: Sequence[OwnedUpload], splits: Splits) -> list[int]:
    """The positions of the files in splits. Most batches have none, and to hash a million uploads takes a second."""
    return [position for position, item in enumerate(items) if item.upload in splits] if splits else []


def split_tasks(items: Sequence[OwnedUpload], splits: Splits) -> list[SplitTask]:
    return [
        SplitTask(position, number, items[position], split)
        for position in in_splits(items, splits)
        for number, split in enumerate(splits[items[position].upload])
    ]


def survey(context: SparkContext, reader: Reader, items: Sequence[OwnedUpload], task_bytes: int) -> Splits:
    """The splits of the files that are worth it. One job of Spark, if there are such files."""
    decoding = reader.decoding
    splitter = decoding.splitter
    if splitter is None or reader.careful:
        return {}
    sizes = [item.upload.size for item in items]
    slots = _slots(context)
    most = partial(split_bytes, slots=slots, task_bytes=task_bytes)
    large = [items[at] for at in to_split(sizes, slots=slots, task_bytes=task_bytes)]
    # one that is too large for the route is refused by whoever reads it as a whole
    limit = reader.dataset.max_object_bytes
    large = [item for item in large if item.upload.size <= limit and decoding.splits(item.upload.key)]
    sized = [(item, item.upload.size) for item in large]
    ranges = [(item, start, end) for item, size in sized for start, end in splitter.ranges(size, most(size))]
    if not ranges:
        return {}

    def read(parts: Iterable[tuple[OwnedUpload, int, int]]) -> Iterator[Any]:
        with TaskFailed.told():
            for item, start, end in parts:
                yield item.upload, reader.survey(item, start, end)

    found: dict[Upload, list[Any]] = {}
    # to begin a task takes as long as to survey 100 MB, so there are no more of them than run at once
    for upload, surveyed in context.parallelize(ranges, min(len(ranges), slots)).mapPartitions(read).collect():
        found.setdefault(upload, []).append(surveyed)
    cut = {
        upload: splitter.cut(surveys, upload.size, most(splitter.weight(surveys, upload.size)))
        for upload, surveys in found.items()
        if all(each is not None for each in surveys)
    }
    return {upload: splits for upload, splits in cut.items() if splits}


def endings_of(
    items: Sequence[OwnedUpload],
    splits: Splits,
    reports: Reports,
    read_whole: Callable[[Sequence[tuple[int, OwnedUpload]]], Mapping[int, Read | None]],
) -> dict[int, Read | None]:
    """How the files in splits ended, by position. If a split is refused, the file is read as a whole, and leaves
    `splits`."""
    ended: dict[int, Read | None] = {}
    doubted: dict[int, Read] = {}
    for position in in_splits(items, splits):
        count = len(splits[items[position].upload])
        read = joined([reports.get((position, number)) for number in range(count)])
        if read is None or read.outcome is Outcome.COMMITTED:
            ended[position] = read
        else:
            doubted[position] = read
    if doubted:
        found = read_whole([(position, items[position]) for position in doubted])
        for position, doubt in doubted.items():
            del splits[items[position].upload]
            ended[position] = _of_whole(found.get(position), doubt)
    return ended


def _of_whole(read: Read | None, doubt: Read) -> Read | None:
    """What was staged of the splits of a file is not what the whole file has."""
    if read is None:
        return None
    return replace(read, spoiled=doubt.spoiled or read.outcome is Outcome.COMMITTED)


def read_whole(
    context: SparkContext, reader: Reader, items: Sequence[tuple[int, OwnedUpload]]
) -> dict[int, Read | None]:
    """How each of these files ends, read by a task of its own. No row of it is emitted."""
    endings: Any = context.accumulator({}, Endings[int]())

    def read(parts: Iterable[tuple[int, OwnedUpload]]) -> None:
        with TaskFailed.told():
            for _ in reader.read(list(parts), lambda position, ended: endings.add({position: ended})):
                pass

    context.parallelize(items, len(items)).foreachPartition(read)
    return Endings.plain(endings.value)


def _slots(context: SparkContext) -> int:
    """How many tasks may run at once, when all executors are there that the job may have."""
    config = context.getConf()
    executors = int(config.get("spark.dynamicAllocation.maxExecutors", "0") or 0)
    return max(context.defaultParallelism, executors * int(config.get("spark.executor.cores", "1") or 1))
