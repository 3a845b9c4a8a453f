"""The verb `check`: the configuration, before anything runs with it."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli import deployment, json_output, printed
from tidegate.cli.exits import Exit
from tidegate.cli.options import ConfigOption, JsonOption
from tidegate.core.quantities import counted
from tidegate.settings import Checked
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
    """Find the mistakes in tidegate.toml, each with its line: fields, types, partitions, routes that collide.

    It needs no stack, no account and no Java. Ends with 2 if the file cannot be used.
    """
    if schema:
        from tidegate.settings.editors import schema_of_file

        typer.echo(json.dumps(schema_of_file(), indent=2))
        return
    path = deployment.config_file(file or config)
    source = read(path)
    checked = find_mistakes(source)
    if as_json:
        typer.echo(json_output.dumps(_as_dict(path, checked)))
    else:
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


def _as_dict(path: Path, found: Checked) -> dict[str, Any]:
    return {
        "config": str(path),
        "usable": found.settings is not None,
        "mistakes": [
            {
                "field": each.field,
                "line": each.place.line if each.place else None,
                "column": each.place.column if each.place else None,
                "length": each.place.length if each.place else None,
                "warning": each.warning,
                "message": each.message,
            }
            for each in found.mistakes
        ],
    }
