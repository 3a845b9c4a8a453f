"""The audit: what S3 never announced, and what a stale notice holds, lands once; what has landed is left alone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.build import BUCKET, ETAG, notice, upload, uploads
from tests.support.fakes import Died, Life, every_death, play_fencing, play_publishing
from tests.support.world import World, small_world
from tidegate.core.audit import AuditCounts, AuditFinding, AuditLimits, AuditRun, Listed, Marker, Window
from tidegate.core.batches import Wish
from tidegate.core.errors import Retryable
from tidegate.core.manifests import batch_folder
from tidegate.core.notices import Entry
from tidegate.core.outcomes import Outcome
from tidegate.core.records import DAY
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.flows.abort import abort
from tidegate.flows.audit import Look, audit_place, audit_window
from tidegate.flows.ports import Ports
from tidegate.flows.watch import watch_places
from tidegate.metrics import Metric

HOUR = 3_600
LIMITS = AuditLimits(min_age=12 * HOUR, max_age=30 * DAY, every=DAY, horizon=45 * DAY)
FILES = uploads(7)


def put(world: World, of: Iterable[Upload]) -> None:
    """The uploads are in the bucket from now on."""
    world.listing.there |= dict.fromkeys(of, world.clock())


def audit(
    world: World,
    ports: Ports | None = None,
    *,
    pages: int = 1_000,
    route: Route | None = None,
    others: Sequence[Route] = (),
    limits: AuditLimits = LIMITS,
    **given: Any,
) -> AuditRun | None:
    """An invocation, with these routes. Returns the run of the first one's place."""
    routes = [route or world.flights, *others]
    found = None
    for watched in watch_places(routes, limits, ports or world.ports):
        left = iter(range(pages))
        run = audit_place(
            watched,
            routes,
            limits,
            ports or world.ports,
            go_on=lambda left=left: next(left, None) is not None,
            pace=lambda sent: None,
            screens=world.screens,
            **given,
        )
        if watched.place == routes[0].place and not watched.left_at:
            found = run
    return found


def watched(world: World) -> None:
    """The route's first run is over, a while ago: what is put from now on is looked at."""
    assert audit(world)
    world.clock.advance(DAY)


def deliver(world: World) -> None:
    """Everything that was published is dispatched, also what that makes dispatch publish."""
    while world.topic.published:
        world.dispatch(world.topic.published.pop(0))


def land(world: World, ends: dict[str, tuple[Outcome, str]] | None = None) -> None:
    """The open batch is committed."""
    batch = world.open
    world.clock.advance(301)
    world.settle()
    play_publishing(world.work, batch.id, ends)
    assert world.settle() == []


def registered(world: World) -> list[str]:
    """The keys of the uploads that the route's batches list, as often as they do."""
    parts = [name for name in world.work.names("batches/") if "/parts/" in name]
    on_record = []
    for name in parts:
        _, batch, part = name.split("/", 2)
        record = world.ledger.notice(part.removeprefix("parts/").partition("-")[0])
        if record and (record.batch, record.part) == (batch, part):
            on_record += world.keys_in(batch, part)
    return sorted(on_record)


def counts_of(run: AuditRun | None) -> AuditCounts:
    assert run is not None
    assert run.counts.holds
    return run.counts


def test_an_upload_that_nobody_announced_lands_once(world: World):
    watched(world)
    put(world, FILES)
    world.dispatch(notice(*FILES[1:]))
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(listed=7, lost=1, pending=6)
    assert world.count[Metric.UPLOADS_FOUND_LOST] == 1
    (sent,) = world.topic.published
    assert sent.entries == (Entry(FILES[0]),)
    deliver(world)
    assert registered(world) == [each.key for each in FILES]
    land(world)
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(listed=7, committed=7)
    assert world.topic.published == []


def test_what_was_there_before_the_route_is_left_alone(world: World):
    put(world, FILES[:3])
    world.clock.advance(1)
    first = audit(world)
    assert first is not None
    assert (first.counts, first.finished_at) == (AuditCounts(), world.clock())
    assert world.listing.asked == [], "there is nothing to look at yet"
    world.clock.advance(DAY)
    put(world, FILES[3:])
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(listed=7, outside=3, lost=4)


def test_an_upload_is_looked_at_once_it_is_old_enough_and_until_it_is_too_old(world: World):
    watched(world)
    put(world, FILES[:1])
    world.clock.advance(DAY - 1)
    put(world, FILES[1:2])
    world.clock.advance(12 * HOUR)
    assert counts_of(audit(world)) == AuditCounts(listed=2, lost=2)
    world.clock.advance(DAY)
    put(world, FILES[2:3])
    assert counts_of(audit(world)) == AuditCounts(listed=3, lost=2, outside=1)
    world.clock.advance(31 * DAY)  # nobody audited for so long: the next run goes on where the last one ended
    assert counts_of(audit(world)) == AuditCounts(listed=3, lost=1, outside=2)
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(listed=3, outside=3)


def test_only_what_the_route_takes_is_listed(world: World):
    watched(world)
    folder = upload("flights/", size=0)
    put(world, [FILES[0], upload("flights/readme.txt"), folder, upload("weather/a.json")])
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(listed=1, lost=1)
    assert world.topic.keys == [FILES[0].key]


def test_the_same_bytes_put_again_land_though_the_part_of_the_first_is_lost(world: World):
    """Their batch is given up, and settling skips the part: no claim says how it ended."""
    first = replace(FILES[0], version=f"etag:{ETAG}", sequencer="00A1")
    watched(world)
    put(world, [first])
    world.dispatch(notice(first))
    batch = world.open.id
    abort(batch, world.ports)
    world.settle()
    world.clock.advance(HOUR)
    world.listing.there = {first: world.clock()}  # put again, and S3 announces it while the batch is being fenced
    world.dispatch(notice(replace(first, sequencer="00A2"), origin="s3-2"))
    (part,) = world.parts(batch)
    del world.work.objects[batch_folder(batch) + part]
    play_fencing(world.work, batch)
    world.settle()
    abort(batch, world.ports, Wish.DROP, skip_missing=True)
    world.settle()
    assert world.topic.published == []
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(listed=1, lost=1)
    deliver(world)
    land(world)
    assert world.record.tally.committed == 1


# ---- claims that nobody registered


def claimed_only(world: World) -> Any:
    """A notice that died after it had claimed."""
    of = notice(*FILES[:2])
    put(world, FILES[:2])
    assert len(world.ledger.claim(of).owned) == 2
    return of


def test_a_stale_notice_is_voided_and_its_uploads_are_taken_from_it(world: World):
    watched(world)
    of = claimed_only(world)
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(listed=2, stale=2)
    record = world.ledger.notice(of.id)
    assert record is not None
    assert record.void
    (sent,) = world.topic.published
    assert sent.entries == tuple(Entry(each, takes_from=of.id) for each in FILES[:2])
    world.dispatch(of)  # its message comes after all
    deliver(world)
    assert registered(world) == [each.key for each in FILES[:2]]


def test_a_claim_that_is_young_may_be_on_its_way(world: World):
    watched(world)
    put(world, FILES[:2])
    world.clock.advance(DAY)
    of = notice(*FILES[:2])
    world.ledger.claim(of)
    assert counts_of(audit(world)) == AuditCounts(listed=2, pending=2)
    assert world.ledger.notice(of.id) is None


def test_a_notice_that_registers_at_the_last_moment_keeps_its_uploads():
    def at(calls: int | None, meanwhile: Callable[[World, Any], None]) -> tuple[World, Life, AuditRun | None]:
        world = small_world(max_wait=300)
        watched(world)
        of = claimed_only(world)
        world.clock.advance(DAY)
        life = Life(calls, before=lambda: meanwhile(world, of))
        return world, life, audit(world, life.over(world.ports))

    _, life, run = at(None, lambda world, of: None)
    assert counts_of(run) == AuditCounts(listed=2, stale=2)
    voiding = life.names.index("void") + 1
    world, _, run = at(voiding, lambda world, of: world.dispatch(of))
    assert counts_of(run) == AuditCounts(listed=2, pending=2)
    assert world.topic.published == []
    assert registered(world) == [each.key for each in FILES[:2]]


def test_uploads_of_a_void_notice_are_lost(world: World):
    """An earlier audit voided it, and died."""
    watched(world)
    of = claimed_only(world)
    world.ledger.void(of.id, "flights")
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(listed=2, lost=2)
    deliver(world)
    assert registered(world) == [each.key for each in FILES[:2]]


def test_a_committed_upload_is_never_sent_again_however_long_its_claim_lives(world: World):
    """In a bucket without versions the same bytes come every day. The claim lives on; its notice's record expires."""
    file = replace(upload(version=f"etag:{ETAG}"), sequencer="0055AED6DCD90000")
    watched(world)
    put(world, [file])
    world.dispatch(notice(file))
    land(world)
    for day in range(70):
        world.clock.advance(DAY)
        world.listing.there = {replace(file, sequencer=""): world.clock()}
        world.dispatch(notice(replace(file, sequencer=f"0055AED6DCD9{day + 1:04}")))
        found = audit(world)
        assert counts_of(found).sent == 0, f"on day {day}"
    world.clock.advance(DAY)
    assert world.ledger.notice(world.claim(file.key).notice) is None, "its record has expired"
    assert counts_of(audit(world)) == AuditCounts(listed=1, forgotten=1)
    assert world.topic.published == []


# ---- what has ended without a row


@pytest.mark.parametrize(
    ("outcome", "again", "finding"),
    [
        (Outcome.QUARANTINED, False, AuditFinding.QUARANTINED),
        (Outcome.QUARANTINED, True, AuditFinding.LOST),
        (Outcome.VANISHED, True, AuditFinding.LOST),
        (Outcome.SUPERSEDED, True, AuditFinding.LOST),
    ],
)
def test_bytes_that_came_again_unannounced_after_they_had_ended_are_lost(
    world: World, outcome: Outcome, again: bool, finding: AuditFinding
):
    file = upload(version=f"etag:{ETAG}")
    watched(world)
    put(world, [file])
    world.dispatch(notice(file))
    land(world, {file.key: (outcome, "why")})
    first = world.claim(file.key).notice
    if again:
        put(world, [file])
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(**{"listed": 1, finding.value: 1})
    if finding is AuditFinding.LOST:
        (sent,) = world.topic.published
        assert sent.entries == (Entry(file, takes_from=first),)
        deliver(world)
        land(world)
        world.clock.advance(DAY)
        assert counts_of(audit(world)) == AuditCounts(listed=1, committed=1)


def test_what_a_person_gave_up_is_not_lost(world: World):
    watched(world)
    put(world, FILES[:3])
    world.dispatch(notice(*FILES[:3]))
    batch = world.open
    world.clock.advance(301)
    world.settle()
    abort(batch.id, world.ports)
    play_fencing(world.work, batch.id)
    world.settle()
    world.clock.advance(DAY)
    assert counts_of(audit(world)) == AuditCounts(listed=3, abandoned=3)


# ---- pages, deaths and twins


def test_a_run_goes_on_where_the_last_invocation_stopped(world: World):
    watched(world)
    put(world, FILES)
    world.clock.advance(DAY)
    world.listing.size = 2
    run = audit(world, pages=1)
    assert run is not None
    assert (run.page, run.finished_at) == (1, 0)
    assert run.after == Marker(FILES[1].key, FILES[1].version)
    world.clock.advance(5 * DAY)  # however much later
    done = audit(world)
    assert done is not None
    assert (done.id, done.page, done.finished_at) == (run.id, 4, world.clock())
    assert counts_of(done) == AuditCounts(listed=7, lost=7)
    assert len(world.listing.asked) == 4
    assert audit(world) != done, "the next is due by now"


def test_nothing_is_asked_of_s3_while_no_run_is_due(world: World):
    watched(world)
    put(world, FILES)
    world.clock.advance(DAY)
    done = audit(world)
    asked = len(world.listing.asked)
    world.clock.advance(DAY - 1)
    assert audit(world) == done
    assert len(world.listing.asked) == asked


def test_the_owner_of_the_bucket_is_named(world: World):
    watched(world)
    world.flights = replace(world.flights, owner="999999999999")
    world.clock.advance(DAY)
    audit(world)
    assert world.listing.asked == [(BUCKET, "flights/", Marker(), "999999999999")]


def troubled(world: World) -> None:
    """Three pages: one upload was announced, one is held by a stale notice, the others are lost."""
    watched(world)
    put(world, FILES)
    world.dispatch(notice(FILES[0]))
    world.ledger.claim(notice(FILES[3]))
    world.clock.advance(DAY)
    world.listing.size = 3


def calls_of_a_run() -> int:
    world, life = small_world(max_wait=300), Life()
    troubled(world)
    audit(world, life.over(world.ports))
    return life.made


@pytest.mark.parametrize("death", every_death(calls_of_a_run()), ids=lambda life: f"{life.calls}{'+' * life.after}")
@pytest.mark.parametrize("delivered", [False, True], ids=["in the queue", "delivered"])
def test_dying_at_any_step_sends_everything_and_lands_it_once(world: World, death: Life, delivered: bool):
    """What the first invocation sent is delivered before the second, or only after it."""
    troubled(world)
    with pytest.raises(Died):
        audit(world, Life(death.calls, death.after).over(world.ports))
    if delivered:
        deliver(world)
    run = audit(world)
    assert run is not None
    assert run.finished_at
    assert run.counts.holds
    deliver(world)
    world.dispatch(notice(*FILES))  # every notification comes after all
    assert registered(world) == [each.key for each in FILES]
    assert world.count[Metric.UPLOADS_FOUND_LOST] >= 6


def test_twins_that_take_turns_land_everything_once():
    for calls in range(1, calls_of_a_run() + 1):
        world = small_world(max_wait=300)
        troubled(world)
        life = Life(calls, before=lambda world=world: (audit(world), deliver(world)))
        audit(world, life.over(world.ports))
        deliver(world)
        assert registered(world) == [each.key for each in FILES], f"at call {calls}"
        last = world.ledger.audit(world.flights.place)
        assert last is not None
        assert last.counts.listed == 7, f"at call {calls}: a page is counted once"


def test_a_page_is_repeated_until_the_topic_has_taken_it(world: World):
    watched(world)
    put(world, FILES)
    world.clock.advance(DAY)
    world.topic.accepts = lambda sent: False
    with pytest.raises(Retryable, match="did not take the notices of 7 uploads"):
        audit(world)
    assert world.count[Metric.UPLOADS_FOUND_LOST] == 0
    world.topic.accepts = lambda sent: True
    assert counts_of(audit(world)) == AuditCounts(listed=7, lost=7)


def test_notices_name_their_run_so_that_none_is_taken_for_an_earlier_delivery(world: World):
    watched(world)
    put(world, FILES[:1])
    world.clock.advance(DAY)
    audit(world)
    world.clock.advance(DAY)
    audit(world)
    first, second = world.topic.published
    assert first.id != second.id
    assert first.origin.startswith("audit-")


def test_the_sender_waits_for_what_it_sends(world: World):
    watched(world)
    put(world, FILES)
    world.clock.advance(DAY)
    world.listing.size = 3
    waits: list[int] = []
    (watched_,) = watch_places([world.flights], LIMITS, world.ports)
    audit_place(
        *(watched_, [world.flights], LIMITS, world.ports),
        go_on=lambda: True,
        pace=waits.append,
        screens=world.screens,
    )
    assert waits == [3, 3, 1]


# ---- a run by hand


def by_hand(world: World, tell: Callable[..., None], *, dry: bool) -> AuditCounts:
    now = world.clock()
    window = Window(now - LIMITS.max_age, now - LIMITS.min_age, LIMITS.min_age, LIMITS.horizon)
    return audit_window(world.flights, Look("by-hand", window, tell, dry), world.ports, pace=lambda sent: None)


def test_a_rehearsal_counts_and_tells_and_changes_nothing(world: World):
    troubled(world)
    before = dict(world.store.items)
    told: list[tuple[Listed, AuditFinding]] = []
    counts = by_hand(world, lambda *each: told.append(each), dry=True)
    assert counts == AuditCounts(listed=7, lost=5, stale=1, pending=1)
    assert [each.upload for each, _ in told] == FILES[1:]
    assert {each.upload.key: finding for each, finding in told}[FILES[3].key] is AuditFinding.STALE
    assert world.store.items == before
    assert world.topic.published == []
    assert world.count[Metric.UPLOADS_FOUND_LOST] == 0


def test_a_run_by_hand_sends_and_leaves_the_schedule_alone(world: World):
    troubled(world)
    there = world.ledger.audit(world.flights.place)
    assert by_hand(world, lambda *each: None, dry=False).sent == 6
    assert world.ledger.audit(world.flights.place) == there
    deliver(world)
    assert registered(world) == [each.key for each in FILES]
