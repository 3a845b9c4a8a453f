"""Which version of an object has its rows in the table, if a route replaces: S3's own order of the versions decides.

S3 lists the versions of a key in the order in which it stored them, the latest first
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html). Whoever announces an upload, or finds it,
its place in that list is the same. What the list lacks has been deleted for good, or has expired. Of what the table
holds, that is older than what is listed. An upload that the list lacks is gone, too; if it can be read all the same, it
was put again since, while versioning was suspended, and is the latest.

A delete marker is a version without rows. SDKs return the markers beside the versions, so their order among each other
is told by what is current and by the times, which have no parts of a second. Within one second a version counts as the
later one, and rows stay. A multipart upload has the time at which it was begun.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tidegate.core.uploads import Upload, is_later, version_of

UNLISTED = -1

Identity = tuple[str, str, str]
"""That of an upload."""

RowsPlace = tuple[str, str, str]
"""Which rows of a table: the uri and the version that they are of, and the batch that brought them."""


def in_order(page: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The versions and the delete markers of an answer to ListObjectVersions: by key, of each the latest first."""
    markers = deque(page.get("DeleteMarkers", ()))
    for version in page.get("Versions", ()):
        while markers and _comes_before(markers[0], version):
            yield markers.popleft()
        yield version
    yield from markers


def _comes_before(marker: Mapping[str, Any], version: Mapping[str, Any]) -> bool:
    if marker["Key"] != version["Key"]:
        return bool(marker["Key"] < version["Key"])
    return bool(marker["IsLatest"] or (not version["IsLatest"] and marker["LastModified"] > version["LastModified"]))


def is_marker(listed: Mapping[str, Any]) -> bool:
    return "Size" not in listed


def listed_version(listed: Mapping[str, Any]) -> str:
    """As uploads have it; empty for the marker of a bucket whose versioning is suspended, which has no version."""
    return version_of(listed["VersionId"], listed.get("ETag"))


@dataclass(frozen=True, slots=True, order=True)
class HeldRows:
    """So many `rows` of one version of an object in a table, brought by one batch."""

    uri: str
    version: str
    batch: str
    rows: int

    @property
    def place(self) -> "RowsPlace":
        return self.uri, self.version, self.batch


@dataclass(frozen=True, slots=True)
class Contest:
    """Of the uploads of a batch. `outdated` are older than what the table holds of their object: they bring nothing.
    The others have `ranks`, 0 for the latest of its object, and the latest that can be read wins; None if the route
    appends. `held` is what the table holds of their objects. To the winner the other versions give way, and its own
    rows if it is among those that are `reloaded`. What is reloaded and outdated has rows beside a later version, if the
    route appended before: these are `doubled`, and leave."""

    outdated: Set[Identity]
    ranks: Mapping[Identity, int] | None
    held: Mapping[str, Sequence[HeldRows]]
    reloaded: Set[Identity] = frozenset()
    doubled: Sequence[HeldRows] = ()

    def losers(self, committed: Iterable[Upload]) -> Mapping[Identity, Upload]:
        """Those of the committed uploads that are not the latest of their object, with that one."""
        if self.ranks is None:
            return {}
        best: dict[str, Upload] = {}
        for each in (committed := list(committed)):
            if self._is_latest(self.ranks, each, best.get(each.uri)):
                best[each.uri] = each
        return {each.identity: best[each.uri] for each in committed if best[each.uri].identity != each.identity}

    @staticmethod
    def _is_latest(ranks: Mapping[Identity, int], upload: Upload, other: Upload | None) -> bool:
        if other is None or ranks[upload.identity] < ranks[other.identity]:
            return True
        return ranks[upload.identity] == ranks[other.identity] and is_later(upload.sequencer, other.sequencer)

    def notes(self, losers: Mapping[Identity, Upload]) -> dict[str, bytes]:
        """What is to be written beside the outcomes: nothing, S3 knows the order."""
        return {}

    def gives_way(self, winners: Iterable[Upload]) -> list[HeldRows]:
        """What the table holds of the objects of these, and does not keep; and what was doubled."""
        gone = [held for each in winners for held in self.held.get(each.uri, ()) if self._gives_way(held, each)]
        return [*gone, *(each for each in self.doubled if each not in gone)]

    def _gives_way(self, held: HeldRows, winner: Upload) -> bool:
        if held.version == winner.version:
            return winner.identity in self.reloaded
        return self.ranks is not None


def contested(uploads: Iterable[Upload], held: Iterable[HeldRows]) -> dict[str, tuple[Upload, Set[str]]]:
    """The objects of which there is more than one version here, by URI: an upload of each, and all of its versions.
    `held` is what the table holds of the objects of these uploads."""
    some: dict[str, Upload] = {}
    versions: dict[str, set[str]] = defaultdict(set)
    for upload in uploads:
        some[upload.uri] = upload
        versions[upload.uri].add(upload.version)
    for each in held:
        versions[each.uri].add(each.version)
    return {uri: (some[uri], there) for uri, there in versions.items() if len(there) > 1}


def by_object(held: Iterable[HeldRows]) -> Mapping[str, Sequence[HeldRows]]:
    there: dict[str, list[HeldRows]] = defaultdict(list)
    for rows in held:
        there[rows.uri].append(rows)
    return dict(there)


def contest(
    uploads: Sequence[Upload],
    held: Iterable[HeldRows],
    listed: Mapping[str, Collection[str]],
    reloaded: Set[Identity] = frozenset(),
) -> Contest:
    """`listed` are the versions of each contested object as S3 lists them, the latest first, as far as those that there
    are here."""
    there = by_object(held)
    outdated: set[Identity] = set()
    ranks: dict[Identity, int] = {}
    for upload in uploads:
        places = {version: place for place, version in enumerate(listed.get(upload.uri, ()))}
        latest = min((places.get(each.version, len(places)) for each in there.get(upload.uri, ())), default=len(places))
        place = places.get(upload.version, UNLISTED)
        here = {each.version for each in there.get(upload.uri, ())}
        if place > latest or (upload.identity in reloaded and upload.version not in here and place > 0):
            outdated.add(upload.identity)
        else:
            ranks[upload.identity] = place
    doubled = [
        held
        for each in uploads
        if each.identity in outdated & reloaded
        for held in there.get(each.uri, ())
        if held.version == each.version
    ]
    return Contest(outdated, ranks, there, reloaded, doubled)
