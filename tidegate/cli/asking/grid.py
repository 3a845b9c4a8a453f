"""An answer as a table that fits a terminal. It makes no call and reads no more than it is given."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.cells import cell_len, set_cell_size
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

    See `chosen`. What is too long for its column is cut.
    """
    cells = [[NULL if value is None else visible(value) for value in row] for row in rows]
    needs = [
        min(WIDEST, max([cell_len(visible(name)), *(cell_len(row[position]) for row in cells)]))
        for position, (name, _) in enumerate(columns)
    ]
    kept = chosen([name for name, _ in columns], needs, width, lineage)
    widths = narrowed([needs[position] for position in kept], width)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, collapse_padding=True)
    for position, size in zip(kept, widths, strict=True):
        name = columns[position][0]
        number = bool(rows) and all(_is_number(row[position]) for row in rows)
        table.add_column(
            Text(_cut(visible(name), size)), justify="right" if number else "left", no_wrap=True, width=size
        )
    for row, values in zip(cells, rows, strict=True):
        table.add_row(
            *(
                Text(_cut(row[position], size), style="dim" if values[position] is None else "")
                for position, size in zip(kept, widths, strict=True)
            )
        )
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


def narrowed(needs: Sequence[int], width: int) -> list[int]:
    """The widths of the columns: what they need, and less for the widest ones if that is too much."""
    widths = list(needs)
    while widths and _total(widths) > width and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + BETWEEN * (len(widths) - 1)


def _cut(text: str, size: int) -> str:
    return text if cell_len(text) <= size else set_cell_size(text, max(size - 1, 0)).rstrip() + "…"


def _is_number(value: Any) -> bool:
    from decimal import Decimal

    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))
