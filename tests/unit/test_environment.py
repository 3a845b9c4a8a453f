"""A deployment's outputs become its environment, and the command line finds it by that."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate import wiring
from tidegate.cli.exits import Exit
from tidegate.cli.main import app
from tidegate.environment import read_outputs, variable

OUTPUTS = {
    "".join(part.title() for part in name.split("_")): f"the {name}"
    for name in wiring.Resources.__slots__
    if name != "deployment"
}


@pytest.mark.parametrize(
    ("output", "name"),
    [("Ledger", "TIDEGATE_LEDGER"), ("NoticesDeadLetters", "TIDEGATE_NOTICES_DEAD_LETTERS")],
)
def test_an_output_is_a_variable(output: str, name: str):
    assert variable(output) == name


def test_what_the_cdk_wrote_is_the_environment_of_the_deployment():
    resources = wiring.Resources.from_environment(read_outputs(json.dumps({"staging": OUTPUTS})))
    assert resources.deployment == "staging"
    assert resources.notices_dead_letters == "the notices_dead_letters"


def test_env_prints_what_a_shell_reads(tmp_path: Path):
    (tmp_path / "outputs.json").write_text(json.dumps({"staging": OUTPUTS}))
    result = CliRunner().invoke(app, ["--env", str(tmp_path / "outputs.json")])
    assert result.exit_code == Exit.OK
    lines = result.stdout.splitlines()
    assert "export TIDEGATE_DEPLOYMENT=staging" in lines
    assert "export TIDEGATE_WORK='the work'" in lines
    assert len(lines) == len(OUTPUTS) + 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("{}", "the outputs of one stack"),
        ('{"a": {}, "b": {}}', "the outputs of one stack"),
        ('{"others": {"Bucket": "b"}}', "none of Tidegate's"),
    ],
)
def test_what_is_no_such_file_is_a_mistake_with_a_way_out(tmp_path: Path, text: str, reason: str):
    path = tmp_path / "outputs.json"
    path.write_text(text)
    result = CliRunner().invoke(app, ["--env", str(path)])
    assert result.exit_code == Exit.USAGE
    assert reason in result.stderr
    assert "--outputs-file" in result.stderr
    assert result.stdout == ""
