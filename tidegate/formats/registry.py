"""The formats, the options of a route for each, and the modules of the decoders.

It imports nothing beyond the standard library, because Lambda also reads `tidegate.toml`, and has no Arrow. Decoders
are named here, and imported by `tidegate.formats.decode`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Options = tuple[tuple[str, Any], ...]
"""A dataset's options for its format: names and values, in the order of the names."""


def _any(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a route for its files: a value of the default's type. `check` returns it, or raises ValueError with
    what is allowed; `choices` are all values, if they are few. Of a number, `within` says: the one at least, at most
    the other. A default never changes, because the datasets of batches leave it out."""

    name: str
    default: str | int | float | bool
    about: str
    check: Callable[[Any], Any] = _any
    choices: tuple[str, ...] = ()
    within: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `module` has its decoders: see `tidegate.formats.decode`. `is_text`: its rows are text, so bad ones
    can be set aside (`BAD_ROWS_SHARE`)."""

    name: str
    about: str
    module: str
    options: tuple[Option, ...] = ()
    is_text: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.about})" if self.about else self.name

    @property
    def all_options(self) -> tuple[Option, ...]:
        """Its own, those of all formats whose rows can be set aside, and those that all formats have."""
        return (*self.own_options, *COMMON_OPTIONS)

    @property
    def own_options(self) -> tuple[Option, ...]:
        """Without those that all formats have."""
        return (*self.options, *(OF_ROWS if self.is_text else ()))

    def settled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Each option's value: the given one, or its default. Options of other formats are left out. Raises ValueError
        for a value that is not allowed."""
        return {each.name: each.check(given.get(each.name, each.default)) for each in self.all_options}

    def for_modules(self, settled: Mapping[str, Any]) -> dict[str, Any]:
        """The settled options that the format's modules take."""
        others = {each.name for each in (*OF_ROWS, FROM_KEY)}
        return {name: value for name, value in settled.items() if name not in others}

    def check_known(self, names: Iterable[str]) -> None:
        """Raises ValueError for an option that this code lacks: without it, files would be read as something else."""
        known = {each.name for each in self.all_options}
        if unknown := sorted(set(names) - known):
            raise ValueError(f"{self.name} files have no option {unknown[0]!r} in this version: newer code wrote it")

    def carry(self, given: Mapping[str, Any]) -> Options:
        """The options in a dataset, for its decoder. Those with their default are left out."""
        defaults = {each.name: each.default for each in self.all_options}
        return tuple(sorted(each for each in self.settled(given).items() if defaults[each[0]] != each[1]))


def _delimits(delimiter: str) -> str:
    if not re.fullmatch(r"[\x20-\x7e\t]", delimiter):
        raise ValueError("a delimiter is 1 character of ASCII, or a tab")
    if delimiter == '"':
        raise ValueError("a delimiter is no quote: quotes enclose fields that hold delimiters")
    return delimiter


UTF_8, UTF_16 = "utf-8", "utf-16"
ENCODINGS = (
    UTF_8,
    UTF_16,
    "iso-8859-1",
    "iso-8859-2",
    "iso-8859-15",
    "windows-1250",
    "windows-1251",
    "windows-1252",
)
"""By the names that Python's codecs have."""
OTHER_NAMES = {
    **{"utf8": UTF_8, "utf-8-sig": UTF_8, "utf16": UTF_16, "latin1": "iso-8859-1", "latin-1": "iso-8859-1"},
    **{"iso8859-1": "iso-8859-1", "iso8859-15": "iso-8859-15", "latin9": "iso-8859-15", "ansi": "windows-1252"},
    **{"cp1250": "windows-1250", "cp1251": "windows-1251", "cp1252": "windows-1252"},
}
"""What people call them besides."""


def _encodes(encoding: str) -> str:
    if encoding not in ENCODINGS:
        called = OTHER_NAMES.get(encoding.lower().replace("_", "-"))
        meant = f"did you mean {called!r}? " if called else ""
        raise ValueError(f"{meant}an encoding is one of {', '.join(ENCODINGS)}")
    return encoding


DELIMITER = Option("delimiter", ",", "what separates the fields, 1 character of ASCII or a tab", _delimits)
POINT, ISO_DATES = ".", "yyyy-mm-dd"
DECIMALS = (POINT, ",")
DATES = (ISO_DATES, "dd.mm.yyyy", "dd/mm/yyyy", "mm/dd/yyyy")


def _one_of(they_are: str, choices: tuple[str, ...]) -> Callable[[str], str]:
    def check(choice: str) -> str:
        if choice not in choices:
            raise ValueError(f"{they_are} one of {', '.join(choices)}")
        return choice

    return check


def _stands_for_null(text: str) -> str:
    if not text.isprintable() or '"' in text:
        raise ValueError("what stands for null is printable text without quotes: in quotes it would be text")
    return text


DECIMAL = Option(
    "decimal",
    POINT,
    "the decimal mark of numbers. Nothing may be between thousands",
    _one_of("decimal is", DECIMALS),
    choices=DECIMALS,
)
WRITTEN_DATES = Option(
    "dates",
    ISO_DATES,
    "how dates are written, also before a time of day",
    _one_of("dates is", DATES),
    choices=DATES,
)
HEADER = Option(
    "header",
    True,
    "whether the first line names the columns. false: the fields are the schema's columns, in order",
)
NULL = Option(
    "null",
    "",
    "a text that stands for null if it is not in quotes, such as NA. An empty field is null, too",
    _stands_for_null,
)
ENCODING = Option("encoding", UTF_8, f"how the text is encoded. One of {', '.join(ENCODINGS)}", _encodes)

USUAL_SHARE = 0.01
"""What is advised where a file is refused for few bad rows."""


def _share(share: float) -> float:
    if not 0 <= share <= 1:
        raise ValueError("a share is 0 to 1: 0.01 is one row in a hundred")
    return share


BAD_ROWS_SHARE = Option(
    "bad_rows_share",
    0.0,
    "how many of a file's rows may not fit the schema: they go to the table TABLE__rejected, and the others land. 0.01"
    " is one in a hundred. A file with more, with more than 1000, or with no other row is quarantined",
    _share,
    within=(0, 1),
)
OF_ROWS = (BAD_ROWS_SHARE,)


def share_of_bad_rows(options: Iterable[tuple[str, Any]]) -> float | None:
    """How many of a file's rows may be set aside, by the options of its dataset; None if none may."""
    return float(dict(options).get(BAD_ROWS_SHARE.name, BAD_ROWS_SHARE.default)) or None


REPORT, REFUSE, IGNORE, KEEP, ADD = "report", "refuse", "ignore", "keep", "add"
KEEPING = (KEEP, ADD)
"""What is added is kept first, and what fits no column stays so."""
REST = "_unknown"
"""The column of what is kept. It follows those of the route's schema."""

UNKNOWN = Option(
    "unknown",
    REPORT,
    "what becomes of columns that `schema` lacks, also of nested ones. report: they are left out, and their names are"
    " told. keep: their values go as JSON into the column `_unknown`. add: they become columns of the table, and what"
    " fits none goes into `_unknown`. refuse: the file is quarantined. ignore: they are left out, and nobody looks for"
    " them",
    _one_of("columns that the schema lacks are", (REPORT, KEEP, ADD, REFUSE, IGNORE)),
)
PART_OF_KEY = re.compile(r"\{(?P<column>[^{}]*)\}|(?P<any>\*)|(?P<text>[^{}*]+)|(?P<odd>.)", re.DOTALL)


def key_pattern(from_key: str) -> str:
    """The expression that finds such a place in a key, with a group for each column. Raises ValueError.

    What is open ends where the text after it first is: it is never tried again further on (`(?>`), because what follows
    fits there, too, if it fits anywhere. So a key costs no more than its length, from each of its parts on."""
    parts = list(PART_OF_KEY.finditer(from_key))
    names: set[str] = set()
    for part, after in zip(parts, [*parts[1:], None], strict=False):
        column = part["column"]
        if part["odd"] or (column is not None and not column.isidentifier()):
            raise ValueError("a column of a key is its name in braces, such as year={year}/")
        if column in names:
            raise ValueError(f"{{{column}}} is there twice")
        if not part["text"] and after is not None and not after["text"]:
            raise ValueError(f"nothing says where {part[0]} ends and {after[0]} begins: write text between them")
        names |= {column} if column else set()
    if from_key and not names:
        raise ValueError("it names no column: write one in braces, such as year={year}/")
    if from_key.startswith("/") or "//" in from_key:
        raise ValueError("it fits no key: a place begins without a slash, and has one between its parts")
    texts = [re.escape(part["text"] or "") for part in parts]
    found = [f"(?P<{part['column']}>[^/]+?)" if part["column"] else "[^/]*?" for part in parts]
    # what is open at its end goes on to the end of its part of the key
    end = "" if from_key.endswith("/") else r"(?=/|\Z)"
    last = max((at for at, text in enumerate(texts) if not text), default=0)
    made = "".join(
        f"(?>{found[at]}{texts[at + 1]})" if at < last else "".join((found[at], *texts[at + 1 :]))
        for at, text in enumerate(texts)
        if not text
    )
    return rf"(?:\A|/){texts[0] if texts else ''}{made}{end}"


def _finds(from_key: str) -> str:
    key_pattern(from_key)
    return from_key


def unknown_of(options: Iterable[tuple[str, Any]]) -> str:
    """What decoders do with unknown columns, by the options of a dataset."""
    given = str(dict(options).get(UNKNOWN.name, UNKNOWN.default))
    return KEEP if given in KEEPING else given


def adds(options: Iterable[tuple[str, Any]]) -> bool:
    """Whether unknown columns become columns of the table (`formats.added`)."""
    return dict(options).get(UNKNOWN.name) == ADD


FROM_KEY = Option(
    "from_key",
    "",
    "columns whose values are in the keys: `year={year}/month={month}/`. A name in braces is a column of `schema`, `*`"
    " any text without a slash. It may begin at each part of a key",
    _finds,
)
COMMON_OPTIONS = (UNKNOWN, FROM_KEY)
"""The options of all formats. A route has a field for each."""

FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format(
            "json",
            "lines, or an array, of objects",
            "tidegate.formats.json_lines",
            is_text=True,
        ),
        Format(
            "csv",
            "with a header line",
            "tidegate.formats.delimited",
            options=(DELIMITER, ENCODING, HEADER, DECIMAL, WRITTEN_DATES, NULL),
            is_text=True,
        ),
        Format("parquet", "", "tidegate.formats.parquet"),
        Format("avro", "object container files", "tidegate.formats.avro"),
        Format("orc", "", "tidegate.formats.orc"),
    )
}


def options_of_all() -> Mapping[str, tuple[tuple[Format, ...], Option]]:
    """Every option that not all formats have by its name, with its formats."""
    found: dict[str, tuple[tuple[Format, ...], Option]] = {}
    for format in FORMATS.values():
        for option in format.own_options:
            found[option.name] = (*found.get(option.name, ((),))[0], format), option
    return found
