"""A person sends the uploads of a batch again that a rollback took from its table."""

from dataclasses import dataclass, field, replace

import pytest

from tests.functional.test_resend import KEYS, deliver
from tests.support.build import BUCKET
from tests.support.fakes import Died, Life, every_death, play_publishing, uploads_of
from tests.support.world import World, small_world
from tidegate.core.batches import Batch, State
from tidegate.core.errors import Rejected, Retryable
from tidegate.core.manifests import batch_folder
from tidegate.core.notices import pack
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import decode_receipt
from tidegate.core.records import claim_key
from tidegate.core.routes import Dataset
from tidegate.flows.resend import Resend, Resent, resend_batch, resend_object


@dataclass
class PlayedFencer:
    """A job that fences again: what it was asked for, and why it refuses, or fails."""

    world: World
    asked: list[tuple[str, Dataset, str]] = field(default_factory=list)
    error: Exception | None = None
    forgets: bool = False

    def fence(self, batch: Batch, dataset: Dataset, *, owner: str) -> None:
        self.asked.append((batch.id, dataset, owner))
        if self.error:
            raise self.error
        name = batch_folder(batch.id) + "receipt.json"
        receipt = decode_receipt(self.world.work.objects[name])
        if not self.forgets:
            self.world.work.objects[name] = replace(receipt, fence=True, snapshot=900).encode()


@pytest.fixture
def world() -> World:
    return small_world(max_wait=0)


def landed(world: World, *quarantined: str) -> str:
    batch = world.submitted()
    play_publishing(world.work, batch.id, {key: (Outcome.QUARANTINED, "no JSON") for key in quarantined})
    world.settle()
    assert world.batch(batch.id).state is State.COMMITTED
    world.topic.published.clear()
    return batch.id


def again(world: World, batch: str, fencer: PlayedFencer, run: str = "1") -> Resend:
    return resend_batch(batch, world.ports, run=run, fencer=fencer)


def test_what_it_landed_is_sent_and_taken_over(world: World) -> None:
    batch, fencer = landed(world), PlayedFencer(world)
    notified = world.record.notified
    assert again(world, batch, fencer) == Resend(Resent.SENT, 3)
    assert world.batch(batch).sent_again
    assert world.topic.keys == KEYS
    deliver(world)
    assert world.open.objects == 3
    assert dict(world.record.back) == {"committed": 3}
    assert world.record.notified == notified, "each is counted once"
    assert again(world, batch, fencer, "2") == Resend(Resent.NOTHING_LEFT, 0, 3)
    assert len(fencer.asked) == 2, "each command fences it: a rollback may have taken the fence"


def test_what_ended_without_a_row_stays_as_it_is(world: World) -> None:
    batch = landed(world, KEYS[0])
    assert again(world, batch, PlayedFencer(world)) == Resend(Resent.SENT, 2, 1)
    assert world.topic.keys == KEYS[1:]
    assert world.claim(KEYS[0]).outcome == Outcome.QUARANTINED


def test_what_another_notice_owns_stays_there(world: World) -> None:
    batch = landed(world, KEYS[0])
    assert resend_object(BUCKET, KEYS[0], world.ports, run="r").sent == 1
    deliver(world)
    world.topic.published.clear()
    taken = uploads_of(world.work, batch)[1].upload
    world.edit(claim_key(*taken.identity), notice="f" * 40)
    assert again(world, batch, PlayedFencer(world)) == Resend(Resent.SENT, 1, 2)
    assert world.topic.keys == KEYS[2:]


def test_the_job_goes_to_the_table_that_the_batch_was_sealed_for(world: World) -> None:
    batch, fencer = landed(world), PlayedFencer(world)
    route = world.routes["flights"]
    world.ports.ledger.remember_route(
        replace(route, owner="999", dataset=replace(route.dataset, table="lake.raw.renamed"))
    )
    again(world, batch, fencer)
    ((_, dataset, owner),) = fencer.asked
    assert (dataset.table, owner) == (route.dataset.table, "999")


@pytest.mark.parametrize("error", [Rejected("its rows are there"), Retryable("the job failed")])
def test_nothing_is_sent_if_the_job_refuses_or_fails(world: World, error: Exception) -> None:
    batch = landed(world)
    before = world.batch(batch)
    with pytest.raises(type(error), match=str(error)):
        again(world, batch, PlayedFencer(world, error=error))
    assert world.batch(batch) == before
    assert world.topic.published == []


def test_nothing_is_sent_without_a_fence(world: World) -> None:
    batch = landed(world)
    with pytest.raises(Retryable, match="its receipt names no fence"):
        again(world, batch, PlayedFencer(world, forgets=True))
    assert not world.batch(batch).rows_removed
    assert world.topic.published == []


def test_a_duplicate_of_what_is_gone_is_still_refused(world: World) -> None:
    """Until somebody says so, what has landed has landed."""
    batch = landed(world)
    assert again(world, batch, PlayedFencer(world)).sent == 3
    (sent,) = world.topic.published
    world.topic.published.clear()
    for notice in pack("flights", BUCKET, [each.upload for each in uploads_of(world.work, batch)]):
        world.dispatch(notice)
    assert not world.record.open_batch
    world.dispatch(sent)
    assert world.open.objects == 3


def test_it_may_die_at_any_call_and_run_again(world: World) -> None:
    life = Life()
    again_through(world, landed(world), life)
    for death in every_death(life.made):
        fresh = small_world(max_wait=0)
        batch = landed(fresh)
        with pytest.raises(Died):
            again_through(fresh, batch, death)
        assert not fresh.batch(batch).sent_again, "`tidegate audit --tables` still says that its rows are missing"
        again(fresh, batch, PlayedFencer(fresh), "2")
        deliver(fresh)
        assert fresh.open.objects == 3
        assert dict(fresh.record.back) == {"committed": 3}


def again_through(world: World, batch: str, life: Life) -> None:
    ports = replace(world.ports, work=life.wrap(world.work), topic=life.wrap(world.topic))
    resend_batch(batch, ports, run="1", fencer=PlayedFencer(world))
