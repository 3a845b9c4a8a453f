"""Values that a format has as text, by one grammar: it is narrower than Arrow's."""

import binascii
import datetime
import decimal
import re
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.text_grammar import DATE, DECIMAL, NUMBER_BYTES, TIME, ZONE
from tidegate.formats.type_names import is_bytes
from tidegate.formats.unfit import unfit_text

types = pa.types

SHORT = 38


def read_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of texts as values of another type. Arrow parses them; the grammar here is narrower than Arrow's."""
    if types.is_integer(kind):
        _check_bytes(texts, NUMBER_BYTES["int"], kind)
    elif types.is_floating(kind):
        _check_bytes(texts, NUMBER_BYTES["float"], kind)
        _refuse(texts, pc.starts_with(texts, "+"), kind)
        numbers = texts.cast(kind)
        _refuse(texts, pc.is_inf(numbers), kind)
        return numbers
    elif types.is_decimal(kind):
        return _read_decimals(texts, kind)
    elif types.is_date(kind):
        _check_form(texts, DATE, kind)
    elif types.is_timestamp(kind) and kind.tz is None:
        _check_form(texts, TIME + "$", kind)
    elif types.is_timestamp(kind):
        _check_form(texts, TIME + ZONE + "$", kind)
    elif is_bytes(kind):
        return _read_base64(texts, kind)
    return texts.cast(kind)


def may_be(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Whether a column of this type may take each of these texts, none of which is null: it takes no other one. So
    those of another kind are found among many, which by their refusals would take a millisecond each."""
    if types.is_integer(kind):
        digits = len(str(1 << kind.bit_width - 1))
        found = pc.match_substring_regex(texts, f"^-?0*[0-9]{{1,{digits}}}$")
        return _and(found, texts, lambda text: within(int(_without_zeros(text)), kind))
    if types.is_floating(kind):
        found = pc.match_substring_regex(texts, f"^{DECIMAL.pattern.replace('{1,4}', '+')}$")
        return _and(found, texts, lambda text: within(float(text), kind))
    if types.is_decimal(kind):
        return pa.array([_decimal(text, kind) is not None for text in texts.to_pylist()], pa.bool_())
    if types.is_boolean(kind):
        return pc.match_substring_regex(texts, "^(true|false|0|1)$", ignore_case=True)
    if types.is_date(kind):
        return _and(pc.match_substring_regex(texts, DATE), texts, _is_time)
    if types.is_timestamp(kind):
        form = TIME + ("$" if kind.tz is None else ZONE + "$")
        return _and(pc.match_substring_regex(texts, form), texts, _is_time)
    return pa.array(np.ones(len(texts), bool))


def within(number: float, kind: pa.DataType) -> bool:
    """Whether a number may be in a column of such numbers."""
    if types.is_integer(kind):
        return -(1 << kind.bit_width - 1) <= number < 1 << kind.bit_width - 1
    return abs(number) <= LARGEST[kind]


LARGEST = {pa.float32(): 3.4028236e38, pa.float64(): sys.float_info.max}
"""A little more than the largest float, because a text may be rounded down to that."""


def _and(found: pa.Array, texts: pa.Array, holds: Callable[[str], bool]) -> pa.Array:
    """`found`, and that `holds`."""
    told = pa.array([holds(text) for text in texts.filter(found).to_pylist()], pa.bool_())
    return pc.replace_with_mask(found, found, told)


def _without_zeros(text: str) -> str:
    """The digits of a number that has any number of zeros before them: of more than 4,300 Python makes no number."""
    return ("-" if text[0] == "-" else "") + (text.lstrip("-0") or "0")


def _is_time(text: str) -> bool:
    """Whether there is such a day, and such a time, within the years 0001 to 9999: in UTC if it has a zone."""
    try:
        found = datetime.datetime.fromisoformat(text)
        return found.tzinfo is None or bool(found.astimezone(datetime.UTC))
    except (ValueError, OverflowError):
        return False


def _decimal(text: str, kind: pa.DataType) -> decimal.Decimal | None:
    """None if it is none, or has more digits."""
    if not DECIMAL.fullmatch(text):
        return None
    context = decimal.Context(prec=kind.precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    try:
        return decimal.Decimal(text).quantize(decimal.Decimal((0, (1,), -kind.scale)), context=context)
    except decimal.DecimalException:
        return None


def _read_decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Exact, or refused.

    Arrow reads a decimal of more than 38 digits as another number, also one that has them only with the zeros of the
    column's scale; one of more than 76 places as 0; and crashes the process on 1e-999999999 (pyarrow 26.0.1). So it
    gets only short texts without an exponent, and with as many digits before the point as the column has.
    """
    places, values = _buffer(texts)
    short = np.diff(places).max(initial=0) <= SHORT and _only(values, b"0123456789-.")
    if short and _whole_digits(texts) <= kind.precision - kind.scale:
        return texts.cast(kind)
    numbers: list[decimal.Decimal | None] = []
    for row, text in enumerate(texts.to_pylist()):
        number = None if text is None else _decimal(text, kind)
        if text is not None and number is None:
            raise unfit_text(text, row, kind)
        numbers.append(number)
    return pa.array(numbers, kind)


def _whole_digits(texts: pa.Array) -> int:
    """The most characters before a point, without a sign."""
    points = pc.find_substring(texts, ".")
    before = pc.if_else(pc.less(points, 0), pc.binary_length(texts), points)
    digits = pc.subtract(before, pc.starts_with(texts, "-").cast(pa.int32()))
    return pc.max(digits).as_py() or 0


def _read_base64(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    values: list[bytes | None] = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else binascii.a2b_base64(text, strict_mode=True))
        except ValueError as error:
            raise unfit_text(str(text), row, kind) from error
    return pa.array(values, kind)


def _check_bytes(texts: pa.Array, allowed: bytes, kind: pa.DataType) -> None:
    """Refuse texts of other bytes. It reads the buffer, because a regular expression takes six times as long."""
    if not _only(_buffer(texts)[1], allowed):
        _check_form(texts, f"^[{re.escape(allowed.decode())}]*$", kind)


def _buffer(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The offset of each text, and the bytes of all texts."""
    _, offsets, values = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if values is None or not len(places):
        return places, np.zeros(0, np.uint8)
    return places, np.frombuffer(values, np.uint8)[places[0] : places[-1]]


def _only(values: np.ndarray, allowed: bytes) -> bool:
    known = np.zeros(256, bool)
    known[list(allowed)] = True
    return bool(known[values].all())


def _check_form(texts: pa.Array, form: str, kind: pa.DataType) -> None:
    _refuse(texts, pc.invert(pc.match_substring_regex(texts, form)), kind)


def _refuse(texts: pa.Array, bad: pa.Array, kind: pa.DataType) -> None:
    if (row := pc.index(bad, True).as_py()) >= 0:
        raise unfit_text(texts[row].as_py(), row, kind)
