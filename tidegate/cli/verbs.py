"""Verbs that are imported when they are called.

The list of the verbs, a mistyped verb and shell completion need only names and one line each. What the verbs import
(botocore, pydantic, rich) takes a second of processor time.
"""

import gc
import importlib
import re
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from tidegate.cli import plugins, printed
from tidegate.cli.command import as_called

USAGE_ERROR: type[Exception] = typer.BadParameter.mro()[1]
"""What Typer itself raises and prints, of any mistake on the command line. It exports only this kind of it."""

COLLECT_AFTER = 50_000
"""New objects before Python looks for garbage. What a verb imports makes some 150,000, and nearly all of them stay: at
Python's own 700, looking for garbage among them takes a tenth of the processor time of `status`."""


class Verb(TyperCommand):
    """A verb as the list of verbs shows it.

    `where`     the module and the name of its function, or of the typer.Typer of a group: "package.module:name"
    `line`      what the list says of it: how the help of the verb itself begins
    """

    def __init__(self, name: str, where: str, line: str) -> None:
        super().__init__(name, short_help=line, rich_markup_mode=None)
        self._where = where

    def load(self) -> Any:
        """The command itself."""
        module, _, name = self._where.partition(":")
        found = getattr(importlib.import_module(module), name)
        command = typer.main.get_command(found if isinstance(found, typer.Typer) else _alone(found))
        command.name = self.name
        return command


class Verbs(TyperGroup):
    """Expected errors become one message and an exit code; anything else is a bug and keeps its stack trace."""

    def list_commands(self, ctx: Any) -> list[str]:
        self._plug_in()
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args[0] not in self.commands:
            self._plug_in()
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Verb) else command, rest

    _called = "tidegate"

    def __call__(self, *args: Any, **options: Any) -> Any:
        self._called = as_called()
        return super().__call__(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        gc.set_threshold(COLLECT_AFTER)
        printed.begin(self._called)
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except USAGE_ERROR as error:
            _propose(error)
            raise
        except (Exception, KeyboardInterrupt) as error:
            from tidegate.cli import failures  # it knows the errors of botocore and of the settings

            code = failures.tell(error)
            if code is None:
                raise
            raise typer.Exit(int(code)) from error

    def _plug_in(self) -> None:
        self.commands.update(plugins.verbs())


class Group(TyperGroup):
    """A verb that is a group of verbs. Its list has the whole first sentence of each, and does not cut it off."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for each in self.commands.values():
            each.short_help = first_sentence(each.help or "")


def _propose(error: Any) -> None:
    """Say in a mistake on the command line what was meant, if it is a wrong guess that is known."""
    error.message = printed.in_prose(error.message)
    if error.ctx is None:
        return
    from tidegate.cli import guesses

    path = error.ctx.command_path.removeprefix(error.ctx.find_root().command_path).strip()
    there = {option for each in error.ctx.command.params for option in each.opts}
    better = printed.in_prose(guesses.better(error.message, path, there))
    if better != error.message:
        error.message = better
        error.possibilities = None  # what is spelled alike, and is not meant


def first_sentence(text: str) -> str:
    """The first sentence of a help text, in one line."""
    return re.split(r"(?<=\.)\s", text.strip(), maxsplit=1)[0].replace("\n", " ")


def group(name: str, line: str) -> typer.Typer:
    """The typer.Typer of such a group."""
    return typer.Typer(
        cls=Group, name=name, help=line, no_args_is_help=True, add_completion=False, rich_markup_mode=None
    )


def _alone(verb: Callable[..., Any]) -> typer.Typer:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(verb)
    return app
