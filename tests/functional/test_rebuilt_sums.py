"""What came back is counted once in a ledger that was rebuilt: the sums are what they were before it was lost."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.functional.test_resend import NOBODY
from tests.support.fakes import Died, Life, play_fencing, play_publishing
from tests.support.world import World, small_world
from tidegate.core.batches import State
from tidegate.core.notices import Notice
from tidegate.core.outcomes import Outcome
from tidegate.flows.quarantine import EVERYTHING, quarantined
from tidegate.flows.rebuild import Rebuilt, rebuild
from tidegate.flows.resend import release, resend_batch
from tidegate.flows.status import status
from tidegate.stores.memory import MemoryStore
from tidegate.wiring import made_at, smallest_id


@dataclass
class Game:
    world: World

    def gathered(self) -> str:
        """What was sent is dispatched, and handed off."""
        sent: list[Notice] = list(self.world.topic.published)
        self.world.topic.published.clear()
        for notice in sent:
            self.world.dispatch(notice)
        batch = self.world.open.id
        self.world.clock.advance(400)
        assert self.world.settle() == []
        assert self.world.batch(batch).state is State.SUBMITTED
        return batch

    def settle(self, batch: str) -> None:
        self.world.jobs.end(batch, self.world.batch(batch).attempt)
        assert self.world.settle() == []

    def publish(self, batch: str, *broken: str) -> None:
        play_publishing(self.world.work, batch, {key: (Outcome.QUARANTINED, "no JSON") for key in broken})
        self.settle(batch)
        assert self.world.batch(batch).state is State.COMMITTED

    def abandon(self, batch: str) -> None:
        play_fencing(self.world.work, batch)
        self.settle(batch)
        assert self.world.batch(batch).state is State.ABANDONED

    def resend(self, batch: str, run: str = "1") -> str:
        resend_batch(batch, self.world.ports, run=run, fencer=NOBODY)
        return self.gathered()

    def sums(self) -> dict[str, Any]:
        (shown,) = status([self.world.flights], self.world.ports)
        uploads = shown.uploads
        assert uploads.holds
        return {"notified": uploads.notified, "pending": uploads.pending, **uploads.ended.as_dict()}

    def rebuild(self, life: Life | None = None) -> Rebuilt:
        ports = life.over(self.world.ports) if life else self.world.ports
        return rebuild(ports, configured=self.world.routes, oldest="", made_at=made_at)

    def again(self) -> None:
        """Rebuild what another rebuild has left."""
        if not self.world.ledger.is_whole():
            assert self.rebuild().whole


@pytest.fixture
def game() -> Game:
    world = small_world(max_wait=300, in_flight=9, attempts=3)
    world.clock.now = 1_800_000_000

    def new_id() -> str:
        world.clock.advance(10)
        return smallest_id(world.clock())

    world.new_id = new_id  # type: ignore[method-assign]
    return Game(world)


KEYS = tuple(f"flights/0000-{number:05}.json" for number in range(3))


def resent(game: Game) -> None:
    game.abandon(batch := game.world.submitted().id)
    game.publish(game.resend(batch))


def resent_and_waits(game: Game) -> None:
    game.abandon(batch := game.world.submitted().id)
    game.resend(batch)


def resent_twice(game: Game) -> None:
    game.abandon(batch := game.world.submitted().id)
    game.abandon(second := game.resend(batch))
    game.publish(game.resend(second, "2"))


def resent_and_abandoned(game: Game) -> None:
    game.abandon(batch := game.world.submitted().id)
    game.abandon(game.resend(batch))


def resent_and_quarantined(game: Game) -> None:
    game.abandon(batch := game.world.submitted().id)
    game.publish(game.resend(batch), KEYS[0])


def released(game: Game) -> None:
    game.publish(game.world.submitted().id, *KEYS[:2])
    ports = game.world.ports
    release(quarantined("flights", EVERYTHING, ports), ports, configured=game.world.routes, run="1")
    game.publish(game.gathered(), KEYS[1])


def never_resent(game: Game) -> None:
    game.abandon(game.world.submitted().id)


PASTS = (
    resent,
    resent_and_waits,
    resent_twice,
    resent_and_abandoned,
    resent_and_quarantined,
    released,
    never_resent,
)


@pytest.mark.parametrize("past", PASTS, ids=lambda past: past.__name__)
def test_the_sums_are_what_they_were(game: Game, past: Callable[[Game], None]):
    past(game)
    before = game.sums()
    game.world.store = MemoryStore()
    assert game.rebuild().whole
    assert game.sums() == before


def test_whichever_call_it_dies_at_the_sums_are_what_they_were(game: Game):
    resent_twice(game)
    before = game.sums()
    game.world.store = MemoryStore()
    whole = Life()
    game.rebuild(whole)
    for call in range(1, whole.made + 1):
        for after in (False, True):
            game.world.store = MemoryStore()
            with pytest.raises(Died):
                game.rebuild(Life(call, after=after))
            game.again()
            assert game.sums() == before, (call, whole.names[call - 1], after)


def test_two_at_once_count_once(game: Game):
    resent_twice(game)
    before = game.sums()
    game.world.store = MemoryStore()
    whole = Life()
    game.rebuild(whole)
    for call in range(2, whole.made + 1):  # the first asks whether it is whole
        game.world.store = MemoryStore()
        assert game.rebuild(Life(call, before=game.again)).whole
        assert game.sums() == before, (call, whole.names[call - 1])
