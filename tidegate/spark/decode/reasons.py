"""Why a file is refused, and the reasons that all formats share."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice

import pyarrow as pa

CELL_BYTES = 8
"""What a value takes in memory at the least, also if it is null."""

LARGEST_TEXT = 1 << 30
"""No text of more bytes is decoded, whatever `max_object_bytes` says: Arrow's columns of text and its CSV reader count
in 32 bits."""


class Undecodable(Exception):
    """The file cannot become rows of this schema; the text says why, in words for its owner."""


def first_line(error: BaseException) -> str:
    """What an error says, in one line that any encoder takes."""
    line = (str(error).splitlines() or [type(error).__name__])[0][:500]
    return line.encode("utf-8", "replace").decode()


def check_names(names: Sequence[str], wanted: Collection[str]) -> None:
    """A file that shares no column with the schema, or has two of a name, is not one of this route's."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise Undecodable(f"the file has several columns called {repeated[0]!r}")
    if spaced := [name for name in names if name not in wanted and name.strip() in wanted]:
        raise Undecodable(
            f"the file has a column called {spaced[0]!r}, the schema one called {spaced[0].strip()!r}: take the white"
            " space out of the file's header"
        )
    if not set(names) & set(wanted):
        raise Undecodable(
            f"the file has none of the schema's columns ({_listed(wanted)}); it has {_listed(names) or 'no columns'}"
        )


def _listed(names: Collection[str]) -> str:
    """Names in one line: in a file they may hold line ends, and be many."""
    return repr(", ".join(islice(names, 50)))[1:-1][:200]


def check_cells(rows: int, columns: int, max_bytes: int) -> None:
    """Few bytes can be many values: a value takes memory even if it is null."""
    if rows * columns * CELL_BYTES > max_bytes:
        raise Undecodable(f"too large: {rows} lines of {columns} columns need more than {max_bytes} bytes in memory")


def check_text(body: bytes) -> None:
    if len(body) > LARGEST_TEXT:
        raise Undecodable(f"too large: {len(body)} bytes of text are not decoded whole, at most {LARGEST_TEXT} are")


def kinds(there: pa.DataType, wanted: pa.DataType) -> str:
    return f"{there} in the file, {wanted} in the schema"
