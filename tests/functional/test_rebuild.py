"""The ledger of a small history is lost as a whole and rebuilt: from the work bucket, from the table, from both."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.support.build import BUCKET, notice
from tests.support.build import upload as any_upload
from tests.support.fakes import Died, Life, MemoryWork, play_fencing, play_publishing, uploads_of
from tests.support.history import EVERY_UPLOAD, ONCE_MORE, History, packed, small_history, upload
from tests.support.ledgers import RETENTION
from tests.support.world import small_world
from tidegate.core.audit import Window
from tidegate.core.batches import State
from tidegate.core.errors import Rejected
from tidegate.core.lineage import Landed
from tidegate.core.manifests import Sealed, batch_folder, decode_sealed, make_part
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import decode_outcomes, decode_receipt
from tidegate.core.records import DAY
from tidegate.core.uploads import Upload
from tidegate.flows import from_rows
from tidegate.flows import rebuild as rebuilding
from tidegate.flows.audit import Look, audit_window
from tidegate.flows.rebuild import Rebuilt, rebuild
from tidegate.flows.send import Unsent
from tidegate.flows.status import status
from tidegate.flows.trace import trace
from tidegate.stores.memory import Rehearsal
from tidegate.stores.rehearsed_work import RehearsedWork
from tidegate.wiring import made_at, smallest_id

pytestmark = pytest.mark.timeout(600)

TABLE = "lake.raw.flights"
NEW = upload("new")
LANDED = ("a1", "a2", "b1", "b2", "c1", "c2", "broken")
"""What is in the table when the ledger is lost: B1 and B2."""


@pytest.fixture(scope="module")
def history() -> History:
    return small_history()


def lose(history: History, *, work: bool = False) -> None:
    """The ledger is lost as a whole; with `work` the work bucket, too. The table stays."""
    history.restore(history.moments[0])
    history.world.lineage.tables = {TABLE: rows_of(history)}
    if work:
        history.work.objects.clear()


def rows_of(history: History) -> list[Landed]:
    found = []
    for batch in history.published:
        receipt = history.published[batch]
        body = history.work.get(f"{batch_folder(batch)}outcomes/{receipt.staged}.jsonl.gz")
        assert body is not None
        without = {each.key for each in decode_outcomes(body).endings}
        found += [
            Landed(*item.upload.identity, batch, 1)
            for item in uploads_of(history.work, batch)
            if item.upload.key not in without
        ]
    return found


def rebuilt(history: History, life: Life | None = None, *, oldest: str = "", **named) -> Rebuilt:
    world = history.world
    ports = life.over(world.ports) if life else world.ports
    return rebuild(replace(ports, **named), configured=world.routes, oldest=oldest, made_at=made_at)


def again(history: History) -> Rebuilt | None:
    """Rebuild what another rebuild has left; None if that one was complete."""
    return None if history.world.ledger.is_whole() else rebuilt(history)


def everything_again(history: History) -> None:
    """S3 announces every upload once more, packed otherwise; and a new one comes."""
    latest = {each.identity: each for each in (*EVERY_UPLOAD, ONCE_MORE)}
    history.dispatch(*history.sent(), packed(*latest.values()), packed(NEW))


def each_once(history: History, *keys: str) -> Counter[tuple[str, str]]:
    return Counter({(upload(key).key, upload(key).version): 1 for key in keys})


def check(history: History) -> None:
    assert history.settle_down() == []
    assert history.landed == Counter({(each.key, each.version): 1 for each in (*EVERY_UPLOAD, NEW)})
    (shown,) = status([history.world.flights], history.world.ports)
    assert (shown.unfinished, shown.uploads.holds, shown.uploads.pending) == ((), True, 0)


def test_the_history_has_what_the_tests_say(history: History):
    lose(history)
    assert history.world.store.items == {}
    assert history.landed == each_once(history, *LANDED)
    assert sorted(each.key for each in rows_of(history)) == sorted(upload(key).key for key in LANDED)


def test_a_ledger_that_is_lost_alone_is_rebuilt_from_the_work_bucket(history: History):
    lose(history)
    done = rebuilt(history)
    assert done.whole
    assert (done.rows.written, done.ended, done.waiting) == (0, 2, 1)
    assert done.rows.landed == {TABLE: len(LANDED), "lake.raw.weather": 0}
    # decided batches have ended without settling, what was sealed waits, what gathered was sent again
    states = {each: history.world.ledger.batch(each) for each in history.batches[:4]}
    assert [batch.state if batch else None for batch in states.values()] == [
        *(State.COMMITTED, State.COMMITTED, State.SEALED, None)
    ]
    assert history.world.record.running == ()
    assert done.sent == 3
    everything_again(history)
    check(history)


def test_if_the_work_bucket_is_lost_too_what_landed_lands_no_more(history: History):
    lose(history, work=True)
    done = rebuilt(history)
    assert done.whole
    assert (done.rows.written, done.rows.uploads, done.ended, done.sent) == (2, len(LANDED), 2, 0)
    (shown,) = status([history.world.flights], history.world.ports)
    assert shown.uploads.holds
    assert (shown.uploads.notified, shown.uploads.ended.committed, shown.uploads.ended.rows) == (7, 7, 7)
    everything_again(history)
    check(history)


def test_and_an_audit_finds_the_rest(history: History):
    """What was gathered or sealed is in no table, and in no work bucket. It is in the landing bucket."""
    lose(history, work=True)
    assert rebuilt(history).whole
    world = history.world
    now = world.clock()
    world.listing.there = {replace(each, sequencer=""): now - 5 * 60 * 60 for each in EVERY_UPLOAD}
    found = audit_window(
        world.flights, Look("by-hand", Window(0, now, 60 * 60, 45 * DAY)), world.ports, pace=lambda _: None
    )
    assert (found.committed, found.lost) == (len(LANDED), len(EVERY_UPLOAD) - len(LANDED))
    history.dispatch(*history.sent(), packed(NEW))
    check(history)


def test_every_reader_understands_what_the_rows_told(history: History):
    lose(history, work=True)
    rebuilt(history)
    world = history.world
    for key in LANDED:
        (told,) = trace(BUCKET, upload(key).key, world.ports)
        assert told.outcome == "committed"
        assert told.batch is not None
        assert told.batch.id in history.published
        assert told.explanation == "in the table: its rows say so, from which the ledger was rebuilt"
    # the next loss of the ledger alone finds the folders
    world.store.items.clear()
    world.lineage.tables.clear()
    done = rebuilt(history)
    assert (done.whole, done.rows.written, done.ended, done.claims) == (True, 0, 2, len(LANDED))
    everything_again(history)
    check(history)


def test_a_folder_that_lost_its_manifest_is_written_anew(history: History):
    """Its other files are there. What no row tells of is sent again: it is in no table."""
    lose(history)
    first = history.batches[0]
    del history.work.objects[batch_folder(first) + "sealed.json"]
    done = rebuilt(history)
    assert done.whole
    assert (done.rows.written, done.rows.uploads) == (1, 4)
    everything_again(history)
    check(history)


def test_rows_without_receipt_and_floor_are_never_handed_off(history: History):
    """A job without a floor would begin anew, and could not see that the batch is published."""
    lose(history)
    second = history.batches[1]
    del history.work.objects[batch_folder(second) + "receipt.json"]
    done = rebuilt(history)
    assert not done.whole
    (trouble,) = done.troubles
    assert f"{batch_folder(second)}floor.json" in trouble
    assert "once more" in trouble
    assert history.world.ledger.batch(second) is None
    # with a floor the job finds it published
    history.work.objects[batch_folder(second) + "floor.json"] = b"{}"
    assert rebuilt(history).whole
    everything_again(history)
    check(history)


def test_rows_of_a_fenced_batch_are_reported(history: History):
    lose(history)
    second = history.batches[1]
    fence = replace(history.published[second], fence=True)
    history.work.objects[batch_folder(second) + "receipt.json"] = fence.encode()
    done = rebuilt(history)
    (trouble,) = done.troubles
    assert second in trouble
    assert "fenced" in trouble
    assert history.world.ledger.batch(second) is None


def ending_of(history: History, key: str) -> str:
    (claim,) = history.world.ledger.claims(BUCKET, upload(key).key)
    return claim.outcome


def quarantined_late(history: History) -> tuple[str, bytes]:
    """A batch whose job has quarantined its upload; its receipt, which is not there yet, and its name."""
    lose(history, work=True)
    history.world.lineage.tables = {}
    listed(history, OLD_ID, ONE, ends={ONE.key: ""})
    name = batch_folder(OLD_ID) + "receipt.json"
    return name, history.work.objects.pop(name)


def written_late(history: History, name: str, body: bytes) -> Any:
    """The work bucket, in which this file is written when the first manifest is read a second time: for the batch's
    record, after its claims were written."""
    manifests: list[str] = []

    class Late:
        def __getattr__(self, called: str) -> Any:
            return getattr(history.work, called)

        def get(self, asked: str) -> bytes | None:
            manifests.extend([asked] if asked.endswith("sealed.json") else [])
            if len(manifests) == 2:
                history.work.objects[name] = body
            return history.work.get(asked)

    return Late()


def test_a_job_that_ends_while_claims_are_written_ends_its_uploads(history: History):
    """Its receipt is there when its record is written, and was not when its claims were."""
    name, receipt = quarantined_late(history)
    assert rebuilt(history, work=written_late(history, name, receipt)).whole
    assert history.world.batch(OLD_ID).state is State.COMMITTED
    assert ending_of(history, "moved") == "quarantined"


def test_a_batch_that_is_fenced_again_while_claims_are_written_lets_go_of_its_uploads(history: History):
    """A person sends again what a rollback took, in a job that was started before the ledger was lost."""
    name, receipt = quarantined_late(history)
    history.work.objects[name] = receipt
    fence = replace(decode_receipt(receipt), fence=True).encode()
    assert rebuilt(history, work=written_late(history, name, fence)).whole
    assert history.world.batch(OLD_ID).state is State.ABANDONED
    assert ending_of(history, "moved") == "abandoned"


def test_a_job_that_ends_between_two_rebuilds_ends_its_uploads(history: History):
    name, receipt = quarantined_late(history)
    calls = Life()
    rebuilt(history, calls)
    history.world.store.items.clear()
    with pytest.raises(Died):
        rebuilt(history, Life(calls.names.index("index_batch") + 1))
    assert ending_of(history, "moved") == ""
    history.work.objects[name] = receipt
    assert rebuilt(history).whole
    assert ending_of(history, "moved") == "quarantined"


def test_a_receipt_that_was_deleted_takes_its_endings_along(history: History):
    """As the message about a fenced batch with rows says."""
    lose(history)
    second = history.batches[1]
    name = batch_folder(second) + "receipt.json"
    right = history.work.objects[name]
    history.work.objects[name] = replace(history.published[second], fence=True).encode()
    assert not rebuilt(history).whole
    history.work.objects[name] = right
    assert rebuilt(history).whole
    assert ending_of(history, "c1") == ""
    everything_again(history)
    check(history)


def test_a_fenced_batch_may_lack_a_part(history: History):
    lose(history, work=True)
    history.world.lineage.tables = {}
    listed(history, OLD_ID, ONE, fence=True)
    for part in list(history.work.names(batch_folder(OLD_ID) + "parts/")):
        del history.work.objects[part]
    assert rebuilt(history).whole
    assert history.world.batch(OLD_ID).state is State.ABANDONED


@pytest.mark.parametrize("damage", ["a part", "the outcomes", "another manifest", "other sums"])
def test_a_batch_with_a_damaged_file_keeps_the_ledger_from_being_whole(history: History, damage: str):
    lose(history)
    first = history.batches[0]
    folder, objects = batch_folder(first), history.work.objects
    before = dict(objects)
    receipt = history.published[first]
    match damage:
        case "a part":
            del objects[folder + decode_sealed(objects[folder + "sealed.json"]).parts[0]]
        case "the outcomes":
            del objects[f"{folder}outcomes/{receipt.staged}.jsonl.gz"]
        case "another manifest":
            objects[folder + "receipt.json"] = replace(receipt, manifest="0" * 32).encode()
        case _:
            tally = replace(receipt.tally, committed=receipt.tally.committed + 1)
            objects[folder + "receipt.json"] = replace(receipt, tally=tally).encode()
    done = rebuilt(history)
    assert not done.whole
    (trouble,) = done.troubles
    assert first in trouble
    assert history.sent() == [], "what no manifest lists is sent when all claims are there"
    history.work.objects = before
    assert rebuilt(history).whole
    everything_again(history)
    check(history)


def test_a_part_that_is_gone_for_good_is_left_out_with_its_manifest(history: History):
    """As the message says: the rows of the batch tell what has landed, and its other parts what has not."""
    lose(history)
    folder = batch_folder(history.batches[0])
    del history.work.objects[folder + decode_sealed(history.work.objects[folder + "sealed.json"]).parts[0]]
    (trouble,) = rebuilt(history).troubles
    assert "delete the batch's sealed.json" in trouble
    del history.work.objects[folder + "sealed.json"]
    assert rebuilt(history).whole
    everything_again(history)
    check(history)


def test_what_is_sent_has_the_sequencer_that_its_claim_knows():
    """A part of what an audit sent has none: a listing does not tell it."""
    world = small_world(max_wait=0)
    world.dispatch(notice(replace(any_upload(), sequencer="0A")))
    world.settle()
    (first,) = world.record.unfinished
    play_fencing(world.work, first)
    world.settle()
    later = world.new_id()
    (owned,) = uploads_of(world.work, first)
    of = notice(replace(owned.upload, sequencer=""), takes_from=owned.notice)
    part = make_part(of.id, BUCKET, [entry.upload for entry in of.entries])
    world.work.put(batch_folder(later) + part.name, part.body)
    world.store.items.clear()
    assert rebuild(world.ports, configured=world.routes, oldest="", made_at=lambda _: world.clock()).sent == 1
    (sent,) = world.topic.published
    assert [(each.upload.sequencer, each.takes_from) for each in sent.entries] == [("0A", owned.notice)]


def test_routes_of_ended_batches_that_the_configuration_lacks_are_named():
    """The lost ledger knew their settings. Nobody sees what they have in quarantine, until they are named again."""
    world = small_world()
    batch = world.submitted()
    play_publishing(world.work, batch.id, {})
    world.settle()
    world.store.items.clear()
    done = rebuild(world.ports, configured={"weather": world.routes["weather"]}, oldest="", made_at=lambda _: 1)
    assert (done.whole, done.unknown_routes) == (True, {"flights"})
    world.store.items.clear()
    assert rebuild(world.ports, configured=world.routes, oldest="", made_at=lambda _: 1).unknown_routes == set()


def test_a_new_deployment_takes_over_what_another_one_has_filled(history: History):
    """Its first look at the empty ledger has called it whole. A rebuild that dies leaves a ledger that is not."""
    lose(history, work=True)
    history.world.ledger.end_rebuild()
    with pytest.raises(Died):
        rebuilt(history, Life(4, after=True))
    assert not history.world.ledger.is_whole()
    assert rebuilt(history).whole
    everything_again(history)
    check(history)


def test_a_ledger_that_is_whole_is_left_as_it_is(history: History):
    lose(history)
    assert rebuilt(history).whole
    items = dict(history.world.store.items)
    with pytest.raises(Rejected, match="never put right in place"):
        rebuilt(history)
    assert history.world.store.items == items


def test_an_upload_in_two_batches_is_reported(history: History):
    lose(history, work=True)
    twice = Landed(BUCKET, upload("a1").key, "etag:1", history.batches[1], 1)
    history.world.lineage.tables[TABLE].append(twice)
    done = rebuilt(history)
    assert [(each.batch, each.other) for each in done.twice] == [tuple(history.batches[1::-1])]


def test_rows_of_other_tools_are_counted_and_left(history: History):
    lose(history, work=True)
    others = [
        Landed(BUCKET, upload("x1").key, "etag:1", "import-2024", 3),
        Landed(BUCKET, upload("x2").key, "etag:1", "", 3),
        Landed(BUCKET, upload("x3").key, "", history.batches[0], 3),
    ]
    history.world.lineage.tables[TABLE] += others
    done = rebuilt(history)
    assert (done.rows.strangers, done.rows.uploads, done.whole) == (3, len(LANDED), True)


def test_what_the_ledger_would_have_forgotten_is_left(history: History):
    lose(history, work=True)
    done = rebuilt(history, oldest=history.batches[1])
    assert (done.rows.before, done.rows.uploads) == (4, 3)
    assert history.world.ledger.claims(BUCKET, upload("a1").key) == []


def test_an_old_batch_that_has_not_ended_is_found_without_the_ledger(history: History):
    """B3 waits for a slot, or is halted, for longer than the ledger remembers. B1 and B2 have ended; the parts of B4
    were sent again long ago, if they are that old."""
    lose(history)
    done = rebuilt(history, oldest=smallest_id(history.world.clock() + 10))
    assert (done.whole, done.batches, done.waiting, done.sent) == (True, 1, 1, 0)
    assert history.world.batch(history.batches[2]).state is State.SEALED
    assert history.world.ledger.claims(BUCKET, upload("d1").key) != []


def test_a_stray_that_may_have_landed_before_the_memory_of_the_ledger_is_set_aside(history: History):
    lose(history)
    rebuilt(history)
    sent, *_ = history.sent()
    assert sent.at == made_at(history.batches[3])
    history.world.clock.advance(RETENTION)
    with pytest.raises(Rejected, match="longer ago than the ledger remembers"):
        history.world.dispatch(sent)


def test_a_rehearsal_counts_the_same_and_writes_nothing(history: History):
    for work in (False, True):
        lose(history, work=work)
        world = history.world
        before = dict(history.work.objects)
        ledger = replace(world.ledger, store=Rehearsal(world.ledger.store))
        rehearsed = rebuilt(history, ledger=ledger, work=RehearsedWork(history.work), topic=Unsent())
        assert (world.store.items, history.work.objects, history.sent()) == ({}, before, [])
        assert rebuilt(history) == rehearsed


@pytest.mark.parametrize("work", [False, True], ids=["ledger", "both"])
def test_whichever_call_it_dies_at_the_next_one_goes_on(history: History, work: bool):
    lose(history, work=work)
    whole = Life()
    assert rebuilt(history, whole).whole
    writes = {
        *("put", "put_if_absent", "publish", "begin_rebuild", "end_rebuild"),
        *("index_notices", "index_claims", "index_over", "index_batch"),
    }
    assert len(writes & set(whole.names)) >= (6 if work else 5)
    for call, name in enumerate(whole.names, start=1):
        if name not in writes:
            continue
        lose(history, work=work)
        with pytest.raises(Died):
            rebuilt(history, Life(call, after=True))
        again(history)
        assert history.world.ledger.is_whole(), (call, name)
        everything_again(history)
        check(history)


@pytest.mark.parametrize("work", [False, True], ids=["ledger", "both"])
def test_two_at_once_do_what_one_does(history: History, work: bool):
    lose(history, work=work)
    whole = Life()
    rebuilt(history, whole)
    for call, name in enumerate(whole.names, start=1):
        if name in ("put", "put_if_absent", "landed") or name.startswith("index_"):
            lose(history, work=work)
            assert rebuilt(history, Life(call, before=lambda: again(history))).whole, (call, name)
            everything_again(history)
            check(history)


def test_what_was_written_before_is_told(history: History):
    """A function that had seen the old table wrote into the new one: nobody can say any more what is in which batch."""
    lose(history)
    everything_again(history)
    done = rebuilt(history)
    assert not done.whole
    assert all("something wrote into the ledger before it was rebuilt" in each for each in done.troubles)


def test_many_uploads_are_written_in_parts_as_they_come(history: History, monkeypatch: pytest.MonkeyPatch):
    lose(history, work=True)
    monkeypatch.setattr(from_rows, "GATHERED", 2)
    assert rebuilt(history).whole
    (first, *_) = history.batches
    body = history.work.get(batch_folder(first) + "sealed.json")
    assert body is not None
    assert len(decode_sealed(body).parts) > 1
    everything_again(history)
    check(history)


def test_what_was_opened_within_a_day_is_announced_again(history: History):
    lose(history)
    rebuilt(history)
    assert {each.batch for each in history.world.ledger.outbox(9)} == set(history.batches[:2])
    lose(history)
    history.world.clock.advance(DAY)
    rebuilt(history)
    assert history.world.ledger.outbox(9) == []


# ---- an upload that several batches list


def listed(history: History, batch: str, *uploads: Upload, ends: dict[str, str] | None = None, **files: bool) -> None:
    """A folder whose manifest lists these uploads; decided, unless `receipt` is false."""
    work, table = history.work, "lake.raw.flights"
    part = make_part(packed(*uploads, origin=batch).id, BUCKET, uploads)
    work.put(batch_folder(batch) + part.name, part.body)
    sealed = Sealed(batch, "flights", (part.name,), len(uploads), part.size, table)
    work.put(batch_folder(batch) + "sealed.json", sealed.encode())
    if files.get("fence"):
        play_fencing(work, batch)
    elif files.get("receipt", True):
        play_publishing(work, batch, {key: (Outcome.QUARANTINED, "no") for key in ends or {}})


ONE = upload("moved")
OLD_ID, NEW_ID = smallest_id(1_700_000_010), smallest_id(1_700_000_020)


@pytest.mark.parametrize(
    ("old", "new", "owner", "back"),
    [
        # taken over in the order of the batches' ids, and, because another route's batch was opened earlier, against it
        ({"ends": {ONE.key: ""}}, {}, NEW_ID, {"quarantined": 1}),
        ({}, {"ends": {ONE.key: ""}}, OLD_ID, {"quarantined": 1}),
        ({"fence": True}, {"receipt": False}, NEW_ID, {"abandoned": 1}),
        ({"receipt": False}, {"fence": True}, OLD_ID, {"abandoned": 1}),
        ({"receipt": False}, {}, OLD_ID, {"committed": 1}),
        ({}, {}, NEW_ID, {"committed": 1}),
        ({"ends": {ONE.key: ""}}, {"fence": True}, NEW_ID, {"quarantined": 1}),
    ],
)
def test_the_batch_that_ranks_higher_owns_it(history: History, old, new, owner, back):
    lose(history, work=True)
    history.world.lineage.tables = {}
    listed(history, OLD_ID, ONE, **old)
    listed(history, NEW_ID, ONE, **new)
    done = rebuilt(history)
    if old.get("receipt", True) or "fence" in new:
        assert done.whole
    (claim,) = history.world.ledger.claims(BUCKET, ONE.key)
    found = history.world.ledger.notice(claim.notice)
    assert found is not None
    assert found.batch == owner
    assert history.world.record.back == back
    (shown,) = status([history.world.flights], history.world.ports)
    assert shown.uploads.holds


def test_two_undecided_batches_cannot_both_own_it(history: History):
    lose(history, work=True)
    history.world.lineage.tables = {}
    for batch in (OLD_ID, NEW_ID):
        listed(history, batch, ONE, receipt=False)
    done = rebuilt(history)
    assert not done.whole
    assert "neither is decided" in done.troubles[0]
    history.work.objects.clear()
    history.world.store.items.clear()
    listed(history, OLD_ID, ONE, fence=True)
    listed(history, NEW_ID, ONE, receipt=False)
    assert rebuilt(history).whole


def test_a_call_for_each_upload_is_one_read_of_many_and_one_write(history: History):
    """Ten times the uploads of a batch make ten times the claims, and no more calls than that."""

    def calls(uploads: int) -> Counter[str]:
        lose(history, work=True)
        many = [any_upload(f"flights/{number:06}.json", "v1") for number in range(uploads)]
        history.world.lineage.tables = {TABLE: [Landed(*each.identity, history.batches[0], 1) for each in many]}
        life = Life()
        assert rebuilt(history, life).claims == uploads
        return Counter(life.names)

    assert calls(50) == calls(500)


def test_it_tells_how_far_it_is(history: History, monkeypatch: pytest.MonkeyPatch):
    lose(history)
    monkeypatch.setattr(from_rows, "GATHERED", 5)
    monkeypatch.setattr(rebuilding, "TOLD_EVERY", 2)
    said: list[str] = []
    world = history.world
    rebuild(world.ports, configured=world.routes, oldest="", made_at=made_at, tell=said.append)
    assert said == [
        f"table {TABLE}: 5 uploads read",
        f"table {TABLE}: 7 uploads read, the last of them",
        "table lake.raw.weather: 0 uploads read, the last of them",
        "looking for older batches that have not ended",
        *(
            f"{line}: {done} batches done"
            for line in ("claims", "records", "uploads in no manifest")
            for done in (2, 4)
        ),
    ]


def test_a_rehearsed_work_bucket_reads_as_if_it_was_written():
    beneath, real = MemoryWork({"b/1/x": b"x", "b/3/x": b"x"}), MemoryWork({"b/1/x": b"x", "b/3/x": b"x"})
    rehearsed = RehearsedWork(beneath)
    for work in (rehearsed, real):
        work.put("b/2/x", b"new")
        work.put("b/3/x", b"other")
        assert not work.put_if_absent("b/1/x", b"late")
        assert not work.put_if_absent("b/2/x", b"late")
        assert work.put_if_absent("b/2/a", b"first")
    for name in (*real.objects, "b/4/x"):
        assert rehearsed.get(name) == real.get(name)
    assert list(rehearsed.names("b/")) == list(real.names("b/"))
    assert list(rehearsed.folders("b/", "2")) == list(real.folders("b/", "2")) == ["2", "3"]
    assert beneath.objects == {"b/1/x": b"x", "b/3/x": b"x"}
