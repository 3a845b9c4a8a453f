"""Rule 5 on every store: an item that has expired counts as absent, whether or not TTL has deleted it.

Everything a ledger remembers has expired. On the store it is still there. On a second ledger, in memory, it is deleted.
Each method has to answer the same on both, and to leave the same behind.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.contract.test_ledger_faults import CALLS
from tests.support.build import BUCKET, ETAG, notice, part_of, upload
from tests.support.ledgers import RETENTION, SettableClock
from tidegate.core.audit import AuditRun
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.claims import Claim
from tidegate.core.manifests import OwnedUpload
from tidegate.core.notices import Notice, NoticeRecord
from tidegate.core.outcomes import ABANDONED, NO_TALLY, Outcome, Tally
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.routes import Place
from tidegate.core.uploads import Upload
from tidegate.core.workers import Offer, Worker
from tidegate.flows.ledger import Ledger, Registration
from tidegate.stores.memory import MemoryStore

ROUTE = "flights"
AGAIN = Upload(BUCKET, "d", f"etag:{ETAG}", 10, "00A1")
LATER = replace(AGAIN, sequencer="00A2")

GIVEN_UP, QUARANTINED, VOID, UNDECIDED = notice("a", "b"), notice("c"), notice("e"), notice(AGAIN)
"""What became of four notices. The bytes of the last one's upload came again, and its batch is still submitted."""
FIRST, SECOND, THIRD = "01B00001", "01B00002", "01B00003"
"""Their batches. The first one is abandoned, and to be dropped; the second one is committed."""
NEW = notice("a", "b", "c", "e", AGAIN, origin="new")
LOST = Batch(FIRST, ROUTE, State.SEALED, 5, 2, 20, 1, sealed_at=6, table="lake.a.b", manifest="d")


@dataclass(frozen=True)
class Remembered:
    """A ledger whose memory has expired, and what was read from it before."""

    ledger: Ledger
    claims: tuple[Claim, ...]
    batches: dict[str, Batch]


def remembering(ledger: Ledger, clock: SettableClock) -> Remembered:
    numbers = itertools.count(1)

    def new_id() -> str:
        return f"01B{next(numbers):05}"

    for of in (GIVEN_UP, QUARANTINED, VOID, UNDECIDED):
        assert not ledger.claim(of).refused
    for of, outcome in ((GIVEN_UP, ABANDONED), (QUARANTINED, Outcome.QUARANTINED)):
        batch_id = _submitted(ledger, of, new_id)
        ledger.record_endings(_endings(of, outcome))
        fence = outcome == ABANDONED
        tally = NO_TALLY if fence else Tally(quarantined=1)
        assert ledger.commit(batch_id, ROUTE, Receipt(batch_id, 77, 76, fence, tally))
    _submitted(ledger, UNDECIDED, new_id)
    assert ledger.claim(notice(LATER, origin="later")).refused
    assert ledger.void(VOID.id, ROUTE)
    batches = dict(ledger.batches([FIRST, SECOND, THIRD]))
    assert ledger.wish(batches[FIRST], Wish.DROP)
    for each in (FIRST, SECOND):
        ledger.offer(Offer(each, "code", "", small=True, submitted_at=1))
    assert ledger.take(SECOND, "w")
    ledger.note_alive(Worker("w", "code", until=9, seen_at=clock()))
    assert ledger.begin_watch(WATCHED)
    assert ledger.end_watch(WATCHED, clock(), RETENTION)
    claims = tuple(ledger.claims_on(_uploads()).values())
    assert (len(claims), len(batches), len(ledger.leftovers(ROUTE))) == (5, 3, 2)
    clock.advance(2 * RETENTION)
    return Remembered(ledger, claims, batches)


def _submitted(ledger: Ledger, of: Notice, new_id: Callable[[], str]) -> str:
    batch = ledger.open_batch(ROUTE, new_id)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    assert ledger.seal(batch.id, ROUTE)
    assert ledger.begin_attempt(batch.id, ROUTE, 1, in_flight=9)
    return batch.id


def _endings(of: Notice, outcome: str) -> list[Ending]:
    found = (entry.upload for entry in of.entries)
    return [Ending(of.id, each.bucket, each.key, each.version, outcome, "") for each in found]


def _owned(of: Notice) -> list[OwnedUpload]:
    return [OwnedUpload(of.id, entry.upload) for entry in of.entries]


def _uploads() -> list[Upload]:
    return [upload(key) for key in "abce"] + [AGAIN]


def deleted() -> Remembered:
    """In memory, and without what has expired."""
    store, clock = MemoryStore(), SettableClock()
    found = remembering(Ledger(store, clock, RETENTION), clock)
    for key, item in list(store.items.items()):
        if item.get("expires_at", clock.now + 1) <= clock.now:  # type: ignore[operator]
            del store.items[key]
    return found


def left_behind(ledger: Ledger) -> dict[str, Any]:
    """Everything that the ledger tells."""
    notices = ledger.notices(of.id for of in (GIVEN_UP, QUARANTINED, VOID, UNDECIDED, NEW))
    return {
        "claims": ledger.claims_on(_uploads()),
        "notices": notices,
        "batches": ledger.batches([FIRST, SECOND, THIRD, "01NEW"]),
        "route": ledger.route(ROUTE),
        "leftovers": ledger.leftovers(ROUTE),
        "audits": ledger.audits(),
        "pool": ledger.pool(),
    }


WATCHED = AuditRun(Place(BUCKET, "", ""), "01R", started_at=1, since=1, until=0, watched_since=1, finished_at=1)
"""A place that was left."""
Call = Callable[[Remembered], Any]


def _register(of: Notice) -> Call:
    def call(there: Remembered) -> Any:
        batch = there.ledger.open_batch(ROUTE, lambda: "01NEW")
        return there.ledger.register(of, batch.id, part_of(of))

    return call


def _noted_then_forgotten(there: Remembered) -> Any:
    """The claim lives on, and the record of its owner expires."""
    assert there.ledger.claim(UNDECIDED).owned
    return there.ledger.claim(notice(LATER, origin="even later")), there.ledger.claim(NEW)


OF_CLAIMS: dict[str, Call] = {
    "claim": lambda there: there.ledger.claim(NEW),
    "claim, once more": lambda there: there.ledger.claim(UNDECIDED),
    "claim, from an owner that let go": lambda there: there.ledger.claim(
        notice("a", "b", origin="resend 1", takes_from=GIVEN_UP.id)
    ),
    "claim, from an owner that is void": lambda there: there.ledger.claim(
        notice("e", origin="audit:1", takes_from=VOID.id)
    ),
    "claim, the same bytes again": lambda there: there.ledger.claim(notice(LATER, origin="later")),
    "claim, while nobody knows the owner": _noted_then_forgotten,
    "claims": lambda there: [there.ledger.claims(BUCKET, key) for key in "abcde"],
    "claims_on": lambda there: there.ledger.claims_on(_uploads()),
    "let_go": lambda there: there.ledger.let_go(there.claims),
    "left_to": lambda there: there.ledger.left_to(VOID),
    "index_claims": lambda there: there.ledger.index_claims("n-manifest", _uploads(), {}),
    "record_endings": lambda there: there.ledger.record_endings(_endings(UNDECIDED, Outcome.VANISHED)),
    "record_endings, abandoned": lambda there: there.ledger.record_endings(_endings(UNDECIDED, ABANDONED)),
    "drop": lambda there: there.ledger.drop(FIRST, ROUTE, _owned(GIVEN_UP)),
}

OF_NOTICES: dict[str, Call] = {
    "notice": lambda there: there.ledger.notice(GIVEN_UP.id),
    "notices": lambda there: there.ledger.notices([GIVEN_UP.id, VOID.id]),
    "register": _register(GIVEN_UP),
    "register, what was void": _register(VOID),
    "void": lambda there: there.ledger.void(GIVEN_UP.id, ROUTE),
    "index_notices": lambda there: there.ledger.index_notices(
        [NoticeRecord(GIVEN_UP.id, ROUTE, THIRD, "parts/x", 2, 20, 0)]
    ),
}

OF_BATCHES: dict[str, Call] = {
    "batch": lambda there: [there.ledger.batch(each) for each in (FIRST, SECOND, THIRD)],
    "batches": lambda there: there.ledger.batches([FIRST, SECOND, THIRD]),
    "open_batch": lambda there: there.ledger.open_batch(ROUTE, lambda: "01NEW"),
    "seal": lambda there: there.ledger.seal(FIRST, ROUTE),
    "begin_attempt": lambda there: [there.ledger.begin_attempt(FIRST, ROUTE, each, in_flight=9) for each in (1, 2)],
    "fix_dataset": lambda there: there.ledger.fix_dataset(FIRST, 1, "{}"),
    "record_job": lambda there: there.ledger.record_job(FIRST, 1, "job"),
    "note_endings": lambda there: there.ledger.note_endings(FIRST, 1),
    "commit": lambda there: there.ledger.commit(FIRST, ROUTE, Receipt(FIRST, 78, 76, False, Tally(committed=2))),
    "halt": lambda there: there.ledger.halt(FIRST, 1, "reason"),
    "step_aside": lambda there: there.ledger.step_aside(FIRST, ROUTE, 1),
    "resume": lambda there: there.ledger.resume(FIRST, ROUTE, 2, fencing=True),
    "give_up": lambda there: there.ledger.give_up(FIRST, ROUTE),
    "forget_wish": lambda there: there.ledger.forget_wish(FIRST, ROUTE, there=False),
    "index_batch": lambda there: there.ledger.index_batch(LOST, None, {}),
    "commit, of a batch that never expired": lambda there: there.ledger.commit(
        THIRD, ROUTE, Receipt(THIRD, 78, 76, False, Tally(quarantined=1))
    ),
}

OF_JOBS: dict[str, Call] = {
    "pool": lambda there: there.ledger.pool(),
    "offer_of": lambda there: there.ledger.offer_of(FIRST),
    "worker": lambda there: there.ledger.worker("w"),
    "offer": lambda there: there.ledger.offer(Offer(FIRST, "code", "", small=True, submitted_at=1)),
}

OF_LEFTOVERS: dict[str, Call] = {
    "leftovers": lambda there: there.ledger.leftovers(ROUTE),
    "drop, what nobody remembers": lambda there: there.ledger.drop(FIRST, ROUTE, [*_owned(GIVEN_UP), *_owned(VOID)]),
}

OF_PLACES: dict[str, Call] = {
    "audits": lambda there: there.ledger.audits(),
    "audit": lambda there: there.ledger.audit(WATCHED.place),
    "begin_watch": lambda there: there.ledger.begin_watch(replace(WATCHED, watched_since=9)),
    "end_watch": lambda there: there.ledger.end_watch(WATCHED, 9, 9),
    "resume_watch": lambda there: there.ledger.resume_watch(replace(WATCHED, left_at=SettableClock.now)),
}

CASES = {**OF_CLAIMS, **OF_NOTICES, **OF_BATCHES, **OF_JOBS, **OF_LEFTOVERS, **OF_PLACES}

AFTER_A_READING = {
    *("note_manifest", "wish", "note_wish", "end_wish", "note_removed", "note_emptied"),
    *("begin_audit", "note_audit", "note_screening", "give_up_audit"),
    *("take", "withdraw", "note_started", "note_alive", "leave"),
}
"""These may change the record of a batch that has ended, or of what it has left, or of a place that was left, on the
condition of what was read in it a moment before. Their flows read the record, and an expired one is absent (`batch`,
`leftovers` and `audits`, above). So they meet one only if it expires between the two, and then they change what nobody
reads any more."""

NEVER_EXPIRE = {
    *("route", "pause", "unpause", "refuse", "known_route", "known_routes", "remember_route"),
    *("note_oldest", "outbox", "note_announced"),
}
"""These are about routes and announcements, which do not expire; or they replace what is there."""


@pytest.mark.parametrize("name", CASES)
def test_what_has_expired_and_is_still_there_counts_as_absent(name: str, ledger: Ledger, clock: SettableClock):
    there, gone = remembering(ledger, clock), deleted()
    assert CASES[name](there) == CASES[name](gone)
    assert left_behind(there.ledger) == left_behind(gone.ledger)


def test_all_that_expires_has_expired_here():
    """Else the cases would compare two ledgers that remember everything."""
    there = deleted()
    told = left_behind(there.ledger)
    assert (told["claims"], told["notices"], told["leftovers"], told["audits"]) == ({}, {}, [], [])
    assert set(told["batches"]) == {THIRD}  # it has not ended
    assert told["route"].wished == (FIRST,)


def test_every_method_of_the_ledger_is_here_or_says_why_not():
    named = {name.partition(",")[0] for name in CASES}
    assert CALLS.keys() <= named | AFTER_A_READING | NEVER_EXPIRE
    assert not named & (AFTER_A_READING | NEVER_EXPIRE)


def test_an_upload_that_came_again_is_forgotten_with_its_claim(ledger: Ledger, clock: SettableClock):
    """The batch was undecided for longer than the ledger remembers: TTL must not decide whether it is sent again."""
    there = remembering(ledger, clock)
    assert there.ledger.record_endings(_endings(UNDECIDED, Outcome.VANISHED)) == ()


def test_a_batch_that_has_expired_is_indexed(ledger: Ledger, clock: SettableClock):
    there = remembering(ledger, clock)
    assert there.ledger.index_batch(LOST, None, {})
    found = there.ledger.batch(FIRST)
    assert found is not None
    assert found.state is State.SEALED
