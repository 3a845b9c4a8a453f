"""Large files in splits: together they have the rows of the whole file, or one of them is refused."""

import csv
import io
import json
import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.test_stream_decode import Body
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.routes import Dataset
from tidegate.core.splits import LEAST_SPLIT, joined, split_bytes, to_split
from tidegate.formats import streams
from tidegate.formats.decode import splitter
from tidegate.formats.reasons import Undecodable
from tidegate.formats.splits import GroupSplitter, Split, StoredGroup, even_ranges
from tidegate.reading.decoding import Decoding

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def decoding(format: str, schema: pa.Schema = SCHEMA, **options: Any) -> Decoding:
    return Decoding(Dataset("lake.t", "id bigint, text string", format, options=tuple(options.items())), schema)


def cut(decoding: Decoding, body: bytes, most: int, piece: int = 7) -> list[Split]:
    """The splits of a file; none if it is to be read as a whole."""
    splitter = decoding.splitter
    assert splitter is not None
    with patch.object(streams, "RANGE_BYTES", piece):
        try:
            surveys = [splitter.survey(Body(body), *each) for each in splitter.ranges(len(body), most)]
        except Undecodable:
            return []
        return splitter.cut(pickle.loads(pickle.dumps(surveys)), len(body), most)


def in_splits(decoding: Decoding, body: bytes, splits: Sequence[Split]) -> list[dict[str, Any]] | None:
    """The rows of all splits; None if one is refused."""
    rows: list[dict[str, Any]] = []
    for number, split in enumerate(splits):
        assert (split.before, split.of) == (len(rows), len(splits)), number
        try:
            for table in decoding.split("a", Body(body), split):
                rows += table.to_pylist()
        except Undecodable:
            return None
    return rows


def whole(decoding: Decoding, body: bytes) -> list[dict[str, Any]] | None:
    table = decoding("a", body)
    return table.to_pylist() if isinstance(table, pa.Table) else None


def check(decoding: Decoding, body: bytes, most: int, piece: int = 7) -> int:
    """How many splits there were, if all of them have landed."""
    splits = cut(decoding, body, most, piece)
    if not splits:
        return 0
    found, there = in_splits(decoding, body, splits), whole(decoding, body)
    if found is None:
        return 0
    assert found == there
    return len(splits)


LINE = st.one_of(
    st.builds(lambda each: json.dumps(each), st.fixed_dictionaries({"id": st.none() | st.integers(0, 9999)})),
    st.sampled_from(['{"id": 1, "text": "a b"}', '{"id": 2}  ', "{}", '{"other": 1}']),
    st.sampled_from(["", " ", "\t", "\r", '{"id": "x"}', "[1]", "{", '{"id": 1}{"id": 2}', "\ufeff"]),
)


@given(
    st.lists(LINE, max_size=30), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.integers(1, 60), st.integers(1, 9)
)
@example(['{"id": 1}'] * 9, "\n", True, 10, 3)
@example(['{"id": 1}'] * 9, "\n", True, 3, 3)
@example(["", "", '{"id": 1}', "", ""], "\n", True, 4, 2)
def test_json_in_splits_is_the_whole_or_is_refused(
    lines: list[str], end: str, ended: bool, most: int, piece: int
) -> None:
    body = (end.join(lines) + end * ended).encode()
    if body:
        check(decoding("json"), body, most, piece)


FIELD = st.sampled_from(
    ["1", "22", "", '"a"', '"a\nb"', '"a\r\nb"', '"x""y"', '"\n"', '"",""', 'in"ch', '5"', '"', "a,b", '"a"b']
)


@given(
    st.lists(st.tuples(st.sampled_from(["1", "20", ""]), FIELD), max_size=30),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.sampled_from(["", "\ufeff", "\n", "\ufeff\n"]),
    st.integers(5, 90),
    st.integers(9, 20),
)
@example([("1", 'a"b'), ("2", '"x\ny"'), ("3", '"p\nq"'), ("4", 'a"b'), ("5", "z")] * 3, "\n", True, "", 10, 9)
def test_csv_in_splits_is_the_whole_or_is_refused(
    rows: list[tuple[str, str]], end: str, ended: bool, before: str, most: int, piece: int
) -> None:
    lines = ["id,text", *(",".join(row) for row in rows)]
    body = (before + end.join(lines) + end * ended).encode()
    check(decoding("csv"), body, most, piece)


@given(st.lists(st.text('ab,;"\n\r1 ', max_size=8), min_size=1, max_size=30), st.integers(12, 90))
def test_what_a_csv_writer_writes_is_split_and_lands(texts: list[str], most: int) -> None:
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    writer.writerows([["id", "text"], *([number, text.replace("\r", "")] for number, text in enumerate(texts))])
    body = written.getvalue().encode()
    of_csv = decoding("csv")
    splits = cut(of_csv, body, most, 20)
    # a file of nothing but line ends and quotes may have lines that may be blank
    if splits:
        assert in_splits(of_csv, body, splits) == whole(of_csv, body)


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("json", b"".join(b'{"id": %d, "text": "some text"}\n' % each for each in range(500))),
        ("json", b"".join(b'{"id": %d, "text": "some text"}\r\n' % each for each in range(500))),
        ("csv", b"id,text\n" + b"".join(b'%d,"a ""b"",\n c"\n' % each for each in range(500))),
        ("csv", b"id,text\r\n" + b"".join(b'%d,"a\n\nc"\r\n' % each for each in range(500))),
        ("csv", b"text,other,id\n" + b"".join(b"a,b,%d\n" % each for each in range(500))[:-1]),
    ],
)
def test_ordinary_files_are_split_into_as_many_as_the_bytes_allow(format: str, body: bytes) -> None:
    assert check(decoding(format), body, 1_000, 300) == -(-len(body) // 1_000)


def parquet(rows: int, group: int, **columns: Any) -> bytes:
    written = io.BytesIO()
    table = pa.table({"id": pa.array(range(rows), pa.int64()), "text": ["x" * 20] * rows, **columns})
    pq.write_table(table, written, row_group_size=group)
    return written.getvalue()


def test_orc_is_split_between_stripes() -> None:
    written = io.BytesIO()
    texts = [f"{each * 7919 % 100003:x}" * 20 for each in range(30_000)]
    table = pa.table({"id": pa.array(range(30_000), pa.int64()), "text": texts})
    pyarrow.orc.write_table(table, written, stripe_size=100_000, batch_size=1_000)
    body, of_orc = written.getvalue(), decoding("orc")
    splits = cut(of_orc, body, 300_000)
    assert len(splits) > 2
    assert in_splits(of_orc, body, splits) == whole(of_orc, body) == table.to_pylist()
    wrong = replace(splits[1], rows=splits[1].rows - 1)
    with pytest.raises(Undecodable, match="were counted"):
        list(of_orc.split("a", Body(body), wrong))


@pytest.mark.parametrize("most", [1, 800, 2_000])
def test_parquet_is_split_between_row_groups(most: int) -> None:
    body = parquet(1_000, 90)
    of_parquet = decoding("parquet")
    splits = cut(of_parquet, body, most)
    assert len(splits) == {1: 12, 800: 12, 2_000: 6}[most]
    assert in_splits(of_parquet, body, splits) == whole(of_parquet, body)
    assert (splits[0].start, splits[-1].end) == (0, 12)


def test_a_parquet_file_of_one_row_group_is_not_split() -> None:
    assert cut(decoding("parquet"), parquet(1_000, 1_000), 100) == []


def test_a_split_that_is_not_as_it_was_counted_is_refused() -> None:
    body = b"".join(b'{"id": %d}\n' % each for each in range(100))
    of_json = decoding("json")
    first, second, *_ = cut(of_json, body, 300)
    moved = Split(second.start, second.end, second.rows + 1, second.before, second.of, second.reach)
    with pytest.raises(Undecodable, match="were counted"):
        list(of_json.split("a", Body(body), moved))
    assert len([row for table in of_json.split("a", Body(body), first) for row in table.to_pylist()]) == first.rows


def test_lines_without_a_field_of_the_schema_are_judged_by_the_whole_file() -> None:
    body = b'{"id": 1}\n' * 20 + b'{"other": 1}\n' * 20
    of_json = decoding("json")
    splits = cut(of_json, body, 100)
    assert len(splits) > 2
    assert in_splits(of_json, body, splits) is None
    assert len(whole(of_json, body) or []) == 40


def test_a_bad_row_is_in_one_split() -> None:
    body = b"".join(b'{"id": %d}\n' % each for each in range(100)) + b'{"id": "x"}\n'
    of_json = decoding("json")
    *good, bad = cut(of_json, body, 300)
    for split in good:
        list(of_json.split("a", Body(body), split))
    with pytest.raises(Undecodable):
        list(of_json.split("a", Body(body), bad))


def test_compressed_files_and_other_formats_are_not_split() -> None:
    assert not decoding("json").splits("a.json.gz")
    assert decoding("json").splits("a.json")
    assert not decoding("avro").splits("a.avro")
    assert splitter("avro", SCHEMA) is None
    assert splitter("csv", SCHEMA, [("encoding", "windows-1252")]) is None


def test_a_split_asks_for_nothing_beyond_itself() -> None:
    body = b"".join(b'{"id": %d}\n' % each for each in range(100))
    of_json = decoding("json")
    for split in cut(of_json, body, 300):
        source = Body(body)
        list(of_json.split("a", source, split))
        assert min(start for start, _ in source.asked) == split.start
        assert max(end for _, end in source.asked) == split.end == split.reach


def test_ranges_cover_a_file() -> None:
    assert even_ranges(10, 3) == [(0, 2), (2, 5), (5, 7), (7, 10)]
    assert even_ranges(10, 10) == [(0, 10)]


@pytest.mark.parametrize(
    ("sizes", "slots", "split"),
    [
        ([100], 4, [0]),
        ([10, 10, 10], 4, []),
        ([100, 1, 1, 200], 4, [0, 3]),
        ([100] * 8, 4, []),
        ([100] * 7, 4, list(range(7))),
        ([], 4, []),
    ],
)
def test_files_are_split_that_would_keep_one_task_busy_for_long(sizes: list[int], slots: int, split: list[int]) -> None:
    assert to_split(sizes, slots=slots, task_bytes=10) == split


@given(size=st.integers(1, 1 << 40), slots=st.integers(0, 300), task_bytes=st.sampled_from([1_000, 64_000_000]))
def test_splits_keep_all_slots_busy_or_would_be_small(size: int, slots: int, task_bytes: int) -> None:
    each = split_bytes(size, slots=slots, task_bytes=task_bytes)
    assert 0 < each <= task_bytes
    count = math.ceil(Fraction(size, task_bytes))
    even = math.ceil(Fraction(count, max(1, slots))) * max(1, slots)
    if size >= even * LEAST_SPLIT:
        assert -(-size // each) == even
    else:
        assert -(-size // each) == count


def test_a_file_of_three_tasks_is_four_on_two_slots() -> None:
    assert split_bytes(0, slots=2, task_bytes=64_000_000) == 1
    assert split_bytes(150_000_000, slots=2, task_bytes=64_000_000) == 37_500_000
    assert split_bytes(200_000_000, slots=64, task_bytes=64_000_000) == 50_000_000


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 100))
def test_groups_are_cut_into_splits_of_about_equal_size(sizes: list[int], most: int) -> None:
    groups = [StoredGroup(1, size) for size in sizes]
    splitter = GroupSplitter(lambda source: groups, lambda stream, chosen: iter(()))
    weight = splitter.weight([groups], 1_000)
    assert weight == sum(sizes)
    splits = splitter.cut([groups], 1_000, most)
    if not splits:
        assert len(sizes) < 2 or weight <= most or max(sizes) * 2 >= weight
        return
    assert [split.start for split in splits] == [0, *(split.end for split in splits[:-1])]
    assert splits[-1].end == len(sizes)
    assert len(splits) <= -(-weight // most)
    largest = max(sum(sizes[split.start : split.end]) for split in splits)
    assert largest <= weight / -(-weight // most) + max(sizes)


LANDED, REFUSED = Read(Outcome.COMMITTED, 5), Read(Outcome.QUARANTINED, 0, "bad")


@pytest.mark.parametrize(
    ("reads", "read"),
    [
        ([LANDED, LANDED], Read(Outcome.COMMITTED, 10)),
        ([LANDED, None], None),
        ([REFUSED, None], None),
        ([LANDED, REFUSED], Read(Outcome.QUARANTINED, 0, "bad", spoiled=True)),
        ([REFUSED, REFUSED], Read(Outcome.QUARANTINED, 0, "bad")),
        ([Read(Outcome.COMMITTED), REFUSED], Read(Outcome.QUARANTINED, 0, "bad")),
        ([Read(Outcome.VANISHED, 0, "gone", spoiled=True)], Read(Outcome.VANISHED, 0, "gone", spoiled=True)),
    ],
)
def test_the_splits_of_a_file_end_together(reads: list[Read | None], read: Read | None) -> None:
    assert joined(reads) == read
