"""A committed batch lands again after its table was rolled back: its missing rows, once, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_none

from tests.functional.test_publish import BATCH, KEYS, Table
from tests.support.build import BUCKET
from tests.support.fakes import Died, Life, every_death
from tests.support.small_sink import committed, conflict, lost_answer
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.receipts import Receipt, decode_outcomes, decode_receipt
from tidegate.flows import publish
from tidegate.flows.publish import run
from tidegate.flows.publish_again import publish_again
from tidegate.flows.sink import Hopeless


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "wait_random_exponential", lambda *_, **__: wait_none())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def landed(table: Table, read: Any = committed) -> Receipt:
    assert run(table.attempt(sink=table.sink(read)), "ingest") == 0
    return decode_receipt(table.file("receipt.json"))


@pytest.fixture
def rolled_back(table: Table) -> Receipt:
    """The receipt of a batch whose table was rolled back to before it."""
    receipt = landed(table)
    line = table.sink().history(table.sink().position()).ancestors
    assert [each.id for each in line] == [receipt.snapshot]
    table.sink().roll_back(1)
    assert table.rows == []
    return receipt


def test_what_a_rollback_took_lands_again_once(table: Table, rolled_back: Receipt) -> None:
    again = publish_again(table.attempt())
    assert table.rows == KEYS
    assert again.snapshot != rolled_back.snapshot
    assert again.tally == rolled_back.tally
    assert decode_receipt(table.file("receipt.json")) == again
    assert decode_outcomes(table.file(f"outcomes/{again.staged}.jsonl.gz")).staged == again.staged
    assert publish_again(table.attempt()) == again
    assert table.rows == KEYS


def test_a_batch_whose_rows_are_there_stays_as_it_is(table: Table) -> None:
    receipt = landed(table)
    assert publish_again(table.attempt()) == receipt
    assert table.rows == KEYS


def test_rows_that_were_deleted_since_do_not_land_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    landed(table)
    attempt = table.attempt()
    monkeypatch.setattr(type(attempt.sink), "held", lambda self, position: 0)
    with pytest.raises(Hopeless, match="is still in its history"):
        publish_again(attempt)


def test_a_zombie_of_the_first_attempt_finds_what_landed_again(table: Table) -> None:
    zombie = table.attempt(1)
    floor = zombie.sink
    floor.create_if_absent()
    known, staged = zombie.floor(), zombie.stage()
    receipt = landed(table)
    table.sink().roll_back(known.head)
    again = publish_again(table.attempt())
    assert zombie.publish(staged, known).snapshot == again.snapshot != receipt.snapshot
    assert table.rows == KEYS


def test_a_zombie_that_was_faster_is_found(table: Table) -> None:
    zombie = table.attempt(1)
    zombie.sink.create_if_absent()
    known, staged = zombie.floor(), zombie.stage()
    landed(table)
    table.sink().roll_back(known.head)
    zombie.publish(staged, known)
    assert table.rows == KEYS
    publish_again(table.attempt())
    assert table.rows == KEYS


@pytest.mark.parametrize("meanwhile", [lost_answer, conflict])
def test_an_answer_that_is_lost_publishes_once(table: Table, rolled_back: Receipt, meanwhile: Any) -> None:
    times = iter([meanwhile] * 2)

    def once(moment: str) -> None:
        next(times, lambda _: None)(moment)

    publish_again(table.attempt(sink=table.sink(meanwhile=once)))
    assert table.rows == KEYS


def test_it_may_die_at_any_call_and_run_again(table: Table, rolled_back: Receipt) -> None:
    life = Life()
    attempt = table.attempt()
    attempt.work = life.wrap(table.work)
    publish_again(attempt)
    for death in every_death(life.made):
        table.sink().roll_back(1)
        table.work.put(f"batches/{BATCH}/receipt.json", rolled_back.encode())
        dying = table.attempt()
        dying.work = death.wrap(table.work)
        with pytest.raises(Died):
            publish_again(dying)
        publish_again(table.attempt())
        assert table.rows == KEYS


def test_two_at_once_land_it_once(table: Table, rolled_back: Receipt) -> None:
    def twin(moment: str) -> None:
        if moment == "before":
            publish_again(table.attempt())

    publish_again(table.attempt(sink=table.sink(meanwhile=twin)))
    assert table.rows == KEYS


class TestWhatIsGone:
    def test_its_uploads_are_read_again(self, table: Table, rolled_back: Receipt) -> None:
        table.sink().expire()
        again = publish_again(table.attempt())
        assert again.tally == rolled_back.tally
        assert table.rows == KEYS

    def test_what_would_end_differently_is_not_published(self, table: Table, rolled_back: Receipt) -> None:
        table.sink().expire()

        def read(item: OwnedUpload) -> tuple[Read, list[Any]]:
            gone = item.upload.key == KEYS[0]
            return (Read(Outcome.VANISHED, error="deleted"), []) if gone else committed(item)

        with pytest.raises(Hopeless, match="'vanished': 1"):
            publish_again(table.attempt(sink=table.sink(read)))
        assert table.rows == []

    def test_the_same_numbers_of_other_uploads_are_not_published(self, table: Table) -> None:
        """The one that was quarantined may have landed in another batch since."""

        def without(key: str) -> Any:
            broken = Read(Outcome.QUARANTINED, error="no JSON")
            return lambda item: (broken, []) if item.upload.key == key else committed(item)

        landed(table, without(KEYS[0]))
        table.sink().roll_back(1)
        table.sink().expire()
        with pytest.raises(Hopeless, match=f"e.g. s3://{BUCKET}/{KEYS[0]} as quarantined"):
            publish_again(table.attempt(sink=table.sink(without(KEYS[1]))))
        assert table.rows == []
        again = publish_again(table.attempt(sink=table.sink(without(KEYS[0]))))
        assert table.rows == KEYS[1:]
        assert again.tally.quarantined == 1

    def test_a_table_with_some_of_its_rows_stays_as_it_is(
        self, table: Table, rolled_back: Receipt, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        attempt = table.attempt()
        monkeypatch.setattr(type(attempt.sink), "held", lambda self, position: 2)
        with pytest.raises(Hopeless, match="holds 2 of the 3 rows"):
            publish_again(attempt)


def test_a_fenced_batch_does_not_land(table: Table) -> None:
    assert run(table.attempt(), "fence") == 0
    with pytest.raises(Hopeless, match="tidegate resend"):
        publish_again(table.attempt())


def test_a_batch_without_a_receipt_does_not_land(table: Table) -> None:
    with pytest.raises(Hopeless, match="has no receipt"):
        publish_again(table.attempt())
