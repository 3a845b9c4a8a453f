"""What files become: rows of exactly the schema, or a reason; never rows that mean something else."""

import csv as stdlib_csv
import datetime
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tidegate.formats import json_lines
from tidegate.formats.decode import Decoder, decoder
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import FORMATS

UTC = datetime.UTC


def rows(decode: Decoder, body: bytes) -> list[dict[str, Any]]:
    return decode(body).to_pylist()


def json(*fields: Any, **options: Any) -> Decoder:
    return decoder("json", pa.schema(list(fields)), **options)


def csv(*fields: Any, max_bytes: int = 1 << 40, **options: Any) -> Decoder:
    schema = pa.schema(list(fields) or [("id", pa.int64()), ("text", pa.string())])
    return decoder("csv", schema, options.items(), max_bytes=max_bytes)


def parquet(wanted: pa.DataType, there: Any) -> list[Any]:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"c": there}), buffer)
    return [row["c"] for row in rows(decoder("parquet", pa.schema([("c", wanted)])), buffer.getvalue())]


class TestJson:
    def test_names_beyond_ascii_find_their_values(self):
        decode = json(("Ünï", pa.int64()), ("日本", pa.struct([("ä", pa.string())])))
        assert rows(decode, '{"Ünï": 5, "日本": {"ä": "x"}}\n{"": 7}'.encode()) == [
            {"Ünï": 5, "日本": {"ä": "x"}},
            {"Ünï": None, "日本": None},
        ]
        assert rows(decode, b'{"\\u00dcn\\u00ef": 5}')[0]["Ünï"] == 5

    @pytest.mark.parametrize("body", [b"null\n", b'{"id": 1}\nnull\n', b"[1]\n[]", b"7", b'"x"'])
    def test_a_line_that_is_no_object_is_refused(self, body: bytes):
        with pytest.raises(Undecodable, match="Tidegate wants one object a line"):
            rows(json(("id", pa.int64())), body)

    def test_depth_is_refused_also_in_a_field_that_nobody_reads(self):
        with pytest.raises(Undecodable, match="line 1: it nests deeper than 200 levels"):
            rows(json(("id", pa.int64())), b'{"z": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")

    @pytest.mark.parametrize("inner", [b"[%s]", b'{"a": %s}', b'[{"a\\"[": "]", "b": %s}]', b'["[{", %s]'])
    def test_the_same_depth_is_taken_however_deep_the_callers_are(self, inner: bytes):
        """The decoder's own limit counts their frames, too."""
        decode = json(("id", pa.int64()))
        each = inner.count(b"[%s") + inner.count(b": %s") + inner.count(b", %s") + inner.startswith(b'[{"a\\')

        def line(levels: int) -> bytes:
            value = b"1"
            for _ in range(levels // each):
                value = inner.replace(b"%s", value)
            return b'{"id": 1, "z": ' + value + b"}\n"

        def within(frames: int, body: bytes) -> Any:
            return within(frames - 1, body) if frames else decode(body).num_rows

        for frames in (0, 300):
            assert within(frames, b'{"id": 2}\n' + line(198)) == 2
            with pytest.raises(Undecodable, match="line 2: it nests deeper"):
                within(frames, b'{"id": 2}\n' + line(202))

    def test_null_in_a_nested_field_that_must_not_be(self):
        inner = pa.struct([pa.field("x", pa.int32(), nullable=False)])
        for kind, value in (
            (inner, b'{"x": null}'),
            (pa.list_(inner), b"[{}]"),
            (pa.map_(pa.string(), inner), b'{"k": {}}'),
        ):
            with pytest.raises(Undecodable):
                rows(json(("c", kind)), b'{"c": ' + value + b"}")

    def test_nested_values(self):
        inner = pa.struct([("x", pa.int32())])
        decode = json(("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner)), ("o", pa.struct([("p", inner)])))
        assert rows(decode, b'{"l": [{"x": 1}, null], "m": {"k": {"x": 2}}, "o": {"p": {"x": 3}}}\n{}') == [
            {"l": [{"x": 1}, None], "m": [("k", {"x": 2})], "o": {"p": {"x": 3}}},
            {"l": None, "m": None, "o": None},
        ]

    def test_a_number_too_large_for_a_float_is_not_infinite(self):
        with pytest.raises(Undecodable, match="too large"):
            rows(json(("f", pa.float32())), b'{"f": 1e300}')

    def test_a_time_with_a_zone_is_no_local_time(self):
        with pytest.raises(Undecodable, match="has a zone, and a timestamp_ntz has none"):
            rows(json(("n", pa.timestamp("us"))), b'{"n": "2024-01-01T00:00:00+02:00"}')

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (pa.list_(pa.float32()), b"[1, 1e39]"),
            (pa.struct([("x", pa.float32())]), b'{"x": -1e39}'),
            (pa.map_(pa.string(), pa.list_(pa.float32())), b'{"k": [1e39]}'),
        ],
    )
    def test_a_nested_number_too_large_for_a_float_is_not_infinite(self, kind: pa.DataType, value: bytes):
        with pytest.raises(Undecodable, match=r"^line 2: v.* = -?1e(\+)?39 is too large for float: "):
            rows(json(("v", kind)), b'{"v": null}\n{"v": ' + value + b"}")

    @pytest.mark.parametrize("body", [b'{"c": 1, "d": "x"}\n{"c": 2}\n', b"{}", b'{}\n{"c": 1}\n{}\n'])
    def test_a_file_of_which_no_line_has_a_field_of_the_schema_is_not_all_null(self, body: bytes):
        with pytest.raises(Undecodable, match=r"none of the schema's columns \(a, b\)"):
            rows(json(("a", pa.int64()), ("b", pa.string())), body)

    def test_a_file_whose_names_differ_in_case_is_told_so(self):
        with pytest.raises(Undecodable, match="a column called 'A', the schema one called 'a': write both in the same"):
            rows(json(("a", pa.int64())), b'{"A": 1}\n')

    @pytest.mark.parametrize("body", [b'{}\n{"a": null, "z": 1}\n', b'{"b": "x"}\n{}\n'])
    def test_one_line_with_a_field_of_the_schema_is_enough(self, body: bytes):
        assert json(("a", pa.int64()), ("b", pa.string()))(body).num_rows == 2

    def test_few_bytes_that_would_be_many_values(self):
        with pytest.raises(Undecodable, match="too large"):
            rows(json(("a", pa.int64()), ("b", pa.int64()), max_bytes=1_000_000), b"{}\n" * 100_000)

    @pytest.mark.parametrize("body", [b"{}" * 200_000, b'{"a": 1} {"a": 2}', b'{"a": 1}\r{"a": 2}', b'{"a":\n1}'])
    def test_a_line_is_one_object_and_an_object_one_line(self, body: bytes):
        with pytest.raises(Undecodable, match=r"^line 1 (has several|ends in the middle of an) objects?; "):
            rows(json(("a", pa.int64())), body)

    def test_blank_lines_are_skipped_and_counted_as_lines(self):
        decode = json(("a", pa.int64()))
        assert rows(decode, b'\r\n{"a": 1}\r\n \t\n\n{"a": 2}') == [{"a": 1}, {"a": 2}]
        with pytest.raises(Undecodable, match="line 4: a = 'x' is text, and the schema says bigint"):
            rows(decode, b'\n{"a": 1}\n\n{"a": "x"}')

    @pytest.mark.parametrize("block", [1, 20, json_lines.BLOCK_BYTES])
    @pytest.mark.parametrize("kind", [pa.int32(), pa.list_(pa.int32())])
    def test_the_message_names_the_line_of_a_number_that_does_not_fit(self, kind, block, monkeypatch):
        monkeypatch.setattr(json_lines, "BLOCK_BYTES", block)
        value = b"5000000000" if kind == pa.int32() else b"[5000000000]"
        with pytest.raises(Undecodable, match=r"^line 5: n(\[0\])? = 5000000000 is more than int holds, 2147483647"):
            rows(json(("n", kind)), b'\n{"n": null}\n{}\n \n{"n": ' + value + b"}\n{}\n")

    def test_the_message_names_the_line_of_a_text_that_is_refused(self):
        kind = pa.list_(pa.struct([("d", pa.decimal128(10, 2))]))
        with pytest.raises(Undecodable, match=r"^line 3: l\[\]\.d = '1_5' is no decimal number"):
            rows(json(("l", kind)), b'{"l": [{"d": 1}, null]}\n{"l": null}\n{"l": [{"d": 2}, {"d": "1_5"}]}')

    def test_null_in_a_nested_decimal_that_must_not_be(self):
        for kind, value in (
            (pa.list_(pa.field("e", pa.decimal128(10, 2), nullable=False)), b"[1, null]"),
            (pa.struct([pa.field("d", pa.decimal128(10, 2), nullable=False)]), b'{"d": null}'),
        ):
            with pytest.raises(Undecodable, match=r"line 2: .*null or missing"):
                rows(json(("c", kind)), b'{"c": null}\n{"c": ' + value + b"}")

    def test_a_map_whose_keys_are_no_text_is_a_mistake_in_the_schema(self):
        with pytest.raises(ValueError, match="keys"):
            json(("m", pa.map_(pa.int32(), pa.int32())))


class TestCsv:
    @pytest.mark.parametrize("body", [b'id,text\n1,"abc\n2,b\n3,c\n', b'id,text\n1,a\n2,"trunc', b'id,text\n1,"a""'])
    def test_a_quote_that_is_never_closed_swallows_no_rows(self, body: bytes):
        with pytest.raises(Undecodable, match="never closed"):
            rows(csv(), body)

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (b"id,text\r\n1,a\r\n", [(1, "a")]),
            (b'id,text\n1,"a\nb"\n', [(1, "a\nb")]),
            (b'id,text\n1,5" pipe\n', [(1, '5" pipe')]),
            (b"id\n1\n", [(1, None)]),
            (b"id,text", []),
            (b"text,id,more\na,1,z\n", [(1, "a")]),
            (b"\xef\xbb\xbfid,text\n1,a", [(1, "a")]),
            (b'"id","text"\n1,"x,y"\n', [(1, "x,y")]),
            (b'text,id,"more, of\nit"\na,1,z\n', [(1, "a")]),
            (b"\n\nid,text\n1,a\n", [(1, "a")]),
            (b'id,text\n1,"' + b"x" * 3_000_000 + b'"\n', [(1, "x" * 3_000_000)]),
        ],
    )
    def test_what_is_valid_is_read(self, body: bytes, expected: list[Any]):
        assert [(row["id"], row["text"]) for row in rows(csv(), body)] == expected

    @pytest.mark.parametrize("body", [b"number,words\n1,a\n", b"1,a\n2,b\n"])
    def test_a_file_without_one_column_of_the_schema_is_not_all_null(self, body: bytes):
        with pytest.raises(Undecodable, match="none of the schema's columns"):
            rows(csv(), body)

    def test_a_column_that_differs_in_case_is_not_null_in_every_row(self):
        with pytest.raises(Undecodable, match="a column called 'Text', the schema one called 'text'"):
            rows(csv(), b"id,Text\n1,a\n")

    def test_a_header_without_end_is_refused(self):
        with pytest.raises(Undecodable, match="never closed"):
            rows(csv(), b'"' + b"x" * 1_000_000 + b"\n1,a\n")

    @pytest.mark.parametrize("limit", [1 << 17, 1 << 30])
    def test_a_very_long_name_is_refused_whatever_the_process_allows(self, limit: int):
        former = stdlib_csv.field_size_limit(limit)
        try:
            with pytest.raises(Undecodable, match="the header: field larger than field limit"):
                rows(csv(), b'"' + b"x" * 1_000_000 + b'"\n1,a\n')
        finally:
            stdlib_csv.field_size_limit(former)

    def test_two_columns_of_one_name(self):
        with pytest.raises(Undecodable, match="several columns called 'id'"):
            rows(csv(), b"id,id,text\n1,2,a\n")

    @pytest.mark.parametrize("delimiter", ["_", ";", "\t", " ", "|"])
    def test_delimiters(self, delimiter: str):
        body = b'id,text\n1,"a_;| \t"\n2,b\n'.replace(b",", delimiter.encode())
        assert rows(csv(delimiter=delimiter), body) == [{"id": 1, "text": "a_;| \t"}, {"id": 2, "text": "b"}]

    @pytest.mark.parametrize("delimiter", ['"', "\n", "\r", "", ";;", "é"])
    def test_what_is_no_delimiter_is_a_mistake_in_the_route(self, delimiter: str):
        with pytest.raises(ValueError, match=r"a delimiter is (1 character of ASCII|no quote)"):
            csv(delimiter=delimiter)

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (b"b\nx\n\ny\n", ["x", None, "y"]),
            (b"b\nx\n\n", ["x", None]),
            (b"b\r\nx\r\n\r\ny", ["x", None, "y"]),
            (b"\n\nb\n\nx", [None, "x"]),
            (b'b\n""\nx\n', ["", "x"]),
        ],
    )
    def test_a_blank_line_of_a_file_of_one_column_is_a_null(self, body: bytes, expected: list[str | None]):
        assert [row["b"] for row in rows(csv(("b", pa.string())), body)] == expected

    def test_a_blank_line_of_a_file_of_one_column_that_must_not_be_null_is_refused(self):
        with pytest.raises(Undecodable, match=r"^row 2: a is null or missing"):
            rows(csv(pa.field("a", pa.int64(), nullable=False)), b"a\n1\n\n2\n")

    def test_a_blank_line_of_a_wider_file_is_no_row(self):
        assert rows(csv(), b"id,text\n\n1,a\n\n\n2,b\n\n") == [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]

    def test_null_and_the_empty_text(self):
        assert rows(csv(), b'id,text\n,""\n1,\n') == [{"id": None, "text": ""}, {"id": 1, "text": None}]

    @pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
    def test_few_bytes_that_would_be_many_values_whatever_ends_a_line(self, end: bytes):
        many = [(f"c{number}", pa.int64()) for number in range(20)]
        assert csv(*many, max_bytes=1_000_000)(b"c0" + end + (b"1" + end) * 6_000).num_rows == 6_000
        with pytest.raises(Undecodable, match="too large"):
            csv(*many, max_bytes=1_000_000)(b"c0" + end + (b"1" + end) * 6_500)

    def test_a_header_of_very_many_columns(self):
        with pytest.raises(Undecodable, match="several columns called ''"):
            rows(csv(), b"," * 300_000)

    def test_a_nested_column_is_a_mistake_in_the_schema(self):
        with pytest.raises(ValueError, match="nested"):
            csv(("l", pa.list_(pa.int32())))


@pytest.mark.parametrize("format", ["json", "csv"])
def test_more_text_than_arrow_can_count_is_refused_before_it_is_looked_at(format: str):
    with pytest.raises(Undecodable, match="at most 1073741824"):
        decoder(format, pa.schema([("id", pa.int64())]))(bytes((1 << 30) + 1))


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.duration("us"), pa.timestamp("ns"), pa.uint8(), pa.float16()])
def test_a_type_that_no_file_can_hold_is_a_mistake_in_the_schema(kind: pa.DataType):
    for format in FORMATS:
        with pytest.raises(ValueError, match="cannot hold"):
            decoder(format, pa.schema([("c", pa.list_(kind))]))


class TestParquet:
    @pytest.mark.parametrize(
        ("wanted", "there"),
        [
            (pa.timestamp("us", tz="UTC"), pa.array([1_700_000_000], pa.int64())),
            (pa.date32(), pa.array([20_240_203], pa.int32())),
            (pa.decimal128(10, 2), pa.array([1.255])),
            (pa.float32(), pa.array([1e300])),
            (pa.date32(), pa.array([datetime.datetime(2024, 1, 1, 5, tzinfo=UTC)])),
            (pa.int64(), pa.array([datetime.time(1)])),
            (pa.bool_(), pa.array([7])),
            (pa.int64(), pa.array(["12"])),
            (pa.int32(), pa.array([2**40])),
            (pa.string(), pa.array([b"\xff"])),
        ],
    )
    def test_what_means_something_else_is_refused(self, wanted: pa.DataType, there: pa.Array):
        with pytest.raises(Undecodable):
            parquet(wanted, there)

    @pytest.mark.parametrize(
        ("wanted", "there", "value"),
        [
            (pa.int64(), pa.array([7], pa.int32()), 7),
            (pa.int32(), pa.array([7], pa.int64()), 7),
            (pa.float64(), pa.array([1.5], pa.float32()), 1.5),
            (pa.decimal128(12, 2), pa.array([Decimal("1.20")], pa.decimal128(10, 1)), Decimal("1.20")),
            (pa.string(), pa.array(["a"], pa.large_string()), "a"),
            (pa.string(), pa.array(["a"]).dictionary_encode(), "a"),
            (
                pa.timestamp("us", tz="UTC"),
                pa.array([1], pa.timestamp("ms", tz="UTC")),
                datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
            ),
            (pa.list_(pa.int64()), pa.array([[1]], pa.list_(pa.int32())), [1]),
            (pa.float64(), pa.array([float("inf")]), float("inf")),
        ],
    )
    def test_what_means_the_same_is_taken(self, wanted: pa.DataType, there: pa.Array, value: Any):
        assert parquet(wanted, there) == [value]

    def test_two_columns_of_one_name(self):
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["c", "c"]), buffer)
        with pytest.raises(Undecodable, match="several columns called 'c'"):
            rows(decoder("parquet", pa.schema([("c", pa.int64())])), buffer.getvalue())

    def test_nested_values_that_must_not_be_null(self):
        wanted = pa.list_(pa.struct([pa.field("x", pa.int32(), nullable=False)]))
        assert parquet(wanted, pa.array([[{"x": 1}, None], None])) == [[{"x": 1}, None], None]
        with pytest.raises(Undecodable, match=r"^row 2: c\[\]\.x is null or missing"):
            parquet(wanted, pa.array([None, [{"x": 1}, {"x": None}]]))

    def test_nested_values_keep_their_places(self):
        inner = pa.struct([("x", pa.int32())])
        there = pa.array(
            [None, [[("k", {"x": 1})], None], [], [[], [("l", None)]]], pa.list_(pa.map_(pa.string(), inner))
        )
        wider = pa.list_(pa.map_(pa.string(), pa.struct([("y", pa.string()), ("x", pa.int64())])))
        assert parquet(wider, there) == [None, [[("k", {"y": None, "x": 1})], None], [], [[], [("l", None)]]]

    def test_times_of_the_old_type_beyond_what_nanoseconds_hold(self):
        times = [
            datetime.datetime(1, 1, 1, tzinfo=UTC),
            datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        ]
        buffer = io.BytesIO()
        there = pa.array([*times, None], pa.timestamp("us"))
        pyarrow.parquet.write_table(pa.table({"c": there}), buffer, use_deprecated_int96_timestamps=True)
        decode = decoder("parquet", pa.schema([("c", pa.timestamp("us", tz="UTC"))]))
        assert [row["c"] for row in rows(decode, buffer.getvalue())] == [*times, None]

    @pytest.mark.parametrize("nested", [False, True])
    def test_a_text_that_is_in_many_rows_is_counted_in_each(self, nested: bool):
        there = pa.array(["x" * 1_000] * 5_000)
        there = pa.array([[text] for text in there.to_pylist()]) if nested else there
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pa.table({"c": there}), buffer)
        schema = pa.schema([("c", there.type)])
        assert len(buffer.getvalue()) < 10_000
        assert (
            rows(decoder("parquet", schema, max_bytes=5_000_000), buffer.getvalue())
            == pa.table({"c": there}).to_pylist()
        )
        with pytest.raises(Undecodable, match="more than 4999999 bytes decompressed"):
            rows(decoder("parquet", schema, max_bytes=4_999_999), buffer.getvalue())

    def test_a_file_that_unfolds_is_refused_before_it_does(self):
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pa.table({"c": pa.repeat("x" * 1000, 100_000)}), buffer)
        decode = decoder("parquet", pa.schema([("c", pa.string()), ("d", pa.string())]), max_bytes=1_000_000)
        assert len(buffer.getvalue()) < 100_000
        with pytest.raises(Undecodable, match="too large"):
            rows(decode, buffer.getvalue())


def test_a_column_that_is_the_schemas_but_for_white_space_is_refused():
    """Else it would count as one that the schema lacks, and the schema's would be null."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    with pytest.raises(Undecodable, match="a column called ' name', the schema one called 'name'"):
        decoder("csv", schema)(b"id, name\n1, x\n")
