"""The Arrow schema of a route's columns, without Spark.

It is the one that Spark makes of them (`pyspark.sql.pandas.types.to_arrow_schema`), which jobs use. A test compares the
two.
"""

import re
from collections.abc import Mapping

import pyarrow as pa

SCALARS: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    **dict.fromkeys(("tinyint", "byte"), pa.int8()),
    **dict.fromkeys(("smallint", "short"), pa.int16()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("bigint", "long"), pa.int64()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), pa.timestamp("us", tz="UTC")),
    "timestamp_ntz": pa.timestamp("us"),
}
TOKENS = re.compile(
    r"(?:\s|--[^\n]*|/\*.*?\*/)*(?P<token>`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|\w+|[^\s])?",
    re.DOTALL,
)


class NotDdl(ValueError):
    """The text is no list of columns; it says where."""


def arrow_schema(ddl: str) -> pa.Schema:
    """The schema of columns in Spark's DDL: `id bigint not null, name string`. Raises NotDdl."""
    reading = _Ddl(ddl)
    fields = reading.fields("")
    return pa.schema(fields)


class _Ddl:
    """Reads columns from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = [found["token"] for found in TOKENS.finditer(text) if found["token"]]
        self._place = 0

    def fields(self, end: str) -> list[pa.Field]:
        """The columns up to `end`, or to the end of the text if that is empty."""
        found = [self._field()]
        while self._is(","):
            found.append(self._field())
        if end:
            self._expect(end)
        elif self._place < len(self._tokens):
            raise NotDdl(f"{self._next()!r} does not belong there: a comma separates columns")
        return found

    def _field(self) -> pa.Field:
        name = self._take("a column")
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        self._is(":")
        kind = self._type()
        nullable = True
        if self._is("not"):
            self._expect("null")
            nullable = False
        if self._is("comment"):
            self._take("a comment")
        return pa.field(name, kind, nullable)

    def _type(self) -> pa.DataType:
        word = self._take("a type").lower()
        if word in ("decimal", "dec", "numeric"):
            return pa.decimal128(*self._numbers())
        if word == "array":
            self._expect("<")
            kind = pa.list_(pa.field("element", self._type()))
            self._expect(">")
            return kind
        if word == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return pa.map_(key, pa.field("value", value))
        if word == "struct":
            self._expect("<")
            return pa.struct(self.fields(">"))
        if word not in SCALARS:
            raise NotDdl(f"there is no type {word!r} of a column")
        return SCALARS[word]

    def _numbers(self) -> tuple[int, int]:
        if not self._is("("):
            return 10, 0
        precision = int(self._take("a number"))
        scale = int(self._take("a number")) if self._is(",") else 0
        self._expect(")")
        return precision, scale

    def _next(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _take(self, what: str) -> str:
        token = self._next()
        if not token:
            raise NotDdl(f"the columns end where {what} belongs")
        self._place += 1
        return token

    def _is(self, token: str) -> bool:
        if self._next().lower() != token:
            return False
        self._place += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._is(token):
            raise NotDdl(f"{self._next() or 'the end'!r} is where {token!r} belongs")
