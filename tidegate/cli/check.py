"""The verb `check`: the configuration, before anything runs with it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli import deployment, json_output, printed
from tidegate.cli.exits import Exit
from tidegate.cli.options import ConfigOption, JsonOption
from tidegate.core.quantities import counted
from tidegate.settings import Checked, Settings
from tidegate.settings import check as find_mistakes
from tidegate.settings.reading import read
from tidegate.settings.words import in_text


def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Default: $TIDEGATE_CONFIG, else tidegate.toml here.")
    ] = None,
    config: ConfigOption = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the file instead, for editors.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the mistakes in tidegate.toml, and print its routes.

    Each mistake comes with its line, each route with its uploads and its table. It looks at fields, types, partitions,
    and at routes that collide. With --json every route has all of its settings. It needs no stack, no account and no
    Java. Ends with 2 if the file cannot be used.
    """
    if schema:
        from tidegate.settings.editors import schema_of_file

        typer.echo(json.dumps(schema_of_file(), indent=2))
        return
    path = deployment.config_file(file or config)
    source = read(path)
    checked = find_mistakes(source)
    if as_json:
        typer.echo(json_output.dumps(document(path, checked)))
    else:
        for line in _routes(checked.settings):
            printed.echo(line)
        if checked.mistakes:
            for line in in_text(checked.mistakes, str(path), source).splitlines():
                printed.echo(line)
        printed.echo(_verdict(path, checked))
    if checked.settings is None:
        raise typer.Exit(int(Exit.USAGE))


def _verdict(path: Path, found: Checked) -> str:
    wrong = sum(not each.warning for each in found.mistakes)
    kinds = ((wrong, "mistake"), (len(found.mistakes) - wrong, "warning"))
    said = " and ".join(counted(count, name) for count, name in kinds if count)
    if found.settings is None:
        return f"{path} cannot be used: {said}"
    can = f"{path} can be used: {counted(len(found.settings.routes), 'route')}"
    return f"{can}, {said}" if said else can


def _routes(settings: Settings | None) -> Iterator[str]:
    if settings is None:
        return
    maintained = settings.maintained_tables()
    for route in settings.core_routes():
        retired = " (retired: it takes no new uploads and finishes what it has)" if route.retired else ""
        table = route.dataset.table
        yield f"{route.name}{retired}"
        yield f"  s3://{route.bucket}/{route.prefix}*{route.suffix}, read as {route.dataset.format}"
        yield f"  table {table}, {'maintained' if table in maintained else 'not maintained'}"
        if route.dataset.replaces:
            removes = ", and a deleted file's rows go" if route.dataset.removes else ""
            yield f"  a corrected file's rows take the place of the earlier ones{removes}"
        if route.dataset.skips:
            yield "  a file that is uploaded again with the same bytes brings no rows"
        if route.dataset.where:
            yield f"  rows land where {route.dataset.where} (`tidegate try` evaluates this SQL)"
        for name, sql in route.dataset.generated:
            yield f"  {name} is generated as {sql} (`tidegate try` evaluates this SQL)"
        if route.dataset.options:
            yield f"  {', '.join(f'{name} = {json.dumps(value)}' for name, value in route.dataset.options)}"


def document(path: Path, found: Checked) -> dict[str, Any]:
    settings = found.settings
    places = "field line=place.line column=place.column length=place.length warning message"
    names = (
        "route=name retired bucket prefix suffix format=dataset.format table=dataset.table schema=dataset.schema"
        " replaces=dataset.replaces removes=dataset.removes skips=dataset.skips"
        " where=dataset.where generated=dataset.generated"
        " partition_by=dataset.partition_by max_object_bytes=dataset.max_object_bytes audit_from lanes batch=limits"
    )
    maintained = settings.maintained_tables() if settings else ()
    return json_output.document(
        config=path,
        usable=settings is not None,
        mistakes=[json_output.picked(each, places) for each in found.mistakes],
        routes=[
            {**json_output.picked(each, names), "maintained": each.dataset.table in maintained}
            for each in (settings.core_routes() if settings else ())
        ],
    )
