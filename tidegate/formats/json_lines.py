"""JSON lines: one object a line.

msgspec checks each line against the schema's types, strictly, and reports what fails where. (Arrow's own JSON reader
crashes the process if the first line is `null`, and makes a row of nulls of a later one: pyarrow 26.0.1.)

Where each line begins with `{` and ends with `}`, all lines are decoded in one call (`_in_one_call`). Else, and if that
call fails, they are decoded line by line, which finds the line that is refused.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats import places
from tidegate.formats.byte_counts import FEED, SMALL, count, may_have_blank_lines
from tidegate.formats.columns import conform
from tidegate.formats.json_refusals import refusal
from tidegate.formats.json_unknown import ABSENT, OF_LINES, LineTypes, SeenNames
from tidegate.formats.nesting import DEEPEST, first_deep_line
from tidegate.formats.pieces import Piece
from tidegate.formats.reasons import Undecodable, check_cells, check_names, check_text, first_line, fit_cells
from tidegate.formats.registry import IGNORE, REFUSE, REPORT
from tidegate.formats.said import say
from tidegate.formats.type_names import type_name
from tidegate.formats.unknown import of_line

OF_VALUES = (pa.ArrowException, ValueError, TypeError, OverflowError)

NULL_TEXT = b"null"
NULL = msgspec.Raw(NULL_TEXT)
BLOCK_BYTES = 256_000
"""Lines become columns so many bytes at a time: the values of more do not fit into a processor's cache."""
LINE_END, OPENS, CLOSES, QUOTE = b'\n{}"'


def make_decoder(schema: pa.Schema, max_bytes: int, unknown: str = REPORT) -> Callable[[bytes], pa.Table]:
    """Raises ValueError if JSON cannot hold such a column."""
    line = msgspec.json.Decoder(_struct_type(list(schema)))
    types = None if unknown == IGNORE else LineTypes(schema, partial(_struct_type, list(schema)))
    reading = [(attrgetter(f"f{number}"), field.name, _maker(field.type)) for number, field in enumerate(schema)]

    def decode(body: bytes) -> pa.Table:
        check_text(len(body))
        check_cells(count(body, FEED) + 1, len(schema), max_bytes)
        parts: list[list[pa.Array]] = [[make([])] for _, _, make in reading]
        total = 0
        seen = None if types is None else SeenNames(types)
        for block in _blocks(body):
            rows = _rows(line, block, body, total, schema, seen)
            for part, (member, name, make) in zip(parts, reading, strict=True):
                values = list(map(member, rows))
                try:
                    part.append(make(values))
                except MemoryError:
                    raise
                except OF_VALUES as error:
                    refused = _first_refused(values, make)
                    if refused is None:
                        raise Undecodable(f"column {name}: {first_line(error)}") from error
                    raise _refused(body, total + refused, schema, error) from error
            total += len(rows)
        columns = [pa.concat_arrays(part) for part in parts]
        if total and all(column.null_count == total for column in columns):
            _check_fields(body, schema)
        table = pa.Table.from_arrays(columns, names=schema.names)
        try:
            done = conform(table, schema, texts=True, place=partial(line_of, body))
        except Undecodable as error:
            error.where = _where(body, error.row)
            raise
        if seen is None or seen.first is None:
            return done
        if unknown == REFUSE:
            row, names = seen.first
            raise Undecodable(of_line(line_of(body, row), names), row=row, where=_where(body, row))
        return say(done, seen.said)

    return decode


def make_piece(schema: pa.Schema, max_bytes: int, unknown: str = REPORT) -> Callable[[bytes], Piece | None]:
    """See `formats.pieces`. A row is a line that is not blank, and each is decoded without regard to the others. So the
    rows of several files are those of their lines one after the other."""

    def piece(body: bytes) -> Piece | None:
        if not fit_cells(count(body, FEED) + 1, len(schema), max_bytes):
            return None
        text = body if body.endswith(b"\n") or not body else body + b"\n"
        return Piece(b"", text, count_rows(text))

    return piece


def count_rows(text: bytes) -> int:
    """The lines that are not blank, of a text that ends with a line."""
    if len(text) < SMALL:
        # of a small file numpy's calls would take longer than the decoder
        rows = text.count(b"}\n{") + 1
        if rows == text.count(b"\n") and text.startswith(b"{"):
            return rows
    if not may_have_blank_lines(text):
        return count(text, FEED)
    return sum(not line.isspace() for line in io.BytesIO(text))


def _maker(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """The function that makes the column of the values that msgspec has decoded."""
    if pa.types.is_decimal(kind):
        return _numbers
    plain, held = _plain(kind), _held(kind)
    return lambda values: pa.array(values if plain is None else map(plain, values), held)


def _first_refused(values: Sequence[Any], make: Callable[[Sequence[Any]], pa.Array]) -> int | None:
    """The row of the first value that Arrow does not take; only of a file that is refused."""
    for row, value in enumerate(values):
        try:
            make([value])
        except MemoryError:
            raise
        except OF_VALUES:
            return row
    return None


def _refused(body: bytes, row: int, schema: pa.Schema, error: Exception) -> Undecodable:
    number, text = _line(body, row)
    return Undecodable(refusal(number, text, schema, error), row=row, where=_where(body, row))


def _too_deep(body: bytes, row: int) -> Undecodable:
    why = f"{line_of(body, row)}: it nests deeper than {DEEPEST} levels: write the inner part as text"
    return Undecodable(why, row=row, where=_where(body, row))


def _where(body: bytes, row: int | None) -> str:
    """The line of a row, with what is in it."""
    if row is None:
        return ""
    number, text = _line(body, row)
    return places.line(number, text.rstrip(b"\r\n"))


def _line(body: bytes, row: int) -> tuple[int, bytes]:
    """The number of the row's line, from 1, and its text: blank lines are no rows."""
    lines = ((number, text) for number, text in enumerate(io.BytesIO(body), start=1) if not text.isspace())
    return next(islice(lines, row, None))


def _blocks(body: bytes) -> Iterator[bytes]:
    """The lines of a file, some `BLOCK_BYTES` at a time."""
    begin = 0
    while begin < len(body):
        end = body.find(b"\n", begin + BLOCK_BYTES) + 1 or len(body)
        yield body[begin:end]
        begin = end


def _rows(
    line: msgspec.json.Decoder, block: bytes, body: bytes, before: int, schema: pa.Schema, seen: SeenNames | None
) -> list[Any]:
    """One row for each line of the block that is not blank. `before` rows of `body` come before the block. `seen`
    gathers what the schema lacks."""
    if (deep := first_deep_line(block)) is not None:
        above = sum(not text.isspace() for text in islice(io.BytesIO(block), deep))
        raise _too_deep(body, before + above)
    at_once = _in_one_call(line if seen is None else seen.decoder, block)
    if at_once is None and seen is not None and seen.has_many and (at_once := _in_one_call(line, block)) is not None:
        seen.whole(block)
    rows = _one_by_one(line, block, body, before, schema, seen) if at_once is None else at_once
    if seen is not None:
        seen.block(rows, before)
    return rows


def _one_by_one(
    line: msgspec.json.Decoder, block: bytes, body: bytes, before: int, schema: pa.Schema, seen: SeenNames | None
) -> list[Any]:
    rows: list[Any] = []
    try:
        for text in io.BytesIO(block):
            if not text.isspace():
                row = line.decode(text) if seen is None else seen.line(line, text, len(rows))
                text.decode()  # msgspec does not look at what the schema lacks
                rows.append(row)
    except OF_LINES as error:
        raise _refused(body, before + len(rows), schema, error) from error
    return rows


def _in_one_call(line: msgspec.json.Decoder, block: bytes) -> list[Any] | None:
    """The rows, if every line begins with `{` and ends with `}`, and is one object; else None.

    `decode_lines` decodes one object after the other, with any white space between them. It would take several on one
    line for several lines, and one on several lines for one. Neither can be here:

    - A line end in a string is refused, so a line end is between tokens. Between `}` and `{` an object has a comma. So
      each line end is between two objects, and each line has one or more objects, whole.
    - There are as many objects as lines. So each line has one.
    """
    if not block.startswith(b"{") or not block.endswith((b"}", b"}\n")):
        return None
    text = np.frombuffer(block, np.uint8)
    between = np.flatnonzero(text[:-1] == LINE_END)
    if (text[between - 1] != CLOSES).any() or (text[between + 1] != OPENS).any():
        return None
    try:
        rows: list[Any] = line.decode_lines(block)
        block.decode()
    except OF_LINES:
        return None
    return rows if len(rows) == len(between) + 1 else None


def line_of(body: bytes, row: int) -> str:
    """Where the row is in the file, for its owner: its line, counted from 1, blank ones too."""
    return f"line {_line(body, row)[0]}"


def _check_fields(body: bytes, schema: pa.Schema) -> None:
    """Refuse a file in which no line has a field of the schema: it is of another kind. Only files whose rows are all
    null are read again for that."""
    objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
    names: dict[str, None] = {}
    for text in io.BytesIO(body):
        if not text.isspace():
            names.update(dict.fromkeys(objects.decode(text)))
            if not names.keys().isdisjoint(schema.names):
                return
    check_names(list(names), schema.names)


# ---- types for msgspec


def _struct_type(fields: list[pa.Field], beside: Sequence[str] | None = None) -> Any:
    """The type for objects with these fields: f0, f1, ... with the fields' names as aliases, because msgspec 0.22.0
    does not find keys beyond ASCII in a TypedDict. Unless `beside` is None, an object has no names but those of the
    fields, at any depth, and these at its own level: g0, g1, ... (see `formats.json_unknown`)."""
    strict = beside is not None
    members: list[Any] = [(f"g{number}", msgspec.Raw, ABSENT) for number in range(len(beside or ()))]
    for number, field in enumerate(fields):
        kind = _element(field, strict)
        absent = (NULL if kind is msgspec.Raw else None,) if field.nullable else ()
        members.append((f"f{number}", kind, *absent))
    names = {f"f{number}": field.name for number, field in enumerate(fields)}
    names |= {f"g{number}": name for number, name in enumerate(beside or ())}
    return msgspec.defstruct("object", members, rename=names, kw_only=True, gc=False, forbid_unknown_fields=strict)


def _element(field: pa.Field, strict: bool) -> Any:
    kind = _python_type(field.type, strict)
    # what is raw may be null as it is; columns are checked for it
    return kind | None if field.nullable and kind is not msgspec.Raw else kind


def _python_type(kind: pa.DataType, strict: bool) -> Any:
    """The Python type that msgspec checks a JSON value against. Raises ValueError if JSON has none."""
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        # a number or a text, digit for digit
        return msgspec.Raw
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise ValueError(f"JSON files cannot hold a {type_name(kind)}: the keys of an object are text")
        return dict[str, _element(kind.item_field, strict)]  # type: ignore[misc]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list[_element(kind.value_field, strict)]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        return _struct_type(list(kind), () if strict else None)
    return str


# ---- values for Arrow


def _held(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of the JSON value, before it is read as `kind`."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return kind
    if pa.types.is_floating(kind):
        # Arrow would make a number infinite that is too large for a smaller float
        return pa.float64()
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _held(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_held(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _held(field.type)) for field in kind])
    return pa.string()


def _plain(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """The function that turns a decoded value into one for Arrow; None if none is needed. Structs become
    dictionaries."""
    if pa.types.is_decimal(kind):
        return _number
    if pa.types.is_struct(kind):
        members = [(field.name, f"f{number}", _plain(field.type) or _same) for number, field in enumerate(kind)]
        return _unless_null(lambda value: {name: plain(getattr(value, each)) for name, each, plain in members})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = _plain(kind.value_type)
        return item and _unless_null(partial(_each_item, item))
    if pa.types.is_map(kind):
        item = _plain(kind.item_type)
        return item and _unless_null(partial(_each_value, item))
    return None


def _numbers(raws: Sequence[msgspec.Raw]) -> pa.Array:
    """`_number` of each, in a few calls: a column of text from the bytes as they are."""
    text = b"".join(raws)
    text.decode()  # refuses what is no UTF-8; every raw value begins and ends with a character of ASCII
    ends = np.cumsum([0, *map(len, raws)], dtype=np.int32)
    values = pa.StringArray.from_buffers(len(raws), pa.py_buffer(ends), pa.py_buffer(text))
    if NULL_TEXT in text:
        values = pc.if_else(pc.equal(values, "null"), None, values)
    if QUOTE in text:
        values = pc.if_else(pc.starts_with(values, '"'), pc.utf8_slice_codeunits(values, 1, -1), values)
    return values


def _number(raw: msgspec.Raw) -> str | None:
    """The digits of a JSON number, or of a JSON text. Whatever else it is, reading it as a decimal refuses."""
    text = bytes(raw).decode()
    return None if text == "null" else text[1:-1] if text.startswith('"') else text


def _unless_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _each_item(plain: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [plain(value) for value in values]


def _each_value(plain: Callable[[Any], Any], values: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(value) for key, value in values.items()}


def _same(value: Any) -> Any:
    return value
