"""ORC files: stripe by stripe, whether they are held whole or read in ranges.

Arrow decodes the columns, `formats.orc_tail` reads what Arrow does not say. Two types of ORC do not mean what their
names say:

- `timestamp` is the clock of whoever wrote it, without a zone. Spark writes its instants so, and marks the column; the
  footer of each stripe names the zone. Marked columns are instants if that zone is UTC, and else refused.
- Days before 15 October 1582 are counted by the Julian calendar, unless the footer says otherwise.

Spark's local times are whole numbers with a mark.
"""

import functools
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc

from tidegate.formats.columns import conform, leaves
from tidegate.formats.orc_tail import Stripe, Tail, read_tail, zones
from tidegate.formats.places import run, run_of
from tidegate.formats.reasons import CELL_BYTES, Undecodable, check_names, first_line
from tidegate.formats.registry import REPORT
from tidegate.formats.rest import portions, wanted_of
from tidegate.formats.said import concat
from tidegate.formats.splits import GroupSplitter, Splitter, StoredGroup
from tidegate.formats.streams import (
    Allowance,
    AsFile,
    ByteSource,
    HeldBytes,
    RecentBlocks,
    Stream,
    stored,
)
from tidegate.formats.type_names import is_list
from tidegate.formats.unknown import known

OF_DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError)
"""What Arrow raises of a damaged file."""
LARGEST_STRIPE = 512_000_000
"""The most memory that the rows of a stripe may need, which are decoded together. Writers make stripes of 64 MB."""
MOST_ROWS = 16_384
"""The most rows of a table."""
BUFFERS = 64_000_000
"""The bytes of a file that are held as stored, of all columns together."""
LEAST_BUFFER, LARGEST_BUFFER = 64 << 10, 8 << 20
MARK = b"spark.sql.catalyst.type"
"""The attribute by which Spark says what it wrote (`OrcUtils`, source of Spark 4.1 read)."""
UTC = {"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu", "Z"}
GREGORIAN = -141_427
"""15 October 1582 as days since 1970."""
OUT_OF_RANGE = "out of range for nanosecond"
"""Of Arrow's message about a time that it cannot hold (pyarrow 26.0.1)."""


def make_decoder(schema: pa.Schema, max_bytes: int, unknown: str = REPORT) -> Callable[[bytes], pa.Table]:
    """Raises ValueError if this machine cannot read ORC."""
    _check_machine()

    def decode(body: bytes) -> pa.Table:
        open_file = lambda: pa.BufferReader(body)  # noqa: E731
        allowance = Allowance(max_bytes, "max_object_bytes")
        return concat(list(_tables(HeldBytes(body), open_file, allowance, schema, unknown)))

    return decode


def make_streaming(schema: pa.Schema, unknown: str = REPORT) -> Callable[[Stream], Iterator[pa.Table]]:
    """Raises ValueError if this machine cannot read ORC."""
    _check_machine()

    return lambda stream: _streamed(stream, schema, unknown)


def make_splitter(schema: pa.Schema, unknown: str = REPORT) -> Splitter:
    """In splits of whole stripes."""
    return GroupSplitter(_stripes, lambda stream, split: _streamed(stream, schema, unknown, split.groups))


def _stripes(source: ByteSource) -> Sequence[StoredGroup]:
    stripes = _checked_tail(source).stripes
    begins = [0, *(stripe.end for stripe in stripes)]
    return [
        StoredGroup(stripe.rows, max(0, stripe.end - begin)) for begin, stripe in zip(begins, stripes, strict=False)
    ]


def _streamed(stream: Stream, schema: pa.Schema, unknown: str, chosen: range | None = None) -> Iterator[pa.Table]:
    """The rows of the file, or of these stripes of it. Raises Undecodable."""
    source = stored(stream, "an", "ORC")
    # of each column there are several streams in a stripe, read side by side
    block = min(max(BUFFERS // (4 * max(1, len(schema))), LEAST_BUFFER), LARGEST_BUFFER)
    recent = RecentBlocks(source, block, BUFFERS // block)
    yield from _tables(source, lambda: pa.PythonFile(AsFile(recent), "r"), stream.allowance, schema, unknown, chosen)


def _checked_tail(source: ByteSource) -> Tail:
    """The end of a file. Raises Undecodable, also if it contradicts itself."""
    tail = read_tail(source)
    if sum(stripe.rows for stripe in tail.stripes) != tail.rows:
        found = sum(stripe.rows for stripe in tail.stripes)
        raise Undecodable(f"not ORC: the footer names {tail.rows} rows, and the stripes have {found}")
    return tail


@functools.cache
def _check_machine() -> None:
    """Arrow needs the machine's time zones for any ORC file with a time. Without them a file is not to blame."""
    sink = io.BytesIO()
    try:
        pyarrow.orc.write_table(pa.table({"t": pa.array([0], pa.timestamp("ns"))}), sink)
        pyarrow.orc.read_table(pa.BufferReader(sink.getvalue()))
    except pa.ArrowException as error:
        raise ValueError(f"ORC files cannot be read on this machine: {first_line(error)}") from error


def _tables(
    source: ByteSource,
    open_file: Callable[[], Any],
    allowance: Allowance,
    schema: pa.Schema,
    unknown: str,
    chosen: range | None = None,
) -> Iterator[pa.Table]:
    try:
        yield from _of_stripes(source, open_file, allowance, schema, unknown, chosen)
    except (Undecodable, MemoryError):
        raise
    except OF_DAMAGE as error:
        raise Undecodable(f"not ORC: {first_line(error)}") from error


def _of_stripes(
    source: ByteSource,
    open_file: Callable[[], Any],
    allowance: Allowance,
    schema: pa.Schema,
    unknown: str,
    chosen: range | None,
) -> Iterator[pa.Table]:
    tail = _checked_tail(source)
    counts = [stripe.rows for stripe in tail.stripes]
    chosen = range(len(counts)) if chosen is None else chosen
    rows, count = sum(counts[: chosen.start]), sum(counts[chosen.start : chosen.stop])
    file = pyarrow.orc.ORCFile(open_file())
    there = file.schema
    if tail.rows:
        check_names(there.names, known(schema, unknown).names)
    wanted, cells = wanted_of(there.names, schema, unknown)
    allowance.take(count * max(1, cells) * CELL_BYTES)
    allowance.check(sum(tail.sizes.get(name, 0) for name in wanted) * count // max(1, tail.rows))
    meant = pa.schema([meant_field(there.field(name)) for name in wanted])
    if any(_has(field, _is_marked_instant) for field in map(there.field, wanted)):
        _check_zones(source, tail)
    # types that do not fit are refused before any row is emitted, and in a file without rows
    yield conform(meant.empty_table(), schema, texts=False, names=there.names, unknown=unknown)
    for stripe, table in _decoded(file, tail, tail.stripes[chosen.start : chosen.stop], wanted, allowance):
        try:
            if not tail.days_are_iso:
                _check_days(table, run("stripe", stripe.number))
            for part in portions(table.cast(meant), schema, unknown, allowance.take):
                yield conform(part, schema, texts=False, before=rows, unknown=unknown)
                rows += part.num_rows
        except Undecodable as error:
            if error.row is not None:
                error.where = run_of("stripe", rows + error.row, counts)
            raise


def _decoded(
    file: Any, tail: Tail, stripes: Sequence[Stripe], wanted: Sequence[str], allowance: Allowance
) -> Iterator[tuple[Stripe, pa.Table]]:
    """The rows of each of the stripes, some at a time. Raises Undecodable."""
    size = sum(tail.sizes.get(name, 0) for name in wanted)
    cells = CELL_BYTES * max(1, len(wanted))
    for stripe in stripes if wanted else ():
        called = run("stripe", stripe.number)
        if (expected := size * stripe.rows // max(1, tail.rows)) > LARGEST_STRIPE:
            raise Undecodable(
                f"too large: {called} needs {expected} bytes in memory, at most {LARGEST_STRIPE}."
                " Write smaller stripes (orc.stripe.size)",
                where=called,
            )
        try:
            batch = file.read_stripe(stripe.number, columns=list(wanted))
        except MemoryError:
            raise
        except OF_DAMAGE as error:
            raise Undecodable(_reason(error), where=called) from error
        if batch.num_rows != stripe.rows:
            raise Undecodable(
                f"not ORC: the footer names {stripe.rows} rows of {called}, and it has {batch.num_rows}", where=called
            )
        allowance.take(max(0, batch.nbytes - batch.num_rows * cells))
        table = pa.Table.from_batches([batch]).select(list(wanted))
        for first in range(0, stripe.rows, MOST_ROWS):
            yield stripe, table.slice(first, MOST_ROWS)


def _reason(error: BaseException) -> str:
    if OUT_OF_RANGE in str(error):
        return "a time is outside of 1677-09-21 to 2262-04-11, which are the times that are read from ORC"
    return f"not ORC: {first_line(error)}"


# ---- types


def meant_field(field: pa.Field) -> pa.Field:
    """The field as the type that its values have, by Spark's marks. Raises Undecodable."""
    return pa.field(field.name, _meant_type(field, field.name))


def _meant_type(field: pa.Field, column: str) -> pa.DataType:
    kind, mark = field.type, (field.metadata or {}).get(MARK, b"").decode("utf-8", "replace")
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_meant_type(each, column)) for each in kind])
    if is_list(kind):
        return pa.list_(kind.value_field.with_type(_meant_type(kind.value_field, column)))
    if pa.types.is_map(kind):
        return pa.map_(_meant_type(kind.key_field, column), _meant_type(kind.item_field, column))
    if _is_marked_instant(field):
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_integer(kind) and mark:
        if mark != "timestamp_ntz":
            raise Undecodable(f"column {column}: {mark[:60]} in the file, which Spark wrote as a number")
        return pa.timestamp("us")
    return kind


def _is_marked_instant(field: pa.Field) -> bool:
    return bool(
        pa.types.is_timestamp(field.type) and field.type.tz is None and (field.metadata or {}).get(MARK) == b"timestamp"
    )


def _has(field: pa.Field, what: Callable[[pa.Field], bool]) -> bool:
    kind = field.type
    inside = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else []
    inside = [kind.value_field] if is_list(kind) else inside
    inside = list(kind) if pa.types.is_struct(kind) else inside
    return what(field) or any(_has(each, what) for each in inside)


def _check_zones(source: ByteSource, tail: Tail) -> None:
    for stripe, zone in zones(source, tail):
        if zone not in UTC:
            raise Undecodable(
                f"Spark wrote it in the zone {zone[:60] or '(unknown)'}, and ORC has the clock of that zone."
                " Write it with -Duser.timezone=UTC, or write Parquet",
                where=run("stripe", stripe.number),
            )


def _check_days(table: pa.Table, stripe: str) -> None:
    for name in table.column_names:
        for array in leaves(table[name]):
            if pa.types.is_date32(array.type) and len(array):
                first = pc.min(array.view(pa.int32())).as_py()
                if first is not None and first < GREGORIAN:
                    raise Undecodable(
                        f"column {name}: a day before 1582-10-15, and the file does not say that it counts days by the"
                        " calendar of ISO 8601",
                        where=stripe,
                    )
