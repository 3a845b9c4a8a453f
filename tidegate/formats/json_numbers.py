"""A column of numbers from decoded lines of JSON, without a list of Python's in between.

It takes numbers only. For anything else (a null, a number that is too large) it says None: then the strict way makes
the column, or finds the line that is refused.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

AtOnce = Callable[[Callable[[Any], Any], Sequence[Any]], pa.Array | None]
"""The column of what a function finds in each row; None if another way has to make it."""
NOT_A_NUMBER = (TypeError, ValueError, OverflowError)
"""What numpy raises of what is none, or of one that is too large."""


def at_once(kind: pa.DataType) -> AtOnce:
    """What makes the columns that `kind` has before it is read: of its own type for whole numbers, and of doubles for
    all fractions. The values have to be what msgspec makes of a JSON value for `int` or `float`, or None."""
    if pa.types.is_integer(kind):
        return lambda member, rows: _whole(map(member, rows), len(rows), kind)
    if pa.types.is_floating(kind):
        return lambda member, rows: _fractions(map(member, rows), len(rows))
    return lambda member, rows: None


def _whole(values: Any, count: int, kind: pa.DataType) -> pa.Array | None:
    try:
        numbers = np.fromiter(values, np.int64, count)
    except NOT_A_NUMBER:
        return None
    wanted = kind.to_pandas_dtype()
    bounds = np.iinfo(wanted)
    if count and (numbers.min() < bounds.min or numbers.max() > bounds.max):
        return None
    return pa.array(numbers.astype(wanted, copy=False))


def _fractions(values: Any, count: int) -> pa.Array | None:
    try:
        numbers = np.fromiter(values, np.float64, count)
    except NOT_A_NUMBER:
        return None
    # numpy takes None for one that is no number; JSON has no such number
    return None if np.isnan(numbers).any() else pa.array(numbers)
