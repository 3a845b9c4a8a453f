"""docs/operations.md, proved by running: every command of it is typed in a scenario of its section."""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ulid import ULID

from infra.roster import FeedQueue
from tests.functional.runbook import Scenario, load
from tests.functional.runbook.parts import make_parts
from tests.functional.runbook.shell import Shell, make_aws
from tests.functional.runbook.stage import Stage
from tests.functional.test_handlers import EMR, Deployment, clients, deployment  # noqa: F401 (used by name)
from tests.support.pages import Section, complete_commands, inline_commands, sections
from tidegate import wiring
from tidegate.aws import letters
from tidegate.environment import variable

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations.md"
SCENARIOS = load()
BEFORE = "Before you type"
RUN_ELSEWHERE = {
    each: ROOT / "tests/infra/test_ledger_page.py"
    for each in ("Switch off what writes", "Make an empty table", "Switch on again")
}
"""Sections whose commands another test runs, with all that are under them."""
WITHIN_SENTENCES_ONLY = {
    "tidegate doctor": ROOT / "tests/unit/test_cli_doctor.py",
    "tidegate doctor --aws --job": ROOT / "tests/e2e/test_selftest.py",
    "tidegate doctor --aws --outputs cdk.out/outputs.json": ROOT / "tests/infra/test_doctor.py",
    "tidegate local env": ROOT / "tests/unit/test_cli.py",
    "tidegate status --watch": ROOT / "tests/unit/test_cli_watch.py",
    "tidegate ui": ROOT / "tests/functional/test_ui_pages.py",
}
"""Commands of sentences that are in no block, and who runs them."""


def elsewhere(section: Section) -> bool:
    return bool(RUN_ELSEWHERE.keys() & set(section.path))


WITH_COMMANDS = [each for each in sections(PAGE) if each.steps and not elsewhere(each)]
PLAYED = [(each, play) for each in WITH_COMMANDS for play in SCENARIOS.get(each.heading, [])]


@pytest.fixture(scope="module")
def aws(clients: None) -> Any:  # noqa: F811
    return make_aws(EMR.serve)


@pytest.fixture
def shell(tmp_path: Path, aws: Any) -> Iterator[Shell]:
    folder = tmp_path / "project"
    folder.mkdir()
    made = Shell(folder, aws)
    yield made
    made.close()


@pytest.fixture
def stage_of(
    deployment: Deployment,  # noqa: F811
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """Makes the stage of a section: the deployment, its outputs in a file, its parts in an account."""
    named = deployment.resources
    queues = {FeedQueue.BUFFER: named.buffer, FeedQueue.NOTICES: named.notices}
    outputs = {
        "".join(word.capitalize() for word in name.split("_")): getattr(named, name)
        for name in named.__slots__
        if name != "deployment"
    }
    assert all(os.environ[variable(name)] == value for name, value in outputs.items())
    file = shell.folder / "cdk.out" / "outputs.json"
    file.parent.mkdir()
    file.write_text(json.dumps({named.deployment: outputs}))
    monkeypatch.chdir(shell.folder)
    # commands read the time of a batch in its id
    ids = itertools.count()
    monkeypatch.setattr(wiring, "new_id", lambda: str(ULID.from_timestamp(deployment.clock() + next(ids) / 1000)))
    # one receive asks all of moto's servers
    monkeypatch.setattr(letters, "PATIENCE", 0)

    def make(section: Section) -> Stage:
        stage = Stage(deployment, shell, section, make_parts(named.deployment, queues))
        if section.heading != BEFORE:
            (before,) = [each for each in sections(PAGE) if each.heading == BEFORE]
            stage.prepares(before)
        return stage

    return make


played: dict[str, set[str]] = {}
"""The steps that were typed in each section so far, and the scenarios that have ended well."""
ended: set[tuple[str, str]] = set()


@pytest.mark.parametrize(
    ("section", "play"), PLAYED, ids=[f"{section.heading}: {play.__name__}" for section, play in PLAYED]
)
def test_what_the_page_says_works(section: Section, play: Scenario, stage_of: Any) -> None:
    stage = stage_of(section)
    play(stage)
    played.setdefault(section.heading, set()).update(stage.typed)
    ended.add((section.heading, play.__name__))


def test_every_command_of_the_page_was_typed() -> None:
    """Of the sections whose scenarios all ran before this: a choice of tests may leave some out."""
    for section in WITH_COMMANDS:
        plays = {(section.heading, play.__name__) for play in SCENARIOS[section.heading]}
        if plays <= ended:
            assert set(section.steps) - played[section.heading] == set(), f"nobody typed these of {section.heading!r}"


def test_every_section_with_commands_has_a_scenario_and_every_scenario_a_section() -> None:
    assert {each.heading for each in WITH_COMMANDS} == set(SCENARIOS)
    headings = [each.heading for each in WITH_COMMANDS]
    assert len(set(headings)) == len(headings), "scenarios are found by the heading"


def test_what_is_run_elsewhere_is() -> None:
    for heading, file in RUN_ELSEWHERE.items():
        assert any(each.steps and heading in each.path for each in sections(PAGE))
        assert heading in file.read_text()
    for file in WITHIN_SENTENCES_ONLY.values():
        assert file.exists()


def test_a_command_within_a_sentence_is_the_beginning_of_one_that_is_typed() -> None:
    steps = [step.replace(".venv/bin/", "") for each in sections(PAGE) for step in each.steps]
    commands = {*inline_commands(PAGE.read_text())} - set(WITHIN_SENTENCES_ONLY)
    assert commands
    assert [each for each in sorted(commands) if not any(f"{step} ".startswith(f"{each} ") for step in steps)] == []


# --- the reader of the page


def test_the_reader_finds_whole_commands() -> None:
    block = 'a=1\n# a comment\nls \\\n  -l\nfor x in 1 2; do\n  echo "$x"\ndone\nsay() {\n  echo hi\n}\n\ntrue\n'
    whole = ["a=1", "ls \\\n  -l", 'for x in 1 2; do\n  echo "$x"\ndone', "say() {\n  echo hi\n}", "true"]
    assert list(complete_commands(block)) == whole
    with pytest.raises(ValueError, match="no complete command"):
        list(complete_commands("for x in 1 2; do\n"))


def test_the_reader_finds_sections_and_commands_in_sentences(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# P\n\n## A\n\n```sh\n# no heading\nls\n```\n\n### B\n\nSee `tidegate x\ny` and `aws`.\n\n## C\n")
    assert [each.path for each in sections(page)] == [("A",), ("A", "B"), ("C",)]
    assert [each.steps for each in sections(page)] == [("ls",), (), ()]
    assert list(inline_commands(page.read_text())) == ["tidegate x y"]


def test_the_reader_finds_the_block_of_a_list(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("## A\n\n1. Do:\n\n   ```sh\n   # no heading\n   ls \\\n     -l\n   ```\n\n2. See `aws x`.\n")
    (section,) = sections(page)
    assert section.steps == ("ls \\\n  -l",)
    assert list(inline_commands(page.read_text())) == ["aws x"]
