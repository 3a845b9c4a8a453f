"""Files of many shapes, drawn by a seed: no shape is the one for which the product was made fast.

A shape begins with the columns of all benches (`bench.files`), whose sums are checked. The kinds, the lengths and the
order of the others are drawn.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from bench.arrow import SCHEMA
from bench.files import DDL, BenchFiles, cents_of, put_files, text_of

Values = Callable[[Random, int], list[Any]]
"""So many values of a column."""
SAMPLE = 200
"""A shape's rows are so long as this many of them are on average."""
FIRST_DAY = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Drawn:
    """A column: its name, its types in SQL and in Arrow, and its values."""

    name: str
    sql: str
    arrow: pa.DataType
    values: Values


@dataclass(frozen=True)
class BenchShape:
    """The columns beside those of all benches, and the partitions of the table."""

    drawn: Sequence[Drawn] = ()
    partitions: tuple[str, ...] = ()
    skips_nulls: bool = False
    """A field that is null is not in the JSON at all."""
    schema: pa.Schema = field(init=False)
    columns: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", pa.schema([*SCHEMA, *((each.name, each.arrow) for each in self.drawn)]))
        object.__setattr__(self, "columns", ", ".join([DDL, *(f"{each.name} {each.sql}" for each in self.drawn)]))

    def rows(self, chance: Random, ids: range) -> list[tuple[Any, ...]]:
        own = (ids, map(cents_of, ids), map(text_of, ids))
        return list(zip(*own, *(each.values(chance, len(ids)) for each in self.drawn), strict=True))


# ---- what is drawn


def wide(chance: Random) -> BenchShape:
    """Forty columns, a structure, and an array of structures."""
    parts = [_plain(chance, f"p{number}") for number in range(chance.randint(3, 5))]
    return BenchShape([*_plains(chance, 38), _struct("whole", parts), _structs("several", parts)])


def sparse(chance: Random) -> BenchShape:
    """Sixty columns of which nine values in ten are not there."""
    return BenchShape([_seldom(each) for each in _plains(chance, 60)], skips_nulls=True)


def many(chance: Random) -> BenchShape:
    """Two hundred columns of small numbers and flags."""
    return BenchShape([_small(chance, f"c{number}") for number in range(200)])


def long(chance: Random) -> BenchShape:
    """A few texts of up to 20,000 characters."""
    return BenchShape([_text(f"c{number}", 1, chance.choice((200, 2_000, 20_000))) for number in range(4)])


def quoted(chance: Random) -> BenchShape:
    """Texts with delimiters, line ends and quotes, which CSV writes twice within quotes."""
    return BenchShape([*_plains(chance, 4), *(_speech(f"s{number}") for number in range(3))])


def of_days(days: int) -> Callable[[Random], BenchShape]:
    """Rows of so many days, whose table has a partition for each."""

    def at(chance: Random, count: int) -> list[Any]:
        return [FIRST_DAY + timedelta(chance.randrange(days), chance.randrange(86_400)) for _ in range(count)]

    return lambda _: BenchShape([Drawn("at", "timestamp", pa.timestamp("us", "UTC"), at)], ("day(at)",))


def _plains(chance: Random, count: int) -> list[Drawn]:
    return [_plain(chance, f"c{number}") for number in range(count)]


def _plain(chance: Random, name: str) -> Drawn:
    kind = chance.choice(("int", "double", "text", "flag"))
    if kind == "int":
        return _int(name, "bigint", pa.int64(), 10 ** chance.randint(1, 15))
    if kind == "double":
        digits = chance.choice((2, 17))
        return Drawn(
            name, "double", pa.float64(), lambda draw, n: [round(draw.random() * 1e3, digits) for _ in range(n)]
        )
    if kind == "text":
        return _text(name, 1, chance.choice((3, 12, 40)))
    return Drawn(name, "boolean", pa.bool_(), lambda draw, n: [draw.random() < 0.5 for _ in range(n)])


def _small(chance: Random, name: str) -> Drawn:
    if chance.random() < 0.3:
        return Drawn(name, "boolean", pa.bool_(), lambda draw, n: [draw.random() < 0.5 for _ in range(n)])
    return _int(name, "int", pa.int32(), 1_000)


def _int(name: str, sql: str, arrow: pa.DataType, below: int) -> Drawn:
    return Drawn(name, sql, arrow, lambda draw, n: [int(draw.random() * below) for _ in range(n)])


def _text(name: str, least: int, most: int) -> Drawn:
    words = "".join(map(text_of, range(5_000)))

    def texts(draw: Random, count: int) -> list[Any]:
        found = []
        for _ in range(count):
            start, length = int(draw.random() * 20_000), least + int(draw.random() * (most - least))
            found.append(words[start : start + length])
        return found

    return Drawn(name, "string", pa.string(), texts)


def _speech(name: str) -> Drawn:
    plain = _text(name, 2, 60)
    marks = ('"', '", said "', ", ", "\n", "", "", "")

    def texts(draw: Random, count: int) -> list[Any]:
        return [f"{each[:9]}{draw.choice(marks)}{each[9:]}" for each in plain.values(draw, count)]

    return Drawn(name, "string", pa.string(), texts)


def _struct(name: str, parts: Sequence[Drawn]) -> Drawn:
    sql = f"struct<{', '.join(f'{each.name}: {each.sql}' for each in parts)}>"
    arrow = pa.struct([(each.name, each.arrow) for each in parts])

    def structures(draw: Random, count: int) -> list[Any]:
        names = [each.name for each in parts]
        columns = zip(*(each.values(draw, count) for each in parts), strict=True)
        return [dict(zip(names, each, strict=True)) for each in columns]

    return Drawn(name, sql, arrow, structures)


def _structs(name: str, parts: Sequence[Drawn]) -> Drawn:
    one = _struct(name, parts)

    def lists(draw: Random, count: int) -> list[Any]:
        lengths = [int(draw.random() * 4) for _ in range(count)]
        there = iter(one.values(draw, sum(lengths)))
        return [[next(there) for _ in range(length)] for length in lengths]

    return Drawn(name, f"array<{one.sql}>", pa.list_(one.arrow), lists)


def _seldom(of: Drawn) -> Drawn:
    def values(draw: Random, count: int) -> list[Any]:
        return [each if draw.random() < 0.1 else None for each in of.values(draw, count)]

    return Drawn(of.name, of.sql, of.arrow, values)


# ---- as files


def drawn_files(
    folder: Path, title: str, shape: BenchShape, format: str, count: int, size: int, *, seed: int
) -> BenchFiles:
    """`count` files of about `size` bytes, each with rows of its own."""
    chance = Random(seed)
    sample = range(0, 7 * SAMPLE, 7)
    rows = max(1, size * SAMPLE // len(_written(shape, format, shape.rows(Random(seed), sample))))
    files = BenchFiles(title, format, folder, columns=shape.columns, partitions=shape.partitions, schema=shape.schema)
    return put_files(files, count, rows, lambda ids: _written(shape, format, shape.rows(chance, ids)), f".{format}")


def _written(shape: BenchShape, format: str, rows: Sequence[tuple[Any, ...]]) -> bytes:
    names = shape.schema.names
    if format == "json":
        encode = msgspec.json.Encoder().encode_lines
        return encode([_object(names, each, skips_nulls=shape.skips_nulls) for each in rows])
    if format == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([names, *map(_cells, rows)])
        return text.getvalue().encode()
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), shape.schema.types, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=shape.schema), sink)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _object(names: Sequence[str], row: Iterable[Any], *, skips_nulls: bool) -> dict[str, Any]:
    pairs = zip(names, row, strict=True)
    return {name: value for name, value in pairs if value is not None} if skips_nulls else dict(pairs)


def _cells(row: Iterable[Any]) -> list[Any]:
    return [str(each).lower() if isinstance(each, bool) else each for each in row]
