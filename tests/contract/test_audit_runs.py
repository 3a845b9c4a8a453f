"""Which places are watched, which audit of one is under way, and how far it is: on every store."""

from collections.abc import Callable
from dataclasses import replace

from tests.support.ledgers import SettableClock, racing
from tidegate.core.audit import AuditCounts, AuditRun, Marker
from tidegate.core.routes import Place
from tidegate.flows.ledger import Ledger

Another = Callable[[], Ledger]
PLACE = Place("landing", "flights/ä b/" * 60, ".json")
WATCHED = AuditRun(PLACE, "01R0", started_at=10, since=10, until=5, watched_since=10, finished_at=10)
RUN = replace(WATCHED, id="01R1", started_at=50, since=10, until=40, finished_at=0)
NEXT = replace(RUN, id="01R2", started_at=90, since=50, until=80)


def begun(ledger: Ledger, run: AuditRun = RUN) -> bool:
    return ledger.begin_watch(WATCHED) and ledger.begin_audit(run, WATCHED)


def paged(run: AuditRun, key: str = "flights/ä b.json", *, finished_at: int = 0) -> AuditRun:
    return replace(
        run,
        page=run.page + 1,
        after=Marker() if finished_at else Marker(key, "v1"),
        counts=run.counts + AuditCounts(listed=3, lost=1, committed=2),
        finished_at=finished_at,
    )


def test_a_run_is_read_as_it_was_noted(ledger: Ledger):
    assert ledger.audit(PLACE) is None
    assert ledger.begin_watch(WATCHED)
    assert ledger.audit(PLACE) == WATCHED
    assert ledger.begin_audit(RUN, WATCHED)
    assert ledger.audit(PLACE) == RUN
    first = paged(RUN)
    assert ledger.note_audit(first)
    assert ledger.audit(PLACE) == first
    last = paged(first, finished_at=70)
    assert ledger.note_audit(last)
    assert ledger.audit(PLACE) == last
    assert ledger.audit(Place("landing", "weather/", ".json")) is None


def test_a_run_begins_only_after_the_last_has_ended(ledger: Ledger):
    assert not ledger.begin_audit(RUN, WATCHED), "nobody watches the place"
    assert begun(ledger)
    assert not ledger.begin_audit(NEXT, WATCHED)
    assert not ledger.begin_audit(NEXT, RUN)
    ended = paged(RUN, finished_at=70)
    assert ledger.note_audit(ended)
    assert not ledger.begin_audit(NEXT, replace(ended, id="another"))
    assert ledger.begin_audit(NEXT, ended)
    assert ledger.audit(PLACE) == NEXT


def test_a_place_is_watched_from_the_first_on(ledger: Ledger):
    assert ledger.begin_watch(WATCHED)
    assert not ledger.begin_watch(replace(WATCHED, watched_since=11))
    assert ledger.audits() == [WATCHED]


def test_a_place_is_left_once_and_comes_back_as_it_was(ledger: Ledger, clock: SettableClock):
    at = clock()
    assert begun(ledger)
    assert ledger.end_watch(RUN, at, 100)
    left = replace(RUN, left_at=at)
    assert ledger.audits() == [left]
    assert not ledger.end_watch(RUN, at + 1, 100)
    page = replace(paged(left, finished_at=70))
    assert ledger.note_audit(page), "its run goes on"
    assert ledger.begin_audit(replace(NEXT, left_at=at), page)
    assert ledger.audit(PLACE) == replace(NEXT, left_at=at)
    assert not ledger.resume_watch(replace(left, left_at=at + 1))
    assert ledger.resume_watch(left)
    assert ledger.audits() == [NEXT]
    assert not ledger.resume_watch(left)
    clock.advance(101)
    assert ledger.audits() == [NEXT], "it does not expire"


def test_a_place_that_was_left_is_forgotten_after_the_horizon(ledger: Ledger, clock: SettableClock):
    assert begun(ledger)
    assert ledger.end_watch(RUN, clock(), 100)
    clock.advance(99)
    assert len(ledger.audits()) == 1
    clock.advance(1)
    assert ledger.audits() == []
    assert ledger.audit(PLACE) is None
    assert ledger.begin_watch(replace(WATCHED, watched_since=clock())), "TTL deletes it days later"
    assert ledger.audits() == [replace(WATCHED, watched_since=clock())]


def test_a_place_that_is_watched_again_has_a_record_for_each_time(ledger: Ledger, clock: SettableClock):
    assert begun(ledger)
    assert ledger.end_watch(RUN, clock(), 100)
    again = replace(WATCHED, number=2, watched_since=clock())
    assert ledger.begin_watch(again)
    assert sorted(ledger.audits(), key=lambda run: run.number) == [replace(RUN, left_at=clock()), again]
    assert ledger.audit(PLACE, 2) == again
    other = replace(WATCHED, place=Place("landing", "weather/", ""))
    assert ledger.begin_watch(other)
    assert len(ledger.audits()) == 3


def test_what_nobody_watches_is_not_left(ledger: Ledger):
    assert not ledger.end_watch(WATCHED, 50, 100)
    assert not ledger.resume_watch(replace(WATCHED, left_at=50))
    assert ledger.audits() == []


def test_a_late_page_is_refused(ledger: Ledger):
    """A twin did the same page, or the run has ended and another has begun."""
    assert begun(ledger)
    first = paged(RUN)
    assert ledger.note_audit(first)
    assert not ledger.note_audit(paged(RUN, "flights/other"))
    ended = paged(first, finished_at=70)
    assert ledger.note_audit(ended)
    assert ledger.begin_audit(NEXT, ended)
    assert not ledger.note_audit(first)
    assert ledger.audit(PLACE) == NEXT


def test_one_of_many_begins_and_one_of_many_notes(another: Another):
    watched = racing(*[lambda: another().begin_watch(WATCHED)] * 6)
    assert watched.count(True) == 1
    began = racing(*[lambda n=n: another().begin_audit(replace(RUN, id=f"01R{n}"), WATCHED) for n in range(6)])
    assert began.count(True) == 1
    run = another().audit(PLACE)
    assert run is not None
    noted = racing(*[lambda: another().note_audit(paged(run))] * 6)
    assert noted.count(True) == 1
    left = racing(*[lambda n=n: another().end_watch(run, run.started_at + n, 2**40) for n in range(6)])
    assert left.count(True) == 1
    (there,) = another().audits()
    resumed = racing(*[lambda: another().resume_watch(there)] * 6)
    assert resumed.count(True) == 1


# ---- the job that screens the bucket


BY_JOB = replace(RUN, source="s3-metadata-inventory")
STARTED = replace(BY_JOB, job="00job1")


def test_the_job_of_a_run_is_noted_once(ledger: Ledger):
    assert begun(ledger, BY_JOB)
    assert ledger.audit(PLACE) == BY_JOB
    assert ledger.note_screening(STARTED)
    assert ledger.audit(PLACE) == STARTED
    assert not ledger.note_screening(STARTED)
    assert not ledger.note_screening(replace(BY_JOB, job="00job2"))
    page = replace(paged(STARTED), until=STARTED.until - 1)
    assert ledger.note_audit(page), "with the time until which the job's source knows"
    assert ledger.audit(PLACE) == page


def test_a_late_job_is_refused(ledger: Ledger):
    """The pages have begun, or another run has."""
    assert begun(ledger, BY_JOB)
    page = paged(BY_JOB)
    assert ledger.note_audit(page)
    assert not ledger.note_screening(STARTED)
    assert ledger.note_audit(paged(page, finished_at=70))
    assert not ledger.note_screening(STARTED)
    assert ledger.begin_audit(NEXT, paged(page, finished_at=70))
    assert not ledger.note_screening(STARTED)
    found = ledger.audit(PLACE)
    assert found is not None
    assert (found.id, found.job, found.source) == (NEXT.id, "", "")


def test_a_run_that_has_no_job_is_given_up_too(ledger: Ledger):
    """Code that knows nothing of jobs has done its first page before one was started."""
    assert begun(ledger, BY_JOB)
    page = paged(BY_JOB)
    assert ledger.note_audit(page)
    assert ledger.give_up_audit(page)
    found = ledger.audit(PLACE)
    assert found is not None
    assert found.given_up


def test_a_run_is_given_up_as_it_was_read(ledger: Ledger):
    assert begun(ledger, BY_JOB)
    assert ledger.note_screening(STARTED)
    assert not ledger.give_up_audit(replace(STARTED, job="00job9"))
    page = paged(STARTED)
    assert ledger.note_audit(page)
    assert not ledger.give_up_audit(STARTED), "a twin has done a page"
    assert ledger.give_up_audit(page)
    found = ledger.audit(PLACE)
    assert found is not None
    assert (found.given_up, found.until, found.finished_at > 0) == (True, RUN.since, True)
    assert not ledger.give_up_audit(page)
    assert not ledger.note_audit(paged(page))
    assert ledger.begin_audit(NEXT, found)
    assert ledger.audit(PLACE) == NEXT
