"""The tables of docs/performance.md: less than the benches found, and arranged for reading.

bench/results/latest.json has every row. A table that is not named here stands on the page as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from bench.findings import BenchTable

DAYS = "year, a batch every "
"""So begin the names of the tables of a table's days, one for each rate of batches."""


def shortened(tables: Sequence[BenchTable]) -> list[BenchTable]:
    days = [table for table in tables if table.name.startswith(DAYS)]
    others = [SHORTER.get(table.name, lambda same: same)(table) for table in tables if table not in days]
    return [*others, *([_days(days)] if days else [])]


def _compared(table: BenchTable) -> BenchTable:
    """A line for each kind of files, and a column for each peer. The product is the first peer."""
    cells = {(files, peer): (seconds, ratio) for files, peer, seconds, _, _, ratio in table.rows}
    product, *peers = dict.fromkeys(peer for _, peer, *_ in table.rows)
    rows = [
        (files, seconds, files_a_second, megabytes, *_cells(cells, files, peers))
        for files, peer, seconds, files_a_second, megabytes, _ in table.rows
        if peer == product
    ]
    note = f"Seconds, in brackets the time to {product}'s. {table.note}"
    return BenchTable(table.name, ("files", product, "files a second", "MB a second", *peers), rows, note)


def _bills(table: BenchTable) -> BenchTable:
    """A line for each pipeline, and a column for each traffic."""
    cells = {(pipeline, traffic): (month, million) for traffic, pipeline, _, _, month, million in table.rows}
    uploads = {traffic: count for traffic, _, count, *_ in table.rows}
    pipelines = dict.fromkeys(pipeline for _, pipeline, *_ in table.rows)
    rows = [(pipeline, *_cells(cells, pipeline, list(uploads))) for pipeline in pipelines]
    head = ("pipeline", *(f"{traffic}: {count} uploads" for traffic, count in uploads.items()))
    return BenchTable(table.name, head, rows, f"{table.note} Dollars a month, in brackets of a million uploads.")


def _cells(cells: Mapping[tuple[str, str], tuple[str, str]], line: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Two figures to a cell. It is empty if there are none."""
    return tuple(
        f"{cells[line, each][0]} ({cells[line, each][1]})" if (line, each) in cells else "" for each in columns
    )


def _ends(table: BenchTable) -> BenchTable:
    """The first and the last line of each kind, which the first column names."""
    groups = [list(rows) for _, rows in groupby(table.rows, key=lambda row: row[0])]
    return replace(table, rows=[row for rows in groups for row in (rows[0], *rows[1:][-1:])])


def _days(tables: Sequence[BenchTable]) -> BenchTable:
    """One table of all rates: the first day and the last two of each. Without the calls, which a limit holds."""
    kept = [number for number, name in enumerate(tables[0].head) if name != "calls of the JVM"]
    rows = [
        (table.name.removeprefix(DAYS), *(row[number] for number in kept))
        for table in tables
        for row in (*table.rows[:-2][:1], *table.rows[-2:])
    ]
    head = ("a batch every", *(tables[0].head[number] for number in kept))
    return BenchTable("year", head, rows, "Before each day's maintenance.")


SHORTER: Mapping[str, Callable[[BenchTable], BenchTable]] = {
    "small_files": _compared,
    "large_files": _compared,
    "shapes": _compared,
    "bills": _bills,
    "growth": _ends,
}
