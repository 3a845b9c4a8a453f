"""What is typed before everything else."""

import os

from tests.functional.runbook import scenario
from tests.functional.runbook.parts import LOG
from tests.functional.runbook.stage import Stage


@scenario("Before you type")
def the_deployment_and_two_short_commands(stage: Stage) -> None:
    stage.types("tidegate --env")
    stage.types("PATH=")
    stage.types("part()")
    stage.types("log()")
    stage.parts.log("settle", '{"level":"INFO","message":"quiet"}', '{"level":"ERROR","message":"loud"}')
    assert stage.shell.type("command -v tidegate").stdout == f"{stage.shell.folder}/.venv/bin/tidegate\n"
    assert stage.shell.type('echo "$TIDEGATE_LEDGER"').stdout == f"{os.environ['TIDEGATE_LEDGER']}\n"
    assert stage.shell.type("part Settle AWS::Logs::LogGroup").stdout.strip() == stage.parts["Settle", LOG]
    assert stage.shell.type("log Settle ERROR").stdout.strip() == '{"level":"ERROR","message":"loud"}'
    assert stage.shell.type("tidegate status").code == 0
