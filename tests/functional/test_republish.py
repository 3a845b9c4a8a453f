"""A person brings back batches that a rollback took from their table."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from tests.functional.test_reconcile import TABLE, Game, game  # noqa: F401
from tests.support.build import BUCKET
from tests.support.fakes import uploads_of
from tidegate.core.batches import Batch, State
from tidegate.core.claims import Claim
from tidegate.core.errors import Retryable
from tidegate.core.manifests import batch_folder
from tidegate.core.receipts import decode_receipt
from tidegate.core.records import DAY, batch_key, claim_key
from tidegate.core.routes import Dataset
from tidegate.flows.republish import Republication, Republished, find, republish
from tidegate.flows.resend import resend_object

TIMEOUT = 3_600


@dataclass
class PlayedRepublisher:
    """A job that publishes again: what it was asked for, and the snapshot that it ends with."""

    game: Game
    asked: list[tuple[str, Dataset, str]] = field(default_factory=list)
    snapshots: Iterator[int] = field(default_factory=lambda: itertools.count(900))
    failure: str = ""

    def publish(self, batch: Batch, dataset: Dataset, *, owner: str) -> None:
        self.asked.append((batch.id, dataset, owner))
        if self.failure:
            raise Retryable(self.failure)
        name = batch_folder(batch.id) + "receipt.json"
        body = self.game.world.work.get(name)
        assert body is not None
        receipt = replace(decode_receipt(body), snapshot=next(self.snapshots))
        self.game.world.work.put(name, receipt.encode())


def test_only_the_snapshot_changes_in_the_ledger(game: Game) -> None:  # noqa: F811
    batch_id, jobs = game.settled("a"), PlayedRepublisher(game)
    before, sums = game.world.batch(batch_id), game.world.ports.ledger.route("flights")
    done = republish(batch_id, game.world.ports, jobs, TIMEOUT)
    assert done == Republication(Republished.DONE, before.tally.rows, 900, before.snapshot)
    assert game.world.batch(batch_id) == replace(before, snapshot=900, republished=True)
    assert game.world.ports.ledger.route("flights") == sums
    assert game.world.settle() == []
    assert game.world.batch(batch_id).state is State.COMMITTED


@pytest.mark.parametrize("gone", [(), ("table", "sealed_for")], ids=["", "of_version_0_1_0"])
def test_the_batch_goes_to_the_table_that_it_was_sealed_for(game: Game, gone: tuple[str, ...]) -> None:  # noqa: F811
    batch_id, jobs = game.settled("a"), PlayedRepublisher(game)
    game.world.edit(batch_key(batch_id), **dict.fromkeys(gone))
    route = game.world.routes["flights"]
    moved = replace(route, owner="999", dataset=replace(route.dataset, table="lake.raw.renamed"))
    game.world.ports.ledger.remember_route(moved)
    republish(batch_id, game.world.ports, jobs, TIMEOUT)
    ((_, dataset, owner),) = jobs.asked
    assert (dataset.table, owner) == (TABLE, "999")


def test_a_command_that_died_before_its_last_step_is_repeated(game: Game) -> None:  # noqa: F811
    batch_id, jobs = game.settled("a"), PlayedRepublisher(game)
    jobs.publish(game.world.batch(batch_id), game.world.routes["flights"].dataset, owner="")
    jobs.publish = lambda *_, **__: None  # type: ignore[method-assign, misc]
    assert republish(batch_id, game.world.ports, jobs, TIMEOUT).snapshot == 900
    assert game.world.batch(batch_id).snapshot == 900


def test_a_job_that_failed_changes_nothing(game: Game) -> None:  # noqa: F811
    batch_id, jobs = game.settled("a"), PlayedRepublisher(game, failure="its rows are there")
    before = game.world.batch(batch_id)
    with pytest.raises(Retryable, match="its rows are there"):
        republish(batch_id, game.world.ports, jobs, TIMEOUT)
    assert game.world.batch(batch_id) == replace(before, republished=True), "what began once may bring its rows yet"


def test_what_has_not_landed_cannot_republish(game: Game) -> None:  # noqa: F811
    jobs = PlayedRepublisher(game)
    pending = game.published("a")
    assert republish(pending, game.world.ports, jobs, TIMEOUT) == Republication(Republished.NOT_COMMITTED)
    assert find("01NONE", game.world.ports, TIMEOUT) is Republished.NO_SUCH_BATCH
    assert jobs.asked == []


@pytest.mark.parametrize("left", [0, DAY + TIMEOUT - 60])
def test_a_batch_whose_claims_end_before_the_job_may_is_left_to_a_backfill(game: Game, left: int) -> None:  # noqa: F811
    """A backfill lands what the table lacks and nobody claims: both would put the rows there."""
    batch_id, jobs = game.settled("a"), PlayedRepublisher(game)
    claimed = min(claim.expires_at for claim in claims_of(game, batch_id))
    game.world.clock.now = claimed - left
    assert republish(batch_id, game.world.ports, jobs, TIMEOUT) == Republication(Republished.NOT_ITS_OWN)
    assert jobs.asked == []


def test_an_upload_that_landed_elsewhere_since_is_no_obstacle(game: Game) -> None:  # noqa: F811
    """It was quarantined in this batch, released, and belongs to another notice."""
    batch_id, jobs = game.settled("a", quarantined=("flights/a0000-00000.json",)), PlayedRepublisher(game)
    assert resend_object(BUCKET, "flights/a0000-00000.json", game.world.ports, run="r").sent == 1
    game.world.dispatch(game.world.topic.published[-1])
    assert republish(batch_id, game.world.ports, jobs, TIMEOUT).ended is Republished.DONE


def test_a_batch_that_another_notice_has_taken_an_upload_from_is_refused(game: Game) -> None:  # noqa: F811
    batch_id, jobs = game.settled("a"), PlayedRepublisher(game)
    (first, *_) = uploads_of(game.world.work, batch_id)
    game.world.edit(claim_key(*first.upload.identity), notice="f" * 40)
    assert find(batch_id, game.world.ports, TIMEOUT) is Republished.NOT_ITS_OWN
    assert republish(batch_id, game.world.ports, jobs, TIMEOUT).ended is Republished.NOT_ITS_OWN


@pytest.mark.parametrize("gone", ["outcomes/", "parts/"])
def test_a_batch_whose_files_are_gone_is_told_so(game: Game, gone: str) -> None:  # noqa: F811
    """No backfill brings its uploads back while their claims live."""
    batch_id = game.settled("a")
    folder = batch_folder(batch_id) + gone
    for name in list(game.world.work.names(folder)):
        del game.world.work.objects[name]
    assert find(batch_id, game.world.ports, TIMEOUT) is Republished.FILES_MISSING


def claims_of(game: Game, batch_id: str) -> list[Claim]:  # noqa: F811
    uploads = [each.upload for each in uploads_of(game.world.work, batch_id)]
    return list(game.world.ports.ledger.claims_on(uploads).values())


def test_files_are_read_as_they_were_when_they_landed(game: Game) -> None:  # noqa: F811
    """By today's options 03/04 could be another day."""
    batch_id, jobs = game.settled("a"), PlayedRepublisher(game)
    route = game.world.routes["flights"]
    now = replace(route.dataset, format="csv", options=(("dates", "mm/dd/yyyy"),), schema="id bigint, more string")
    game.world.ports.ledger.remember_route(replace(route, dataset=now))
    republish(batch_id, game.world.ports, jobs, TIMEOUT)
    ((_, dataset, _),) = jobs.asked
    assert (dataset.format, dataset.options) == (route.dataset.format, route.dataset.options)
    assert dataset.schema == "id bigint, more string"
