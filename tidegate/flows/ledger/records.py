"""What the ledger has, read consistently."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core import transitions
from tidegate.core.batches import Batch
from tidegate.core.claims import Claim, is_live
from tidegate.core.errors import Retryable
from tidegate.core.items import Applied, Item, Key, Refused, Transition
from tidegate.core.notices import NoticeRecord
from tidegate.core.records import (
    ROUTES,
    Leftover,
    RouteRecord,
    batch_key,
    claim_key,
    claims_pk,
    decode_batch,
    decode_claim,
    decode_leftover,
    decode_notice,
    decode_settings,
    decode_standing,
    leftovers_pk,
    notice_key,
    route_key,
    settings_key,
)
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.flows.store import Clock, Store

CLOCKS = 60 * 60
"""Seconds by which two clocks may differ: S3's, which dates an upload, and a function's, which dates a claim."""


@dataclass(frozen=True)
class LedgerRecords:
    """`claim_retention` in seconds: how long the ledger remembers an upload (setting `retention.claims`)."""

    store: Store
    clock: Clock
    claim_retention: int

    def notice(self, notice_id: str) -> NoticeRecord | None:
        item = self._live(self.store.get(notice_key(notice_id)))
        return decode_notice(item) if item else None

    def notices(self, notice_ids: Iterable[str]) -> Mapping[str, NoticeRecord]:
        found = self._all((notice_key(each) for each in notice_ids), "notices")
        return {record.id: record for record in map(decode_notice, found.values())}

    def claims(self, bucket: str, key: str) -> Sequence[Claim]:
        """The live claims on all versions of one object."""
        items = self.store.query(claims_pk(bucket, key), f"the claims on s3://{bucket}/{key}")
        return [decode_claim(item) for item in items if self._live(item)]

    def claims_on(self, uploads: Iterable[Upload]) -> Mapping[tuple[str, str, str], Claim]:
        """The live claims on these uploads, by identity."""
        by_key = {claim_key(*each.identity): each.identity for each in uploads}
        return {by_key[key]: decode_claim(item) for key, item in self._all(by_key, "claims").items()}

    def batch(self, batch_id: str) -> Batch | None:
        item = self._live(self.store.get(batch_key(batch_id)))
        return decode_batch(item) if item else None

    def batches(self, batch_ids: Iterable[str]) -> Mapping[str, Batch]:
        found = self._all((batch_key(each) for each in batch_ids), "batches")
        return {batch.id: batch for batch in map(decode_batch, found.values())}

    def owners(self, claims: Iterable[Claim]) -> Mapping[Claim, tuple[NoticeRecord | None, Batch | None]]:
        """Of each claim its notice, if that is registered or void, and the notice's batch, if it has one: read in this
        order, each kind together."""
        found = list(claims)
        notices = self.notices({claim.notice for claim in found})
        batches = self.batches({notice.batch for notice in notices.values() if notice.batch})
        by_notice = {each: (notice, batches.get(notice.batch)) for each, notice in notices.items()}
        return {claim: by_notice.get(claim.notice, (None, None)) for claim in found}

    def route(self, name: str) -> RouteRecord:
        return decode_standing(name, self.store.get(route_key(name)))

    def routes(self, names: Iterable[str]) -> Mapping[str, RouteRecord]:
        """The records of these routes, read together. A route that never gathered uploads has an empty one."""
        wanted = list(names)
        found = self.store.get_many([route_key(each) for each in sorted(set(wanted))], "routes") if wanted else {}
        return {each: decode_standing(each, found.get(route_key(each))) for each in wanted}

    def known_routes(self) -> Mapping[str, Route]:
        """Every route that ever gathered uploads, by name, with its last deployed settings."""
        routes = map(decode_settings, self.store.query(ROUTES, "the routes"))
        return {route.name: route for route in routes}

    def known_route(self, name: str) -> Route | None:
        item = self.store.get(settings_key(name))
        return decode_settings(item) if item else None

    def leftovers(self, route: str) -> Sequence[Leftover]:
        """What the route's batches have left outside the table, by the age of the batch. It grows with the batches of
        `claim_retention`, and only with those that left something."""
        items = self.store.query(leftovers_pk(route), f"the leftovers of route {route}")
        return [decode_leftover(item) for item in items if self._live(item)]

    def may_have_forgotten(self, at: int) -> bool:
        """Whether claims on uploads that were created `at` (epoch seconds, 0 if unknown) may have expired already. A
        claim is made after its upload, so it expires later than `at` and `claim_retention`; `CLOCKS` for their
        difference."""
        return bool(at) and self.clock() >= at + self.claim_retention - CLOCKS

    def remember_route(self, route: Route) -> None:
        """Store the route's settings. If the configuration loses the route, its batches are finished with these."""
        self.store.apply(transitions.remember_route(route))

    def _live(self, item: Item | None) -> Item | None:
        expires_at = item.get("expires_at") if item else None
        return None if isinstance(expires_at, int) and not is_live(expires_at, self.clock()) else item

    def _all(self, keys: Iterable[Key], what: str) -> Mapping[Key, Item]:
        found = self.store.get_many(sorted(set(keys)), what)
        return {key: item for key, item in found.items() if self._live(item)}

    def _applied(self, transition: Transition) -> bool:
        return isinstance(self.store.apply(transition), Applied)


def in_the_way(uploads: Sequence[Upload], done: Sequence[Applied | Refused]) -> dict[Upload, Claim]:
    found: dict[Upload, Claim] = {}
    for upload, each in zip(uploads, done, strict=True):
        if isinstance(each, Refused):
            if each.there[0] is None:
                # the write required an owner, and there is no claim: it expired and was deleted in between
                raise Retryable(f"the claim on {upload} changed while it was being taken; it will be tried again")
            found[upload] = decode_claim(each.there[0])
    return found
