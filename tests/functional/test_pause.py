"""A paused route gathers and hands off nothing new; what has begun ends; nothing is lost."""

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.support.build import route
from tests.support.fakes import no_letters, play_publishing
from tests.support.world import World
from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.core.batches import LONGEST_OPEN, State
from tidegate.flows.hand_off import begin
from tidegate.flows.pause import PauseResult, pause, unpause
from tidegate.flows.status import status


def test_a_paused_route_gathers_and_goes_on_after_it(world: World):
    running = world.submitted()
    assert pause("flights", world.routes, world.ports) is PauseResult.DONE
    world.arrive(prefix="flights/later-")
    waiting = world.open
    play_publishing(world.work, running.id)
    world.clock.advance(LONGEST_OPEN - 60)
    world.settle()
    assert world.batch(running.id).state is State.COMMITTED
    assert world.batch(waiting.id).state is State.OPEN, "it gathers"
    world.clock.advance(60)
    world.settle()
    assert world.batch(waiting.id).state is State.SEALED, "it waits"
    (found,) = status([world.flights], world.ports)
    assert (found.paused, found.uploads.pending) == (world.clock.now - LONGEST_OPEN, 3)
    assert unpause("flights", world.routes, world.ports) is PauseResult.DONE
    world.settle()
    assert world.batch(waiting.id).state is State.SUBMITTED


def test_a_hand_off_that_read_the_route_before_does_not_overtake_the_pause(world: World):
    batch = world.sealed()
    pause("flights", world.routes, world.ports)
    assert not begin(world.flights, batch.id, 1, world.ports)
    assert not world.jobs.started


def test_a_route_that_only_the_ledger_knows_can_be_paused(world: World):
    assert pause("nights", world.routes, world.ports) is PauseResult.NO_SUCH_ROUTE
    assert unpause("nights", world.routes, world.ports) is PauseResult.NO_SUCH_ROUTE
    world.ledger.remember_route(route("nights"))
    assert pause("nights", world.routes, world.ports) is PauseResult.DONE
    assert pause("nights", world.routes, world.ports) is PauseResult.ALREADY
    assert unpause("nights", world.routes, world.ports) is PauseResult.DONE
    assert unpause("nights", world.routes, world.ports) is PauseResult.ALREADY


def test_the_commands_say_what_they_did(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        deployment,
        "find",
        lambda folder: SimpleNamespace(
            routes=world.routes,
            ports=lambda: world.ports,
            letters=no_letters,
            resources=SimpleNamespace(deployment="tidegate"),
        ),
    )

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main.app, list(arguments), catch_exceptions=False)
        return done.exit_code, done.output

    assert run("pause", "flights") == (
        Exit.OK,
        "route flights is paused: jobs that have begun go on, and uploads gather\n",
    )
    assert "paused since" in run("status")[1]
    assert run("pause", "flights") == (Exit.OK, "route flights is paused already\n")
    assert "handed off within a minute" in run("pause", "flights", "--end")[1]
    assert "paused since" not in run("status")[1]
    assert run("pause", "flights", "--end") == (Exit.OK, "route flights is not paused\n")
    code, said = run("pause", "nights")
    assert (code, "there is no route 'nights'" in said) == (Exit.USAGE, True)
