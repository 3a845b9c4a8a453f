"""Which objects of a page have landed in several versions.

The claims of one object are together, so each object costs a query; notices and batches are read together, and only of
objects with several claims. What landed before the ledger's memory is not seen: its claim has expired.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

from tidegate.core.batches import Batch
from tidegate.core.claims import Claim
from tidegate.core.landed_versions import landed_in
from tidegate.core.routes import decode_dataset
from tidegate.flows.ports import Ports

MOST_ASKED = 100
"""Objects of a page that are asked about: each costs a query of the ledger, one after the other."""

ObjectPlace = tuple[str, str]
"""Bucket and key."""


def keeps_latest_only(batch: Batch) -> bool:
    """Whether its route replaces: of an object the latest version has rows, however many have landed."""
    return bool(batch.dataset) and decode_dataset(batch.dataset).replaces


def landed_versions(places: Iterable[ObjectPlace], ports: Ports) -> Mapping[ObjectPlace, Mapping[str, int]]:
    """Of the first `MOST_ASKED` of these objects, how many versions have landed, by table."""
    asked = islice(dict.fromkeys(places), MOST_ASKED)
    claims = {place: ports.ledger.claims(*place) for place in asked}
    several = [claim for each in claims.values() if len(each) > 1 for claim in each]
    batches = {claim: batch for claim, (_, batch) in ports.ledger.owners(several).items()} if several else {}
    return {place: _counted(of_it, batches) for place, of_it in claims.items()}


def _counted(claims: Iterable[Claim], batches: Mapping[Claim, Batch | None]) -> Mapping[str, int]:
    """By table, without those that had landed before a version that has taken the place of all."""
    landed = [(claim, table) for claim in claims for table in landed_in(claim, batches.get(claim))]
    since: dict[str, int] = {}
    for claim, table in landed:
        if (batch := batches.get(claim)) and keeps_latest_only(batch):
            since[table] = max(since.get(table, 0), claim.claimed_at)
    return Counter(table for claim, table in landed if claim.claimed_at >= since.get(table, 0))
