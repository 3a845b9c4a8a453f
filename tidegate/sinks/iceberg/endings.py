"""How the uploads of a batch ended, gathered from Spark's tasks.

Endings travel in an accumulator. Spark may run a task twice (a lost shuffle file, speculation). The same ending twice
is harmless. Two different endings of one upload mean that it is unknown which rows were written: the driver gives up.
"""

from pyspark.accumulators import AccumulatorParam

from tidegate.core.outcomes import Outcome, Read


class Endings(AccumulatorParam[dict[int, Read]]):
    """Endings by position in the batch's manifest. `CONFLICT` marks positions that ended in two ways."""

    CONFLICT = Read(Outcome.QUARANTINED, -1, "read twice with different endings")

    def zero(self, value: dict[int, Read]) -> dict[int, Read]:
        return {}

    def addInPlace(self, value1: dict[int, Read], value2: dict[int, Read]) -> dict[int, Read]:  # noqa: N802
        for position, read in value2.items():
            known = value1.get(position, read)
            value1[position] = read if known == read else self.CONFLICT
        return value1

    @classmethod
    def plain(cls, value: dict[int, Read]) -> dict[int, Read | None]:
        """As a sink reports them: None for a position that ended in two ways."""
        return {position: None if read == cls.CONFLICT else read for position, read in value.items()}
