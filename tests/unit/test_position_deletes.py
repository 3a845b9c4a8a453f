"""When the driver itself marks the rows that leave, and how uris are named to Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.core.replacing import HeldRows
from tidegate.sinks.iceberg import position_deletes, removal
from tidegate.sinks.iceberg.position_deletes import NO_RANGES, LocatedRows, RowRange

A, B = ("s3://b/a", "v1", "01A"), ("s3://b/b", "v1", "01A")
RANGES = LocatedRows(
    7, ("s3://b/a", "s3://b/b"), {A: [RowRange("f", 0, 3, 4), RowRange("g", 2, 2, 1)], B: [RowRange("f", 4, 9, 5)]}
)
STAGED: Any = SimpleNamespace(parentId=lambda: 7)


def test_rows_next_to_each_other_are_ranges_of_their_files():
    assert RANGES.ranges([A], STAGED) == {"f": [RowRange("f", 0, 3, 4)], "g": [RowRange("g", 2, 2, 1)]}
    assert RANGES.held == [HeldRows(*A, 5), HeldRows(*B, 5)]


def test_what_is_not_known_as_a_few_ranges_is_left_to_spark(monkeypatch: pytest.MonkeyPatch):
    assert RANGES.ranges([A, B], STAGED) is None, "others are between those of b"
    assert RANGES.ranges([A, ("s3://b/a", "v2", "01B")], STAGED) is None
    other: Any = SimpleNamespace(parentId=lambda: 8)
    assert RANGES.ranges([A], other) is None, "looked for in another version of the table"
    assert NO_RANGES.ranges([A], STAGED) is None
    for bound, most in (("MOST_FILES", 1), ("MOST_ROWS", 4)):
        with monkeypatch.context() as low:
            low.setattr(position_deletes, bound, most)
            assert RANGES.ranges([A], STAGED) is None


def test_plain_texts_are_named_as_they_are_and_others_so_that_no_session_misreads_them(
    monkeypatch: pytest.MonkeyPatch,
):
    assert removal.among("u", ["s3://b/a-1_2.json"]) == "(u IN ('s3://b/a-1_2.json'))"
    for key in ("o'brien", "a\\b", "${x}", "é", "a\nb", "a;b"):
        assert removal.among("u", [key]) == f"(u IN (decode(X'{key.encode().hex()}', 'utf-8')))"
    many = [f"s3://b/{number:04}" for number in range(201)]
    assert removal.among("u", many).count(" IN (") == 2
    monkeypatch.setattr(removal, "MOST_NAMED", 2)
    assert removal.among("u", many) == "u BETWEEN 's3://b/0000' AND 's3://b/0200'"
