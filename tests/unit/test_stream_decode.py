"""Files that are decoded piece by piece: the same rows and the same refusals as whole, wherever they are cut."""

import bz2
import csv
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.formats import avro as avro_files
from tidegate.formats import orc as orc_files
from tidegate.formats import parquet as parquet_files
from tidegate.formats import records, streams
from tidegate.formats.decode import decoder, streaming
from tidegate.formats.orc_tail import read_tail
from tidegate.formats.quotes import check_quotes
from tidegate.formats.reasons import Oversized, Undecodable
from tidegate.formats.records import Lines, records_of_csv, within_memory
from tidegate.formats.registry import ENCODINGS
from tidegate.formats.streams import Allowance, RecentBlocks, Stream
from tidegate.reading.decompress import decompress

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("day", pa.date32())])
PLENTY = 1 << 40


@dataclass
class Body:
    """A file in memory, that notes what is read of it."""

    body: bytes
    asked: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.body)

    def read(self, start: int, end: int) -> bytes:
        assert 0 <= start < end <= len(self.body), (start, end)
        self.asked.append((start, end))
        return self.body[start:end]


def stream_of(body: bytes, codec: str | None = None, limit: int = PLENTY) -> Stream:
    return Stream(Body(body), codec, Allowance(limit, "max_object_bytes"))


def in_pieces(
    format: str,
    body: bytes,
    schema: pa.Schema = SCHEMA,
    *,
    size: int = PLENTY,
    codec: str | None = None,
    **options: Any,
) -> list[pa.Table]:
    """The tables of a file that comes in ranges of `size` bytes."""
    decode = streaming(format, schema, options.items())
    with patch.object(streams, "RANGE_BYTES", min(size, 8 << 20)), patch.object(Stream, "pieces", _cut(size)):
        return list(decode(stream_of(body, codec)))


def _cut(size: int) -> Any:
    whole = Stream.pieces
    return lambda stream: whole(stream, min(size, 4 << 20))


Told = tuple[str, Any, Any]


def told(tables: Any) -> Told:
    """Rows, or a refusal: its reason, and where."""
    try:
        found = tables()
    except Undecodable as error:
        return "refused", str(error), error.where
    rows = [row for table in found for row in table.to_pylist()]
    for table in found:
        table.validate(full=True)
    return "rows", rows, ""


def compared(format: str, body: bytes, schema: pa.Schema = SCHEMA, *, size: int, **options: Any) -> tuple[Told, Told]:
    whole = told(lambda: [decoder(format, schema, options.items())(body)])
    return whole, told(lambda: in_pieces(format, body, schema, size=size, **options))


SIZES = st.integers(1, 40)


@pytest.mark.parametrize("size", [1, 3, 7, 9, PLENTY])
@pytest.mark.parametrize(
    ("format", "body", "columns"),
    [
        # a return that ends the header, and a blank line: two line ends
        ("csv", b"id\r456\r456\r23\r1\n\n23\r", ["id"]),
        ("csv", b"id\r\n\n1\n", ["id"]),
        # a mark that is not the first of the file
        ("csv", b"\xef\xbb\xbf\xef\xbb\xbfid,text\n1,a\n2,b\n", ["id", "text"]),
        ("csv", b"\n\xef\xbb\xbfid,text\n1,a\n", ["id", "text"]),
        ("csv", b"\xef\xbb\xbf\n\xef\xbb\xbfid,text\n1,a\n", ["id", "text"]),
        ("csv", b"\xef\xbb\xbf\xef\xbb\xbfid\n1\n", ["id"]),
        # a name that is no text
        ("json", b'{"i\xffd": 1}\n' * 3 + b'{"id": 1}\n', ["id"]),
        ("json", b'{"id": 1}\n' * 3 + b'{"other": "\xff"}\n', ["id"]),
    ],
)
def test_what_was_once_read_otherwise_in_pieces(format: str, body: bytes, columns: list[str], size: int):
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    whole, piecewise = compared(format, body, schema, size=size)
    assert piecewise == whole


def test_json_is_utf_8_also_where_the_schema_does_not_look():
    with pytest.raises(Undecodable, match=r"^line 2: the bytes ff are no UTF-8, which JSON is"):
        decoder("json", SCHEMA)(b'{"id": 1}\n{"other": "\xff"}\n')


# ---- JSON

LINES = st.sampled_from(
    [
        b"",
        b" \t",
        b"{}",
        b"null",
        b'{"id": 1, "text": "a"}',
        b'{"id":\r1}\r',
        b'{"id": null}',
        b'{"other": 1}',
        b'{" id": 1}',
        b'{"id": "x"}',
        b'{"id": 9223372036854775808}',
        b'{"day": "2024-02-03", "id": -5}',
        b'{"day": "2024-02-30"}',
        b'{"text": "line 2: \xc3\xa9\\n"}',
        b'{"text": "\xff"}',
        b'{"id": 1} {"id": 2}',
        b'{"id": 1',
    ]
)
GOOD_LINES = st.sampled_from(
    [b"", b'{"id":\r1}\r', b"{}", b'{"id": 1}', b'{"other": 1}', b'{"text": "a\\nb", "day": "2024-02-03"}']
)


def lines(of: Sequence[bytes], end: bytes, ended: bool) -> bytes:
    return end.join(of) + (end if ended else b"")


@given(st.lists(LINES, max_size=8), st.sampled_from([b"\n", b"\r\n"]), st.booleans(), SIZES)
@example([b'{"other": 1}', b'{"id": null}'], b"\n", True, 3)
@example([b'{"other": 1}', b"{}", b'{" id": 1}'], b"\n", True, 3)
@example([b"{}", b"{}"], b"\n", False, 2)
@settings(max_examples=400, deadline=None)
def test_json_is_taken_and_refused_as_whole(of: list[bytes], end: bytes, ended: bool, size: int):
    whole, piecewise = compared("json", lines(of, end, ended), size=size)
    assert piecewise[0] == whole[0], (whole, piecewise)
    if whole[0] == "rows":
        assert piecewise == whole


@given(st.lists(GOOD_LINES, max_size=5), LINES, st.lists(GOOD_LINES, max_size=3), st.booleans(), SIZES)
@settings(max_examples=400, deadline=None)
def test_one_bad_line_of_json_is_told_as_whole(before: list[bytes], bad: bytes, after: list[bytes], ended: bool, size):
    whole, piecewise = compared("json", lines([*before, bad, *after], b"\n", ended), size=size)
    assert piecewise == whole


# ---- CSV


@given(st.text('",ab\n\r1', max_size=24), SIZES, st.sampled_from([b"text,id\n", b"text\n", b"\r\n\ntext,id\r\n", b""]))
@example('5" pipe,"a\r\nb"\r\nx,"""y"""', 3, b"text,id\n")
@example('\n\n"a"\n', 2, b"text\n")
@example('a\r\n\r\n"a"\r\n', 1, b"text\n")
@settings(max_examples=1000, deadline=None)
def test_csv_is_taken_and_refused_as_whole(text: str, size: int, head: bytes):
    schema = pa.schema([("text", pa.string()), ("id", pa.string())])
    whole, piecewise = compared("csv", head + text.encode(), schema, size=size)
    assert piecewise[0] == whole[0], (whole, piecewise)
    if whole[0] == "rows":
        assert piecewise == whole


@given(
    st.lists(st.sampled_from(["1,a,", '2,"a\nb",2024-02-03', "", '3,"x""y",', ",,"]), max_size=6),
    st.sampled_from(["x,a,", "1,a", '1,"a"b,', "1,a,2024-02-30", '1,"a,', "1,a,,", "1,\xff,", "7,a,"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    SIZES,
)
@settings(max_examples=400, deadline=None)
def test_one_bad_row_of_csv_is_told_as_whole(good: list[str], bad: str, end: str, size: int):
    text = end.join(["id,text,day", *good, bad, *good[:2], ""])
    whole, piecewise = compared("csv", b"\xef\xbb\xbf" + text.encode("latin-1"), size=size)
    assert piecewise == whole


ENCODED = st.sampled_from(ENCODINGS)


@given(st.text('",ab\n\rйüあ한ş', max_size=24), SIZES, ENCODED, st.sampled_from([b"", b"\xff", b"\x81", b"\x00\xd8"]))
@example("a,b\r\nb,b", 1, "utf-16", b"")
@settings(max_examples=1000, deadline=None)
def test_csv_in_any_encoding_is_that_of_utf_8(text: str, size: int, encoding: str, bad: bytes):
    schema = pa.schema([("text", pa.string()), ("id", pa.string())])
    text = "text,id\r\n" + text.encode(encoding, "replace").decode(encoding).removeprefix("\ufeff")
    written = text.encode(encoding)
    # what bytes of one encoding mean in another is its own affair
    whole, piecewise = compared("csv", written + bad, schema, size=size, encoding=encoding)
    assert piecewise[0] == whole[0], (whole, piecewise)
    if whole[0] == "rows" or piecewise[1].startswith(f"not {encoding}"):
        # of several faults, the first in the file is found in pieces, and the encoding's in a whole file
        assert piecewise == whole
    if not bad:
        assert whole == told(lambda: [decoder("csv", schema)(text.encode())])


@pytest.mark.parametrize(
    ("encoding", "body", "why", "where"),
    [
        ("windows-1252", b"text\na\r\nb\x81c\n", "the bytes 81 in line 3 are no character", r"line 3: b\x81"),
        ("utf-16", "text\nab".encode("utf-16-le"), "it has no byte order mark", "line 1"),
        ("utf-16", "text\nab".encode("utf-16") + b"c", "the bytes 63 in line 2 are no character", "line 2: abc"),
        ("utf-16", "text\n".encode("utf-16") + b"\0\xd8a\0", "the bytes 00 d8 in line 2", r"line 2: \x00"),
        ("iso-8859-1", b"\xef\xbb\xbftext\na\n", "begins with the byte order mark of UTF-8", "line 1"),
        ("utf-16", b"\xef\xbb\xbftext\na\n", "begins with the byte order mark of UTF-8", "line 1"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_bytes_that_mean_nothing_are_told_as_whole(encoding: str, body: bytes, why: str, where: str, size: int):
    schema = pa.schema([("text", pa.string())])
    whole, piecewise = compared("csv", body, schema, size=size, encoding=encoding)
    assert whole[0] == "refused"
    assert whole[1].startswith(f"not {encoding}, which the route says: ")
    assert why in whole[1]
    assert whole[2] == where
    assert piecewise == whole


def test_text_that_grows_in_utf_8_counts_as_it_grows():
    body = b"text\n" + b"\xe9\xe9\xe9\n" * 1000
    decode = streaming("csv", pa.schema([("text", pa.string())]), [("encoding", "iso-8859-1")])
    assert sum(table.num_rows for table in decode(stream_of(body, limit=7_005))) == 1000
    with pytest.raises(Oversized):
        list(decode(stream_of(body, limit=7_004)))
    with pytest.raises(Oversized):
        decoder("csv", pa.schema([("text", pa.string())]), [("encoding", "iso-8859-1")], max_bytes=7_004)(body)


@given(st.text('",ab\n\r', max_size=20), st.text('",ab\n\r', max_size=8))
@settings(max_examples=1000)
def test_a_record_of_csv_ends_there_whatever_follows(text: str, more: str):
    """What is before it is taken or refused by itself, and what is behind it begins a record."""
    body, whole = text.encode(), (text + more).encode()
    end = records_of_csv(",").last_end(body)
    assert 0 <= end <= len(body)
    if not _accepted(whole):
        return
    records = list(csv.reader(io.StringIO(whole.decode(), newline="")))
    before = list(csv.reader(io.StringIO(whole[:end].decode(), newline="")))
    after = list(csv.reader(io.StringIO(whole[end:].decode(), newline="")))
    assert before + after == records


def _accepted(body: bytes) -> bool:
    try:
        check_quotes(body, ",")
    except Undecodable:
        return False
    return True


def test_a_text_of_short_quoted_records_is_cut_near_its_end():
    body = b'1,"a"\n' * 1000 + b'2,"b'
    assert records_of_csv(",").last_end(body) == 6000
    inches = b'5" pipe,"a"\n' * 1000 + b'2,"b'
    assert records_of_csv(",").last_end(inches) == 12000


@given(st.lists(st.text("\r\na", max_size=4), max_size=6))
def test_lines_are_counted_over_any_cut(parts: list[str]):
    counted = Lines()
    for part in parts:
        counted.add(part.encode())
    whole = "".join(parts)
    assert counted.ended == whole.replace("\r\n", "\n").replace("\r", "\n").count("\n")


# ---- Avro and Parquet

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(-(2**63), 2**63 - 1),
            "text": st.none() | st.text(max_size=5),
            "day": st.none() | st.integers(0, 20_000),
        }
    ),
    max_size=30,
)


def avro(rows: list[dict[str, Any]], codec: str = "null", block: int = 1, day: str = "date") -> bytes:
    of_day = {"type": "int", "logicalType": "date"} if day == "date" else "int"
    types = {"id": "long", "text": "string", "day": of_day}
    fields = [{"name": name, "type": ["null", kind]} for name, kind in types.items()]
    buffer = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": fields}
    fastavro.writer(buffer, schema, rows, codec, sync_interval=block, validator=False)
    return buffer.getvalue()


def parquet(rows: list[dict[str, Any]], group: int, schema: pa.Schema = SCHEMA) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), buffer, row_group_size=group)
    return buffer.getvalue()


@given(ROWS, st.sampled_from(["null", "deflate"]), st.integers(1, 60), SIZES, st.integers(1, 50), st.data())
@settings(max_examples=150, deadline=None)
def test_avro_is_taken_and_refused_as_whole(rows, codec: str, block: int, size: int, together: int, data):
    body = bytearray(avro(rows, codec, block))
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        body = body[: data.draw(st.integers(0, len(body)))]
    with patch.object(avro_files, "ROWS", together), patch.object(avro_files, "PIECE_BYTES", together):
        whole, piecewise = compared("avro", bytes(body), size=size)
    assert piecewise[0] == whole[0], (whole, piecewise)
    if whole[0] == "rows":
        assert piecewise == whole


@pytest.mark.parametrize("together", [1, 3, 1000])
def test_the_block_and_the_row_of_a_bad_value_are_told_as_whole(together: int):
    rows = [{"id": number, "text": "x" * 10, "day": 5} for number in range(20)]
    rows[13]["day"] = 2_932_897
    body = avro(rows, block=40)
    with patch.object(avro_files, "ROWS", together):
        whole, piecewise = compared("avro", body, size=7)
    assert whole[0] == "refused"
    assert "row 14" in whole[1]
    assert piecewise == whole


@given(ROWS, st.integers(1, 12), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_parquet_is_taken_as_whole(rows: list[dict[str, Any]], group: int, together: int):
    with (
        patch.object(parquet_files, "MOST_ROWS", together),
        patch.object(parquet_files, "PIECE_MEMORY", 40),
        patch.object(streams, "PIECE_MEMORY", 40),
    ):
        whole, piecewise = compared("parquet", parquet(rows, group), size=PLENTY)
    assert whole == ("rows", pa.Table.from_pylist(rows, SCHEMA).to_pylist(), "")
    assert piecewise == whole


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_parquet_is_refused_as_whole(data: st.DataObject):
    body = bytearray(parquet([{"id": number, "text": "t", "day": 5} for number in range(20)], 5))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    whole, piecewise = compared("parquet", bytes(body), size=PLENTY)
    assert piecewise[0] == whole[0], (place, whole, piecewise)
    if whole[0] == "rows":
        assert piecewise == whole


@pytest.mark.parametrize("together", [1, 3, 1000])
def test_the_row_group_and_the_row_of_a_bad_value_are_told_as_whole(together: int):
    there = pa.schema([("id", pa.uint64())])
    body = parquet([{"id": 2**63 if number == 13 else number} for number in range(20)], 5, there)
    with patch.object(parquet_files, "MOST_ROWS", together):
        whole, piecewise = compared("parquet", body, pa.schema([("id", pa.int64())]), size=PLENTY)
    assert whole[2] == "row group 3, rows 11 to 15"
    assert piecewise[2] == whole[2]


def test_nested_texts_of_several_row_groups_are_read_as_dictionaries():
    """Arrow cannot do that in one call: a row group is read at a time."""
    schema = pa.schema([("l", pa.list_(pa.string()))])
    rows = [{"l": ["a", None]}] * 10
    body = parquet(rows, 3, schema)
    assert decoder("parquet", schema, max_bytes=2_000)(body).to_pylist() == rows


def test_times_of_int96_are_exact_or_refused():
    times = pa.array([1_706_933_106_000_000_000, 1_706_933_106_000_001_000], pa.timestamp("ns"))
    for more, expected in ((0, "rows"), (1, "refused")):
        buffer = io.BytesIO()
        moved = pa.array([each.value + more for each in times], pa.timestamp("ns"))
        table = pa.table({"t": pa.concat_arrays([times, moved])})
        pq.write_table(table, buffer, use_deprecated_int96_timestamps=True, row_group_size=3)
        schema = pa.schema([("t", pa.timestamp("us", tz="UTC"))])
        with patch.object(parquet_files, "MOST_ROWS", 2):
            whole, piecewise = compared("parquet", buffer.getvalue(), schema, size=PLENTY)
        assert piecewise == whole
        assert whole[0] == expected


def test_a_column_of_another_type_is_refused_before_a_row_is_emitted():
    body = parquet([{"id": 1, "text": "a", "day": 1}] * 10, 3)
    wanted = pa.schema([("id", pa.int64()), ("text", pa.int64())])
    decode = streaming("parquet", wanted)
    with pytest.raises(Undecodable, match="string in the file, bigint in the schema: make the column string"):
        next(decode(stream_of(body)))


# ---- ORC


def orc(rows: list[dict[str, Any]], stripe: int = 64 << 20, codec: str = "zlib", schema: pa.Schema = SCHEMA) -> bytes:
    """A file of stripes of some `stripe` bytes, at least 1,000 rows each."""
    buffer = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema)
    pyarrow.orc.write_table(table, buffer, stripe_size=stripe, batch_size=1000, compression=codec)
    return buffer.getvalue()


@given(ROWS, st.sampled_from(["uncompressed", "zlib", "snappy", "zstd"]), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_orc_is_taken_as_whole(rows: list[dict[str, Any]], codec: str, together: int):
    body = orc(rows, codec=codec)
    with patch.object(orc_files, "MOST_ROWS", together), patch.object(orc_files, "LARGEST_BUFFER", 64):
        whole, piecewise = compared("orc", body, size=PLENTY)
    assert whole == ("rows", pa.Table.from_pylist(rows, SCHEMA).to_pylist(), "")
    assert piecewise == whole


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_orc_is_refused_as_whole(data: st.DataObject):
    codec = data.draw(st.sampled_from(["uncompressed", "zlib", "snappy", "zstd"]))
    body = bytearray(orc([{"id": number, "text": "t", "day": 5} for number in range(20)], codec=codec))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        body = body[: data.draw(st.integers(0, len(body)))]
    whole, piecewise = compared("orc", bytes(body), size=PLENTY)
    assert piecewise == whole


@pytest.fixture(scope="module")
def striped() -> pa.Table:
    """So many rows that a file of small stripes has several."""
    count = 20_000
    ids = [2**63 - count + number for number in range(count)]
    return pa.table({"id": pa.array(ids), "text": [f"{number * 7919:09}" for number in range(count)]})


def stripes_of(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pyarrow.orc.write_table(table, buffer, stripe_size=50_000, batch_size=1000, compression="uncompressed", **options)
    return buffer.getvalue()


def test_the_stripe_and_the_row_of_a_bad_value_are_told_as_whole(striped: pa.Table):
    body = stripes_of(striped)
    counts = [stripe.rows for stripe in read_tail(Body(body)).stripes]
    assert len(counts) > 3
    wanted = pa.schema([("id", pa.int64()), pa.field("text", pa.string(), nullable=False)])
    texts = striped["text"].to_pylist()
    bad = counts[0] + counts[1] + 5
    body = stripes_of(striped.set_column(1, "text", pa.array([*texts[:bad], None, *texts[bad + 1 :]])))
    for size in (300, 1024):
        with patch.object(orc_files, "MOST_ROWS", size):
            whole, piecewise = compared("orc", body, wanted, size=PLENTY)
        assert whole[0] == "refused"
        assert f"row {bad + 1}: text is null or missing" in whole[1]
        assert whole[2].startswith("stripe 3, rows ")
        assert piecewise == whole


def test_the_stripe_that_is_damaged_is_told_as_whole(striped: pa.Table):
    body = bytearray(stripes_of(striped))
    stripe = read_tail(Body(bytes(body))).stripes[2]
    # the footer of the stripe
    body[stripe.end - stripe.footer : stripe.end] = b"\xff" * stripe.footer
    whole, piecewise = compared("orc", bytes(body), SCHEMA, size=PLENTY)
    assert (whole[0], whole[2]) == ("refused", "stripe 3")
    assert piecewise == whole


def test_a_text_with_many_copies_in_orc_is_refused():
    buffer = io.BytesIO()
    table = pa.table({"text": ["x" * 20_000] * 5_000})
    pyarrow.orc.write_table(table, buffer, compression="zstd", dictionary_key_size_threshold=0.9)
    assert len(buffer.getvalue()) < 1_000_000
    decode = streaming("orc", SCHEMA)
    with patch.object(orc_files, "_decoded", side_effect=AssertionError("Arrow would make the copies")):
        rows, why = until_refused(decode(stream_of(buffer.getvalue(), limit=50_000_000)))
    assert rows == 0
    assert "more than 50000000 bytes" in why
    with pytest.raises(Oversized):
        decoder("orc", SCHEMA, max_bytes=50_000_000)(buffer.getvalue())
    with (
        patch.object(orc_files, "LARGEST_STRIPE", 50_000_000),
        pytest.raises(Undecodable, match=r"stripe 1 needs [0-9]+ bytes in memory, at most 50000000\. Write smaller"),
    ):
        list(decode(stream_of(buffer.getvalue())))


@given(ROWS)
@settings(max_examples=50)
def test_the_statistics_of_orc_have_the_size_of_its_columns(rows: list[dict[str, Any]]):
    sizes = read_tail(Body(orc(rows))).sizes
    texts = [row["text"] for row in rows if row["text"] is not None]
    assert sizes["text"] == sum(8 + len(text.encode()) for text in texts)
    assert sizes["id"] == 8 * sum(row["id"] is not None for row in rows)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 40)), max_size=20), st.integers(1, 30), st.integers(1, 5))
def test_recent_blocks_are_the_bytes_of_their_source(reads: list[tuple[int, int]], block: int, most: int):
    body = bytes(range(100))
    recent = RecentBlocks(Body(body), block, most)
    for start, length in reads:
        end = min(start + length, 100)
        assert recent.read(start, end) == body[start:end]


# ---- compression

ZSTD = pa.Codec("zstd")
PACKED = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "zstd": lambda body: ZSTD.compress(body, asbytes=True),
}
SUFFIXES = {"gzip": "gz", "bz2": "bz2", "zstd": "zst"}


@given(st.sampled_from(sorted(PACKED)), st.lists(GOOD_LINES, max_size=30), st.integers(0, 3), st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_compressed_is_unpacked_as_whole(codec: str, of: list[bytes], cut: int, data: st.DataObject):
    text = lines(of, b"\n", True)
    middle = data.draw(st.integers(0, len(text)))
    body = PACKED[codec](text[:middle]) + PACKED[codec](text[middle:])
    body = {0: body, 1: body[: len(body) - data.draw(st.integers(1, 12))], 2: body + b"garbage", 3: b"x" + body}[cut]
    name = f"a.{SUFFIXES[codec]}"
    whole = told(lambda: [decoder("json", SCHEMA)(decompress(name, body, PLENTY))])
    piecewise = told(lambda: in_pieces("json", body, size=data.draw(SIZES), codec=codec))
    assert piecewise[0] == whole[0], (whole, piecewise)
    if whole[0] == "rows":
        assert piecewise == whole


# ---- limits


def test_a_stream_may_become_so_many_times_its_size():
    assert Allowance.of(10, 1 << 50).limit == streams.EXPANDS_FREELY
    assert Allowance.of(1 << 30, 1 << 50).limit == streams.EXPANDS << 30
    assert Allowance.of(1 << 30, 1000).limit == 1000


def until_refused(tables: Iterator[pa.Table]) -> tuple[int, str]:
    """How many rows came before the file was refused, and the reason."""
    rows = 0
    try:
        for table in tables:
            rows += table.num_rows
    except Oversized as error:
        return rows, str(error)
    raise AssertionError(f"not refused, {rows} rows")


@pytest.mark.parametrize("codec", sorted(PACKED))
def test_a_bomb_is_refused_within_its_allowance(codec: str):
    body = PACKED[codec]((b'{"text": "' + b"x" * 1000 + b'"}\n') * 20_000)
    decode = streaming("json", SCHEMA)
    rows, why = until_refused(decode(stream_of(body, codec, limit=5_000_000)))
    assert 0 < rows <= 5_000
    assert "more than 5000000 bytes decompressed (max_object_bytes)" in why


def test_a_text_with_many_copies_is_refused_before_they_are_made():
    buffer = io.BytesIO()
    copies = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["x" * 1_000_000])
    pq.write_table(pa.table({"text": copies}), buffer)
    assert len(buffer.getvalue()) < 1_000_000
    decode = streaming("parquet", SCHEMA)
    before = pa.default_memory_pool().max_memory()
    rows, why = until_refused(decode(stream_of(buffer.getvalue(), limit=1_000_000_000)))
    assert rows == 0
    assert "too large" in why
    assert pa.default_memory_pool().max_memory() - before < 100_000_000


@pytest.mark.parametrize("format", ["avro", "orc"])
def test_rows_without_bytes_are_counted(format: str):
    rows = [{"id": None, "text": None, "day": None}] * 10_000
    body = avro(rows, "deflate", 1 << 20) if format == "avro" else orc(rows)
    with pytest.raises(Oversized):
        list(streaming(format, SCHEMA)(stream_of(body, limit=200_000)))


@pytest.mark.parametrize(
    ("format", "body"), [("json", b'{"id": 1}\n{"text": "' + b"x" * 2000), ("csv", b'id,text\n1,"' + b"x\n" * 1000)]
)
def test_a_record_that_is_too_long_is_refused_by_its_line(format: str, body: bytes):
    with (
        patch.object(records, "LONGEST_RECORD", 1000),
        pytest.raises(Undecodable, match="record that begins in line 2"),
    ):
        in_pieces(format, body, size=100)


LONG_TEXT = [{"id": 1, "text": "x" * 2000, "day": None}]


@pytest.mark.parametrize(
    ("module", "body", "most", "why"),
    [
        (avro_files, avro(LONG_TEXT), 1000, r"block 1 has [0-9]+ bytes, at most 1000"),
        (avro_files, avro(LONG_TEXT, "deflate"), 1000, r"block 1 has more than 1000 bytes, unpacked"),
        (parquet_files, parquet([], 1), 10, r"a footer of [0-9]+ bytes, at most 10"),
    ],
    ids=["as it is stored", "as it is unpacked", "footer"],
)
def test_a_block_or_a_footer_that_is_too_large_is_refused_unread(module: Any, body: bytes, most: int, why: str):
    format = module.__name__.rpartition(".")[2]
    with patch.object(module, "LONGEST_RECORD", most), pytest.raises(Undecodable, match=why):
        in_pieces(format, body, size=100)


@pytest.mark.parametrize(("format", "body"), [("Parquet", parquet([], 1)), ("ORC", orc([]))])
def test_what_compresses_by_itself_is_not_unpacked_piece_by_piece(format: str, body: bytes):
    with pytest.raises(Undecodable, match=f"{format} compresses by itself"):
        in_pieces(format.lower(), gzip.compress(body), codec="gzip")


@given(st.lists(GOOD_LINES, max_size=50), st.integers(1, 400))
@settings(max_examples=100)
def test_many_short_lines_are_divided(of: list[bytes], memory: int):
    body = lines(of, b"\n", True)
    with patch.object(records, "PIECE_MEMORY", memory):
        found = list(within_memory(body, records.RECORDS_OF_JSON, 2))
    assert b"".join(found) == body
    assert all(each.endswith(b"\n") for each in found)
    assert all(each.count(b"\n") * 16 <= max(memory, 16) for each in found)


@given(st.text('",ab\n\r', max_size=20), st.integers(1, 100))
@settings(max_examples=300)
def test_records_of_csv_are_divided_where_they_end(text: str, memory: int):
    body = text.encode()
    with patch.object(records, "PIECE_MEMORY", memory):
        found = list(within_memory(body, records_of_csv(","), 2))
    assert b"".join(found) == body
    if _accepted(body):
        found_in = [list(csv.reader(io.StringIO(each.decode(), newline=""))) for each in found]
        assert [record for some in found_in for record in some] == list(csv.reader(io.StringIO(text, newline="")))
        # of a record at the end it is not sure that it ends
        assert all(len(some) * 16 <= max(memory, 16) for some in found_in[:-1])


def test_a_large_file_is_asked_for_once_from_its_beginning_to_its_end():
    body = b"".join(json.dumps({"id": number, "text": "x" * 50}).encode() + b"\n" for number in range(300_000))
    decode = streaming("json", SCHEMA)
    stream = stream_of(body)
    assert sum(table.num_rows for table in decode(stream)) == 300_000
    asked = stream.source.asked  # type: ignore[attr-defined]
    assert len(asked) == -(-len(body) // streams.RANGE_BYTES)
    assert [start for start, _ in asked] == [0, *(end for _, end in asked[:-1])]


@pytest.mark.parametrize("format", ["json", "csv", "avro"])
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_an_empty_file_has_no_rows_as_whole(format: str, codec: str | None):
    body = b"" if codec is None else gzip.compress(b"")
    whole = told(lambda: [decoder(format, SCHEMA)(b"")])
    assert told(lambda: in_pieces(format, body, codec=codec)) == whole
