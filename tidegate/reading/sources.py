"""A source whose errors are told apart from those of the file.

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
