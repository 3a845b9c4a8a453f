"""The verb `sql`: ask the tables."""

import csv
import itertools
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli import plugins
from tidegate.cli.options import DeploymentOption, JsonOption

if TYPE_CHECKING:
    from tidegate.cli.asking.engine import Answered
    from tidegate.cli.asking.lakes import Lake

ROWS_SHOWN = 100
"""Rows of a table for people, unless --limit says otherwise."""


def sql(
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help="One SELECT. Default: standard input if it is a pipe or a file."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the query from FILE.", dir_okay=False)
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help=f"Rows at most. Default: {ROWS_SHOWN} in a table, else all."),
    ] = None,
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with a header.")] = False,
) -> None:
    """Ask the tables by SQL, or list them if there is no query.

    Tables are called as in tidegate.toml: lake.shop.orders. It only reads.
    """
    if as_json and as_csv:
        raise typer.BadParameter("give --json or --csv, not both")
    if query is not None and file is not None:
        raise typer.BadParameter("give a query or --file, not both")
    wanted = _query(query, file)
    plugins.require("sql")
    from tidegate.cli.asking import lakes
    from tidegate.cli.asking.troubles import told

    with told():
        lake = lakes.find(folder)
        if wanted:
            _answer(wanted, lake, limit, as_json=as_json, as_csv=as_csv)
        else:
            _list(lake, folder, as_json=as_json, as_csv=as_csv)


def _query(given: str | None, file: Path | None) -> str:
    """The query, or nothing. Raises BadParameter."""
    if given is not None:
        found = given
    elif file is not None:
        try:
            found = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"{file} cannot be read: {error}") from None
    elif _is_fed():
        found = sys.stdin.read()
    else:
        return ""
    if (given is not None or file is not None) and not found.strip():
        raise typer.BadParameter("the query is empty")
    return found.strip()


def _is_fed() -> bool:
    """Whether standard input is a pipe or a file. What else it may be, a terminal for example, has no query."""
    try:
        mode = sys.stdin.fileno() if sys.stdin else -1
    except (OSError, ValueError):
        return False
    import os

    kind = os.fstat(mode).st_mode if mode >= 0 else 0
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind)


def _answer(query: str, lake: "Lake", limit: int | None, *, as_json: bool, as_csv: bool) -> None:
    from tidegate.cli.asking import engine

    most = (None if as_json or as_csv else ROWS_SHOWN) if limit is None else limit
    answered = engine.ask(query, lake)
    taken: Any = answered.rows
    more = False
    if most is not None:
        rows = list(itertools.islice(answered.rows, most + 1))
        taken, more = rows[:most], len(rows) > most
    if as_json:
        _print_json(answered, taken, more=more)
    elif as_csv:
        _print_csv(answered, taken)
    else:
        from tidegate.cli.asking import tell

        tell.answer(answered, list(taken), more=more)


def _print_json(answered: "Answered", rows: Any, *, more: bool) -> None:
    from tidegate.cli import json_output
    from tidegate.cli.asking.documents import answer

    typer.echo(json_output.dumps(answer(answered, rows, more=more)))


def _print_csv(answered: "Answered", rows: Any) -> None:
    from tidegate.cli.values import text, visible

    # a file has what the table has; a terminal would act on it
    shown = visible if sys.stdout.isatty() else text
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(shown(name) for name, _ in answered.columns)
    for row in rows:
        writer.writerow(map(shown, row))


def _list(lake: "Lake", folder: Path | None, *, as_json: bool, as_csv: bool) -> None:
    from tidegate.cli.asking import documents, tell

    if as_csv:
        raise typer.BadParameter("--csv is for the rows of a query; give one, or --json for the list of tables")
    found = documents.tables(lake)
    if as_json:
        from tidegate.cli import json_output

        typer.echo(json_output.dumps({"where": lake.where, "tables": found}))
    else:
        tell.tables(lake.where, found, folder)
