"""Versions of one object that have landed beside each other, and the statement that leaves the newest."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.fakes import MemoryWork
from tidegate.core.batches import Batch, State
from tidegate.core.claims import Claim
from tidegate.core.landed_versions import landed_in, several_landed
from tidegate.core.manifests import batch_folder, outcomes_name
from tidegate.core.outcomes import DROPPED, Tally
from tidegate.core.receipts import Outcomes, Receipt
from tidegate.core.replacing import HeldRows
from tidegate.core.routes import Dataset, encode_dataset
from tidegate.flows.landed_versions import Left, _counted, left_the_table
from tidegate.flows.ports import Ports
from tidegate.flows.trace import Trace, landed_beside

URI = "s3://landing/flights/a.json"
PLACE = ("landing", "flights/a.json")
NO_PORTS = cast(Ports, None)
"""Nothing is asked for, if no batch says that rows were replaced."""
DONE = Batch("01DONE", "flights", State.COMMITTED, opened_at=1, table="lake.raw.flights")


def claim(version: str, at: int = 0, sequencer: str = "", **about: object) -> Claim:
    return replace(Claim(version, f"n-{version}", at, at + 9, sequencer=sequencer), **about)


def only(*claims: Claim, uri: str = URI):
    (found,) = several_landed(uri, [(each, DONE) for each in claims])
    return found


def test_one_version_is_nothing_to_tell():
    assert several_landed(URI, [(claim("v1"), DONE)]) == ()


def test_what_has_not_landed_is_not_counted():
    waiting = replace(DONE, state=State.SUBMITTED)
    found = [(claim("v1"), DONE), (claim("v2"), waiting), (claim("v3", outcome=DROPPED), DONE), (claim("v4"), None)]
    assert several_landed(URI, found) == ()


def test_what_has_the_bytes_of_another_version_has_no_rows_beside_it():
    """Else the statement would delete the only rows."""
    error = "rows of batch 01DONE: its bytes are those of version v1"
    same = claim("v2", sequencer="02", outcome="present", error=error)
    assert several_landed(URI, [(claim("v1", sequencer="01"), DONE), (same, DONE)]) == ()
    assert landed_in(same, DONE) == frozenset()
    assert landed_in(replace(same, error="rows of batch 01DONE"), DONE) == {"lake.raw.flights"}


def test_the_order_is_that_of_s3_and_not_of_the_claims():
    found = only(claim("late", at=1, sequencer="0B"), claim("early", at=2, sequencer="0A"))
    assert (found.versions, found.ordered) == (("early", "late"), True)
    assert found.delete == (
        f"DELETE FROM lake.raw.flights WHERE _source_uri = '{URI}' AND _source_version IN ('early')"
    )


def test_of_several_older_versions_all_are_deleted_and_no_version_that_comes_later():
    found = only(claim("v1", sequencer="01"), claim("v3", sequencer="03"), claim("v2", sequencer="02"))
    assert found.delete.endswith("_source_version IN ('v1', 'v2')")


@pytest.mark.parametrize(
    "claims",
    [
        (claim("v1", at=1), claim("v2", at=2, sequencer="0A")),
        # A, then B, then A again: nothing records that A came last (docs/guarantee.md)
        (claim("etag:a", at=1, sequencer="0A"), claim("etag:b", at=2, sequencer="0B")),
    ],
)
def test_an_order_that_nobody_recorded_is_not_said_to_be_certain(claims: tuple[Claim, Claim]):
    found = only(*claims)
    assert found.versions == tuple(each.version for each in claims)
    assert not found.ordered
    assert "if the bucket has that version now" in found.why


def test_the_order_is_said_without_a_doubt_if_s3_gave_it():
    found = only(claim("v1", sequencer="0A"), claim("v2", sequencer="0B"))
    assert found.why == "to keep only the newest, version v2"
    assert found.told == (
        "2 versions of this object have landed in lake.raw.flights: the table has the rows of each, unless somebody has"
        " deleted them"
    )


def test_each_table_is_told_by_itself():
    other = replace(DONE, table="lake.raw.new")
    assert several_landed(URI, [(claim("v1"), other), (claim("v2"), other)])[0].table == "lake.raw.new"
    assert several_landed(URI, [(claim("v1"), other), (claim("v2"), DONE)]) == ()


def test_rows_that_a_backfill_found_removed_are_not_there():
    # rows of other uploads of the batch were removed: the claims of those have moved on, or are about to
    assert landed_in(claim("v1"), replace(DONE, rows_removed=True)) == {DONE.table}


@pytest.mark.parametrize(
    ("key", "literal"),
    [
        ("it's.json", r"it\'s.json"),
        ("a\\b.json", r"a\\b.json"),
        ("' OR 1 = 1 --", r"\' OR 1 = 1 --"),
        ("line\nnext\u202e", r"line\u000Anext\u202E"),
        ("tränen.json", "tränen.json"),
        ("\U000e0001", r"\U000E0001"),
    ],
)
def test_a_key_is_quoted_as_spark_reads_it(key: str, literal: str):
    found = only(claim("v1", sequencer="0A"), claim("v2", sequencer="0B"), uri=f"s3://landing/{key}")
    assert f"_source_uri = 's3://landing/{literal}' AND" in found.delete


def test_what_a_later_version_has_replaced_is_not_counted():
    """The route appended first, and replaces now."""
    dataset = Dataset("lake.raw.flights", "", "json")
    replacing = replace(DONE, id="02", ended_at=9, dataset=encode_dataset(replace(dataset, replaces=True)))
    appended = replace(DONE, ended_at=5, dataset=encode_dataset(dataset))
    claims = [claim("v1", at=1), claim("v2", at=2), claim("v3", at=3), claim("v4", at=4)]
    batches = dict(zip(claims, [appended, appended, replacing, replace(appended, ended_at=12)], strict=True))

    def counted(count: int) -> Mapping[str, int]:
        known = {PLACE: list(batches.items())[:count]}
        return _counted(PLACE, known[PLACE], left_the_table(known, NO_PORTS))

    assert [counted(count)["lake.raw.flights"] for count in (2, 3, 4)] == [2, 1, 2]
    traces = [Trace(each, None, batches[each], rows=1) for each in claims[:2]]
    assert landed_beside(URI, traces)[0].versions == ("v1", "v2")
    assert landed_beside(URI, [replace(each, replaced_by="v3") for each in traces]) == ()


@pytest.mark.parametrize(("rows", "kept"), [((1, 1, 0), "123"), ((1, 0, 0), "13"), ((1, 0, 1), "13"), ((0, 0, 1), "")])
def test_of_the_versions_without_a_row_the_newest_counts(rows: tuple[int, ...], kept: str):
    """It may be how the owner took the rows back: a DELETE that keeps the one before would bring them back."""
    claims = [claim(f"v{number}", at=number, sequencer=f"0{number}") for number in (1, 2, 3)]
    traces = [Trace(each, None, DONE, rows=count) for each, count in zip(claims, rows, strict=True)]
    found = [each.versions for each in landed_beside(URI, traces)]
    assert found == ([tuple(f"v{number}" for number in kept)] if kept else [])


def test_an_empty_version_that_came_late_is_not_taken_for_the_newest():
    """A listing found it, so nothing says when it was put. Of the others S3's order counts."""
    there = [claim("v1", at=2, sequencer="0A"), claim("v2", at=1, sequencer="0B"), claim("v0", at=9)]
    traces = [Trace(each, None, DONE, rows=each.version != "v0") for each in there]
    assert [(each.versions, each.ordered) for each in landed_beside(URI, traces)] == [(("v1", "v2"), True)]
    assert landed_beside(URI, traces[1:]) == ()


def test_who_took_whose_place_is_what_the_batches_say_and_not_when_they_ended():
    """Settling noticed the later version's batch first."""
    work = MemoryWork()
    dataset = encode_dataset(Dataset("lake.raw.flights", "", "json", replaces=True))
    first = replace(DONE, id="01", ended_at=21, dataset=dataset)
    second = replace(DONE, id="02", ended_at=20, dataset=dataset, tally=Tally(committed=1, rows=5, replaced=5))
    gone = (HeldRows(URI, "v1", "01", 5),)
    outcomes = Outcomes(76, fence=False, tally=second.tally, replaced=gone)
    work.put(outcomes_name(batch_folder("02"), 76), outcomes.encode())
    work.put(batch_folder("02") + "receipt.json", Receipt.of(outcomes, "02", 77).encode())
    known = {PLACE: [(claim("v1"), first), (claim("v2"), second)]}
    ports = cast(Ports, SimpleNamespace(work=work))
    assert left_the_table(known, ports) == {(URI, "v1", "01"): Left("v2", 20, deleted=False)}
