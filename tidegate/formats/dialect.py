"""How a CSV writes what it holds: the delimiter, and decimals, dates and nulls as other countries and tools have them.

What is written otherwise is brought into the one grammar (`formats.text_grammar`) before it is read, so that the same
values are refused.
"""

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.complaints import EXAMPLE_OF_DATE
from tidegate.formats.registry import ISO_DATES, POINT

types = pa.types

NUMBER = re.compile(r"-?[0-9]+[.,][0-9]+")
PLAIN_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")
"""What the grammar takes for a number: if it is refused, it is for its size."""
GROUPED = re.compile(r"-?[0-9]{1,3}([.,' \u00a0\u202f])[0-9]{3}(\1[0-9]{3})*([.,][0-9]+)?")
"""A number with marks between thousands, or one that may have them."""
NULLS = ("NULL", "null", "NA", "N/A", "n/a", "None", "\\N", "-")
"""What other tools write for null: databases, R, Python, PostgreSQL and MySQL, people."""


@dataclass(frozen=True, slots=True)
class DateForm:
    """Dates, also before a time of day. `mark` is between the parts, and `order` are the groups with year, month and
    day. A day and a month have one digit or two, and a year has four."""

    mark: str
    order: tuple[int, int, int]
    example: str

    @property
    def text(self) -> str:
        return rf"^([0-9]{{1,2}})\{self.mark}([0-9]{{1,2}})\{self.mark}([0-9]{{4}})"

    def iso(self, texts: pa.Array) -> pa.Array:
        """Texts with their dates as ISO 8601 has them; others as they are."""
        mark, (year, month, day) = rf"\{self.mark}", self.order
        # to two digits each, then into the order
        for one_digit, two_digits in (
            (rf"^([0-9]{mark}[0-9])", r"0\1"),
            (rf"^([0-9]{{2}}{mark})([0-9]{mark})", r"\10\2"),
        ):
            texts = pc.replace_substring_regex(texts, pattern=one_digit, replacement=two_digits)
        return pc.replace_substring_regex(texts, pattern=self.text, replacement=rf"\{year}-\{month}-\{day}")

    def iso_of(self, text: str) -> str:
        """The same of one text that has such a date."""
        found = re.match(self.text, text)
        assert found is not None
        year, month, day = (found[group] for group in self.order)
        return f"{year}-{month:0>2}-{day:0>2}{text[found.end() :]}"

    def has(self, text: str) -> bool:
        """Whether a text is such a date, or begins with one."""
        found = re.match(self.text, text)
        return found is not None and int(found[self.order[1]]) <= 12 and int(found[self.order[2]]) <= 31


FORMS = {
    "dd.mm.yyyy": DateForm(".", (3, 2, 1), "03.02.2024"),
    "dd/mm/yyyy": DateForm("/", (3, 2, 1), "03/02/2024"),
    "mm/dd/yyyy": DateForm("/", (3, 1, 2), "02/03/2024"),
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The options of a route for its CSV files, as `formats.registry` has them."""

    delimiter: str = ","
    decimal: str = POINT
    dates: str = ISO_DATES
    null: str = ""
    header: bool = True

    @property
    def names_by(self) -> str:
        """What says how many fields a row has."""
        return "the header" if self.header else "the schema"

    @property
    def nulls(self) -> list[str]:
        """What stands for null if it is not in quotes."""
        return ["", self.null] if self.null else [""]

    def rewrites(self, kind: pa.DataType) -> bool:
        """Whether values of this type are written otherwise than the grammar has them."""
        if types.is_temporal(kind):
            return self.dates != ISO_DATES
        return self.decimal != POINT and (types.is_floating(kind) or types.is_decimal(kind) or types.is_integer(kind))

    def plain(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """Texts as the grammar has them. A text of another form stays, for the grammar to judge; but for a comma as
        decimal mark a point becomes a comma, so that no number with a point is taken for another."""
        if not self.rewrites(kind):
            return texts
        if types.is_temporal(kind):
            return FORMS[self.dates].iso(texts)
        for one, other in ((".", "\0"), (",", "."), ("\0", ",")):
            texts = pc.replace_substring(texts, pattern=one, replacement=other)
        return texts

    def guessed_plain(self, text: str) -> str | None:
        """A text of a sample as the grammar has it; None if it stands for null. No type is known yet, so what has the
        form of a date is one, and what has the form of a number."""
        if text == self.null:
            return None
        if self.dates != ISO_DATES and FORMS[self.dates].has(text):
            return FORMS[self.dates].iso_of(text)
        return text.replace(self.decimal, POINT) if self.decimal != POINT and NUMBER.fullmatch(text) else text

    def why(self, text: str, plain: str, kind: pa.DataType, why: str) -> str:
        """What the grammar says of a text that is no value of a type, in the words of whoever wrote the file. `plain`
        is the text as the grammar has it."""
        if types.is_temporal(kind) and self.dates != ISO_DATES:
            why = why.replace(EXAMPLE_OF_DATE, FORMS[self.dates].example)
        advice = "" if PLAIN_NUMBER.fullmatch(plain) else self._advice(text, kind)
        return f"{why}. {advice}" if advice else why

    def _advice(self, text: str, kind: pa.DataType) -> str:
        """The option that would read it, if it is of a form that other files have."""
        if text in NULLS:
            # there is one such text: another one would make values of the first
            return "" if self.null else f"If {text} stands for null: null = {_quoted(text)} in the route"
        if types.is_temporal(kind):
            if self.dates != ISO_DATES and FORMS[self.dates].has(text):
                # the date is not what is wrong
                return ""
            fits = [f'dates = "{name}"' for name, form in FORMS.items() if form.has(text)]
            return f"If it is a date: {' or '.join(fits)} in the route" if fits else ""
        if GROUPED.fullmatch(text):
            return "Nothing may be between thousands: if that is what it has, write the files without"
        if (types.is_floating(kind) or types.is_decimal(kind)) and NUMBER.fullmatch(text) and self.decimal not in text:
            mark = next(each for each in ",." if each in text)
            return f'If "{mark}" is the decimal mark of these files: decimal = "{mark}" in the route'
        return ""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\") + '"'


def of_options(options: dict[str, Any]) -> Dialect:
    """The options of a sample or a dataset; what else is among them does not count."""
    return Dialect(**{name: value for name, value in options.items() if name in Dialect.__dataclass_fields__})
