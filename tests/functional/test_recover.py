"""A ledger is restored to every moment of a small history, told again what the work bucket knows, and worked with."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.build import BUCKET
from tests.support.history import EVERY_UPLOAD, ONCE_MORE, History, Items, packed, small_history, upload
from tidegate.core.batches import State
from tidegate.core.manifests import batch_folder
from tidegate.core.notices import Notice
from tidegate.flows.rehearsal import Rehearsal, SilentTopic
from tidegate.flows.status import status
from tidegate.flows.trace import trace

NEW = upload("new")
SHARES = 4
"""Tests that the moments are shared out to, so that several workers can have them."""


@pytest.fixture(scope="module")
def history() -> Iterator[History]:
    with small_history() as made:
        yield made


def traffic(history: History) -> list[Notice]:
    """Every notice once more, all uploads packed otherwise, and a new one."""
    latest = {each.identity: each for each in (*EVERY_UPLOAD, ONCE_MORE)}
    return [*history.notices, packed(*latest.values()), packed(NEW)]


def moments(history: History, share: int, every: int = 1) -> list[tuple[int, Items]]:
    return list(enumerate(history.moments))[share * every :: SHARES * every]


def check(history: History) -> None:
    """Every upload is in the table once, the ledger says so of each, and nothing waits or has halted."""
    assert history.settle_down() == []
    assert history.landed == Counter({(each.key, each.version): 1 for each in (*EVERY_UPLOAD, NEW)})
    (shown,) = status([history.world.flights], ledger=history.world.ledger)
    assert shown.unfinished == ()
    assert shown.uploads.holds
    assert shown.uploads.pending == 0
    assert shown.uploads.ended.committed == len(EVERY_UPLOAD) + 1
    for each in (*EVERY_UPLOAD, NEW):
        (told,) = trace(BUCKET, each.key, ledger=history.world.ledger)
        assert told.outcome == "committed", each
        assert told.batch is not None
        assert told.batch.id in history.published


def test_the_history_is_what_it_is_said_to_be(history: History):
    history.restore(history.moments[-1])
    states = [history.world.batch(each).state for each in history.batches]
    assert states == [State.COMMITTED, State.SUBMITTED, State.SEALED, State.OPEN]
    assert [history.world.work.get(batch_folder(each) + "sealed.json") is not None for each in history.batches] == [
        *(True, True, True, False)
    ]
    assert len(history.moments) > 40


@pytest.mark.parametrize("share", range(SHARES))
def test_whenever_it_is_restored_to_every_upload_lands_once(history: History, share: int):
    for number, moment in moments(history, share):
        history.restore(moment)
        done = history.recover()
        assert done.complete, (number, done)
        history.dispatch(*history.sent(), *traffic(history))
        check(history)


def test_the_last_moment_needs_nothing(history: History):
    history.restore(history.moments[-1])
    done = history.recover()
    # B2's receipt is there, and it is submitted: settling records it
    assert (done.claims, done.notices, done.sealed, done.submitted, done.sent) == (0, 0, 0, 0, 0)
    assert history.world.table.items() == history.moments[-1]


@pytest.mark.parametrize("share", range(SHARES))
def test_a_rehearsal_counts_the_same_and_writes_nothing_and_a_second_recover_has_nothing_to_do(history: History, share):
    for number, moment in moments(history, share, every=3):
        history.restore(moment)
        rehearsed = history.recover(ledger=Rehearsal(history.world.ledger), topic=SilentTopic())
        assert history.world.table.items() == moment
        assert history.sent() == []
        done = history.recover()
        assert done == rehearsed, number
        again = history.recover()
        assert (again.claims, again.notices, again.sealed, again.submitted) == (0, 0, 0, 0), number


@pytest.mark.parametrize("share", range(SHARES))
def test_what_was_let_in_before_is_put_in_its_place(history: History, share: int):
    """All the traffic, and nothing is sealed yet: every batch that gathered can be put right."""
    for number, moment in moments(history, share, every=3):
        history.restore(moment)
        history.dispatch(*traffic(history))
        rehearsed = history.recover(ledger=Rehearsal(history.world.ledger), topic=SilentTopic())
        done = history.recover()
        assert done == rehearsed, number
        assert done.complete, (number, done)
        history.dispatch(*history.sent(), *traffic(history))
        check(history)
