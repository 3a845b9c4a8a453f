"""Which objects of a page have landed in several versions, and which rows have left the table for later ones.

The claims of one object are together, so each object costs a query; notices and batches are read together, and only of
objects with several claims. What landed before the ledger's memory is not seen: its claim has expired.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
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


def versions_of(
    places: Iterable[ObjectPlace], ports: Ports
) -> tuple[Mapping[ObjectPlace, Mapping[str, int]], Mapping[RowsPlace, Left]]:
    """Of the first `MOST_ASKED` of these objects, how many versions have landed, by table; and which rows have left a
    table, as far as the batches say it that took their place."""
    found = _claims_of(places, ports)
    left = left_the_table(found, ports)
    return {place: _counted(place, claims, left) for place, claims in found.items()}, left


def left_the_table(
    found: Mapping[ObjectPlace, Sequence[tuple[Claim, Batch | None]]], ports: Ports
) -> Mapping[RowsPlace, Left]:
    """Which rows of these objects have left a table. `found` are their claims, each with the batch of its notice."""
    batches: dict[str, Batch] = {}
    landed: dict[tuple[str, str], list[tuple[Claim, Batch]]] = {}
    brought: dict[tuple[str, str], str] = {}
    for place, claims in found.items():
        uri = f"s3://{'/'.join(place)}"
        for claim, batch in claims:
            if batch and has_landed(claim, batch):
                brought[batch.id, uri] = claim.version
                batches |= {batch.id: batch} if batch.tally.replaced else {}
                landed.setdefault((uri, batch.table), []).append((claim, batch))
    left: dict[RowsPlace, Left] = {}
    latest = sorted(batches.values(), key=lambda each: each.ended_at, reverse=True)
    ended = {each.id: each.ended_at for each in latest}
    asked = deque(each.id for each in latest)
    for _ in range(MOST_REPLACING):
        if not asked:
            break
        outcomes = published_outcomes(of := asked.popleft(), ports.work)
        for rows in outcomes.replaced if outcomes else ():
            if winner := brought.get((of, rows.uri)):
                assert outcomes
                left.setdefault(rows.place, Left(winner, ended.get(of, 0), rows.uri in outcomes.deleted))
                # what was loaded once more had perhaps taken the place of others, the first time
                if rows.version == winner and rows.batch not in ended:
                    brought[rows.batch, rows.uri] = rows.version
                    ended[rows.batch] = 0
                    asked.append(rows.batch)
    for (uri, _), mine in landed.items():
        # the batch that took their place need not be known any more
        # those of which the batches have said nothing
        alone = [each for each in mine if keeps_latest_only(each[1]) and (uri, each[0].version, each[1].id) not in left]
        if not alone:
            continue
        last, took = max(alone, key=lambda each: each[1].ended_at)
        for claim, batch in mine:
            if claim is not last and (batch.ended_at < took.ended_at or keeps_latest_only(batch)):
                left.setdefault((uri, claim.version, batch.id), Left(last.version, 0, deleted=False))
    return left


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


def _counted(
    place: ObjectPlace, claims: Iterable[tuple[Claim, Batch | None]], left: Mapping[RowsPlace, Left]
) -> Mapping[str, int]:
    """By table, without those whose rows have left it."""
    uri = f"s3://{'/'.join(place)}"
    there = (each for each in claims if each[1] is None or (uri, each[0].version, each[1].id) not in left)
    return Counter(table for claim, batch in there for table in landed_in(claim, batch))
