"""A batch that landed is fenced after its table was rolled back past it: it never lands again."""

from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_none

from tests.functional.test_publish import BATCH, KEYS, Table
from tests.support.fakes import Died, Life, every_death
from tests.support.small_sink import committed, conflict, lost_answer
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.publication import Floor
from tidegate.core.receipts import Receipt, decode_outcomes, decode_receipt
from tidegate.flows import publish
from tidegate.flows.fence_again import fence_again
from tidegate.flows.publish import Attempt, run
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


def rolled_back_under_a_zombie(table: Table) -> tuple[Attempt, Floor, int]:
    """A driver of the first attempt that has staged, its floor, and what it staged. Another one has published the batch
    meanwhile, and the table was rolled back to the floor."""
    zombie = table.attempt(1)
    zombie.sink.create_if_absent()
    known = zombie.floor()
    staged = zombie.stage()
    landed(table)
    table.sink().roll_back(known.head)
    return zombie, known, staged


def test_it_is_fenced_with_the_endings_that_it_had(table: Table) -> None:
    broken = Read(Outcome.QUARANTINED, error="no JSON")

    def read(item: OwnedUpload) -> tuple[Read, list[Any]]:
        return (broken, []) if item.upload.key == KEYS[0] else committed(item)

    before = landed(table, read)
    table.sink().roll_back(1)
    after = fence_again(table.attempt())
    assert (after.fence, after.tally) == (True, before.tally)
    assert after.snapshot != before.snapshot
    assert decode_receipt(table.file("receipt.json")) == after
    outcomes = decode_outcomes(table.file(f"outcomes/{after.staged}.jsonl.gz"))
    assert [(each.key, each.outcome) for each in outcomes.endings] == [(KEYS[0], Outcome.QUARANTINED)]
    assert table.rows == []
    assert fence_again(table.attempt()) == after, "a fence is enough"


def test_a_fence_that_was_rolled_back_is_put_there_again(table: Table, rolled_back: Receipt) -> None:
    first = fence_again(table.attempt())
    table.sink().roll_back(1)
    assert fence_again(table.attempt()).snapshot != first.snapshot


def test_a_batch_whose_rows_are_there_stays_as_it_is(table: Table) -> None:
    receipt = landed(table)
    with pytest.raises(Hopeless, match="holds 3 of the 3 rows"):
        fence_again(table.attempt())
    assert decode_receipt(table.file("receipt.json")) == receipt
    assert table.rows == KEYS


def test_rows_that_were_deleted_since_are_no_rollback(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    landed(table)
    attempt = table.attempt()
    monkeypatch.setattr(type(attempt.sink), "held", lambda self, position: 0)
    with pytest.raises(Hopeless, match="is still in its history"):
        fence_again(attempt)


def test_a_table_with_some_of_its_rows_stays_as_it_is(
    table: Table, rolled_back: Receipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = table.attempt()
    monkeypatch.setattr(type(attempt.sink), "held", lambda self, position: 2)
    with pytest.raises(Hopeless, match="holds 2 of the 3 rows"):
        fence_again(attempt)


def test_a_zombie_of_the_first_attempt_finds_the_fence(table: Table) -> None:
    zombie, known, staged = rolled_back_under_a_zombie(table)
    fence = fence_again(table.attempt())
    assert zombie.publish(staged, known).snapshot == fence.snapshot
    assert zombie.end(zombie.publish(staged, known)) == fence, "its receipt says the same"
    assert table.rows == []


def test_a_zombie_that_was_faster_is_found(table: Table) -> None:
    zombie, known, staged = rolled_back_under_a_zombie(table)
    zombie.publish(staged, known)
    with pytest.raises(Hopeless, match="holds 3 of the 3 rows"):
        fence_again(table.attempt())
    assert table.rows == KEYS


def test_a_zombie_that_is_faster_by_a_moment_is_found(table: Table) -> None:
    zombie, known, staged = rolled_back_under_a_zombie(table)

    def meanwhile(moment: str) -> None:
        if moment == "before":
            zombie.publish(staged, known)

    with pytest.raises(Hopeless, match="which another driver has published just now"):
        fence_again(table.attempt(sink=table.sink(meanwhile=meanwhile)))
    assert not decode_receipt(table.file("receipt.json")).fence
    assert table.rows == KEYS


@pytest.mark.parametrize("meanwhile", [lost_answer, conflict])
def test_an_answer_that_is_lost_fences_once(table: Table, rolled_back: Receipt, meanwhile: Any) -> None:
    times = iter([meanwhile] * 2)

    def once(moment: str) -> None:
        next(times, lambda _: None)(moment)

    assert fence_again(table.attempt(sink=table.sink(meanwhile=once))).fence
    assert table.rows == []


def test_it_may_die_at_any_call_and_run_again(table: Table, rolled_back: Receipt) -> None:
    life = Life()
    attempt = table.attempt()
    attempt.work = life.wrap(table.work)
    fence_again(attempt)
    for death in every_death(life.made):
        table.sink().roll_back(1)
        table.work.put(f"batches/{BATCH}/receipt.json", rolled_back.encode())
        dying = table.attempt()
        dying.work = death.wrap(table.work)
        with pytest.raises(Died):
            fence_again(dying)
        assert fence_again(table.attempt()).fence
        assert table.rows == []


def test_two_at_once_agree(table: Table, rolled_back: Receipt) -> None:
    seen: list[Receipt] = []

    def twin(moment: str) -> None:
        if moment == "before" and not seen:
            seen.append(fence_again(table.attempt()))

    assert fence_again(table.attempt(sink=table.sink(meanwhile=twin))) == seen[0]


def test_a_batch_without_a_receipt_is_left_alone(table: Table) -> None:
    with pytest.raises(Hopeless, match="has no receipt"):
        fence_again(table.attempt())


def test_outcomes_that_are_missing_are_named(table: Table, rolled_back: Receipt) -> None:
    del table.work.objects[f"batches/{BATCH}/outcomes/{rolled_back.staged}.jsonl.gz"]
    with pytest.raises(Hopeless, match="is missing in the work bucket"):
        fence_again(table.attempt())


@pytest.mark.parametrize("after", ["held", "in_line", "stage_nothing"])
def test_a_zombie_that_publishes_after_the_rows_were_looked_at_is_found(
    table: Table, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The floor is where the rows were looked at: what is published above it is met."""
    zombie, known, staged = rolled_back_under_a_zombie(table)
    attempt = table.attempt()
    kind: Any = type(attempt.sink)
    real = getattr(kind, after)

    def slow(self: Any, *arguments: Any) -> Any:
        found = real(self, *arguments)
        monkeypatch.setattr(kind, after, real)
        zombie.publish(staged, known)
        return found

    monkeypatch.setattr(kind, after, slow)
    with pytest.raises(Hopeless, match="which another driver has published just now"):
        fence_again(attempt)
    assert not decode_receipt(table.file("receipt.json")).fence
    assert table.rows == KEYS
