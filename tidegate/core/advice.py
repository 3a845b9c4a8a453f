"""Advice that needs to know more than the file that it is about."""

import re

RETYPED = "make the column"
"""In the text of each refusal that advises another type (`formats.complaints`)."""

WIDER = re.compile(
    r"than int holds, -?\d+: make the column bigint|large for float: make the column a double"
    r"|decimal\(\d+,(\d+)\) holds \d+: make the column decimal\(\d+,\1\)"
)
"""Advises a type to which a table can change its own (https://iceberg.apache.org/spec/#schema-evolution)."""


def about_the_table(error: str, table: str) -> str:
    """What follows for a table that is there from the advice in an error; empty if nothing does. A job creates the
    table before it reads a file, so of an upload in quarantine it is there, if only with no row."""
    if RETYPED not in error:
        return ""
    called = f"table {table}" if table else "its table"
    if WIDER.search(error):
        return (
            f"{called} is there, and takes the wider type: `ALTER TABLE ... ALTER COLUMN` first, then the schema of the"
            ' route (docs/first-route.md, "Changing it later")'
        )
    return (
        f"{called} is there, and keeps the types that it has: for a column of another type give the route a new `table`"
        ' (docs/first-route.md, "Changing it later")'
    )
