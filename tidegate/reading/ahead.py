"""Fetching ahead: many objects at once, to hide S3's latency."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tidegate.core.manifests import OwnedUpload
from tidegate.core.uploads import Upload
from tidegate.reading.fetch import Fetched

THREADS = 64
AHEAD_BYTES = 64_000_000
MOST_IN_A_ROW = 8
IN_A_ROW_BYTES = 256_000
"""So many files of so many bytes a thread fetches one after the other, if there are enough for all threads. To hand a
file over takes a sixth of what a file of 2 KB takes in all."""

NumberedUpload = tuple[int, OwnedUpload]
"""With its position."""
Received = tuple[int, OwnedUpload, Fetched]
"""An item, and what S3 handed out."""


def fetched_ahead(items: Sequence[NumberedUpload], fetch: Callable[[Upload], Fetched]) -> Iterator[Received]:
    """The items in order, each with its bytes. `THREADS` objects are asked for at once and, past the first, those of
    `AHEAD_BYTES`. Raises what `fetch` raises."""

    def fetched(row: Sequence[NumberedUpload]) -> list[Received]:
        return [(position, item, fetch(item.upload)) for position, item in row]

    ahead: deque[tuple[int, Future[list[Received]]]] = deque()
    pending = 0
    with ThreadPoolExecutor(THREADS) as pool:
        for row in _rows(items):
            size = sum(item.upload.size for _, item in row)
            while ahead and (len(ahead) >= THREADS or pending + size > AHEAD_BYTES):
                done, received = ahead.popleft()
                pending -= done
                yield from received.result()
            ahead.append((size, pool.submit(fetched, row)))
            pending += size
        while ahead:
            yield from ahead.popleft()[1].result()


def _rows(items: Sequence[NumberedUpload]) -> Iterator[list[NumberedUpload]]:
    """What one thread fetches in a row. Each thread gets some of the first ones, and some more."""
    most = max(1, min(MOST_IN_A_ROW, len(items) // (2 * THREADS)))
    row: list[NumberedUpload] = []
    size = 0
    for each in items:
        mine = each[1].upload.size
        if row and (len(row) >= most or size + mine > IN_A_ROW_BYTES):
            yield row
            row, size = [], 0
        row.append(each)
        size += mine
    if row:
        yield row
