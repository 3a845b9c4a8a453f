"""Compressed files of text without their compression: what Arrow reads itself, and the framings that it does not know.

A suffix names a codec, and a codec may be framed in several ways. The first bytes tell them apart:

    .gz .zst .bz2   one way each, which Arrow reads
    .lz4            LZ4's frame (https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md), which Arrow reads
                    Hadoop's blocks
    .snappy         Snappy's frame (https://github.com/google/snappy/blob/main/framing_format.txt)
                    Hadoop's blocks

Hadoop's blocks are what Spark and Hive write (Hadoop's `BlockCompressorStream`; files of Spark 4.1.1 looked at): the
length of a text, and then its parts, each with the length that it has packed. A block of Hadoop cannot begin as a frame
does: it would have more than `LONGEST_BLOCK` bytes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from tidegate.formats.blocks import unlz4, unsnap
from tidegate.formats.crc32c import crc32c
from tidegate.formats.reasons import Oversized, Undecodable

LONGEST_BLOCK = 64_000_000
SNAPPY_FRAME = b"\xff\x06\x00\x00sNaPpY"
SNAPPY_JAVA = b"\x82SNAPPY\x00"
LZ4_FRAME = b"\x04\x22\x4d\x18"
LZ4_SKIPPED = b"\x2a\x4d\x18"
"""What follows the first byte of a frame that readers leave out."""
LZ4_LEGACY = b"\x02\x21\x4c\x18"
PACKED, PLAIN, IDENTIFIER, SKIPPABLE = 0x00, 0x01, 0xFF, 0x80
"""Kinds of chunks of Snappy's frame. The skippable ones begin with that number."""
LARGEST_CHUNK = 65_536
"""The most bytes of a chunk, unpacked."""
MASK = 0xA282EAD8


def plain(codec: str, file: Any, size: int) -> Iterator[bytes]:
    """What is in a file that can be read and sought, in order: about `size` bytes at a time, and never none. `codec` is
    Arrow's name. Raises Undecodable, and what Arrow and `file` raise."""
    begin = file.read(len(SNAPPY_FRAME))
    file.seek(0)
    if codec == "snappy":
        yield from _gathered(_snappy(file, begin), size)
    elif codec == "lz4" and begin.startswith(LZ4_LEGACY):
        raise Undecodable("broken lz4: it is in the legacy frame, which is not read. Write it with a later version")
    elif codec == "lz4" and not begin.startswith(LZ4_FRAME) and begin[1:4] != LZ4_SKIPPED:
        yield from _gathered(_of_hadoop("lz4", file, unlz4), size)
    else:
        with pa.CompressedInputStream(file, codec) as stream:
            while piece := stream.read(size):
                yield piece


def _gathered(blocks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Small blocks together, large ones in parts."""
    held = b""
    for block in blocks:
        held += block
        if len(held) >= size:
            for begin in range(0, len(held), size):
                yield held[begin : begin + size]
            held = b""
    if held:
        yield held


def _snappy(file: Any, begin: bytes) -> Iterator[bytes]:
    if begin.startswith(SNAPPY_JAVA):
        raise Undecodable("broken snappy: it is in the frame of snappy-java, which is not read. Write Snappy's frame")
    return _framed_snappy(file) if begin == SNAPPY_FRAME else _of_hadoop("snappy", file, unsnap)


def _framed_snappy(file: Any) -> Iterator[bytes]:
    while header := file.read(4):
        if len(header) < 4:
            raise _early("snappy")
        kind, length = header[0], int.from_bytes(header[1:], "little")
        body = _exactly("snappy", file, length)
        if kind == IDENTIFIER:
            if header + body != SNAPPY_FRAME:
                raise Undecodable("broken snappy: a part of the file begins in another way")
        elif kind in (PACKED, PLAIN):
            yield _checked(body[:4], body[4:], packed=kind == PACKED)
        elif kind < SKIPPABLE:
            raise Undecodable(f"broken snappy: there is no chunk of kind {kind}")


def _checked(checksum: bytes, body: bytes, *, packed: bool) -> bytes:
    try:
        text = unsnap(body, LARGEST_CHUNK) if packed else body
    except Oversized as error:
        raise Undecodable(f"broken snappy: a chunk has more than {LARGEST_CHUNK} bytes") from error
    found = crc32c(text)
    if ((found >> 15 | found << 17) + MASK) & 0xFFFFFFFF != int.from_bytes(checksum, "little"):
        raise Undecodable("broken snappy: the checksum of a chunk is another one")
    return text


def _of_hadoop(codec: str, file: Any, unpack_block: Callable[[bytes, int], bytes]) -> Iterator[bytes]:
    while header := file.read(4):
        left = _length(codec, header)
        while left:
            packed = _exactly(codec, file, _length(codec, _exactly(codec, file, 4)))
            try:
                text = unpack_block(packed, left)
            except Oversized as error:
                raise Undecodable(f"broken {codec}: a block has more bytes than it says") from error
            if not text:
                raise Undecodable(f"broken {codec}: a part of a block is empty")
            left -= len(text)
            yield text


def _length(codec: str, number: bytes) -> int:
    if len(number) < 4:
        raise _early(codec)
    length = int.from_bytes(number, "big")
    if length > LONGEST_BLOCK:
        raise Undecodable(f"broken {codec}: neither a frame nor blocks of Hadoop of at most {LONGEST_BLOCK} bytes")
    return length


def _exactly(codec: str, file: Any, size: int) -> bytes:
    found: bytes = file.read(size)
    if len(found) < size:
        raise _early(codec)
    return found


def _early(codec: str) -> Undecodable:
    return Undecodable(f"broken {codec}: it ends too early")
