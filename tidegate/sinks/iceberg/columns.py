"""Whether a table's columns fit those that a route wants to write, and what to do if they do not. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tidegate.core.lineage import LINEAGE_COLUMNS
from tidegate.formats.type_names import quoted_name
from tidegate.sinks.iceberg.nested_columns import changes_within

WasCalled = Callable[[str], str | None]
"""What the column that an earlier schema of the table called so is called now: "" if it was dropped, None if no earlier
schema had it."""


WIDER = frozenset({("int", "bigint"), ("float", "double")})
"""Changes of a type that Iceberg makes in place, and those of a decimal to more digits
(https://iceberg.apache.org/spec/#schema-evolution)."""
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """`type` as Spark calls it."""

    type: str
    nullable: bool


def misfit(
    table: str, there: Mapping[str, ColumnFacts], wanted: Mapping[str, ColumnFacts], was_called: WasCalled
) -> str:
    """Why rows of the `wanted` columns cannot be written to a table of these columns, by their names; empty if they
    can."""
    said = ". Besides, ".join(_misfits(table, there, wanted, was_called))
    return said.replace(".. Besides, ", ". Besides, ")


def _misfits(
    table: str, there: Mapping[str, ColumnFacts], wanted: Mapping[str, ColumnFacts], was_called: WasCalled
) -> Iterator[str]:
    never = _never_there(there, wanted, was_called)
    if len(never) > 1:
        yield _several(table, {each: wanted[each] for each in never})
    for name, column in wanted.items():
        if name in never and len(never) > 1:
            continue
        if name not in there:
            yield _absent(table, there, name, column, was_called)
        elif there[name].type != column.type:
            yield _another_type(table, name, there[name].type, column.type)
        elif column.nullable and not there[name].nullable:
            yield (
                f"column {name} of table {table} takes no nulls, in the route's schema it may be null. Say `not null`"
                f" there, or run: {_alter(table)} ALTER COLUMN {quoted_name(name)} DROP NOT NULL"
            )
    absent = [name for name in wanted if name not in there]
    renamed = {was_called(name) for name in absent}
    alike = {name.lower() for name in absent}
    for name, column in there.items():
        told = name in wanted or name in renamed or name.lower() in alike
        if not told and not column.nullable:
            yield (
                f"table {table} demands a value for column {name}, which the route's schema lacks. Add it to the"
                f" schema, or run: {_alter(table)} ALTER COLUMN {quoted_name(name)} DROP NOT NULL"
            )


def _another_type(table: str, name: str, there: str, wanted: str) -> str:
    said = f"column {name} of table {table} is {there}, in the route's schema it is {wanted}."
    alter, column = _alter(table), quoted_name(name)
    if changes := changes_within(name, there, wanted, _is_wider):
        return f"{said} Run: {'; '.join(f'{alter} {change}' for change in changes)}"
    anew = (
        f" Or empty the column and resume, run: {alter} DROP COLUMN {column}; {alter} ADD COLUMN {column} {wanted};"
        " then `tidegate resend s3://BUCKET/PREFIX --reload` fills it from the files that have landed."
    )
    return (
        f"{said} A table takes no such change: change the schema back and resume this batch."
        f"{'' if name in LINEAGE_COLUMNS else anew} Or give the route another table; this batch stays with its own, so"
        " send its uploads to that one by `tidegate abort BATCH --resend`"
    )


def _absent(table: str, there: Mapping[str, ColumnFacts], name: str, column: ColumnFacts, was_called: WasCalled) -> str:
    missing = f"table {table} has no column {name}, which the route's schema has."
    ours = name in LINEAGE_COLUMNS
    if ours:
        missing = f"table {table} has no column {name}, which Tidegate fills."
    alike = next((each for each in there if each.lower() == name.lower()), "")
    if alike:
        between = f"{name}_"
        return (
            f"{missing} It has {alike}, and Spark does not tell these apart, so it takes two steps. Run:"
            f" {rename_column(table, alike, between)}; {rename_column(table, between, name)}"
        )
    now = was_called(name)
    if now:
        return f"{missing} It is called {now} now. {_rename(table, now, name, ours)}"
    add = f"{_alter(table)} ADD COLUMN {quoted_name(name)} {column.type}"
    if now is None:
        return f"{missing} Run: {add}"
    if ours:
        return (
            f"{missing} It was dropped, and what it said of the rows that are there is lost with it: `tidegate audit"
            " --tables` and `tidegate resend` cannot tell them apart any more. Roll the table back to before that,"
            f" or, to go on without it, run: {add}"
        )
    return f"{missing} It was dropped: values that it had do not come back. Run: {add}"


def _never_there(
    there: Mapping[str, ColumnFacts], wanted: Mapping[str, ColumnFacts], was_called: WasCalled
) -> list[str]:
    """The columns that no schema of the table has had, in no case of their letters: as of one that others made."""
    names = {each.lower() for each in there}
    return [name for name in wanted if name.lower() not in names and was_called(name) is None]


def _several(table: str, never: Mapping[str, ColumnFacts]) -> str:
    columns = ", ".join(f"{quoted_name(name)} {column.type}" for name, column in never.items())
    ours = " The rows that are there have null in them: Tidegate leaves them alone." if "_batch_id" in never else ""
    return (
        f"table {table} has no column {', '.join(never)}, which the route's schema has or Tidegate fills."
        f" Run: {_alter(table)} ADD COLUMNS ({columns}).{ours}"
    )


def _is_wider(there: str, wanted: str) -> bool:
    if (there, wanted) in WIDER:
        return True
    has, wants = DECIMAL.fullmatch(there), DECIMAL.fullmatch(wanted)
    return bool(has and wants and has[2] == wants[2] and int(wants[1]) > int(has[1]))


def rename_column(table: str, name: str, to: str) -> str:
    """The statement that does it."""
    return f"{_alter(table)} RENAME COLUMN {quoted_name(name)} TO {quoted_name(to)}"


def _rename(table: str, name: str, to: str, ours: bool) -> str:
    run = rename_column(table, name, to)
    return f"Run: {run}" if ours else f"Call it {quoted_name(name)} in the schema, or run: {run}"


def _alter(table: str) -> str:
    return f"ALTER TABLE {'.'.join(map(quoted_name, table.split('.')))}"


def quoted(name: str) -> str:
    """A dotted name as SQL takes it, whatever its parts are called."""
    return ".".join(f"`{part}`" for part in name.split("."))
