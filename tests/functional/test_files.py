"""The files, a page at a time: each upload once, with what became of it, and at a bounded price."""

from dataclasses import replace

import pytest

from tests.functional.test_resend import deliver
from tests.support.build import BUCKET, notice, upload
from tests.support.fakes import play_fencing, play_publishing, takes
from tests.support.ledgers import RETENTION
from tests.support.past import DatedWorld, asked_of, dated_world
from tidegate import wiring
from tidegate.core.batches import Wish
from tidegate.core.file_states import FILE_STATES
from tidegate.core.manifests import batch_folder, outcomes_name
from tidegate.core.outcomes import Outcome, Tally
from tidegate.core.receipts import Ending, Outcomes, decode_outcomes, decode_receipt
from tidegate.core.replacing import HeldRows
from tidegate.flows import files as files_of
from tidegate.flows.abort import abort
from tidegate.flows.batch_list import Wanted
from tidegate.flows.files import MOST_READ, FilesPage, Spot, WantedFiles, files_page, files_within, spot
from tidegate.flows.landed_versions import Left
from tidegate.flows.nearest import nearest
from tidegate.flows.quarantine import EVERYTHING, quarantined
from tidegate.flows.resend import release, reload_batch
from tidegate.flows.trace import landed_beside, trace

IDS = wiring.BATCH_IDS
KEYS = [f"flights/0000-{number:05}.json" for number in range(3)]
BAD = (Outcome.QUARANTINED, "line 3: 'x' is no INT")


@pytest.fixture
def world() -> DatedWorld:
    return dated_world()


ANY = WantedFiles()


def page(world: DatedWorld, wanted: WantedFiles = ANY, after: Spot | None = None, limit: int = 100) -> FilesPage:
    return files_page(world.ports, IDS, wanted, after=after, limit=limit)


def told(found: FilesPage) -> list[tuple[str, str, int | None]]:
    return [(each.upload.key, each.state.outcome, each.rows) for each in found.files]


def test_a_deployment_that_never_saw_an_upload(world: DatedWorld):
    assert page(world) == FilesPage((), None)


def test_files_are_listed_with_what_became_of_them(world: DatedWorld):
    ends = {KEYS[0]: BAD, KEYS[1]: (Outcome.VANISHED, "deleted before it was read")}
    batch = world.land(ends=ends, rows=7)
    found = page(world)
    assert told(found) == [(KEYS[0], "quarantined", None), (KEYS[1], "vanished", None), (KEYS[2], "committed", 7)]
    assert [each.state.error for each in found.files] == [BAD[1], "deleted before it was read", ""]
    assert {(each.batch.id, each.batch.snapshot) for each in found.files} == {(batch, 77)}
    assert all(each.claimed_at for each in found.files)
    assert (found.after, found.troubles) == (None, ())


def test_rows_are_known_of_each_upload_of_a_batch_of_several_notices(world: DatedWorld):
    world.arrive(2, notices=3)
    batch = world.open
    world.ledger.seal(batch.id, "flights", "lake.raw.flights")
    world.hand_off()
    play_publishing(world.work, batch.id, {"flights/0001-00000.json": BAD}, rows=5)
    world.settle()
    rows = {each.upload.key: each.rows for each in page(world).files}
    assert rows.pop("flights/0001-00000.json") is None
    assert set(rows.values()) == {5}
    assert len(rows) == 5


def without_rows(world: DatedWorld, batch: str) -> None:
    """As versions before wrote the outcomes."""
    staged = decode_receipt(world.work.objects[batch_folder(batch) + "receipt.json"]).staged
    name = f"{batch_folder(batch)}outcomes/{staged}.jsonl.gz"
    was = decode_outcomes(world.work.objects[name])
    world.work.objects[name] = Outcomes(was.staged, was.fence, was.tally, was.endings, was.manifest).encode()


def test_rows_that_nobody_wrote_are_left_out(world: DatedWorld):
    without_rows(world, world.land())
    assert [each.rows for each in page(world).files] == [None, None, None]


def test_of_the_only_committed_upload_of_a_batch_the_batch_says_it(world: DatedWorld):
    without_rows(world, world.land(ends=dict.fromkeys(KEYS[:2], BAD), rows=4))
    assert [each.rows for each in page(world).files] == [None, None, 4]


def test_rows_of_another_manifest_are_not_taken(world: DatedWorld):
    batch = world.submitted()
    play_publishing(world.work, batch.id)
    staged = decode_receipt(world.work.objects[batch_folder(batch.id) + "receipt.json"]).staged
    name = f"{batch_folder(batch.id)}outcomes/{staged}.jsonl.gz"
    world.settle()
    world.work.objects[name] = Outcomes(staged, False, Tally(3, rows=3), (), "another", ((1, 1, 1),)).encode()
    assert [each.rows for each in page(world).files] == [None, None, None]


def test_what_is_under_way_is_pending_and_says_why_its_batch_halted(world: DatedWorld):
    batch = world.submitted()
    world.arrive(prefix="flights/next-")
    found = page(world)
    assert [outcome for _, outcome, _ in told(found)] == ["pending"] * 6
    assert [each.batch.state for each in found.files] == ["OPEN"] * 3 + ["SUBMITTED"] * 3
    world.ledger.halt(batch.id, 1, "no such column")
    assert page(world).files[-1].state.error == "no such column"


def test_a_part_that_was_not_registered_is_not_listed(world: DatedWorld):
    world.arrive()
    (name,) = world.parts(world.open.id)
    body = world.work.objects[batch_folder(world.open.id) + name]
    world.work.put(f"{batch_folder(world.open.id)}parts/{'0' * 40}-dead.jsonl.gz", body)
    assert len(page(world).files) == 3


def test_an_upload_that_came_back_is_listed_once_with_its_last_batch(world: DatedWorld):
    world.land(ends={KEYS[0]: BAD})
    release(list(quarantined("flights", EVERYTHING, world.ports)), world.ports, run="r", configured=world.routes)
    deliver(world)
    found = [each for each in page(world).files if each.upload.key == KEYS[0]]
    assert [(each.state.outcome, each.batch.id) for each in found] == [("pending", world.open.id)]
    assert page(world, WantedFiles(outcome="quarantined")).files == ()


def test_abandoned_uploads_are_pending_until_they_are_dropped(world: DatedWorld):
    batch = world.submitted()
    abort(batch.id, world.ports)
    world.settle()
    play_fencing(world.work, batch.id)
    world.settle()
    assert [outcome for _, outcome, _ in told(page(world, WantedFiles(outcome="pending")))] == ["pending"] * 3
    abort(batch.id, world.ports, Wish.DROP)
    world.settle()
    assert page(world, WantedFiles(outcome="pending")).files == ()
    assert [outcome for _, outcome, _ in told(page(world, WantedFiles(outcome="dropped")))] == ["dropped"] * 3


def test_each_outcome_can_be_asked_for_and_they_are_all(world: DatedWorld):
    world.land(ends={KEYS[0]: BAD, KEYS[1]: (Outcome.SUPERSEDED, "overwritten"), KEYS[2]: (Outcome.VANISHED, "gone")})
    world.land("flights/second-")
    world.submitted(prefix="flights/third-")
    by_outcome = {outcome: told(page(world, WantedFiles(outcome=outcome))) for outcome in FILE_STATES}
    assert {outcome: len(found) for outcome, found in by_outcome.items()} == {
        **{"committed": 3, "quarantined": 1, "superseded": 1, "vanished": 1, "present": 0, "dropped": 0, "pending": 3}
    }
    assert sorted(each for found in by_outcome.values() for each in found) == sorted(told(page(world)))


def test_keys_and_times_select(world: DatedWorld):
    world.land()
    world.clock.advance(7_200)
    since = world.clock.now
    world.land("flights/late-")
    assert [key for key, *_ in told(page(world, WantedFiles(key="*-00001.json")))] == [
        "flights/late-0000-00001.json",
        KEYS[1],
    ]
    assert len(page(world, WantedFiles(Wanted("flights", since=since))).files) == 3
    assert page(world, WantedFiles(Wanted("weather"))).files == ()


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("outcome", ["", "committed", "quarantined", "pending"])
def test_pages_follow_each_other_without_gap_or_repeat(limit: int, outcome: str):
    world = dated_world()
    for number in range(3):
        prefix = f"flights/{number}-"
        ends = {f"{prefix}0000-0000{each}.json": BAD for each in range(number)}
        world.land(prefix, ends)
        world.clock.advance(600)
    world.arrive(2, prefix="flights/open-", notices=3)
    wanted = WantedFiles(outcome=outcome)
    whole = told(page(world, wanted))
    seen: list[tuple[str, str, int | None]] = []
    after: Spot | None = None
    for _ in range(40):
        found = page(world, wanted, after, limit)
        assert len(found.files) <= limit
        seen += told(found)
        after = found.after
        if after is None:
            break
        assert spot(str(after)) == after
    assert after is None
    assert seen == whole
    assert whole


def test_a_batch_that_is_sealed_between_two_pages_goes_on_where_it_was(world: DatedWorld):
    world.arrive(2, notices=4)
    whole = told(page(world))
    first = page(world, limit=3)
    world.ledger.seal(world.open.id, "flights", "lake.raw.flights")
    world.hand_off()
    assert [*told(first), *told(page(world, after=first.after))] == whole


@pytest.mark.parametrize("text", ["a:b", "a:b:c", "a:b:1:2", "a:b:-1"])
def test_what_is_no_spot_is_refused(text: str):
    with pytest.raises(ValueError, match=r"int|unpack|a:b"):
        spot(text)


def test_a_part_or_outcomes_that_are_missing_are_told(world: DatedWorld):
    batch = world.land(ends={KEYS[0]: BAD})
    part = f"{batch_folder(batch)}{world.parts(batch)[0]}"
    del world.work.objects[part]
    (trouble,) = page(world).troubles
    assert "parts/" in trouble
    del world.work.objects[batch_folder(batch) + "receipt.json"]
    found = page(world, WantedFiles(outcome="quarantined"))
    assert found.files == ()
    assert f"batch {batch}: its receipt or its outcomes are missing" in found.troubles[0]


def test_an_upload_whose_claim_has_expired_is_told_by_its_batch(world: DatedWorld):
    batch = world.submitted()
    world.clock.advance(RETENTION)
    play_publishing(world.work, batch.id, {KEYS[0]: BAD})
    world.settle()
    world.clock.advance(3_600)
    found = page(world)
    assert told(found)[:2] == [(KEYS[0], "quarantined", None), (KEYS[1], "committed", 1)]
    assert found.files[0].claimed_at == 0


# ---- what a page costs


def test_a_page_costs_the_same_however_long_the_history_is():
    costs = []
    for batches in (30, 300):
        world = dated_world()
        for number in range(batches):
            world.land(f"flights/{number}-")
            world.clock.advance(60)
        ports, asked = asked_of(world)
        assert len(files_page(ports, IDS, WantedFiles(), limit=20).files) == 20
        costs.append(dict(asked))
    # seven batches of three: of each manifest, receipt, outcomes and one part; then the claims, together
    assert costs[0] == costs[1] == {"folders": 1, "get_many": 2, "get": 4 * 7}


def test_what_is_in_quarantine_is_found_without_reading_what_is_not(world: DatedWorld):
    world.land(ends={KEYS[0]: BAD})
    for number in range(50):
        world.clock.advance(60)
        world.land(f"flights/{number}-")
    ports, asked = asked_of(world)
    assert len(files_page(ports, IDS, WantedFiles(outcome="quarantined"), limit=20).files) == 1
    # two files of the work bucket
    assert asked["get"] == 2
    # it is the only one, so the look goes back to the end of the ledger's memory
    assert asked["folders"] <= 7
    # with the route's record, for batches that are older than that
    assert asked["get_many"] <= 5


def test_a_single_upload_costs_its_manifest_and_its_part(world: DatedWorld):
    world.dispatch(notice(upload("flights/alone.json")))
    batch = world.open
    world.ledger.seal(batch.id, "flights", "lake.raw.flights")
    world.hand_off()
    play_publishing(world.work, batch.id, rows=9)
    world.settle()
    ports, asked = asked_of(world)
    (found,) = files_page(ports, IDS, WantedFiles(), limit=1).files
    assert (found.rows, asked["get"]) == (9, 2)


def test_a_page_that_would_read_too_much_ends_early_and_goes_on_there(world: DatedWorld):
    for number in range(12):
        world.land(f"flights/{number}-")
        world.clock.advance(60)
    wanted = WantedFiles(key="flights/0-*")
    seen, after = [], None
    for pages in range(1, 20):  # noqa: B007
        found = files_page(world.ports, IDS, wanted, after=after, limit=20, most_read=10)
        assert found.read <= 10
        seen += told(found)
        after = found.after
        if after is None:
            break
    assert [key for key, *_ in seen] == [f"flights/0-0000-0000{number}.json" for number in range(3)]
    assert pages > 3
    assert MOST_READ >= 10


def test_a_page_reads_no_more_claims_than_it_may(world: DatedWorld, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.files.MOST_CLAIMS", 2)
    monkeypatch.setattr("tidegate.flows.files.TOGETHER", 2)
    batch = world.submitted().id
    abort(batch, world.ports)
    world.settle()
    play_fencing(world.work, batch)
    world.settle()
    ports, asked = asked_of(world)
    wanted = WantedFiles(outcome="dropped")
    found = files_page(ports, IDS, wanted, limit=20)
    assert (found.files, found.after and found.after.number, asked["get_many"]) == ((), 1, 2)
    found = files_page(world.ports, IDS, wanted, after=found.after, limit=20)
    assert (found.files, found.after) == ((), None)


# ---- the nearest keys


def test_the_nearest_keys_of_the_newest_files_are_named_at_a_small_price():
    world = dated_world()
    for number in range(60):
        world.land(f"flights/2013/{number:02}/")
        world.clock.advance(60)
    ports, asked = asked_of(world)
    assert nearest(BUCKET, "flights/2013/59/0000-0001.json", "flights", ports, IDS)[0] == (
        "flights/2013/59/0000-00001.json"
    )
    assert sum(asked.values()) <= 20 + 5
    assert nearest(BUCKET, "nothing like it", "flights", world.ports, IDS) == []
    assert nearest("elsewhere", "flights/2013/59/0000-0001.json", "flights", world.ports, IDS) == []


def test_other_versions_are_asked_for_once_for_each_object_of_the_page_and_of_a_hundred_at_most(
    world: DatedWorld, monkeypatch: pytest.MonkeyPatch
):
    world.land(ends={KEYS[2]: BAD})
    ports, without = asked_of(world)
    files_page(ports, IDS, ANY, limit=20)
    ports, asked = asked_of(world)
    found = files_within(ports, IDS, ANY, limit=20)
    # what is in quarantine has landed in no version that the page could count
    assert ([each.versions for each in found.files], asked - without) == ([1, 1, None], {"query": 2})
    monkeypatch.setattr("tidegate.flows.landed_versions.MOST_ASKED", 1)
    ports, asked = asked_of(world)
    found = files_within(ports, IDS, ANY, limit=20)
    assert ([each.versions for each in found.files], asked - without) == ([1, None, None], {"query": 1})


def test_a_version_that_has_landed_long_before_is_counted_and_one_that_waits_is_not(world: DatedWorld):
    world.land()
    for number in range(30):
        world.clock.advance(60)
        world.land(f"flights/{number}-")
    world.dispatch(notice(upload(KEYS[0], "corrected")))
    batch = world.open.id
    assert files_within(world.ports, IDS, ANY, limit=1).files[0].versions is None
    old = files_within(world.ports, IDS, WantedFiles(key=KEYS[0], outcome="committed"), limit=1).files[0]
    assert (old.upload.version, old.versions) == ("v1", 1)
    world.ledger.seal(batch, "flights", "lake.raw.flights")
    world.hand_off()
    play_publishing(world.work, batch)
    world.settle()
    ports, asked = asked_of(world)
    new = files_within(ports, IDS, ANY, limit=1).files[0]
    assert (new.upload.version, new.versions) == ("corrected", 2)
    # the notices and the batches of both, together
    assert (asked["query"], asked["get_many"]) == (1, 4)


def test_what_has_left_the_table_says_for_what_and_when(world: DatedWorld, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files_of, "keeps_latest_only", lambda batch: True)
    monkeypatch.setattr("tidegate.flows.landed_versions.keeps_latest_only", lambda batch: True)
    landed: dict[str, str] = {}
    at: dict[str, int] = {}
    for version in ("v1", "v2", "v3"):
        world.clock.advance(60)
        world.dispatch(notice(upload(KEYS[0], version)))
        landed[version] = world.open.id
        world.ledger.seal(landed[version], "flights", "lake.raw.flights")
        world.hand_off()
        play_publishing(world.work, landed[version], rows=0 if version == "v3" else 5)
        if version != "v1":
            before = "v1" if version == "v2" else "v2"
            gone = [HeldRows(f"s3://{BUCKET}/{KEYS[0]}", before, landed[before], 5)]
            takes(world.work, landed[version], gone, deleted=version == "v3")
        world.settle()
        at[version] = world.clock.now
    found = files_within(world.ports, IDS, ANY, limit=9).files
    assert [(each.upload.version, each.replaced, each.deletion) for each in found] == [
        ("v3", 5, True),
        ("v2", 5, False),
        ("v1", 0, False),
    ]
    assert [each.left for each in found] == [None, Left("v3", at["v3"], True), Left("v2", at["v2"], False)]
    # a page is bounded, whatever it has
    monkeypatch.setattr("tidegate.flows.landed_versions.MOST_REPLACING", 1)
    assert [each.left for each in files_within(world.ports, IDS, ANY, limit=9).files][1:] == [
        Left("v3", at["v3"], True),
        Left("v3", 0, False),
    ]


def rewritten(world: DatedWorld, batch: str, **changes: object) -> None:
    """The outcomes that `play_publishing` wrote, changed."""
    name = outcomes_name(batch_folder(batch), 76)
    world.work.put(name, replace(decode_outcomes(world.work.get(name)), **changes).encode())


def published(world: DatedWorld, *versions: str, rows: int) -> str:
    world.clock.advance(60)
    world.dispatch(notice(*(upload(KEYS[0], version) for version in versions)))
    batch = world.open.id
    world.ledger.seal(batch, "flights", "lake.raw.flights")
    world.hand_off()
    play_publishing(world.work, batch, rows=rows)
    return batch


def test_a_version_that_brought_nothing_has_replaced_nothing(world: DatedWorld, monkeypatch: pytest.MonkeyPatch):
    """Two versions of an object in one batch: rows left the table for the later one."""
    monkeypatch.setattr(files_of, "keeps_latest_only", lambda batch: True)
    batch = published(world, "v1", "v2", rows=5)
    takes(world.work, batch, [HeldRows(f"s3://{BUCKET}/{KEYS[0]}", "v0", "earlier", 3)])
    (of,) = {each.notice for each in world.ledger.claims(BUCKET, KEYS[0])}
    over = Ending(of, BUCKET, KEYS[0], "v1", Outcome.SUPERSEDED, "overwritten")
    rewritten(world, batch, endings=(over,))
    world.settle()
    found = {each.upload.version: (each.state.outcome, each.replaced) for each in page(world).files}
    assert found == {"v1": ("superseded", 0), "v2": ("committed", 3)}


def test_a_deletion_for_which_no_row_had_to_leave_is_one(world: DatedWorld, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files_of, "keeps_latest_only", lambda batch: True)
    batch = published(world, "v1", rows=0)
    rewritten(world, batch, deleted=(f"s3://{BUCKET}/{KEYS[0]}",))
    world.settle()
    (found,) = page(world).files
    assert (found.deletion, found.replaced, found.rows) == (True, 0, 0)


def test_what_was_loaded_once_more_has_taken_the_place_of_its_own_rows(world: DatedWorld):
    """Both versions of an object, on a route that appends."""
    batch = published(world, "v1", "v2", rows=5)
    uri = f"s3://{BUCKET}/{KEYS[0]}"
    takes(world.work, batch, [HeldRows(uri, "v1", "earlier", 3), HeldRows(uri, "v2", "earlier", 4)])
    world.settle()
    found = {each.upload.version: each.replaced for each in page(world).files}
    assert found == {"v1": 3, "v2": 4}


def test_a_version_that_was_reloaded_still_says_what_it_took_the_place_of(world: DatedWorld):
    """v2 took the place of v1, and is reloaded, perhaps after the route has changed to append."""
    uri = f"s3://{BUCKET}/{KEYS[0]}"
    first = published(world, "v1", rows=5)
    world.settle()
    second = published(world, "v2", rows=5)
    takes(world.work, second, [HeldRows(uri, "v1", first, 5)])
    world.settle()
    assert reload_batch(second, world.ports, run="1", configured={"flights": world.flights}).sent == 1
    for each in world.topic.published:
        world.dispatch(each)
    third = world.open.id
    world.clock.advance(1_000)
    world.settle()
    play_publishing(world.work, third, rows=5)
    takes(world.work, third, [HeldRows(uri, "v2", second, 5)])
    world.settle()
    told = {each.claim.version: each for each in trace(BUCKET, KEYS[0], world.ports)}
    assert (told["v1"].replaced_by, told["v2"].replaced_by) == ("v2", "")
    assert landed_beside(uri, told.values()) == ()
    seen = files_within(world.ports, IDS, ANY, limit=9).files
    found = {(each.upload.version, each.batch.id): (each.left, each.versions) for each in seen}
    assert found["v1", first] == (Left("v2", 0, deleted=False), 1)
    assert found["v2", third] == (None, 1)
