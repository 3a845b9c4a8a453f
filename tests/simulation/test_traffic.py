"""The measured traffic: the generator has the published figures, and one part in 100 of it balances to the row."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise

import pytest

from simulation.comparison.traffic import (
    KEYS,
    LONGEST_GAP,
    NEAR_GAP,
    NOTIFICATIONS,
    SECONDS,
    SHORTEST_GAP,
    Replayed,
    conservation,
    generate,
    replay,
    simulation,
    work,
)
from tests.simulation.test_counting import STAY, assert_that_the_model_comes_out
from tidegate.cost.bill import JOB_SECONDS
from tidegate.schedule import intake_window

PART = 100
WAIT = 60
"""Seconds that a batch gathers."""


@pytest.fixture(scope="module")
def run() -> Iterator[Replayed]:
    with simulation(f"{WAIT}s"):
        yield replay(generate(PART))


def test_as_many_keys_and_notifications_as_were_measured() -> None:
    traffic = generate(loss=0)
    assert (traffic.keys, traffic.delivered) == (KEYS, NOTIFICATIONS)
    assert len(traffic.gaps) == 154
    assert {len(gaps) for gaps in traffic.gaps.values()} == {1, 2}
    assert not traffic.lost


def test_the_gaps_and_the_hours_are_those_that_were_measured() -> None:
    traffic = generate()
    gaps = list(chain.from_iterable(traffic.gaps.values()))
    assert (min(gaps), max(gaps)) == (SHORTEST_GAP, LONGEST_GAP)
    assert sum(gap <= NEAR_GAP for gap in gaps) > len(gaps) / 2
    assert traffic.at[0] >= 0
    assert traffic.ends <= SECONDS


def test_losses_are_uploads_beyond_the_measured_ones() -> None:
    traffic = generate(loss=0.01)
    assert (traffic.keys, traffic.delivered) == (KEYS, NOTIFICATIONS)
    assert len(traffic.lost) == round(0.01 * NOTIFICATIONS)
    assert all(traffic.notified(number) == [] for number in list(traffic.lost)[:5])
    assert not traffic.lost & traffic.gaps.keys()


def test_a_part_is_as_dense_and_has_every_kind_of_key() -> None:
    whole, part = generate(), generate(PART)
    assert part.keys / part.at[-1] == pytest.approx(whole.keys / whole.at[-1], rel=0.02)
    assert {len(gaps) for gaps in part.gaps.values()} == {1, 2}
    assert part.lost


def test_the_same_seed_is_the_same_traffic_and_another_is_not() -> None:
    assert generate(PART, seed=1) == generate(PART, seed=1)
    assert generate(PART, seed=1).at != generate(PART, seed=2).at


def test_every_upload_that_was_notified_is_in_the_table_once_and_every_sum_holds(run: Replayed) -> None:
    assert run.problems == []
    assert run.times_landed == {1: run.traffic.keys, 0: len(run.traffic.lost)}
    assert run.delivered > run.told == run.traffic.keys


def test_a_sum_that_does_not_hold_is_a_problem(run: Replayed) -> None:
    short = replace(run, delivered=run.delivered - 1)
    assert any("lost + delivered" in problem for problem in short.problems)
    assert replace(run, dead_letters=1).problems
    assert replace(run, came_to_rest=False).problems


def test_what_is_printed_is_what_was_counted(run: Replayed) -> None:
    assert f"| notifications delivered | {run.delivered:,} |" in conservation(run)
    assert "| dynamodb.PutItem |" in work(run)


def test_jobs_take_their_time_and_run_one_after_the_other(run: Replayed) -> None:
    jobs = sorted(run.counts.jobs)
    assert all(ended - began >= JOB_SECONDS for began, ended in jobs)
    assert all(ended <= began for (_, ended), (began, _) in pairwise(jobs))


def test_jobs_that_ran_side_by_side_are_a_problem(run: Replayed) -> None:
    (began, ended), *_ = run.counts.jobs
    beside = replace(run.counts, jobs=[*run.counts.jobs, (began + 1, ended + 1)])
    assert any("side by side" in problem for problem in replace(run, counts=beside).problems)


def test_a_longer_wait_makes_as_many_jobs_as_there_are_waits() -> None:
    traffic = generate(2 * PART)
    with simulation("5m"):
        run = replay(traffic)
    assert run.problems == []
    # the first one comes a wait after the first upload, and the last ones after the last upload
    assert len(run.counts.jobs) == pytest.approx(traffic.at[-1] / 300, abs=2)


def test_what_it_costs_is_what_the_model_says() -> None:
    with simulation(f"{WAIT}s", f"{STAY}s"):
        run = replay(generate(PART), window=intake_window(WAIT))
    assert_that_the_model_comes_out(run, WAIT)
