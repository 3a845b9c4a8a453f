"""The suspects of a screening, as a listing of the bucket: what an audit then goes through page by page.

A page is S3's own, and begins at a suspect. So where many are lost it costs one request for a thousand keys, and where
few are lost one request each. Only suspects are returned, and each as the bucket has it now: its version, its time and
its size are S3's, and nothing is taken from an inventory.
"""

from bisect import bisect_left, bisect_right
from functools import lru_cache

from tidegate.core.audit import Marker
from tidegate.core.errors import Rejected
from tidegate.core.key_ranges import just_before
from tidegate.core.screening import CompleteScreening, Suspect, decode_screening, decode_suspects, screening_folder
from tidegate.flows.ports import ListedPage, Listing, Work


def screening_of(run: str, work: Work) -> CompleteScreening | None:
    """What the job of this run has found; None if it has not ended well, or not yet."""
    body = work.get(screening_folder(run) + "complete.json")
    return decode_screening(body) if body else None


class ScreeningFailed(Rejected):
    """A job found nothing out, or what it found is gone."""


class SuspectListing:
    """`flows.ports.Listing` of the suspects of one run. A marker is a place in the bucket's listing, so another process
    may go on from it."""

    def __init__(self, run: str, screening: CompleteScreening, listing: Listing, work: Work) -> None:
        self._folder = f"{screening_folder(run)}{screening.folder}/"
        self._parts = screening.parts
        self._lasts = [part.last for part in screening.parts]
        self._listing = listing
        self._work = work
        # a page seldom touches more than two files
        self._part = lru_cache(maxsize=2)(self._read)

    def page(self, bucket: str, prefix: str, after: Marker, owner: str) -> ListedPage:
        """The suspects of the page that begins at the first suspect after `after`. Raises ScreeningFailed."""
        key = self._first_from(after)
        if key is None:
            return ListedPage((), None)
        close = just_before(key)
        # never back: in the middle of a suspect's versions, and right before a suspect, S3 goes on by itself
        start = after if after.key >= close else Marker(close)
        page = self._listing.page(bucket, prefix, start, owner)
        suspected = self._between(key, page.after.key if page.after else None)
        found = tuple(each for each in page.listed if (each.upload.key, each.upload.version) in suspected)
        more = page.after is not None and self._first_from(page.after) is not None
        return ListedPage(found, page.after if more else None)

    def _first_from(self, after: Marker) -> str | None:
        """The key of the first suspect whose versions have not all been listed. After a version of a suspect's key
        there may be more of them."""
        for number in range(bisect_left(self._lasts, after.key), len(self._parts)):
            suspects = self._part(number)
            at = bisect_left(suspects, Suspect(after.key, ""))
            if at < len(suspects):
                return suspects[at].key
        return None

    def _between(self, first: str, last: str | None) -> set[tuple[str, str]]:
        """The suspects with keys from `first` to `last`, both included."""
        found: set[tuple[str, str]] = set()
        for number in range(bisect_left(self._lasts, first), len(self._parts)):
            if last is not None and self._parts[number].first > last:
                break
            suspects = self._part(number)
            end = len(suspects) if last is None else bisect_right(suspects, last, key=lambda each: each.key)
            found |= {(each.key, each.version) for each in suspects[bisect_left(suspects, Suspect(first, "")) : end]}
        return found

    def _read(self, number: int) -> list[Suspect]:
        name = self._folder + self._parts[number].name
        body = self._work.get(name)
        if body is None:
            raise ScreeningFailed(f"{name} is missing in the work bucket: the job of this audit wrote it")
        return sorted(decode_suspects(body))
