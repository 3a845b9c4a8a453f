"""The flow of a backfill: what it sends, in what order it reads, its deaths, twins, and what comes late."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.build import BUCKET, upload, uploads
from tests.support.fakes import Died, Life, every_death, play_publishing, uploads_of
from tests.support.world import World, small_world
from tidegate.core.audit import AuditLimits, Listed
from tidegate.core.backfill import BackfillCounts, BackfillFinding, BackfillScope, compare
from tidegate.core.batches import State
from tidegate.core.errors import Rejected, Retryable
from tidegate.core.lineage import Landed
from tidegate.core.notices import Entry, pack
from tidegate.core.outcomes import Outcome
from tidegate.core.records import batch_key, claim_key
from tidegate.core.uploads import Upload
from tidegate.flows.backfill import (
    ORIGIN_BACKFILL,
    Backfill,
    Surveyings,
    send_missing,
    survey,
    unfinished_uploads,
)
from tidegate.flows.ports import Ports
from tidegate.flows.send import send
from tidegate.settings import DAY, HOUR

LIMITS = AuditLimits(min_age=12 * HOUR, max_age=30 * DAY, every=DAY, horizon=45 * DAY)
FOUND = BackfillFinding


@pytest.fixture
def world() -> World:
    return small_world()


@dataclass
class Ran:
    told: list[tuple[str, str]] = field(default_factory=list)
    paced: list[int] = field(default_factory=list)

    def tell(self, listed: Listed, finding: BackfillFinding) -> None:
        self.told.append((listed.upload.key, finding.value))


def put(world: World, *of: Upload, age: int = 90 * DAY) -> None:
    world.listing.there |= dict.fromkeys(of, world.clock() - age)


def scope_of(world: World, prefix: str = "flights/", **changed: Any) -> BackfillScope:
    return replace(BackfillScope(world.flights, prefix, 0, world.clock() + 1), **changed)


def run(
    world: World,
    *,
    scope: BackfillScope | None = None,
    ports: Ports | None = None,
    ran: Ran | None = None,
    identifier: str = "1",
    dry: bool = False,
) -> BackfillCounts:
    ran = ran or Ran()
    ports = ports or world.ports
    asked = Backfill(identifier, LIMITS, tell=ran.tell, dry=dry)
    scope = scope or scope_of(world)
    kept = Surveyings()
    try:
        found = survey(scope, asked, kept, ports)
        return send_missing(scope, asked, found, kept, ports, pace=ran.paced.append)
    finally:
        kept.close()


def land(world: World) -> None:
    """The topic delivers, and all that has gathered is published, settled, and in the table."""
    for notice in world.topic.published[:]:
        world.dispatch(notice)
    world.topic.published.clear()
    if world.record.open_batch and world.open.notices:
        publish(world, seal(world))


def seal(world: World) -> str:
    batch = world.record.open_batch
    world.clock.advance(HOUR)
    assert world.seal_if_due()
    assert world.hand_off() == 1
    return batch


def publish(world: World, batch: str) -> None:
    snapshot(world, batch)
    play_publishing(world.work, batch)
    world.settle()
    assert world.batch(batch).state is State.COMMITTED


def snapshot(world: World, batch: str) -> None:
    """The rows of a batch are in main."""
    world.lineage.add(world.flights.dataset.table, [item.upload for item in uploads_of(world.work, batch)], batch)


def twice(world: World) -> dict[tuple[str, str, str], int]:
    """The uploads that more than one batch put into the table."""
    times: dict[tuple[str, str, str], int] = {}
    for each in world.lineage.tables.get(world.flights.dataset.table, ()):
        times[each.identity] = times.get(each.identity, 0) + each.rows
    return {identity: count for identity, count in times.items() if count > 1}


def keys(world: World) -> list[str]:
    return sorted(each.key for each in world.lineage.tables.get(world.flights.dataset.table, ()))


def age(world: World, days: int) -> None:
    """Time passes, and DynamoDB deletes what has expired."""
    world.clock.advance(days * DAY)
    for key, item in list(world.store.items.items()):
        expires = item.get("expires_at")
        if isinstance(expires, int) and expires <= world.clock():
            del world.store.items[key]


# ---- what is sent


def test_what_was_there_before_the_deployment_lands_once(world: World):
    old = uploads(5)
    put(world, *old)
    ran = Ran()
    assert run(world, ran=ran).sent == 5
    assert ran.paced == [5]
    land(world)
    assert keys(world) == [each.key for each in old]
    again = run(world, identifier="2")
    assert (again.sent, again.found[FOUND.LANDED]) == (0, 5)


def test_the_notices_name_the_backfill_and_the_time_before_the_claims_were_read(world: World):
    put(world, *uploads(2))
    began = world.clock()
    calls = iter(range(1, 100))
    ports = replace(world.ports, listing=Slow(world, calls))
    run(world, ports=ports, identifier="abc")
    (notice,) = world.topic.published
    assert (notice.origin, notice.at) == (f"{ORIGIN_BACKFILL}-abc", began)
    assert world.clock() > began


@dataclass
class Slow:
    """A listing that takes a while."""

    world: World
    calls: Any

    def page(self, *arguments: Any) -> Any:
        self.world.clock.advance(next(self.calls))
        return self.world.listing.page(*arguments)


def test_a_dry_run_counts_and_sends_nothing(world: World):
    put(world, *uploads(3))
    ran = Ran()
    counts = run(world, ran=ran, dry=True)
    assert (counts.sent, counts.size) == (3, sum(each.size for each in uploads(3)))
    assert ran.paced == world.topic.published == []


def test_many_are_sent_in_portions_at_a_pace(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.backfill.AT_ONCE", 4)
    world.listing.size = 3
    put(world, *uploads(10))
    ran = Ran()
    run(world, ran=ran)
    assert ran.paced == [4, 4, 2]
    assert world.topic.keys == [each.key for each in uploads(10)]


def test_only_what_the_route_takes_under_the_prefix(world: World):
    put(world, upload("flights/a/1.json"), upload("flights/b/1.json"), upload("weather/a.json"))
    run(world, scope=scope_of(world, "flights/a/"))
    assert world.topic.keys == ["flights/a/1.json"]
    assert world.lineage.asked == [(world.flights.dataset.table, f"s3://{BUCKET}/flights/a/")]


def test_nothing_is_sent_if_the_topic_does_not_take_all(world: World):
    put(world, *uploads(1))
    world.topic.accepts = lambda notice: False
    with pytest.raises(Retryable, match="did not take the notices of 1 upload"):
        run(world)


def test_a_reload_sends_what_has_landed_too_and_its_claims_move_once(world: World):
    put(world, *uploads(3))
    run(world, identifier="1")
    land(world)
    put(world, upload("flights/new.json"))
    ran = Ran()
    reloads = replace(scope_of(world), reloads=True)
    found = run(world, scope=reloads, ran=ran, identifier="2")
    assert (found.found[FOUND.RELOADED], found.found[FOUND.MISSING]) == (3, 1)
    fresh, sent = sorted(world.topic.published, key=lambda each: each.reloads)
    assert [each.upload.key for each in fresh.entries] == ["flights/new.json"], "what is missing is no reload"
    assert not fresh.reloads
    assert sent.reloads
    assert len(sent.entries) == 3
    assert all(each.takes_from for each in sent.entries)
    for each in world.topic.published:
        world.dispatch(each)
    world.topic.published.clear()
    again = run(world, scope=reloads, identifier="3")
    assert (again.sent, again.found[FOUND.UNFINISHED]) == (0, 4)
    land(world)
    age(world, 90)
    forgotten = run(world, scope=reloads, identifier="4")
    assert forgotten.found[FOUND.RELOADED] == 4, "also what the ledger has forgotten"
    assert not any(each.takes_from for notice in world.topic.published for each in notice.entries)


# ---- what is not sent


def test_each_upload_with_a_claim_is_told_by_what_the_ledger_says(world: World):
    names = ("committed", "quarantined", "landed", "open", "other")
    found = {name: upload(f"flights/{name}.json") for name in names}
    put(world, *found.values(), age=HOUR)
    for name in ("committed", "quarantined", "landed"):
        world.dispatch(next(pack("flights", BUCKET, [found[name]])))
    batch = seal(world)
    play_publishing(world.work, batch, {found["quarantined"].key: (Outcome.QUARANTINED, "bad")})
    world.settle()
    world.lineage.add(world.flights.dataset.table, [found["landed"]], batch)
    world.dispatch(next(pack("flights", BUCKET, [found["open"]])))
    ran = Ran()
    assert run(world, ran=ran).sent == 1
    assert world.topic.keys == ["flights/other.json"]
    assert sorted(ran.told) == [
        ("flights/committed.json", "committed"),
        ("flights/open.json", "unfinished"),
        ("flights/other.json", "missing"),
        ("flights/quarantined.json", "quarantined"),
    ]


@pytest.mark.parametrize("stage", ["open", "sealed", "running", "aside"])
def test_a_batch_that_outlived_its_claims_is_excluded(world: World, stage: str):
    world = small_world(step_aside=HOUR)
    old = uploads(3)
    put(world, *old)
    world.dispatch(next(pack("flights", BUCKET, old)))
    batch = world.record.open_batch
    if stage != "open":
        world.clock.advance(HOUR)
        assert world.seal_if_due()
    if stage in ("running", "aside"):
        assert world.hand_off() == 1
        world.edit(batch_key(batch), halted="somebody has to look", halted_at=world.clock())
    if stage == "aside":
        world.clock.advance(2 * HOUR)
        world.settle()
        assert world.record.aside == (batch,)
    age(world, 61)
    world.store.items[batch_key(batch)]["expires_at"] = None  # type: ignore[assignment]
    counts = run(world)
    assert (counts.sent, counts.found[FOUND.UNFINISHED]) == (0, 3)


def test_all_routes_batches_are_excluded(world: World):
    """A route was renamed: its predecessor's batch is halted, and has the uploads."""
    old = uploads(2)
    put(world, *old)
    world.dispatch(next(pack("flights", BUCKET, old)))
    scope = scope_of(world, route=replace(world.flights, name="departures"))
    assert unfinished_uploads(scope, world.ports) == {each.identity for each in old}
    assert unfinished_uploads(replace(scope, prefix="flights/zzz"), world.ports) == set()


def test_a_part_that_is_missing_stops_it(world: World):
    world.arrive()
    listed = list(world.work.names("batches/"))
    world.work.objects.clear()
    with pytest.raises(Retryable, match="is listed in the work bucket, and is not there"):
        unfinished_uploads(scope_of(world), replace(world.ports, work=OldWork(world.work, listed)))


@dataclass
class OldWork:
    """A work bucket whose listing is older than its objects."""

    work: Any
    listed: list[str]

    def names(self, prefix: str) -> Any:
        return iter(self.listed)

    def get(self, name: str) -> bytes | None:
        found: bytes | None = self.work.get(name)
        return found


# ---- beside others


def test_a_live_notification_beside_it_lands_once(world: World):
    old = uploads(3)
    put(world, *old)
    run(world)
    world.dispatch(next(pack("flights", BUCKET, old[:2])))
    land(world)
    assert keys(world) == [each.key for each in old]
    assert twice(world) == {}


def test_two_backfills_at_once_land_once(world: World):
    put(world, *uploads(3))
    run(world, identifier="1")
    run(world, identifier="2")
    assert len({notice.id for notice in world.topic.published}) == 2
    land(world)
    assert len(keys(world)) == 3
    assert twice(world) == {}


def test_a_notice_that_is_delivered_after_its_uploads_may_be_forgotten_is_set_aside(world: World):
    """An archive replays it, or a person moves it back: its own record is gone, and so are the claims."""
    put(world, *uploads(2))
    run(world)
    (notice,) = world.topic.published
    land(world)
    assert len(keys(world)) == 2
    age(world, 59)
    world.dispatch(notice)
    age(world, 4)
    with pytest.raises(Rejected, match="longer ago than the ledger remembers"):
        world.dispatch(notice)
    assert not world.record.open_batch


def test_one_of_two_backfills_whose_notice_comes_after_60_days_is_set_aside(world: World):
    put(world, *uploads(2))
    run(world, identifier="1")
    (late,) = world.topic.published
    world.topic.published.clear()
    run(world, identifier="2")
    land(world)
    age(world, 60)
    with pytest.raises(Rejected, match="longer ago than the ledger remembers"):
        world.dispatch(late)


def test_what_was_deleted_from_the_table_lands_again_once_the_ledger_has_forgotten(world: World):
    put(world, *uploads(2))
    run(world)
    land(world)
    world.lineage.tables.clear()
    assert run(world, identifier="2").found == {FOUND.COMMITTED: 2}
    age(world, 62)
    assert run(world, identifier="3").sent == 2
    land(world)
    assert len(keys(world)) == 2


# ---- the order of reading: an upload moves between two steps


def dispatched_late(world: World, old: list[Upload]) -> Callable[[], None]:
    """A notice claimed its uploads 59 days and 22 hours ago, and its message was among the dead letters since. Now
    dispatch registers it. The claims expire soon after."""
    (notice,) = pack("flights", BUCKET, [replace(each, at=world.clock()) for each in old])
    world.ledger.claim(notice)
    world.clock.advance(60 * DAY - 2 * HOUR)
    return lambda: world.dispatch(notice)


def moves(world: World, old: list[Upload], *, expire_early: bool) -> list[Callable[[], Any]]:
    """What becomes of such uploads, one act after the other. A batch may be published before it is settled, and claims
    may expire while it waits for a person."""
    register = dispatched_late(world, old)
    batches: list[str] = []
    submit = [lambda: batches.append(seal(world))]
    expire = [lambda: age(world, 1)]
    end = [
        lambda: snapshot(world, batches[0]),
        lambda: (play_publishing(world.work, batches[0]), world.settle()),
    ]
    return [register, *(expire + submit + end if expire_early else submit + end + expire)]


@dataclass
class Acting:
    """Before a call of a port some acts are done."""

    world: World
    at: dict[int, list[Callable[[], Any]]]
    calls: int = 0
    names: list[str] = field(default_factory=list)

    def over(self, ports: Ports) -> Ports:
        acting = {
            name: _Before(getattr(ports, name), self) for name in ("ledger", "work", "topic", "listing", "lineage")
        }
        return replace(ports, **acting)  # type: ignore[arg-type]

    def step(self, name: str) -> None:
        for act in self.at.get(self.calls, ()):
            act()
        self.calls += 1
        self.names.append(name)


class _Before:
    def __init__(self, port: Any, acting: Acting) -> None:
        self._port, self._acting = port, acting

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self._acting.step(name)
            answer = found(*arguments, **named)
            return iter(list(answer)) if name in ("names", "landed") else answer

        return call


def every_way_to_move(calls: int, acts: int) -> list[tuple[int, ...]]:
    """Before which call each act is done: they are in order, and none is after the last call."""
    ways: list[tuple[int, ...]] = [()]
    for _ in range(acts):
        ways = [(*way, call) for way in ways for call in range(way[-1] if way else 0, calls + 1)]
    return ways


Running = Callable[[World, Ports], Any]


def as_it_is(world: World, ports: Ports) -> None:
    run(world, ports=ports)


def without_the_unfinished(world: World, ports: Ports) -> None:
    play(world, ports, lambda look, unfinished, lineage: (look(), lineage(), set()))


def lineage_before_the_unfinished(world: World, ports: Ports) -> None:
    play(world, ports, lambda look, unfinished, lineage: (look(), lineage(), unfinished()))


def claims_last(world: World, ports: Ports) -> None:
    def ordered(look: Any, unfinished: Any, lineage: Any) -> Any:
        listed, there = unfinished(), lineage()
        return look(), there, listed

    play(world, ports, ordered)


def play(world: World, ports: Ports, ordered: Callable[[Any, Any, Any], tuple[Any, Any, Any]]) -> None:
    """A backfill whose three readings are in another order."""
    scope, asked, kept = scope_of(world), Backfill("1", LIMITS), Surveyings()
    found, there, listed = ordered(
        lambda: survey(scope, asked, kept, ports),
        lambda: unfinished_uploads(scope, ports),
        lambda: list(ports.lineage.landed(scope.route.dataset.table, scope.uri)),
    )
    missing = [each for each, finding in compare(kept, there, listed) if finding is FOUND.MISSING]
    if missing:
        entries = [Entry(each.listed.upload) for each in missing]
        send(scope.route.name, entries, ports, origin=f"{ORIGIN_BACKFILL}-{asked.id}", at=found.at)


def played(way: tuple[int, ...], running: Running, *, expire_early: bool) -> World:
    world = small_world()
    old = uploads(2)
    put(world, *old)
    acts = moves(world, old, expire_early=expire_early)
    at: dict[int, list[Callable[[], Any]]] = {}
    for call, act in zip(way, acts, strict=True):
        at.setdefault(call, []).append(act)
    acting = Acting(world, at)
    running(world, acting.over(world.ports))
    for call in sorted(call for call in at if call >= acting.calls):
        for act in at[call]:
            act()
    land(world)
    return world


def every_world(running: Running) -> Iterator[World]:
    """Every way in which five acts may fall between the calls of a backfill."""
    acting = Acting(small_world(), {})
    put(acting.world, *uploads(2))
    acting.world.dispatch(next(pack("flights", BUCKET, uploads(1, "flights/other-"))))
    running(acting.world, acting.over(acting.world.ports))
    yield from (
        played(way, running, expire_early=early)
        for early in (False, True)
        for way in every_way_to_move(acting.calls, 5)
    )


def test_an_upload_that_moves_on_while_it_is_looked_for_lands_once():
    played = 0
    for world in every_world(as_it_is):
        assert twice(world) == {}
        assert len(keys(world)) == 2
        played += 1
    assert played > 1_000


@pytest.mark.parametrize("running", [without_the_unfinished, lineage_before_the_unfinished, claims_last])
def test_in_any_other_order_it_would_land_twice(running: Running):
    assert any(twice(world) for world in every_world(running))


# ---- deaths


def test_a_backfill_that_dies_anywhere_is_run_again():
    alive = Life()
    whole = small_world()
    put(whole, *uploads(3))
    run(whole, ports=alive.over(whole.ports))
    for life in every_death(alive.made):
        world = small_world()
        put(world, *uploads(3))
        with pytest.raises(Died):
            run(world, ports=life.over(world.ports))
        run(world, identifier="2")
        land(world)
        assert len(keys(world)) == 3, life.last
        assert twice(world) == {}, life.last


def test_one_whose_notices_were_claimed_before_it_died_sends_the_rest(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.backfill.AT_ONCE", 2)
    put(world, *uploads(5))
    world.topic.accepts = lambda notice: len(world.topic.published) < 2
    with pytest.raises(Retryable):
        run(world)
    for notice in world.topic.published:
        world.dispatch(notice)
    world.topic.accepts = lambda notice: True
    world.topic.published.clear()
    assert run(world, identifier="2").sent == 1
    land(world)
    assert len(keys(world)) == 5
    assert twice(world) == {}


def test_the_claims_of_the_ledger_are_read_whole(world: World):
    """A claim that has expired is none, deleted or not."""
    (one,) = uploads(1)
    put(world, one)
    world.ledger.claim(next(pack("flights", BUCKET, [one])))
    assert run(world).sent == 0
    world.clock.advance(61 * DAY)
    assert claim_key(*one.identity) in world.store.items
    assert run(world).sent == 1


def test_rows_of_a_batch_of_another_tool_count_as_landed(world: World):
    (one,) = uploads(1)
    put(world, one)
    world.lineage.tables[world.flights.dataset.table] = [Landed(one.bucket, one.key, "", "", 3)]
    assert run(world).found == {FOUND.LANDED: 1}
