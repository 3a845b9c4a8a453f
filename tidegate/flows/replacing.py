"""Replace: in one commit the rows of an object's latest version come, and those of its earlier ones go.

    line                                     if the driver dies right after it     if a twin runs beside it
    1 note the table's version, read what    nothing has happened                  each looks for itself
      it holds of the objects
    2 ask S3 for the order of the versions   the same                              the same
    3 stage what is not outdated; on top,    branches that nobody publishes        each stages its own
      that what loses leaves the table
    4 publish both, on the condition that    the next attempt finds it             the table accepts one of them
      no rows have moved since line 1
    5 if some have: look again, and publish  as 4                                  as 4
      if they were none of these objects

So no version of the table has rows of two versions of an object. Whichever batch lands first, the other one finds its
rows at line 1, or is refused at line 4. If files were rewritten since line 1, the staged removal may name some that are
gone: then the attempt is over, and the next one stages anew. Other batches may mark rows of other objects meanwhile, by
position deletes: theirs and ours add up. A deletion vector takes the place of another one, and Spark may merge those of
a data file: there it is a rewriting.

What is reloaded (`flows.resend`) replaces its own rows in the same way, on a route that appends, too. There no order
of versions is asked for, and those of other versions stay.

On a route that skips the same bytes lines 1 to 5 find out which versions these are (`core.same_bytes`). No rows of
others leave. An upload whose bytes have rows ends as present: so it lands when it is sent again after these are gone.
Before its outcome is there to be published, it is noted which version has them: that one may expire before the next
upload of the same bytes. What is noted is true without the outcome, and each attempt notes it again.

A version that is quarantined or has vanished replaces nothing. Who switches a route to `replace` waits until its
batches have landed: an attempt that began before appends.

A deletion is a version without rows. If it lands when nothing of its object is in the table, it leaves no trace there.
So an earlier version, which may come later, asks S3 whether its object was deleted after it, in line 3
(`reading.fetch.deleted_since`). If it was not yet, the deletion's batch is published after line 1: line 4 refuses, and
line 5 finds it in the outcomes of that batch.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import SAME_BYTES, Outcome, Read
from tidegate.core.publication import Floor
from tidegate.core.replacing import Contest, HeldRows, RowsPlace, by_object, contest, contested
from tidegate.core.same_bytes import (
    SameBytes,
    decode_same_bytes,
    may_be_noted,
    same_bytes,
    same_bytes_name,
    with_noted,
)
from tidegate.core.uploads import Upload
from tidegate.flows.accounting import Ended, present
from tidegate.flows.outcomes import staged_outcomes
from tidegate.flows.ports import Work
from tidegate.flows.sink import Hopeless, SeenVersion, Sink, Staged, StagedIsGone

OUTDATED = Read(Outcome.SUPERSEDED, error="a later version of the object has landed")
NewestFirst = Callable[[Upload, Set[str]], Mapping[str, str]]
"""The versions of an upload's object as S3 lists them, the latest first, each with what tells its bytes from others
(`core.same_bytes`); as far as all of these that are there."""
LISTS_AT_ONCE = 10
"""As many as a client of botocore keeps connections."""


def not_asked(upload: Upload, versions: Set[str]) -> Mapping[str, str]:
    """For an attempt that replaces nothing."""
    raise AssertionError(f"the versions of {upload.uri} were asked for")


@dataclass(frozen=True)
class Replacement:
    """What a driver knows of the versions of its uploads' objects."""

    batch: str
    sink: Sink
    contest: Contest | SameBytes
    uris: frozenset[str]
    held: Sequence[HeldRows]
    seen: SeenVersion
    work: Work

    def taken(self, items: Sequence[OwnedUpload]) -> list[OwnedUpload]:
        """Those that are to be read."""
        return [each for each in items if each.upload.identity not in self.contest.outdated]

    def not_taken(self, upload: Upload) -> Read:
        """How one ends that is not to be read."""
        if isinstance(self.contest, Contest):
            return OUTDATED
        rows = self.contest.there[upload.identity]
        return present(rows.batch, f"{SAME_BYTES}{rows.version}")

    def _beaten(self, read: Read, winner: Upload) -> Read:
        """How one ends that was read, and gives way to another one of the batch."""
        if isinstance(self.contest, Contest):
            return replace(OUTDATED, deletion=read.deletion)
        return present(self.batch, f"{SAME_BYTES}{winner.version}")

    def _kept(self, item: OwnedUpload, read: Read) -> Read:
        """How it ends: what is reloaded, and gives nothing today, keeps its rows."""
        if not item.reloads or read.outcome is Outcome.COMMITTED:
            return read
        # by object: a schema that fits nothing has every file of a batch here
        there = [each for each in self.contest.held.get(item.upload.uri, ()) if each.version == item.upload.version]
        why = read.error or str(read.outcome)
        return replace(present(there[0].batch, why), where=read.where) if there else read

    def stage(self, read: Ended, staged: Staged) -> tuple[Ended, Staged, tuple[HeldRows, ...]]:
        """Stage what leaves the table for what was read. Returns the endings, what is staged, and what leaves."""
        read = [(item, self._kept(item, each)) for item, each in read]
        committed = [item.upload for item, each in read if each.outcome is Outcome.COMMITTED]
        losers = self.contest.losers(committed)
        winners = [each for each in committed if each.identity not in losers]
        leaves = self.contest.gives_way(winners)
        _note(self.contest.notes(losers), self.work)
        ended = [
            (item, self._beaten(each, losers[item.upload.identity]) if item.upload.identity in losers else each)
            for item, each in read
        ]
        gone = {each.place for each in leaves}
        gone |= {(each.uri, each.version, self.batch) for each in committed if each.identity in losers}
        if gone:
            lost = sum(each.rows for item, each in read if item.upload.identity in losers)
            both, left = self.sink.stage_removal(staged.id, gone)
            staged = replace(staged, id=both, rows=staged.rows - lost)
            if left != lost + sum(each.rows for each in leaves):  # to look is a question more
                rows = {(item.upload.uri, item.upload.version): each.rows for item, each in read}
                stays = {(*place, self.batch): rows[place] for each in winners if (place := (each.uri, each.version))}
                stays |= {each.place: each.rows for each in self.held if each.place not in gone}
                self._require_gone({uri for uri, _, _ in gone}, stays, both)
        return ended, staged, tuple(leaves)

    def _require_gone(self, uris: Set[str], stays: Mapping[RowsPlace, int], staged: int) -> None:
        """A column that was dropped and added again, or a setting of the session, may have left rows where they are.
        `stays` are the rows that come, and those that have to be there still."""
        there = self.sink.rows_of_objects(uris, staged)
        found = Counter[RowsPlace]()
        for each in there:
            found[each.place] += each.rows
        if short := [place for place, rows in stays.items() if place[0] in uris and found[place] < rows]:
            raise Hopeless(
                f"table {self.sink.table} cannot let go of rows that are replaced without those of {short[0][0]}"
            )
        left = [each for each in there if each.place not in stays]
        if left:
            raise Hopeless(
                f"table {self.sink.table} cannot let go of rows that are replaced, e.g. those of {left[0].uri}"
                f" ({left[0].version or 'without a version'}): was a lineage column changed, or is a WAP id set?"
            )

    def follow(self) -> SeenVersion:
        """The table as it is now, if it still holds the same of these objects. Raises StagedIsGone if not."""
        now = self.sink.position()
        later = self.sink.history(Floor(now.table_uuid, self.seen.version)).ancestors
        since = [each for each in later if each.id != self.seen.version]
        if len(since) == len(later) or any(each.rewrites for each in since):
            raise StagedIsGone(f"files of table {self.sink.table} were rewritten since its rows were looked for")
        if any(self._empties(batch, each.source) for each in since for batch in each.publishes):
            raise StagedIsGone(
                f"table {self.sink.table} has got a deletion of the same objects since, or an empty file"
            )
        head = later[0].id
        # others may append without end, and faster than a look takes
        moved = any(each.removes for each in since)
        moved = bool(self.uris) and (moved or self.sink.may_have_gained(self.uris, self.seen.version, head))
        if moved and list(self.sink.rows_of_objects(self.uris, head)) != list(self.held):
            raise StagedIsGone(f"table {self.sink.table} has got rows of the same objects since they were looked for")
        return SeenVersion(head, unmoved=True)

    def _empties(self, batch: str, staged: int) -> bool:
        """Whether that batch has a version of one of these objects without rows. True if nobody can tell any more."""
        if not self.uris:
            return False
        outcomes = staged_outcomes(batch, staged, self.work)
        return outcomes is None or not self.uris.isdisjoint({*outcomes.deleted, *outcomes.emptied})


def look_at_versions(
    batch: str, items: Sequence[OwnedUpload], sink: Sink, newest_first: NewestFirst, seen: int | None, work: Work
) -> Replacement:
    """Lines 1 and 2, at the version `seen` of the table, or as it is now. `items` are what the batch may bring."""
    sink.let_rows_go()
    version = sink.position().head if seen is None else seen
    assert version is not None, "a position is never before a table's first version"
    reloaded = frozenset(item.upload.identity for item in items if item.reloads)
    uploads = [item.upload for item in items if sink.replaces or sink.skips or item.reloads]
    uris = frozenset(each.uri for each in uploads)
    held = sink.rows_of_objects(uris, version) if uris else ()
    there = SeenVersion(version, unmoved=True)
    if not sink.replaces:
        objects = {item.upload.uri for item in items if item.reloads}
        if nulled := [each for each in held if not each.version and each.uri in objects]:
            raise Hopeless(
                f"table {sink.table} has {nulled[0].rows} rows of {nulled[0].uri} without a _source_version: whether a"
                " reload would double them cannot be told. Give them their version again, or delete them"
            )
    if not (sink.replaces or sink.skips):
        return Replacement(batch, sink, Contest(frozenset(), None, by_object(held), reloaded), uris, held, there, work)
    asked = contested(uploads, held)
    # a later version may have left no row
    has = {(each.uri, each.version) for each in held}
    for each in uploads if sink.replaces else ():
        if each.identity in reloaded and (each.uri, each.version) not in has:
            asked.setdefault(each.uri, (each, {each.version}))
    with ThreadPoolExecutor(LISTS_AT_ONCE, thread_name_prefix="versions") as pool:
        listed = dict(zip(asked, pool.map(lambda each: newest_first(*each), asked.values()), strict=True))
        if sink.replaces:
            return Replacement(batch, sink, contest(uploads, held, listed, reloaded), uris, held, there, work)
        asked_of = may_be_noted(uploads, held, listed)
        bodies = pool.map(lambda each: work.get(same_bytes_name(*each)), asked_of)
        noted = {each: decode_same_bytes(body) for each, body in zip(asked_of, bodies, strict=True) if body}
    gone = {(uri, version) for (uri, _), version in noted.items() if version not in listed[uri]}
    same = same_bytes(uploads, held, with_noted(listed, noted), reloaded, gone)
    return Replacement(batch, sink, same, uris, held, there, work)


def _note(files: Mapping[str, bytes], work: Work) -> None:
    with ThreadPoolExecutor(LISTS_AT_ONCE, thread_name_prefix="versions") as pool:
        list(pool.map(lambda each: work.put(*each), files.items()))
