"""The ledger of a small world is compared with what its table holds."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tests.support.build import BUCKET
from tests.support.fakes import Life, play_fencing, play_publishing, takes, uploads_of
from tests.support.ledgers import RETENTION
from tests.support.world import World, small_world
from tidegate.core.batches import State, oldest_remembered
from tidegate.core.lineage import Landed
from tidegate.core.manifests import floor_name
from tidegate.core.outcomes import Outcome
from tidegate.core.publication import Floor, History, Snapshot
from tidegate.core.receipts import encode_floor
from tidegate.core.reconcile import Holding, TableDifference
from tidegate.core.records import DAY
from tidegate.core.replacing import HeldRows
from tidegate.flows import reconcile as reconciling
from tidegate.flows.reconcile import Reconciled, TableFinding, reconcile
from tidegate.wiring import made_at, smallest_id

TABLE = "lake.raw.flights"
OTHER = "lake.raw.weather"
ROWS = 2


@dataclass
class Game:
    """A world whose batch ids tell their time, and whose jobs put rows into the table."""

    world: World

    def published(self, prefix: str, *, quarantined: tuple[str, ...] = ()) -> str:
        """A batch of three uploads with two rows each; not settled."""
        batch = self.world.submitted(prefix=f"flights/{prefix}")
        ends = {key: (Outcome.QUARANTINED, "no") for key in quarantined}
        play_publishing(self.world.work, batch.id, ends, rows=ROWS)
        landed = [each.upload for each in uploads_of(self.world.work, batch.id) if each.upload.key not in quarantined]
        self.world.lineage.add(TABLE, landed, batch.id, ROWS)
        return batch.id

    def settled(self, prefix: str, **named: tuple[str, ...]) -> str:
        batch = self.published(prefix, **named)
        self.settle(batch)
        return batch

    def settle(self, batch: str) -> None:
        self.world.jobs.end(batch, 1)
        assert self.world.settle() == []
        assert self.world.batch(batch).state is State.COMMITTED

    @property
    def oldest(self) -> str:
        return smallest_id(oldest_remembered(self.world.clock(), RETENTION))

    def rows(self, *batches: str) -> list[Landed]:
        return [each for each in self.world.lineage.tables[TABLE] if each.batch in batches]

    def remove(self, landed: Landed) -> None:
        self.world.lineage.tables[TABLE].remove(landed)

    def reconcile(self, life: Life | None = None, route: str | None = None) -> Reconciled:
        ports = life.over(self.world.ports) if life else self.world.ports
        return reconcile(ports, configured=self.world.routes, oldest=self.oldest, made_at=made_at, route=route)


@pytest.fixture
def game() -> Game:
    world = small_world(max_wait=300, in_flight=9, attempts=3)
    world.clock.now = 1_800_000_000

    def new_id() -> str:
        world.clock.advance(10)
        return smallest_id(world.clock())

    world.new_id = new_id  # type: ignore[method-assign]
    return Game(world)


def only(done: Reconciled) -> TableFinding:
    (found,) = done.findings
    return found


def test_what_is_committed_and_there_is_no_finding(game: Game):
    for prefix in ("a", "b"):
        game.settled(prefix)
    game.settled("c", quarantined=("flights/c0000-00000.json",))
    done = game.reconcile()
    assert (done.holds, done.committed, done.rows, done.pending) == (True, 3, 8 * ROWS, 0)
    assert done.tables == {TABLE: Holding(8, 8 * ROWS), OTHER: Holding()}


def test_a_batch_whose_rows_are_gone_is_missing(game: Game):
    game.settled("a")
    gone = game.settled("b")
    for landed in game.rows(gone):
        game.remove(landed)
    found = only(game.reconcile())
    assert found == TableFinding(
        TableDifference.MISSING, "flights", TABLE, gone, ledger=Holding(3, 3 * ROWS), table=Holding(0, 0)
    )
    assert f"tidegate resend {gone}" in found.advice


def test_a_table_that_is_gone_holds_nothing(game: Game):
    gone = [game.settled("a"), game.settled("b")]
    del game.world.lineage.tables[TABLE]
    assert [each.batch for each in game.reconcile().findings] == gone


def test_both_numbers_of_a_batch_with_fewer_or_more_rows_are_told(game: Game):
    batch = game.settled("a")
    (first, *_) = game.rows(batch)
    game.remove(first)
    found = only(game.reconcile())
    assert (found.difference, found.ledger.rows, found.table.rows) == (TableDifference.FEWER, 6, 4)
    game.world.lineage.tables[TABLE].append(replace(first, rows=3))
    found = only(game.reconcile())
    assert (found.difference, found.ledger, found.table) == (TableDifference.MORE, Holding(3, 6), Holding(3, 7))
    assert "republish" not in found.advice


def test_a_batch_that_settling_has_not_recorded_is_pending(game: Game):
    game.published("a")
    done = game.reconcile()
    assert (done.holds, done.pending, done.committed) == (True, 1, 0)


def test_rows_of_a_batch_that_was_given_up_or_is_open_or_unknown(game: Game):
    world = game.world
    fenced = world.submitted(prefix="flights/a")
    play_fencing(world.work, fenced.id)
    world.jobs.end(fenced.id, 1)
    assert world.settle() == []
    world.arrive(prefix="flights/b")
    unknown = smallest_id(world.clock() + 1)
    forgotten = smallest_id(world.clock() - 90 * DAY)
    for batch in (fenced.id, world.open.id, unknown, forgotten, "import-7"):
        world.lineage.tables.setdefault(TABLE, []).append(Landed(BUCKET, f"flights/{batch}", "v1", batch, 1))
    done = game.reconcile()
    assert {(each.batch, each.difference) for each in done.findings} == {
        (fenced.id, TableDifference.NOT_COMMITTED),
        (world.open.id, TableDifference.NOT_COMMITTED),
        (unknown, TableDifference.UNKNOWN),
    }
    assert (done.forgotten, done.strangers) == (1, 1)


def test_objects_with_rows_of_several_versions_are_counted_once_and_no_difference(game: Game):
    one, _ = game.settled("a"), game.settled("b")
    assert game.reconcile().several == {TABLE: 0, OTHER: 0}
    first, second, _ = game.rows(one)
    # what another tool wrote is in the table, too; of rows without a version nobody knows which they are of
    game.world.lineage.tables[TABLE] += [
        replace(second, version="v2", batch="import"),
        replace(second, version="v3", batch="import"),
        replace(first, version="", batch="import"),
    ]
    done = game.reconcile()
    assert (done.holds, done.several, done.example) == (True, {TABLE: 1, OTHER: 0}, f"s3://{BUCKET}/{second.key}")


def test_an_upload_in_two_batches_is_there_twice(game: Game):
    one, other = game.settled("a"), game.settled("b")
    same = game.rows(one)[:2]
    for landed in same:
        game.world.lineage.tables[TABLE].append(replace(landed, batch=other))
    twice, more = game.reconcile().findings
    assert (twice.difference, twice.batch, twice.other) == (TableDifference.TWICE, one, other)
    assert (twice.table, twice.example) == (Holding(2, 4), f"s3://{BUCKET}/{same[0].key} (v1)")
    assert (more.difference, more.batch) == (TableDifference.MORE, other)


def test_rows_without_a_version_do_not_say_that_an_upload_is_there_twice(game: Game):
    for batch in ("import-1", "import-2"):
        game.world.lineage.tables.setdefault(TABLE, []).append(Landed(BUCKET, "flights/a", "", batch, 1))
    assert game.reconcile().holds


def test_a_batch_that_commits_while_it_is_compared_is_no_finding_whenever_that_is(game: Game):
    """Published and settled before each call that it makes, together and one after the other."""
    game.settled("a")
    whole = Life()
    assert game.reconcile(whole).holds
    assert {"folders", "batches", "with_history"} <= set(whole.names)
    for call in range(1, whole.made + 1):
        done = game.reconcile(Life(call, before=lambda call=call: game.settled(f"x{call}-")))
        assert done.holds, (call, whole.names[call - 1], done.findings)
    for call in range(1, whole.made + 1):
        begun = game.published(f"y{call}-")
        done = game.reconcile(Life(call, before=lambda begun=begun: game.settle(begun)))
        assert done.holds, (call, whole.names[call - 1], done.findings)


def test_only_the_named_route(game: Game):
    gone = game.settled("a")
    game.world.lineage.tables = {}
    unknown = smallest_id(game.world.clock() + 1)
    game.world.lineage.tables = {OTHER: [Landed(BUCKET, "weather/a", "v1", unknown, 1)]}
    assert {each.batch for each in game.reconcile().findings} == {gone, unknown}
    assert only(game.reconcile(route="flights")).batch == gone
    assert only(game.reconcile(route="weather")).batch == unknown


def test_another_route_of_the_same_table_is_not_compared(game: Game):
    batch = game.settled("a")
    game.remove(game.rows(batch)[0])
    routes = game.world.routes
    shared = replace(routes["weather"], dataset=routes["flights"].dataset)
    done = reconcile(
        game.world.ports,
        configured={**routes, "weather": shared},
        oldest=game.oldest,
        made_at=made_at,
        route="weather",
    )
    assert (done.holds, done.committed, done.tables) == (True, 0, {TABLE: Holding(2, 4)})


def test_a_batch_is_looked_for_in_the_table_that_it_was_sealed_for(game: Game):
    batch = game.settled("a")
    flights = game.world.flights
    game.world.flights = replace(flights, dataset=replace(flights.dataset, table="lake.raw.moved"))
    done = game.reconcile()
    assert (done.holds, done.committed) == (True, 1)
    assert set(done.tables) == {TABLE, OTHER, "lake.raw.moved"}
    assert game.world.batch(batch).table == TABLE


def test_headers_are_read_by_the_hundred_and_no_claim_is(game: Game, monkeypatch: pytest.MonkeyPatch):
    for number in range(5):
        game.settled(f"a{number}")
    monkeypatch.setattr(reconciling, "HEADERS", 2)
    life = Life()
    assert game.reconcile(life).committed == 5
    assert life.names.count("batches") == 3
    assert not {"claims", "claims_on", "notices", "batch"} & set(life.names)


def test_it_tells_how_far_it_is(game: Game, monkeypatch: pytest.MonkeyPatch):
    game.settled("a")
    monkeypatch.setattr(reconciling, "TOLD_EVERY", 2)
    said: list[str] = []
    tell: Callable[[str], None] = said.append
    reconcile(game.world.ports, configured=game.world.routes, oldest=game.oldest, made_at=made_at, tell=tell)
    assert said == ["1 committed batches, 0 abandoned ones", f"table {TABLE}: 2 uploads read"]


# ---- fences


def given_up(game: Game, floors: int = 0, prefix: str = "f") -> str:
    """An abandoned batch with a floor, and more of them if a person has decided."""
    batch = game.world.submitted(prefix=f"flights/{prefix}").id
    for number in range(floors + 1):
        game.world.work.put(f"batches/{batch}/{floor_name(number)}", encode_floor(Floor("u", 10 + number)))
    play_fencing(game.world.work, batch)
    game.world.jobs.end(batch, 1)
    assert game.world.settle() == []
    assert game.world.batch(batch).state is State.ABANDONED
    return batch


def line(*snapshots: Snapshot, uuid: str = "u") -> History:
    return History(uuid, snapshots)


@pytest.mark.parametrize("floors", [0, 1])
def test_an_abandoned_batch_whose_fence_is_gone_is_found_and_its_job_runs_are_named(game: Game, floors: int):
    batch = given_up(game, floors)
    fence, begun, first = Snapshot(12, 11, frozenset({batch})), Snapshot(11, 10), Snapshot(10, None)
    game.world.lineage.histories[TABLE] = line(fence, begun, first)
    done = game.reconcile()
    assert (done.holds, done.abandoned) == (True, 1)
    game.world.lineage.histories[TABLE] = line(begun, first)
    found = only(game.reconcile())
    assert (found.difference, found.batch, found.route) == (TableDifference.NOT_FENCED, batch, "flights")
    assert f"flights-{batch}-1" in found.advice


def test_every_floor_of_an_abandoned_batch_is_asked(game: Game):
    """A person decided twice, and the history has lost the first floor since: a driver of the last one may publish."""
    batch = given_up(game, floors=2)
    game.world.lineage.histories[TABLE] = line(Snapshot(12, 11))
    found = only(game.reconcile())
    assert (found.difference, found.batch) == (TableDifference.NOT_FENCED, batch)


def test_what_no_driver_can_publish_needs_no_fence(game: Game):
    batch = given_up(game)
    histories = {
        "its floor is gone, too: expired": line(Snapshot(14, 13), Snapshot(13, 12)),
        "it was rolled back below the floor": line(Snapshot(9, None)),
        "another table of that name": line(Snapshot(10, None), uuid="other"),
        "no table": line(uuid=""),
        "its floor has expired, its fence has not": line(Snapshot(13, 12), Snapshot(12, 11, frozenset({batch}))),
    }
    for why, history in histories.items():
        game.world.lineage.histories[TABLE] = history
        assert game.reconcile().holds, why


def test_a_batch_that_is_given_up_while_it_is_compared_is_no_finding_whenever_that_is(game: Game):
    game.settled("a")
    begun, first = Snapshot(11, 10), Snapshot(10, None)
    whole = Life()
    game.world.lineage.histories[TABLE] = line(begun, first)
    assert game.reconcile(whole).holds
    above = [begun, first]

    def give_up() -> None:
        batch = given_up(game, prefix=f"g{len(above)}-")
        above.insert(0, Snapshot(above[0].id + 1, above[0].id, frozenset({batch})))
        game.world.lineage.histories[TABLE] = line(*above)

    for call in range(1, whole.made + 1):
        done = game.reconcile(Life(call, before=give_up))
        assert done.holds, (call, whole.names[call - 1], done.findings)
    assert game.reconcile().abandoned == whole.made


def took(game: Game, prefix: str, before: str) -> str:
    """A batch for which all rows of `before` have left the table."""
    batch, gone = game.published(prefix), game.rows(before)
    takes(game.world.work, batch, [HeldRows(f"s3://{e.bucket}/{e.key}", e.version, before, e.rows) for e in gone])
    for each in gone:
        game.remove(each)
    game.settle(batch)
    return batch


@pytest.mark.parametrize("expired", [True, False])
def test_what_was_replaced_again_and_again_is_no_finding(game: Game, expired: bool):
    """Also if no snapshot tells of it any more."""
    first = game.settled("a")
    second = took(game, "b", first)
    third = took(game, "c", second)
    if not expired:
        line = [Snapshot(n, n - 1, frozenset({b}), 76, adds=True, removes=True) for n, b in ((9, third), (8, second))]
        game.world.lineage.histories[TABLE] = History("u", tuple(line))
    assert game.reconcile().findings == []


def test_a_batch_that_commits_meanwhile_and_has_given_way_is_no_finding(game: Game):
    game.settled("a")
    second = game.published("b")
    gone = game.rows(second)[:1]
    third = game.published("c")
    takes(game.world.work, third, [HeldRows(f"s3://{e.bucket}/{e.key}", e.version, second, e.rows) for e in gone])
    game.remove(gone[0])
    line = [Snapshot(9, 8, frozenset({third}), 76, adds=True, removes=True)]
    game.world.lineage.histories[TABLE] = History("u", tuple(line))
    real = game.world.lineage.with_history

    def meanwhile(table, prefix=""):
        found = real(table, prefix)
        if table == TABLE:
            for each in (second, third):
                game.settle(each)
        return found

    game.world.lineage.with_history = meanwhile
    assert game.reconcile().findings == []


def test_a_rollback_past_deletions_names_their_batch(game):
    """It has no rows that could be missing."""
    first = game.settled("a")
    rows = game.rows(first)
    batch = game.world.submitted(prefix="flights/b").id
    play_publishing(game.world.work, batch, rows=0)
    takes(game.world.work, batch, [HeldRows(f"s3://{e.bucket}/{e.key}", e.version, first, e.rows) for e in rows])
    game.settle(batch)
    game.world.lineage.histories[TABLE] = History("u", (Snapshot(7, 6, frozenset({first}), 76, adds=True),))
    (found,) = game.reconcile().findings
    assert (found.difference, found.batch) == (TableDifference.MISSING, batch)
    assert f"tidegate resend {batch}" in found.advice


@pytest.mark.parametrize("undone", [1, 2])
def test_of_deletions_a_rollback_undoes_the_latest_whatever_else_gave_way(game, undone: int):
    """Another file of the same batch was corrected, and stays so."""
    first = game.settled("a")
    rows = game.rows(first)
    corrected, *deleted = rows
    assert len(deleted) >= 2
    second = game.published("b")
    takes(game.world.work, second, [held_of(corrected, first)])
    game.remove(corrected)
    game.settle(second)
    batches = [deletes(game, "c", deleted[0], first), deletes(game, "d", deleted[1], first)]
    for each in deleted[: 2 - undone]:
        game.remove(each)
    game.world.lineage.histories[TABLE] = History(
        "u", (Snapshot(7, 6, frozenset({second}), 76, adds=True, removes=True),)
    )
    found = game.reconcile().findings
    assert [(each.difference, each.batch) for each in found] == [
        (TableDifference.MISSING, each) for each in batches[2 - undone :]
    ]


def held_of(row, batch: str) -> HeldRows:
    return HeldRows(f"s3://{row.bucket}/{row.key}", row.version, batch, row.rows)


def deletes(game, name: str, row, batch: str) -> str:
    """A batch of a deletion, for which these rows of `batch` leave the table."""
    of = game.world.submitted(prefix=f"flights/{name}").id
    play_publishing(game.world.work, of, rows=0)
    takes(game.world.work, of, [held_of(row, batch)])
    game.settle(of)
    return of
