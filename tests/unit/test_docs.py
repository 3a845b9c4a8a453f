"""What the pages say is so: links lead somewhere, names in the code exist, examples parse, tables are complete."""

import ast
import math
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

from docs.render_configuration import PAGE, SECTIONS, render
from tests.support.verbs import commands
from tidegate.core import notifications
from tidegate.cost.prices import PRICES
from tidegate.metrics import Metric
from tidegate.schedule import SCHEDULE
from tidegate.settings import DAY, MINUTE, Settings, parse
from tidegate.sinks.iceberg import columns

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
RECORDS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
FOLDERS = "tidegate|tidegate_local|infra|lambdas|simulation|bench|tests"
IDS = {"ids": lambda path: str(path.relative_to(ROOT))}

WORDS = (
    *("upload", "notice", "claim", "ledger", "batch", "part", "hand-off", "attempt", "staged", "published", "fenced"),
    *("receipt", "settle", "audit", "resend", "quarantine", "floor", "sealed", "halted", "superseded"),
    *("vanished", "outcome", "route", "buffer", "committed", "pending", "abandoned", "manifest", "void", "work bucket"),
)

# dotted names that are no modules: two files, two snapshot properties, and two of tables
NO_MODULES = {
    *("simulation.md", "tidegate.toml", "tidegate.example.toml", "tidegate.driver", "tidegate.attempt"),
    *("tidegate.maintain", "tidegate.writer", "tidegate.where"),
}

# settings that the reader of docs/deploy.md writes
READERS_OWN = {"staging.toml", "production.toml", "hour.toml"}


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings can be linked by, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, **IDS)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (fragment and fragment not in anchors(file)):
            wrong.append(target)
    assert not wrong


@pytest.mark.parametrize("page", PAGES, **IDS)
def test_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(rf"(?<![\w./-])(?:{FOLDERS}|docs)/[\w./-]*\w\.(?:py|md|toml)\b", text))
    named |= set(re.findall(rf"`((?:{FOLDERS}|docs)/[\w./-]*)`", text))
    named |= set(re.findall(r"`([\w-]+\.(?:py|toml|txt)|Makefile)`", text))
    assert not [name for name in sorted(named - READERS_OWN) if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", PAGES, **IDS)
def test_names_in_the_code_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(rf"(?<![\w./:-])(?:{FOLDERS})(?:\.[A-Za-z_]\w*)+", page.read_text()))
    assert not [name for name in sorted(named - NO_MODULES) if not in_the_code(name)]


def in_the_code(name: str) -> bool:
    """Whether a dotted name is a module, or something that a module or a class in it defines."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return defines(ast.parse(file.read_text()), parts[length:])
        if path.is_dir():
            return length == len(parts)
    return False


def defines(node: ast.AST, names: list[str]) -> bool:
    if not names:
        return True
    return any(name == names[0] and defines(child, names[1:]) for name, child in definitions(node))


def definitions(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for child in getattr(node, "body", []):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, child
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, child


def test_the_check_of_names_can_fail() -> None:
    assert in_the_code("tidegate.flows.publish.Attempt.publish")
    assert in_the_code("tidegate.core.outcomes.Outcome.VANISHED")
    assert in_the_code("tidegate.flows")
    assert not in_the_code("tidegate.flows.publish.Attempt.perish")
    assert not in_the_code("tidegate.flows.guess")


@pytest.mark.parametrize("page", PAGES, **IDS)
def test_examples_of_the_configuration_parse(page: Path) -> None:
    for example in re.findall(r"^```toml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        assert parse(example).routes


def test_there_are_examples_of_the_configuration() -> None:
    assert "```toml" in (ROOT / "README.md").read_text()
    assert "```toml" in PAGE.read_text()


def test_the_page_of_the_configuration_is_what_the_models_say() -> None:
    assert PAGE.read_text() == render(), "run `.venv/bin/python docs/render_configuration.py`"


def test_every_section_of_the_configuration_has_a_table() -> None:
    tables = {model for _, model in SECTIONS}
    sections = {field.annotation for model in (Settings, *tables) for field in model.model_fields.values()}
    models = {each for each in sections if isinstance(each, type) and hasattr(each, "model_fields")}
    assert models <= tables
    for _, model in SECTIONS:
        for name, field in model.model_fields.items():
            assert f"\n| `{field.alias or name}` | " in PAGE.read_text()


def test_the_glossary_defines_every_word_once() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    defined = re.findall(r"^\| \*\*(.+?)\*\* \| \S", page, re.MULTILINE)
    within = re.findall(r"(?<!\*)\*([a-z ]+)\*(?!\*)", page)
    assert not set(WORDS) - {*defined, *within}
    assert defined == sorted(set(defined)), "each word once, in order"
    assert len(defined) <= 45, "nobody learns more"


@pytest.mark.parametrize("record", RECORDS, **IDS)
def test_a_decision_record_says_what_one_needs_to_reverse_it(record: Path) -> None:
    text = record.read_text()
    assert re.match(rf"# {record.name[:4]}: \S", text)
    assert re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "What would change it"]
    assert len(text.split()) <= 150
    title = text.splitlines()[0].removeprefix("# ")
    assert f"[{title}]({record.name})" in (record.parent / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, **IDS)
def test_verbs_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"(?:^|[`/])tidegate ((?:local |ledger )?[a-z]+)", page.read_text(), re.MULTILINE))
    assert not named - verbs()


@cache
def verbs() -> set[str]:
    top = commands()
    groups = {name: group for name, group in top.items() if isinstance(group, typer.core.TyperGroup)}
    assert {"ledger", "local"} <= groups.keys()
    return {*top, *(f"{name} {verb}" for name, group in groups.items() for verb in group.commands)}


@pytest.mark.parametrize("page", PAGES, **IDS)
def test_targets_of_make_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z]+(?:-[a-z]+)*)", page.read_text(), re.MULTILINE))
    assert not named - targets()


@cache
def targets() -> set[str]:
    (phony,) = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "demo" in phony.split()
    return set(phony.split())


@cache
def operations() -> str:
    return (ROOT / "docs" / "operations.md").read_text()


def test_the_page_has_a_row_for_every_metric_in_its_words() -> None:
    table = (ROOT / "docs" / "metrics.md").read_text().partition("## Metrics")[2]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \| ([a-z, ]+) \| (.+) \|$", table, re.MULTILINE)
    assert rows == [
        (each.name, each.unit, "gauge" if each.gauge else "counter", ", ".join(each.by), each.meaning)
        for each in (metric.value for metric in Metric)
    ]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("README.md", "every minute, and when a job ends"),
        ("docs/architecture.md", "called by `lambdas/settle/app.py` once a minute"),
        ("docs/glossary.md", "once a minute, when a job ends, and when a receipt is written"),
        ("docs/metrics.md", "A gauge is written every minute"),
        ("docs/operations.md", "older than `max_wait`, a minute and two hours"),
    ],
)
def test_the_pages_tell_how_often_settling_looks(page: str, words: str) -> None:
    assert SCHEDULE == MINUTE, "these sentences have to change"
    assert words in " ".join((ROOT / page).read_text().split())


def reasons(file: str, error: str) -> list[list[str]]:
    """What the texts given to `error` in a file of the code say around the values that they carry."""
    calls = [node for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.Call)]
    texts = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == error]
    return [
        [" ".join(part.value.split()) for part in text.values if isinstance(part, ast.Constant)]
        for text in texts
        if isinstance(text, ast.JoinedStr)
    ]


def misfits() -> list[list[str]]:
    """As `reasons`, of the columns that do not fit."""
    texts = [
        node for node in ast.walk(ast.parse(Path(columns.__file__).read_text())) if isinstance(node, ast.JoinedStr)
    ]
    found = [[" ".join(part.value.split()) for part in text.values if isinstance(part, ast.Constant)] for text in texts]
    told = [pieces for pieces in found if pieces and pieces[0] in ("table", "column")]
    assert len(told) >= 5
    return told


def test_every_reason_to_give_a_batch_up_is_explained() -> None:
    told = " ".join(operations().split())
    there = [
        *reasons("tidegate/core/publication.py", "Unprovable"),
        *reasons("tidegate/flows/publish.py", "Hopeless"),
        *reasons("tidegate/flows/rejected.py", "RejectedUndecided"),
        *reasons("tidegate/sinks/iceberg/sink.py", "Hopeless"),
        *reasons("tidegate/sinks/iceberg/sink.py", "RejectedUndecided"),
        *reasons("tidegate/sinks/iceberg/rejected.py", "Hopeless"),
        *misfits(),
    ]
    assert len(there) >= 12
    for pieces in there:
        # "table {name} has no column {name}, which" is told as "table ... has no column ..."
        beginnings = [" ".join(piece.strip(" :,.").split()[:3]) for piece in pieces]
        assert any(words in told for words in beginnings if words.count(" ") == 2), pieces


@cache
def hour() -> str:
    return (ROOT / "docs" / "deploy.md").read_text().partition("## An hour in an account")[2]


@cache
def steps() -> str:
    return (ROOT / "docs" / "hour.sh").read_text()


def test_the_hour_has_a_row_for_each_step() -> None:
    subprocess.run(["bash", "-n"], input=steps(), text=True, check=True)
    numbers = re.findall(r"^step(\d)\(\) \{$", steps(), re.MULTILINE)
    assert numbers == re.findall(r"^\| (\d)\. ", hour(), re.MULTILINE)
    assert len(numbers) == 8


def test_the_hour_has_settings_that_parse_for_each_of_its_deployments(tmp_path: Path) -> None:
    (tmp_path / "hour.toml").write_text((ROOT / "docs" / "hour.toml").read_text())
    arn = "arn:aws:s3tables:us-east-1:123456789012:bucket/hour-tables"
    made = re.findall(r"^ +(sed .* hour\.toml > (hour-[a-z]+)\.toml)\n +(printf .*)\n", steps(), re.MULTILINE)
    assert [name for _, name, _ in made] == ["hour-fails", "hour-key", "hour-tables"]
    for edit, name, more in made:
        subprocess.run(["bash", "-ec", f"arn={arn}\naccount=123456789012\n{edit}\n{more}"], cwd=tmp_path, check=True)
        parsed = parse((tmp_path / f"{name}.toml").read_text())
        (route,) = parsed.routes
        assert parsed.deployment.name == name
        assert route.bucket == f"{name}-123456789012"
        assert route.table == f"lake.{name.replace('-', '_')}.lines"


def test_the_hour_changes_its_settings_to_others_that_parse(tmp_path: Path) -> None:
    (tmp_path / "hour.toml").write_text((ROOT / "docs" / "hour.toml").read_text())
    changes = re.findall(r"^ +(?:sed -i.* hour\.toml|printf .* >> hour\.toml)$", steps(), re.MULTILINE)
    assert len(changes) == 2
    subprocess.run(["bash", "-ec", "\n".join(changes)], cwd=tmp_path, check=True)
    parsed = parse((tmp_path / "hour.toml").read_text())
    assert (parsed.routes[0].expect_every, parsed.limits.vcpu) == (DAY, 12)


def test_the_hour_sends_a_notification_that_intake_understands() -> None:
    (body,) = re.findall(r"""--message-body '(\{.*\})'$""", steps(), re.MULTILINE)
    filled = body
    for variable, value in (("$BUCKET", "landing"), ("$1", "7"), ("$((size))", "22"), ("$etag", "e" * 32)):
        filled = re.sub(r"'\"?" + re.escape(variable) + r"\"?'", value, filled)
    (record,) = notifications.parse(filled)
    assert isinstance(record, notifications.Notified)
    assert (record.upload.bucket, record.upload.key, record.upload.size) == ("landing", "lines/few/7.json", 22)


def test_the_hour_is_priced_as_the_list_of_prices_says() -> None:
    vcpu, memory = (PRICES[f"EMR Serverless, {what}"].dollars for what in ("vCPU", "memory"))
    puts = PRICES["S3, puts and listings"].of(21_000)
    spark, uploads = (math.ceil(100 * dollars) / 100 for dollars in (16 * vcpu + 64 * memory, puts))
    assert f"16 x ${vcpu} + 64 x ${memory} | {spark:.2f} |" in hour()
    assert f"21 x $0.005 for 1,000 PUTs | {uploads:.2f} |" in hour()
