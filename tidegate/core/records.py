"""The ledger's records: the key of each one, and its fields.

    record    pk               sk         written when
    claim     o#<object hash>  <version>  a notice claims an upload; under 1 KB, so 1 write unit each
    notice    n#<id>           notice     the notice is registered, or void
    batch     b#<id>           batch      the batch changes state
    route     r#<name>         route      a batch of the route opens, is sealed, submitted, or ends
    settings  routes           <name>     a route's settings are deployed, or its first batch opens
    leftover  l#<route>        <batch>    a batch ends, and some of its uploads are quarantined, or it is abandoned
    audit     audits           <place>    a place is watched, or left; an audit of it begins, or has done a page
    outbox    outbox           <batch>    a batch is committed, until its event was sent
    offer     work             offer#<batch>   an attempt is there to be taken, and a worker takes it
    worker    work             worker#<id>     a worker was started, or says that it lives
    whole     ledger           whole      the first function runs, or a rebuild is complete

Only the transitions of `core.transitions` write them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.announcements import Announcement
from tidegate.core.audit import AuditCounts, AuditRun, Marker
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.claims import Claim, CountedAs
from tidegate.core.errors import Rejected, Retryable
from tidegate.core.items import Item, Key
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import COMES_BACK, NO_TALLY, Tally
from tidegate.core.routes import Place, Route, decode_route
from tidegate.core.uploads import object_hash
from tidegate.core.versions import check_version
from tidegate.core.workers import Offer, Worker

VERSION = 1
OUTBOX = "outbox"
"""The partition of what is to be announced, for all routes. It is empty but for moments, and while the bus does not
answer."""
AUDITS = "audits"
"""The partition of how all places are watched: one record for each route, and for each place that a route has left
lately, read together."""
ROUTES = "routes"
"""The partition of all routes' settings: a few hundred records at most, read together."""
WHOLE = Key("ledger", "whole")
"""The key of the one record that says that the ledger is whole. While it is missing nothing is read or written
(`stores.guarded`)."""
WORK = "work"
"""The partition of what workers take, and of the workers: a few records, read together. Jobs may write it, and no
other."""
DAY = 24 * 60 * 60
# A claim names a notice, and a notice names a batch: each record outlives those that name it.
NOTICE_OUTLIVES_CLAIM = DAY
BATCH_OUTLIVES_NOTICE = DAY


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """The state of a route: its unfinished batches, and the sums over the finished ones. A submitted batch is either
    `running`, in a slot, or `aside`, without one."""

    name: str
    open_batch: str = ""
    sealed: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    refused: int = 0
    jobs: int = 0
    notified: int = 0
    tally: Tally = NO_TALLY
    committed_batches: int = 0
    abandoned_batches: int = 0
    abandoned_objects: int = 0
    dropped: int = 0
    """How many uploads of abandoned batches were dropped. `abandoned_objects` counts them, too."""
    wished: tuple[str, ...] = ()
    """The batches with a wish that is not carried out yet (`core.batches.Wish`)."""
    paused: int = 0
    """Since when a person has paused the route, in epoch seconds; 0 if it is not paused."""
    back: Mapping[str, int] = field(default_factory=dict)
    """How many uploads came back to be gathered anew, by what they were counted as: an outcome, or abandoned."""
    quarantined_since: int = 0
    """Since when the route has had uploads in quarantine: the end of the oldest batch that may still have one, in epoch
    seconds; 0 if nothing is in quarantine. It is never too late (`flows.quarantine_age`)."""
    quarantine_seen: int = -1
    """How many uploads had come back from quarantine when `quarantined_since` was last made certain; -1 if it never
    was."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """The `Batch.unknown` of the batch that was committed last of those that had some."""
    unknown_at: int = 0
    """When that was, in epoch seconds; 0 if there is none."""

    @property
    def unfinished(self) -> tuple[str, ...]:
        return (*((self.open_batch,) if self.open_batch else ()), *self.sealed, *self.submitted)

    @property
    def submitted(self) -> tuple[str, ...]:
        """Oldest first, in a slot or not."""
        return tuple(sorted((*self.running, *self.aside)))  # ULIDs sort by age


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a batch of the route has left outside the table when it ended (`ended_at`, epoch seconds): how many uploads
    were quarantined, or abandoned. These do not change when they come back; their claims say so. `dropped` is how many
    of the abandoned ones were dropped since. `emptied`: somebody has looked, and none is in quarantine any more, which
    is final."""

    route: str
    batch: str
    ended_at: int
    quarantined: int = 0
    abandoned: int = 0
    dropped: int = 0
    emptied: bool = False


# ---- keys


def claims_pk(bucket: str, key: str) -> str:
    """The partition of the claims on all versions of one object."""
    return f"o#{object_hash(bucket, key)}"


def claim_key(bucket: str, key: str, version: str) -> Key:
    return Key(claims_pk(bucket, key), version)


def notice_key(notice_id: str) -> Key:
    return Key(f"n#{notice_id}", "notice")


def batch_key(batch_id: str) -> Key:
    return Key(f"b#{batch_id}", "batch")


OFFER, WORKER = "offer#", "worker#"


def offer_key(batch_id: str) -> Key:
    return Key(WORK, f"{OFFER}{batch_id}")


def worker_key(worker_id: str) -> Key:
    return Key(WORK, f"{WORKER}{worker_id}")


def route_key(name: str) -> Key:
    return Key(f"r#{name}", "route")


def settings_key(name: str) -> Key:
    return Key(ROUTES, name)


def leftovers_pk(route: str) -> str:
    """The partition of a route's leftovers: at most one for each batch that the ledger remembers."""
    return f"l#{route}"


def leftover_key(route: str, batch_id: str) -> Key:
    return Key(leftovers_pk(route), batch_id)


def audit_key(place: Place, number: int) -> Key:
    """`number` as in `AuditRun`. The place is hashed: a prefix may be as long as a sort key."""
    named = json.dumps([place.bucket, place.prefix, place.suffix])
    return Key(AUDITS, f"{hashlib.sha256(named.encode()).hexdigest()[:40]}#{number}")


def outbox_key(batch_id: str) -> Key:
    return Key(OUTBOX, batch_id)


# ---- decoders. Each raises Retryable if newer code wrote the record


def decode_claim(item: Item) -> Claim:
    told = _readable(item)
    return Claim(
        version=told["sk"],
        notice=told["notice"],
        claimed_at=told["claimed_at"],
        expires_at=told["expires_at"],
        outcome=told.get("outcome", ""),
        error=told.get("error", ""),
        sequencer=told.get("sequencer", ""),
        later=told.get("later", ""),
        before=CountedAs(told["was_of"], told["was"]) if "was" in told else None,
    )


def decode_notice(item: Item) -> NoticeRecord:
    told = _readable(item)
    return NoticeRecord(
        id=told["pk"].removeprefix("n#"),
        route=told["route"],
        batch=told.get("batch", ""),
        part=told.get("part", ""),
        objects=told.get("objects", 0),
        bytes=told.get("bytes", 0),
        decided_at=told["decided_at"],
    )


_OF_A_BATCH = (
    *("objects", "bytes", "notices", "attempt", "sealed_at", "submitted_at", "ended_at", "snapshot"),
    *("endings", "floors", "halted_at", "aside_at", "wished_at", "wished_parts"),
)


def decode_batch(item: Item) -> Batch:
    told = _readable(item)
    return Batch(
        id=told["pk"].removeprefix("b#"),
        route=told["route"],
        state=State(told["state"]),
        opened_at=told["opened_at"],
        job_run=told.get("job_run", ""),
        halted=told.get("halted", ""),
        undecided=told.get("undecided", False),
        tally=Tally.from_dict(told.get("tally", {})),
        fencing=told.get("fencing", False),
        table=told.get("table", ""),
        manifest=told.get("manifest", ""),
        dataset=told.get("dataset", ""),
        sealed_for=told.get("sealed_for", ""),
        wish=Wish(told["wish"]) if "wish" in told else None,
        skips="wish_skips" in told,
        unknown=told.get("unknown", {}),
        rows_removed="rows_removed" in told,
        sent_again="sent_again" in told,
        **{name: told.get(name, 0) for name in _OF_A_BATCH},
    )


_OF_A_ROUTE = (
    *("refused", "jobs", "notified", "committed_batches", "abandoned_batches", "abandoned_objects", "dropped"),
    *("paused", "quarantined_since", "unknown_at"),
)


def decode_standing(name: str, item: Item | None) -> RouteRecord:
    """The state of the route `name`. `item` is None if nothing has happened on the route."""
    told = _readable(item or {})
    return RouteRecord(
        name=name,
        open_batch=told.get("open_batch", ""),
        sealed=tuple(sorted(told.get("sealed", ()))),
        running=tuple(sorted(told.get("running", ()))),
        aside=tuple(sorted(told.get("aside", ()))),
        wished=tuple(sorted(told.get("wished", ()))),
        tally=Tally.from_dict(told),
        back={name: told[f"back_{name}"] for name in COMES_BACK if f"back_{name}" in told},
        quarantine_seen=told.get("quarantine_seen", -1),
        unknown=told.get("unknown", {}),
        **{each: told.get(each, 0) for each in _OF_A_ROUTE},
    )


def decode_leftover(item: Item) -> Leftover:
    told = _readable(item)
    return Leftover(
        route=told["pk"].removeprefix("l#"),
        batch=told["sk"],
        ended_at=told["ended_at"],
        quarantined=told.get("quarantined", 0),
        abandoned=told.get("abandoned", 0),
        dropped=told.get("dropped", 0),
        emptied=told.get("emptied", False),
    )


def decode_settings(item: Item) -> Route:
    return decode_route(_readable(item)["settings"])


def decode_audit(item: Item) -> AuditRun:
    told = _readable(item)
    return AuditRun(
        place=Place(told["bucket"], told["prefix"], told["suffix"]),
        id=told["run"],
        started_at=told["started_at"],
        since=told["since"],
        until=told["until"],
        watched_since=told["watched_since"],
        number=told["number"],
        left_at=told.get("left_at", 0),
        page=told["page"],
        after=Marker(told["after_key"], told["after_version"]),
        counts=AuditCounts.from_dict(told["counts"]),
        finished_at=told.get("finished_at", 0),
        source=told.get("source", ""),
        job=told.get("job", ""),
        given_up=told.get("given_up", False),
    )


def is_offer(item: Item) -> bool:
    """Whether a record of the partition `WORK` is an offer, and no worker."""
    return str(item["sk"]).startswith(OFFER)


def decode_offer(item: Item) -> Offer:
    told = _readable(item)
    return Offer(
        told["sk"].removeprefix(OFFER),
        told["code"],
        told["owner"],
        told["small"],
        told["submitted_at"],
        told["early"],
        told.get("worker", ""),
        told.get("taken_at", 0),
    )


def decode_worker(item: Item) -> Worker:
    told = _readable(item)
    return Worker(
        told["sk"].removeprefix(WORKER),
        told["code"],
        told.get("job_run", ""),
        told.get("started_at", 0),
        told["until"],
        told.get("seen_at", 0),
        told.get("batch", ""),
        told.get("since", 0),
        told.get("small", True),
    )


def decode_announcement(item: Item) -> Announcement:
    told = _readable(item)
    return Announcement(
        batch=told["sk"],
        route=told["route"],
        table=told["table"],
        snapshot=told["snapshot"],
        tally=Tally.from_dict(told["tally"]),
        committed_at=told["committed_at"],
    )


def _readable(item: Item) -> Mapping[str, Any]:
    """Raises Retryable if newer code wrote the record: nothing happens until that code is deployed again.

    A route's record is written by updates only. It has no version, and counts as version 1.
    """
    try:
        check_version(item.get("v", 1), f"the ledger's record {item.get('pk')}", VERSION)
    except Rejected as error:
        raise Retryable(str(error)) from error
    return item
