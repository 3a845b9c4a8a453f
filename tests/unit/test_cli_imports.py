"""What the command line imports: a list of verbs needs next to nothing, and a verb no more than it uses."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warehouse
from tests.support.verbs import commands, of_nobody
from tidegate.cli import main, plugins, verbs

ROOT = Path(__file__).parents[2]

RUN = """
import sys
try:
    from tidegate.cli.main import app
    app(sys.argv[1:])
finally:
    print("imported:", *sorted(sys.modules), file=sys.stderr)
"""

HEAVY = (
    *(
        "aws_cdk",
        "aws_lambda_powertools",
        "boto3",
        "botocore",
        "duckdb",
        "fastavro",
        "markdown_it",
        "moto",
        "msgspec",
        "numpy",
    ),
    *("obstore", "pandas", "pyarrow", "pydantic", "pyiceberg", "pygments", "pyspark", "rich", "s3transfer"),
)
"""What takes long to import, each for its own reason."""

NO_STATUS = {*HEAVY} - {"boto3", "botocore", "pydantic", "rich", "s3transfer", "pygments", "numpy"}

CLIENTS = """
import botocore.client, tidegate.cli.main, sys
made = []
real = botocore.client.ClientCreator.create_client
def create(self, service_name, *args, **named):
    made.append(service_name)
    return real(self, service_name, *args, **named)
botocore.client.ClientCreator.create_client = create
try:
    tidegate.cli.main.app(sys.argv[1:])
finally:
    print("made:", *made, file=sys.stderr)
"""


def in_a_process(program: str, *arguments: str) -> tuple[int, str, set[str]]:
    """The exit code of a program, what it said, and the words of its last line. Its deployment answers nobody."""
    environment = of_nobody()
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    said, _, last = done.stderr.rstrip().rpartition("\n")
    return done.returncode, done.stdout + said, set(last.split()[1:])


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize(
    ("arguments", "may"),
    [
        (["--help"], set()),
        (["--version"], set()),
        # Typer itself parses a word by pydantic
        (["local", "--help"], {"pydantic"}),
        (["statsu"], {"pydantic"}),
    ],
)
def test_a_list_of_verbs_imports_none_of_what_they_use(arguments: list[str], may: set[str]):
    _, _, imported = in_a_process(RUN, *arguments)
    assert "typer" in imported
    assert sorted(packages(imported) & {*HEAVY} - may) == []
    assert not [
        name for name in imported if name.startswith(("tidegate.flows", "tidegate.settings", "tidegate.wiring"))
    ]


def test_status_imports_what_it_uses_up_to_its_first_call():
    code, said, imported = in_a_process(RUN, "status")
    assert "could not" in said, said
    assert code == 3
    assert "botocore" in imported
    assert sorted(packages(imported) & NO_STATUS) == []
    used = {"tidegate.cli.status", "tidegate.flows.status"}
    assert used <= imported
    assert not {"tidegate.cli.audit_table", "tidegate.flows.audit", "tidegate_local"} & imported
    # what other verbs print, and the flows that they call
    assert not {
        "tidegate.cli.render",
        "tidegate.cli.json_output",
        "tidegate.flows.settle",
    } & (imported)


@pytest.mark.parametrize("verb", ["status", "trace", "files"])
def test_the_help_of_a_verb_imports_none_of_what_calls_aws(verb: str):
    code, said, imported = in_a_process(RUN, verb, "--help")
    assert code == 0, said
    assert f" {verb} [OPTIONS]" in said
    assert sorted(packages(imported) & {*HEAVY} - {"pydantic"}) == []
    assert not [name for name in imported if name.startswith(("tidegate.settings", "tidegate.aws", "tidegate.stores"))]


COLLECTIONS = """
import gc, sys
try:
    from tidegate.cli.main import app
    app(sys.argv[1:])
finally:
    print("collections:", sum(each["collections"] for each in gc.get_stats()), file=sys.stderr)
"""


def test_a_verb_spends_no_time_on_collecting_what_its_imports_leave():
    _, said, (collections,) = in_a_process(COLLECTIONS, "status")
    assert int(collections) < 100, said


def test_sql_on_this_machine_imports_the_engine_and_none_of_what_deployments_need(tmp_path: Path):
    warehouse.make(tmp_path)
    _, said, imported = in_a_process(RUN, "sql", "--dir", str(tmp_path), "select count(*) from lake.flights.departures")
    assert "5" in said
    assert "duckdb" in imported
    heavy = {"boto3", "botocore", "numpy", "pandas", "pyarrow", "pyiceberg", "pyspark", "sqlalchemy"}
    assert sorted(packages(imported) & heavy) == []
    assert "tidegate.settings" not in imported


def test_a_verb_makes_only_the_clients_that_it_calls():
    _, said, made = in_a_process(CLIENTS, "status")
    assert made == {"dynamodb"}, said


def test_the_list_says_how_the_help_of_each_verb_begins():
    loaded = commands()
    assert {verb.name for verb in main.VERBS} | plugins.verbs().keys() == loaded.keys()
    for verb in main.VERBS:
        assert verb.get_short_help_str() == verbs.first_sentence(loaded[str(verb.name)].help)


def test_what_is_plugged_in_is_listed_with_a_whole_sentence():
    _, said, _ = in_a_process(RUN, "--help")
    assert "..." not in said.replace("[ARGS]...", "")
    assert " local " in said
