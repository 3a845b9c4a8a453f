"""`tidegate status --watch`: what each look shows and costs, and how it ends."""

import re
from collections import Counter
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tests.support.fakes import CountedLetters, no_letters, play_publishing
from tests.support.past import DatedWorld, asked_of, dated_world
from tidegate.cli import deployment, main, watch
from tidegate.cli.exits import Exit
from tidegate.core.errors import Retryable
from tidegate.core.records import batch_key
from tidegate.core.times import iso
from tidegate.flows.ports import Ports
from tidegate.flows.throughput import Throughput


class Watched:
    """A deployment in memory that goes on between the looks, and Ctrl-C after the last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = dated_world()
        self.ports: Ports = self.world.ports
        self.boxes = no_letters()
        self.meanwhile: list[Any] = []
        self.slept: list[float] = []
        found = SimpleNamespace(
            routes={"flights": self.world.flights}, ports=lambda: self.ports, letters=lambda: self.boxes
        )
        self.find: Any = lambda folder: found
        monkeypatch.setattr(deployment, "find", lambda folder: self.find(folder))
        monkeypatch.setattr(watch, "sleep", self.sleep)
        monkeypatch.setattr(watch, "time", SimpleNamespace(time=lambda: self.world.clock.now))

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if not self.meanwhile:
            raise KeyboardInterrupt
        self.meanwhile.pop(0)()

    def run(self, *arguments: str) -> Any:
        return CliRunner().invoke(main.app, ["status", "--watch", *arguments], catch_exceptions=False)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def looks(printed: str) -> list[str]:
    """What each look has printed: it begins with the time."""
    return re.split(r"^(?=\d{4}-\d\d-\d\dT\S+  )", printed, flags=re.MULTILINE)[1:]


def test_ctrl_c_is_how_it_ends(watched: Watched):
    done = watched.run("--every", "7")
    assert (done.exit_code, done.stderr, watched.slept) == (Exit.OK, "", [7])
    assert done.stdout == (
        f"{iso(watched.world.clock.now)}  watching from now on\n"
        "0 jobs under way, as the ledger has it\nnothing needs a person\n\n"
        "flights\n  0 uploads pending, 0 committed with 0 rows, 0 quarantined\n"
        "  nothing gathers, and no batch is under way\n\n"
    )


def test_each_look_shows_what_has_happened_since_it_began(watched: Watched):
    world = watched.world
    world.land("flights/before-")
    gathering: list[str] = []
    running: list[str] = []

    def gather() -> None:
        world.clock.advance(10)
        world.arrive(2)
        gathering.append(world.open.id)

    def land() -> None:
        world.ledger.seal(world.open.id, "flights", "lake.raw.flights")
        world.hand_off()
        running.append(world.record.running[0])
        world.clock.advance(20)

    def end() -> None:
        play_publishing(world.work, running[0], rows=15)
        world.settle()

    watched.meanwhile = [gather, land, end]
    before, gathers, runs, ended = looks(watched.run().stdout)
    assert "watching from now on" in before
    assert f"  {gathering[0]}  OPEN\n    of flights: 2 uploads, 20 B, for 0s\n" in gathers
    assert "    due in 5m at the latest, or when it is full\n" in gathers
    assert f"  {running[0]}  SUBMITTED, attempt 1\n    of flights: 2 uploads, 20 B, for 20s\n    job " in runs
    assert "1 job under way" in runs
    assert "in 30s: 2 uploads ended, 30 rows landed; a second 0.1 and 1.0" in ended
    assert "0 uploads pending, 5 committed with 33 rows" in ended


def test_on_a_terminal_a_look_takes_the_place_of_the_one_before(watched: Watched, monkeypatch: pytest.MonkeyPatch):
    screen = StringIO()
    monkeypatch.setattr(watch, "console", lambda: Console(file=screen, force_terminal=True, width=72, highlight=False))
    monkeypatch.setattr("tidegate.cli.terminal.has_width", lambda **_: True)
    watched.world.arrive(2)
    watched.meanwhile = [lambda: None]
    assert watched.run().exit_code == Exit.OK
    nothing, first, second = screen.getvalue().split("\x1b[2J\x1b[H")
    assert nothing == ""
    assert "OPEN" in first
    assert "OPEN" in second
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue().replace("\x1b[2J\x1b[H", ""))
    assert [line for line in plain.splitlines() if len(line) > 72] == []


def watched_on_a_screen(watched: Watched, monkeypatch: pytest.MonkeyPatch, *, height: int) -> list[str]:
    """The lines of the last look, on a terminal of 72 columns."""
    screen = StringIO()
    size = {"width": 72, "height": height}
    monkeypatch.setattr(watch, "console", lambda: Console(file=screen, force_terminal=True, highlight=False, **size))
    monkeypatch.setattr("tidegate.cli.terminal.has_width", lambda **_: True)
    assert watched.run().exit_code == Exit.OK
    last = screen.getvalue().split("\x1b[2J\x1b[H")[-1]
    return re.sub(r"\x1b\[[0-9;]*m", "", last).splitlines()


def of_many_routes(watched: Watched, many: int) -> None:
    world = watched.world
    routes = {f"r{number:02}": replace(world.flights, name=f"r{number:02}") for number in range(many)}
    found = SimpleNamespace(routes=routes, ports=lambda: watched.ports, letters=lambda: watched.boxes)
    watched.find = lambda folder: found


@pytest.mark.parametrize("height", [12, 24, 40])
def test_a_terminal_shows_what_needs_a_person_first_and_how_much_it_leaves_out(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, height: int
):
    of_many_routes(watched, 20)
    batch = watched.world.ledger.open_batch("r17", watched.world.new_id)
    watched.world.edit(batch_key(batch.id), state="SUBMITTED", halted="no such column", attempt=1)
    lines = watched_on_a_screen(watched, monkeypatch, height=height)
    assert len(lines) == height - 1
    assert lines[2].startswith("halted: batch ")
    assert re.fullmatch(r"and \d+ lines more: `tidegate status` shows all", lines[-1])
    whole = watched_on_a_screen(watched, monkeypatch, height=200)
    assert [line for line in whole if re.fullmatch(r"r\d\d", line)] == [f"r{number:02}" for number in range(20)]
    assert lines[:-1] == whole[: height - 2]


def test_what_needs_a_person_is_shown_as_ever(watched: Watched):
    batch = watched.world.submitted()
    watched.world.ledger.halt(batch.id, 1, "no such column")
    watched.boxes = (CountedLetters(2), CountedLetters())
    said = watched.run().stdout
    assert "halted: batch" in said
    assert f"tidegate resume {batch.id}\n" in said
    assert "dead letters: 2 of notifications" in said


def test_it_neither_ends_with_a_code_nor_prints_one_document(watched: Watched):
    for option in ("--json", "--check"):
        done = watched.run(option)
        assert (done.exit_code, done.stdout) == (Exit.USAGE, "")


def test_a_deployment_that_does_not_answer_ends_it(watched: Watched):
    def fail(name: str) -> None:
        raise Retryable("could not read r#flights")

    watched.ports = replace(watched.ports, ledger=SimpleNamespace(known_routes=lambda: fail("")))  # type: ignore[arg-type]
    done = watched.run()
    assert (done.exit_code, "could not read r#flights" in done.stderr) == (Exit.NO_STACK, True)


def cost_of_three_looks(watched: Watched, world: DatedWorld) -> tuple[Counter[str], int]:
    watched.ports, asked = asked_of(world)
    watched.boxes = no_letters()
    watched.meanwhile = [lambda: None, lambda: None]
    assert len(looks(watched.run().stdout)) == 3
    return asked, sum(box.asked for box in watched.boxes)


def test_a_look_costs_the_same_however_long_the_history_is(watched: Watched):
    world = watched.world
    costs = []
    for batches in (2, 60):
        for number in range(batches):
            world.land(f"flights/{batches}-{number}-")
            world.clock.advance(60)
        world.arrive(1, prefix=f"flights/open-{batches}-")
        costs.append(cost_of_three_looks(watched, world))
    # of each look: the routes, the outbox and the workers; their records; their unfinished batches; the two queues
    assert costs[0] == costs[1] == ({"query": 9, "get_many": 6}, 6)


def test_a_busy_route_costs_no_more_than_the_page_says(watched: Watched):
    world = watched.world
    for number in range(5):
        world.sealed(prefix=f"flights/{number}-")
    world.hand_off()
    asked, letters = cost_of_three_looks(watched, world)
    assert (sum(asked.values()) + letters) / 3 <= 9


def test_a_rate_needs_time():
    assert Throughput(10, 100, 0).a_second(10) == 0
    assert Throughput(10, 100, 4).a_second(10) == 2.5
