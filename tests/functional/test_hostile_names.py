"""Every verb over uploads whose keys, versions and errors were made to act on the terminal of whoever looks."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.support import warehouse
from tests.support.build import BUCKET
from tests.support.fakes import no_letters, play_publishing
from tests.support.past import DatedWorld, dated_world
from tests.support.verbs import commands
from tests.unit.test_cli_terminal import EVIL, acts
from tests.unit.test_settings import GOOD
from tidegate import wiring
from tidegate.cli import deployment, main, printed
from tidegate.cli.exits import Exit
from tidegate.core.batches import State
from tidegate.core.notices import pack
from tidegate.core.outcomes import Outcome
from tidegate.core.uploads import Upload
from tidegate.settings import DAY, parse

FORGED = "committed     9 rows  s3://landing/flights/never-uploaded.json"
KEY = f"flights/{EVIL}`tidegate abort`\n  {FORGED}\r\n  {FORGED}"
URI = f"s3://{BUCKET}/{KEY}"
ERROR = f"line 1: {EVIL}\n  {FORGED}"

ASKED: dict[str, list[list[str]]] = {
    "status": [["status"], ["status", "--json"]],
    "trace": [["trace", URI], ["trace", URI, "--json"], ["trace", URI + "x"], ["trace", f"s3://other/{KEY}"]],
    "files": [
        ["files"],
        ["files", "--json"],
        ["files", "--state", "quarantined"],
        ["files", "--key", KEY + "x"],
        ["files", "--batches"],
        ["files", "--batches", "--json"],
    ],
    "resend": [
        *(["resend", URI], ["resend", URI + "x"], ["resend", EVIL], ["resend", "{halted}"]),
        *(["resend", "quarantine", "--dry-run"], ["resend", "quarantine", "--key", KEY]),
    ],
    "resume": [
        *(["resume", EVIL], ["resume", "{halted}"]),
        *(["resume", EVIL, "--not-published"], ["resume", "{halted}", "--not-published"]),
    ],
    "abort": [["abort", EVIL], ["abort", "{halted}"]],
    "pause": [["pause", EVIL], ["pause", EVIL, "--end"]],
    "audit": [["audit"], ["audit", "--json", "--send"], ["audit", "--route", EVIL]],
}
PRINT_BY_THE_SAME_DOOR = frozenset(
    {
        *("ui", "sql", "init", "try", "check", "cost", "doctor"),
        *("maintain", "ledger", "local"),
    }
)
"""They have no deployment in memory, or print no names of others. `sql` is below, and no verb prints otherwise than by
`terminal` and `printed` (tests/unit/test_cli_terminal.py)."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> DatedWorld:
    """One upload in quarantine, and one in a batch that halted over it."""
    world = dated_world(max_wait=0)
    play_publishing(world.work, submitted(world, "v1"), {KEY: (Outcome.QUARANTINED, ERROR)})
    world.settle()
    halted = submitted(world, f"v2{EVIL}")
    world.ledger.halt(halted, 1, f"e.g. {URI}: {ERROR}", undecided=True)
    world.listing.there[Upload(BUCKET, f"{KEY}lost", "v3", 10, "0C")] = world.clock() - 5 * DAY
    found = SimpleNamespace(
        routes=world.routes,
        fencer=lambda tell: None,
        settings=parse(GOOD),
        resources=SimpleNamespace(deployment="here"),
        ports=lambda attempt="": world.ports,
        letters=no_letters,
    )
    for name in ("find", "find_to_look"):
        monkeypatch.setattr(deployment, name, lambda folder, **_: found)
    monkeypatch.setattr(wiring, "clock", world.clock)
    monkeypatch.setattr(wiring, "paced", lambda rate: lambda sent: None)
    return world


def submitted(world: DatedWorld, version: str) -> str:
    """A batch of one upload, whose first job runs."""
    for notice in pack("flights", BUCKET, [Upload(BUCKET, KEY, version, 10, version, 0)]):
        world.dispatch(notice)
    batch = world.open.id
    world.clock.advance(1_000)
    assert not world.settle()
    assert world.batch(batch).state is State.SUBMITTED
    return batch


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main.app, [*arguments], input="", catch_exceptions=False)


@pytest.mark.parametrize("width", ["", "60"])
@pytest.mark.parametrize("asked", [each for several in ASKED.values() for each in several], ids=lambda each: each[0])
def test_no_verb_lets_a_name_act_on_the_terminal(
    world: DatedWorld, monkeypatch: pytest.MonkeyPatch, asked: list[str], width: str
):
    if width:
        monkeypatch.setenv("COLUMNS", width)
    (batch,) = [each.id for each in world.ledger.batches(world.record.running).values() if each.halted]
    done = run(*(each.replace("{halted}", batch) for each in asked), *(["--dir", "/srv/stack"] if width else []))
    for said in (done.stdout, done.stderr):
        assert acts(said) == []
        # what begins further to the right is seen to go on with the line before
        assert not re.findall(rf"^ {{0,3}}{FORGED[:20]}", said, re.MULTILINE)
        # the command in the key
        assert "tidegate abort --dir /srv/stack`" not in said
    if "--json" in asked:
        json.loads(done.stdout)


def test_every_verb_is_asked_or_prints_by_the_same_door():
    assert ASKED.keys() | PRINT_BY_THE_SAME_DOOR == set(commands())
    assert not ASKED.keys() & PRINT_BY_THE_SAME_DOOR


def test_what_is_shown_is_the_key_all_the_same(world: DatedWorld):
    assert printed.visible(KEY) in run("resend", "quarantine", "--dry-run").stdout
    document = json.loads(run("files", "--state", "quarantined", "--json").stdout)
    assert [each["uri"] for each in document["files"]] == [URI]


@pytest.mark.parametrize("form", ["", "--csv", "--json"])
def test_a_cell_of_a_table_does_not_act_on_the_terminal(tmp_path: Path, form: str):
    """CSV is a file's; a terminal gets it as a table."""
    warehouse.make(tmp_path / "stack")
    cell = "chr(27) || '[2J' || chr(10) || '  committed' || chr(8238)"
    query = f'select {cell} as "a\x1b[2K" from lake.flights.departures'
    done = run("sql", "--dir", str(tmp_path / "stack"), query, *filter(None, [form]))
    assert done.exit_code == Exit.OK, done.stderr
    if form != "--csv":
        assert acts(done.stdout) == []
        assert not re.findall("^ {0,3}committed", done.stdout, re.MULTILINE)
