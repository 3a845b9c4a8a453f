"""The bytes of one upload, range by range, each from exactly the claimed version.

Each GET names the version, or the ETag in `If-Match`. So all ranges are of the same bytes, or a range is refused: then
the object was deleted or overwritten meanwhile. Nothing is assembled from two versions.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from tidegate.core.uploads import Upload
from tidegate.reading.fetch import Fetched, Missed, TooLarge, fetch_range


class GoneMeanwhile(Exception):
    """The version was deleted or overwritten before all of it was read."""

    def __init__(self, missed: Missed) -> None:
        super().__init__(missed.reason)
        self.missed = missed

    def __reduce__(self) -> tuple[type["GoneMeanwhile"], tuple[Missed]]:
        return GoneMeanwhile, (self.missed,)


class NotHandedOut(Exception):
    """S3 has handed out the object, and does not hand out a range of it. A later try may cure that, or finds the
    refusal at the first byte."""


@dataclass
class Ranges:
    """An upload of `size` bytes, as a source (`formats.streams.ByteSource`).

    If ranges are asked for one after the other, the next one is fetched while one is decoded. That hides S3's latency,
    and holds one range more. `owner` is as for `fetch`. Errors of S3 are raised, GoneMeanwhile and NotHandedOut too.
    """

    upload: Upload
    size: int
    owner: str = ""
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False, repr=False)
    _ahead: tuple[int, int, "Future[Fetched]"] | None = field(default=None, init=False, repr=False)
    _end: int = field(default=0, init=False)

    def __enter__(self) -> "Ranges":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def read(self, start: int, end: int) -> bytes:
        ahead, self._ahead = self._ahead, None
        if ahead and ahead[0] == start and ahead[1] >= end:
            found = ahead[2].result()
            # the last range may have been asked for with another length
            body = self._checked(found, start, ahead[1])[: end - start]
        else:
            body = self._checked(fetch_range(self.upload, start, end, self.owner), start, end)
        following = min(end + (end - start), self.size)
        if start == self._end and end < following:
            future = self._pool.submit(fetch_range, self.upload, end, following, self.owner)
            self._ahead = (end, following, future)
        self._end = end
        return body

    def _checked(self, found: Fetched, start: int, end: int) -> bytes:
        where = f"bytes {start} to {end - 1} of {self.upload}"
        if isinstance(found, Missed):
            raise GoneMeanwhile(found)
        if isinstance(found, TooLarge):
            raise NotHandedOut(f"{where}: S3 names {found.size} bytes")
        if not isinstance(found, bytes):
            raise NotHandedOut(f"{where}: {found.reason}")
        if len(found) != end - start:
            raise NotHandedOut(f"{where}: {len(found)} bytes came")
        return found
