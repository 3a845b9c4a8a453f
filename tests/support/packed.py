"""Snappy and LZ4 as others write them: Snappy's own frame, and Hadoop's blocks."""

import pyarrow as pa

from tidegate.formats.crc32c import crc32c
from tidegate.formats.framing import SNAPPY_FRAME


def framed_snappy(body: bytes, chunk: int = 65_536) -> bytes:
    """As the specification says; every second chunk is not packed, and a chunk that readers leave out is between."""
    found = [SNAPPY_FRAME]
    for number, begin in enumerate(range(0, len(body), chunk)):
        text = body[begin : begin + chunk]
        sums = crc32c(text)
        checksum = (((sums >> 15 | sums << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
        kind, data = (b"\1", text) if number % 2 else (b"\0", pa.compress(text, "snappy", asbytes=True))
        found.append(kind + (len(data) + 4).to_bytes(3, "little") + checksum + data)
        found.append(b"\xfe\x03\0\0xyz")
    return b"".join(found)


def of_hadoop(body: bytes, codec: str, block: int = 262_144, part: int = 100_000) -> bytes:
    """Blocks of several parts each; `codec` is Arrow's name of it without a frame."""
    found = []
    for begin in range(0, len(body), block):
        text = body[begin : begin + block]
        found.append(len(text).to_bytes(4, "big"))
        for at in range(0, len(text), part):
            data = pa.compress(text[at : at + part], codec, asbytes=True)
            found.append(len(data).to_bytes(4, "big") + data)
    return b"".join(found)
