"""What a reader emits: the values of a file for each of its rows, and tables as batches of a good size."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

EMIT_BYTES = 16_000_000
EMIT_ROWS = 16_384


def for_each_row(values: Sequence[str], counts: np.ndarray) -> pa.Array:
    """The value of each row's file. To repeat one value is cheaper than to take from several."""
    if len(values) == 1:
        return pa.repeat(values[0], counts[0])
    return pa.array(values, pa.string()).take(pa.array(np.repeat(np.arange(len(values)), counts)))


def encoded(values: Sequence[str], counts: np.ndarray) -> pa.Array:
    numbers = pa.array(np.repeat(np.arange(len(values), dtype=np.int32), counts))
    return pa.DictionaryArray.from_arrays(numbers, pa.array(values, pa.string()))


def batches_of(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The tables' rows in batches. Small tables go together, because each batch costs time. Large ones are sliced,
    because Spark has a batch whole in memory, and Arrow at most 2 GB in one column."""
    small = [table for table in tables if table.nbytes < EMIT_BYTES]
    if small:
        yield from pa.concat_tables(small).combine_chunks().to_batches(max_chunksize=EMIT_ROWS)
    for table in tables:
        if table.nbytes >= EMIT_BYTES:
            rows = max(1, min(EMIT_ROWS, table.num_rows * EMIT_BYTES // table.nbytes))
            yield from table.to_batches(max_chunksize=rows)
