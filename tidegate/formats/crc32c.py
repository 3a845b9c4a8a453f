"""The checksum CRC-32C (RFC 3720, appendix B.4), which Python's library does not have.

A text is written as rows of `WIDTH` bytes. The checksums of all rows are computed side by side, byte after byte, and
then put together: a checksum is linear, so the bytes that follow only multiply it by a power of two.
"""

from functools import cache

import numpy as np

POLYNOMIAL = 0x82F63B78
WIDTH = 256
ONES = 0xFFFFFFFF


def crc32c(text: bytes) -> int:
    if len(text) < 4:
        return _slowly(text)
    table, moved = _table(), _moved()
    rows = -(-len(text) // WIDTH)
    # zeros before a text change nothing, if the sum begins with zero; it begins with ones, which the first bytes have
    padded = np.zeros(rows * WIDTH, np.uint8)
    begin = len(padded) - len(text)
    padded[begin:] = np.frombuffer(text, np.uint8)
    padded[begin : begin + 4] ^= 0xFF
    sums = np.zeros(rows, np.uint32)
    for column in np.ascontiguousarray(padded.reshape(rows, WIDTH).T):
        sums = table[(sums ^ column) & 0xFF] ^ (sums >> 8)
    total = 0
    for each in sums.tolist():
        low, high = moved[0][total & 0xFF] ^ moved[1][total >> 8 & 0xFF], moved[2][total >> 16 & 0xFF]
        total = low ^ high ^ moved[3][total >> 24] ^ each
    return total ^ ONES


def _slowly(text: bytes) -> int:
    table, total = _table().tolist(), ONES
    for byte in text:
        total = table[(total ^ byte) & 0xFF] ^ (total >> 8)
    return int(total ^ ONES)


@cache
def _table() -> np.ndarray:
    """The checksum of each byte."""
    sums = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        sums = np.where(sums & 1, (sums >> 1) ^ np.uint32(POLYNOMIAL), sums >> 1)
    return sums


@cache
def _moved() -> list[list[int]]:
    """What becomes of each byte of a checksum if `WIDTH` zeros follow, by the place of the byte."""
    table = _table()
    found = []
    for place in range(4):
        sums = np.arange(256, dtype=np.uint32) << np.uint32(8 * place)
        for _ in range(WIDTH):
            sums = table[sums & 0xFF] ^ (sums >> 8)
        found.append(sums.tolist())
    return found
