"""What an audit makes of an upload that is in the bucket."""

from dataclasses import replace

import pytest

from tests.support.build import ETAG, route, upload
from tidegate.core.audit import (
    LISTING,
    METADATA_INVENTORY,
    SENT,
    AuditCounts,
    AuditFinding,
    AuditLimits,
    AuditRun,
    Listed,
    Window,
    count_findings,
    first_run,
    judge_listed,
    next_run,
    scope_of,
    was_never_left,
    watch_of,
)
from tidegate.core.batches import Batch, State
from tidegate.core.claims import MARGIN, Claim
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import ABANDONED, DROPPED, Outcome
from tidegate.core.routes import Place

HOUR = 3_600
DAY = 24 * HOUR
NOW = 1_800_000_000
CLAIMED = NOW - DAY
PLACE = Place("landing", "flights/", ".json")
LIMITS = AuditLimits(min_age=12 * HOUR, max_age=30 * DAY, every=DAY, horizon=45 * DAY)

OWNER = NoticeRecord("n", "flights", "b", "parts/n-1", 1, 10, CLAIMED)
VOID = NoticeRecord("n", "flights", "", "", 0, 0, CLAIMED)
VERSIONED = Listed(upload(), CLAIMED - 5)
BY_ETAG = Listed(upload(version=f"etag:{ETAG}"), CLAIMED - 5)


def claim(claimed_at: int = CLAIMED, **given: str) -> Claim:
    return Claim("v1", "n", claimed_at, claimed_at + 60 * DAY, **given)


def batch(state: State) -> Batch:
    return Batch("b", "flights", state, CLAIMED)


def judged(listed: Listed, claim: Claim | None, owner: NoticeRecord | None = None, of: Batch | None = None):
    return judge_listed(listed, claim, owner, of, now=NOW, min_age=LIMITS.min_age, horizon=LIMITS.horizon)


def test_an_upload_without_a_claim_is_lost():
    assert judged(VERSIONED, None) is AuditFinding.LOST


@pytest.mark.parametrize(
    ("state", "finding"),
    [
        (State.OPEN, AuditFinding.PENDING),
        (State.SEALED, AuditFinding.PENDING),
        (State.SUBMITTED, AuditFinding.PENDING),
        (State.COMMITTED, AuditFinding.COMMITTED),
        (State.ABANDONED, AuditFinding.ABANDONED),
    ],
)
def test_a_registered_upload_is_what_its_batch_is(state: State, finding: AuditFinding):
    assert judged(VERSIONED, claim(), OWNER, batch(state)) is finding
    # put again after it was claimed: the same bytes are no new upload while the first may land, or has landed
    again = replace(BY_ETAG, modified=CLAIMED + MARGIN + 1)
    expected = AuditFinding.LOST if state is State.ABANDONED else finding
    assert judged(again, claim(), OWNER, batch(state)) is expected


def test_an_upload_of_a_void_notice_is_lost():
    assert judged(VERSIONED, claim(), VOID) is AuditFinding.LOST


def test_a_claim_that_outlived_the_record_of_its_batch_proves_nothing():
    assert judged(VERSIONED, claim(), OWNER) is AuditFinding.FORGOTTEN


@pytest.mark.parametrize(
    ("age", "finding"),
    [
        (0, AuditFinding.PENDING),
        (LIMITS.min_age - 1, AuditFinding.PENDING),
        (LIMITS.min_age, AuditFinding.STALE),
        (LIMITS.horizon, AuditFinding.STALE),
        (LIMITS.horizon + 1, AuditFinding.FORGOTTEN),
        (59 * DAY, AuditFinding.FORGOTTEN),
    ],
)
def test_a_claim_without_an_owner_is_stale_only_while_a_registered_owner_would_be_on_record(
    age: int, finding: AuditFinding
):
    assert judged(BY_ETAG, claim(NOW - age)) is finding


def test_a_claim_that_lives_on_does_not_hand_its_upload_out_again():
    """Claimed and committed 100 days ago; the same bytes come every day, and extend the claim."""
    old = replace(claim(NOW - 100 * DAY, later="0055"), expires_at=NOW + 59 * DAY)
    assert judged(replace(BY_ETAG, modified=NOW - DAY), old) is AuditFinding.FORGOTTEN


@pytest.mark.parametrize(
    ("outcome", "listed"),
    [(Outcome.VANISHED, VERSIONED), (Outcome.VANISHED, BY_ETAG), (Outcome.SUPERSEDED, BY_ETAG)],
)
def test_what_ended_as_gone_and_is_there_is_lost(outcome: Outcome, listed: Listed):
    assert judged(listed, claim(outcome=outcome)) is AuditFinding.LOST


@pytest.mark.parametrize("latest", [True, False])
def test_a_deletion_is_of_a_route_that_removes(latest: bool):
    """Also if a later version came, which perhaps cannot be read."""
    of = route()
    marker = replace(upload(f"{of.prefix}a{of.suffix}", "m1"), bucket=of.bucket, size=0)
    listed = Listed(marker, 1, latest, deletion=True)
    assert not listed.is_of(of)
    assert listed.is_of(replace(of, dataset=replace(of.dataset, replaces=True, removes=True)))


def test_a_version_that_gave_way_to_a_later_one_is_not_sent_again():
    assert judged(VERSIONED, claim(outcome=Outcome.SUPERSEDED)) is AuditFinding.COMMITTED


@pytest.mark.parametrize(
    ("outcome", "finding"),
    [
        (Outcome.QUARANTINED, AuditFinding.QUARANTINED),
        (ABANDONED, AuditFinding.ABANDONED),
        (DROPPED, AuditFinding.DROPPED),
    ],
)
def test_what_ended_without_a_row_is_lost_only_if_it_was_put_again(outcome: str, finding: AuditFinding):
    ended = claim(outcome=outcome)
    assert judged(replace(BY_ETAG, modified=CLAIMED + MARGIN), ended) is finding
    assert judged(replace(BY_ETAG, modified=CLAIMED + MARGIN + 1), ended) is AuditFinding.LOST
    # a version is put once, whatever the clocks say
    assert judged(replace(VERSIONED, modified=CLAIMED + MARGIN + 1), ended) is finding


@pytest.mark.parametrize(
    ("version", "latest", "has"),
    [("v1", True, True), ("v1", False, True), (f"etag:{ETAG}", True, True), (f"etag:{ETAG}", False, False)],
)
def test_the_window_has_what_a_get_can_name(version: str, latest: bool, has: bool):
    window = Window(since=NOW - 100, until=NOW - 10, min_age=10, horizon=1_000)
    assert window.has(Listed(upload(version=version), NOW - 50, latest), NOW) == has


def test_the_window_has_both_its_ends_and_nothing_beyond_the_horizon():
    window = Window(since=NOW - 100, until=NOW - 10, min_age=10, horizon=1_000)
    at = [NOW - 101, NOW - 100, NOW - 10, NOW - 9]
    assert [window.has(replace(VERSIONED, modified=each), NOW) for each in at] == [False, True, True, False]
    later = NOW + 950
    assert not window.has(replace(VERSIONED, modified=NOW - 51), later)
    assert window.has(replace(VERSIONED, modified=NOW - 50), later)


def test_counts_add_up_and_notice_if_they_do_not():
    counts = count_findings(5, [AuditFinding.LOST, AuditFinding.STALE, AuditFinding.LOST, AuditFinding.COMMITTED])
    assert counts == AuditCounts(listed=5, outside=1, lost=2, stale=1, committed=1)
    assert counts.sent == 3
    assert counts.holds
    both = counts + counts
    assert both.holds
    assert both.listed == 10
    assert AuditCounts.from_dict(both.as_dict()) == both
    assert not replace(both, lost=3).holds


def test_every_finding_has_its_count():
    assert {each.value for each in AuditFinding} | {"listed", "outside", "gone"} == set(AuditCounts().as_dict())
    assert {AuditFinding.LOST, AuditFinding.STALE} == SENT


# ---- runs


def first(place: Place = PLACE) -> AuditRun:
    return first_run(place, None, LIMITS, run_id="r1", now=NOW)


def following(last: AuditRun, now: int) -> AuditRun | None:
    return next_run(last, LIMITS, run_id="r2", now=now)


def test_the_first_run_looks_at_nothing_from_before_it():
    run = first()
    assert (run.since, run.until, run.watched_since, run.number) == (NOW, NOW - LIMITS.min_age, NOW, 1)
    assert run.finished_at == NOW
    again = first_run(PLACE, replace(run, left_at=NOW + 5), LIMITS, run_id="r3", now=NOW + 90 * DAY)
    assert (again.number, again.watched_since, again.left_at) == (2, NOW + 90 * DAY, 0)


@pytest.mark.parametrize(("days", "since"), [(3, NOW), (40, NOW), (70, NOW + 70 * DAY - LIMITS.horizon)])
def test_later_runs_look_back_to_where_the_last_one_ended_and_no_further_than_the_horizon(days: int, since: int):
    """`max_age` is what a daily audit looks back to. After a pause of audits it would leave a gap."""
    run = following(first(), NOW + days * DAY)
    assert run is not None
    assert (run.since, run.watched_since, run.page, run.finished_at) == (since, NOW, 0, 0)
    assert run.window(LIMITS) == Window(since, NOW + days * DAY - LIMITS.min_age, LIMITS.min_age, LIMITS.horizon)


def test_a_run_begins_once_the_last_has_ended_and_began_long_enough_ago():
    last = AuditRun(PLACE, "r1", NOW, NOW - DAY, NOW, NOW - DAY)
    assert following(last, NOW + 9 * DAY) is None, "it is not finished, and goes on"
    ended = replace(last, finished_at=NOW + HOUR)
    assert following(ended, NOW + DAY - 1) is None
    assert following(ended, NOW + DAY)


def test_a_run_begins_once_there_is_something_to_look_at():
    hourly = replace(LIMITS, every=HOUR)
    due = [hours for hours in range(1, 15) if next_run(first(), hourly, run_id="r2", now=NOW + hours * HOUR)]
    assert due == [12, 13, 14]


LEFT = NOW + 10 * DAY


@pytest.mark.parametrize(
    ("seen_until", "days", "window"),
    [
        (LEFT - HOUR, 0.25, (-29.75, -0.25)),
        (LEFT - HOUR, 1, (-29, 0)),
        (LEFT - 8 * DAY, 25, (-8, 0)),
        (LEFT - 8 * DAY, 44, (-1, 0)),
        (LEFT, 1, (-29, 0)),
        (LEFT, 29, (-1, 0)),
        (LEFT, 31, None),
        (LEFT - 8 * DAY, 46, None),
    ],
    ids=[
        "young",
        "old enough",
        "after a pause",
        "after a long pause",
        "again",
        "still",
        "for the last time",
        "beyond the horizon",
    ],
)
def test_a_place_that_was_left_is_looked_at_for_as_long_as_its_uploads_would_have_been(
    seen_until: int, days: float, window: tuple[float, float] | None
):
    last = replace(first(), watched_since=LEFT - 90 * DAY, left_at=LEFT, until=seen_until, started_at=LEFT - DAY)
    run = following(last, LEFT + int(days * DAY))
    expected = window and tuple(LEFT + int(each * DAY) for each in window)
    assert (run and (run.since, run.until)) == expected
    assert run is None or (run.left_at, run.number) == (LEFT, 1)


def test_a_place_that_comes_back_soon_was_never_left():
    left = replace(first(), left_at=NOW)
    assert was_never_left(left, LIMITS, now=NOW + LIMITS.every + LIMITS.min_age)
    assert not was_never_left(left, LIMITS, now=NOW + LIMITS.every + LIMITS.min_age + 1)


def test_the_last_watch_of_a_place_counts():
    runs = [replace(first(), number=number, left_at=5 * (number < 3)) for number in (2, 3, 1)]
    assert watch_of(PLACE, runs) == runs[1]
    assert watch_of(Place("landing", "weather/", ".json"), runs) is None


def test_a_place_is_listed_for_the_route_that_has_it_or_takes_a_part_of_it():
    there = replace(route("flights"), owner="999999999999", audit_from=METADATA_INVENTORY)
    part = replace(there, name="a", prefix="flights/a/")
    run = first(there.place)
    assert scope_of(run, [part, there]) == there
    assert scope_of(run, [part]) is None, "it is about to be left"
    left = replace(run, left_at=NOW + 5)
    assert scope_of(left, [part]) == replace(part, prefix="flights/", audit_from=LISTING)
    assert scope_of(left, [replace(part, retired=True), replace(part, bucket="other")]) is None
