"""`tidegate local`: the whole stack on this machine."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import printed
from tidegate.cli.options import ConfigOption, DirOption, PortOption
from tidegate.cli.verbs import group
from tidegate.environment import STACK_DIR
from tidegate_local.cli.demo import demo

# What the verbs need is imported by each: the list of all verbs loads this module, and the stack takes half a second.
app = group("local", "The whole stack on this machine, without Docker or an account.")


@app.command()
def up(
    config: ConfigOption = None,
    folder: DirOption = STACK_DIR,
    port: PortOption = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once it is up; `local down` stops it.")] = False,
    docker: Annotated[
        bool, typer.Option("--docker", help="Let Docker's containers call it, too, for `sam local invoke`.")
    ] = False,
) -> None:
    """Start the stack. Without --detach it runs until Ctrl-C. Everything listens on 127.0.0.1 only, without --docker.

    It goes on where the stack in DIR ended, with the same tidegate.toml unless --config names another one. If one runs
    there and tidegate.toml has changed, that one applies it.
    """
    from tidegate.cli.deployment import config_file
    from tidegate_local import stack
    from tidegate_local.cli import render
    from tidegate_local.hurry import stay_always

    stay_always()
    file = config_file(config or stack.made_from(folder))
    _check(file, folder)
    if stack.is_running(folder) and port is None:
        render.applied(folder, file, stack.apply(file, folder))
        if docker:
            _make_for_sam(folder)
        return
    if detach:
        started = stack.detach(file, folder, port=port, on_progress=_say, docker=docker)
        render.stack_ready(
            folder,
            started.environment,
            past=started.past,
            notes=started.notes,
            detached=True,
        )
        if docker:
            _make_for_sam(folder)
        return
    with stack.up(file, folder, port=port, on_progress=_say, docker=docker) as running:
        render.stack_ready(
            folder,
            running.environment,
            past=running.past,
            notes=running.notes,
            detached=False,
        )
        try:
            if docker:
                _make_for_sam(folder)
            running.wait()
        except KeyboardInterrupt:
            _say("stopping")  # the ordinary end, and no failure


@app.command()
def down(
    folder: DirOption = STACK_DIR,
    forget: Annotated[
        bool, typer.Option("--forget", help="Delete all that it holds, too: buckets, queues, ledger and tables.")
    ] = False,
) -> None:
    """Stop the stack in DIR. What it holds stays in DIR, and `local up` goes on with it."""
    from tidegate_local import stack

    if stack.down(folder):
        _say(f"stopped the stack in {folder}{'' if forget else '; what it holds stays there'}")
    else:
        _say(f"no stack runs in {folder}")
    if forget:
        found = stack.forget(folder)
        _say(f"deleted all that it held: {folder}" if found else f"there is nothing to delete in {folder}")


app.command()(demo)


@app.command()
def env(folder: DirOption = STACK_DIR) -> None:
    """Print the environment variables of the stack in DIR, for the command that `local up` prints.

    Ends with 3 if no stack runs there. Then it prints what is left, which is the warehouse, and unsets the rest.
    """
    from tidegate_local import stack
    from tidegate_local.cli.environment import script, what_is_left
    from tidegate_local.environment import environment_without_a_stack
    from tidegate_local.errors import LocalError

    try:
        wanted = stack.describe(folder)
    except BaseException as error:
        # a shell evaluates what is printed, whatever the exit code: printing nothing would leave it as it is, and that
        # may be half of a stack that is gone, or an account
        left = environment_without_a_stack(folder.resolve(), os.environ)
        typer.echo(script(os.environ, left))
        if isinstance(error, LocalError):
            raise LocalError(f"{error}\n{what_is_left(left)}") from None
        raise
    typer.echo(script(os.environ, wanted))


def _check(file: Path, folder: Path) -> None:
    """Raises SettingsError of a mistake in the file, before a stack is asked to run by it."""
    from tidegate.settings import SettingsError, load
    from tidegate_local import stack

    try:
        load(file)
    except SettingsError as error:
        if not stack.is_running(folder):
            raise
        said = f"{error}\nThe stack in {folder} runs on by what the file said before."
        raise SettingsError(said, error.mistakes) from error


def _make_for_sam(folder: Path) -> None:
    """Of the code as it is now."""
    from tidegate_local import sam
    from tidegate_local.cli import render

    render.sam(sam.prepare(folder, _say))


def _say(text: str) -> None:
    printed.echo(text, err=True)
