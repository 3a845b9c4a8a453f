"""Checks each notice that was published: it is as old as its uploads, or as the claims that it rests on, and it leaves
out nothing that was known of an upload. And each claim: it says what its notice said, and lives as long as it should.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

from simulation.world.s3 import SUSPENDED, Version
from simulation.world.sent import SentNotice, SentUpload, claims_pk
from simulation.world.world import World

HOUR, DAY = 3_600, 86_400
CLAIMS = 60 * DAY
"""The default of the setting `retention.claims`."""
SLOWEST = {"again": 3 * HOUR}
"""How long whoever has read claims may take until the topic has the notice: a function, with its faults."""
A_COMMAND = 2 * DAY
"""The same for a person's command, which waits for a job and keeps a pace."""
LONGEST_OPEN = 30 * HOUR
FROM_A_LISTING = ("audit-", "backfill-")
"""The origins of what was found in a listing, which has no sequencers."""


def missent(world: World) -> Iterator[str]:
    puts: dict[tuple[str, str, str], list[Version]] = defaultdict(list)
    for put in world.history:
        version = put.version_id if put.version_id not in ("", SUSPENDED) else f"etag:{put.etag}"
        puts[put.bucket, put.key, version].append(put)
    parts = _Parts(world)
    for notice in world.sent_notices:
        yield from (f"notice {notice.id} of {notice.origin}: {wrong}" for wrong in _wrong(world, notice, puts, parts))
    yield from _claims(world)
    yield from _records(world)


def _wrong(
    world: World, notice: SentNotice, puts: Mapping[tuple[str, str, str], list[Version]], parts: "_Parts"
) -> Iterator[str]:
    earliest, latest = _time(world, notice, puts, parts)
    clocks = 2 + max(map(abs, world.knobs.skew))
    if not earliest - clocks <= notice.at <= latest + clocks:
        yield f"it says that it is of {notice.at}, and is of {earliest:.0f} to {latest:.0f}"
    for each in notice.uploads:
        there = puts.get((notice.bucket, each.key, each.version), [])
        if not there:
            yield f"nobody has put {each.key} ({each.version})"
        if each.size not in {0, *(len(put.body) for put in there)}:
            yield f"{each.key} has {each.size} bytes in it"
        if each.sequencer and each.sequencer not in {put.sequencer for put in there}:
            yield f"{each.key} has the sequencer {each.sequencer} in it, which S3 never gave"
        if not notice.origin.startswith(FROM_A_LISTING):
            yield from _left_out(notice, each, parts)
        ended, since = each.owned.get("outcome"), each.owned.get("claimed_at", 0) - clocks
        # what had vanished and is listed was put again, also before a rebuild made its claim anew
        judged = notice.origin.startswith("audit-") and ended not in (None, "vanished")
        if judged and all(put.at < since for put in there):
            yield f"{each.key} is in it, which has ended as {ended} and was not put again"


def _time(
    world: World, notice: SentNotice, puts: Mapping[tuple[str, str, str], list[Version]], parts: "_Parts"
) -> tuple[float, float]:
    """The earliest and the latest time (epoch seconds) that the notice may be of."""
    if notice.origin == "s3":
        of = [puts.get((notice.bucket, each.key, each.version), []) for each in notice.uploads]
        when = [
            [put.at for put in there if put.sequencer == each.sequencer] or [put.at for put in there] or [0.0]
            for each, there in zip(notice.uploads, of, strict=True)
        ]
        # of several puts of the same bytes one stays, and nobody tells which of them was first
        return min(map(min, when)), min(map(max, when))
    if notice.origin == "rebuild":
        written = [parts.written(notice, each) for each in notice.uploads]
        return min(map(min, written)) - (LONGEST_OPEN if not world.knobs.horizon else CLAIMS), min(map(max, written))
    kind = notice.origin.partition("-")[0]
    return notice.when - SLOWEST.get(kind, A_COMMAND), notice.when


def _left_out(notice: SentNotice, each: SentUpload, parts: "_Parts") -> Iterator[str]:
    """What the owner's claim and its part know of the upload, and the notice does not."""
    if notice.origin == "s3" and not each.sequencer:
        yield f"{each.key} has no sequencer in it"
    known = str(each.owned.get("sequencer", ""))
    if known and _padded(each.sequencer) < _padded(known):
        yield f"{each.key} has the sequencer {each.sequencer!r} in it, and its claim {known!r}"
    listed = parts.listed(each.part).get((each.key, each.version)) if notice.origin.startswith("resend") else None
    # a batch that had landed knows more than the notice of a listing that took its uploads over
    if listed and listed not in ((each.size, each.sequencer), (each.size, "")):
        yield f"{each.key} has (size, sequencer) {(each.size, each.sequencer)} in it, and in its part {listed}"


def _padded(sequencer: str) -> str:
    return sequencer.lower().ljust(40, "0")


class _Parts:
    """The parts in the work bucket, read once each, and only if somebody asks."""

    def __init__(self, world: World) -> None:
        self._there = world.s3.buckets["work"].current
        self._first_at = world.s3.buckets["work"].first_at
        self._read: dict[str, tuple[str, dict[tuple[str, str], tuple[int, str]]]] = {}

    def listed(self, name: str) -> Mapping[tuple[str, str], tuple[int, str]]:
        """(size, sequencer) of each (key, version) in this part."""
        return self._of(name)[1] if name in self._there else {}

    def _of(self, name: str) -> tuple[str, dict[tuple[str, str], tuple[int, str]]]:
        if name not in self._read:
            header, *lines = gzip.decompress(self._there[name].body).decode().splitlines()
            found = {(key, version): (size, sequencer) for key, version, size, sequencer in map(json.loads, lines)}
            self._read[name] = json.loads(header)["bucket"], found
        return self._read[name]

    def written(self, notice: SentNotice, upload: SentUpload) -> list[float]:
        """When the parts were written that had the upload by then."""
        return [
            self._first_at[name]
            for name in self._there
            if "/parts/" in name and self._first_at[name] <= notice.when
            if self._of(name)[0] == notice.bucket and (upload.key, upload.version) in self._of(name)[1]
        ] or [0.0]


def _claims(world: World) -> Iterator[str]:
    """A claim has its upload's sequencer, and lives for `claims` from when it was put or came again."""
    said = {
        (claims_pk(notice.bucket, each.key), each.version, notice.id): each.sequencer
        for notice in world.sent_notices
        for each in notice.uploads
    }
    now = world.kernel.now + max(map(abs, world.knobs.skew))
    # it came again to a function whose clock is slower than that of the one that put it
    slower = max(world.knobs.skew) - min(world.knobs.skew)
    for (_, pk, sk), claim in world.dynamodb.items.on("o#"):
        sequencer = said.get((pk, sk, claim["notice"]))
        if sequencer is not None and claim.get("sequencer", "") != sequencer:
            yield f"claims: that on {sk} has {claim.get('sequencer')!r}, and its notice {sequencer!r}"
        # what has expired by then may have been aged by a scenario
        if "expires_at" not in claim:
            yield f"claims: that on {sk} lives for ever"
        elif (
            claim["expires_at"] > now
            and not claim["claimed_at"] + CLAIMS - slower <= claim["expires_at"] <= now + CLAIMS
        ):
            yield f"claims: that on {sk} of {claim['claimed_at']} lives until {claim['expires_at']}"


def _records(world: World) -> Iterator[str]:
    """A notice outlives its claims, and a batch its notices, each by a day (docs/architecture.md)."""
    now = world.kernel.now + max(map(abs, world.knobs.skew))
    for begin, since, longer in (("n#", "decided_at", DAY), ("b#", "ended_at", 2 * DAY)):
        for (_, pk, _), item in world.dynamodb.items.on(begin):
            of, until = item.get(since, 0), item.get("expires_at", 0)
            if of and until > now and not of + CLAIMS + longer <= until <= now + CLAIMS + 3 * DAY:
                yield f"records: {pk} of {of} lives until {until}"
