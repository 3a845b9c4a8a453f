"""Which lines of JSON have names that the schema lacks.

A block of lines is decoded with types that refuse other names than the schema's. Most files have none, so that costs
what decoding costs. Only if a block is refused, it is decoded line by line, and the lines that are refused are decoded
as if nobody looked, and walked through for names.

A producer adds a field once, and then each line has it. So the types for the next blocks, also of later files, take the
unknown names of the lines' own level that were met: a line says by such a member whether it has the name, and nothing
is walked through. That changes the time and no result.

If the values are kept, a line's are one object with the values as the line has them, as `formats.rest` says it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tidegate.formats.said import Said
from tidegate.formats.unknown import INSIDE, MORE, MOST_OF_A_TABLE, called

OF_LINES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

MOST_BESIDE = 20
"""Names that the types take beside the schema's: each line is asked for each of them. With more, a block that is
refused is decoded as a whole once more, and walked through as a whole: that is cheaper than to refuse each line."""
MOST_RANGES = 500_000
"""Ranges of rows that are said of a table; the last range of a name may then have rows without it. A name takes six
bytes of a line at least, so a text of less than 3 MB has fewer: what is said of the files that are joined
(`tidegate.reading.together`) is exact."""
TEXT, NONE = pa.string(), b"{}"
ABSENT = msgspec.Raw(b"")
"""The value of a member beside the schema's that a line lacks."""

StructType = Callable[[Sequence[str]], Any]
"""The type of a line that has no other names than the schema's and these. Those are its members g0, g1, ..., `ABSENT`
by default."""
Walk = Callable[[msgspec.Raw, str, set[str]], None]
"""Adds the paths of the unknown names in a value, which is under a path."""

OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OBJECT_OR_NULL = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
Rest = Callable[[msgspec.Raw], bytes | None]
"""What a value has beyond its type, as JSON; None if nothing."""
_LIST_OR_NULL = msgspec.json.Decoder(list[msgspec.Raw] | None)


class LineTypes:
    """The types by which the lines of all files of a schema are looked at."""

    def __init__(self, schema: pa.Schema, struct_type: StructType, *, keeps: bool = False) -> None:
        self._struct_type = struct_type
        self.known = frozenset(schema.names)
        self.nested = _nested(list(schema))
        self.rest = _rest_of_object(list(schema)) if keeps else None
        """None if it is not kept."""
        self.beside: list[str] = []
        self.take: Callable[[Any], bytes] | None = None
        """What a line has of the names beside, as one object."""
        self.decoder = msgspec.json.Decoder(struct_type(()))

    def learn(self, names: Iterable[str]) -> None:
        """Take these names of a line's own level from now on."""
        if len(self.beside) == MOST_BESIDE:
            return
        more = [name for name in names if name not in self.beside and _can_be_a_member(name)]
        more = more[: MOST_BESIDE - len(self.beside)]
        if more:
            self.beside += more
            self.decoder = msgspec.json.Decoder(self._struct_type(self.beside))
            self.take = _taking(self.beside) if self.rest else None


class SeenNames:
    """What the lines of one table have that the schema lacks. `before` and `row` count the table's rows from 0."""

    def __init__(self, types: LineTypes) -> None:
        self._types = types
        self._ranges: dict[str, list[list[int]]] = {}
        self._count = 0
        self._odd: dict[int, dict[str, msgspec.Raw]] = {}
        self._rest: list[pa.Array] = []

    @property
    def decoder(self) -> msgspec.json.Decoder:
        """It refuses lines that have to be walked through."""
        return self._types.decoder

    def line(self, decoder: msgspec.json.Decoder, line: bytes, row: int) -> Any:
        """What `decoder` decodes of a line, which is this row of its block. Raises as it does."""
        try:
            return self._types.decoder.decode(line)
        except OF_LINES:
            found = decoder.decode(line)
            self._odd[row] = OBJECT.decode(line)
            return found

    @property
    def has_many(self) -> bool:
        """Whether most lines are to be walked through, as it seems."""
        return len(self._types.beside) == MOST_BESIDE

    def whole(self, block: bytes) -> None:
        """Walk through all lines of a block that was decoded without looking: one object each."""
        self._odd = dict(enumerate(OBJECT.decode_lines(block)))

    def block(self, rows: Sequence[Any], before: int) -> None:
        """Note what the rows of a block have. `before` rows of the table come before them."""
        if self._types.rest is not None:
            self._rest.append(self._kept(rows, self._types.rest))
        found = self._beside(rows) if len(self._odd) < len(rows) else {}
        if self._odd:
            self._walk(found)
        self._note(found, before)

    @property
    def rest(self) -> pa.ChunkedArray:
        """What each line has that the schema lacks, as JSON; null if nothing."""
        return pa.chunked_array(self._rest, TEXT)

    @property
    def said(self) -> Said:
        return Said({name: tuple((begin, end) for begin, end in ranges) for name, ranges in self._ranges.items()})

    @property
    def first(self) -> tuple[int, list[str]] | None:
        """The first row with an unknown name, and its names."""
        if not self._ranges:
            return None
        row = min(ranges[0][0] for ranges in self._ranges.values())
        return row, sorted(name for name, ranges in self._ranges.items() if ranges[0][0] == row)

    def _kept(self, rows: Sequence[Any], rest: Callable[[Mapping[str, msgspec.Raw]], bytes | None]) -> pa.Array:
        take = self._types.take
        texts: list[bytes | None] = [None] * len(rows)
        if take is not None and len(self._odd) < len(rows):
            # a line that was decoded as it is has no such members
            found = [NONE if row in self._odd else take(line) for row, line in enumerate(rows)]
            texts = [None if text == NONE else text for text in found]
        for row, line in self._odd.items():
            texts[row] = rest(line)
        return pa.array(texts, pa.binary()).cast(TEXT)

    def _beside(self, rows: Sequence[Any]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, name in enumerate(self._types.beside):
            member = f"g{number}"
            # a line that was decoded as it is has no such member
            there = [row for row, line in enumerate(rows) if getattr(line, member, ABSENT) is not ABSENT]
            if there:
                found.setdefault(called(name), []).extend(there)
        return found

    def _walk(self, found: dict[str, list[int]]) -> None:
        """Add the names of the lines that were refused at first."""
        known, nested = self._types.known, self._types.nested
        own: dict[str, None] = {}
        for row, line in self._odd.items():
            names = line.keys() - known
            own |= dict.fromkeys(names) if names else {}
            for name, walk in nested:
                if (value := line.get(name)) is not None:
                    walk(value, name, names)
            for name in sorted(set(map(called, names))):
                found.setdefault(name, []).append(row)
        self._odd = {}
        self._types.learn(own)

    def _note(self, found: dict[str, list[int]], before: int) -> None:
        for name, rows in found.items():
            if name not in self._ranges and len(self._ranges) >= MOST_OF_A_TABLE:
                name = MORE
            ranges = self._ranges.setdefault(name, [])
            for begin, end in ranges_of(rows):
                if ranges and (ranges[-1][1] >= before + begin or self._count >= MOST_RANGES):
                    ranges[-1][1] = max(ranges[-1][1], before + end)
                else:
                    ranges.append([before + begin, before + end])
                    self._count += 1


def ranges_of(rows: Sequence[int]) -> list[tuple[int, int]]:
    """As ranges of rows that follow each other."""
    if len(rows) == 1:
        return [(rows[0], rows[0] + 1)]
    numbers = np.unique(np.asarray(rows, np.int64))
    gaps = np.flatnonzero(np.diff(numbers) > 1)
    begins = numbers[np.concatenate([[0], gaps + 1])]
    ends = numbers[np.concatenate([gaps, [len(numbers) - 1]])] + 1
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _can_be_a_member(name: str) -> bool:
    """What msgspec takes as the name of a member."""
    return name.isprintable() and not {'"', "\\"} & set(name)


# ---- walks


def _nested(fields: Iterable[pa.Field]) -> list[tuple[str, Walk]]:
    """The fields whose values may have unknown names in them."""
    return [(field.name, walk) for field in fields if (walk := _walk_of(field.type)) is not None]


def _walk_of(kind: pa.DataType) -> Walk | None:
    if pa.types.is_struct(kind):
        return _walk_of_struct(kind)
    if pa.types.is_map(kind):
        return _walk_of_each(kind.item_type, lambda value: (_OBJECT_OR_NULL.decode(value) or {}).values())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _walk_of_each(kind.value_type, lambda value: _LIST_OR_NULL.decode(value) or ())
    return None


def _walk_of_struct(kind: pa.DataType) -> Walk:
    known = frozenset(field.name for field in kind)
    nested = _nested(kind)

    def walk(value: msgspec.Raw, path: str, names: set[str]) -> None:
        members = _OBJECT_OR_NULL.decode(value)
        if members is None:
            return
        names.update(f"{path}.{name}" for name in members.keys() - known)
        for name, inner in nested:
            if (there := members.get(name)) is not None:
                inner(there, f"{path}.{name}", names)

    return walk


def _walk_of_each(kind: pa.DataType, members: Callable[[msgspec.Raw], Iterable[msgspec.Raw]]) -> Walk | None:
    inner = _walk_of(kind)
    if inner is None:
        return None

    def walk(value: msgspec.Raw, path: str, names: set[str]) -> None:
        for each in members(value):
            inner(each, path + INSIDE, names)

    return walk


# ---- what is kept


def _taking(names: Sequence[str]) -> Callable[[Any], bytes]:
    """Of a line with the members g0, g1, ... of these names."""
    members = sorted((name, f"g{number}") for number, name in enumerate(names))
    kind = msgspec.defstruct(
        "rest",
        [(member, msgspec.Raw, ABSENT) for _, member in members],
        rename={member: name for name, member in members},
        omit_defaults=True,
        gc=False,
    )
    values = attrgetter(*(member for _, member in members))
    encode = msgspec.json.Encoder().encode
    if len(members) == 1:
        return lambda line: encode(kind(values(line)))
    return lambda line: encode(kind(*values(line)))


def _rest_of(kind: pa.DataType) -> Rest | None:
    """None if no value can have anything beyond the type."""
    if pa.types.is_struct(kind):
        rest = _rest_of_object(list(kind))
        return lambda value: rest(_OBJECT_OR_NULL.decode(value) or {})
    if pa.types.is_map(kind):
        return (inner := _rest_of(kind.item_type)) and partial(_rest_of_each_value, inner)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return (inner := _rest_of(kind.value_type)) and partial(_rest_of_each_item, inner)
    return None


def _rest_of_object(fields: Sequence[pa.Field]) -> Callable[[Mapping[str, msgspec.Raw]], bytes | None]:
    known = frozenset(field.name for field in fields)
    nested = [(field.name, rest) for field in fields if (rest := _rest_of(field.type)) is not None]

    def rest_of(members: Mapping[str, msgspec.Raw]) -> bytes | None:
        found = {name: bytes(members[name]) for name in members.keys() - known}
        for name, rest in nested:
            if (there := members.get(name)) is not None and (left := rest(there)) is not None:
                found[name] = left
        return _object_of(sorted(found.items()))

    return rest_of


def _rest_of_each_value(rest: Rest, value: msgspec.Raw) -> bytes | None:
    found = ((key, rest(each)) for key, each in (_OBJECT_OR_NULL.decode(value) or {}).items())
    return _object_of([(key, left) for key, left in found if left is not None])


def _rest_of_each_item(rest: Rest, value: msgspec.Raw) -> bytes | None:
    found = [rest(each) for each in _LIST_OR_NULL.decode(value) or ()]
    return b"[" + b",".join(each or b"null" for each in found) + b"]" if any(found) else None


def _object_of(members: Sequence[tuple[str, bytes]]) -> bytes | None:
    """None if it has no members."""
    texts = (msgspec.json.encode(name) + b":" + value for name, value in members)
    return b"{" + b",".join(texts) + b"}" if members else None
