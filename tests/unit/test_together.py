"""Files that are decoded together: the same rows and the same refusals as of each file alone, in fewer calls."""

import datetime
import gzip
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.patience import HANGING
from tests.unit.test_decode_damaged import FLAT
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.formats import json_lines
from tidegate.formats.decode import decoder
from tidegate.formats.json_layout import JsonLayout, layout_of
from tidegate.formats.reasons import Undecodable
from tidegate.reading import ahead
from tidegate.reading import reader as reading
from tidegate.reading import together as module
from tidegate.reading.decoding import Decoding, Refused
from tidegate.reading.together import DecodeAll, Decoded, File, Together, one_by_one

SCHEMA = pa.schema([*FLAT][:8])
"""Without the column that must not be null: rows may have any value missing."""

LINES = [
    b'{"i": 1, "s": "a"}',
    b'{"i": 7, "f": 1.5, "d": 12.5, "x": "aGk=", "t": "2024-02-03T04:05:06Z", "day": "2024-02-03", "b": true}',
    b'{"d": "12.50", "n": "2024-02-03T04:05:06", "z": {"i": [{}]}}',
    b'{"d": null, "i": null}',
    b'{"i": -0, "d": 125e-1}',
    '{"s": "é\\u00e9\\n\\"}{"}'.encode(),
    # odd ones, most of which are refused
    b"",
    b" \t",
    b"\r",
    b"{}",
    b'{"z": 1}',
    b" {} ",
    b"null",
    b"[]",
    b'[{"i": 1}]',
    b"{",
    b"}",
    b'{"i": 1',
    b'"i": 2}',
    b'{"s": "open',
    b'close"}',
    b'{"i": 1} {"i": 2}',
    b'{"i": 1}{"i": 2}',
    b'{"i": 1} null {}',
    b'{"i": 1},{"i": 2}',
    b'{"o": {}',
    b'{"o": [{}',
    b"{}]}",
    b'{"i": 1.5}',
    b'{"i": "1"}',
    b'{"i": 007}',
    b'{"i": 1e2}',
    b'{"i": 2147483648}',
    b'{"i": 99999999999999999999999}',
    b'{"f": 1e999}',
    b'{"f": NaN}',
    b'{"f": 1e39}',
    b'{"z": Infinity}',
    b'{"d": 1.256}',
    b'{"d": "1_5"}',
    b'{"d": "null"}',
    b'{"d": "1\\u0032"}',
    b'{"d": "12.5\xff"}',
    b'{"d": 1e-999999999}',
    b'{"d": 111111111111111111111111111111111111111111}',
    b'{"d": [1]}',
    b'{"d": true}',
    b'{"d": " 1"}',
    b'{"t": "2024-02-03T04:05:06"}',
    b'{"day": "2023-02-29"}',
    b'{"x": "aGk"}',
    b'{"s": "\x01"}',
    b'{"s": "\xff"}',
    b'{"s": "\\ud800"}',
    b'{"z": "\\ud800"}',
    b'{"z": "\xff"}',
    b'{"i": 1, "i": 2}',
    b'{"i": "x", "i": 2}',
    b'{"z": 1, "z": 2}',
    b'\xef\xbb\xbf{"i": 1}',
    b'{"i": 1}\x0b',
    b"\x0c",
    b'{"i": 1}\r{"i": 2}',
    b'{"z": ' + b"[" * 2000 + b"]" * 2000 + b"}",
]
CELLS = [
    b"1",
    b"7",
    b"",
    b'""',
    b"a",
    b"x y",
    b'"a,b"',
    b'"a\nb"',
    b'"a\r\nb"',
    b'"a""b"',
    b'5" pipe',
    b'"a"b',
    b'"open',
    b"1.5",
    b"0x7",
    b"\xff",
    b"\x00",
    b"1,2",
    "é".encode(),
    b"\r",
    b"2147483648",
]
HEADERS = [
    b"i,s",
    b"i,s",
    b"i,s",
    b"i,s",
    b'"i","s"',
    b"s,i",
    b"i,s,z",
    b"i",
    b"z",
    b"i,i",
    b" i,s",
    b"",
    b'"i,s',
    b"\xef\xbb\xbfi,s",
]
ENDS = [b"\n", b"\n", b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\r", b""]


def often(usual: Sequence[bytes], any_of: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Most are usual, so that whole files are often good."""
    return st.one_of(*[st.sampled_from(usual)] * 6, st.sampled_from(any_of))


def lines_of(lines: st.SearchStrategy[bytes], end: bytes, last: bytes) -> st.SearchStrategy[bytes]:
    return st.lists(lines, max_size=4).map(lambda found: end.join(found) + last)


JSON_FILE = st.tuples(st.sampled_from(ENDS), st.sampled_from(ENDS)).flatmap(
    lambda ends: lines_of(often(LINES[:6], LINES), *ends)
)
ROW = st.lists(often(CELLS[:2], CELLS), min_size=1, max_size=3).map(b",".join)
ROWS = st.lists(st.one_of(ROW, st.just(b"1,a"), st.just(b'2,"b"')), max_size=3)
CSV_FILE = st.tuples(st.sampled_from(HEADERS), ROWS, st.sampled_from(ENDS), st.sampled_from(ENDS)).map(
    lambda parts: parts[2].join([parts[0], *parts[1]]) + parts[3]
)


def decoding(format: str = "json", schema: pa.Schema = SCHEMA, **options: Any) -> Decoding:
    return Decoding(Dataset("lake.t", "", format, **options), schema)


def whole(portions: Iterator[Decoded]) -> Decoded:
    """All portions as one."""
    found = Decoded()
    for each in portions:
        found.spans += each.spans
        found.larger += each.larger
        assert not found.refused.keys() & each.refused.keys()
        found.refused |= each.refused
    return found


def ended(decode_all: DecodeAll, files: Sequence[File]) -> list[Any]:
    """What became of each file: its rows, or its refusal."""
    decoded = whole(decode_all(files))
    found: dict[int, Any] = dict(decoded.refused)
    for span in decoded.spans:
        first = 0
        assert sum(span.counts) == span.table.num_rows
        for file, count in zip(span.files, span.counts, strict=True):
            assert file not in found
            found[file] = span.table.slice(first, count).to_pylist()
            first += count
    return [found[number] for number in range(len(files))]


def same(decoding: Decoding, bodies: Sequence[bytes], key: str = "k") -> list[Any]:
    files = [(key, body) for body in bodies]
    alone = ended(one_by_one(decoding), files)
    assert ended(Together(decoding), files) == alone
    return alone


@given(st.lists(JSON_FILE, max_size=6))
def test_json_files_end_together_as_alone(bodies: list[bytes]):
    same(decoding(), bodies)


@given(st.lists(CSV_FILE, max_size=6), st.sampled_from(["windows-1252", "utf-16"]), st.data())
def test_csv_files_in_other_encodings_end_together_as_alone(bodies: list[bytes], encoding: str, data: st.DataObject):
    """A text of windows-1252 has no meaning for some bytes."""
    texts = [body.decode("latin-1") + data.draw(st.sampled_from(["", "3,\xfc\n", "3,\x81\n"])) for body in bodies]
    written = [text.encode("latin-1" if encoding == "windows-1252" else encoding, "replace") for text in texts]
    options = (("encoding", encoding),)
    same(decoding("csv", pa.schema([("i", pa.int32()), ("s", pa.string())]), options=options), written)


@given(st.lists(CSV_FILE, max_size=6))
def test_csv_files_end_together_as_alone(bodies: list[bytes]):
    same(decoding("csv", pa.schema([("i", pa.int32()), ("s", pa.string())])), bodies)


@given(st.lists(CSV_FILE, max_size=6))
def test_csv_files_of_one_column_end_together_as_alone(bodies: list[bytes]):
    same(decoding("csv", pa.schema([("i", pa.int32())])), bodies)


@pytest.mark.parametrize("odd", LINES, ids=range(len(LINES)))
def test_each_odd_line_leaves_its_neighbours_as_they_are(odd: bytes):
    good = b'{"i": 1, "s": "a"}\n'
    for body in (odd, odd + b"\n", good + odd, odd + b"\n" + good, odd + b"\n" + odd):
        before, *_, after = same(decoding(), [good * 2, body, good, b"", good])
        assert len(before) == 2
        assert len(after) == 1


@given(JSON_FILE, st.sampled_from([1, 30, 256_000]))
def test_a_json_file_is_its_lines_each_decoded_alone(body: bytes, block: int):
    """The reference: msgspec on one line, and nothing in one call."""
    decode = decoder("json", SCHEMA)
    expected: list[Any] | None = []
    assume(layout_of(body) is JsonLayout.LINES)
    for line in body.split(b"\n"):
        if line.lstrip().startswith(b"["):
            expected = None
            break
        try:
            expected += decode(line).to_pylist()
        except Undecodable as error:
            if "none of the schema's columns" not in str(error):
                expected = None
                break
            # one line of a file may have none of the columns
            expected.append(dict.fromkeys(SCHEMA.names))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "BLOCK_BYTES", block)
        try:
            found: list[Any] | None = decode(body).to_pylist()
        except Undecodable as error:
            found = expected if "none of the schema's columns" in str(error) else None
    assert found == expected


@pytest.mark.parametrize("spread", [b'{"i":\n3}', b'{"z":\n{}}', b'{"z": {}\n, "i": 3}'])
def test_as_many_objects_as_lines_are_not_one_on_each(spread: bytes):
    (refused,) = same(decoding(), [b'{"i": 1} {"i": 2}\n' + spread])
    assert "line 1" in refused.reason
    refused, after = same(decoding(), [spread, GOOD])
    assert "line 1" in refused.reason
    assert len(after) == 1


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the texts that were decoded, as it goes."""
    calls: list[int] = []

    def counting(*args: Any, **options: Any) -> Callable[[bytes], pa.Table]:
        decode = decoder(*args, **options)
        return lambda body: calls.append(len(body)) or decode(body)  # type: ignore[func-returns-value]

    monkeypatch.setattr(module, "decoder", counting)
    monkeypatch.setattr("tidegate.reading.decoding.decoder", counting)
    return calls


GOOD = b'{"i": 1, "s": "a"}\n'


def test_a_thousand_small_files_are_one_call(monkeypatch: pytest.MonkeyPatch):
    calls = counted(monkeypatch)
    assert ended(Together(decoding()), [("k", GOOD)] * 1000) == [decoder("json", SCHEMA)(GOOD).to_pylist()] * 1000
    assert calls == [1000 * len(GOOD)]


def test_packed_files_are_joined_unpacked(monkeypatch: pytest.MonkeyPatch):
    calls = counted(monkeypatch)
    together = Together(decoding())
    assert len(whole(together([("k.json.gz", gzip.compress(GOOD)), ("k.json", GOOD)])).spans) == 1
    assert calls == [2 * len(GOOD)]


def test_one_bad_file_costs_a_call_for_each_halving(monkeypatch: pytest.MonkeyPatch):
    calls = counted(monkeypatch)
    decoded = whole(Together(decoding())([("k", GOOD)] * 700 + [("k", b"?")] + [("k", GOOD)] * 323))
    assert list(decoded.refused) == [700]
    assert sum(len(span.files) for span in decoded.spans) == 1023
    assert len(calls) == 1 + 2 * 10  # 1024 is 2 ** 10


def test_a_joined_text_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "JOINED_BYTES", 3 * len(GOOD))
    calls = counted(monkeypatch)
    whole(Together(decoding())([("k", GOOD)] * 7))
    assert calls == [3 * len(GOOD), 3 * len(GOOD), len(GOOD)]


def test_what_files_become_is_bounded_too(monkeypatch: pytest.MonkeyPatch):
    """A file that is small as stored may become large: the rows of one portion are emitted before the next is read."""
    monkeypatch.setattr(module, "JOINED_BYTES", 3 * len(GOOD))
    read = []

    def files() -> Iterator[tuple[str, bytes]]:
        for number in range(9):
            read.append(number)
            yield "k.json.gz", gzip.compress(GOOD)

    portions = Together(decoding())(files())  # type: ignore[arg-type]
    sizes = [(sum(len(span.files) for span in each.spans), len(read)) for each in portions]
    assert sizes == [(3, 3), (3, 6), (3, 9)]


def test_a_file_that_is_not_joined_is_not_held(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PIECE_BYTES", 1)
    calls = counted(monkeypatch)
    portions = Together(decoding())([("k", GOOD)] * 5)
    next(portions)
    assert len(calls) == 1


def test_csv_with_two_byte_order_marks_is_decoded_alone():
    twice = b"\xef\xbb\xbf" * 2
    csv = decoding("csv", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    same(csv, [twice + b"a,b\n1,2\n"] * 2)
    same(decoding("csv", pa.schema([("a", pa.int64())])), [twice + b"a\n1\n"] * 2)


def test_a_large_file_is_decoded_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "PIECE_BYTES", len(GOOD))
    calls = counted(monkeypatch)
    whole(Together(decoding())([("k", GOOD), ("k", GOOD * 2), ("k", GOOD)]))
    assert sorted(calls) == [2 * len(GOOD)] * 2


def test_csv_files_under_different_headers_are_not_joined(monkeypatch: pytest.MonkeyPatch):
    csv = decoding("csv", pa.schema([("i", pa.int32()), ("s", pa.string())]))
    calls = counted(monkeypatch)
    bodies = [b"i,s\n1,a\n", b"s,i\na,1\n", b"i,s\n2,b", b's,i\n"a\nb",1\n']
    found = ended(Together(csv), [("k", body) for body in bodies])
    assert [row["i"] for rows in found for row in rows] == [1, 1, 2, 1]
    assert len(calls) == 2


def test_a_file_of_another_kind_is_refused_among_others():
    _, other, nulls, _ = same(decoding(), [GOOD, b'{"A": 1}\n{"A": 2}\n', b'{"i": null}\n', GOOD])
    assert "none of the schema's columns" in other.reason
    assert len(nulls) == 1


def test_a_value_that_no_path_can_hold_refuses_its_file_only():
    long = b'{"s": "' + b"x" * 300 + b'"}\n'
    _, refused, _ = same(decoding(partition_by=("s",)), [GOOD, GOOD + long, GOOD])
    assert refused.reason.startswith("row 2: the table is partitioned by column s")


def test_a_file_that_is_too_large_is_not_made_smaller_by_others():
    few = decoding(max_object_bytes=1000)
    _, refused, _ = same(few, [GOOD, b"{}\n" * 16 + GOOD, GOOD])
    assert "too large" in refused.reason
    _, bomb = same(few, [gzip.compress(GOOD), gzip.compress(b" " * 2000)], "k.gz")
    assert "decompressed" in bomb.reason


def test_a_mistake_in_joining_costs_time_and_no_file(monkeypatch: pytest.MonkeyPatch):
    def wrong(body: bytes) -> Any:
        raise RuntimeError

    monkeypatch.setattr(module, "divider", lambda *_, **__: wrong)
    assert len(whole(Together(decoding())([("k", GOOD)] * 3)).spans) == 3


def test_a_piece_that_counts_wrong_is_not_believed(monkeypatch: pytest.MonkeyPatch):
    piece = module.Piece(b"", GOOD, 2)
    monkeypatch.setattr(module, "divider", lambda *_, **__: lambda body: piece)
    assert [len(rows) for rows in ended(Together(decoding()), [("k", GOOD)] * 3)] == [1, 1, 1]


def test_a_lack_of_memory_refuses_no_file(monkeypatch: pytest.MonkeyPatch):
    def lacking(body: bytes) -> pa.Table:
        raise MemoryError

    monkeypatch.setattr(module, "decoder", lambda *_, **__: lacking)
    with pytest.raises(MemoryError):
        whole(Together(decoding())([("k", GOOD)] * 3))


class TestReader:
    NOW = datetime.datetime(2024, 2, 3, tzinfo=datetime.UTC)

    def read(self, bodies: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], dict[int, Read]]:
        """What the reader emits of these files and what it reports; no row comes before its file's ending."""
        monkeypatch.setattr(reading, "fetch", lambda upload, *_: bodies[int(upload.key)])
        items = [
            (10 + number, OwnedUpload("n" * 40, Upload("b", str(number), f"etag:{number}", 10)))
            for number in range(len(bodies))
        ]
        reported: dict[int, Read] = {}

        def report(position: int, ending: Read) -> None:
            assert position not in reported
            reported[position] = ending

        rows = []
        for batch in reading.Reader(decoding().dataset, SCHEMA, "B1", self.NOW).read(items, report):
            for row in batch.to_pylist():
                assert 10 + int(row["_source_uri"].removeprefix("s3://b/")) in reported
                rows.append(row)
        return rows, reported

    def test_each_row_has_the_lineage_of_its_file(self, monkeypatch: pytest.MonkeyPatch):
        bodies = [GOOD * 2, b"", b"?", GOOD, reading.TooLarge(1 << 60), b"\n" + GOOD * 3]
        rows, reported = self.read(bodies, monkeypatch)
        found = [(row["_source_uri"], row["_source_version"], row["_source_row"]) for row in rows]
        assert sorted(found) == [
            ("s3://b/0", "etag:0", 0),
            ("s3://b/0", "etag:0", 1),
            ("s3://b/3", "etag:3", 0),
            ("s3://b/5", "etag:5", 0),
            ("s3://b/5", "etag:5", 1),
            ("s3://b/5", "etag:5", 2),
        ]
        assert {(row["_batch_id"], row["_ingested_at"]) for row in rows} == {("B1", self.NOW)}
        assert [reported[10 + number].rows for number in range(6)] == [2, 0, 0, 1, 0, 3]
        assert [number for number in range(6) if reported[10 + number].outcome is Outcome.QUARANTINED] == [2, 4]

    def test_many_small_files_are_few_batches(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(reading, "fetch", lambda *_: GOOD)
        items = [(number, OwnedUpload("n" * 40, Upload("b", str(number), "etag:1", 10))) for number in range(3000)]
        reader = reading.Reader(decoding().dataset, SCHEMA, "B1", self.NOW)
        assert [batch.num_rows for batch in reader.read(items, lambda *_: None)] == [3000]

    def test_what_is_fetched_ahead_is_bounded(self, monkeypatch: pytest.MonkeyPatch):
        asked: list[str] = []
        monkeypatch.setattr(reading, "fetch", lambda upload, *_: asked.append(upload.key) or GOOD)
        monkeypatch.setattr(ahead, "AHEAD_BYTES", 100)
        items = [(number, OwnedUpload("n" * 40, Upload("b", str(number), "etag:1", 40))) for number in range(9)]
        reader = reading.Reader(decoding().dataset, SCHEMA, "B1", self.NOW)
        for number, _ in enumerate(reader._fetch_ahead(items), start=1):
            assert len(asked) <= number + 2

    @pytest.mark.parametrize("count", [0, 1, 63, 64, 200, 5_000])
    def test_all_come_in_order_and_few_files_keep_all_threads_busy(self, count: int):
        # who fetches waits for the others: a row of two would wait for ever
        all_at_once = threading.Barrier(min(max(1, count), ahead.THREADS))

        def fetch(upload: Upload) -> bytes:
            if count < 200:
                all_at_once.wait(HANGING)
            return upload.key.encode()

        chance = random.Random(count)
        items = [
            (number, OwnedUpload("n" * 40, Upload("b", str(number), "etag:1", chance.choice((10, 200_000)))))
            for number in range(count)
        ]
        found = [(number, body) for number, _, body in ahead.fetched_ahead(items, fetch)]
        assert found == [(number, str(number).encode()) for number in range(count)]


def test_refusals_are_compared_with_their_words():
    """What the other tests rest on: two refusals are the same only if they say the same."""
    assert Refused("a", "line 1") != Refused("a", "line 2")
