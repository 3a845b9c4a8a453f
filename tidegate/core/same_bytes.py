"""Which uploads bring no rows because their bytes are those of the version before (`on_overwrite = "skip same bytes"`).

Of versions with the same bytes that follow each other in S3's list one has rows, whichever comes first. S3 tells their
bytes apart by ETag and size. The ETags of the same bytes differ if they were uploaded in other parts, or are encrypted
with a key of KMS or of the customer (https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html): these land.

The version that has the rows expires before those that came after it. So whoever brings no rows notes which version
has them:

    same-bytes/<hash of URI and version>.json   this version has the bytes of that one, and S3 listed both

That stays true, whatever becomes of the rows. In a later list the version that is gone has its place behind this one.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tidegate.core.replacing import HeldRows, Identity, by_object, is_marker
from tidegate.core.uploads import ETAG_PREFIX, Upload
from tidegate.core.versions import check_version

VERSION = 1
MOST_ASKED = 10
"""Of how many versions of an object, beside those of a batch, its job asks which ones have their rows: of the latest,
and of those that will expire first. The others have the same answer, or none."""


def same_bytes_name(uri: str, version: str) -> str:
    """The file that says which version has the rows of this one."""
    place = hashlib.sha256(f"{uri}\0{version}".encode()).hexdigest()
    return f"same-bytes/{place[:40]}.json"


def decode_same_bytes(body: bytes) -> str:
    """The version that had the rows. Raises Rejected if newer code wrote it."""
    data = json.loads(body)
    check_version(data["v"], "a file of same-bytes/", VERSION)
    return str(data["rows_of"])


def may_be_noted(
    uploads: Iterable[Upload], held: Iterable[HeldRows], listed: Mapping[str, Mapping[str, str]]
) -> list[tuple[str, str]]:
    """The versions, by URI, whose bytes may have rows of a version that is not listed any more: of each object that has
    such rows the uploads, and those that are listed beside one with the same bytes."""
    rows_of = by_object(held)
    mine: dict[str, set[str]] = defaultdict(set)
    for each in uploads:
        # without a list there is one version here, and no question which of several has the rows
        here = listed.get(each.uri)
        if here is not None and any(rows.version not in here for rows in rows_of.get(each.uri, ())):
            mine[each.uri].add(each.version)
    found: list[tuple[str, str]] = []
    for uri, versions in mine.items():
        there = dict(_runs(listed.get(uri, {})))
        has = {each.version for each in rows_of[uri]} | versions
        near = {there[each] for each in versions if each in there}
        others = [version for version, run in there.items() if run in near and version not in has]
        half = MOST_ASKED // 2
        asked = others if len(others) <= MOST_ASKED else [*others[:half], *others[-half:]]
        found += ((uri, each) for each in (*sorted(versions), *asked))
    return found


def with_noted(
    listed: Mapping[str, Mapping[str, str]], noted: Mapping[tuple[str, str], str]
) -> dict[str, dict[str, str]]:
    """The lists with each version that is gone behind the one that brought no rows because of it."""
    lists: dict[str, dict[str, str]] = {}
    for uri, versions in listed.items():
        lists[uri] = {}
        for version, content in versions.items():
            lists[uri].setdefault(version, content)
            if (gone := noted.get((uri, version))) and gone not in versions:
                lists[uri].setdefault(gone, content)
    return lists


def listed_bytes(listed: Mapping[str, Any]) -> str:
    """What tells the bytes of a listed version from others; empty for a delete marker, which has none."""
    return "" if is_marker(listed) else f"{listed['ETag']}/{listed['Size']}"


@dataclass(frozen=True, slots=True)
class SameBytes:
    """`runs`: the listed versions of each object, by URI, the latest first, each with the number of its run of the same
    bytes. `held` is what the table holds of the objects. The rows of what is `reloaded` give way: URIs and versions."""

    runs: Mapping[str, dict[str, int]]
    held: Mapping[str, Sequence[HeldRows]]
    reloaded: Set[tuple[str, str]]
    there: Mapping[Identity, HeldRows]
    """The uploads whose bytes have rows in the table, with these rows."""

    @property
    def outdated(self) -> Set[Identity]:
        return self.there.keys()

    def losers(self, committed: Iterable[Upload]) -> Mapping[Identity, Upload]:
        """Those of the committed uploads whose bytes are those of an earlier one, with the earliest."""
        mine = {(each.uri, each.version): each for each in committed}
        losers: dict[Identity, Upload] = {}
        for uri, runs in self.runs.items():
            earliest: dict[int, Upload] = {}
            for version in reversed(runs):
                upload = mine.get((uri, version))
                if upload and earliest.setdefault(runs[version], upload) is not upload:
                    losers[upload.identity] = earliest[runs[version]]
        return losers

    def notes(self, losers: Mapping[Identity, Upload]) -> dict[str, bytes]:
        """The files that say which versions have the rows of the uploads that bring none. A version `null` has no file:
        it loses its place in S3's list to the next one."""
        rows_of = {identity: rows.version for identity, rows in self.there.items()}
        rows_of |= {identity: winner.version for identity, winner in losers.items()}
        files: dict[str, bytes] = {}
        for (bucket, key, version), other in rows_of.items():
            if version != other and not version.startswith(ETAG_PREFIX):
                uri = f"s3://{bucket}/{key}"
                content = {"v": VERSION, "uri": uri, "version": version, "rows_of": other}
                files[same_bytes_name(uri, version)] = json.dumps(content).encode()
        return files

    def gives_way(self, winners: Iterable[Upload]) -> list[HeldRows]:
        """The rows of what is reloaded, and has the bytes of one of these."""
        return [
            rows
            for each in winners
            for rows in self.held.get(each.uri, ())
            if (rows.uri, rows.version) in self.reloaded
            and _are_same(self.runs.get(each.uri, {}), each.version, rows.version)
        ]


def same_bytes(
    uploads: Sequence[Upload],
    held: Iterable[HeldRows],
    listed: Mapping[str, Mapping[str, str]],
    reloaded: Set[Identity] = frozenset(),
    gone: Set[tuple[str, str]] = frozenset(),
) -> SameBytes:
    """`listed` are the versions of each object of which there are several, with their bytes, as S3 lists them, and
    those that are `gone`, by URI. Nobody reads these any more: what is reloaded, and has their bytes, takes their
    place."""
    rows_of = by_object(held)
    runs = {uri: dict(_runs(versions)) for uri, versions in listed.items()}
    there: dict[Identity, HeldRows] = {}
    for upload in uploads:
        rows = rows_of.get(upload.uri, ())
        if upload.identity in reloaded and any(each.version == upload.version for each in rows):
            continue
        run = runs.get(upload.uri, {})
        same = next((each for each in rows if _are_same(run, upload.version, each.version)), None)
        if same and not (upload.identity in reloaded and (upload.uri, same.version) in gone):
            there[upload.identity] = same
    again = {(each.uri, each.version) for each in uploads if each.identity in reloaded}
    again |= {each for each in gone if each[0] in {uri for uri, _ in again}}
    return SameBytes(runs, rows_of, again, there)


def _are_same(runs: Mapping[str, int], version: str, other: str) -> bool:
    return version == other or (version in runs and runs[version] == runs.get(other))


def _runs(listed: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    number, before = 0, ""
    for version, content in listed.items():
        number += not content or content != before
        before = content
        yield version, number
