"""`sam local invoke` as docs/sam.md describes it: the ids, the events, the templates, and the file of variables.

tests/rie/test_sam.py has SAM run functions of the stack on this machine. Of those of a deployment, what SAM reads is
looked at instead. It finds a function by its logical id and its code by the metadata of the CDK, and overrides only
variables that the template gives the function
(https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/serverless-cdk-getting-started.html).
"""

import itertools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.roster import ROSTER, Schedule
from tidegate.environment import STACK_DIR
from tidegate_local.sam import invocation
from tidegate_local.template import synthesize

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "sam.md"
EVENTS = ROOT / "tests" / "events"
SCHEDULED = "settle_schedule.json"


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `cdk synth` writes for the example of the project, but for dependencies in the functions' code."""
    return synthesize(ROOT / "tidegate.example.toml", tmp_path_factory.mktemp("sam"))


@pytest.fixture(scope="module")
def template(assembly: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((assembly / "tidegate.template.json").read_text())
    return found


@pytest.fixture(scope="module")
def functions(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The project's own functions by logical id; others would be the CDK's helpers."""
    return {
        name: each
        for name, each in template["Resources"].items()
        if each["Type"] == "AWS::Lambda::Function" and each["Properties"]["Handler"].startswith("lambdas.")
    }


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text()


def names(function: dict[str, Any]) -> str:
    """What people call the function."""
    return str(function["Properties"]["Handler"].split(".")[1])


def test_the_table_names_every_function_by_its_id_and_every_event_there_is(page, functions):
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    assert {(name, logical) for name, logical, _ in rows} == {(names(each), key) for key, each in functions.items()}
    told = {(name, event) for name, _, events in rows for event in re.findall(r"`([\w.]+)`", events)}
    there = {(path.name.partition("_")[0], path.name) for path in EVENTS.iterdir()}
    # one event of a schedule is like another
    there |= {(row.name, SCHEDULED) for row in ROSTER if isinstance(row.started_by, Schedule)}
    assert told == there


def test_every_command_names_a_template_a_function_and_an_event_that_exist(page, assembly, functions, monkeypatch):
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^\S*sam local invoke (?:\\\n|.)+", page, re.MULTILINE)
    local, *others = (command.replace("\\\n", " ").split() for command in commands)
    program, *words = shlex.split(invocation(STACK_DIR))
    assert (Path(program).name, words) == (Path(local[0]).name, local[1:])
    assert others
    for words in others:
        given = dict(itertools.pairwise(words))
        assert names(functions[given["invoke"]]) == Path(given["-e"]).name.partition("_")[0]
        assert (ROOT / given["-e"]).is_file()
        assert given["-t"] == f"cdk.out/{next(assembly.glob('*.template.json')).name}"


def test_each_function_carries_what_sam_reads(assembly, functions):
    assert len(functions) == len(ROSTER)
    for function in functions.values():
        properties, metadata = function["Properties"], function["Metadata"]
        assert re.fullmatch(r"python3\.\d+", properties["Runtime"])
        assert metadata["aws:asset:property"] == "Code"
        assert metadata["aws:cdk:path"].split("/")[0] == "tidegate"
        code = assembly / metadata["aws:asset:path"]
        module, _, handler = properties["Handler"].rpartition(".")
        assert f"def {handler}(" in (code / f"{module.replace('.', '/')}.py").read_text()
        assert (code / "tidegate.toml").is_file()


def test_every_event_is_what_its_function_is_fed_with():
    for path in EVENTS.iterdir():
        event = json.loads(path.read_text())
        if path.name.startswith("settle_"):
            assert event["source"] in ("aws.events", "aws.emr-serverless")
            continue
        queue = {"intake": "tidegate-buffer", "dispatch": "tidegate-notices.fifo"}[path.name.partition("_")[0]]
        for record in event["Records"]:
            assert record["eventSourceARN"].endswith(f":{queue}")
            assert ("MessageGroupId" in record["attributes"]) == queue.endswith(".fifo")


def test_the_file_of_variables_gives_each_what_the_deployment_would(page, template, functions, tmp_path):
    """The page's own lines are run, on outputs whose values are the expressions that the template has for them."""
    (tmp_path / "cdk.out").mkdir()
    outputs = {name: json.dumps(each["Value"]) for name, each in template["Outputs"].items()}
    (tmp_path / "cdk.out" / "outputs.json").write_text(json.dumps({"tidegate": outputs}))
    (script,) = re.findall(r"python -c '\n(.+?)'", page, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    given = json.loads(done.stdout)["Parameters"]
    for function in functions.values():
        variables = function["Properties"]["Environment"]["Variables"]
        unresolved = {name: value for name, value in variables.items() if not isinstance(value, str)}
        assert unresolved
        assert {name: json.loads(given[name]) for name in unresolved} == unresolved
        own = {name for name in variables if name.startswith("TIDEGATE_")} - {"TIDEGATE_DEPLOYMENT"}
        assert own <= given.keys()
