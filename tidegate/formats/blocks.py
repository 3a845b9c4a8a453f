"""Blocks as the codecs pack them, without a frame around: what Avro and ORC have inside.

Each function returns `max_bytes` or a little more at the most, and raises Undecodable.
"""

import zlib

import pyarrow as pa

from tidegate.formats.reasons import Undecodable, check_unpacked, first_line


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
