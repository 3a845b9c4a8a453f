"""What is said of a refused file: where, what is there, what the schema says, and what to do; the same words for a
whole file and for one that is decoded piece by piece."""
# ruff: noqa: E501

import gzip
import io
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from tests.unit.test_stream_decode import compared
from tidegate.core.routes import Dataset
from tidegate.formats.decode import decoder
from tidegate.formats.reasons import Undecodable
from tidegate.formats.recognize import recognize
from tidegate.formats.type_names import column_type, type_name
from tidegate.reading.decoding import Decoding, Refused

MONEY = pa.decimal128(12, 2)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("count", pa.int32()),
        ("total", MONEY),
        ("name", pa.string()),
        ("ok", pa.bool_()),
        ("share", pa.float32()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("raw", pa.binary()),
    ]
)
LINES = pa.schema(
    [*SCHEMA, ("lines", pa.list_(pa.struct([("price", MONEY), pa.field("sku", pa.string(), nullable=False)])))]
)
ONE_A_LINE = "Tidegate wants one object a line"


def reason(format: str, body: bytes, schema: pa.Schema = SCHEMA, **options: Any) -> str:
    """Whole, and piece by piece however small the pieces are."""
    for size in (1, 7, 1 << 20):
        whole, piecewise = compared(format, body, schema, size=size, **options)
        assert whole[0] == "refused"
        assert piecewise == whole
    return str(whole[1])


# ---- values


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"total": 1.239}', "total = 1.239 has 3 decimals, decimal(12,2) holds 2: make the column decimal(13,3), or round it"),
        ('{"total": "12345678901"}', "total = 12345678901 has 11 digits before the point, decimal(12,2) holds 10: make the column decimal(13,2)"),
        ('{"total": true}', "total = 'true' is no decimal number, and the schema says decimal(12,2): correct it, or make the column a string"),
        ('{"id": "7"}', "id = '7' is text, and the schema says bigint: write it without quotes, or make the column a string"),
        ('{"id": "late"}', "id = 'late' is text, and the schema says bigint: correct it, or make the column a string"),
        ('{"id": 7.5}', "id = 7.5 is a number with a point or an exponent, and the schema says bigint: make the column a double or a decimal, or write it without"),
        ('{"id": [1]}', "id = [1] is a list, and the schema says bigint: correct it, or make the column an array<...>"),
        ('{"id": {"a": 1}}', 'id = {"a": 1} is an object, and the schema says bigint: correct it, or make the column a struct<...> or a map<...>'),
        ('{"id": true}', "id = true is a boolean, and the schema says bigint: correct it, or make the column a boolean"),
        ('{"count": 2147483648}', "count = 2147483648 is more than int holds, 2147483647: make the column bigint"),
        ('{"count": -2147483649}', "count = -2147483649 is less than int holds, -2147483648: make the column bigint"),
        ('{"id": 9223372036854775808}', "id = 9223372036854775808 is more than bigint holds, 9223372036854775807: make the column decimal(19,0)"),
        ('{"share": 1e39}', "share = 1e+39 is too large for float: make the column a double"),
        ('{"share": 1e999}', "share = 1e999 is too large for float: write it as text, and make the column a string"),
        ('{"name": 7}', "name = 7 is a whole number, and the schema says string: write it in quotes, or make the column one of numbers"),
        ('{"ok": "true"}', "ok = 'true' is text, and the schema says boolean: write it without quotes, or make the column a string"),
        ('{"day": "3.2.2024"}', "day = '3.2.2024' is no date, as in 2024-02-03: write it so, or make the column a string"),
        ('{"day": "2023-02-29"}', "day = '2023-02-29' is no day of the years 0001 to 9999: correct it"),
        ('{"day": "0000-01-01"}', "day = 0000-01-01 is outside the years 0001 to 9999: correct it"),
        ('{"at": "2024-02-03T04:05:06"}', "at = '2024-02-03T04:05:06' has no zone, and a timestamp is an instant: write it as 2024-02-03T04:05:06Z, or make the column a timestamp_ntz"),
        ('{"local": "2024-02-03T04:05:06Z"}', "local = '2024-02-03T04:05:06Z' has a zone, and a timestamp_ntz has none: make the column a timestamp, or write it as 2024-02-03T04:05:06"),
        ('{"at": "2024-02-03"}', "at = '2024-02-03' has no time of day, and the schema says timestamp: write it as 2024-02-03T04:05:06Z, or make the column a date"),
        ('{"at": "2024-02-03T04:05:06.1234567Z"}', "at = '2024-02-03T04:05:06.1234567Z' is finer than microseconds, and a timestamp is not: write 6 decimals at most"),
        ('{"at": "2024-02-03T24:00:00Z"}', "at = '2024-02-03T24:00:00Z' is no time of the years 0001 to 9999: correct it"),
        ('{"at": 1706933106}', "at = 1706933106 is a whole number, and the schema says timestamp: write a time, as in 2024-02-03T04:05:06Z, or make the column a bigint"),
        ('{"at": "soon"}', "at = 'soon' is no time with a zone, as in 2024-02-03T04:05:06Z, to the microsecond: write it so, or make the column a string"),
        ('{"raw": "hi!"}', "raw = 'hi!' is no base64, as which a binary is written: encode it, or make the column a string"),
        ('{"lines": [{"sku": "a"}, {"price": 1}]}', "lines[1].sku is missing, and the schema says not null: give it a value, or take `not null` away"),
        ('{"lines": [{"sku": "a", "price": 1.239}]}', "lines[].price = 1.239 has 3 decimals, decimal(12,2) holds 2: make the column decimal(13,3), or round it"),
    ],
)  # fmt: skip
def test_a_value_of_json(line: str, said: str):
    body = b'{"id": 1}\n\n' + line.encode() + b'\n{"id": 2}\n'
    assert reason("json", body, LINES) == f"line 3: {said}"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("total\n1.239", "total = 1.239 has 3 decimals, decimal(12,2) holds 2: make the column decimal(13,3), or round it"),
        ("id\nlate", "id = 'late' is no whole number, and the schema says bigint: correct it, or make the column a string"),
        ("id\n 7", "id = ' 7' is no whole number, and the schema says bigint: take the white space out"),
        ("id\n+7", "id = '+7' is no whole number, and the schema says bigint: write it without the plus"),
        ("id\n7.0", "id = '7.0' is no whole number, and the schema says bigint: write it without a point or an exponent, or make the column a double or a decimal"),
        ("count\n2147483648", "count = 2147483648 is more than int holds, 2147483647: make the column bigint"),
        ("ok\nyes", "ok = 'yes' is no boolean, which is true, false, 1 or 0: write it so, or make the column a string"),
        ("share\n1,5", ""),
        ("share\nNaN", "share = 'NaN' is no number, and the schema says float: correct it, or make the column a string"),
        ("share\n1e39", "share = 1e39 is too large for float: make the column a double"),
        ("at\n1706933106", "at = '1706933106' is a number, and the schema says timestamp: write it as 2024-02-03T04:05:06Z, or make the column a bigint"),
    ],
)  # fmt: skip
def test_a_value_of_csv(row: str, said: str):
    name, value = row.split("\n")
    found = reason("csv", f"{name},more\n,\n{value},\n".encode())
    if said:
        assert found == f"row 2: {said}"
    else:
        assert found == (
            'row 2 has 3 fields, and the header 2: write as many, and a field with "," or a line end in it in quotes'
        )


def stored(format: str, column: pa.Array) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"c": column})
    (pq.write_table if format == "parquet" else pyarrow.orc.write_table)(table, sink)
    return sink.getvalue()


@pytest.mark.parametrize("format", ["parquet", "orc"])
@pytest.mark.parametrize(
    ("column", "wanted", "said"),
    [
        (pa.array([1, 2**40]), pa.int32(), "row 2: c = 1099511627776 is more than int holds, 2147483647: make the column bigint"),
        (pa.array([1, 2**53 + 1]), pa.float64(), "row 2: c = 9007199254740993 has no exact double: make the column bigint"),
        (pa.array([1.0, 1e39]), pa.float32(), "row 2: c = 1e+39 is too large for float: make the column a double"),
        (pa.array([Decimal("1.20"), Decimal("1.239")], pa.decimal128(14, 3)), MONEY, "row 2: c = 1.239 has 3 decimals, decimal(12,2) holds 2: make the column decimal(13,3), or round it"),
        (pa.array(["a"]), pa.int64(), "column c: string in the file, bigint in the schema: make the column string, or write the file as bigint"),
        (pa.array([1]), MONEY, "column c: bigint in the file, decimal(12,2) in the schema: make the column bigint, or write the file as decimal(12,2)"),
        (pa.array([[1]]), pa.int64(), "column c: array<bigint> in the file, bigint in the schema: make the column array<bigint>, or write the file as bigint"),
        (pa.array([1, 1001], pa.timestamp("ns")), pa.timestamp("us"), "row 1: c = 1970-01-01 00:00:00.000000001 is finer than timestamp_ntz holds, microseconds: write it in microseconds"),
        (pa.array([1000], pa.timestamp("ns")), pa.timestamp("us", "UTC"), "column c: timestamp_ntz in nanoseconds in the file, timestamp in the schema: a time without a zone is no instant. Write the zone, or make the column a timestamp_ntz"),
        (pa.array([{"x": [{"y": 2**40}]}]), pa.struct([("x", pa.list_(pa.struct([("y", pa.int32())])))]), "row 1: c.x[].y = 1099511627776 is more than int holds, 2147483647: make the column bigint"),
    ],
)  # fmt: skip
def test_a_value_of_a_format_with_types(format: str, column: pa.Array, wanted: pa.DataType, said: str):
    assert reason(format, stored(format, column), pa.schema([("c", wanted)])) == said


def test_a_value_of_avro():
    sink = io.BytesIO()
    given = {"type": "record", "name": "r", "fields": [{"name": "c", "type": "long"}]}
    fastavro.writer(sink, given, [{"c": 1}, {"c": 2**40}])
    body = sink.getvalue()
    said = "row 2: c = 1099511627776 is more than int holds, 2147483647: make the column bigint"
    assert reason("avro", body, pa.schema([("c", pa.int32())])) == said
    wanted = pa.schema([("c", pa.list_(pa.int32()))])
    assert "bigint in the file, array<int> in the schema" in reason("avro", body, wanted)


# ---- lines, headers, files


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'[{"id": 1}]\n[1]\n', f"line 1 is a JSON array; {ONE_A_LINE} (jq -c '.[]' FILE)"),
        (b'{"id": 1}\n[\n', f"line 2 begins a JSON array; {ONE_A_LINE} (jq -c '.[]' FILE)"),
        (b'{ "id": 1,\n}\n', f"line 1 ends in the middle of an object; {ONE_A_LINE}, and all of it there (jq -c . FILE)"),
        (b'{"id": 1}\n{"id"', "line 2 ends in the middle of an object, and the file with it: it was cut off. Upload all of it"),
        (b'{"id": 1}\n{"name": "a', "line 2 ends in the middle of an object, and the file with it: it was cut off. Upload all of it"),
        (b'{"id": 1} {"id": 2}\n', f"line 1 has several objects; {ONE_A_LINE} (jq -c . FILE)"),
        (b'{"id": 1}}\n', "line 1, column 10: something is behind the object: take it away"),
        (b'{"id": 1,}\n', "line 1, column 10: this is no JSON: Expecting property name enclosed in double quotes"),
        (b'{"id": NaN}\n', "line 1: NaN is no JSON: write null, or leave the field out"),
        (b"null\n", f"line 1 is null; {ONE_A_LINE}"),
        (b"7\n", f"line 1 is a whole number; {ONE_A_LINE}"),
        (b"id;name\n1;a\n", f"line 1 is no JSON, it begins with 'id;name'; {ONE_A_LINE}. It names columns, as the header of a CSV file: set format = \"csv\""),
        (b'\xef\xbb\xbf{"id": 1}\n', "line 1 begins with a byte order mark, which JSON has not: write UTF-8 without it"),
        (b'{"id": 1}\n{"name": "caf\xe9"}\n', "line 2: the bytes e9 are no UTF-8, which JSON is: iconv -f WINDOWS-1252 -t UTF-8 FILE"),
        (b'{"id": "x", "id": 1}\n', "line 1: several keys 'id' in an object, and the value of one does not fit: keep one"),
        (b'{"id": ' + b"9" * 5_000 + b"}\n", f"line 1: id = {'9' * 60}... is more than bigint holds, 9223372036854775807: make the column string"),
        (b'{"name": "\\ud800"}\n', "line 1: half of a character, \\ud800: write both halves, or the character itself"),
    ],
)  # fmt: skip
def test_a_line_of_json(body: bytes, said: str):
    assert reason("json", body) == said


@pytest.mark.parametrize(
    ("body", "options", "said"),
    [
        (b"id;name\n1;a\n", {}, 'the header is one column by the route\'s delimiter ",": \'id;name\'. By ";" it has 2: set delimiter = ";"'),
        (b'"id";"name"\n1;a\n', {}, 'the header is one column by the route\'s delimiter ",": \'id;"name"\'. By ";" it has 2: set delimiter = ";"'),
        (b"id\tname\n1\ta\n", {}, 'the header is one column by the route\'s delimiter ",": \'id\\tname\'. By "\\t" it has 2: set delimiter = "\\t"'),
        (b"id,name\n1,a\n", {"delimiter": "|"}, 'the header is one column by the route\'s delimiter "|": \'id,name\'. By "," it has 2: set delimiter = ","'),
        (b"a;b\n1;2\n", {}, 'the header is one column by the route\'s delimiter ",": \'a;b\'. By ";" it has 2: set delimiter = ";"'),
        (b"id,name\n1\n", {}, 'row 1 has 1 field, and the header 2: write as many, and a field with "," or a line end in it in quotes'),
        (b"id,name\n1,caf\xe9\n", {}, 'row 1: name has bytes that are no UTF-8: set `encoding` of the route, such as "windows-1252" or "iso-8859-1", or write the file in UTF-8'),
        (b"x,y\n1,2\n", {}, "the file has none of the schema's columns (id, count, total, name, ok, share, day, at, local, raw); it has x, y: rename its columns, or correct the schema of the route"),
    ],
)  # fmt: skip
def test_a_line_of_csv(body: bytes, options: dict[str, str], said: str):
    assert reason("csv", body, **options) == said


PARQUET = stored("parquet", pa.array([1]))
ORC = stored("orc", pa.array([1]))
OTHERS = {
    "gzip": (gzip.compress(b"id\n1\n"), "the file is gzip, and its name does not end in .gz: name it so, or upload it unpacked"),
    "a ZIP archive": (b"PK\x03\x04\x14\0\x06\0", ""),
    "an Excel workbook": (b"PK\x03\x04\x14\0[Content_Types].xml \xa2", ""),
    "XML or HTML": (b"<!DOCTYPE html>\n<html>", ""),
    "Parquet": (PARQUET, ""),
    "ORC": (ORC, ""),
    "text in UTF-16": ("id,name\n1,a\n".encode("utf-16"), ""),
    "text in UTF-16 without a byte order mark": ("id,name\n1,a\n".encode("utf-16-be"), ""),
}  # fmt: skip


@pytest.mark.parametrize("format", ["json", "csv", "parquet", "avro", "orc"])
@pytest.mark.parametrize("called", OTHERS)
def test_a_file_of_another_kind_is_called_what_it_is(format: str, called: str):
    body, said = OTHERS[called]
    if called.lower() == format:
        return
    found = reason(format, body)
    assert found.startswith(f"the file is {called}")
    assert found == said or not said
    assert ": " in found, "what to do"


@pytest.mark.parametrize(
    ("format", "body", "said"),
    [
        ("csv", b'{"id":1,"name":"x"}\n', 'the file is JSON, and the route\'s format is csv: set format = "json" for it, or write it as CSV'),
        ("csv", b'[\n  {"id": 1}]', 'the file is JSON, and the route\'s format is csv: set format = "json" for it, or write it as CSV'),
        ("json", PARQUET, 'the file is Parquet, and the route\'s format is json: it begins as Parquet does. Set format = "parquet" for it, or write JSON lines'),
        ("csv", "id,name\n1,a\n".encode("utf-16"), 'the file is text in UTF-16, and the route\'s format is csv in utf-8: set encoding = "utf-16", or write it in utf-8'),
        ("json", '{"id": 1}\n'.encode("utf-16"), "the file is text in UTF-16, and JSON is in UTF-8: iconv -f UTF-16 -t UTF-8 FILE"),
        ("parquet", b"id,name\n1,a\n", "the file is text, and the route's format is parquet: it begins with 'id,name\\n1,a\\n'. Set another `format`"),
        ("parquet", b"", "the file is empty (0 bytes): Parquet has more, also without rows"),
        ("avro", b"", "the file is empty (0 bytes): Avro has more, also without rows"),
        ("orc", b"", "the file is empty (0 bytes): ORC has more, also without rows"),
        ("parquet", PARQUET[:-20], "not Parquet: it begins as Parquet does, and does not end so. It was cut off: upload all of it"),
    ],
)  # fmt: skip
def test_a_file_in_the_wrong_route(format: str, body: bytes, said: str):
    if body:
        assert reason(format, body) == said
    else:  # an empty file is never large
        with pytest.raises(Undecodable) as refused:
            decoder(format, SCHEMA)(body)
        assert str(refused.value) == said


def test_a_text_that_begins_as_another_format_by_chance_is_text():
    names = pa.schema([("ORC", pa.string()), ("id", pa.int64())])
    assert recognize(b"ORC,id\nx,1\n") is None
    assert decoder("csv", names)(b"ORC,id\nx,1\n").num_rows == 1
    assert reason("csv", b"ORC,id\nx,y\n", names).startswith("row 1: id = 'y' is no whole number")


@pytest.mark.parametrize(
    ("key", "body", "said"),
    [
        (
            "a.json.gz",
            b'{"id": 1}\n',
            "the file is JSON, and its name ends in .gz: take .gz off its name, or upload it packed by gzip",
        ),
        ("a.json.gz", b"\x28\xb5\x2f\xfdx", "the file is Zstandard, and its name ends in .gz: name it .zst"),
        ("a.json.gz", b"\x1f\x8b\x08\0", "broken gzip: "),
        ("a.json.bz2", b"\0\1\2", "the file is not packed by bz2, and its name ends in .bz2: take .bz2 off its name"),
        ("a.json.lz4", b"\x04\x22\x4d\x18xyz", "the file is packed by LZ4, and the route's format is json: "),
    ],
)
def test_what_is_not_packed_as_its_name_says_is_told_so(key: str, body: bytes, said: str):
    refused = Decoding(Dataset("lake.raw.t", "unused", "json"), SCHEMA)(key, body)
    assert isinstance(refused, Refused)
    assert refused.reason.startswith(said)


def test_a_name_of_arrow_is_in_no_message():
    """The types of any file, against a column of another kind."""
    kinds = [
        *(
            pa.uint8(),
            pa.int64(),
            pa.float64(),
            pa.large_string(),
            pa.binary(3),
            pa.date32(),
            pa.bool_(),
            pa.time64("us"),
        ),
        *(
            pa.timestamp("ms", "Europe/Berlin"),
            pa.decimal128(9, 3),
            pa.list_(pa.int8()),
            pa.map_(pa.string(), pa.int64()),
        ),
    ]
    for there in kinds:
        wanted = pa.struct([("x", pa.int64())])
        sink = io.BytesIO()
        pq.write_table(pa.table({"c": pa.array([None], there)}), sink)
        with pytest.raises(Undecodable) as refused:
            decoder("parquet", pa.schema([("c", wanted)]))(sink.getvalue())
        said = str(refused.value)
        assert type_name(there) in said
        for name in (
            "int64",
            "int8",
            "large_",
            "utf8",
            "list<",
            "date32",
            "time64",
            "[us",
            "[ms",
            "halffloat",
            "decimal128",
        ):
            assert name not in said


def test_every_type_that_a_schema_can_have_is_called_as_it_is_there():
    names = ["boolean", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"]
    kinds = [*(pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())]
    kinds += [pa.timestamp("us", "UTC"), pa.timestamp("us")]
    for name, kind in zip(names, kinds, strict=True):
        assert type_name(kind) == column_type(kind) == name
    nested = pa.map_(pa.string(), pa.struct([("a b", pa.list_(MONEY))]))
    assert type_name(nested) == column_type(nested) == "map<string,struct<`a b`:array<decimal(12,2)>>>"
    assert column_type(pa.list_(pa.uint64())) == "array<decimal(20,0)>"
    assert column_type(pa.struct([("t", pa.time64("us"))])) is None


# ---- the first cause, not the second


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"name": "\xed\xa0\x80"}\n', "line 1: the bytes ed a0 80 are half of a character, which UTF-8 has not: write the character itself"),
        (b'{"name": "\\ud83d\\ude00 \\udc01"}\n', "line 1: half of a character, \\udc01: write both halves, or the character itself"),
        (b'{"ok": tru', "line 1 ends in the middle of an object, and the file with it: it was cut off. Upload all of it"),
        (b'{"share": 1.', "line 1 ends in the middle of an object, and the file with it: it was cut off. Upload all of it"),
        (b'{"share": -1e+', "line 1 ends in the middle of an object, and the file with it: it was cut off. Upload all of it"),
        (b'{"name": "\\u00', "line 1 ends in the middle of an object, and the file with it: it was cut off. Upload all of it"),
        (b'{"ok": tru\n', f"line 1 ends in the middle of an object; {ONE_A_LINE}, and all of it there (jq -c . FILE)"),
        (b'{"ok": tru}\n', "line 1, column 8: this is no JSON: Expecting value"),
    ],
)  # fmt: skip
def test_a_line_of_json_is_refused_for_what_is_wrong_with_it(body: bytes, said: str):
    assert reason("json", body) == said


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("id", "1" * 201, "is more than bigint holds, 9223372036854775807: make the column string"),
        ("id", "-" + "1" * 201, "is less than bigint holds, -9223372036854775808: make the column string"),
        ("share", "1" * 401, "is too large for float: make the column a string"),
        ("share", "1" * 201 + "x", "is no number, and the schema says float: correct it, or make the column a string"),
        ("at", "2024-13-01T00:00:00", "is no time of the years 0001 to 9999: correct it"),
        ("at", "2024-02-30T00:00:00.123456", "is no time of the years 0001 to 9999: correct it"),
        ("local", "2024-13-01T00:00:00Z", "is no time of the years 0001 to 9999: correct it"),
        ("at", "2024-13-01", "is no day of the years 0001 to 9999: correct it"),
        # these are in the calendar
        ("at", "2024-12-01T00:00:00", "has no zone, and a timestamp is an instant: write it as 2024-02-03T04:05:06Z, or make the column a timestamp_ntz"),
        ("local", "2024-12-01T00:00Z", "has a zone, and a timestamp_ntz has none: make the column a timestamp, or write it as 2024-02-03T04:05:06"),
    ],
)  # fmt: skip
def test_a_value_of_csv_is_refused_for_what_is_wrong_with_it(column: str, value: str, why: str):
    assert reason("csv", f"{column}\n{value}\n".encode()).endswith(why)


def test_a_column_in_angle_brackets_is_no_markup():
    said = reason("csv", b"<id>,<name>\n1,x\n")
    assert said.startswith("the file has none of the schema's columns")
    assert "it has <id>, <name>" in said
    for markup in (b"<orders><order id='1'/></orders>", b"<p>no such object</p>", b'<?xml version="1.0"?>', b"<HTML>"):
        found = recognize(markup)
        assert found is not None
        assert found.called == "XML or HTML"
