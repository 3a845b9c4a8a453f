"""Trace: what happened to every version of one object."""

from dataclasses import replace

import pytest

from tests.support.build import BUCKET, notice, upload
from tests.support.fakes import play_fencing, play_publishing, takes
from tests.support.ledgers import RETENTION
from tests.support.world import World
from tidegate.core.errors import Retryable
from tidegate.core.outcomes import Outcome
from tidegate.core.replacing import HeldRows
from tidegate.core.times import iso
from tidegate.core.uploads import Upload
from tidegate.flows.resend import reload_batch
from tidegate.flows.trace import Trace, trace

KEY = "flights/0000-00000.json"


def look(world: World, key: str = KEY) -> Trace:
    (found,) = trace(BUCKET, key, world.ports)
    return found


def test_an_object_that_nobody_announced_has_no_trace(world: World):
    assert trace(BUCKET, "flights/nowhere.json", world.ports) == []


def test_an_upload_is_followed_from_claim_to_snapshot(world: World):
    of = notice(upload(KEY))
    world.ledger.claim(of)
    found = look(world)
    assert (found.outcome, found.notice, found.batch) == ("pending", None, None)
    assert "not registered yet" in found.explanation

    world.dispatch(of)
    batch_id = world.open.id
    assert look(world).explanation == f"gathering with 1 upload in batch {batch_id}"

    world.ledger.seal(batch_id, "flights")
    assert look(world).explanation == f"in batch {batch_id}, which waits for a free slot"

    world.hand_off()
    found = look(world)
    assert (found.outcome, found.explanation) == (
        "pending",
        f"in batch {batch_id}: attempt 1 began at {iso(world.clock.now)}. If it fails, attempt 2 begins at"
        f" {iso(world.clock.now + 120)} at the earliest",
    )

    play_publishing(world.work, batch_id)
    world.settle()
    found = look(world)
    assert (found.outcome, found.explanation) == ("committed", "in the table since snapshot 77")
    assert found.notice is not None
    assert found.notice.id == of.id


def test_while_it_is_reloaded_it_is_told_that_it_had_landed(world: World):
    batch = world.submitted().id
    play_publishing(world.work, batch)
    world.settle()
    reload_batch(batch, world.ports, run="1", configured={"flights": world.flights})
    for each in world.topic.published:
        world.dispatch(each)
    said = "It had landed before: those rows stay until then, unless somebody has removed them"
    assert look(world).explanation.endswith(said)
    second = world.open.id
    world.clock.advance(1_000)
    world.settle()
    play_publishing(world.work, second, {KEY: (Outcome.PRESENT, f"rows of batch {batch}: line 1: no")})
    world.settle()
    found = look(world)
    assert f"it was to be reloaded with batch {second}" in found.explanation
    assert found.explanation.endswith(f"had its rows, of batch {batch}: they stay. line 1: no")


def test_an_upload_whose_bytes_had_landed_says_of_which_version(world: World):
    batch = world.submitted().id
    same = "rows of batch 01A: its bytes are those of version v0"
    play_publishing(world.work, batch, {KEY: (Outcome.PRESENT, same)})
    world.settle()
    found = look(world)
    assert found.outcome == "present"
    assert found.explanation == (
        f"it came with batch {batch}, and table {world.flights.dataset.table} had its rows, of batch 01A: its bytes are"
        " those of version v0"
    )


def test_a_halted_batch_is_explained_by_its_reason(world: World):
    batch = world.submitted()
    world.ledger.halt(batch.id, 1, "the floor is gone")
    found = look(world)
    assert (found.outcome, found.explanation) == (
        "pending",
        f"batch {batch.id} halted after attempt 1: the floor is gone",
    )


def test_a_quarantined_upload_is_explained_by_its_error(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, {KEY: (Outcome.QUARANTINED, "line 3 is no JSON")})
    world.settle()
    found = look(world)
    assert (found.outcome, found.explanation) == ("quarantined", "line 3 is no JSON")


def test_what_is_in_quarantine_waits_for_nobody_once_a_later_version_has_landed(world: World):
    for version, sequencer, ending in (("v1", "01", {KEY: (Outcome.QUARANTINED, "no JSON")}), ("v2", "02", {})):
        world.dispatch(notice(replace(upload(KEY, version), sequencer=sequencer)))
        landed = world.open.id
        world.ledger.seal(landed, "flights")
        world.hand_off()
        play_publishing(world.work, landed, ending)
        world.settle()
        world.clock.advance(60)
    broken, _ = trace(BUCKET, KEY, world.ports)
    assert broken.answer == "quarantined: no JSON. Version v2 has landed since: settling gives this one up"
    assert broken.next_steps(f"s3://{BUCKET}/{KEY}") == ()


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(Outcome.VANISHED, "deleted before it was read"), (Outcome.SUPERSEDED, "overwritten before it was read")],
)
def test_an_upload_that_was_not_read_is_not_said_to_be_in_the_table(world: World, outcome: Outcome, reason: str):
    batch = world.submitted()
    play_publishing(world.work, batch.id, {KEY: (outcome, reason)})
    world.settle()
    found = look(world)
    assert (found.outcome, found.explanation) == (outcome, reason)


def test_an_abandoned_upload_waits_for_a_resend(world: World):
    batch = world.submitted()
    play_fencing(world.work, batch.id)
    world.settle()
    found = look(world)
    assert (found.outcome, found.explanation) == (
        "pending",
        f"batch {batch.id} was abandoned: the upload waits for a resend",
    )


def test_a_void_owner_is_explained(world: World):
    of = notice(upload(KEY))
    world.ledger.claim(of)
    world.ledger.void(of.id, "flights")
    found = look(world)
    assert found.outcome == "pending"
    assert "void" in found.explanation


def test_versions_are_listed_oldest_first(world: World):
    for version in ("v2", "v1", "v3"):
        world.dispatch(notice(upload(KEY, version)))
        world.clock.advance(60)
    assert [found.claim.version for found in trace(BUCKET, KEY, world.ports)] == ["v2", "v1", "v3"]


def test_what_has_expired_leaves_no_trace(world: World):
    world.arrive()
    world.clock.advance(RETENTION)
    assert trace(BUCKET, KEY, world.ports) == []


def test_what_is_only_remembered_because_its_bytes_came_again_is_explained(world: World):
    first = Upload(BUCKET, KEY, "etag:e", 10, "00A1")
    world.dispatch(notice(first))
    world.clock.advance(RETENTION - 10)
    world.dispatch(notice(replace(first, sequencer="00A2")))
    world.clock.advance(RETENTION - 10)
    (found,) = trace(BUCKET, KEY, world.ports)
    assert found.notice is None
    assert "the same bytes came again" in found.explanation


def test_the_answer_says_how_many_rows_landed_when_and_where(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, {"flights/0000-00001.json": (Outcome.QUARANTINED, "no JSON")}, rows=1_234)
    world.settle()
    found = look(world)
    assert (found.rows, found.answer) == (1_234, f"landed: 1,234 rows at {iso(world.clock.now)}, in lake.raw.flights")
    assert found.next_steps("s3://landing/a") == ()
    broken = look(world, "flights/0000-00001.json")
    assert (broken.rows, broken.answer) == (None, "quarantined: no JSON")


def test_rows_are_told_only_if_all_files_of_the_batch_are_there(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id)
    world.settle()
    assert look(world).rows == 1
    whole = dict(world.work.objects)
    for missing in ("receipt.json", "sealed.json", "/parts/", "/outcomes/"):
        world.work.objects = {name: body for name, body in whole.items() if missing not in name}
        found = look(world)
        assert (found.rows, found.answer) == (None, f"landed at {iso(world.clock.now)}, in lake.raw.flights")


def test_of_many_versions_the_rows_of_the_newest_are_looked_up(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.trace.MOST_ROWS", 1)
    for version in ("v1", "v2"):
        world.dispatch(notice(upload(KEY, version)))
        world.ledger.seal(world.open.id, "flights")
        world.hand_off()
        (running,) = world.record.running
        play_publishing(world.work, running, rows=5)
        world.settle()
        world.clock.advance(60)
    assert [(each.claim.version, each.rows) for each in trace(BUCKET, KEY, world.ports)] == [("v1", None), ("v2", 5)]


def test_whoever_may_not_read_the_work_bucket_learns_that_it_landed(world: World, monkeypatch: pytest.MonkeyPatch):
    batch = world.submitted()
    play_publishing(world.work, batch.id)
    world.settle()

    def refuse(name: str) -> bytes:
        raise Retryable("AccessDenied")

    monkeypatch.setattr(world.work, "get", refuse)
    assert look(world).answer == f"landed at {iso(world.clock.now)}, in lake.raw.flights"


def test_a_trace_names_the_latest_version_that_took_the_rows(world: World):
    """A rollback has brought those of v1 back from v2, and then v3 has taken them."""
    landed: dict[str, str] = {}
    for version in ("v1", "v2", "v3"):
        world.clock.advance(60)
        world.dispatch(notice(upload(KEY, version)))
        landed[version] = world.open.id
        world.ledger.seal(landed[version], "flights")
        world.hand_off()
        play_publishing(world.work, landed[version])
        if version != "v1":
            takes(world.work, landed[version], [HeldRows(f"s3://{BUCKET}/{KEY}", "v1", landed["v1"], 1)])
        world.settle()
    found = trace(BUCKET, KEY, world.ports)
    assert [each.replaced_by for each in found] == ["v3", "", ""]
    assert "Its rows left the table for those of version v3" in found[0].answer
    deletion = replace(found[0], deletion=True, removed=2).answer
    assert deletion.endswith(". Version v3 came after it"), "a deletion has no rows"
    assert "2 rows of it left" in deletion
