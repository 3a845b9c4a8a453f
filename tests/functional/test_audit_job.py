"""An audit by a job: what the job takes for lost is looked at again, and lands once, whoever dies."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.functional.test_audit import DAY, FILES, HOUR, LIMITS, counts_of, deliver, land, put, registered
from tests.functional.test_audit import audit as by_listing
from tests.support.build import notice, uploads
from tests.support.fakes import Died, Life, every_death, play_screening
from tests.support.world import World, small_world
from tidegate.core.audit import METADATA_INVENTORY, AuditCounts, AuditRun, Listed, Window
from tidegate.core.batches import JobState
from tidegate.core.errors import Retryable
from tidegate.core.screening import screening_failure, screening_folder
from tidegate.core.uploads import Upload
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import JobReport, Ports
from tidegate.flows.screen import screen
from tidegate.metrics import Metric


def audit(world: World, ports: Ports | None = None, *, pages: int = 1_000, **given: Any) -> AuditRun | None:
    """With the route as it is when it has an inventory."""
    return by_listing(world, ports, pages=pages, route=replace(world.flights, audit_from=METADATA_INVENTORY), **given)


def begun(world: World) -> AuditRun:
    """A run of the route whose job is under way; the files were put two days ago."""
    assert audit(world)
    world.clock.advance(DAY)
    put(world, FILES)
    world.clock.advance(2 * DAY)
    run = audit(world)
    assert run is not None
    return run


def play_job(world: World, run: AuditRun, **given: Any) -> None:
    """What the job does that has been started: it compares the whole bucket."""
    listed = [Listed(*each) for each in sorted(world.listing.there.items(), key=lambda item: item[0].identity)]
    found = list(screen(listed, run.window(LIMITS), world.ledger))
    suspects = [each for part in found for each in part.suspects]
    counts = sum((part.counts for part in found), AuditCounts())
    play_screening(world.work, run.id, suspects, counts=counts, **given)
    world.jobs.runs[run.job] = JobReport(JobState.ENDED)
    world.listing.asked.clear()


def test_a_job_finds_what_is_lost_and_the_audit_sends_it_once(world: World):
    run = begun(world)
    assert (run.source, run.page, run.finished_at) == (METADATA_INVENTORY, 0, 0)
    ((_, source, window),) = world.screenings
    assert (source, window) == (METADATA_INVENTORY, run.window(LIMITS))
    assert world.listing.asked == [], "the function lists nothing itself"
    world.dispatch(notice(*FILES[2:]))
    assert audit(world) == run, "the job is under way"
    play_job(world, run)
    assert counts_of(audit(world)) == AuditCounts(listed=7, lost=2, pending=5)
    assert len(world.listing.asked) == 1
    assert world.count[Metric.UPLOADS_FOUND_LOST] == 2
    deliver(world)
    assert registered(world) == [each.key for each in FILES]
    land(world)
    world.clock.advance(DAY)
    again = audit(world)
    assert again is not None
    play_job(world, again)
    assert counts_of(audit(world)) == AuditCounts(listed=7, committed=7)
    assert world.topic.published == []


def test_a_suspect_is_judged_as_it_is_when_the_audit_comes_to_it(world: World):
    """The job may have ended hours ago, or have read an old inventory."""
    run = begun(world)
    play_job(world, run)
    world.dispatch(notice(*FILES[:3]))  # its notification came after all
    del world.listing.there[FILES[3]]  # deleted
    assert counts_of(audit(world)) == AuditCounts(listed=7, pending=3, gone=1, lost=3)
    assert world.topic.keys == [each.key for each in FILES[4:]]


def test_nothing_is_sent_that_only_an_inventory_knows(world: World):
    """Its versions are in another form than S3's: to send them would land every upload a second time."""
    world.dispatch(notice(*FILES))
    run = begun(world)
    of_elsewhere = [replace(each, version=f'"{each.version}"') for each in FILES]
    play_screening(world.work, run.id, of_elsewhere)
    world.jobs.runs[run.job] = JobReport(JobState.ENDED)
    assert counts_of(audit(world)) == AuditCounts(listed=7, gone=7)
    assert world.topic.published == []


def test_what_is_younger_than_the_source_is_left_to_the_next_run(world: World):
    run = begun(world)
    play_job(world, run, until=run.until - HOUR)
    ended = audit(world)
    assert ended is not None
    assert ended.until == run.until - HOUR
    world.clock.advance(40 * DAY)
    following = audit(world)
    assert following is not None
    assert following.since == ended.until, "from where the last one ended"


def test_a_job_that_fails_ends_its_run_and_the_next_one_begins_where_it_did(world: World):
    run = begun(world)
    world.jobs.runs[run.job] = JobReport(JobState.ENDED, "out of memory")
    world.work.put(screening_failure(run.id), b'{"reason": "no list is there"}')
    with pytest.raises(Retryable, match=f"job run {run.job}, which screens .* failed: no list is there.*given up"):
        audit(world)
    given_up = world.ledger.audit(world.flights.place)
    assert given_up is not None
    assert (given_up.given_up, given_up.until) == (True, run.since)
    assert audit(world) == given_up, "a job a day, not one an hour"
    world.clock.advance(DAY)
    second = audit(world)
    assert second is not None
    assert second.since <= run.since
    play_job(world, second)
    assert counts_of(audit(world)) == AuditCounts(listed=7, lost=7)


def test_a_source_that_is_corrected_is_used_by_the_next_run(world: World):
    """Whatever was wrong with the source, the setting is read again when a run begins."""
    run = begun(world)
    world.jobs.runs[run.job] = JobReport(JobState.ENDED, "no permission")
    with pytest.raises(Retryable, match=rf"has failed: it left no reason\. Its log is in jobs/{run.job}/\."):
        audit(world)
    world.clock.advance(DAY)
    assert counts_of(by_listing(world)) == AuditCounts(listed=7, lost=7)


def test_a_large_bucket_is_screened_by_a_job_again_after_one_has_failed(world: World):
    limits = replace(LIMITS, job_above=6)
    by_listing(world, limits=limits)
    world.clock.advance(DAY)
    put(world, FILES)
    world.clock.advance(2 * DAY)
    assert counts_of(by_listing(world, limits=limits)).listed == 7
    world.clock.advance(DAY)
    run = by_listing(world, limits=limits)
    assert run is not None
    world.jobs.runs[run.job] = JobReport(JobState.ENDED, "no capacity")
    with pytest.raises(Retryable, match="given up"):
        by_listing(world, limits=limits)
    world.clock.advance(DAY)
    again = by_listing(world, limits=limits)
    assert again is not None
    assert (again.source, again.job) == ("listing", f"job-{again.id}")


def test_findings_that_are_gone_after_a_page_end_the_run_and_nothing_is_silent(world: World):
    """Somebody has emptied audits/, or an older version of the code has gone on with the run."""
    world.listing.size = 3
    run = begun(world)
    play_job(world, run, part_size=3)
    assert audit(world, pages=1) is not None
    for name in list(world.work.names(screening_folder(run.id))):
        del world.work.objects[name]
    with pytest.raises(Retryable, match=r"is gone from the work bucket.*given up"):
        audit(world)
    given_up = world.ledger.audit(world.flights.place)
    assert given_up is not None
    assert given_up.given_up


def test_what_the_job_says_of_its_source_is_said_on(world: World):
    run = begun(world)
    play_job(world, run)
    body = world.work.objects[screening_folder(run.id) + "complete.json"]
    told = {**json.loads(body), "remarks": ["the journal begins late"]}
    world.work.put(screening_folder(run.id) + "complete.json", json.dumps(told).encode())
    world.listing.there.clear()
    said: list[str] = []
    audit(world, remark=said.append)
    assert said[0] == "the journal begins late"
    assert "the bucket has none of the 7 uploads" in said[1]


def test_a_job_that_ends_while_it_is_asked_for_is_not_repeated(world: World):
    """The job is asked for first, and its result read second."""
    run = begun(world)
    life = Life(3, before=lambda: play_job(world, run))  # the record, the clock's job, then the result
    ports = life.over(world.ports)
    assert audit(world, ports) is not None
    assert life.names[2] == "get"
    assert len(world.screenings) == 1


def test_a_file_of_suspects_that_is_gone_gives_the_run_up_and_the_next_begins_where_it_did(world: World):
    run = begun(world)
    play_job(world, run)
    (name,) = [each for each in world.work.names(screening_folder(run.id)) if each.endswith(".gz")]
    del world.work.objects[name]
    with pytest.raises(Retryable, match=f"{name} is missing in the work bucket.*given up"):
        audit(world)
    given_up = world.ledger.audit(world.flights.place)
    assert given_up is not None
    assert (given_up.finished_at, given_up.until, given_up.given_up) == (world.clock(), run.since, True)
    world.clock.advance(DAY)
    following = audit(world)
    assert following is not None
    assert following.id != run.id
    assert following.since <= run.since
    play_job(world, following)
    assert counts_of(audit(world)) == AuditCounts(listed=7, lost=7)


def test_a_route_whose_bucket_has_grown_is_screened_by_a_job_from_then_on(world: World):
    def look() -> AuditRun:
        run = by_listing(world, limits=replace(LIMITS, job_above=6))
        assert run is not None
        return run

    look()
    world.clock.advance(DAY)
    put(world, FILES[:6])
    world.clock.advance(DAY)
    assert look().counts.listed == 6
    put(world, FILES[6:])
    world.clock.advance(DAY)
    assert (look().counts.listed, world.screenings) == (7, [])
    world.clock.advance(DAY)
    run = look()
    assert (run.source, run.job) == ("listing", f"job-{run.id}")
    play_job(world, run)
    assert look().counts.listed == 7
    world.clock.advance(DAY)
    assert look().source == "listing", "it stays large"


def test_a_run_goes_on_as_it_began_when_the_setting_is_changed(world: World):
    run = begun(world)
    play_job(world, run)
    ended = by_listing(world)
    assert counts_of(ended) == AuditCounts(listed=7, lost=7)


# ---- deaths and twins


def until_done(world: World, life: Life | None = None) -> AuditRun:
    """Invocations until the run has ended, the first with this life; the job is played whenever it is under way."""
    ports = life.over(world.ports) if life else world.ports
    for _ in range(10):
        try:
            run = audit(world, ports, pages=1)
        except Died:
            run = None
        ports = world.ports
        noted = world.ledger.audit(world.flights.place)
        if noted is not None and noted.finished_at and noted.since < noted.until and noted.page:
            return noted
        if run is not None and run.job and world.jobs.runs[run.job].state is not JobState.ENDED:
            play_job(world, run)
    raise AssertionError("the run does not end")


def prepared(moment: str) -> World:
    world = small_world()
    world.listing.size = 3
    assert audit(world)
    world.clock.advance(DAY)
    put(world, FILES)
    world.dispatch(notice(*FILES[4:]))
    world.clock.advance(2 * DAY)
    if moment == "job ended":
        run = audit(world)
        assert run is not None
        play_job(world, run)
    return world


def calls(moment: str) -> int:
    life = Life()
    world = prepared(moment)
    audit(world, life.over(world.ports), pages=1)
    return life.made


@pytest.mark.parametrize(
    ("moment", "life"),
    [(moment, life) for moment in ("begin", "job ended") for life in every_death(calls(moment))],
    ids=str,
)
def test_it_may_die_anywhere_and_each_upload_lands_once(moment: str, life: Life):
    world = prepared(moment)
    until_done(world, life)
    deliver(world)
    assert registered(world) == [each.key for each in FILES]


def test_a_twin_that_notes_the_job_first_goes_on(world: World):
    assert audit(world)
    world.clock.advance(DAY)
    put(world, FILES)
    world.clock.advance(2 * DAY)

    def twin() -> None:
        assert audit(world) is not None

    life = Life()
    # the record, the routes it may inherit from are not asked for, the beginning; then the job is noted
    life.before, life.calls = twin, 4
    assert audit(world, life.over(world.ports)) is None
    assert len(world.screenings) == 1, "the same run has the same job"


def test_a_screening_reads_the_claims_of_a_thousand_uploads_together(world: World, monkeypatch: pytest.MonkeyPatch):
    listed = [Listed(each, world.clock()) for each in uploads(2_500)]
    asked: list[int] = []
    reading = Ledger.claims_on

    def claims_on(ledger: Ledger, of: Iterable[Upload]) -> Any:
        given = list(of)
        asked.append(len(given))
        return reading(ledger, given)

    monkeypatch.setattr(Ledger, "claims_on", claims_on)
    window = Window(0, world.clock(), LIMITS.min_age, LIMITS.horizon)
    found = list(screen(listed, window, world.ledger))
    assert asked == [1_000, 1_000, 500]
    assert sum(len(part.suspects) for part in found) == 2_500
