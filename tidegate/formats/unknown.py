"""Columns of a file that the route's schema lacks: how they are called, and what becomes of them.

A name is a path of names with dots between them, from the column down: `customer.vip`. What is in each item of a list,
or in each value of a map, is after `[]`: `lines[].colour`. The part of the file below an unknown name is not looked at.

Avro, CSV, ORC and Parquet state their columns once, so all rows have them. JSON states them line by line
(`tidegate.formats.json_unknown`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import IGNORE, KEEP, REFUSE
from tidegate.formats.said import RowRanges, Said, said_of, say
from tidegate.formats.type_names import is_list

types = pa.types

MORE = "..."
"""It stands after the names of a table that has more of them."""
MOST_OF_A_TABLE = 20_000
"""A table may have the rows of a thousand small files (`tidegate.reading.together`), each with its own names."""
LONGEST = 100
"""Characters of a name. Longer ones are cut."""
MOST_IN_A_REASON = 10
NO_KINDS: Mapping[str, str] = MappingProxyType({})
WAYS_OUT = 'add them to the schema of the route, take them out of the files, or set unknown = "report"'
INSIDE = "[]"


def called(path: str) -> str:
    """A name as a terminal can show it, and any encoder takes it. None is `MORE`."""
    if path in ("", MORE):
        return f'"{path}"'
    if not path.isprintable():
        path = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in path[: LONGEST + 1]
        )
    return path if len(path) <= LONGEST else f"{path[:LONGEST]}{MORE}"


BESIDE = b"tidegate.beside"
"""In the metadata of a column that the table has and the route's schema lacks. Such columns follow all others."""


def beside(schema: pa.Schema) -> pa.Schema:
    """Those columns. They are nullable, and a file need not have values that fit them."""
    return pa.schema([field for field in schema if BESIDE in (field.metadata or {})])


def as_beside(schema: pa.Schema) -> list[pa.Field]:
    """These columns, marked so."""
    return [field.with_metadata({BESIDE: b""}) for field in schema]


def own(schema: pa.Schema) -> pa.Schema:
    """The others."""
    return pa.schema([field for field in schema if BESIDE not in (field.metadata or {})])


def known(schema: pa.Schema, unknown: str) -> pa.Schema:
    """The columns of a route's own schema: without those beside it, and the last one, which is for what they lack, if
    it is kept."""
    return pa.schema(list(own(schema))[:-1]) if unknown == KEEP else schema


def of_header(names: Iterable[str], table: pa.Schema, schema: pa.Schema, kinds: Mapping[str, str]) -> Said:
    """What is said of a file that states its columns once: `names` are all of them, `table` has the types of those that
    are in `schema`, `kinds` is as in `Said`."""
    wanted = {field.name: field.type for field in schema}
    found: list[str] = []
    for name in names:
        if name not in wanted:
            found.append(name)
        elif name in table.names:
            found += inside(table.field(name).type, wanted[name], name)
    return stated(found, kinds)


def stated(paths: Iterable[str], kinds: Mapping[str, str] = NO_KINDS) -> Said:
    """What is said of a table if these are the paths of what the schema lacks, and all its rows have them."""
    found: dict[str, RowRanges | None] = dict.fromkeys(map(called, paths))
    if len(found) > MOST_OF_A_TABLE:
        found = {**dict(islice(found.items(), MOST_OF_A_TABLE)), MORE: None}
    return Said(found, kinds=kinds)


def inside(there: pa.DataType, wanted: pa.DataType, path: str) -> Iterator[str]:
    """The paths of what the nested type of a file has and the wanted one lacks. What does not fit has none: it is
    refused."""
    if types.is_struct(there) and types.is_struct(wanted):
        known = {field.name: field.type for field in wanted}
        for field in there:
            if field.name not in known:
                yield f"{path}.{field.name}"
            else:
                yield from inside(field.type, known[field.name], f"{path}.{field.name}")
    elif types.is_map(there) and types.is_map(wanted):
        yield from inside(there.item_type, wanted.item_type, path + INSIDE)
    elif is_list(there) and is_list(wanted):
        yield from inside(there.value_type, wanted.value_type, path + INSIDE)


# ---- of each file


def names_of(table: pa.Table) -> tuple[str, ...]:
    """The names that are said of a table whose rows are all of one file: in the order of its header, or of the first
    row that has each."""
    return _names(said_of(table).unknown, {})


def names_by_file(table: pa.Table, counts: Sequence[int]) -> list[tuple[str, ...]] | None:
    """The names of each file of a table with the rows of several, one file after the other: `counts[i]` rows of file i.
    The same names as if each was decoded alone; None if that is not known, because there are too many."""
    unknown = said_of(table).unknown
    if not unknown:
        return [()] * len(counts)
    if MORE in unknown:
        return None
    if all(rows is None for rows in unknown.values()):
        return [names_of(table)] * len(counts)
    ends = np.cumsum(counts)
    of_file: list[dict[str, int]] = [{} for _ in counts]
    for name, rows in unknown.items():
        if rows is None:
            # stated, so that a file without rows has it, too
            for file, end in enumerate(ends):
                of_file[file][name] = int(end) - counts[file]
        for begin, end in rows or ():
            # a file without rows ends where the one before it does, and has none of them
            while begin < end:
                file = int(np.searchsorted(ends, begin, "right"))
                of_file[file].setdefault(name, begin)
                begin = int(ends[file])
    return [_names(unknown, firsts) if firsts else () for firsts in of_file]


def _names(unknown: Mapping[str, RowRanges | None], firsts: Mapping[str, int]) -> tuple[str, ...]:
    """`firsts` are the first rows that have them, if not those of the table."""

    def place(name: str) -> tuple[bool, int, str]:
        rows = unknown[name]
        return name == MORE, firsts.get(name, rows[0][0] if rows else 0), name

    # a dictionary of what is stated has the order of the header
    stated = all(rows is None for rows in unknown.values())
    return tuple(unknown) if stated else tuple(sorted(firsts or unknown, key=place))


# ---- what becomes of them


def judge(unknown: str) -> Callable[[pa.Table], pa.Table]:
    """What is done with each table by the option `unknown`. The function raises Undecodable."""
    if unknown == IGNORE:
        return _silent
    return _refused if unknown == REFUSE else lambda table: table


def _silent(table: pa.Table) -> pa.Table:
    said = said_of(table)
    return say(table, replace(said, unknown={})) if said.unknown else table


def _refused(table: pa.Table) -> pa.Table:
    if names := names_of(table):
        raise Undecodable(f"the file has columns that the schema lacks: {listed(names)}: {WAYS_OUT}")
    return table


def of_line(place: str, names: Sequence[str]) -> str:
    """The reason for refusing a line."""
    return f"{place}: the schema lacks {listed(names)}: {WAYS_OUT}"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    shown = [name for name in names[:MOST_IN_A_REASON] if name != MORE]
    if len(shown) < len(names):
        return f"{', '.join(shown)} and more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
