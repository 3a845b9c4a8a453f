"""Avro: the container, the schema that a file brings along, and rows that come back as they were written."""

import bz2
import datetime
import io
import json
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.formats import avro
from tidegate.formats.avro import MAGIC
from tidegate.formats.avro_schema import DEEPEST
from tidegate.formats.blocks import unsnap
from tidegate.formats.decode import decoder
from tidegate.formats.reasons import Undecodable

SYNC = b"sixteen bytes !!"
LONGS = pa.schema([("c", pa.int64())])
NONE = pa.schema([("elsewhere", pa.int64()), ("c", pa.int64())])


def number(value: int) -> bytes:
    """As Avro writes it: zigzag, seven bits a byte."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def container(
    schema: Any, *blocks: tuple[int, bytes], codec: str | None = None, meta: dict[str, bytes] | None = None
) -> bytes:
    """A file of blocks: how many rows each says it has, and its bytes as packed."""
    about = {"avro.schema": json.dumps(schema).encode()} | ({"avro.codec": codec.encode()} if codec else {})
    about = about if meta is None else meta
    pairs = b"".join(text(key.encode()) + text(value) for key, value in about.items())
    header = MAGIC + number(len(about)) + pairs + number(0) + SYNC
    return header + b"".join(number(count) + text(data) + SYNC for count, data in blocks)


def row(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "row", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def written(schema: Any, rows: Iterable[Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, rows, **options)
    return buffer.getvalue()


def read(body: bytes, schema: pa.Schema = LONGS, max_bytes: int = 10_000_000) -> list[Any]:
    return decoder("avro", schema, max_bytes=max_bytes)(body).to_pylist()


def refusal(body: bytes, schema: pa.Schema = LONGS, max_bytes: int = 10_000_000) -> str:
    with pytest.raises(Undecodable) as error:
        read(body, schema, max_bytes)
    assert "\n" not in str(error.value)
    return str(error.value)


def rows_or_reason(body: bytes, schema: pa.Schema) -> pa.Table | str:
    try:
        return decoder("avro", schema, max_bytes=1_000_000)(body)
    except Undecodable as error:
        return str(error)


# ---- the container


def raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(data) + deflate.flush()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": raw_deflate,
    "snappy": lambda data: pa.compress(data, codec="snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
    "zstandard": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "bzip2": bz2.compress,
}


@pytest.mark.parametrize("codec", PACK)
def test_blocks_are_read_however_they_are_packed(codec: str):
    blocks = [(2, number(7) + number(-8)), (0, b""), (1, number(2**40))]
    body = container(row(("c", "long")), *((count, PACK[codec](data)) for count, data in blocks), codec=codec)
    assert read(body) == [{"c": 7}, {"c": -8}, {"c": 2**40}]


@pytest.mark.parametrize("codec", ["deflate", "bzip2"])
def test_what_fastavro_packs_is_read(codec: str):
    rows = [{"c": each} for each in range(25_000)]
    assert read(written(row(("c", "long")), rows, codec=codec)) == rows


@pytest.mark.parametrize("codec", PACK)
def test_a_small_file_that_would_be_a_large_one_is_refused_before_it_is(codec: str):
    data = bytes(3_000_000)
    body = container(row(("c", "bytes")), (1, PACK[codec](data)), codec=codec)
    assert codec == "null" or len(body) < 200_000
    assert "too large: more than 1000000 bytes decompressed" in refusal(body, max_bytes=1_000_000)


def test_many_small_blocks_count_together():
    block = number(600_000 - 3) + bytes(600_000 - 3)
    body = container(row(("c", "bytes")), (1, raw_deflate(block)), (1, raw_deflate(block)), codec="deflate")
    schema = pa.schema([("c", pa.binary())])
    assert len(read(body, schema, 1_300_000)) == 2
    assert "too large: more than 1100000 bytes" in refusal(body, schema, 1_100_000)


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "bzip2"])
def test_a_block_that_is_cut_short_is_refused(codec: str):
    packed = PACK[codec](number(7) * 5_000)
    for cut in (packed[:-6], packed[: len(packed) // 2], b"", b"\x00" * 9):
        assert refusal(container(row(("c", "long")), (5_000, cut), codec=codec))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_block_of_snappy_or_refused(packed: bytes):
    with suppress(Undecodable):
        assert len(unsnap(packed, 1000)) <= 1000


def test_a_checksum_that_is_not_that_of_the_block():
    packed = PACK["snappy"](number(7))
    body = container(row(("c", "long")), (1, packed[:-1] + b"!"), codec="snappy")
    assert "checksum" in refusal(body)


def test_a_codec_that_nobody_here_knows():
    told = refusal(container(row(("c", "long")), (1, number(7)), codec="lzo"))
    assert "'lzo'" in told
    assert "null, deflate, snappy, zstandard, bzip2" in told


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"Obj",
        b'{"c": 7}\n',
        MAGIC,
        container(row(("c", "long")), (1, number(7)))[:-1],
        container(row(("c", "long")), (1, number(7))) + b"\x02",
        container(row(("c", "long")), (1, number(7)))[:-16] + b"another sync one",
        container(row(("c", "long")), (-1, number(7))),
        container(row(("c", "long")), (2, number(7))),
        container(row(("c", "string")), (1, text(b"\xff"))),
        container({}, meta={}),
        container({}, meta={"avro.schema": b"{"}),
        container({}, meta={"avro.schema": b"[" * 100_000}),
        container({}, meta={"avro.schema": b"\xff\xfe\xff"}),
        container(row(("c", "long")), meta={"avro.schema": b"{}", "avro.codec": b"\xff"}),
    ],
)
def test_what_is_no_container_is_refused(body: bytes):
    refusal(body)


def test_a_block_holds_the_rows_that_it_says_and_no_others():
    body = container(row(("c", "long")), (1, number(7)), (1, number(7) + number(8)))
    assert "block 2 says that it has 1 rows, and has more" in refusal(body)


def test_rows_that_take_no_bytes_are_counted_before_they_are_made():
    body = container(row(("c", "null")), (1 << 60, b""))
    assert "too large" in refusal(body)
    assert read(container(row(("c", "null")), (3, b""))) == [{"c": None}] * 3


# ---- rows and columns


def test_columns_are_found_by_name_and_others_are_ignored():
    schema = row(("b", "string"), ("c", "long"), ("a", {"type": "array", "items": ["null", "int", "string"]}))
    assert read(written(schema, [{"a": [1, "x", None], "b": "x", "c": 7}]), NONE) == [{"elsewhere": None, "c": 7}]


def test_a_file_that_shares_no_column_with_the_schema():
    assert "none of the schema's columns (c); it has x" in refusal(written(row(("x", "long")), [{"x": 1}]))
    assert read(written(row(("x", "long")), [])) == []


def test_two_columns_of_one_name():
    assert "several columns called 'c'" in refusal(container(row(("c", "long"), ("c", "long")), (1, b"\x02\x02")))
    inner = {"type": "record", "name": "s", "fields": [{"name": "x", "type": "int"}] * 2}
    wanted = pa.schema([("c", pa.struct([("x", pa.int32())]))])
    assert "several fields called 'x'" in refusal(container(row(("c", inner)), (1, b"\x02\x02")), wanted)


def test_null_where_the_schema_says_not_null():
    schema = pa.schema([pa.field("c", pa.int64(), nullable=False)])
    rows = [{"c": each} for each in [*range(10_004), None]]
    assert "row 10005: c is null or missing" in refusal(written(row(("c", ["null", "long"])), rows), schema)
    assert "null or missing" in refusal(written(row(("c", "null"), ("d", "int")), [{"d": 1}]), schema)


def test_null_in_a_nested_value_that_must_not_be():
    wanted = pa.schema([("c", pa.list_(pa.struct([pa.field("x", pa.int32(), nullable=False)])))])
    item = {"type": "record", "name": "item", "fields": [{"name": "x", "type": ["null", "int"]}]}
    body = written(row(("c", {"type": "array", "items": item})), [{"c": []}, {"c": [{"x": 1}, {"x": None}]}])
    assert "row 2: c[].x is null or missing" in refusal(body, wanted)


def test_a_value_beyond_its_own_type_is_refused():
    assert "column c" in refusal(container(row(("c", "int")), (1, number(2**40))))


@pytest.mark.parametrize("place", [-1, 2])
def test_an_enum_has_the_symbols_that_it_lists(place: int):
    schema = row(("c", {"type": "enum", "name": "e", "symbols": ["A", "B"]}))
    told = refusal(container(schema, (1, number(place))), pa.schema([("c", pa.string())]))
    assert told == f"column c: {place} is none of the enum's 2 symbols"


def test_a_decimal_of_a_million_digits_is_refused_at_once():
    schema = row(("c", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}))
    wanted = pa.schema([("c", pa.decimal128(12, 2))])
    assert "more than 76 digits" in refusal(container(schema, (1, text(b"\x7f" * 1_000_000))), wanted)
    padded = container(schema, (1, text(bytes(1_000) + b"\x04\xe2")))
    assert read(padded, wanted) == [{"c": Decimal("12.50")}]


@pytest.mark.parametrize(
    "logical",
    [
        {"logicalType": "decimal", "precision": 0},
        {"logicalType": "decimal", "precision": 2, "scale": 3},
        {"logicalType": "decimal", "precision": "2"},
        {"logicalType": "decimal"},
        {"logicalType": "date"},
        {"logicalType": "of nobody"},
        {"logicalType": ["date"]},
    ],
)
def test_a_logical_type_that_avro_does_not_allow_there_is_none(logical: dict[str, Any]):
    body = container(row(("c", {"type": "bytes", **logical})), (1, text(b"ab")))
    assert read(body, pa.schema([("c", pa.binary())])) == [{"c": b"ab"}]


# ---- the schema of the file


def test_names_are_found_in_their_namespaces():
    schema = {
        "type": "record",
        "name": "row",
        "namespace": "a.b",
        "fields": [
            {"name": "x", "type": {"type": "fixed", "name": "two", "size": 2}},
            {"name": "y", "type": {"type": "record", "name": "n.r", "fields": [{"name": "z", "type": "a.b.two"}]}},
            {"name": "c", "type": ["null", {"type": "n.r"}]},
            {"name": "d", "type": {"type": "array", "items": "two"}},
        ],
    }
    inner = pa.struct([("z", pa.binary())])
    wanted = pa.schema([("c", inner), ("d", pa.list_(pa.binary()))])
    rows = [{"x": b"ab", "y": {"z": b"cd"}, "c": {"z": b"ef"}, "d": [b"gh"]}]
    body = container(schema, (1, b"ab" + b"cd" + b"\x02ef" + b"\x02gh\x00"))
    assert read(body, wanted) == [{name: rows[0][name] for name in wanted.names}]


HOLDS_ITSELF = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (HOLDS_ITSELF, "holds itself"),
        ("row", "holds itself"),
        ("elsewhere", "no type called 'elsewhere'"),
        ({"type": "array", "items": "null"}, "an array of nulls"),
        ({"type": "array", "items": ["null", ["int"]]}, "a union without types, or of unions"),
        ([], "a union without types"),
        ({"type": "record", "name": "r", "fields": []}, "take no bytes"),
        ({"type": "record", "name": "r", "fields": [{"name": "x", "type": "null"}]}, "take no bytes"),
        ({"type": "record", "name": "r"}, "a record without fields"),
        ({"type": "record", "fields": []}, "a record without a name"),
        ({"type": "fixed", "name": "f", "size": 0}, "a fixed of 0 bytes"),
        ({"type": "fixed", "name": "f", "size": -1}, "a fixed of -1 bytes"),
        ({"type": "fixed", "name": "f", "size": 2**40}, "a fixed of"),
        ({"type": "fixed", "name": "row", "size": 2}, "several types called 'row'"),
        ({"type": "enum", "name": "e", "symbols": [1]}, "an enum without symbols"),
        ({"type": None}, "None where a type belongs"),
        ({"name": "x"}, "None where a type belongs"),
        (7, "7 where a type belongs"),
    ],
)
def test_a_schema_that_is_dangerous_or_none_is_refused_in_any_column(kind: Any, why: str):
    told = refusal(container(row(("x\n", kind), ("c", "long")), (1, b"\x02" * 100_000)))
    assert told.startswith("column x\\n: ")
    assert why in told


@pytest.mark.parametrize("schema", ["long", ["null", row(("c", "long"))], {"type": "map", "values": "long"}, 7, None])
def test_a_row_is_a_record(schema: Any):
    assert "not that of a record" in refusal(container(schema, (1, number(7))))


def test_types_within_types_without_end():
    deep: Any = "int"
    for _ in range(DEEPEST + 1):
        deep = {"type": "array", "items": deep}
    assert "levels" in refusal(container(row(("x", deep), ("c", "long"))))
    # each type holds the one before ten times
    wide = [{"name": "a", "type": {"type": "fixed", "name": "t0", "size": 1}}]
    for number in range(1, 12):
        fields = [{"name": f"f{each}", "type": f"t{number - 1}"} for each in range(10)]
        wide.append({"name": f"a{number}", "type": {"type": "record", "name": f"t{number}", "fields": fields}})  # type: ignore[dict-item]
    assert "10000 types" in refusal(container({"type": "record", "name": "row", "fields": wide}))


# ---- as they were written

INSTANTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30), timezones=st.just(datetime.UTC))
TYPES: dict[str, tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": ("boolean", pa.bool_(), st.booleans()),
    "small": ("int", pa.int64(), st.integers(-(2**31), 2**31 - 1)),
    "large": ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "real": ("double", pa.float64(), st.floats(allow_nan=False)),
    "text": ("string", pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
    "raw": ("bytes", pa.binary(), st.binary(max_size=8)),
    "day": ({"type": "int", "logicalType": "date"}, pa.date32(), st.dates()),
    "at": ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC"), INSTANTS),
    "price": (
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
        pa.decimal128(20, 3),
        st.decimals(-(10**16), 10**16, places=3),
    ),
    "many": (
        {"type": "array", "items": ["null", "long"]},
        pa.list_(pa.int64()),
        st.lists(st.none() | st.integers(0, 9)),
    ),
    "pairs": (
        {"type": "map", "values": "string"},
        pa.map_(pa.string(), pa.string()),
        st.dictionaries(st.text("abc", max_size=3), st.text("abc", max_size=3)).map(lambda pairs: list(pairs.items())),
    ),
}
WANTED = pa.schema([(name, kind) for name, (_, kind, _) in TYPES.items()])
RECORD = row(*((name, ["null", kind]) for name, (kind, _, _) in TYPES.items()))
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, (_, _, values) in TYPES.items()}), max_size=5)


@given(ROWS, st.sampled_from(["null", "deflate", "bzip2"]), st.sampled_from([1, 16_000]))
def test_rows_come_back_as_they_were_written(rows: list[dict[str, Any]], codec: str, interval: int):
    given = [{**each, "pairs": None if each["pairs"] is None else dict(each["pairs"])} for each in rows]
    body = written(RECORD, given, codec=codec, sync_interval=interval)
    table = decoder("avro", WANTED)(body)
    assert table.schema == WANTED
    assert table.to_pylist() == rows


@given(st.binary(max_size=200), st.integers(-2, 5), st.sampled_from(sorted(PACK)))
def test_any_bytes_are_rows_or_undecodable(data: bytes, count: int, codec: str):
    body = container(RECORD, (count, PACK[codec](data)), codec=codec)
    found = rows_or_reason(body, WANTED)
    if isinstance(found, pa.Table):
        found.validate(full=True)
        assert found.num_rows == count
    else:
        assert len(found.splitlines()) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from([*"abc", "null", "int", "row", "record", "array"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "items", "values", "fields", "size", "symbols", "logicalType"]), inner
        )
    ),
    max_leaves=12,
)


@given(JSON, st.binary(max_size=20))
def test_any_schema_is_read_or_refused(kind: Any, data: bytes):
    for schema in (kind, row(("x", kind), ("c", "long"))):
        found = rows_or_reason(container(schema, (1, data)), LONGS)
        assert isinstance(found, pa.Table) or len(found.splitlines()) == 1


def nested(levels: int) -> Any:
    """Records in records: a value has two bytes at the most, and as many objects as there are levels."""
    inner: Any = ["null", "int"]
    for level in range(levels):
        inner = {"type": "record", "name": f"n{level}", "fields": [{"name": "x", "type": inner}]}
    return inner


def test_a_schema_whose_every_byte_becomes_many_records_is_refused():
    body = container(row(("c", "long"), ("d", nested(28))), (1, number(1) + number(0)))
    assert "one byte becomes 29 of them" in refusal(body)


def test_records_in_records_are_read():
    body = container(row(("c", "long"), ("d", nested(4))), (1, number(1) + number(0)))
    assert decoder("avro", LONGS)(body).to_pylist() == [{"c": 1}]


def test_large_rows_are_objects_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []
    columns = avro._column_of
    monkeypatch.setattr(avro, "_column_of", lambda member, rows: sizes.append(len(rows)) or columns(member, rows))
    monkeypatch.setattr(avro, "OBJECT_BYTES", 10**15)
    body = container(row(("c", "long")), (3, number(1) + number(2) + number(3)))
    assert decoder("avro", LONGS)(body).to_pylist() == [{"c": 1}, {"c": 2}, {"c": 3}]
    assert sizes == [1, 1, 1]
