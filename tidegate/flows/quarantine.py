"""Quarantine: what is in it now, found through the leftovers of the batches that put it there.

The outcomes of a batch are the truth about what it quarantined and why: its claims hold only the beginning of an error.
An upload has left quarantine if another notice has taken its claim over, or if the claim has expired.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tidegate.core.batches import Batch
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import Ending
from tidegate.core.uploads import Upload
from tidegate.flows.outcomes import published_outcomes
from tidegate.flows.ports import Ports

CLAIMS_AT_ONCE = 1_000
"""How many claims are read before their uploads are yielded: a whole batch may be in quarantine."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which uploads are meant. `since` and `until` are when their batches ended, in epoch seconds, `until` excluded.
    `key` is a pattern of keys with `*`, `?` and `[...]`. `error` is a part of the error, in any case."""

    since: int = 0
    until: int | None = None
    key: str = ""
    error: str = ""

    def covers(self, ended_at: int) -> bool:
        return self.since <= ended_at and (self.until is None or ended_at < self.until)

    def has(self, ending: Ending) -> bool:
        return (not self.key or fnmatchcase(ending.key, self.key)) and self.error.lower() in ending.error.lower()


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One upload in quarantine. `notice` owns it. `error` says why, `where` where in the file that is. It may quote
    the file, and is empty if nobody knows. `attempt` is the last attempt of its batch, `ended_at` when
    the batch was settled (epoch seconds)."""

    route: str
    batch: str
    attempt: int
    ended_at: int
    notice: str
    bucket: str
    key: str
    version: str
    error: str
    where: str = ""


def quarantined(route: str, selection: Selection, ports: Ports) -> Iterator[Quarantined]:
    """What the route's batches have quarantined, and nobody has taken over since; the oldest batch first."""
    for left in ports.ledger.leftovers(route):
        if not left.quarantined or left.emptied or not selection.covers(left.ended_at):
            continue
        yield from _of_batch(route, left.batch, ports.ledger.batch(left.batch), left.ended_at, selection.has, ports)


def some_quarantined(route: str, begin: int, most: int, ports: Ports) -> Iterator[Quarantined]:
    """Of all that the route's batches have quarantined, `most` uploads from the one at `begin` on, and from the first
    one after the last: those that are in quarantine still. A `begin` beyond the last one begins anew as well."""
    lefts = [left for left in ports.ledger.leftovers(route) if left.quarantined and not left.emptied]
    total = sum(left.quarantined for left in lefts)
    place = begin % total if total > most else 0
    # twice, for what is after the last one; what is asked about ends before it would repeat itself
    asked = 0
    for left in (*lefts, *lefts):
        if asked >= min(most, total):
            return
        if place >= left.quarantined:
            place -= left.quarantined
            continue
        these = slice(place, place + min(most, total) - asked)
        asked, place = asked + min(left.quarantined, these.stop) - place, 0
        batch = ports.ledger.batch(left.batch)
        yield from _of_endings(route, left.batch, batch, left.ended_at, _endings(left.batch, ports)[these], ports)


def has_quarantined(batch_id: str, ports: Ports) -> bool | None:
    """Whether an upload of a batch that has ended is in quarantine. None if the batch's outcomes are missing in the
    work bucket: then nobody can tell."""
    outcomes = published_outcomes(batch_id, ports.work)
    if outcomes is None:
        return None
    endings = [each for each in outcomes.endings if each.outcome == Outcome.QUARANTINED]
    portions = (endings[start : start + CLAIMS_AT_ONCE] for start in range(0, len(endings), CLAIMS_AT_ONCE))
    return any(True for portion in portions for _ in _still_there(portion, ports))


def _of_batch(
    route: str,
    batch_id: str,
    batch: Batch | None,
    ended_at: int,
    wanted: Callable[[Ending], bool],
    ports: Ports,
) -> Iterator[Quarantined]:
    endings = [each for each in _endings(batch_id, ports) if wanted(each)]
    yield from _of_endings(route, batch_id, batch, ended_at, endings, ports)


def _of_endings(
    route: str, batch_id: str, batch: Batch | None, ended_at: int, endings: list[Ending], ports: Ports
) -> Iterator[Quarantined]:
    for start in range(0, len(endings), CLAIMS_AT_ONCE):
        for each in _still_there(endings[start : start + CLAIMS_AT_ONCE], ports):
            yield Quarantined(
                route=route,
                batch=batch_id,
                attempt=batch.attempt if batch else 0,
                ended_at=ended_at,
                notice=each.notice,
                bucket=each.bucket,
                key=each.key,
                version=each.version,
                error=each.error,
                where=each.where,
            )


def _endings(batch_id: str, ports: Ports) -> list[Ending]:
    outcomes = published_outcomes(batch_id, ports.work)
    found = outcomes.endings if outcomes else ()
    return [each for each in found if each.outcome == Outcome.QUARANTINED]


def _still_there(endings: list[Ending], ports: Ports) -> Iterator[Ending]:
    uploads = {each: Upload(each.bucket, each.key, each.version, size=0) for each in endings}
    claims = ports.ledger.claims_on(uploads.values())
    for each, upload in uploads.items():
        claim = claims.get(upload.identity)
        if claim and claim.notice == each.notice and claim.outcome == Outcome.QUARANTINED:
            yield each
