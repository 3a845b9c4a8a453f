"""What `tidegate sql` prints for people."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from tidegate.cli.asking.engine import Answered
from tidegate.cli.asking.grid import fitted
from tidegate.cli.command import this_command
from tidegate.cli.render import console
from tidegate.cli.terminal import Text
from tidegate.cli.values import visible
from tidegate.core.lineage import LINEAGE_COLUMNS
from tidegate.core.quantities import counted

LINEAGE = tuple(LINEAGE_COLUMNS)
"""The columns that say where a row is from. They are left out of what is printed before others are."""


def answer(answered: Answered, rows: Sequence[Sequence[Any]], *, more: bool) -> None:
    out, notes = console(), console(stderr=True)
    table, left_out = fitted(answered.columns, rows, out.width, LINEAGE)
    out.print(table)
    several = counted(len(rows), "row")
    count = f"the first {several}: --limit prints more, --csv all" if more else several
    at = ", ".join(f"{name} at snapshot {each}" for name, each in answered.snapshots.items() if each is not None)
    notes.print(Text(f"{count}{f'; {at}' if at else ''}", "dim"), soft_wrap=True)
    if left_out:
        what = f"not shown, for lack of room: {', '.join(left_out)}. Name them in the query, or use --json or --csv"
        notes.print(Text(what, "dim"), soft_wrap=True)


def tables(where: str, found: Sequence[Mapping[str, Any]], folder: Path | None) -> None:
    """`folder`: which one was asked for by --dir."""
    out = console()
    if not found:
        out.print(Text(f"There are no tables yet in {where}."), soft_wrap=True)
        return
    out.print(Text(f"The tables in {where}:"), soft_wrap=True)
    for each in found:
        rows = each["rows"]
        size = "not there yet" if not each["columns"] else "some rows" if rows is None else counted(rows, "row")
        out.print(Text.assemble("\n", (each["table"], "bold"), f"  {size}"), soft_wrap=True)
        columns = Table.grid(padding=(0, 2, 0, 0))
        for column in each["columns"]:
            style = "dim" if column["name"] in LINEAGE else ""
            columns.add_row(Text(f"  {visible(column['name'])}", style), Text(visible(column["type"]), style))
        out.print(columns)
    asked = next((each for each in found if each["columns"]), None)
    if asked:
        there = f" --dir {shlex.quote(str(folder))}" if folder else ""
        query = f"select * from {asked['table']} limit 10"
        out.print(Text.assemble("\nask: ", (f"{this_command()} sql{there} '{query}'", "bold")), soft_wrap=True)
