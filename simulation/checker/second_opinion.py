"""A second check of a table, from this definition alone. It shares no code with the oracle.

**Names.** A row names the upload that it is from by uri and version. The uri is `s3://<bucket>/<key>`. The version is
the version id that S3 gave the upload. If S3 gave none, or "null", it is `etag:<etag>`: "null" is what every upload to
a bucket with suspended versioning is called, so it tells none from another. Only the same bytes, put again under one
key without a version id, have the same name. The order of such puts is that of their numbers.

**Files.** A file is lines of JSON. A newline ends a line, and the last line may go without. Each line is an object with
one column, `id`, whose value is an integer. If any line is something else, or blank, the whole file is bad. A file
without a line is good and has no rows. Rows count from 0.

If bad rows are set aside, a line that is something else, or blank, is a row, too: its value is its text, and it is in
a table of its own. Then the file is bad only if it has such lines and no other.

**Whole.** If any row of a name is there, all rows of its file are there, with their values, and no other row has that
name. Of a bad file no row is there. What is not so is *torn*.

**Once.** No row number of a name is there twice, whoever put it and however often. What is not so is *repeated*. The
copies may also be torn: two of one row, and none of another.

**There.** An upload was heard if a notification of it reached the queue at least once, or if an audit had to find it:
its bucket was watched when it was put, and it is there in the end. A put with a version id of its own stays for good.
Any other put is there if its key was neither put nor deleted later. Of the puts with one name, the last that was heard
decides. If nothing excuses that one, rows of the name are there; if none is, the name is *lost*. An earlier put of the
name does not count, because the last one may have been taken in its place. A later one that was not heard does not
count either, because nothing was taken in its place. So a name of which nothing was heard is never lost: its rows may
be missing. They may also be there, because an audit may find more than it had to.

**Excuses.** A put is excused, and its rows may be missing,

- if its file is bad, or has no rows;
- if S3 refused to hand it out at some time, even if it hands out the same bytes later, from another put; but where
  somebody releases whatever S3 hands out again, only if S3 refused it to the end, or if a later version of the object
  has landed;
- if it was given up or forgotten, that very put: its sequencer says so. Where somebody resends whatever was given up,
  nothing is given up. So may be what was announced first when the ledger no longer remembers, and now waits for a
  person;
- if it has no version id of its own, and could not be read at every moment from its put to the end. Such an upload is
  read as what its key holds, and only while that has its ETag. So the excuse holds if a later put under the key has
  another ETag, or is one that S3 refuses to hand out; or if the key was deleted later. It holds even if the same bytes
  came back. Versioning that was turned on meanwhile changes nothing in that: the key holds the new version, or nothing.
  A deletion at the very moment of the put counts as later, because nobody can tell.

A version with an id of its own is not overwritten, and a deletion without a version only hides it.

An excuse is for being missing. Rows that are there are whole and once, excused or not.

**One version.** In a bucket where the later version of an object replaces the earlier ones, a put is excused, too, if
rows of a later put under its key are there under another name, or its own bytes under the name of their ETag: such an
upload is read as what the key holds. So is one that came before a deletion of its object, if
deletions count in its bucket. In a bucket where the same bytes are skipped a put is excused if rows of a neighbour with
its bytes are there: no put with other bytes came between.

**Nobody's.** Rows whose name no put has are *foreign*, and nothing else is said of them.
"""

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import takewhile
from types import MappingProxyType

Name = tuple[str, str]
"""(uri, version) in a row's lineage."""


@dataclass(frozen=True)
class ObjectPut:
    """One upload. `version_id` is empty if the bucket had no versioning at that moment, "null" if it was suspended."""

    number: int
    at: float
    bucket: str
    key: str
    version_id: str
    etag: str
    body: bytes
    sequencer: str

    @property
    def has_version(self) -> bool:
        return self.version_id not in ("", "null")

    @property
    def name(self) -> Name:
        return f"s3://{self.bucket}/{self.key}", self.version_id if self.has_version else f"etag:{self.etag}"


@dataclass(frozen=True)
class ObjectRemoval:
    """A deletion that names no version."""

    at: float
    bucket: str
    key: str


@dataclass(frozen=True)
class FinalRow:
    """One row of the final table. `number` is its place in the file, `id` its value."""

    uri: str
    version: str
    number: int
    id: int | str


@dataclass(frozen=True)
class Opinion:
    """The errors in the table, by name. `Opinion()` has none."""

    repeated: set[Name] = field(default_factory=set)
    lost: set[Name] = field(default_factory=set)
    torn: set[Name] = field(default_factory=set)
    foreign: set[Name] = field(default_factory=set)


def second_opinion(
    puts: Sequence[ObjectPut],
    removes: Sequence[ObjectRemoval],
    heard: Mapping[int, int],
    rows: Sequence[FinalRow],
    given_up: Set[tuple[str, str, str]],
    unreadable: Set[int],
    watched: Mapping[str, float] = MappingProxyType({}),
    *,
    new_again: Set[Name] = frozenset(),
    sets_aside: bool = False,
    lands: Callable[[object], bool] = lambda _: True,
    replaces: Set[str] = frozenset(),
    skips: Set[str] = frozenset(),
    deleted: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> Opinion:
    """Judge a table; with `sets_aside`, its rows and those of the table of rejected rows together. `lands`: which
    values it is to have. `watched`: since when an audit watches each bucket. In the buckets `replaces` a later
    version replaces the earlier ones, in the buckets `skips` a version with the bytes of its neighbour has no rows.
    `deleted`: the last deletion of each object, by its number among the puts, where deletions count. `new_again`:
    these came once more after they were forgotten. Raises ValueError for a history that contradicts itself."""
    _refuse_contradictions(puts, heard)
    of_name: dict[Name, list[ObjectPut]] = {}
    of_key: dict[tuple[str, str], list[ObjectPut]] = {}
    for put in sorted(puts, key=lambda put: put.number):
        of_name.setdefault(put.name, []).append(put)
        of_key.setdefault((put.bucket, put.key), []).append(put)
    removed: dict[tuple[str, str], list[ObjectRemoval]] = {}
    for remove in removes:
        removed.setdefault((remove.bucket, remove.key), []).append(remove)
    found: dict[Name, list[FinalRow]] = {}
    for row in rows:
        found.setdefault((row.uri, row.version), []).append(row)

    def excused(put: ObjectPut) -> bool:
        if put.number in unreadable or (put.bucket, put.key, put.sequencer) in given_up:
            return True
        if put.number < deleted.get((put.bucket, put.key), 0):
            return True
        if put.bucket in replaces and any(
            other.name != put.name and other.name in found
            for other in of_key[put.bucket, put.key]
            if other.number > put.number or (other.etag == put.etag and not other.has_version)
        ):
            return True
        if put.bucket in skips and any(other.name in found for other in neighbours(put)):
            return True
        if put.has_version:
            return False
        for other in of_key[put.bucket, put.key]:
            if other.number > put.number and (other.etag != put.etag or other.number in unreadable):
                return True
        return any(remove.at >= put.at for remove in removed.get((put.bucket, put.key), []))

    def neighbours(put: ObjectPut) -> list[ObjectPut]:
        """The puts before and after it, as far as their bytes are the same. A put of the version `null` has no place of
        its own among the others."""
        nulls = [each for each in of_key[put.bucket, put.key] if each.version_id == "null" and each.etag == put.etag]
        if put.version_id == "null":
            return [each for each in of_key[put.bucket, put.key] if each.version_id and each.etag == put.etag]
        line = [each for each in of_key[put.bucket, put.key] if each.has_version]
        place = line.index(put)
        before = takewhile(lambda each: each.etag == put.etag, reversed(line[:place]))
        return [*nulls, *before, *takewhile(lambda each: each.etag == put.etag, line[place + 1 :])]

    def to_be_found(put: ObjectPut) -> bool:
        if put.bucket not in watched or put.at < watched[put.bucket]:
            return False
        if put.has_version:
            return True
        gone = any(remove.at >= put.at for remove in removed.get((put.bucket, put.key), []))
        return not gone and of_key[put.bucket, put.key][-1] is put

    opinion = Opinion()
    for name, same in of_name.items():
        ids = read(same[0].body, sets_aside=sets_aside)
        there = found.get(name, [])
        if len({row.number for row in there}) < len(there) and name not in new_again:
            opinion.repeated.add(name)
        expected = {(number, value) for number, value in enumerate(ids or ()) if lands(value)}
        if there and {(row.number, row.id) for row in there} != expected:
            opinion.torn.add(name)
        told = [put for put in same if heard.get(put.number, 0) > 0 or to_be_found(put)]
        if not there and expected and told and not excused(told[-1]):
            opinion.lost.add(name)
    opinion.foreign.update(found.keys() - of_name.keys())
    return opinion


def read(body: bytes, *, sets_aside: bool = False) -> list[int | str] | None:
    """The values of a file's rows in their order; None if the file is bad."""
    lines = body.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    values = [_value(line) for line in lines]
    bad = values.count(None)
    if bad and (not sets_aside or bad == len(values)):
        return None
    return [
        line.decode("utf-8", "replace") if value is None else value for value, line in zip(values, lines, strict=True)
    ]


def _value(line: bytes) -> int | None:
    """The id of a line; None if it is something else."""
    try:
        value = json.loads(line.decode(), object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return None
    # True is an int to Python, and none to JSON.
    if not isinstance(value, dict) or list(value) != ["id"] or type(value["id"]) is not int:
        return None
    return int(value["id"])


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return dict(pairs)


def _refuse_contradictions(puts: Sequence[ObjectPut], heard: Mapping[int, int]) -> None:
    numbers = {put.number for put in puts}
    if len(numbers) < len(puts):
        raise ValueError("two puts have the same number")
    if unknown := {number for number, times in heard.items() if times > 0} - numbers:
        raise ValueError(f"heard of puts that never were: {sorted(unknown)}")
    bodies: dict[Name, bytes] = {}
    for put in puts:
        if put.has_version and put.name in bodies:
            raise ValueError(f"two puts have the same version: {put.name}")
        if bodies.setdefault(put.name, put.body) != put.body:
            raise ValueError(f"two contents have the same name: {put.name}")
