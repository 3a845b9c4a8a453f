"""The types of columns. They are Spark's, by Spark's names."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text: from `start` on, up to `end`, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parts: `boolean`, `int`, `bigint`, `float`, `double`, `string`, `binary`, `date`, `timestamp` (an
    instant) or `timestamp_ntz` (a local time)."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array:
    """A list. Its elements may be null."""

    element: "Type"

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """A map. Its values may be null, its keys not."""

    key: "Type"
    value: "Type"

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields with names."""

    fields: "tuple[Column, ...]"

    def __str__(self) -> str:
        return f"struct<{','.join(f'{field.name}:{field.type}' for field in self.fields)}>"


Type: TypeAlias = Scalar | Decimal | Array | Map | Struct


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct. `name_at` and `type_at` are where its name and its type are in the DDL: two
    columns are the same wherever they are. `generated` is the SQL of its values, if no file has them, and
    `generated_at` where that is said."""

    name: str
    type: Type
    nullable: bool
    name_at: TextSpan = field(compare=False)
    type_at: TextSpan = field(compare=False)
    generated: str = ""
    generated_at: TextSpan | None = field(default=None, compare=False)


def nested(kind: Type) -> bool:
    return isinstance(kind, Array | Map | Struct)


def within(kind: Type) -> Iterator[Type]:
    """A type, and all types in it."""
    yield kind
    if isinstance(kind, Array):
        yield from within(kind.element)
    elif isinstance(kind, Map):
        yield from within(kind.key)
        yield from within(kind.value)
    elif isinstance(kind, Struct):
        for field in kind.fields:
            yield from within(field.type)
