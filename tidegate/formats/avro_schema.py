"""The schema of an Avro file: the schema with which fastavro reads it, and the Arrow types of its values.

fastavro follows a schema in C without a limit of depth: a record that contains itself ends the process (fastavro
1.13.1). And a type whose values take no bytes makes any number of values from no bytes. So fastavro never gets the
file's own schema, but one of the same encoding that is made here:

- without names from the file,
- without logical types, for which fastavro would make Python objects that cannot hold every value,
- without types that take no bytes.

Specification: https://avro.apache.org/docs/1.12.0/specification/
"""

import decimal
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.formats.reasons import CELL_BYTES, Undecodable
from tidegate.formats.type_names import is_list, type_name
from tidegate.formats.unfit import Unfit
from tidegate.formats.unknown import INSIDE

DEEPEST = 32
MOST_TYPES = 10_000
"""How deep types may be nested, and how many there may be. Each use of a name counts."""
MOST_DIGITS = 76
"""The most digits of Arrow's decimals."""

PRIMITIVES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
"""Whole numbers with another meaning. An unknown logical type is ignored, as Avro specifies."""

Plain = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """How values of one type are read. `raw` is their schema for fastavro; None if they are all null, so that there is
    nothing to read. `plain` turns fastavro's values into values that Arrow takes as `kind`."""

    raw: Any
    kind: pa.DataType
    plain: Plain


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a record: its name, and its name for fastavro."""

    name: str
    key: str
    shape: Shape

    def of(self, record: Mapping[str, Any]) -> Any:
        value = record.get(self.key)
        return None if value is None else self.shape.plain(value)

    def of_all(self, records: Sequence[Mapping[str, Any]]) -> list[Any]:
        """As `of`. Values that need no conversion take a quarter of the time."""
        if self.shape.plain is _same:
            return [each.get(self.key) for each in records]
        return [self.of(each) for each in records]


@dataclass(frozen=True, slots=True)
class RowShape:
    """How the rows of a file are read. `raw` is the schema of a row for fastavro, `names` are its columns, `wanted`
    those of the route's schema, `members` those that are read, `cells` how many values a row of them counts for,
    `unknown` the paths of what the route's schema lacks (`formats.unknown`)."""

    raw: Any
    names: tuple[str, ...]
    wanted: tuple[str, ...]
    cells: int
    members: tuple[Member, ...]
    unknown: tuple[str, ...]


def row_of(text: bytes, schema: pa.Schema, *, keeps: bool = False) -> RowShape:
    """How a file with the Avro schema `text` (JSON) is read as rows of `schema`; if it `keeps` what the schema lacks,
    that is read, too. Raises Undecodable."""
    walk = _SchemaWalk(every=keeps, sole=keeps)
    raw, members = _of_rows(walk, text, {field.name: field.type for field in schema})
    read = tuple(each for each in members if keeps or each.name in schema.names)
    beyond = sum(len(each.name) for each in read if each.name not in schema.names)
    return RowShape(
        raw,
        tuple(each.name for each in members),
        tuple(schema.names),
        len(read) + beyond // CELL_BYTES,
        read,
        tuple(walk.unknown),
    )


def kinds_of(text: bytes) -> dict[str, pa.DataType]:
    """The types of a file's columns, whatever the schema of a route. What no column holds has a type of Arrow's that no
    column holds either. Raises Undecodable."""
    return {each.name: each.shape.kind for each in _of_rows(_SchemaWalk(every=True), text, None)[1]}


def _of_rows(walk: "_SchemaWalk", text: bytes, wanted: Mapping[str, pa.DataType] | None) -> tuple[Any, list[Member]]:
    given = json.loads(text)
    if not isinstance(given, dict) or given.get("type") != "record":
        raise Undecodable("not Avro of rows: its schema is not that of a record")
    try:
        return walk.record(given, "", 0, wanted, rows=True)
    except Unfit as error:
        raise Undecodable(str(error)) from error


class _SchemaWalk:
    """A walk through one schema. `wanted` is the type in the route's schema; None if the route's schema lacks it.
    `every`: the types of values that no schema wants are asked for, too. `sole`: each value is of one type."""

    def __init__(self, *, every: bool = False, sole: bool = False) -> None:
        self.every = every
        self.sole = sole
        self.types = 0
        self.numbers = itertools.count()
        self.named: dict[str, tuple[Any, str]] = {}
        self.open: list[str] = []
        self.path = ""
        self.unknown: list[str] = []

    def shape(self, given: Any, namespace: str, depth: int, wanted: pa.DataType | None) -> Shape:
        self.types += 1
        if depth > DEEPEST or self.types > MOST_TYPES:
            raise Unfit(f"the file's schema has more than {DEEPEST} levels, or {MOST_TYPES} types")
        if isinstance(given, list):
            return self._union(given, namespace, depth, wanted)
        if isinstance(given, str):
            return self._of_name(given, namespace, depth, wanted)
        if not isinstance(given, dict):
            raise Unfit(f"the file's schema has {_shown(given)} where a type belongs")
        match given.get("type"):
            case "array":
                return self._array(given, namespace, depth, wanted)
            case "map":
                return self._map(given, namespace, depth, wanted)
            case "record" | "error":
                return self._struct(given, namespace, depth, wanted)
            case "enum":
                return self._enum(given, namespace)
            case "fixed":
                return self._fixed(given, namespace, wanted)
            case inner:
                plain = self.shape(inner, namespace, depth + 1, wanted)
                return _logical(given, plain, wanted) if isinstance(inner, str) else plain

    def record(
        self,
        given: Mapping[str, Any],
        namespace: str,
        depth: int,
        wanted: Mapping[str, pa.DataType] | None,
        rows: bool = False,
    ) -> tuple[Any, list[Member]]:
        """A record's schema for fastavro, and its members. Raises Unfit; with the name of the column, if `rows`."""
        full, namespace = self._define(given, namespace)
        fields = given.get("fields")
        if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
            raise Unfit(f"the file's schema has a record without fields: {_shown(full)}")
        members: list[Member] = []
        self.open.append(full)
        for number, each in enumerate(fields):
            name = str(each.get("name"))
            inner = None if wanted is None else wanted.get(name)
            path = f"{self.path}.{name}" if self.path else name
            if wanted is not None and inner is None:
                self.unknown.append(path)
            try:
                with self._at(path):
                    shape = self.shape(each.get("type"), namespace, depth + 1, inner)
            except Unfit as error:
                raise Unfit(f"column {_shown(name)[1:-1]}: {error}" if rows else str(error)) from error
            members.append(Member(name, f"f{number}", shape))
        self.open.pop()
        raw = [{"name": each.key, "type": each.shape.raw} for each in members if each.shape.raw is not None]
        return self._raw("record", fields=raw), members

    def _of_name(self, name: str, namespace: str, depth: int, wanted: pa.DataType | None) -> Shape:
        if name == "null":
            return Shape(None, pa.null(), _same)
        if name in PRIMITIVES:
            return Shape(name, PRIMITIVES[name], _same)
        full = _full(name, namespace)
        if full in self.open:
            raise Unfit(f"the type {_shown(full)} of the file's schema holds itself, and such files are not read")
        if full not in self.named:
            raise Unfit(f"the file's schema has no type called {_shown(full)}")
        definition, outside = self.named[full]
        return self.shape(definition, outside, depth + 1, wanted)

    def _define(self, given: Mapping[str, Any], namespace: str) -> tuple[str, str]:
        """The full name of a type, and the namespace of the names in it."""
        name, own = given.get("name"), given.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise Unfit(f"the file's schema has a {given['type']} without a name")
        full = _full(name, own)
        if self.named.setdefault(full, (given, namespace))[0] is not given:
            raise Unfit(f"the file's schema has several types called {_shown(full)}")
        return full, full.rpartition(".")[0]

    @contextmanager
    def _at(self, path: str) -> Iterator[None]:
        """Within, this is the path."""
        before, self.path = self.path, path
        yield
        self.path = before

    def _raw(self, kind: str, **rest: Any) -> Any:
        """A type of a name that no other has."""
        return {"type": kind, "name": f"t{next(self.numbers)}", **rest}

    # ---- nested types

    def _union(self, given: list[Any], namespace: str, depth: int, wanted: pa.DataType | None) -> Shape:
        some = [each for each in given if _called(each) != "null"]
        if wanted is not None and len(some) > 1:
            called = " or ".join(map(_called, some))
            raise Unfit(
                f"{called[:200]} in the file, {type_name(wanted)} in the schema: the values of a column are of one type"
            )
        if self.sole and len(some) > 1:
            called = " or ".join(map(_called, some))
            raise Unfit(f'{called[:200]} in the file: a value of several types is not kept: set unknown = "report"')
        if not given or any(isinstance(each, list) for each in given):
            raise Unfit("the file's schema has a union without types, or of unions")
        shapes = [self.shape(each, namespace, depth + 1, wanted) for each in given]
        raw = ["null" if each.raw is None else each.raw for each in shapes]
        sole = next((each for each in shapes if each.raw is not None), shapes[0])
        kinds = [each.kind for each in shapes if each.raw is not None]
        kind = sole.kind if len(kinds) < 2 or not self.every else pa.dense_union([pa.field("", each) for each in kinds])
        return Shape(raw, kind, _unless_null(sole.plain))

    def _array(self, given: Mapping[str, Any], namespace: str, depth: int, wanted: pa.DataType | None) -> Shape:
        if wanted is not None and not is_list(wanted):
            raise _other("array", wanted)
        inner = None if wanted is None else wanted.value_type
        with self._at(self.path + INSIDE):
            item = self.shape(given.get("items"), namespace, depth + 1, inner)
        if item.raw is None:
            raise Unfit("an array of nulls in the file")
        plain = _unless_null(item.plain)
        return Shape(
            {"type": "array", "items": item.raw}, pa.list_(item.kind), lambda values: [plain(each) for each in values]
        )

    def _map(self, given: Mapping[str, Any], namespace: str, depth: int, wanted: pa.DataType | None) -> Shape:
        if wanted is not None and not pa.types.is_map(wanted):
            raise _other("map", wanted)
        inner = None if wanted is None else wanted.item_type
        with self._at(self.path + INSIDE):
            value = self.shape(given.get("values"), namespace, depth + 1, inner)
        plain = _unless_null(value.plain)
        return Shape(
            {"type": "map", "values": "null" if value.raw is None else value.raw},
            pa.map_(pa.string(), value.kind),
            lambda pairs: [(key, plain(each)) for key, each in pairs.items()],
        )

    def _struct(self, given: Mapping[str, Any], namespace: str, depth: int, wanted: pa.DataType | None) -> Shape:
        if wanted is not None and not pa.types.is_struct(wanted):
            raise _other("record", wanted)
        fields = {} if wanted is None else {field.name: field.type for field in wanted}
        raw, members = self.record(given, namespace, depth, None if wanted is None else fields)
        if not raw["fields"]:
            raise Unfit("a record in the file whose values take no bytes")
        names = [each.name for each in members]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise Unfit(f"several fields called {repeated[0]!r} in the file")
        inner = members if self.every else [each for each in members if each.name in fields]
        return Shape(
            raw,
            pa.struct([(each.name, each.shape.kind) for each in inner]),
            lambda record: {each.name: each.of(record) for each in inner},
        )

    # ---- named types without members

    def _enum(self, given: Mapping[str, Any], namespace: str) -> Shape:
        self._define(given, namespace)
        symbols = given.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise Unfit("the file's schema has an enum without symbols")

        def symbol(number: int) -> str:
            if not 0 <= number < len(symbols):
                raise Unfit(f"{number} is none of the enum's {len(symbols)} symbols")
            return str(symbols[number])

        # fastavro would take -1 for the last symbol
        return Shape("int", pa.string(), symbol)

    def _fixed(self, given: Mapping[str, Any], namespace: str, wanted: pa.DataType | None) -> Shape:
        self._define(given, namespace)
        size = given.get("size")
        if type(size) is not int or not 0 < size < 1 << 31:
            raise Unfit(f"the file's schema has a fixed of {_shown(size)} bytes")
        if given.get("logicalType") == "duration":
            if wanted is not None:
                raise _other("duration", wanted)
            kind = pa.binary(size) if self.sole else pa.month_day_nano_interval()
            return Shape(self._raw("fixed", size=size), kind, _same)
        return _logical(given, Shape(self._raw("fixed", size=size), pa.binary(size), _same), wanted)


def _logical(given: Mapping[str, Any], shape: Shape, wanted: pa.DataType | None) -> Shape:
    """The logical type of the values of `shape`, if the schema has one that Avro allows."""
    name = given.get("logicalType")
    if name != "decimal":
        kind = LOGICAL.get((str(shape.raw), str(name)))
        return shape if kind is None else Shape(shape.raw, kind, shape.plain)
    precision, scale = given.get("precision"), given.get("scale", 0)
    if not (type(precision) is int and type(scale) is int and 0 <= scale <= precision and precision > 0):
        return shape
    if not pa.types.is_binary(shape.kind) and not pa.types.is_fixed_size_binary(shape.kind):
        return shape
    if precision > MOST_DIGITS:
        if wanted is not None:
            raise _other(f"decimal({precision}, {scale})", wanted)
        return Shape(shape.raw, pa.null(), shape.plain)
    kind = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return Shape(shape.raw, kind, _decimal_of(scale))


def _decimal_of(scale: int) -> Plain:
    exact = decimal.Context(prec=2 * MOST_DIGITS)

    def plain(value: bytes) -> decimal.Decimal:
        number = int.from_bytes(value, "big", signed=True)
        if number.bit_length() > 256:
            raise Unfit(f"a decimal of more than {MOST_DIGITS} digits")
        return decimal.Decimal(number).scaleb(-scale, exact)

    return plain


def _same(value: Any) -> Any:
    return value


def _unless_null(plain: Plain) -> Plain:
    return plain if plain is _same else lambda value: None if value is None else plain(value)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _other(called: str, wanted: pa.DataType) -> Unfit:
    return Unfit(f"{called} in the file, {type_name(wanted)} in the schema: correct the one or the other")


def _called(given: Any) -> str:
    return str(given.get("logicalType") or given.get("type")) if isinstance(given, dict) else str(given)


def _shown(value: Any) -> str:
    return repr(value)[:60]
