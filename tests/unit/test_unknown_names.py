"""What is kept of the names that files have beyond the schema: bounded, and readable by any version."""

import gzip
import json

import pytest

from tidegate.core.outcomes import Outcome, Read, Tally
from tidegate.core.receipts import Outcomes, Receipt, decode_outcomes, decode_receipt
from tidegate.core.splits import joined
from tidegate.core.unknown import MORE, NO_NAMES, UnknownNames, gathered, told

TALLY = Tally(committed=3, rows=9)


def outcomes(unknown: UnknownNames) -> Outcomes:
    return Outcomes(7, False, TALLY, (), "digest", ((3, 3, 3),), unknown)


def test_each_name_counts_its_uploads_and_has_the_first_as_an_example():
    found = gathered([("s3://b/1", ("a",)), ("s3://b/2", ("b", "a")), ("s3://b/3", ())])
    assert found == UnknownNames(2, {"a": 2, "b": 1}, {"a": "s3://b/1", "b": "s3://b/2"})
    assert told(found.names) == "a (2 uploads), b (1 upload)"


def test_the_most_frequent_names_are_kept_and_it_is_said_that_there_are_more():
    found = gathered(
        [("s3://b/1", [f"n{number:02}" for number in range(60)]), ("s3://b/2", ["z"]), ("s3://b/3", ["z"])]
    )
    assert (found.uploads, len(found.names), found.names["z"], found.names[MORE]) == (3, 51, 2, 1)
    brief = found.brief()
    assert list(brief.names) == ["z", *(f"n{number:02}" for number in range(9)), MORE]
    assert told(brief.names).endswith("n08 (1 upload) and more")
    assert gathered([("s3://b/1", ["a", MORE])]).names == {"a": 1, MORE: 1}


def test_a_receipt_has_few_characters_of_names():
    """They are in the ledger, too."""
    found = gathered([("s3://b/1", [f"{number}{'x' * 99}" for number in range(8)])])
    assert [len(name) for name in found.brief().names] == [100, 100, 100, len(MORE)]


def test_outcomes_and_receipt_are_read_as_they_were_written():
    unknown = gathered([("s3://b/1", ("a",)), ("s3://b/2", ("b", "a"))])
    assert decode_outcomes(outcomes(unknown).encode()) == outcomes(unknown)
    receipt = Receipt.of(outcomes(unknown), "batch", 8)
    assert decode_receipt(receipt.encode()) == receipt
    assert receipt.unknown == UnknownNames(2, {"a": 2, "b": 1})


def test_what_older_code_wrote_has_no_names():
    header, receipt = outcomes(NO_NAMES).encode(), Receipt.of(outcomes(NO_NAMES), "batch", 8).encode()
    assert "unknown" not in json.loads(gzip.decompress(header).splitlines()[0])
    assert "unknown" not in json.loads(receipt)
    assert decode_outcomes(header).unknown == decode_receipt(receipt).unknown == NO_NAMES


def test_names_are_told_in_order_whatever_order_they_come_in():
    """A map of the ledger has none."""
    assert told({MORE: 9, "b": 1, "c": 1000, "a": 1}) == "c (1,000 uploads), a (1 upload), b (1 upload) and more"


def test_a_file_in_splits_has_the_names_of_all_of_them():
    reads = [Read(Outcome.COMMITTED, 2, unknown=("b",)), Read(Outcome.COMMITTED, 1, unknown=("a", "b"))]
    found = joined(reads)
    assert found is not None
    assert (found.rows, found.unknown) == (3, ("b", "a"))


def test_nothing_rests_on_the_names():
    """A task that Spark ran twice has read the same file, whatever it says of names."""
    assert Read(Outcome.COMMITTED, 1, unknown=("a",)) == Read(Outcome.COMMITTED, 1)


@pytest.mark.parametrize("fence", [True, False])
def test_a_receipt_has_what_its_outcomes_have(fence: bool):
    of = Outcomes(7, fence, TALLY, (), "digest")
    assert Receipt.of(of, "batch", 8) == Receipt("batch", 8, 7, fence, TALLY, "digest")
