"""What is wrong with a CSV file that was refused: Arrow's words name no column, and a header that is cut by the wrong
delimiter looks like one of other columns."""

import re
from collections.abc import Callable, Sequence

from tidegate.formats.complaints import shown

DELIMITERS = (",", ";", "\t", "|")
ARROWS_PLACE = re.compile(r"(?:CSV parse error|In CSV column #([0-9]+)): Row #([0-9]+): (.*)", re.DOTALL)
"""How Arrow's message begins if it knows the row, which it counts from 1, and the header too (pyarrow 26.0.1)."""
FIELDS = re.compile(r"Expected ([0-9]+) columns, got ([0-9]+)")


def in_toml(delimiter: str) -> str:
    return '"\\t"' if delimiter == "\t" else f'"{delimiter}"'


def other_delimiter(
    names: Sequence[str], wanted: Sequence[str], delimiter: str, cut: Callable[[str], Sequence[str]]
) -> str:
    """What is said of a header without a column of the schema that another delimiter cuts into such columns; empty if
    none does. `cut` cuts the header. A header of one name that has a delimiter in it is told of, too."""
    if set(names) & set(wanted):
        return ""
    found = {other: cut(other) for other in DELIMITERS if other != delimiter}
    likely = next((other for other, cuts in found.items() if {each.strip() for each in cuts} & set(wanted)), None)
    if likely is None and len(names) == 1:
        likely = next((other for other, cuts in found.items() if len(cuts) > 1), None)
    if likely is None:
        return ""
    count = "is one column" if len(names) == 1 else f"has {len(names)} columns, none of the schema's,"
    return (
        f"the header {count} by the route's delimiter {in_toml(delimiter)}: {shown(', '.join(names))}. By"
        f" {in_toml(likely)} it has {len(found[likely])}: set delimiter = {in_toml(likely)}"
    )


def of_arrow(
    said: str, names: Sequence[str], delimiter: str, place: Callable[[int], str], names_by: str = "the header"
) -> tuple[str, int | None]:
    """What is said for an error of Arrow's, and the row if it names one, from 0; -1 is the header. `place` says where a
    row is in the file, `names_by` what has the names."""
    found = ARROWS_PLACE.match(said)
    if found is None:
        return f"not CSV of this schema: {said}{_encoding(said)}", None
    row = int(found[2]) - 2
    where = "the header" if row < 0 else place(row)
    if fields := FIELDS.match(found[3]):
        there, there_are = int(fields[2]), "field" if fields[2] == "1" else "fields"
        return (
            f"{where} has {there} {there_are}, and {names_by} {fields[1]}: write as many, and a field with"
            f" {in_toml(delimiter)} or a line end in it in quotes",
            row,
        )
    if "invalid UTF8" in found[3] and found[1] is not None and int(found[1]) < len(names):
        return f"{where}: {names[int(found[1])]} has bytes that are no UTF-8{_encoding(found[3])}", row
    return f"{where}: not CSV of this schema: {found[3]}{_encoding(found[3])}", row


def _encoding(said: str) -> str:
    if "invalid UTF8" not in said:
        return ""
    return ': set `encoding` of the route, such as "windows-1252" or "iso-8859-1", or write the file in UTF-8'
