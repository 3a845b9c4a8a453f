"""The verbs of the command line, with what they import."""

from typing import Any

import typer
from typer.core import TyperGroup

from tidegate.cli.main import app
from tidegate.cli.verbs import Verb


def commands() -> dict[str, Any]:
    """Every verb by its name, loaded."""
    top = typer.main.get_command(app)
    assert isinstance(top, TyperGroup)
    context = typer.Context(top)
    named = {name: top.get_command(context, name) for name in top.list_commands(context)}
    return {name: verb.load() if isinstance(verb, Verb) else verb for name, verb in named.items()}
