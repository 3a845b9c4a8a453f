"""A value that does not fit its column, or a type."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidegate.formats.complaints import of_text, of_value
from tidegate.formats.type_names import type_name

OF_VALUES = (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)
"""What Arrow raises of values that it does not take."""


class Unfit(Exception):
    """A value is refused, or a type; `row` is the value's place in the array at hand, `value` how it is shown. `path`
    leads from the column to it, if it is nested."""

    def __init__(self, why: str, row: int | None = None, value: str = "") -> None:
        super().__init__(why)
        self.row = row
        self.value = value
        self.path = ""

    def within(self, part: str) -> "Unfit":
        self.path = part + self.path
        return self


def unfit_text(text: str, row: int, kind: pa.DataType) -> Unfit:
    called, why = of_text(text, kind)
    return Unfit(why, row, called)


def unfit_value(array: pa.Array, row: int, kind: pa.DataType) -> Unfit:
    called, why = of_value(array.slice(row, 1), kind) or ("", f"is no {type_name(kind)}")
    return Unfit(why, row, called)


def first_refused(array: pa.Array, read: Callable[[pa.Array], Any]) -> int | None:
    """The place of the first value that `read` refuses; None if it refuses the type. It is asked of files that are
    refused only."""

    def refuses(some: pa.Array) -> bool:
        try:
            read(some)
        except MemoryError:
            raise
        except (Unfit, *OF_VALUES):
            return True
        return False

    fine, refused = 0, len(array)
    if refuses(array.slice(0, 0)):
        return None
    while refused - fine > 1:
        middle = (fine + refused) // 2
        if refuses(array.slice(0, middle)):
            refused = middle
        else:
            fine = middle
    return fine
