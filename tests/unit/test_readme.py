"""The README is so: its figures are the evidence's, its session is what the demo prints, its picture is complete.

What holds for every page (links, names, commands, examples) is in test_docs.py.
"""

import ast
import inspect
import io
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from tidegate.core.outcomes import Outcome
from tidegate.settings import BatchSettings
from tidegate_local.cli.narrator import TerminalNarrator
from tidegate_local.demo import check, mischief, run
from tidegate_local.demo.check import Finding

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EVIDENCE = (ROOT / "docs" / "evidence.md").read_text()
DEPLOY = (ROOT / "docs" / "deploy.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of each line of the tables in a text, headings among them."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not re.fullmatch(r"[| -]+", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def block(text: str, language: str) -> str:
    """The one block of code in a text that is said to be in this language, or in none."""
    (found,) = (code for name, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if name == language)
    return str(found)


# --- the evidence ---


def test_the_figures_are_those_of_the_evidence():
    heading, *measured = rows(EVIDENCE.partition("<!-- generated: comparison -->")[2].partition("<!-- end")[0])
    there = {scheme: (repeated, lost) for scheme, repeated, lost, *_ in measured}
    _, *quoted = rows(section(README, "The evidence"))
    assert {scheme: (repeated, lost) for scheme, repeated, lost in quoted}.items() <= there.items()
    assert {"nothing at all", "Tidegate"} < {scheme for scheme, *_ in quoted}
    (schedules,) = re.findall(r"^([\d,]+) schedules for each scheme, seeds", EVIDENCE, re.MULTILINE)
    assert heading[1] == f"of {schedules} schedules, an upload repeated in"
    assert f"Of {schedules} schedules, with faults" in " ".join(section(README, "The evidence").split())


def test_the_picture_is_that_of_the_evidence_with_the_same_words():
    (picture,) = re.findall(r"^!\[(.+)\]\(evidence\.svg\)$", EVIDENCE, re.MULTILINE)
    assert f"![{picture}](docs/evidence.svg)" in README


def test_the_longest_gap_is_the_one_that_the_evidence_names():
    (gap,) = re.findall(r"([\d,]+) seconds\n?\s*\(\[E\. Urban", README)
    assert f"from 62 milliseconds to {gap} seconds apart" in EVIDENCE


# --- the session ---


def session() -> list[str]:
    return [line for line in block(section(README, "Try it"), "").splitlines() if line.strip() != "..."]


def templates(*modules: ModuleType) -> list[re.Pattern[str]]:
    """What the texts in the modules match, with anything in the place of a value; none that is mostly values."""
    found = []
    for module in modules:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            match node:
                case ast.Constant(value=str(text)):
                    pieces = [text]
                case ast.JoinedStr(values=parts):
                    pieces = [part.value if isinstance(part, ast.Constant) else "\0" for part in parts]
                case _:
                    continue
            text = "".join(pieces)
            if "\0" not in text or len(re.findall(r"[a-z]", text)) >= 7:
                found.append(re.compile(re.escape(text).replace("\0", ".+")))
    return found


CHAPTER = re.compile(r"  \d:\d\d  (.+)")
CHECKED = re.compile(r"  ok    (.+?)  \((.+)\)")
FATE = re.compile(rf"flights/\S+: ({'|'.join(outcome.value for outcome in Outcome)})")
PRINTED = [*templates(run, mischief, check), FATE]


def is_printed(text: str) -> bool:
    return any(each.fullmatch(text) for each in PRINTED)


def as_printed(finding: Finding) -> str:
    narrator = TerminalNarrator()
    narrator.console = Console(file=io.StringIO(), width=200)
    narrator.finding(finding)
    assert isinstance(narrator.console.file, io.StringIO)
    return narrator.console.file.getvalue().rstrip()


@pytest.mark.parametrize("line", session())
def test_each_line_of_the_session_is_one_that_the_demo_prints(line: str):
    if found := CHECKED.fullmatch(line):
        what, seen = found.groups()
        assert as_printed(Finding(what, True, seen)) == line
        assert is_printed(what)
    elif found := CHAPTER.fullmatch(line):
        assert is_printed(found[1])
    else:
        assert is_printed(line.strip())


def test_a_line_that_the_demo_does_not_print_is_noticed():
    assert is_printed("none of them twice")
    assert not is_printed("none of them thrice")
    assert not is_printed("20 notifications delivered thrice, at once")
    assert not is_printed("flights/2013/01/17/15/JFK.json.gz: lost")


def test_the_session_adds_up():
    text = "\n".join(session())
    (uploads, committed, *others) = map(
        int, re.findall(r"\((\d+) = (\d+) \+ (\d+) \+ (\d+) \+ (\d+) \+ (\d+) \+ (\d+)\)", text)[0]
    )
    assert uploads == committed + sum(others)
    (objects,) = re.findall(r"as (\d+) objects", text)
    assert uploads == int(objects) + 1, "one key is uploaded twice"
    (held, checked) = re.findall(r"\((\d+) of (\d+) checks hold\)", text)[0]
    assert held == checked


# --- the rest ---


def test_the_picture_of_the_path_has_every_function_and_no_other():
    picture = block(README, "mermaid")
    assert set(re.findall(r"\"(\w+) \(Lambda\)", picture)) == {
        each.parent.name for each in ROOT.glob("lambdas/*/app.py")
    }
    # every arrow leads from a node to a node that has a shape of its own somewhere
    drawn = set(re.findall(r"\b(\w+)(?=[\[(])", re.sub(r"\"[^\"]*\"", "", picture)))
    ends = re.findall(r"^\s+(\w+)\S* .*?--> (\w+)", re.sub(r"\"[^\"]*\"", "", picture), re.MULTILINE)
    assert len(ends) > 10
    assert {end for pair in ends for end in pair} == drawn


def test_what_is_said_of_costs_and_waiting_is_so():
    (dollars,) = re.findall(r"^\| together \| \| \| ([\d.]+) \|$", DEPLOY, re.MULTILINE)
    assert f"some {float(dollars):.0f} dollars for a million uploads" in " ".join(README.split())
    (minute,) = re.findall(r"(\d+) uploads a minute", section(DEPLOY, "What it costs"))
    assert f"at {minute} uploads a minute" in README
    assert f"`max_wait`, {BatchSettings().max_wait:.0f} s by default" in " ".join(README.split())


def test_every_page_is_listed_with_what_it_answers():
    listed = [
        (page, answer) for page, answer in re.findall(r"^\| \[([\w./-]+\.md)\]\(\1\) \| (.+) \|$", README, re.MULTILINE)
    ]
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert {page for page, _ in listed} == {*pages, "docs/adr/README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    assert len(listed) == len(dict(listed))
    assert all(answer.endswith("?") for _, answer in listed)


def test_a_notice_and_a_notification_are_explained_where_both_are_first_met():
    prose = README.partition("```mermaid")[0]
    assert "notice" not in prose.replace("noticed", "").lower()
    after = README.partition("```mermaid")[2].partition("```")[2]
    assert after.index("*notification*") < after.index("*notice*") < after.index("| decision |")


def test_the_version_of_the_changelog_is_the_one_that_is_being_made():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    first = re.findall(r"^## \[(.+)\]", CHANGELOG, re.MULTILINE)[0]
    assert first in ("Unreleased", version)
    assert f"version {version}" in section(CHANGELOG, f"[{first}]") + first
    assert f"**Status: version {version}, " in README


def test_the_changelog_has_the_headings_of_its_format():
    headings = re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE)
    assert headings
    assert set(headings) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
