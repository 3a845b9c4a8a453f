"""An answer as a table that fits a terminal. It makes no call and reads no more than it is given."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.table import Table

from tidegate.cli.terminal import Text
from tidegate.cli.values import visible

WIDEST = 60
"""Columns of a terminal that one column takes at most."""
NARROWEST = 12
"""What a long column is cut to before a column is left out."""
BETWEEN = 2
NULL = "null"


def fitted(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]], width: int, lineage: Sequence[str]
) -> tuple[Table, list[str]]:
    """The table, and the names of the columns that are left out because they do not fit in `width`.

    See `chosen`. What is too long for its column is cut by rich, which narrows the widest columns.
    """
    cells = [[NULL if value is None else visible(value) for value in row] for row in rows]
    needs = [
        min(WIDEST, max([cell_len(visible(name)), *(cell_len(row[position]) for row in cells)]))
        for position, (name, _) in enumerate(columns)
    ]
    kept = chosen([name for name, _ in columns], needs, width, lineage)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, collapse_padding=True)
    for position in kept:
        number = bool(rows) and all(_is_number(row[position]) for row in rows)
        name = _cell(visible(columns[position][0]))
        table.add_column(name, justify="right" if number else "left", max_width=WIDEST)
    for row, values in zip(cells, rows, strict=True):
        table.add_row(*(_cell(row[position], "dim" if values[position] is None else "") for position in kept))
    return table, [name for position, (name, _) in enumerate(columns) if position not in kept]


def chosen(names: Sequence[str], needs: Sequence[int], width: int, lineage: Sequence[str]) -> list[int]:
    """The positions of the columns that are shown; there is always one.

    If the whole lineage is there, nobody has asked for it by name. Then its columns give way before another one is cut.
    """
    kept = list(range(len(names)))
    others = [each for each in kept if names[each] not in lineage]
    if others and set(lineage) <= {*names}:
        for each in [each for each in reversed(kept) if each not in others]:
            if _total([needs[position] for position in kept]) > width:
                kept.remove(each)
    while len(kept) > 1 and _total([min(needs[position], NARROWEST) for position in kept]) > width:
        kept.pop()
    return kept


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + BETWEEN * (len(widths) - 1)


def _cell(text: str, style: str = "") -> Text:
    # of the cell and not of the column: rich narrows only columns that may break their lines
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _is_number(value: Any) -> bool:
    from decimal import Decimal

    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))
