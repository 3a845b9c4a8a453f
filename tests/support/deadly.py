"""A decoder that one file kills, in a way that the file names. It stands for bugs of decoders that are not known yet.

It is a module of its own, because other processes import it.
"""

import os
import time
from dataclasses import dataclass

from tidegate.reading.decoding import Decoding, Refused
from tidegate.reading.reader import Reader

CRASH, EXIT, SPIN, SLEEP, GROW = b"crash", b"exit", b"spin", b"sleep", b"grow"


@dataclass(frozen=True)
class DeadlyDecoding(Decoding):
    def unpack(self, key: str, body: bytes) -> bytes | Refused:
        if CRASH in body:
            os.abort()
        if EXIT in body:
            os._exit(3)
        while SPIN in body:
            pass
        if SLEEP in body:
            time.sleep(3600)
        if GROW in body:
            _ = bytearray(1 << 33)
        return super().unpack(key, body)


class DeadlyReader(Reader):
    @property
    def decoding(self) -> Decoding:
        return DeadlyDecoding(self.dataset, self.schema)
