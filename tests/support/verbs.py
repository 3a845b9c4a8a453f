"""The verbs of the command line, with what they import, and an environment to run them in."""

import os
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from tidegate.cli.main import app
from tidegate.cli.verbs import Verb
from tidegate.wiring import Resources


def commands() -> dict[str, Any]:
    """Every verb by its name, loaded."""
    top = typer.main.get_command(app)
    assert isinstance(top, TyperGroup)
    context = typer.Context(top)
    named = {name: top.get_command(context, name) for name in top.list_commands(context)}
    return {name: verb.load() if isinstance(verb, Verb) else verb for name, verb in named.items()}


def of_nobody() -> dict[str, str]:
    """The environment of a process whose deployment answers nobody."""
    ours = ("TIDEGATE_", "AWS_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
        **{f"TIDEGATE_{name.upper()}": "some" for name in Resources.__slots__},
        "TIDEGATE_CONFIG": str(Path(__file__).parents[2] / "tidegate.example.toml"),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_MAX_ATTEMPTS": "1",
    }
