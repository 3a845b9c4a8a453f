"""The tables of docs/performance.md: less than the benches found, and arranged for reading.

bench/results/latest.json has every row. A table that is not named here stands on the page as it is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import groupby

from bench.findings import BenchTable, time_to

DAYS = "year, a batch every "
"""So begin the names of the tables of a table's days, one for each rate of batches."""


def shortened(tables: Sequence[BenchTable], broken: Set[str] = frozenset()) -> list[BenchTable]:
    """`broken` are the limits that do not hold, by what they are of: those of a cell have it in bold."""
    days = [table for table in tables if table.name.startswith(DAYS)]
    others = [
        _compared(table, broken) if table.name in COMPARED else SHORTER.get(table.name, _same)(table)
        for table in tables
        if table not in days
    ]
    return [*others, *([_days(days)] if days else [])]


def _same(table: BenchTable) -> BenchTable:
    return table


def _compared(table: BenchTable, broken: Set[str]) -> BenchTable:
    """A line for each kind of files, and a column for each peer. The product is the first peer."""
    cells = {(files, peer): (seconds, ratio) for files, peer, seconds, _, _, ratio in table.rows}
    product, *peers = dict.fromkeys(peer for _, peer, *_ in table.rows)
    rows = [
        (files, seconds, megabytes, *_marked(_cells(cells, files, peers), files, peers, broken))
        for files, peer, seconds, _, megabytes, _ in table.rows
        if peer == product
    ]
    note = f"Seconds, in brackets the time to {product}'s. {table.note}"
    return BenchTable(table.name, ("files", product, "MB a second", *peers), rows, note)


def _marked(cells: Sequence[str], files: str, peers: Sequence[str], broken: Set[str]) -> Iterator[str]:
    for cell, peer in zip(cells, peers, strict=True):
        yield f"**{cell}**" if time_to(files, peer) in broken else cell


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
    """The first and the last line of each kind, which the first column names. Limits are of the processor's time."""
    groups = [list(rows) for _, rows in groupby(table.rows, key=lambda row: row[0])]
    found = replace(table, rows=[row for rows in groups for row in (rows[0], *rows[1:][-1:])])
    return _without(found, "clock, s")


def _days(tables: Sequence[BenchTable]) -> BenchTable:
    """One table of all rates: the first day and the last of each. Without what limits hold."""
    rows = [
        (table.name.removeprefix(DAYS), *row) for table in tables for row in (*table.rows[:-1][:1], *table.rows[-1:])
    ]
    found = BenchTable("year", ("a batch every", *tables[0].head), rows, "Before each day's maintenance.")
    return _without(found, "calls of the JVM", "metadata files")


def _without(table: BenchTable, *columns: str) -> BenchTable:
    kept = [number for number, name in enumerate(table.head) if name not in columns]
    rows = [[row[number] for number in kept] for row in table.rows]
    return replace(table, head=[table.head[number] for number in kept], rows=rows)


COMPARED = ("small_files", "large_files", "shapes")
SHORTER: Mapping[str, Callable[[BenchTable], BenchTable]] = {
    "bills": _bills,
    "growth": _ends,
}
