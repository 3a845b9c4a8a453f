"""Which audit of a route is under way, and how far it is: on every store."""

from collections.abc import Callable
from dataclasses import replace

from tests.support.ledgers import racing
from tidegate.core.audit import AuditCounts, AuditRun, Marker
from tidegate.flows.ledger import Ledger

Another = Callable[[], Ledger]
RUN = AuditRun("flights", "01R1", started_at=50, since=10, until=40, watched_since=10)
NEXT = replace(RUN, id="01R2", started_at=90, since=50, until=80)


def paged(run: AuditRun, key: str = "flights/ä b.json", *, finished_at: int = 0) -> AuditRun:
    return replace(
        run,
        page=run.page + 1,
        after=Marker() if finished_at else Marker(key, "v1"),
        counts=run.counts + AuditCounts(listed=3, lost=1, committed=2),
        finished_at=finished_at,
    )


def test_a_run_is_read_as_it_was_noted(ledger: Ledger):
    assert ledger.audit("flights") is None
    assert ledger.begin_audit(RUN, None)
    assert ledger.audit("flights") == RUN
    first = paged(RUN)
    assert ledger.note_audit(first)
    assert ledger.audit("flights") == first
    last = paged(first, finished_at=70)
    assert ledger.note_audit(last)
    assert ledger.audit("flights") == last
    assert ledger.audit("weather") is None


def test_a_run_begins_only_after_the_last_has_ended(ledger: Ledger):
    assert ledger.begin_audit(RUN, None)
    assert not ledger.begin_audit(NEXT, None)
    assert not ledger.begin_audit(NEXT, RUN)
    ended = paged(RUN, finished_at=70)
    assert ledger.note_audit(ended)
    assert not ledger.begin_audit(NEXT, replace(ended, id="another"))
    assert ledger.begin_audit(NEXT, ended)
    assert ledger.audit("flights") == NEXT


def test_a_run_without_pages_ends_as_it_begins(ledger: Ledger):
    empty = replace(RUN, finished_at=50)
    assert ledger.begin_audit(empty, None)
    assert ledger.audit("flights") == empty
    assert ledger.begin_audit(NEXT, empty)


def test_a_late_page_is_refused(ledger: Ledger):
    """A twin did the same page, or the run has ended and another has begun."""
    assert ledger.begin_audit(RUN, None)
    first = paged(RUN)
    assert ledger.note_audit(first)
    assert not ledger.note_audit(paged(RUN, "flights/other"))
    ended = paged(first, finished_at=70)
    assert ledger.note_audit(ended)
    assert ledger.begin_audit(NEXT, ended)
    assert not ledger.note_audit(first)
    assert ledger.audit("flights") == NEXT


def test_one_of_many_begins_and_one_of_many_notes(another: Another):
    began = racing(*[lambda n=n: another().begin_audit(replace(RUN, id=f"01R{n}"), None) for n in range(6)])
    assert began.count(True) == 1
    run = another().audit("flights")
    assert run is not None
    noted = racing(*[lambda: another().note_audit(paged(run))] * 6)
    assert noted.count(True) == 1


# ---- the job that screens the bucket


BY_JOB = replace(RUN, source="s3-metadata-inventory")
STARTED = replace(BY_JOB, job="00job1")


def test_the_job_of_a_run_is_noted_once(ledger: Ledger):
    assert ledger.begin_audit(BY_JOB, None)
    assert ledger.audit("flights") == BY_JOB
    assert ledger.note_screening(STARTED)
    assert ledger.audit("flights") == STARTED
    assert not ledger.note_screening(STARTED)
    assert not ledger.note_screening(replace(BY_JOB, job="00job2"))
    page = replace(paged(STARTED), until=STARTED.until - 1)
    assert ledger.note_audit(page), "with the time until which the job's source knows"
    assert ledger.audit("flights") == page


def test_a_late_job_is_refused(ledger: Ledger):
    """The pages have begun, or another run has."""
    assert ledger.begin_audit(BY_JOB, None)
    page = paged(BY_JOB)
    assert ledger.note_audit(page)
    assert not ledger.note_screening(STARTED)
    assert ledger.note_audit(paged(page, finished_at=70))
    assert not ledger.note_screening(STARTED)
    assert ledger.begin_audit(NEXT, paged(page, finished_at=70))
    assert not ledger.note_screening(STARTED)
    found = ledger.audit("flights")
    assert found is not None
    assert (found.id, found.job, found.source) == (NEXT.id, "", "")


def test_a_run_that_has_no_job_is_given_up_too(ledger: Ledger):
    """Code that knows nothing of jobs has done its first page before one was started."""
    assert ledger.begin_audit(BY_JOB, None)
    page = paged(BY_JOB)
    assert ledger.note_audit(page)
    assert ledger.give_up_audit(page)
    found = ledger.audit("flights")
    assert found is not None
    assert found.given_up


def test_a_run_is_given_up_as_it_was_read(ledger: Ledger):
    assert ledger.begin_audit(BY_JOB, None)
    assert ledger.note_screening(STARTED)
    assert not ledger.give_up_audit(replace(STARTED, job="00job9"))
    page = paged(STARTED)
    assert ledger.note_audit(page)
    assert not ledger.give_up_audit(STARTED), "a twin has done a page"
    assert ledger.give_up_audit(page)
    found = ledger.audit("flights")
    assert found is not None
    assert (found.given_up, found.until, found.finished_at > 0) == (True, RUN.since, True)
    assert not ledger.give_up_audit(page)
    assert not ledger.note_audit(paged(page))
    assert ledger.begin_audit(NEXT, found)
    assert ledger.audit("flights") == NEXT
