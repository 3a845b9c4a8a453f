"""The verb `doctor`: whether a machine or an account has what Tidegate needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli import deployment, json_output, plugins, printed, render
from tidegate.cli.checks import Check, CheckState, verdict
from tidegate.cli.options import ConfigOption, DirOption, JsonOption, PortOption
from tidegate.environment import STACK_DIR
from tidegate.settings import load


def doctor(
    config: ConfigOption = None,
    folder: DirOption = STACK_DIR,
    port: PortOption = None,
    aws: Annotated[
        bool, typer.Option("--aws", help="Check the AWS account instead, before or after the deployment.")
    ] = False,
    outputs: Annotated[
        Path | None,
        typer.Option(
            "--outputs",
            metavar="OUTPUTS",
            dir_okay=False,
            help="With --aws: the file of `cdk deploy --outputs-file OUTPUTS`. Default: the environment's deployment.",
        ),
    ] = None,
    job: Annotated[
        bool, typer.Option("--job", help="With --aws: start a self-test job as well, and wait for it. It costs cents.")
    ] = False,
    wait: Annotated[
        int, typer.Option("--wait", metavar="MINUTES", min=1, max=720, help="How long to wait for the self-test job.")
    ] = 15,
    as_json: JsonOption = False,
) -> None:
    """Check this machine for the local stack, or an account with --aws."""
    if aws:
        from tidegate.cli.account import visit  # the check of this machine does not need it

        settings = load(deployment.config_file(config))
        checks = visit.visit(
            settings,
            visit.named(outputs),
            job_minutes=wait if job else None,
            tell=lambda text: printed.echo(text, err=True),
        )
    elif outputs or job:
        raise typer.BadParameter("--outputs and --job go with --aws")
    else:
        checks = plugins.local("examine")(deployment.config_file(config), folder, port)
    if as_json:
        typer.echo(json_output.dumps(document(checks)))
    else:
        render.doctor(checks)
    raise typer.Exit(int(verdict(checks)))


def document(checks: Sequence[Check]) -> dict[str, Any]:
    shown = [json_output.document(**json_output.picked(each, "name state finding advice")) for each in checks]
    return json_output.document(healthy=all(each.state is not CheckState.FAIL for each in checks), checks=shown)
