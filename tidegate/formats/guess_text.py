"""The columns of text files, guessed from their values: JSON has kinds of values, CSV has text only.

A guess is careful: a type is guessed only if it holds every value of the samples as it is. What it cannot hold is text,
and a remark says why. What no column can hold is left out.
"""

import datetime
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.formats.text_grammar import DATE, TIME, ZONE
from tidegate.formats.type_names import MOST_DIGITS, quoted_name

MOST_FIELDS = 50
"""An object with more different keys is a map, if its values are of one type."""
EXACT_DIGITS = 15
"""A double prints so many significant digits as they were written (IEEE 754, DBL_DIG)."""
WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
PADDED = re.compile(r"-?0[0-9]+")
FRACTION = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
BOOLEANS = ("true", "True", "TRUE", "false", "False", "FALSE")
"""As CSV has them (`docs/formats.md`)."""
FORM_OF_DATE = re.compile(DATE)
FORM_OF_TIME = re.compile(TIME + "$")
FORM_OF_INSTANT = re.compile(TIME + ZONE + "$")
FINER = re.compile(rf"^[0-9-]+[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}\.[0-9]{{7,}}({ZONE})?$")
NO_NAME = "its name differs from another in its case only, or has characters that no name may have"
NOT_IN_JSON = '"\\'
"""msgspec takes no name with these, nor with control characters (`msgspec.defstruct`, version 0.22.0)."""
PAST_BIGINT = 1 << 63
FAR = 300
"""Characters of a number without an exponent that a double may not hold: it reaches from 1e-308 to 1e308."""
WORDS = {"number": "numbers", "padded": "digits", "date": "dates"}
"""What texts of a form are called."""


class Digits(str):
    """A number of JSON, as its digits are in the file."""


@dataclass(frozen=True, slots=True)
class GuessedType:
    """A type as DDL has it; None if no column holds the values. The remark is for people."""

    ddl: str | None
    remark: str = ""


@dataclass
class SeenValues:
    """What the values of a column are in the samples."""

    nulls: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    """How many values are of each kind."""
    largest: int = 0
    whole_digits: int = 0
    decimals: int = 0
    significant: int = 0
    exponents: bool = False
    forms: dict[str, int] = field(default_factory=dict)
    """Of texts: how many have the form of each type."""
    items: "SeenValues | None" = None
    fields: "dict[str, SeenValues]" = field(default_factory=dict)
    empty: int = 0
    """Of objects: how many have no field."""
    out_of_range: bool = False
    """Whether a number is too large for a double, or too near to 0: a double would change it."""

    @property
    def values(self) -> int:
        return sum(self.kinds.values())

    # ---- looking

    def of_json(self, value: Any) -> None:
        """A value of a line of JSON, whose numbers are Digits."""
        match value:
            case None:
                self.nulls += 1
                return
            case bool():
                kind = "boolean"
            case Digits():
                kind = "number"
                self._number(str(value))
            case str():
                kind = "text"
                self._text(value)
            case list():
                kind = "list"
                self.items = self.items or SeenValues()
                for each in value:
                    self.items.of_json(each)
            case dict():
                kind = "object"
                self.empty += not value
                for name, each in value.items():
                    self.fields.setdefault(name, SeenValues()).of_json(each)
            case _:
                raise AssertionError(f"no value of JSON: {type(value).__name__}")
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def of_csv(self, text: str, *, quoted: bool = False) -> None:
        """A field of CSV: empty is null."""
        if not text and not quoted:
            self.nulls += 1
            return
        if text in BOOLEANS:
            kind = "boolean"
        elif FRACTION.fullmatch(text):
            kind = "number"
        else:
            kind = "text"
        self._text(text)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def _number(self, text: str) -> None:
        mantissa, _, exponent = text.lower().partition("e")
        self.exponents = self.exponents or bool(exponent)
        before, _, after = mantissa.lstrip("-").partition(".")
        self.whole_digits = max(self.whole_digits, len(before.lstrip("0")))
        self.decimals = max(self.decimals, len(after))
        self.significant = max(self.significant, len((before + after).strip("0")))
        self.out_of_range = self.out_of_range or bool((exponent or len(text) > FAR) and _is_out_of_range(text))
        if not after and not exponent and len(before) <= MOST_DIGITS:
            number = int(mantissa)
            self.largest = max(self.largest, number if number >= 0 else -number - 1)

    def _text(self, text: str) -> None:
        form = _form(text)
        if form == "number":
            self._number(text)
        self.forms[form] = self.forms.get(form, 0) + 1

    # ---- guessing

    def json_type(self) -> GuessedType:
        """JSON says of what kind a value is, and a column takes values of one kind."""
        if not self.kinds:
            return GuessedType("string", "only null in the samples")
        if len(self.kinds) > 1:
            return GuessedType(
                None, f"{' and '.join(sorted(self.kinds))} in the samples, and a column takes one of them"
            )
        (kind,) = self.kinds
        match kind:
            case "boolean":
                return GuessedType("boolean")
            case "number":
                return self._of_numbers(text=False)
            case "text":
                return self._of_texts()
            case "list":
                return self._of_list()
        return self._of_object()

    def csv_type(self) -> GuessedType:
        """In CSV every value is text."""
        if not self.kinds:
            return GuessedType("string", "empty in all samples")
        if self.kinds.keys() == {"boolean"}:
            return GuessedType("boolean")
        if self.kinds.keys() == {"number"}:
            return self._of_numbers(text=True)
        if "padded" in self.forms:
            return GuessedType("string", "digits with zeros before them, which a number would lose")
        return self._of_texts()

    def _of_numbers(self, *, text: bool) -> GuessedType:
        if self.out_of_range:
            far = "numbers larger, or nearer to 0, than a double holds"
            return GuessedType("string", far) if text else GuessedType(None, far)
        whole = not self.decimals and not self.exponents
        if whole and self.whole_digits <= MOST_DIGITS and self.largest < PAST_BIGINT:
            return GuessedType("bigint")
        digits = self.whole_digits + self.decimals
        if not whole and self.significant <= EXACT_DIGITS:
            exact = f"decimal({max(digits, 12)},{self.decimals})"
            remark = (
                "" if self.exponents or digits > MOST_DIGITS else f"{exact} would be exact, and refuse more decimals"
            )
            return GuessedType("double", remark)
        if text:
            return GuessedType("string", "numbers of more digits than a bigint or a double holds")
        if digits <= MOST_DIGITS and not self.exponents:
            return GuessedType(f"decimal({MOST_DIGITS},{self.decimals})", "more digits than a double holds")
        return GuessedType(None, "numbers of more digits than any column holds")

    def _of_texts(self) -> GuessedType:
        forms = self.forms.keys()
        digits = self.whole_digits + self.decimals
        if forms == {"number"} and digits <= MOST_DIGITS and not self.exponents:
            exact = f"decimal({max(digits, 12)},{self.decimals})"
            return GuessedType("string", f"numbers in quotes: {exact} would hold them, and refuse more digits")
        for name in ("date", "timestamp", "timestamp_ntz"):
            if forms == {name}:
                return GuessedType(name)
        if "empty" in forms and len(forms) == 2 and "other" not in forms:
            (kind,) = forms - {"empty"}
            return GuessedType("string", f'{WORDS.get(kind, "times")}, and "" in quotes, which is text and not null')
        if forms <= {"date", "timestamp", "timestamp_ntz", "finer"}:
            if "finer" in forms:
                return GuessedType("string", "times finer than microseconds, which a timestamp would not hold")
            return GuessedType("string", "dates and times of several forms, with and without a zone or a time of day")
        return GuessedType("string")

    def _of_list(self) -> GuessedType:
        item = (self.items or SeenValues()).json_type()
        if item.ddl is None:
            return GuessedType(None, f"a list of {item.remark}")
        return GuessedType(f"array<{item.ddl}>", item.remark and f"in the list: {item.remark}")

    def _of_object(self) -> GuessedType:
        if not self.fields:
            return GuessedType("map<string,string>", "only empty objects in the samples")
        types = {name: each.json_type() for name, each in self.fields.items()}
        if len(types) > MOST_FIELDS and len({each.ddl for each in types.values()}) == 1:
            inner = next(iter(types.values()))
            if inner.ddl is not None:
                return GuessedType(f"map<string,{inner.ddl}>", f"{len(types)} different keys in the samples")
        typed = {name: each for name, each in types.items() if each.ddl is not None}
        kept, left = without_repeated(typed, NOT_IN_JSON)
        left = [name for name, each in types.items() if each.ddl is None] + left
        remarks = ["an empty one in the samples becomes one with null in each field"] if self.empty else []
        remarks += [f"{name}: {each.remark}" for name, each in kept.items() if each.remark]
        remarks += [f"{name} is left out: {types[name].remark or NO_NAME}" for name in left]
        if not kept:
            return GuessedType(None, "; ".join(remarks))
        inside = ",".join(f"{quoted_name(name)}:{each.ddl}" for name, each in kept.items())
        return GuessedType(f"struct<{inside}>", "; ".join(remarks))


def without_repeated(types: Mapping[str, GuessedType], forbidden: str = "") -> tuple[dict[str, GuessedType], list[str]]:
    """Names that differ in their case only are one name for Spark: the first of them stays. Names that cannot be
    printed, or have a `forbidden` character, do not. With the names that do not stay."""
    kept: dict[str, GuessedType] = {}
    left: list[str] = []
    seen: set[str] = set()
    for name, each in types.items():
        if name.lower() in seen or not name or not name.isprintable() or any(each in name for each in forbidden):
            left.append(name)
        else:
            seen.add(name.lower())
            kept[name] = each
    return kept, left


def _is_out_of_range(text: str) -> bool:
    value = abs(float(text))
    is_zero = not any(each in "123456789" for each in text.lower().partition("e")[0])
    # below the smallest normal number a double has fewer digits, and then none
    return value > sys.float_info.max or (value < sys.float_info.min and not is_zero)


def doubted(name: str, guess: GuessedType, seen: SeenValues) -> GuessedType:
    """The type of a column of CSV. If its name has the form of its values, as a number has or a date, a remark asks
    whether the file has a header line at all."""
    form = _form(name)
    if form in ("empty", "other") or form not in seen.forms:
        return guess
    doubt = "it is called as its values are: is the first line a row? Tidegate wants a header line, so add one"
    return GuessedType(guess.ddl, f"{guess.remark}; {doubt}" if guess.remark else doubt)


def _form(text: str) -> str:
    if not text:
        return "empty"
    if PADDED.fullmatch(text):
        return "padded"
    if FRACTION.fullmatch(text):
        return "number"
    if FORM_OF_DATE.fullmatch(text) and _is_time(text, datetime.date.fromisoformat):
        return "date"
    if FINER.fullmatch(text):
        return "finer"
    if FORM_OF_INSTANT.fullmatch(text) and _is_time(text, datetime.datetime.fromisoformat):
        return "timestamp"
    if FORM_OF_TIME.fullmatch(text) and _is_time(text, datetime.datetime.fromisoformat):
        return "timestamp_ntz"
    return "other"


def _is_time(text: str, read: Any) -> bool:
    """Whether the calendar has it: of a time near the end of its years only the decoder knows."""
    try:
        return 1 < int(read(text).year) < 9999
    except ValueError:
        return False
