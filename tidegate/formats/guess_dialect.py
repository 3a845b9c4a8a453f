"""How CSV samples write decimals, dates and nulls, guessed from their values: the options of a `Dialect`.

A guess is careful. A comma is a decimal mark only if not all numbers with one could be thousands. A slash between day
and month says which is first only if a day is larger than 12. A word that may be more than null, such as the country
NA, is null only if no column of text has it.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.formats.complaints import WHOLE
from tidegate.formats.dialect import FORMS, GROUPED, NULLS
from tidegate.formats.text_grammar import DATE, TIME, ZONE

WITH_COMMA = re.compile(r"-?[0-9]+,([0-9]+)")
WITH_POINT = re.compile(r"-?[0-9]+\.[0-9]+([eE][+-]?[0-9]{1,3})?")
ISO = re.compile(rf"{DATE}|{TIME}({ZONE})?$")
MEANINGFUL = ("NA", "None", "-")
"""Those of `NULLS` that are values, too: Namibia, a name, a rating."""
THOUSANDS = 3
"""Digits after a comma that may be thousands."""


@dataclass
class WrittenValues:
    """The values of a column that are not null, and how many of them are written in each way."""

    values: int = 0
    numbers: int = 0
    commas: int = 0
    decimals: int = 0
    """Of those with a comma: how many are no thousands."""
    points: int = 0
    grouped: int = 0
    """How many have marks between thousands, or may have them."""
    iso: int = 0
    dates: Counter[str] = field(default_factory=Counter)
    nulls: Counter[str] = field(default_factory=Counter)
    """What may stand for null; the values are without them."""

    def add(self, text: str) -> None:
        if text in NULLS:
            self.nulls[text] += 1
            return
        self.values += 1
        if with_comma := WITH_COMMA.fullmatch(text):
            self.commas += 1
            self.decimals += len(with_comma[1]) != THOUSANDS
        self.points += bool(WITH_POINT.fullmatch(text))
        self.grouped += bool(GROUPED.fullmatch(text))
        self.numbers += bool(WHOLE.fullmatch(text))
        self.iso += bool(ISO.match(text))
        self.dates.update(name for name, form in FORMS.items() if form.has(text))

    @property
    def date_forms(self) -> set[str]:
        """The forms that all values have."""
        return {name for name, count in self.dates.items() if count == self.values}

    @property
    def is_formed(self) -> bool:
        """Whether all values are numbers, or all are dates, so that a word among them stands for null."""
        numbers = self.numbers + self.commas + self.points
        return self.values > 0 and (self.values in (numbers, self.iso) or bool(self.date_forms))


def dialect_of(columns: Iterable[WrittenValues]) -> dict[str, str]:
    """The options that differ from the defaults."""
    columns = list(columns)
    formed = [each for each in columns if each.is_formed]
    found: dict[str, str] = {}
    if any(each.decimals for each in formed) and not any(each.points for each in formed):
        found["decimal"] = ","
    forms = [each.date_forms for each in formed if each.date_forms]
    if forms and len(agreed := set.intersection(*forms)) == 1:
        (found["dates"],) = agreed
    nulls = sum((each.nulls for each in formed), Counter[str]())
    for word in MEANINGFUL:
        if any(each.nulls[word] for each in columns if not each.is_formed):
            del nulls[word]
    if nulls:
        ((found["null"], _),) = nulls.most_common(1)
    return found


def doubt_of(seen: WrittenValues, columns: Iterable[WrittenValues], null: str) -> str:
    """What a person has to say of a column, because its values do not; empty if nothing. `columns` are all of them, and
    `null` is taken for null already."""
    if len(seen.date_forms) > 1:
        options = " or ".join(f'dates = "{name}"' for name in sorted(seen.date_forms))
        return f"dates whose day or month may be first: set {options}, and make the column a date"
    formed = [each for each in columns if each.is_formed]
    both = any(each.decimals for each in formed) and any(each.points for each in formed)
    if both and seen.is_formed and (seen.points or seen.commas):
        return "numbers with a point and numbers with a comma are in these files: which of them is the decimal mark?"
    if seen.grouped and seen.grouped + seen.numbers == seen.values and seen.grouped >= seen.points:
        return "three digits follow each mark: if these are thousands, write the files without marks between them"
    words = [word for word in MEANINGFUL if seen.nulls[word] and word != null]
    if words and seen.is_formed:
        return f'{words[0]} among its values: if it stands for null, set null = "{words[0]}"'
    return ""
