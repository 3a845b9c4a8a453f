"""Rows that do not fit land in a table of their own: once, when the batch is published, and never if it is fenced."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_none

from tests.functional.test_publish import BATCH, KEYS, Table, after_each_death
from tests.support.fakes import Died
from tests.support.small_sink import SmallSink, conflict, lost_answer
from tidegate.core.manifests import OwnedUpload, outcomes_name
from tidegate.core.outcomes import Outcome, Read, Tally
from tidegate.core.receipts import decode_failure, decode_outcomes, decode_receipt
from tidegate.flows import publish
from tidegate.flows.publish import run
from tidegate.flows.sink import RejectedUndecided

BAD = [f"bad row of {key}" for key in KEYS[1:]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "wait_random_exponential", lambda *_, **__: wait_none())


def with_bad_rows(item: OwnedUpload) -> tuple[Read, list[Any]]:
    """One row that fits, and, but for the first upload, one that does not."""
    key = item.upload.key
    bad = [f"bad row of {key}"] if key in KEYS[1:] else []
    return Read(Outcome.COMMITTED, 1, rejected=len(bad)), [key, *bad]


class TwoTables(Table):
    """`Table`, and that of the rejected rows."""

    def sink(self, read: Any = with_bad_rows, meanwhile: Any = lambda moment: None, batch: str = BATCH) -> SmallSink:
        return super().sink(read, meanwhile, batch)

    @property
    def rejected(self) -> list[str]:
        table = self.sink().rejected("rejected")
        return sorted(table.rows) if table.exists else []

    def drop_rejected(self) -> None:
        self.path.with_name("rejected.db").unlink()


@pytest.fixture
def tables(tmp_path: Path) -> TwoTables:
    return TwoTables(tmp_path)


def test_they_land_once_however_often_the_batch_is_attempted(tables: TwoTables):
    for number in (1, 2, 3):
        assert run(tables.attempt(number), "ingest") == 0
        assert (tables.rows, tables.rejected) == (KEYS, BAD)
    receipt = decode_receipt(tables.file("receipt.json"))
    assert receipt.tally == Tally(committed=3, rows=3, rejected=2)
    outcomes = decode_outcomes(tables.file(outcomes_name("", receipt.staged)))
    assert outcomes.rejected is not None
    assert (outcomes.rejected.table, outcomes.rejected.rows) == ("rejected", 2)
    assert outcomes.rejected_rows == ((0, 1, 1),)


@pytest.mark.parametrize("mode", ["ingest", "fence"])
def test_whenever_a_driver_dies_they_land_with_the_batch_or_not_at_all(tmp_path: Path, mode: str):
    """A death at each request to the work bucket; those between the commits of the two tables are among them."""
    between = 0
    for tables in after_each_death(tmp_path, TwoTables, mode):
        between += bool(tables.path.exists() and tables.rows and not tables.rejected)
        assert run(tables.attempt(2), "ingest") == 0
        fenced = decode_receipt(tables.file("receipt.json")).fence
        assert (tables.rows, tables.rejected) == (([], []) if fenced else (KEYS, BAD))
        assert not fenced or mode == "fence"
    assert between == (3 if mode == "ingest" else 0)  # before and after the floor is written, and read


def after_rejected(trouble: Callable[[str], None]) -> Callable[[str], None]:
    """What happens around the second commit, which is that of the rejected rows, once."""
    seen: list[str] = []

    def once(moment: str) -> None:
        seen.append(moment)
        if seen.count(moment) == 2:
            trouble(moment)

    return once


@pytest.mark.parametrize("trouble", [lost_answer, conflict])
def test_after_an_error_of_their_commit_the_history_of_their_table_is_asked(
    tables: TwoTables, trouble: Callable[[str], None]
):
    assert run(tables.attempt(sink=tables.sink(meanwhile=after_rejected(trouble))), "ingest") == 0
    assert (tables.rows, tables.rejected) == (KEYS, BAD)


def test_a_twin_that_ends_the_batch_meanwhile_lands_none_of_its_own(tables: TwoTables):
    def twin(moment: str) -> None:
        if moment == "before":
            assert run(tables.attempt(2), "ingest") == 0

    assert run(tables.attempt(sink=tables.sink(meanwhile=after_rejected(twin))), "ingest") == 0
    assert (tables.rows, tables.rejected) == (KEYS, BAD)


def test_what_a_driver_staged_that_lost_never_lands(tables: TwoTables):
    loser = tables.attempt()
    loser.sink.prepare()
    floor = loser.floor()
    staged = loser.stage()
    assert run(tables.attempt(2), "fence") == 0
    assert loser.end(loser.publish(staged, floor)).fence
    assert (tables.rows, tables.rejected) == ([], [])


def published_only(tables: TwoTables) -> None:
    """The driver dies after decision 3, before the rejected rows land."""
    attempt = tables.attempt()
    attempt.sink.prepare()
    floor = attempt.floor()
    attempt.publish(attempt.stage(), floor)
    assert (tables.rows, tables.rejected) == (KEYS, [])


class TestTheTableIsGone:
    def test_the_files_are_read_again(self, tables: TwoTables):
        published_only(tables)
        tables.drop_rejected()
        assert run(tables.attempt(2), "ingest") == 0
        assert (tables.rows, tables.rejected) == (KEYS, BAD)

    def test_twins_land_them_once_in_the_new_one(self, tables: TwoTables):
        published_only(tables)
        tables.drop_rejected()

        def twin(moment: str) -> None:
            if moment == "before":
                assert run(tables.attempt(3), "ingest") == 0

        seen: list[str] = []

        def once(moment: str) -> None:
            seen.append(moment)
            if seen == ["before"]:
                twin(moment)

        assert run(tables.attempt(2, sink=tables.sink(meanwhile=once)), "ingest") == 0
        assert tables.rejected == BAD

    def test_files_that_are_read_otherwise_now_are_for_a_person(self, tables: TwoTables):
        published_only(tables)
        tables.drop_rejected()

        def otherwise(item: OwnedUpload) -> tuple[Read, list[Any]]:
            return Read(Outcome.COMMITTED, 1), [item.upload.key]

        with pytest.raises(RejectedUndecided, match=r"2 of its rows are not.*as the route has it now, found 0"):
            tables.attempt(2, sink=tables.sink(otherwise)).ingest()
        assert run(tables.attempt(3), "ingest") == 0
        assert tables.rejected == BAD

    def test_files_that_a_route_reads_otherwise_now_are_for_a_person(self, tables: TwoTables):
        published_only(tables)
        tables.drop_rejected()

        class Changed(SmallSink):
            def stage_rejected(self, items: Any, table: str) -> Any:
                return replace(super().stage_rejected(items, table), reading="another schema")

        with pytest.raises(RejectedUndecided) as halted:
            tables.attempt(2, sink=Changed(tables.path, BATCH, with_bad_rows)).ingest()
        outcomes = decode_outcomes(tables.file(outcomes_name("", halted.value.staged)))
        assert outcomes.rejected is not None
        assert tables.rejected == []

    def test_after_they_landed_it_is_nothing_to_the_batch(self, tables: TwoTables):
        tables.attempt().ingest()
        tables.drop_rejected()
        receipt = tables.file("receipt.json")
        assert run(tables.attempt(2), "ingest") == 0
        assert tables.file("receipt.json") == receipt


def test_what_landed_is_found_by_the_history_although_what_was_staged_is_gone(tables: TwoTables):
    """The driver died before the receipt; then a clean-up took the staged version, and the files vanished."""

    def dies(moment: str) -> None:
        if moment == "after":
            raise Died

    with pytest.raises(Died):
        run(tables.attempt(sink=tables.sink(meanwhile=after_rejected(dies))), "ingest")
    assert tables.rejected == BAD
    with sqlite3.connect(tables.path.with_name("rejected.db")) as database:
        database.execute("DELETE FROM versions WHERE publishes = '' AND rows != '[]'")

    def vanished(item: OwnedUpload) -> tuple[Read, list[Any]]:
        return Read(Outcome.VANISHED), []

    assert run(tables.attempt(2, sink=tables.sink(vanished)), "ingest") == 0
    assert (tables.rows, tables.rejected) == (KEYS, BAD)


def test_a_history_that_was_cut_is_for_a_person(tables: TwoTables):
    published_only(tables)

    def dies(moment: str) -> None:
        raise Died

    with pytest.raises(Died):
        run(tables.attempt(2, sink=tables.sink(meanwhile=dies)), "ingest")  # after it has written the floor
    other = tables.sink(batch="01JOTHER").rejected("rejected")
    staged = other.stage_nothing()
    other.publish(staged, other.position())
    other.expire()
    assert run(tables.attempt(3), "ingest") == 1
    failure = decode_failure(tables.file("failures/3.json"))
    assert (failure.undecided, failure.rejected) == (True, True)
    assert "Whether its 2 rejected rows are in rejected cannot be proven" in failure.reason
    assert (tables.rows, tables.rejected) == (KEYS, [])


def landed_and_died(tables: TwoTables, number: int = 1) -> None:
    """The driver dies after the second commit, before the receipt."""

    def dies(moment: str) -> None:
        if moment == "after":
            raise Died

    with pytest.raises(Died):
        run(tables.attempt(number, sink=tables.sink(meanwhile=after_rejected(dies))), "ingest")
    assert (tables.rows, tables.rejected) == (KEYS, BAD)


class TestATableThatIsRolledBack:
    """Between the two commits, or after them and before the receipt."""

    @staticmethod
    def head(sink: SmallSink) -> int:
        head = sink.position().head
        assert head is not None
        return head

    def test_theirs_to_its_floor_gets_them_again(self, tables: TwoTables):
        """The table proves that it has none of them now: the batch ends when it has them, once."""
        of_rejected = tables.sink().rejected("rejected")
        of_rejected.create_if_absent()
        floor = self.head(of_rejected)
        landed_and_died(tables)
        of_rejected.roll_back(floor)
        assert tables.rejected == []
        for number in (2, 3):
            assert run(tables.attempt(number), "ingest") == 0
            assert (tables.rows, tables.rejected) == (KEYS, BAD)

    @pytest.mark.parametrize("landed", [False, True])
    def test_theirs_past_its_floor_is_for_a_person_who_may_undo_that(self, tables: TwoTables, landed: bool):
        """Rows that landed and were dealt with look like rows that never landed: nobody lands them by a guess."""
        of_rejected = tables.sink(batch="01JOTHER").rejected("rejected")
        of_rejected.create_if_absent()
        beginning = self.head(of_rejected)
        of_rejected.publish(of_rejected.stage_nothing(), of_rejected.position())
        if landed:
            landed_and_died(tables)
        else:
            published_only(tables)
            with pytest.raises(Died):
                run(tables.attempt(sink=tables.sink(meanwhile=died)), "ingest")  # after it has written the floor
        before = self.head(of_rejected)
        of_rejected.roll_back(beginning)
        assert run(tables.attempt(2), "ingest") == 1
        failure = decode_failure(tables.file("failures/2.json"))
        assert (failure.undecided, failure.rejected) == (True, True)
        outcomes = decode_outcomes(tables.file(outcomes_name("", failure.staged)))
        assert outcomes.rejected is not None
        statement = f"SELECT * FROM rejected VERSION AS OF {outcomes.rejected.staged} WHERE _batch_id = '{BATCH}'"
        assert f"INSERT INTO rejected {statement}" in failure.reason
        assert tables.rejected == []
        of_rejected.roll_back(before)
        assert run(tables.attempt(3), "ingest") == 0
        assert (tables.rows, tables.rejected) == (KEYS, BAD)

    @pytest.mark.parametrize("landed", [False, True])
    def test_the_batch_s_own_is_published_to_again_and_they_land_once(self, tables: TwoTables, landed: bool):
        sink = tables.sink()
        sink.create_if_absent()
        floor = self.head(sink)
        (landed_and_died if landed else published_only)(tables)
        sink.roll_back(floor)
        assert tables.rows == []
        assert run(tables.attempt(2), "ingest") == 0
        assert (tables.rows, tables.rejected) == (KEYS, BAD)

    @pytest.mark.parametrize("left", [KEYS[:1], KEYS[:2]], ids=["none", "one"])
    def test_the_batch_s_own_and_fewer_do_not_fit_when_the_files_are_read_again(
        self, tables: TwoTables, left: list[str]
    ):
        """Their table has the rows of the earlier reading, which no outcomes count any more."""
        sink = tables.sink()
        sink.create_if_absent()
        floor = self.head(sink)
        landed_and_died(tables)
        sink.roll_back(floor)

        def fewer(item: OwnedUpload) -> tuple[Read, list[Any]]:
            return with_bad_rows(item) if item.upload.key in left else (Read(Outcome.VANISHED), [])

        assert run(tables.attempt(2, sink=tables.sink(fewer)), "ingest") == 1
        failure = decode_failure(tables.file("failures/2.json"))
        assert (failure.undecided, failure.rejected) == (True, True)
        assert f"DELETE FROM rejected WHERE _batch_id = '{BATCH}'" in failure.reason
        assert "has 2 rejected rows of an earlier reading" in failure.reason
        assert tables.rejected == BAD


def died(moment: str) -> None:
    raise Died


def test_a_staging_that_lacks_some_publishes_nothing(tables: TwoTables):
    class Forgetful(SmallSink):
        def stage_rejected(self, items: Any, table: str) -> Any:
            return super().stage_rejected(items[:2], table)

    sink = Forgetful(tables.path, BATCH, with_bad_rows)
    with pytest.raises(Exception, match="2 rows did not fit, and 1 were staged"):
        tables.attempt(sink=sink).ingest()
    assert (tables.rows, tables.rejected) == ([], [])
