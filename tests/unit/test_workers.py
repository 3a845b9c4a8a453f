"""Who is counted on, and when an attempt is taken from its worker."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.batches import Batch, State
from tidegate.core.records import decode_offer, decode_worker, is_offer, offer_key, worker_key
from tidegate.core.transitions import note_alive, note_started, offer, take
from tidegate.core.workers import (
    GIVES_WAY,
    LONGEST,
    SILENT,
    SMALL_BYTES,
    SMALL_OBJECTS,
    SMALL_PATIENCE,
    Offer,
    Pool,
    Worker,
    code_of_job,
    gives_way,
    is_offered,
    is_replaced,
    is_served,
    is_small,
    is_stuck,
    takes_for,
    waits,
)
from tidegate.stores.memory import MemoryStore

NOW = 1_000_000
SMALL = Batch("01A", "flights", State.SUBMITTED, NOW, objects=3, bytes=300, attempt=1, submitted_at=NOW)
OFFER = Offer("01A", "code", "", small=True, submitted_at=NOW, early=7)
TIMES = st.integers(NOW - 500, NOW)
WORKERS = st.builds(
    Worker,
    st.sampled_from(["v", "w"]),
    st.sampled_from(["code", "other"]),
    st.just("run"),
    TIMES,
    st.integers(NOW - 5, NOW + 100),
    st.just(0) | TIMES,
    st.sampled_from(["", "01B"]),
    TIMES,
    st.booleans(),
)


def test_what_is_written_is_read():
    store, worker = MemoryStore(), Worker("w", "code", "run", NOW, NOW + 9, NOW + 2, "01A", NOW + 1, False)
    store.apply(note_started(worker))
    store.apply(note_alive(replace(worker, job_run="", started_at=0)))
    store.apply(offer(OFFER, now=NOW))
    store.apply(take("01A", "w", now=NOW + 1))
    found, taken = store.get(worker_key("w")), store.get(offer_key("01A"))
    assert found is not None
    assert taken is not None
    assert (is_offer(taken), is_offer(found)) == (True, False)
    assert decode_worker(found) == worker
    assert decode_offer(taken) == replace(OFFER, worker="w", taken_at=NOW + 1)


def test_a_worker_that_lives_before_its_start_is_noted_keeps_what_it_said():
    store = MemoryStore()
    store.apply(note_alive(Worker("w", "code", until=NOW + 5, seen_at=NOW)))
    store.apply(note_started(Worker("w", "code", "run", started_at=NOW, until=NOW + 9)))
    found = store.get(worker_key("w"))
    assert found is not None
    assert decode_worker(found) == Worker("w", "code", "run", NOW, NOW + 5, NOW)


def test_an_offer_is_taken_once():
    store = MemoryStore()
    store.apply(offer(OFFER, now=NOW))
    store.apply(take("01A", "w", now=NOW))
    store.apply(take("01A", "v", now=NOW))
    store.apply(offer(OFFER, now=NOW))
    found = store.get(offer_key("01A"))
    assert found is not None
    assert decode_offer(found).worker == "w"


@given(st.lists(WORKERS, max_size=4), st.integers(0, 50))
def test_more_offers_never_need_fewer_workers_and_no_worker_serves_none(workers: list[Worker], more: int):
    others = tuple(Offer(f"02{number}", "code", "", small=True, submitted_at=NOW) for number in range(more))
    few, many = Pool((OFFER,), tuple(workers)), Pool((OFFER, *others), tuple(workers))
    if is_served(OFFER, many, now=NOW):
        assert is_served(OFFER, few, now=NOW)
    assert not is_served(OFFER, Pool((OFFER,)), now=NOW)
    waiting = [each for each in workers if waits(each, "code", now=NOW)]
    if waiting:
        assert is_served(OFFER, few, now=NOW)
    if any(each.seen_at for each in waiting):
        assert is_served(replace(OFFER, small=False), few, now=NOW)


@given(WORKERS, st.booleans())
def test_who_runs_other_code_serves_nothing(worker: Worker, small: bool):
    foreign = replace(OFFER, code="newest", small=small)
    assert not is_served(foreign, Pool((foreign,), (worker,)), now=NOW)
    assert not waits(worker, "newest", now=NOW)


def test_a_clock_that_is_ahead_does_not_keep_a_worker_alive_for_ever():
    """It said so in the future: its clock is ahead, or ours is behind."""
    ahead = Worker("w", "code", until=NOW + 10_000, seen_at=NOW + 5_000)
    assert not waits(ahead, "code", now=NOW)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.booleans())
def test_an_attempt_is_taken_from_a_worker_that_is_silent_or_takes_too_long(since: int, silent: int, large: bool):
    batch = replace(SMALL, bytes=SMALL_BYTES + large, submitted_at=NOW - 20_000)
    taken = replace(OFFER, worker="w", taken_at=NOW - since)
    worker = Worker("w", "code", seen_at=NOW - silent)
    stuck = (not large and since >= SMALL_PATIENCE) or min(since, silent) >= SILENT
    assert is_stuck(batch, taken, worker, now=NOW) is stuck
    assert is_stuck(batch, taken, None, now=NOW) is (since >= SILENT)


def test_a_worker_whose_clock_is_behind_has_its_time():
    behind = NOW - SILENT - 60
    taken, worker = replace(OFFER, worker="w", taken_at=behind), Worker("w", "code", seen_at=behind)
    assert not is_stuck(replace(SMALL, submitted_at=NOW - SILENT + 1), taken, worker, now=NOW)
    assert is_stuck(replace(SMALL, submitted_at=NOW - SILENT), taken, worker, now=NOW)


def test_a_first_attempt_is_offered_and_no_other():
    assert is_offered(SMALL, last=False)
    assert not is_offered(SMALL, last=True)
    assert not is_offered(replace(SMALL, attempt=2), last=False)
    assert not is_offered(replace(SMALL, fencing=True), last=False)


def test_what_is_small():
    assert is_small(replace(SMALL, bytes=SMALL_BYTES, objects=SMALL_OBJECTS))
    assert not is_small(replace(SMALL, bytes=SMALL_BYTES + 1))
    assert not is_small(replace(SMALL, objects=SMALL_OBJECTS + 1))


def test_a_worker_takes_batches_for_half_of_its_time_and_an_hour_at_most():
    assert (takes_for(600), takes_for(24 * 3_600)) == (300, LONGEST)


def waiting(worker: str, code: str = "code", seen: int = NOW) -> Worker:
    return Worker(worker, code, "run", NOW, NOW + 99, seen)


def test_a_young_offer_is_left_to_who_comes_first_and_waits():
    def leaves(worker: str, *others: Worker, now: int = NOW) -> bool:
        return gives_way(worker, OFFER, Pool((OFFER,), (waiting(worker, seen=now), *others)), now=now)

    assert leaves("b", waiting("a"))
    assert not leaves("a", waiting("b"))
    assert not leaves("b", waiting("a", seen=0)), "a queued one may be so for long"
    assert not leaves("b", replace(waiting("a"), batch="01B"))
    assert not leaves("b", waiting("a", "other"))
    assert not leaves("b", waiting("a"), now=NOW + GIVES_WAY)
    assert leaves("b", waiting("always-1")), "it does not end anyway"
    assert not leaves("always-1", waiting("b"))


def test_a_worker_is_replaced_by_a_later_one_of_other_code():
    def replaced(worker: str, *others: Worker) -> bool:
        return is_replaced(worker, "code", Pool(workers=others))

    assert replaced("always-2", waiting("always-3", "newer"))
    assert not replaced("always-2", waiting("always-1", "older"))
    assert not replaced("always-2", waiting("always-3")), "the next one of the same code: this one has its time yet"
    assert not replaced("always-2", waiting("b", "newer"))
    assert not replaced("01A-1", waiting("always-3", "newer"))


def test_other_modules_or_another_application_are_other_code():
    one = code_of_job("00f", "s3://assets/a.py", "--conf spark.archives=b.zip")
    assert one == code_of_job("00f", "s3://assets/a.py", "--conf spark.archives=b.zip")
    others = [("00g", "a.py", "b.zip"), ("00f", "a.py", "c.zip"), ("00f", "b.py", "b.zip")]
    assert len({one, *(code_of_job(*each) for each in others)}) == 4
