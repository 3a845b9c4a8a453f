"""Spark's DDL for columns, as far as a table that Tidegate fills can have them.

    id bigint not null, lines array<struct<sku: string, count: int>>, placed_at timestamp,
    day date generated always as (to_date(placed_at))

The grammar is that of `colTypeList` in Spark 4.1's `SqlBaseParser.g4`, with the generated columns of its
`colDefinitionList`. What is in their brackets is read by Spark alone. A test compares this parser with Spark's own,
and its verdicts with tables that Spark and Iceberg make.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.schemas.tokens import Token, tokens_of
from tidegate.schemas.types import Array, Column, Decimal, Map, Scalar, Struct, TextSpan, Type

MOST_DIGITS = 38
DEEPEST = 50
"""How deep types may be nested."""

SCALARS: Mapping[str, Scalar] = {
    spelled: Scalar(name)
    for name, spellings in {
        "boolean": ("boolean",),
        "int": ("int", "integer"),
        "bigint": ("bigint", "long"),
        "float": ("float", "real"),
        "double": ("double",),
        "string": ("string",),
        "binary": ("binary",),
        "date": ("date",),
        "timestamp": ("timestamp", "timestamp_ltz"),
        "timestamp_ntz": ("timestamp_ntz",),
    }.items()
    for spelled in spellings
}
DECIMALS = ("decimal", "dec", "numeric")
PARTS = {"array": "array<string>", "map": "map<string, int>", "struct": "struct<name: string>"}
ALLOWED = (*dict.fromkeys(kind.name for kind in SCALARS.values()), "decimal(p,s)", "array<>", "map<,>", "struct<>")

_NO_TABLE = "Iceberg tables have no"
_INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("tinyint", "byte", "smallint", "short"), f"{_NO_TABLE} type of that size; write `int`"),
    **dict.fromkeys(("char", "character", "varchar"), f"{_NO_TABLE} text of a fixed length; write `string`"),
    **dict.fromkeys(("void", "null"), "files cannot hold it"),
    **dict.fromkeys(("interval", "variant", "time", "geometry", "geography"), "files cannot hold it"),
    # other systems' names
    **dict.fromkeys(("text", "str", "clob", "nvarchar", "varchar2", "uuid", "json", "object"), "write `string`"),
    **dict.fromkeys(("bool",), "write `boolean`"),
    **dict.fromkeys(("int4", "int32", "mediumint", "uint16", "uint8", "int8", "int16", "serial"), "write `int`"),
    **dict.fromkeys(("int64", "uint32", "bigserial"), "write `bigint`"),
    **dict.fromkeys(("float4", "float32"), "write `float`"),
    **dict.fromkeys(("float8", "float64"), "write `double`"),
    **dict.fromkeys(("number", "money"), "write `decimal(p,s)`, or `bigint` or `double`"),
    **dict.fromkeys(
        ("datetime", "timestamptz", "timestamp_tz"), "write `timestamp`, or `timestamp_ntz` for a time without a zone"
    ),
    **dict.fromkeys(("bytes", "bytea", "blob", "varbinary"), "write `binary`"),
    **dict.fromkeys(("list",), "write `array<string>`"),
    **dict.fromkeys(("row", "record", "dict"), "write `struct<name: string>`"),
}
"""What is said of names that are no type of a column here."""


@dataclass(frozen=True, slots=True)
class SchemaMistake:
    """What is wrong at a place of the text."""

    at: TextSpan
    message: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """The columns that could be read, and what is wrong. With a mistake of the grammar, what follows it is not read."""

    columns: tuple[Column, ...]
    mistakes: tuple[SchemaMistake, ...]


def parse(text: str) -> Parsed:
    """The columns of a DDL. Never raises."""
    parser = _DdlParser(text)
    columns: list[Column] = []
    try:
        columns.extend(parser.columns())
    except _Stop as stop:
        parser.mistakes.append(stop.mistake)
    return Parsed(tuple(columns), tuple(parser.mistakes))


def without_generated(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The DDL as Spark reads it, and the generated columns with the SQL of their values."""
    columns = [each for each in parse(text).columns if each.generated_at]
    for each in reversed(columns):
        assert each.generated_at
        # as many characters, so that what is said of a place is true
        blank = re.sub(r"[^\r\n]", " ", text[each.generated_at.start : each.generated_at.end])
        text = text[: each.generated_at.start] + blank + text[each.generated_at.end :]
    return text.rstrip(), tuple((each.name, each.generated) for each in columns)


class _Stop(Exception):
    """The text is not of the grammar."""

    def __init__(self, at: TextSpan, message: str) -> None:
        super().__init__(message)
        self.mistake = SchemaMistake(at, message)


_NUMBER = re.compile(r"[0-9]+(?:[lsy]|(?:e[0-9]+)?(?:[df]|bd)?)", re.IGNORECASE)
"""Words that Spark takes for numbers."""


class _DdlParser:
    """Reads the tokens from left to right. Types that are not known become mistakes, and reading goes on; what is not
    of the grammar ends it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(tokens_of(text))
        self.end = TextSpan(len(text.rstrip()), len(text.rstrip()) + 1)
        self.next = 0
        self.depth = 0
        self.mistakes: list[SchemaMistake] = []

    # ---- tokens

    @property
    def token(self) -> Token:
        token = self.tokens[self.next] if self.next < len(self.tokens) else Token("end", "", self.end)
        if token.kind == "unclosed":
            raise _Stop(token.at, "this comment is not closed: each `/*` in it, too, needs its `*/`")
        return token

    def take(self) -> Token:
        token = self.token
        self.next += 1
        return token

    def is_mark(self, mark: str) -> bool:
        return self.token.kind == "mark" and self.token.text == mark

    def is_word(self, word: str) -> bool:
        return self.token.kind == "word" and self.token.text.lower() == word

    def expect(self, mark: str, message: str) -> Token:
        if not self.is_mark(mark):
            raise _Stop(self.token.at, message)
        return self.take()

    # ---- the grammar

    def columns(self) -> Iterator[Column]:
        while True:
            yield self.column("column")
            if self.token.kind == "end":
                return
            if not self.is_mark(","):
                raise _Stop(self.token.at, self._after_a_column())
            self.take()

    def column(self, what: str) -> Column:
        name, name_at = self._name(what)
        if what == "field" and self.is_mark(":"):
            self.take()
        if self.token.kind == "end" or self.is_mark(",") or (what == "field" and self.is_mark(">")):
            raise _Stop(name_at, f"{what} {name!r} has no type: write for example `{name} string`")
        if self.is_mark(":"):
            raise _Stop(self.token.at, "a column has no colon: write a space between its name and its type")
        start = self.token.at.start
        kind = self.type()
        type_at = TextSpan(start, self.tokens[self.next - 1].at.end)
        nullable = True
        if self.is_word("not"):
            self.take()
            if not self.is_word("null"):
                raise _Stop(self.token.at, "`not` must be followed by `null`")
            self.take()
            nullable = False
        self._comment()
        generated, generated_at = self._generated(nullable) if what == "column" else ("", None)
        self._comment()
        return Column(name, kind, nullable, name_at, type_at, generated, generated_at)

    def _comment(self) -> None:
        if self.is_word("comment"):
            self.take()
            if self.token.kind != "literal":
                raise _Stop(self.token.at, "`comment` must be followed by text in single quotes")
            while self.token.kind == "literal":
                self.take()

    def _generated(self, nullable: bool) -> tuple[str, TextSpan | None]:
        """The SQL of a column's values, if it has some, and where that is said."""
        start = self.token.at
        if not self.is_word("generated"):
            return "", None
        if not self._words("generated", "always", "as") or not self.is_mark("("):
            raise _Stop(start, "a generated column is written `day date generated always as (to_date(placed_at))`")
        if not nullable:
            raise _Stop(start, "leave `not null` out: what SQL makes of a row may be null")
        opening, depth = self.take(), 1
        while depth:
            token = self.take()
            if token.kind == "end":
                raise _Stop(opening.at, "this bracket is not closed: a `)` is missing")
            depth += self._bracket(token)
        sql = self.text[opening.at.end : token.at.start].strip()
        if not sql:
            raise _Stop(opening.at, "the brackets are empty: they hold the SQL of the column's values")
        return sql, TextSpan(start.start, token.at.end)

    @staticmethod
    def _bracket(token: Token) -> int:
        return {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0

    def _name(self, what: str) -> tuple[str, TextSpan]:
        token = self.token
        if token.kind == "quoted":
            name = self.take().text[1:-1].replace("``", "`")
            if not name:
                raise _Stop(token.at, f"a {what} needs a name between the backquotes")
            return name, token.at
        if token.kind == "word":
            following = self.tokens[self.next + 1] if self.next + 1 < len(self.tokens) else None
            if following and following.text in "-.$/@" and following.at.start == token.at.end:
                raise _Stop(
                    following.at,
                    f"a name with {following.text!r} in it needs backquotes, such as `{token.text}{following.text}x`",
                )
            if not token.text.isascii() or _NUMBER.fullmatch(token.text):
                raise _Stop(token.at, f"the name {token.text} needs backquotes: `{token.text}`")
            return self.take().text, token.at
        if token.kind == "end" or self.is_mark(","):
            raise _Stop(
                token.at, f"a {what} is missing: there is a comma too many" if self.next else "it has no column"
            )
        if token.kind == "literal":
            raise _Stop(token.at, f"the name of a {what} stands without quotes, or in backquotes")
        raise _Stop(token.at, f"{token.text!r} is no name of a {what}: other names than words need backquotes")

    def type(self) -> Type:
        token = self.token
        if token.kind != "word":
            raise _Stop(token.at, f"a type is missing here: allowed are {', '.join(ALLOWED)}")
        self.take()
        name = token.text.lower()
        if name in PARTS and self.is_mark("<"):
            self.depth += 1
            if self.depth > DEEPEST:
                raise _Stop(token.at, f"types are nested more than {DEEPEST} deep")
            kind = self._with_parts(name)
            self.depth -= 1
            return kind
        if name in PARTS:
            raise _Stop(token.at, f"`{name}` needs what it holds in angle brackets: `{PARTS[name]}`")
        arguments = self._arguments() if self.is_mark("(") else ()
        if name in DECIMALS:
            return self._decimal(arguments)
        if name in SCALARS and not arguments:
            return self._spelled_out(name)
        if name in SCALARS:
            at = TextSpan(arguments[0].at.start, arguments[-1].at.end)
            self.mistakes.append(SchemaMistake(at, f"`{name}` takes no number in brackets: write `{name}`"))
            return SCALARS[name]
        self.mistakes.append(SchemaMistake(token.at, _no_type(token.text)))
        return SCALARS["string"]

    def _spelled_out(self, name: str) -> Scalar:
        """A type of one name, or of several words that mean the same."""
        if name == "timestamp" and self._words("without", "time", "zone"):
            return SCALARS["timestamp_ntz"]
        if name == "string":
            self._words("collate", "utf8_binary")  # the one that Iceberg's strings have
        return SCALARS[name]

    def _words(self, *words: str) -> bool:
        """Take these words, if they come next."""
        coming = [each.text.lower() for each in self.tokens[self.next : self.next + len(words)]]
        if coming != list(words):
            return False
        self.next += len(words)
        return True

    def _with_parts(self, name: str) -> Type:
        self.take()
        if name == "struct":
            fields: list[Column] = []
            while not self.is_mark(">"):
                if fields:
                    self.expect(",", self._unclosed(name))
                fields.append(self.column("field"))
            self.take()
            return Struct(tuple(fields))
        first = self.type()
        if name == "array":
            self.expect(">", self._unclosed(name))
            return Array(first)
        self.expect(",", "`map` needs two types: `map<string, int>`")
        value = self.type()
        self.expect(">", self._unclosed(name))
        return Map(first, value)

    def _unclosed(self, name: str) -> str:
        if self.token.kind == "end":
            return f"`{name}<` is not closed: a `>` is missing"
        if self.token.kind == "mark" and self.token.text in "()":
            return f"`{name}<` is closed by `>`, not by `{self.token.text}`"
        return f"`{name}<` needs a comma or its `>` here, not {self.token.text!r}"

    def _arguments(self) -> tuple[Token, ...]:
        opening = self.take()
        taken: list[Token] = []
        while not self.is_mark(")"):
            if taken:
                self.expect(",", "a `)` is missing" if self.token.kind == "end" else "a comma or `)` is missing here")
            if self.token.kind != "word" or not re.fullmatch("[0-9]{1,9}", self.token.text):
                raise _Stop(self.token.at, "a whole number is missing here")
            taken.append(self.take())
        closing = self.take()
        if not taken:
            raise _Stop(TextSpan(opening.at.start, closing.at.end), "the brackets are empty")
        return tuple(taken)

    def _decimal(self, arguments: Sequence[Token]) -> Type:
        precision, scale = (*(int(each.text) for each in arguments[:2]), *(10, 0)[len(arguments[:2]) :])
        if len(arguments) > 2:
            self.mistakes.append(SchemaMistake(arguments[2].at, "a decimal has two numbers: `decimal(p,s)`"))
        elif not 1 <= precision <= MOST_DIGITS:
            self.mistakes.append(SchemaMistake(arguments[0].at, f"a decimal has 1 to {MOST_DIGITS} digits"))
        elif scale > precision:
            said = f"a decimal of {precision} digits cannot have {scale} of them after the point"
            self.mistakes.append(SchemaMistake(arguments[-1].at, said))
        else:
            return Decimal(precision, scale)
        return Decimal(MOST_DIGITS, 0)

    def _after_a_column(self) -> str:
        token = self.token
        if token.kind == "word" and token.text.lower() in ("default", "primary", "unique", "references"):
            return (
                f"`{token.text}` is not allowed: a column has a name, a type, `not null`, a comment and"
                " `generated always as (SQL)`"
            )
        if token.kind == "word" and token.text.lower() == "null":
            return "leave `null` out: a column may be null unless it says `not null`"
        if token.kind in ("word", "quoted"):
            return "a comma is missing before this: columns are separated by commas"
        if token.text in ("<", "("):
            return f"`{token.text}` does not belong here: only array, map, struct and decimal hold something"
        if token.text in (">", ")"):
            return f"a closing `{token.text}` too many"
        if token.text == ";":
            return "leave the semicolon out: it is a list of columns, not a statement"
        return f"{token.text!r} does not belong here: a comma separates columns"


def _no_type(name: str) -> str:
    """What is said of a word in the place of a type."""
    if instead := _INSTEAD.get(name.lower()):
        return f"there is no type `{name}` here: {instead}"
    known = [*SCALARS, *DECIMALS, *PARTS]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    meant = f"did you mean `{near[0]}`? " if near else ""
    return f"there is no type `{name}`; {meant}allowed are {', '.join(ALLOWED)}"
