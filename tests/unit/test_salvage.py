"""Rows that do not fit are set aside: those that the strict decoder refuses alone, and no others."""

import csv
import gzip
import io
import json
import tracemalloc
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.test_stream_decode import _cut, stream_of
from tidegate.core.routes import Dataset
from tidegate.formats import salvage, streams
from tidegate.formats.decode import decoder, salvaging
from tidegate.formats.json_layout import JsonLayout, layout_of
from tidegate.formats.reasons import Undecodable
from tidegate.formats.said import BadRow, concat, said_of
from tidegate.formats.salvage import places_of
from tidegate.formats.streams import HeldBytes, Stream
from tidegate.formats.unknown import names_of
from tidegate.reading.decoding import Decoding, Refused

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string()), ("paid", pa.decimal128(6, 2))])
ALL = (("bad_rows_share", 1.0),)


def decoding(format: str, schema: pa.Schema = SCHEMA, share: float = 1.0, **more: Any) -> Decoding:
    options = {"bad_rows_share": share, **more}
    return Decoding(Dataset("c.n.t", "", format, options=tuple(sorted(options.items()))), schema)


def kept(found: pa.Table | Any) -> tuple[list[dict[str, Any]], list[int], tuple[BadRow, ...]]:
    assert isinstance(found, pa.Table), found
    found.validate(full=True)
    return found.to_pylist(), places_of(found).tolist(), said_of(found).bad


def streamed(format: str, body: bytes, size: int, schema: pa.Schema = SCHEMA, **more: Any) -> pa.Table:
    decode = salvaging(format, schema, (*ALL, *more.items()))
    assert decode is not None
    with patch.object(streams, "RANGE_BYTES", min(size, 8 << 20)), patch.object(Stream, "pieces", _cut(size)):
        return concat([schema.empty_table(), *decode(stream_of(body), 1 << 40)])


class TestJson:
    def test_the_others_land_and_keep_their_numbers(self):
        body = b'{"id": 1}\n\n{"id": "x"}\n{"id": 3, "paid": 1.239}\n{"id": 4}\nnonsense\n{"id": 6}'
        rows, places, bad = kept(decoding("json")("k", body))
        assert [row["id"] for row in rows] == [1, 4, 6]
        assert places == [0, 3, 5]
        assert [(each.row, each.place, each.text) for each in bad] == [
            (1, "line 3", '{"id": "x"}'),
            (2, "line 4", '{"id": 3, "paid": 1.239}'),
            (4, "line 6", "nonsense"),
        ]
        assert bad[0].error.startswith("line 3: id = 'x' is text, and the schema says bigint")
        assert bad[1].error.startswith("line 4: paid = 1.239 has 3 decimals")
        assert "line 6" in bad[2].error

    def test_a_line_without_a_field_of_the_schema_is_a_row_as_in_any_file(self):
        schema = pa.schema([("a", pa.int64())])
        rows, _, bad = kept(decoding("json", schema)("k", b'{"a": "x"}\n{"b": 1}\n{"a": 1}\n'))
        assert rows == [{"a": None}, {"a": 1}]
        assert [each.row for each in bad] == [0]

    def test_a_file_of_which_no_row_is_left_is_refused_as_ever(self):
        for body in (b"[1]", b"id,text\n1,a\n", b"\x1f\x8b nonsense"):
            found = decoding("json")("k", body)
            with pytest.raises(Undecodable) as refused:
                decoder("json", SCHEMA)(body)
            assert found == Refused(str(refused.value), refused.value.where)

    def test_lines_of_another_kind_refuse_the_file(self):
        for kind, value in ((pa.int64(), '"x"'), (pa.decimal128(6, 2), "1.239")):
            body = f'{{"b": 1}}\n{{"b": 2}}\n{{"a": {value}}}\n'.encode()
            found = decoding("json", pa.schema([("a", kind)]))("k", body)
            assert isinstance(found, Refused)
            assert "line 3: a = " in found.reason

    LINES = st.sampled_from(
        [
            b'{"id": 1}',
            b'{"id": 2, "text": "a"}',
            b'{"id": null}',
            b'{"id": 3.5}',
            b"{",
            b"",
            b"  ",
            b'{"id":7,"paid":"x"}',
            b'{"id": 8, "text": "\xff"}',
            b"null",
            b'{"text": "b"}',
            b'{"id": 9}\r',
            b'{"id": 1}{"id": 2}',
        ]
    )

    @given(st.lists(LINES, max_size=12), st.booleans(), st.integers(1, 60))
    def test_a_row_is_left_out_if_it_is_refused_alone(self, lines: list[bytes], ended: bool, size: int):
        body = b"\n".join(lines) + (b"\n" if ended else b"")
        strict = decoder("json", SCHEMA)
        good, bad = [], []
        rows = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
        assume(layout_of(body) is JsonLayout.LINES)
        for row, (number, line) in enumerate(rows):
            try:
                # behind another line it is no array of the whole file
                good.append((row, strict(b'{"id": 0}\n' + line).to_pylist()[1]))
            except Undecodable:
                bad.append((row, f"line {number}"))
        found = decoding("json")("k", body)
        if rows and not good:
            assert isinstance(found, Refused)
            return
        values, places, left_out = kept(found)
        assert list(zip(places, values, strict=True)) == good
        assert [(each.row, each.place) for each in left_out] == bad
        assert kept(streamed("json", body, size)) == (values, places, left_out)


class TestCsv:
    def test_the_others_land_and_keep_their_numbers(self):
        body = b'id,text,paid\n1,a,1.00\nx,"b\nc",2\n3,c\n4,d,4.005\n\n5,"e\r\nf",5\n'
        rows, places, bad = kept(decoding("csv")("k", body))
        assert [row["id"] for row in rows] == [1, 5]
        assert places == [0, 4]
        assert [(each.row, each.place, each.text) for each in bad] == [
            (1, "line 3", 'x,"b\nc",2'),
            (2, "line 5", "3,c"),
            (3, "line 6", "4,d,4.005"),
        ]
        assert bad[0].error.startswith("row 2: id = 'x' is no whole number")
        assert "row 3 has 2 fields, and the header 3" in bad[1].error

    def test_a_quote_that_is_never_closed_refuses_the_file(self):
        found = decoding("csv")("k", b'id,text\nx,a\n2,"b\n3,c\n')
        assert isinstance(found, Refused)
        assert "never closed" in found.reason

    def test_a_header_that_does_not_fit_refuses_the_file(self):
        found = decoding("csv")("k", b"Id,text\nx,a\n")
        assert isinstance(found, Refused)
        assert "'Id'" in found.reason

    FIELDS = st.sampled_from(["1", "22", "", "x", "3.5", "a,b", 'say "hi"', "two\nlines", "\r\n", "-7"])
    RECORDS = st.lists(FIELDS, min_size=1, max_size=3)

    @given(st.lists(RECORDS, max_size=10), st.sampled_from(["\n", "\r\n"]), st.integers(1, 60))
    def test_a_row_is_left_out_if_it_is_refused_alone(self, records: list[list[str]], end: str, size: int):
        def text(some: list[list[str]]) -> bytes:
            written = io.StringIO()
            csv.writer(written, lineterminator=end).writerows([["id", "text"], *some])
            return written.getvalue().encode()

        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
        strict = decoder("csv", schema)
        good, bad = [], []
        for row, record in enumerate(records):
            try:
                good.append((row, strict(text([record])).to_pylist()[0]))
            except Undecodable:
                bad.append(row)
        found = decoding("csv", schema)("k", text(records))
        if records and not good:
            assert isinstance(found, Refused)
            return
        values, places, left_out = kept(found)
        assert list(zip(places, values, strict=True)) == good
        assert [each.row for each in left_out] == bad
        assert kept(streamed("csv", text(records), size, schema)) == (values, places, left_out)

    def test_of_one_column_a_blank_line_is_a_row(self):
        schema = pa.schema([("id", pa.int64())])
        rows, places, bad = kept(decoding("csv", schema)("k", b"id\n1\n\nx\n\n5\n"))
        assert [row["id"] for row in rows] == [1, None, None, 5]
        assert places == [0, 1, 3, 4]
        assert [(each.row, each.place) for each in bad] == [(2, "line 4")]

    def test_in_another_encoding(self):
        body = "id,text\n1,ä\nx,ö\n".encode("utf-16")
        schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
        rows, _, bad = kept(decoding("csv", schema, encoding="utf-16")("k", body))
        assert rows == [{"id": 1, "text": "ä"}]
        assert bad[0].text == "x,ö"


LONG = "x" * 300


class TestLongPartitions:
    """A value that the path of a data file cannot hold is one row's, and not its file's."""

    BODIES = pytest.mark.parametrize(
        ("format", "body", "line"),
        [
            ("json", f'{{"id": 1, "text": "a"}}\n\n{{"id": 2, "text": "{LONG}"}}\n{{"id": 3}}\n', "line 3"),
            ("csv", f"id,text\n1,a\n\n2,{LONG}\n3,\n", "line 4"),
        ],
    )

    @staticmethod
    def partitioned(format: str, **more: Any) -> Decoding:
        plain = decoding(format, **more)
        return Decoding(replace(plain.dataset, partition_by=("text",)), SCHEMA)

    @BODIES
    @pytest.mark.parametrize("size", [9, 1 << 20])
    def test_it_is_set_aside(self, format: str, body: str, line: str, size: int):
        found = self.partitioned(format)
        with patch.object(streams, "RANGE_BYTES", min(size, 8 << 20)), patch.object(Stream, "pieces", _cut(size)):
            streamed = concat([SCHEMA.empty_table(), *found.streamed("k", HeldBytes(body.encode()))])
        for table in (found("k", body.encode()), streamed):
            rows, places, (bad,) = kept(table)
            assert [row["id"] for row in rows] == [1, 3]
            assert places == [0, 2]
            assert (bad.row, bad.place) == (1, line)
            assert bad.error.startswith("the table is partitioned by column text, and text=xxx")

    @BODIES
    def test_its_file_is_refused_for_too_many(self, format: str, body: str, line: str):
        refused = self.partitioned(format, share=0.3)("k", body.encode())
        assert isinstance(refused, Refused)
        assert "the table is partitioned by column text" in refused.reason


ONE_IN_TEN = [json.dumps({"id": number if number % 10 else "x"}) for number in range(100)]


class TestMemory:
    @pytest.mark.parametrize("format", ["json", "csv"])
    def test_rows_of_a_few_bytes_are_no_objects(self, format: str):
        """A piece of text may have millions, and one of them may be bad."""
        count = 100_000
        body = {"json": b'{"id":1}\n' * count + b'{"id": "x"}\n', "csv": b"id\n" + b"\n" * count + b"x\n"}[format]
        schema = pa.schema([("id", pa.int64())])
        decode = decoding(format, schema)
        decode.prepare()
        tracemalloc.start()
        try:
            found = decode("k", body)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert isinstance(found, pa.Table)
        assert (found.num_rows, len(said_of(found).bad)) == (count, 1)
        assert peak < 180 * count


class TestHowMany:
    @pytest.mark.parametrize(("share", "refused"), [(0.1, False), (0.09, True)])
    def test_no_more_than_the_share(self, share: float, refused: bool):
        found = decoding("json", share=share)("k", "\n".join(ONE_IN_TEN).encode())
        assert isinstance(found, Refused) == refused
        if isinstance(found, Refused):
            assert found.reason.startswith("more than 9 rows do not fit, which is the most that may be set aside of")
            assert "The first: line 1: id = 'x'" in found.reason

    def test_a_share_is_what_it_says_in_decimal(self):
        lines = [json.dumps({"id": "x" if number < 29 else number}) for number in range(100)]
        assert len(kept(decoding("json", share=0.29)("k", "\n".join(lines).encode()))[2]) == 29

    def test_a_file_of_another_format_is_called_what_it_is(self):
        found = decoding("csv")("k", gzip.compress(b"id,text\n1,a\n"))
        assert isinstance(found, Refused)
        assert found.reason.startswith("the file is gzip")

    def test_a_wrong_file_is_given_up_as_soon_as_it_has_more_than_its_share(self):
        body = b"id,text\n" + b"x,a\n" * 1_000
        with patch.object(salvage, "_parts", wraps=salvage._parts) as asked:
            assert isinstance(decoding("csv", share=0.01)("k", body), Refused)
        assert asked.call_count < 60

    def test_no_more_than_a_file_may_have(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(salvage, "MOST_BAD", 9)
        body = "\n".join(ONE_IN_TEN).encode()
        found = decoding("json")("k", body)
        assert isinstance(found, Refused)
        assert found.reason.startswith("more than 9 rows do not fit")
        with pytest.raises(Undecodable, match="more than 9 rows"):
            streamed("json", body, 40)

    def test_a_good_file_is_not_read_twice(self):
        with patch.object(salvage, "salvaged") as asked:
            assert kept(decoding("json")("k", b'{"id": 1}\n'))[0] == [{"id": 1, "text": None, "paid": None}]
        asked.assert_not_called()

    def test_a_long_text_is_cut(self):
        body = b'{"id": 1}\n{"id": "' + b"x" * 10_000 + b'"}\n'
        (bad,) = kept(decoding("json")("k", body))[2]
        assert len(bad.text) == salvage.LONGEST_TEXT

    def test_other_formats_have_no_such_option(self):
        with pytest.raises(ValueError, match="no option 'bad_rows_share'"):
            decoder("parquet", SCHEMA, ALL)


class TestUnknownNames:
    """A row with a name that the schema lacks is no bad row."""

    BODY = b'{"id": 1, "more": 1}\n{"id": "x"}\n{"id": 3}\n{"id": 4, "more": 2}\n'

    def test_they_are_reported_of_the_rows_that_land(self):
        found = decoding("json")("k", self.BODY)
        assert isinstance(found, pa.Table)
        assert [each.row for each in said_of(found).bad] == [1]
        assert names_of(found) == ("more",)
        assert [row["id"] for row in found.to_pylist()] == [1, 3, 4]

    @pytest.mark.parametrize("format", ["json", "csv"])
    def test_they_refuse_the_file_if_the_route_says_so(self, format: str):
        """The strict decoder says why: it may be a bad row that it meets first."""
        body = self.BODY if format == "json" else b"id,more\n1,1\nx,2\n"
        found = decoding(format, unknown="refuse")("k", body)
        assert isinstance(found, Refused)
        with pytest.raises(Undecodable) as refused:
            decoder(format, SCHEMA, [("unknown", "refuse")])(body)
        assert found == Refused(str(refused.value), refused.value.where)

    def test_nobody_looks_for_them_if_the_route_says_so(self):
        found = decoding("json", unknown="ignore")("k", self.BODY)
        assert isinstance(found, pa.Table)
        assert names_of(found) == ()
        assert len(said_of(found).bad) == 1
