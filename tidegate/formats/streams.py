"""Decompression, up to a limit."""

import pyarrow as pa

from tidegate.formats.reasons import Undecodable, first_line

CHUNK = 1 << 20


def unpack(codec: str, body: bytes, max_bytes: int) -> bytes:
    """`body` without the compression that Arrow calls `codec`. Raises Undecodable, also past `max_bytes`."""
    pieces: list[bytes] = []
    size = 0
    try:
        # Arrow notices a stream that stops early in all three formats, and reads concatenated ones to their end
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            while piece := stream.read(CHUNK):
                size += len(piece)
                check_unpacked(size, max_bytes)
                pieces.append(piece)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, EOFError) as error:
        raise Undecodable(f"broken {codec}: {first_line(error)}") from error
    return b"".join(pieces)


def check_unpacked(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise Undecodable(f"too large: more than {max_bytes} bytes decompressed (max_object_bytes)")
