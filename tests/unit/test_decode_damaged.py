"""Damaged files: whatever a file contains, the decoder says why it is refused, and the reader goes on.

Files are damaged by a fixed sequence of chances. Only a lack of memory may come out of the reader: it says nothing of
the file.
"""

import bz2
import datetime
import gzip
import io
import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from tidegate.core.routes import Dataset
from tidegate.formats.decode import decoder
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import FORMATS
from tidegate.reading import decoding as module
from tidegate.reading.decoding import Decoding, Refused
from tidegate.reading.decompress import decompress

UTC = datetime.UTC
FLAT = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.decimal128(12, 2)),
        ("s", pa.string()),
        ("x", pa.binary()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("day", pa.date32()),
        pa.field("b", pa.bool_(), nullable=False),
    ]
)
DEEP = pa.schema(
    [
        *FLAT,
        ("l", pa.list_(pa.float32())),
        ("o", pa.struct([("p", pa.decimal128(10, 2)), pa.field("q", pa.string(), nullable=False)])),
        ("m", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
    ]
)
LINE = {
    "i": 7,
    "f": 1.5,
    "d": "12.50",
    "s": "é",
    "x": "aGk=",
    "t": "2024-02-03T04:05:06Z",
    "n": "2024-02-03T04:05:06",
    "day": "2024-02-03",
    "b": True,
    "l": [1.5, None],
    "o": {"p": 1.25, "q": "z"},
    "m": {"k": "2024-02-03T04:05:06Z"},
}
ROW = {
    "i": 7,
    "f": 1.5,
    "d": Decimal("12.50"),
    "s": "é",
    "x": b"hi",
    "t": datetime.datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC),
    "n": datetime.datetime(2024, 2, 3, 4, 5, 6),
    "day": datetime.date(2024, 2, 3),
    "b": True,
    "l": [1.5, None],
    "o": {"p": Decimal("1.25"), "q": "z"},
    "m": [("k", datetime.datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC))],
}


# INT96 has no local times
OLD = pa.schema([field for field in DEEP if field.name != "n"])


def parquet(schema: pa.Schema = DEEP, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pylist([ROW] * 3, schema=schema), buffer, **options)
    return buffer.getvalue()


AVRO = {
    "i": "int",
    "f": "float",
    "d": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "s": "string",
    "x": "bytes",
    "t": {"type": "long", "logicalType": "timestamp-micros"},
    "n": {"type": "long", "logicalType": "local-timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "b": "boolean",
    "l": {"type": "array", "items": ["null", "float"]},
    "o": {
        "type": "record",
        "name": "o",
        "fields": [
            {"name": "p", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
            {"name": "q", "type": "string"},
        ],
    },
    "m": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-micros"}},
}


def avro(codec: str) -> bytes:
    buffer = io.BytesIO()
    fields = [{"name": name, "type": ["null", kind]} for name, kind in AVRO.items()]
    rows = [{**ROW, "m": dict(ROW["m"])}] * 3
    fastavro.writer(buffer, {"type": "record", "name": "row", "fields": fields}, rows, codec=codec)
    return buffer.getvalue()


JSON = b"".join(json.dumps(LINE).encode() + b"\n" for _ in range(3))
CSV = (
    b"i,f,d,s,x,t,n,day,b\n"
    + b'7,1.5,12.50,"a ""b"",\nc",aGk=,2024-02-03T04:05:06Z,2024-02-03 04:05,2024-02-03,true\n' * 3
)
FILES: dict[str, tuple[str, pa.Schema, bytes, int]] = {
    "json": ("json", DEEP, JSON, 1500),
    "csv": ("csv", FLAT, CSV, 1500),
    "parquet": ("parquet", DEEP, parquet(), 600),
    "plain parquet": ("parquet", DEEP, parquet(use_dictionary=False, compression="none", store_schema=False), 600),
    "old parquet": ("parquet", OLD, parquet(OLD, use_deprecated_int96_timestamps=True, version="1.0"), 300),
    "avro": ("avro", DEEP, avro("null"), 1500),
    "packed avro": ("avro", DEEP, avro("deflate"), 600),
}
WORDS = [
    b"null",
    b"1e-999999999",
    b'"',
    b"\xff",
    b"\x00",
    b"NaN",
    b"-",
    b"[",
    b"{",
    b"\\u",
    b"\r",
    b"9" * 40,
    b",",
    b"\xf0\x9f",
]


def damaged(body: bytes, chance: random.Random) -> bytes:
    out = bytearray(body)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        place = chance.randrange(len(out)) if out else 0
        match chance.randrange(5):
            case 0 if out:
                out[place] = chance.randrange(256)
            case 1 if out:
                out[place] ^= 1 << chance.randrange(8)
            case 2:
                del out[place : place + chance.choice([1, 2, 20])]
            case 3:
                out[place:place] = chance.choice(WORDS)
            case _:
                del out[place:]
    return bytes(out)


def test_there_are_files_of_every_format():
    assert {format for format, *_ in FILES.values()} == set(FORMATS)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_damaged_is_read(name: str):
    format, schema, body, _ = FILES[name]
    assert decoder(format, schema)(body).num_rows == 3


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_rows_of_the_schema_or_undecodable(name: str):
    format, schema, body, times = FILES[name]
    decode = decoder(format, schema, max_bytes=10_000_000)
    chance = random.Random(name)
    reasons: list[str] = []
    for _ in range(times):
        try:
            table = decode(damaged(body, chance))
        except Undecodable as error:
            reasons.append(str(error))
        else:
            table.validate(full=True)
            assert table.schema == schema
            # what whoever reads the table does, too: a time out of range would raise
            table.to_pylist()
    assert times / 10 < len(reasons) < times
    # a reason is recorded as one line of UTF-8
    assert [reason for reason in reasons if len(reason.encode().splitlines()) != 1] == []


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".zst", zstandard.compress)]
)
def test_a_damaged_stream_is_undecodable_or_decompressed(suffix: str, compress: Callable[[bytes], bytes]):
    body = compress(JSON)
    chance = random.Random(suffix)
    refused = 0
    for _ in range(400):
        try:
            decompress(f"in/a{suffix}", damaged(body, chance), 1_000_000)
        except Undecodable:
            refused += 1
    assert refused > 200


def decoding(**options: Any) -> Decoding:
    dataset = Dataset("lake.raw.t", "unused", **{"format": "json", **options})
    return Decoding(dataset, pa.schema([("i", pa.int32()), ("region", pa.string())]))


def decoded(decoding: Decoding, decode: Callable[[bytes], pa.Table], body: bytes = b"{}") -> Any:
    decoding.__dict__["_decode"] = decode
    return decoding("in/a", body)


class TestDecoding:
    def test_an_error_of_the_decoder_ends_this_upload_alone(self):
        def decode(body: bytes) -> pa.Table:
            raise KeyError("of the decoder\nand more")

        refused = decoded(decoding(), decode)
        assert isinstance(refused, Refused)
        assert "the decoder failed" in refused.reason
        assert "KeyError" in refused.reason
        assert "\n" not in refused.reason

    def test_an_error_of_decompressing_does_too(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(module, "decompress", lambda *_: 1 / 0)
        refused = decoded(decoding(), lambda body: pa.table({}))
        assert refused.reason.endswith("ZeroDivisionError: division by zero")

    @pytest.mark.parametrize("lack", [MemoryError("of Python"), pa.lib.ArrowMemoryError("of Arrow")])
    def test_a_lack_of_memory_says_nothing_of_the_file(self, lack: Exception):
        def decode(body: bytes) -> pa.Table:
            raise lack

        with pytest.raises(MemoryError):
            decoded(decoding(), decode)

    def test_a_value_that_no_path_can_hold_ends_this_upload_alone(self):
        decode = decoder("json", decoding().schema)
        body = json.dumps({"region": "x" * 300}).encode()
        refused = decoded(decoding(partition_by=("region",)), decode, body)
        assert isinstance(refused, Refused)
        assert "column region" in refused.reason
        assert decoded(decoding(partition_by=("bucket(4, region)",)), decode, body).num_rows == 1


@pytest.mark.parametrize("name", FILES)
def test_a_lack_of_memory_is_no_word_about_the_file(name: str, monkeypatch: pytest.MonkeyPatch):
    """ArrowMemoryError is an ArrowException, too, and those mean a bad file."""

    def lacking(*_: Any, **__: Any) -> None:
        raise pa.lib.ArrowMemoryError("malloc failed")

    format, schema, body, _ = FILES[name]
    decode = decoder(format, schema)
    for place in (
        "pyarrow.array",
        "pyarrow.compute.is_null",
        "pyarrow.csv.read_csv",
        "pyarrow.parquet.ParquetFile.read",
    ):
        monkeypatch.setattr(place, lacking)
    with pytest.raises(MemoryError):
        decode(body)


def test_a_parquet_file_whose_time_zone_is_no_text():
    body = (Path(__file__).parent / "damaged-timezone.parquet").read_bytes()
    with pytest.raises(Undecodable, match="utf-8"):
        decoder("parquet", pa.schema([("t", pa.timestamp("us", tz="UTC"))]), max_bytes=10_000_000)(body)


def test_a_parquet_file_with_fewer_rows_than_its_footer_names():
    """Arrow reads 16 of 17 rows, and says nothing."""
    body = (Path(__file__).parent / "miscounted.parquet").read_bytes()
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    with pytest.raises(Undecodable, match="the footer names 17 rows, and the row groups have 16"):
        decoder("parquet", schema, max_bytes=10_000_000)(body)
