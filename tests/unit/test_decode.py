"""What files become: rows of exactly the schema, or a reason; never rows that mean something else."""

import datetime
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tidegate.spark.decode import Decoder, Undecodable, decoder

UTC = datetime.UTC


def rows(decode: Decoder, body: bytes) -> list[dict[str, Any]]:
    return decode(body).to_pylist()


def json(*fields: Any, **options: Any) -> Decoder:
    return decoder("json", pa.schema(list(fields)), **options)


def csv(*fields: Any, **options: Any) -> Decoder:
    return decoder("csv", pa.schema(list(fields) or [("id", pa.int64()), ("text", pa.string())]), **options)


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

    @pytest.mark.parametrize("body", [b"null\n", b'{"id": 1}\nnull\n', b"[1]", b"7", b'"x"'])
    def test_a_line_that_is_no_object_is_refused(self, body: bytes):
        with pytest.raises(Undecodable, match="Expected `object`"):
            rows(json(("id", pa.int64())), body)

    def test_depth_is_refused_also_in_a_field_that_nobody_reads(self):
        with pytest.raises(Undecodable, match="recursion"):
            rows(json(("id", pa.int64())), b'{"z": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")

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
        with pytest.raises(Undecodable, match="no time without a zone"):
            rows(json(("n", pa.timestamp("us"))), b'{"n": "2024-01-01T00:00:00+02:00"}')

    def test_few_bytes_that_would_be_many_values(self):
        with pytest.raises(Undecodable, match="too large"):
            rows(json(("a", pa.int64()), ("b", pa.int64()), max_bytes=1_000_000), b"{}\n" * 100_000)

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

    @pytest.mark.parametrize("body", [b"ID,Text\n1,a\n", b"1,a\n2,b\n", b"id;text\n1;a\n"])
    def test_a_file_without_one_column_of_the_schema_is_not_all_null(self, body: bytes):
        with pytest.raises(Undecodable, match="none of the schema's columns"):
            rows(csv(), body)

    def test_a_header_without_end_is_refused(self):
        with pytest.raises(Undecodable, match="never closed"):
            rows(csv(), b'"' + b"x" * 1_000_000 + b"\n1,a\n")
        with pytest.raises(Undecodable, match="header"):
            rows(csv(), b'"' + b"x" * 1_000_000 + b'"\n1,a\n')

    def test_two_columns_of_one_name(self):
        with pytest.raises(Undecodable, match="several columns called 'id'"):
            rows(csv(), b"id,id,text\n1,2,a\n")

    def test_the_row_that_marks_the_end_is_no_row_of_a_file(self):
        with pytest.raises(Undecodable):
            rows(csv(), b"id,text\n_,_,_,_,_,_,_,_,_\n1,a\n")

    def test_a_nested_column_is_a_mistake_in_the_schema(self):
        with pytest.raises(ValueError, match="nested"):
            csv(("l", pa.list_(pa.int32())))


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

    def test_a_file_that_unfolds_is_refused_before_it_does(self):
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pa.table({"c": pa.repeat("x" * 1000, 100_000)}), buffer)
        decode = decoder("parquet", pa.schema([("c", pa.string()), ("d", pa.string())]), max_bytes=1_000_000)
        assert len(buffer.getvalue()) < 100_000
        with pytest.raises(Undecodable, match="too large"):
            rows(decode, buffer.getvalue())
