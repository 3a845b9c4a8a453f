"""Which uploads bring no rows because their bytes are those of the version before (`on_overwrite = "skip same bytes"`).

Of versions with the same bytes that follow each other in S3's list one has rows, whichever comes first. S3 tells their
bytes apart by ETag and size. The ETags of the same bytes differ if they were uploaded in other parts, or are encrypted
with a key of KMS or of the customer (https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html): these land. So
does what lands after the version before has left the list.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from tidegate.core.replacing import HeldRows, Identity, by_object, is_marker
from tidegate.core.uploads import Upload


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
) -> SameBytes:
    """`listed` are the versions of each object of which there are several, with their bytes, as S3 lists them."""
    rows_of = by_object(held)
    runs = {uri: dict(_runs(versions)) for uri, versions in listed.items()}
    there: dict[Identity, HeldRows] = {}
    for upload in uploads:
        rows = rows_of.get(upload.uri, ())
        if upload.identity in reloaded and any(each.version == upload.version for each in rows):
            continue
        run = runs.get(upload.uri, {})
        same = next((each for each in rows if _are_same(run, upload.version, each.version)), None)
        if same:
            there[upload.identity] = same
    again = {(each.uri, each.version) for each in uploads if each.identity in reloaded}
    return SameBytes(runs, rows_of, again, there)


def _are_same(runs: Mapping[str, int], version: str, other: str) -> bool:
    return version == other or (version in runs and runs[version] == runs.get(other))


def _runs(listed: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    number, before = 0, ""
    for version, content in listed.items():
        number += not content or content != before
        before = content
        yield version, number
