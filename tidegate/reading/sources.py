"""Where the bytes of a file come from that is decoded piece by piece, if not from S3 (`tidegate.reading.ranges`).

It imports no network, because a careful child uses none.
"""

from dataclasses import dataclass

from tidegate.formats.streams import ByteSource


@dataclass
class Watched:
    """A source whose errors are kept: whoever decodes it may take them for damage of the file."""

    source: ByteSource
    failed: Exception | None = None

    @property
    def size(self) -> int:
        return self.source.size

    def read(self, start: int, end: int) -> bytes:
        try:
            return self.source.read(start, end)
        except Exception as error:
            self.failed = self.failed or error
            raise


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """A file in memory, as a source."""

    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)

    def read(self, start: int, end: int) -> bytes:
        return self.body[start:end]
