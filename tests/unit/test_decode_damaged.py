"""Damaged files: whatever a file contains, the decoder says why it is refused, and the reader goes on.

Files are damaged by a fixed sequence of chances. Only a lack of memory may come out of the reader: it says nothing of
the file.
"""

import bz2
import datetime
import gzip
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
import zstandard

from tidegate.core.routes import Dataset
from tidegate.formats import orc_tail
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


def orc(codec: str) -> bytes:
    buffer = io.BytesIO()
    pyarrow.orc.write_table(pa.Table.from_pylist([ROW] * 3, schema=DEEP), buffer, compression=codec)
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
    "orc": ("orc", DEEP, orc("uncompressed"), 600),
    **{f"orc in {codec}": ("orc", DEEP, orc(codec), 200) for codec in ("zlib", "snappy", "zstd")},
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
    ("suffix", "compress"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".zst", zstandard.compress),
    ],
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
    assert refused > 150


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
        "pyarrow.orc.ORCFile",
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


# ---- ORC

SPARK = (Path(__file__).parent / "spark-los-angeles.orc").read_bytes()
"""A row that Spark 4.1.1 wrote with -Duser.timezone=America/Los_Angeles. Its time is 2024-07-02 03:04:05.123456 UTC,
its day 1500-01-01."""


def of_spark(name: str, kind: pa.DataType) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = decoder("orc", pa.schema([(name, kind)]))(SPARK).to_pylist()
    return rows


def test_an_instant_of_spark_in_another_zone_is_refused():
    for zone in ("UTC", None):
        with pytest.raises(Undecodable, match="in the zone America/Los_Angeles") as refusal:
            of_spark("ts", pa.timestamp("us", zone))
        assert refusal.value.where == "stripe 1"


def test_a_local_time_of_spark_is_what_it_was():
    assert of_spark("ntz", pa.timestamp("us")) == [{"ntz": datetime.datetime(2024, 7, 2, 3, 4, 5, 123456)}]
    with pytest.raises(Undecodable, match="timestamp"):
        of_spark("ntz", pa.int64())


def test_a_day_of_the_julian_calendar_is_refused():
    with pytest.raises(Undecodable, match="column old: a day before 1582-10-15"):
        of_spark("old", pa.date32())


def test_what_spark_wrote_besides():
    assert of_spark("c", pa.string()) == [{"c": "ab"}]
    assert of_spark("d", pa.decimal128(12, 2)) == [{"d": Decimal("1.25")}]
    assert of_spark("m", pa.map_(pa.string(), pa.int32())) == [{"m": [("a", 1)]}]


def orc_of(*fields: pa.Field, rows: list[Any]) -> bytes:
    buffer = io.BytesIO()
    pyarrow.orc.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), buffer)
    return buffer.getvalue()


def test_marks_of_spark_count_inside_of_other_types():
    mark = {"spark.sql.catalyst.type": "timestamp"}
    local = {"spark.sql.catalyst.type": "timestamp_ntz"}
    inner = pa.struct([pa.field("t", pa.timestamp("ns"), metadata=mark), pa.field("n", pa.int64(), metadata=local)])
    body = orc_of(pa.field("o", pa.list_(inner)), rows=[{"o": [{"t": 1_000, "n": 1}]}])
    wanted = pa.list_(pa.struct([("t", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us"))]))
    (row,) = decoder("orc", pa.schema([("o", wanted)]))(body).to_pylist()
    assert row["o"] == [
        {
            "t": datetime.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
            "n": datetime.datetime(1970, 1, 1, 0, 0, 0, 1),
        }
    ]


def test_an_interval_of_spark_is_no_number():
    field = pa.field("i", pa.int64(), metadata={"spark.sql.catalyst.type": "interval day to second"})
    with pytest.raises(Undecodable, match="column i: interval day to second in the file"):
        decoder("orc", pa.schema([("i", pa.int64())]))(orc_of(field, rows=[{"i": 1}]))


def test_char_is_the_text_of_the_file():
    """Writers pad it, and nothing is taken off."""
    body = bytearray(uncompressed_orc())
    # the second type of the footer becomes a char(3); its kind is 7, a string
    kind = body.rindex(b"\x22\x08\x08\x07\x20\x00")
    body[kind + 3], body[kind + 5] = 17, 3
    assert decode_text(bytes(body)).to_pylist() == [{"text": "a  "}, {"text": "b"}]


def uncompressed_orc() -> bytes:
    buffer = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"text": ["a  ", "b"]}), buffer, compression="uncompressed")
    return buffer.getvalue()


def test_a_time_that_arrow_cannot_hold_is_refused():
    """Earlier versions of Arrow made another time of it."""
    for seconds in (253_370_764_800, -62_135_596_800):
        buffer = io.BytesIO()
        times = pa.array([seconds], pa.timestamp("s"))
        pyarrow.orc.write_table(pa.table({"t": times}), buffer)
        with pytest.raises(Undecodable, match="outside of 1677-09-21 to 2262-04-11") as refusal:
            decoder("orc", pa.schema([("t", pa.timestamp("us"))]))(buffer.getvalue())
        assert refusal.value.where == "stripe 1"


def test_an_encrypted_file_and_an_unknown_codec_are_refused():
    body = uncompressed_orc()
    postscript = body[-1 - body[-1] : -1]
    # the footer's length is the first field of the postscript, the codec the second
    length = orc_tail._number(orc_tail._fields(postscript), 1)
    encrypted = bytes([10 << 3 | 2, 0])
    footer = body[-1 - body[-1] - length : -1 - body[-1]] + encrypted
    longer = postscript.replace(bytes([8]) + _varint(length), bytes([8]) + _varint(len(footer)), 1)
    with pytest.raises(Undecodable, match="encrypted"):
        decode_text(body[: -1 - body[-1] - length] + footer + longer + bytes([len(longer)]))
    lzo = postscript.replace(b"\x10\x00", b"\x10\x03", 1)
    with pytest.raises(Undecodable, match=r"not read\. These are: none, zlib, snappy, zstd"):
        decode_text(body[: -1 - body[-1]] + lzo + bytes([len(lzo)]))


def decode_text(body: bytes) -> pa.Table:
    return decoder("orc", pa.schema([("text", pa.string())]))(body)


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7]) if number > 0x7F else bytes([number])


def test_a_machine_without_time_zones_is_not_the_fault_of_a_file(tmp_path: Path):
    code = (
        "import pyarrow as pa\n"
        "from tidegate.formats.decode import decoder, streaming\n"
        "for make in (decoder, streaming):\n"
        "    try: make('orc', pa.schema([('t', pa.timestamp('us'))]))\n"
        "    except ValueError as error: print(error)\n"
    )
    environment = {**os.environ, "TZDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.count("ORC files cannot be read on this machine: ") == 2
    assert "IANA time zone database" in done.stdout
