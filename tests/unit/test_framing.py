"""Compressed files in the framings that Arrow does not know: taken as written, refused if anything is wrong."""

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.packed import framed_snappy, of_hadoop
from tidegate.formats import framing
from tidegate.formats.blocks import unlz4, unsnap
from tidegate.formats.crc32c import crc32c
from tidegate.formats.reasons import Oversized, Undecodable
from tidegate.reading.decompress import decompress

TEXT = b"".join(b"line %d\n" % number for number in range(60_000))
PLENTY = 1 << 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0),
        (b"a", 0xC1D04330),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_the_checksum_is_that_of_the_specification(text: bytes, expected: int):
    """RFC 3720, appendix B.4."""
    assert crc32c(text) == expected


@given(st.binary(max_size=3000))
def test_the_checksum_of_a_text_is_that_of_its_bytes(text: bytes):
    total = 0xFFFFFFFF
    for byte in text:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ (0x82F63B78 if total & 1 else 0)
    assert crc32c(text) == total ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.snappy", framed_snappy(TEXT)),
        ("a.snappy", of_hadoop(TEXT, "snappy")),
        ("a.snappy", of_hadoop(TEXT, "snappy") + bytes(4)),
        ("a.lz4", of_hadoop(TEXT, "lz4_raw")),
        ("a.lz4", pa.compress(TEXT, "lz4", asbytes=True)),
        # a frame that readers leave out
        ("a.lz4", b"\x53\x2a\x4d\x18\x02\0\0\0xy" + pa.compress(TEXT, "lz4", asbytes=True)),
        # what Spark 4.1.1 writes of "one" and "two"
        ("b.snappy", bytes.fromhex("000000080000000a081c6f6e650a74776f0a")),
        ("b.lz4", bytes.fromhex("0000000800000009806f6e650a74776f0a")),
    ],
)
def test_what_others_write_is_read(name: str, body: bytes):
    assert decompress(f"in/{name}", body, PLENTY) == (TEXT if name[0] == "a" else b"one\ntwo\n")


@pytest.mark.parametrize("pack", [framed_snappy, lambda body: of_hadoop(body, "snappy")])
def test_files_one_after_the_other_are_one(pack):
    assert decompress("a.snappy", pack(TEXT) + pack(b"more"), PLENTY) == TEXT + b"more"


@given(st.sampled_from([".snappy", ".lz4"]), st.data())
@settings(max_examples=200)
def test_what_is_cut_within_a_block_is_refused(suffix: str, data: st.DataObject):
    """At the end of a block a file may end, because neither framing has a mark for its end."""
    packed = framed_snappy(b"x" * 300, 100) if data.draw(st.booleans()) else None
    if suffix == ".lz4" or packed is None:
        packed = of_hadoop(b"x" * 300, "snappy" if suffix == ".snappy" else "lz4_raw", 100, 50)
    cut = packed[: data.draw(st.integers(1, len(packed) - 1))]
    try:
        found = decompress(f"a{suffix}", cut, PLENTY)
    except Undecodable as error:
        why = str(error)
    else:
        why = f"broken {suffix[1:]}: " if len(found) in (0, 100, 200, 300) else "not refused"
    assert why.startswith(f"broken {suffix[1:]}: ")


@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        ("a.snappy", framed_snappy(b"hello").replace(b"hello", b"hullo"), "checksum of a chunk is another one"),
        ("a.snappy", framing.SNAPPY_FRAME + b"\x02\0\0\0", "no chunk of kind 2"),
        ("a.snappy", framing.SNAPPY_FRAME + b"\xff\x06\0\0sNaPpX", "begins in another way"),
        ("a.snappy", b"\x82SNAPPY\0\0\0\0\1", "the frame of snappy-java, which is not read"),
        ("a.snappy", b"\x05\x10hello", "neither a frame nor blocks of Hadoop"),
        ("a.lz4", b"\x02\x21\x4c\x18", "the legacy frame, which is not read"),
        ("a.lz4", b"{text: 1}\xff", "neither a frame nor blocks of Hadoop"),
        ("a.lz4", bytes.fromhex("0000000300000009806f6e650a74776f0a"), "more bytes than it says"),
        ("a.snappy", bytes.fromhex("000000070000000a081c6f6e650a74776f0a"), "more bytes than it says"),
        ("a.snappy", bytes.fromhex("000000010000000100"), "a part of a block is empty"),
        ("a.lz4", bytes.fromhex("00000001000000020000"), "broken lz4: "),
        ("a.lz4", b"{text: 1}", "the file is text, and its name ends in .lz4: take .lz4 off its name"),
        ("a.gz", b'{"id": 1}', "the file is JSON, and its name ends in .gz: take .gz off its name"),
        ("a.gz", b"\x28\xb5\x2f\xfdx", "the file is Zstandard, and its name ends in .gz: name it .zst"),
        ("a.gz", b"\x1f\x8b\x08\0", "broken gzip: .*It is damaged or cut off: upload all of it again"),
    ],
)
def test_what_is_wrong_is_said(name: str, body: bytes, why: str):
    with pytest.raises(Undecodable, match=why):
        decompress(name, body, PLENTY)


@pytest.mark.parametrize("name", ["a.snappy", "b.snappy", "a.lz4", "b.lz4"])
def test_a_bomb_is_refused_within_its_limit(name: str):
    text = bytes(3_000_000)
    body = {
        "a.snappy": framed_snappy(text),
        "b.snappy": of_hadoop(text, "snappy", 1 << 24, 1 << 24),
        "a.lz4": pa.compress(text, "lz4", asbytes=True),
        "b.lz4": of_hadoop(text, "lz4_raw", 1 << 24, 1 << 24),
    }[name]
    assert decompress(name, body, 3_000_000) == text
    with pytest.raises(Oversized, match=r"more than 2999999 bytes decompressed \(max_object_bytes\)"):
        decompress(name, body, 2_999_999)


@given(st.binary(max_size=200))
@example(b"\0" * 10)
@settings(max_examples=500)
def test_any_bytes_are_a_block_or_refused(packed: bytes):
    for unpack in (unsnap, unlz4):
        with suppress(Undecodable):
            assert len(unpack(packed, 1000)) <= 1000
