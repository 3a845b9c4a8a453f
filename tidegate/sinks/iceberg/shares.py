"""How the uploads of a batch are shared out among tasks of Spark, or left to the driver."""

from collections.abc import Sequence

from tidegate.core.manifests import OwnedUpload, bin_pack, pack_tasks, unpack_task
from tidegate.sinks.iceberg.splits import Splits, SplitTask, in_splits, split_tasks
from tidegate.sinks.iceberg.told import Task

TASK_BYTES = 64_000_000
"""A larger file may be read in splits."""
PACKED_BYTES = 128_000_000
"""Of the files of a task together: to begin another one takes as long as to read some 10 MB."""
TASK_OBJECTS = 10_000
DRIVER_BYTES = 8_000_000
DRIVER_OBJECTS = 1_000
"""What a driver reads itself: up to that it takes half as long as Spark's tasks, from 30 MB on longer."""


def shared_out(items: Sequence[OwnedUpload], splits: Splits, parallelism: int, *, reads: bool) -> list[Task]:
    """`parallelism` tasks or more; one if the driver `reads` what is small, and this is."""
    split = set(in_splits(items, splits))
    whole = [position for position in range(len(items)) if position not in split]
    sizes = [items[position].upload.size for position in whole]
    tasks = bin_pack(
        sizes,
        parallelism=1 if reads and _is_small(sizes) else parallelism,
        task_bytes=PACKED_BYTES,
        task_objects=TASK_OBJECTS,
    )
    packed = pack_tasks(items, [[whole[number] for number in task] for task in tasks])
    return [*packed, *split_tasks(items, splits)]


def is_for_driver(tasks: Sequence[Task]) -> bool:
    if len(tasks) != 1 or isinstance(tasks[0], SplitTask):
        return False
    return _is_small([item.upload.size for _, item in unpack_task(tasks[0])])


def _is_small(sizes: Sequence[int]) -> bool:
    return len(sizes) <= DRIVER_OBJECTS and sum(sizes) <= DRIVER_BYTES
