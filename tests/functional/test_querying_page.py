"""docs/querying.md: its commands, programs and queries run on a warehouse whose stack does not, as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import warehouse
from tidegate.cli import main
from tidegate.environment import CATALOG_URI
from tidegate.reading import reader
from tidegate_local.environment import warehouse_environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "querying.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def section(heading: str) -> str:
    return re.split(r"^## ", PAGE, flags=re.MULTILINE)[
        [*re.findall(r"^## (.+)$", PAGE, re.MULTILINE)].index(heading) + 1
    ]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a shell that has evaluated `tidegate local env`, in which the command line is found."""
    warehouse.make(tmp_path)
    for name in list(os.environ):
        if name.startswith(("TIDEGATE_", "AWS_", "PYICEBERG_")):
            monkeypatch.delenv(name)
    for name, value in warehouse_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    script = tmp_path / "bin" / "tidegate"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidegate.cli.main "$@"\n')
    script.chmod(0o755)
    path = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    return {**os.environ, "PYTHONPATH": path, "PATH": f"{script.parent}:{os.environ['PATH']}"}


def run(words: list[str], environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_run_as_they_stand(environment: dict[str, str], tmp_path: Path):
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", section("tidegate sql"), re.MULTILINE | re.DOTALL)
    said = run(["sh", "-ec", commands], environment, tmp_path)
    assert "lake.flights.departures  5 rows" in said
    assert re.search(r"EWR +3\n", said)
    assert '"longest": 2' in said
    assert (tmp_path / "departures.csv").read_text().startswith("carrier,flight,dest\nUA,1500,")


SAID = {
    "PyIceberg": "[{'carrier': 'UA', 'flight': 1500}, {'carrier': 'UA', 'flight': 1500}]",
    "DuckDB": "[('EWR', 3), ('JFK', 2)]",
    "A notebook": warehouse.BATCHES[0],
}


@pytest.mark.parametrize("heading", SAID)
def test_the_programs_run_as_they_stand(environment: dict[str, str], tmp_path: Path, heading: str):
    (program,) = re.findall(r"^```python\n(.*?)^```$", section(heading), re.MULTILINE | re.DOTALL)
    assert SAID[heading] in run([sys.executable, "-c", program], environment, tmp_path)
    if heading == "PyIceberg":
        assert ask("select count(*), count(gate) from lake.flights.departures") == [("3", "0")]


def test_no_program_is_left_out():
    assert len(blocks("python")) == len(SAID)
    assert len(blocks("sh")) == 1, "those of `tidegate sql`"


ANSWERS = [
    [
        ("s3://landing/flights/2013/01/01/05/EWR.json.gz", "v0", "3"),
        ("s3://landing/flights/2013/01/01/06/JFK.json.gz", "v1", "2"),
    ],
    [
        ("s3://landing/flights/2013/01/01/05/EWR.json.gz", "0", "IAH"),
        ("s3://landing/flights/2013/01/01/05/EWR.json.gz", "1", "ORD"),
        ("s3://landing/flights/2013/01/01/05/EWR.json.gz", "2", "ORD"),
        ("s3://landing/flights/2013/01/01/06/JFK.json.gz", "0", "IAH"),
        ("s3://landing/flights/2013/01/01/06/JFK.json.gz", "1", "ORD"),
    ],
    [(warehouse.BATCHES[1], "1", "2"), (warehouse.BATCHES[0], "1", "3")],
]


@pytest.mark.usefixtures("environment")
def test_the_queries_of_the_lineage_are_answered():
    queries = blocks("sql")
    assert len(queries) == len(ANSWERS)
    for query, rows in zip(queries, ANSWERS, strict=True):
        assert ask(query) == rows


@pytest.mark.usefixtures("environment")
def test_the_query_for_athena_is_one_that_is_answered_here_too():
    (query,) = blocks("sql athena")
    assert ask(query) == [("EWR", "3"), ("JFK", "2")]


def ask(query: str) -> list[Any]:
    assert CATALOG_URI in os.environ
    result = CliRunner().invoke(main.app, ["sql", "--csv", query])
    assert result.exit_code == 0, result.stderr
    return [tuple(line.split(",")) for line in result.stdout.splitlines()[1:]]


def test_every_column_of_the_lineage_is_explained():
    assert re.findall(r"^\| `(_\w+)` \| \S", PAGE, re.MULTILINE) == reader.LINEAGE.names


def test_what_was_not_run_says_so():
    for heading in ("Athena", "Trino", "Spark", "DuckDB", "PyIceberg"):
        assert re.search(r"\*\*Not run", section(heading)), heading
    assert PAGE.count("```") == 2 * len(re.findall(r"^```\w", PAGE, re.MULTILINE))
