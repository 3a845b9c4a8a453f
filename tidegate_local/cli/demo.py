"""`tidegate local demo`: real data and mischief through the whole path."""

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.exits import Exit


def demo(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Default: the project's tidegate.example.toml.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="A fresh folder. Default: .tidegate/demo-<time>."),
    ] = None,
    objects: Annotated[int, typer.Option(min=100, max=19_000, help="How many objects to upload.")] = 2_000,
    seed: Annotated[int, typer.Option(help="Chooses the uploads for the mischief.")] = 13,
) -> None:
    """Run real data through the whole path on this machine, with mischief such as duplicates, and check the table.

    Ends with 0 only if every expected row is in the table once and no other row is.
    """
    # pandas and PyIceberg take a second to import; the other verbs do not need them
    from tidegate.settings import EXAMPLE_FILE
    from tidegate_local.cli.narrator import TerminalNarrator
    from tidegate_local.demo import run
    from tidegate_local.template import project_root

    file = config or project_root() / EXAMPLE_FILE
    with TerminalNarrator() as narrator:
        passed = run.demo(file, folder or run.fresh_folder(), narrator, objects=objects, seed=seed)
    if not passed:
        raise typer.Exit(int(Exit.FINDING))
