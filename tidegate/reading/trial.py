"""What would become of a file: it is decoded as a job decodes it, and its rows go nowhere.

The same limits decide whether it is decoded whole or piece by piece (`tidegate.reading.reader`). A large file that a
job reads in splits is read by one task here: both take and refuse the same files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from tidegate.core.unknown import few
from tidegate.formats.reasons import Undecodable, too_large
from tidegate.formats.said import BadRow, said_of
from tidegate.formats.streams import STORED_BYTES, ByteSource, HeldBytes
from tidegate.formats.unknown import names_of
from tidegate.reading.decoding import Decoding, Refused


@dataclass(frozen=True, slots=True)
class FileTrial:
    """`rows` that would land, of which `first` has some; or the `reason` of a refusal, and `where` in the file it is.
    `piecewise`: it was too large to be decoded whole. `nulls` are the columns that are null in every row: the file may
    call them otherwise. `rejected` rows would be set aside, of which `bad` are the first. `unknown` are the names in it
    that the schema lacks. SQL was evaluated for `by_sql` rows, the first ones, and leaves `left_out` of them out; None
    if it was not."""

    rows: int
    first: pa.Table
    piecewise: bool = False
    reason: str = ""
    where: str = ""
    nulls: tuple[str, ...] = ()
    rejected: int = 0
    bad: tuple[BadRow, ...] = ()
    unknown: tuple[str, ...] = ()
    by_sql: int | None = None
    left_out: int = 0

    @property
    def refused(self) -> bool:
        return bool(self.reason)


def tried(decoding: Decoding, key: str, source: ByteSource, most: int) -> FileTrial:
    """What becomes of the file `source` under this key, with its first `most` rows. Raises what `source` raises, and
    MemoryError."""
    none = decoding.schema.empty_table()
    try:
        values = decoding.keys.values(key)
    except Undecodable as error:
        return FileTrial(0, none, reason=str(error))
    complete = partial(decoding.keys.complete, values=values)
    if source.size > decoding.dataset.max_object_bytes:
        return FileTrial(0, none, reason=too_large(source.size, decoding.dataset.max_object_bytes))
    if source.size <= STORED_BYTES:
        body = source.read(0, source.size) if source.size else b""
        found = decoding(key, body)
        if isinstance(found, Refused):
            return FileTrial(0, none, reason=found.reason, where=found.where)
        if isinstance(found, pa.Table):
            return _of_tables(iter([complete(found)]), none, decoding.known, most, piecewise=False)
        source = HeldBytes(body)
    return _of_tables(map(complete, decoding.streamed(key, source)), none, decoding.known, most, piecewise=True)


def _of_tables(
    tables: Iterator[pa.Table], none: pa.Table, known: Sequence[str], most: int, *, piecewise: bool
) -> FileTrial:
    rows = 0
    first = none
    bad: list[BadRow] = []
    nulls = set(known)
    unknown: tuple[str, ...] = ()
    try:
        for table in tables:
            unknown = few((*unknown, *names_of(table)))
            rows += table.num_rows
            bad += said_of(table).bad
            nulls.intersection_update(_null_columns(table))
            if first.num_rows < most:
                # a copy: a slice would hold all of the table
                first = pa.concat_tables([first, table.slice(0, most - first.num_rows)]).combine_chunks()
    except Undecodable as error:
        return FileTrial(0, none, piecewise, str(error), error.where)
    null = tuple(name for name in none.column_names if name in nulls and rows)
    return FileTrial(rows, first, piecewise, nulls=null, rejected=len(bad), bad=tuple(bad[:most]), unknown=unknown)


def _null_columns(table: pa.Table) -> list[str]:
    """All of them, of a table without rows."""
    return [name for name in table.column_names if table[name].null_count == table.num_rows]
