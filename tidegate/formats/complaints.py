"""Why a column cannot hold a value, and what to do about it. It is asked of values that were refused only.

Each answer continues a sentence that begins with the value: `1.239` *has 3 decimals, decimal(12,2) holds 2: ...*
"""

import datetime
import decimal
import math
import re
from typing import Any

import pyarrow as pa

from tidegate.formats.text_grammar import DATE, DECIMAL, TIME, ZONE
from tidegate.formats.type_names import MOST_DIGITS, column_type, type_name

types = pa.types

SHOWN = 60
"""The most characters of a value that a message has."""
LONGEST_NUMBER = 200
"""No more digits are counted."""
EXAMPLE_OF_DATE = "2024-02-03"
EXAMPLE_OF_TIME = f"{EXAMPLE_OF_DATE}T04:05:06"
WHOLE = re.compile(r"-?[0-9]+")
NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def shown(value: Any) -> str:
    """A value, in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal):
        return _cut(format(value, "f"))
    if isinstance(value, str):
        return repr(value if len(value) <= SHOWN else f"{value[:SHOWN]}...")
    return _cut(" ".join(str(value).split()))


def of_text(text: str, kind: pa.DataType) -> tuple[str, str]:
    """The text as it is shown, and why it is no value of this type."""
    if types.is_decimal(kind):
        if DECIMAL.fullmatch(text):
            return _cut(text), of_decimal(decimal.Decimal(text), kind)
        return shown(text), _no("decimal number", text, kind)
    if types.is_integer(kind):
        # of a longer one these digits are more than any type holds, too
        if (_is_long(text) and "." not in text) or (len(text) <= LONGEST_NUMBER and WHOLE.fullmatch(text)):
            return _cut(text), of_whole(int(text[:LONGEST_NUMBER]), kind)
        return shown(text), _no("whole number", text, kind)
    if types.is_floating(kind):
        if _is_long(text) or (len(text) <= LONGEST_NUMBER and NUMBER.fullmatch(text)):
            return _cut(text), of_fraction(float(text), kind)
        return shown(text), _no("number", text, kind)
    if types.is_boolean(kind):
        return shown(text), "is no boolean, which is true, false, 1 or 0: write it so, or make the column a string"
    if types.is_date(kind):
        return shown(text), _of_date(text)
    if types.is_timestamp(kind):
        return shown(text), _of_time(text, kind)
    return shown(text), "is no base64, as which a binary is written: encode it, or make the column a string"


def _is_long(text: str) -> bool:
    """Whether it is a number of more digits than are counted, without zeros before them."""
    digits = text.removeprefix("-").replace(".", "", 1)
    return len(text) > LONGEST_NUMBER and digits.isascii() and digits.isdigit() and digits[0] != "0"


def of_whole(number: int, kind: pa.DataType) -> str:
    """Why a whole number is none of this type."""
    if types.is_floating(kind):
        return f"has no exact {type_name(kind)}: make the column {_for_whole(number)}"
    # an unsigned type is none of a schema's
    bound = (1 << (kind.bit_width - 1)) - (number > 0)
    than = f"more than {type_name(kind)} holds, {bound}"
    if number < 0:
        than = f"less than {type_name(kind)} holds, -{bound}"
    return f"is {than}: make the column {_for_whole(number)}"


def of_decimal(number: decimal.Decimal, kind: pa.DataType) -> str:
    """Why a decimal number is none of this type."""
    whole, decimals = _places(number)
    before, after = kind.precision - kind.scale, kind.scale
    wider = (max(whole, before) + max(decimals, after), max(decimals, after))
    fits = wider[0] <= MOST_DIGITS
    if decimals > after:
        make = f"make the column decimal({wider[0]},{wider[1]}), or round it" if fits else "round it, or write text"
        return f"has {decimals} decimals, {type_name(kind)} holds {after}: {make}"
    make = f"make the column decimal({wider[0]},{wider[1]})" if fits else "make the column a string"
    return f"has {whole} digits before the point, {type_name(kind)} holds {before}: {make}"


def of_fraction(number: float, kind: pa.DataType) -> str:
    """Why a number is none of this type of fractions."""
    wider = "double" if types.is_float32(kind) and math.isfinite(number) else "string"
    return f"is too large for {type_name(kind)}: make the column a {wider}"


def of_value(value: pa.Array, kind: pa.DataType) -> tuple[str, str] | None:
    """As `of_text`, of the one value of an array of another type than text. None if nothing better is known than what
    Arrow says."""
    there = value.type
    if types.is_timestamp(there) and types.is_timestamp(kind):
        number = value.cast(pa.int64())[0].as_py()
        if there.unit == "ns" and number % 1000:
            finer = f"is finer than {type_name(kind)} holds, microseconds: write it in microseconds"
            return value.cast(pa.string())[0].as_py(), finer
        return str(number), f"as {type_name(there)} since 1970 is outside the years 0001 to 9999: correct it"
    found = value[0].as_py()
    if types.is_integer(there) and (types.is_integer(kind) or types.is_floating(kind)):
        return shown(found), of_whole(found, kind)
    if types.is_decimal(there) and types.is_decimal(kind):
        return shown(found), of_decimal(found, kind)
    if types.is_floating(there) and types.is_floating(kind):
        return shown(found), of_fraction(found, kind)
    return None


def of_types(there: pa.DataType, wanted: pa.DataType) -> str:
    """Why a column of one type of file cannot become one of the schema, whatever its values are."""
    called, needed = type_name(there), type_name(wanted)
    # two types of Arrow may have one name
    said = f"{called} in the file, {needed} in the schema"
    instead = column_type(there)
    if instead is None:
        return f"{said}, and no column holds the first: write the file with another type"
    if instead == needed:
        return said
    return f"{said}: make the column {instead}, or write the file as {needed}"


def _no(what: str, text: str, kind: pa.DataType) -> str:
    said = f"is no {what}, and the schema says {type_name(kind)}: "
    stripped = text.strip()
    if stripped != text and NUMBER.fullmatch(stripped):
        return said + "take the white space out"
    if what == "whole number" and len(text) <= LONGEST_NUMBER and NUMBER.fullmatch(text):
        return said + "write it without a point or an exponent, or make the column a double or a decimal"
    if text.startswith("+") and NUMBER.fullmatch(text[1:]):
        return said + "write it without the plus"
    return said + "correct it, or make the column a string"


def _of_date(text: str) -> str:
    if re.fullmatch(DATE.strip("^$"), text):
        return "is no day of the years 0001 to 9999: correct it"
    return f"is no date, as in {EXAMPLE_OF_DATE}: write it so, or make the column a string"


def _of_time(text: str, kind: pa.DataType) -> str:
    called, example = ("timestamp", f"{EXAMPLE_OF_TIME}Z") if kind.tz else ("timestamp_ntz", EXAMPLE_OF_TIME)
    time = TIME.removeprefix("^")
    finer = time.replace("{1,6}", "{7,}")
    if (found := re.match(time, text)) and not _is_in_the_calendar(found[0]):
        return "is no time of the years 0001 to 9999: correct it"
    if kind.tz and re.fullmatch(time, text):
        return f"has no zone, and a {called} is an instant: write it as {example}, or make the column a timestamp_ntz"
    if not kind.tz and re.fullmatch(time + ZONE, text):
        return f"has a zone, and a {called} has none: make the column a timestamp, or write it as {example}"
    if re.fullmatch(time + (ZONE if kind.tz else ""), text):
        return "is no time of the years 0001 to 9999: correct it"
    if re.fullmatch(f"{finer}({ZONE})?", text):
        return f"is finer than microseconds, and a {called} is not: write 6 decimals at most"
    if WHOLE.fullmatch(text):
        return f"is a number, and the schema says {called}: write it as {example}, or make the column a bigint"
    if re.fullmatch(DATE.strip("^$"), text):
        if not _is_in_the_calendar(text):
            return _of_date(text)
        return f"has no time of day, and the schema says {called}: write it as {example}, or make the column a date"
    zone = "with a zone" if kind.tz else "without a zone"
    return f"is no time {zone}, as in {example}, to the microsecond: write it so, or make the column a string"


def _is_in_the_calendar(text: str) -> bool:
    """Whether there is such a day, and such a time on it. `text` has no zone."""
    try:
        datetime.datetime.fromisoformat(text.partition(".")[0])
    except ValueError:
        return False
    return True


def _for_whole(number: int) -> str:
    if -(1 << 31) <= number < 1 << 31:
        return "int"
    if -(1 << 63) <= number < 1 << 63:
        return "bigint"
    digits = len(str(abs(number)))
    return f"decimal({digits},0)" if digits <= MOST_DIGITS else "string"


def _places(number: decimal.Decimal) -> tuple[int, int]:
    """How many digits are before the point, and how many after it, without zeros at the ends."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return 0, 0
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    exponent += len(text) - len(significant)
    return max(0, len(significant) + exponent), max(0, -exponent)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
