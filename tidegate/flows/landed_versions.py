"""Which objects of a page have landed in several versions, and which rows have left the table for later ones.

The claims of one object are together, so each object costs a query; notices and batches are read together, and only of
objects with several claims. What landed before the ledger's memory is not seen: its claim has expired.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from tidegate.core.batches import Batch
from tidegate.core.claims import Claim, has_landed
from tidegate.core.landed_versions import landed_in
from tidegate.core.replacing import RowsPlace
from tidegate.core.routes import decode_dataset
from tidegate.flows.outcomes import published_outcomes
from tidegate.flows.ports import Ports

MOST_ASKED = 100
"""Objects of a page that are asked about: each costs a query of the ledger, one after the other."""

MOST_REPLACING = 20
"""Batches of a page that took the place of rows and are read, the latest first: two reads of the work bucket each."""

ObjectPlace = tuple[str, str]
"""Bucket and key."""


def keeps_latest_only(batch: Batch) -> bool:
    """Whether its route replaces: of an object the latest version has rows, however many have landed."""
    return bool(batch.dataset) and decode_dataset(batch.dataset).replaces


@dataclass(frozen=True, slots=True)
class Left:
    """Rows have left the table `at` (epoch seconds, 0 if that is not known) for those of `version` of their object, or
    because that version is its deletion."""

    version: str
    at: int
    deleted: bool


def left_the_table(places: Iterable[ObjectPlace], ports: Ports) -> Mapping[RowsPlace, Left]:
    """Of the first `MOST_ASKED` of these objects, which rows have left a table, as far as the batches say it that took
    their place."""
    batches: dict[str, Batch] = {}
    winners: dict[tuple[str, str], str] = {}
    landed: dict[tuple[str, str], list[tuple[Claim, Batch]]] = {}
    for place, claims in _claims_of(places, ports).items():
        uri = f"s3://{'/'.join(place)}"
        for claim, batch in claims:
            if batch and has_landed(claim, batch) and keeps_latest_only(batch):
                landed.setdefault((uri, batch.table), []).append((claim, batch))
                winners[batch.id, uri] = claim.version
                batches |= {batch.id: batch} if batch.tally.replaced else {}
    left: dict[RowsPlace, Left] = {}
    for batch in sorted(batches.values(), key=lambda each: each.ended_at, reverse=True)[:MOST_REPLACING]:
        outcomes = published_outcomes(batch.id, ports.work)
        if outcomes is None:
            continue
        for each in outcomes.replaced:
            if winner := winners.get((batch.id, each.uri)):
                left.setdefault(each.place, Left(winner, batch.ended_at, each.uri in outcomes.deleted))
    for (uri, _), found in landed.items():
        # the batch that took their place need not own a claim any more, if what it brought was reloaded since
        last, _ = max(found, key=lambda each: each[1].ended_at)
        for claim, batch in found:
            if claim is not last:
                left.setdefault((uri, claim.version, batch.id), Left(last.version, 0, deleted=False))
    return left


def landed_versions(places: Iterable[ObjectPlace], ports: Ports) -> Mapping[ObjectPlace, Mapping[str, int]]:
    """Of the first `MOST_ASKED` of these objects, how many versions have landed, by table."""
    return {place: _counted(claims) for place, claims in _claims_of(places, ports).items()}


def _claims_of(places: Iterable[ObjectPlace], ports: Ports) -> Mapping[ObjectPlace, list[tuple[Claim, Batch | None]]]:
    """Of the first `MOST_ASKED` of these objects their claims, with their batches if an object has several."""
    asked = islice(dict.fromkeys(places), MOST_ASKED)
    found = {place: ports.ledger.claims(*place) for place in asked}
    several = [claim for claims in found.values() if len(claims) > 1 for claim in claims]
    owners = ports.ledger.owners(several) if several else {}
    return {
        place: [(claim, owners[claim][1] if claim in owners else None) for claim in claims]
        for place, claims in found.items()
    }


def _counted(claims: Iterable[tuple[Claim, Batch | None]]) -> Mapping[str, int]:
    """By table, without those that had landed before a version that has taken the place of all."""
    landed = [(claim, batch, table) for claim, batch in claims for table in landed_in(claim, batch)]
    since: dict[str, int] = {}
    for claim, batch, table in landed:
        if batch and keeps_latest_only(batch):
            since[table] = max(since.get(table, 0), claim.claimed_at)
    return Counter(table for claim, _, table in landed if claim.claimed_at >= since.get(table, 0))
