"""Blocks as the codecs pack them, without a frame around: what Avro, ORC and Hadoop's files have inside.

Each function returns `max_bytes` or a little more at the most, and raises Undecodable.
"""

import zlib

import pyarrow as pa

from tidegate.formats.reasons import Undecodable, check_unpacked, first_line

LARGEST_LZ4 = 4 << 20
LZ4_HEADER, LZ4_END = b"\x04\x22\x4d\x18\x60\x70\x73", b"\0\0\0\0"
"""A frame of blocks of up to 4 MB, each packed by itself
(https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md)."""


def inflate(packed: bytes, max_bytes: int) -> bytes:
    """Deflate without a header."""
    inflating = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        data = inflating.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        raise Undecodable(f"broken deflate: {first_line(error)}") from error
    # Java's reader ignores what follows, too; fastavro's writer leaves a part of a checksum there
    if len(data) <= max_bytes and not inflating.eof:
        raise Undecodable("broken deflate: a block ends too early")
    return data


def unsnap(packed: bytes, max_bytes: int) -> bytes:
    """Snappy, which begins with the length of its text
    (https://github.com/google/snappy/blob/main/format_description.txt)."""
    size = 0
    for place, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    check_unpacked(size, max_bytes)
    try:
        data: bytes = pa.decompress(packed, size, "snappy", asbytes=True)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Undecodable(f"broken snappy: {first_line(error)}") from error
    return data


def unlz4(packed: bytes, max_bytes: int) -> bytes:
    """LZ4 of at most 4 MB. A block does not say how long its text is, and Arrow wants to know. A frame need not say it,
    so the block gets a frame."""
    frame = LZ4_HEADER + len(packed).to_bytes(4, "little") + packed + LZ4_END
    try:
        with pa.CompressedInputStream(pa.BufferReader(frame), "lz4") as stream:
            # Arrow takes memory for as much as is asked for
            data: bytes = stream.read(min(max_bytes, LARGEST_LZ4) + 1)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Undecodable(f"broken lz4: {first_line(error)}") from error
    check_unpacked(len(data), max_bytes)
    return data
