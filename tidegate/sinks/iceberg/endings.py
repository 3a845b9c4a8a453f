"""How the uploads of a batch ended, gathered from Spark's tasks.

Endings travel in an accumulator: a second reading would double the GETs. Spark may run a task twice (a lost shuffle
file, speculation), so it is a map by position in the manifest. The same ending twice is harmless. Two different endings
of one upload mean that it is unknown which rows were written: the driver gives up.
"""

from typing import Generic, TypeVar

from pyspark.accumulators import AccumulatorParam

from tidegate.core.outcomes import Outcome, Read

K = TypeVar("K")


class Endings(AccumulatorParam[dict[K, Read]], Generic[K]):
    """Endings by position in the batch's manifest, or by position and number of a split. `CONFLICT` marks what ended in
    two ways."""

    CONFLICT = Read(Outcome.QUARANTINED, -1, "read twice with different endings")

    def zero(self, value: dict[K, Read]) -> dict[K, Read]:
        return {}

    def addInPlace(self, value1: dict[K, Read], value2: dict[K, Read]) -> dict[K, Read]:  # noqa: N802
        for position, read in value2.items():
            known = value1.get(position, read)
            value1[position] = read if known == read else self.CONFLICT
        return value1

    @classmethod
    def plain(cls, value: dict[K, Read]) -> dict[K, Read | None]:
        """As a sink reports them: None for what ended in two ways."""
        return {position: None if read == cls.CONFLICT else read for position, read in value.items()}
