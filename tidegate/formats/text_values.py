"""Values that a format has as text, by one grammar: it is narrower than Arrow's."""

import binascii
import decimal
import re

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


def _read_decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Exact, or refused.

    Arrow reads a decimal of more than 38 digits as another number, one of more than 76 places as 0, and crashes the
    process on 1e-999999999 (pyarrow 26.0.1). So it gets only short texts without an exponent.
    """
    places, values = _buffer(texts)
    if np.diff(places).max(initial=0) <= SHORT and _only(values, b"0123456789-."):
        return texts.cast(kind)
    context = decimal.Context(prec=kind.precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    unit = decimal.Decimal((0, (1,), -kind.scale))
    numbers: list[decimal.Decimal | None] = []
    for row, text in enumerate(texts.to_pylist()):
        if text is not None and not DECIMAL.fullmatch(text):
            raise unfit_text(text, row, kind)
        try:
            numbers.append(None if text is None else decimal.Decimal(text).quantize(unit, context=context))
        except decimal.DecimalException as error:
            raise unfit_text(str(text), row, kind) from error
    return pa.array(numbers, kind)


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
