"""The lineage of a table: its prefix, its order, its files, and that nothing is left out unnoticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.errors import Rejected
from tidegate.core.lineage import (
    CompleteLineage,
    Landed,
    checked_prefix,
    decode_complete,
    decode_history,
    decode_landed,
    encode_history,
    encode_landed,
    in_order,
)
from tidegate.core.publication import History, Snapshot

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
LANDED = st.builds(Landed, TEXTS, TEXTS, TEXTS, TEXTS, st.integers(1, 10))


def complete_of(found: list[Landed]) -> CompleteLineage:
    return CompleteLineage("lake.a.b", "", 7, "d", ("1",), len(found), sum(each.rows for each in found))


@pytest.mark.parametrize(
    ("prefix", "begins"),
    [
        ("", "s3://"),
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/", "s3://bucket/"),
        ("s3://bucket/a b/ü'\\", "s3://bucket/a b/ü'\\"),
    ],
)
def test_a_prefix_means_one_bucket(prefix: str, begins: str):
    assert checked_prefix(prefix) == begins


@pytest.mark.parametrize("prefix", ["bucket/flights", "s3://", "s3:///flights", "s3a://bucket/"])
def test_what_is_no_prefix_is_refused(prefix: str):
    with pytest.raises(ValueError, match="is not s3://BUCKET/PREFIX"):
        checked_prefix(prefix)


@given(st.lists(LANDED, unique_by=lambda each: each.place))
def test_the_order_is_that_of_the_bytes(found: list[Landed]):
    by_bytes = sorted(found, key=lambda each: [part.encode() for part in each.place])
    assert sorted(found, key=lambda each: each.place) == by_bytes


@given(
    st.lists(LANDED, unique_by=lambda each: each.place).map(lambda found: sorted(found, key=lambda each: each.place))
)
def test_a_file_gives_back_what_was_written(found: list[Landed]):
    read = decode_landed(encode_landed(found)) if found else iter(())
    assert list(in_order(read, complete_of(found))) == found


def test_a_history_gives_back_what_was_written():
    """An audit asks which snapshots took rows away (`flows.replaced_rows`)."""
    took = Snapshot(3, 2, frozenset({"B"}), source=9, holds="B", adds=True, removes=True, rewrites=True)
    history = History("u", (took, Snapshot(2, 1, adds=True), Snapshot(1, None, removes=True)))
    assert decode_history(encode_history(history)) == history


def test_a_complete_run_gives_back_what_was_written():
    complete = complete_of([Landed("b", "k", "v", "B", 2)])
    assert decode_complete(complete.encode()) == complete
    with pytest.raises(Rejected, match="newer code wrote it"):
        decode_complete(complete.encode().replace(b'"v": 1', b'"v": 2'))


FOUND = [Landed("a", "1", "v", "B", 1), Landed("a", "2", "v", "B", 2), Landed("b", "1", "v", "B", 3)]


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ([FOUND[1], FOUND[0], FOUND[2]], "is not in order at s3://a/1"),
        ([FOUND[0], FOUND[0], FOUND[1]], "is not in order at s3://a/1"),
        (FOUND[:2], "has 2 uploads with 3 rows; its job counted 3 with 6"),
        ([*FOUND[:2], Landed("b", "1", "v", "B", 4)], "has 3 uploads with 7 rows; its job counted 3 with 6"),
    ],
    ids=["swapped", "twice", "cut_off", "other_rows"],
)
def test_what_is_not_whole_is_refused_at_the_end(read: list[Landed], said: str):
    with pytest.raises(Rejected, match=said):
        list(in_order(read, complete_of(FOUND)))
