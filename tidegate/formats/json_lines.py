"""JSON lines: one object a line.

msgspec checks each line against the schema's types, strictly, and reports what fails where. (Arrow's own JSON reader is
about twice as fast, but a first line that is `null` crashes the process, and a later one becomes a row of nulls:
pyarrow 26.0.1.)
"""

import io
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa

from tidegate.formats.columns import conform
from tidegate.formats.reasons import Undecodable, check_cells, check_names, check_text, first_line


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
                columns.append(pa.array(values if plain is None else map(plain, values), held))
            except MemoryError:
                raise
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                where = _first_misfit(values, plain, held, partial(line_of, body))
                raise Undecodable(f"column {name}{where}: {first_line(error)}") from error
        if rows and all(column.null_count == len(rows) for column in columns):
            _check_fields(body, schema)
        table = pa.Table.from_arrays(columns, names=schema.names)
        return conform(table, schema, texts=True, place=partial(line_of, body))

    return decode


def _rows(line: msgspec.json.Decoder, body: bytes) -> list[Any]:
    """One row for each line that is not blank. It decodes line by line, because `decode_lines` takes several objects on
    one line for several lines."""
    rows: list[Any] = []
    try:
        for text in io.BytesIO(body):
            if not text.isspace():
                rows.append(line.decode(text))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        where = line_of(body, len(rows))
        raise Undecodable(f"not JSON lines of this schema: {where}: {first_line(error)}") from error
    return rows


def line_of(body: bytes, row: int) -> str:
    """Where the row is in the file, for its owner: its line, counted from 1, blank ones too."""
    lines = (number for number, text in enumerate(io.BytesIO(body), start=1) if not text.isspace())
    return f"line {next(islice(lines, row, None))}"


def _first_misfit(values: list[Any], plain: Any, held: pa.DataType, place: Callable[[int], str]) -> str:
    """Where the first value is that does not fit by itself; nothing if each of them does."""
    for row, value in enumerate(values):
        try:
            pa.array([value if plain is None else plain(value)], held)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return f", {place(row)}"
    return ""


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
