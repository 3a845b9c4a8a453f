"""The verb `shell`: Spark, with the tables at hand."""

from typing import Annotated

import typer

from tidegate.cli import plugins
from tidegate.cli.options import DeploymentOption


def shell(
    python: Annotated[bool, typer.Option("--python", help="Python with a Spark session, in place of SQL.")] = False,
    folder: DeploymentOption = None,
) -> None:
    """Start Spark's SQL shell on the tables, or Python's with --python.

    It has the catalog, the jars and the credentials of the shell, and Spark runs on this machine. Unlike `tidegate sql`
    it can write. Ends as Spark does.
    """
    raise typer.Exit(plugins.local("shell")(folder, python=python))
