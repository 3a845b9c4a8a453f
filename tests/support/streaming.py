"""A reader for which a file of a kilobyte is large. It stands for the real one, whose large files are too large for
tests.

It is a module of its own, because other processes import it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pyarrow as pa

from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Read
from tidegate.formats import streams
from tidegate.formats.streams import Stream
from tidegate.reading import reader as reading
from tidegate.reading.reader import Reader

LARGE = 1_000
RANGE = 400
"""Bytes of a range, and of a piece of text."""


@contextmanager
def all_is_large() -> Iterator[None]:
    whole = Stream.pieces
    with ExitStack() as stack:
        stack.enter_context(patch.object(reading, "STORED_BYTES", LARGE))
        stack.enter_context(patch.object(streams, "RANGE_BYTES", RANGE))
        stack.enter_context(patch.object(Stream, "pieces", lambda stream: whole(stream, RANGE)))
        yield


class StreamingReader(Reader):
    def read(
        self, items: Sequence[tuple[int, OwnedUpload]], report: Callable[[int, Read], None]
    ) -> Iterator[pa.RecordBatch]:
        with all_is_large():
            yield from super().read(items, report)
