"""The verb `routes`: what the configuration says."""

import typer

from tidegate.cli import deployment, json_output, render
from tidegate.cli.options import ConfigOption, JsonOption
from tidegate.settings import load


def routes(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print which uploads become rows of which table, by the configuration."""
    file = deployment.config_file(config)
    settings = load(file, warn=render.warning)
    found, maintained = settings.core_routes(), settings.maintained_tables()
    if as_json:
        typer.echo(json_output.dumps(json_output.routes(file, found, maintained)))
    else:
        render.routes(file, found, maintained)
