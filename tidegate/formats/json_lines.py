"""JSON lines: one object a line.

msgspec checks each line against the schema's types, strictly, and reports what fails where. (Arrow's own JSON reader is
about twice as fast, but a first line that is `null` crashes the process, and a later one becomes a row of nulls:
pyarrow 26.0.1.)
"""

import io
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from tidegate.formats import places
from tidegate.formats.columns import conform
from tidegate.formats.reasons import Undecodable, check_cells, check_names, check_text, first_line

OF_VALUES = (pa.ArrowException, ValueError, TypeError, OverflowError)


def make_decoder(schema: pa.Schema, max_bytes: int) -> Callable[[bytes], pa.Table]:
    """Raises ValueError if JSON cannot hold such a column."""
    line = msgspec.json.Decoder(_struct_type(list(schema)))
    reading = [(f"f{number}", field.name, _plain(field.type), _held(field.type)) for number, field in enumerate(schema)]

    def decode(body: bytes) -> pa.Table:
        check_text(len(body))
        check_cells(body.count(b"\n") + 1, len(schema), max_bytes)
        rows = _rows(line, body)
        columns = []
        for member, name, plain, held in reading:
            values = [getattr(row, member) for row in rows]
            try:
                columns.append(_array(values, plain, held))
            except MemoryError:
                raise
            except OF_VALUES as error:
                row = _first_refused(values, plain, held)
                place = "" if row is None else f", {line_of(body, row)}"
                raise Undecodable(f"column {name}{place}: {first_line(error)}", where=_where(body, row)) from error
        if rows and all(column.null_count == len(rows) for column in columns):
            _check_fields(body, schema)
        table = pa.Table.from_arrays(columns, names=schema.names)
        try:
            return conform(table, schema, texts=True, place=partial(line_of, body))
        except Undecodable as error:
            error.where = _where(body, error.row)
            raise

    return decode


def _array(values: Sequence[Any], plain: Callable[[Any], Any] | None, held: pa.DataType) -> pa.Array:
    return pa.array(values if plain is None else map(plain, values), held)


def _first_refused(values: Sequence[Any], plain: Callable[[Any], Any] | None, held: pa.DataType) -> int | None:
    """The row of the first value that Arrow does not take; only of a file that is refused."""
    for row, value in enumerate(values):
        try:
            _array([value], plain, held)
        except MemoryError:
            raise
        except OF_VALUES:
            return row
    return None


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


def _rows(line: msgspec.json.Decoder, body: bytes) -> list[Any]:
    """One row for each line that is not blank. It decodes line by line, because `decode_lines` takes several objects on
    one line for several lines."""
    rows: list[Any] = []
    try:
        for text in io.BytesIO(body):
            if not text.isspace():
                rows.append(line.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = f"not JSON lines of this schema: {line_of(body, len(rows))}: {first_line(error)}"
        raise Undecodable(reason, where=_where(body, len(rows))) from error
    return rows


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


def _struct_type(fields: list[pa.Field]) -> Any:
    """The type for objects with these fields: f0, f1, ... with the fields' names as aliases, because msgspec 0.22.0
    does not find keys beyond ASCII in a TypedDict."""
    members: list[Any] = []
    for number, field in enumerate(fields):
        kind = _element(field)
        members.append((f"f{number}", kind, None) if field.nullable else (f"f{number}", kind))
    names = {f"f{number}": field.name for number, field in enumerate(fields)}
    return msgspec.defstruct("object", members, rename=names, kw_only=True, gc=False)


def _element(field: pa.Field) -> Any:
    kind = _python_type(field.type)
    # what is raw may be null as it is; columns are checked for it
    return kind | None if field.nullable and kind is not msgspec.Raw else kind


def _python_type(kind: pa.DataType) -> Any:
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
            raise ValueError(f"JSON files cannot hold a {kind}: the keys of an object are text")
        return dict[str, _element(kind.item_field)]  # type: ignore[misc]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list[_element(kind.value_field)]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        return _struct_type(list(kind))
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


def _number(raw: msgspec.Raw | None) -> str | None:
    """The digits of a JSON number, or of a JSON text. Whatever else it is, reading it as a decimal refuses."""
    text = bytes(raw).decode() if raw is not None else "null"
    return None if text == "null" else text[1:-1] if text.startswith('"') else text


def _unless_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _each_item(plain: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [plain(value) for value in values]


def _each_value(plain: Callable[[Any], Any], values: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(value) for key, value in values.items()}


def _same(value: Any) -> Any:
    return value
