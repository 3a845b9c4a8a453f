"""The error for a refused file, and the reasons that all formats share."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice

CELL_BYTES = 8
"""The least memory of a value, also if it is null."""

LARGEST_TEXT = 1 << 30
"""No text of more bytes is decoded, whatever `max_object_bytes` is: Arrow's columns of text and its CSV reader count in
32 bits."""


class Undecodable(Exception):
    """The file cannot become rows of this schema. The text is the reason, for the file's owner.

    `row` is the row that is refused, from 0, if it is one. The format's decoder turns it into `where` in the file that
    is (`formats.places`). `where` quotes the file, so it is written with the outcomes, and nowhere else.
    """

    def __init__(self, reason: str, *, row: int | None = None, where: str = "") -> None:
        super().__init__(reason)
        self.row = row
        self.where = where


class Oversized(Undecodable):
    """The file is too large to be decoded whole. It may be decoded piece by piece, if its format can be."""


class AnotherFormat(Undecodable):
    """The file is of another format, encoding or compression than its route's."""


class TooManyBad(Undecodable):
    """More rows do not fit than are set aside (`formats.salvage`). `first` is what is wrong with the first of them,
    which is at `where`."""

    def __init__(self, what: str, first: str, where: str) -> None:
        super().__init__(f"{what}: correct the file, or raise bad_rows_share. The first: {first}", where=where)
        self.first = first


class Misnamed(Undecodable):
    """The names in the file do not fit the schema's. Of a piece of a file that is no verdict on the whole of it."""


class NoneKnown(Misnamed):
    """None of the file's names is one of the schema's."""


def first_line(error: BaseException) -> str:
    """The text of an error, in one line that any encoder takes."""
    line = (str(error).splitlines() or [type(error).__name__])[0][:500]
    return line.encode("utf-8", "replace").decode()


def check_names(names: Sequence[str], wanted: Collection[str]) -> None:
    """Refuse a file that shares no column with the schema, has two columns of one name, or has a column that is the
    schema's but for white space or case: it would be null in every row."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise Misnamed(f"the file has several columns called {repeated[0]!r}: rename all but one")
    if spaced := [name for name in names if name not in wanted and name.strip() in wanted]:
        raise Misnamed(
            f"the file has a column called {spaced[0]!r}, the schema one called {spaced[0].strip()!r}: take the white"
            " space out of the file's header"
        )
    missing = {name.casefold(): name for name in wanted if name not in names}
    if cased := [name for name in names if name not in wanted and name.casefold() in missing]:
        raise Misnamed(
            f"the file has a column called {cased[0]!r}, the schema one called {missing[cased[0].casefold()]!r}: write"
            " both in the same case"
        )
    if not set(names) & set(wanted):
        raise NoneKnown(
            f"the file has none of the schema's columns ({_listed(wanted)}); it has {_listed(names) or 'no columns'}:"
            " rename its columns, or correct the schema of the route"
        )


def _listed(names: Collection[str]) -> str:
    """Names in one line. In a file they may contain line ends, and there may be many."""
    return repr(", ".join(islice(names, 50)))[1:-1][:200]


def check_cells(rows: int, columns: int, max_bytes: int) -> None:
    """Refuse a file with too many values: each takes memory, even if it is null."""
    if not fit_cells(rows, columns, max_bytes):
        raise Oversized(f"too large: {rows} lines of {columns} columns need more than {max_bytes} bytes in memory")


def fit_cells(rows: int, columns: int, max_bytes: int) -> bool:
    return rows * columns * CELL_BYTES <= max_bytes


def check_text(size: int) -> None:
    if size > LARGEST_TEXT:
        raise Oversized(f"too large: {size} bytes of text are not decoded whole, at most {LARGEST_TEXT} are")


def too_large(size: int, max_bytes: int) -> str:
    """Of a file that is not even fetched."""
    return f"too large: {size} bytes, at most {max_bytes} (max_object_bytes)"


def check_unpacked(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise Oversized(f"too large: more than {max_bytes} bytes decompressed (max_object_bytes)")
