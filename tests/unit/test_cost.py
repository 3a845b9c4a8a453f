"""The arithmetic of a bill: what grows with what, and where the numbers come from."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import sizing
from tidegate.core.batches import BatchLimits
from tidegate.core.notices import MAX_BYTES
from tidegate.core.workers import ALWAYS, HANDOVER, STAY
from tidegate.cost import bill as costs
from tidegate.cost.bill import DailyTraffic, Gathering, bill, floor, in_a_window, spark, usual, waits
from tidegate.cost.counted import WORKER_MINUTE
from tidegate.cost.prices import OF_REQUESTS, PRICES
from tidegate.cost.requests import RequestCounts
from tidegate.settings import LimitSettings
from tidegate.sinks.iceberg.shares import DRIVER_BYTES, DRIVER_OBJECTS
from tidegate.stores import inserts

MEASURED = DailyTraffic(117_123, 47_000)
ALONE = Gathering(max_wait=60, stay=0)
"""Each job makes one attempt."""
TRAFFICS = st.builds(DailyTraffic, st.floats(1, 1e8), st.floats(1, 1e8))


def test_the_numbers_of_the_stack_are_those_of_the_stack():
    assert sizing.INTAKE.batch_size == costs.MOST_IN_A_WINDOW
    assert inserts.INSERTS == costs.CLAIMS_IN_A_REQUEST
    assert sizing.MEMORY_MB / 1024 == costs.LAMBDA_GB
    driver, executor = sizing.worker("driver"), sizing.worker("executor")
    assert (driver.vcpu, driver.memory) == (costs.DRIVER_VCPU, costs.DRIVER_GB)
    assert (executor.vcpu, executor.memory) == (costs.EXECUTOR_VCPU, costs.EXECUTOR_GB)
    assert (DRIVER_BYTES, DRIVER_OBJECTS) == (costs.DRIVER_READS_BYTES, costs.DRIVER_READS_OBJECTS)
    limits = BatchLimits()
    stay = LimitSettings().stay
    assert Gathering() == Gathering(limits.max_wait, limits.target_objects, limits.target_bytes, stay)


def test_a_worker_stays_by_default_for_as_long_as_that_is_cheaper_than_a_start():
    assert costs.break_even() == pytest.approx(STAY)


def test_a_window_of_uploads_fits_one_notice():
    assert costs.MOST_IN_A_WINDOW * costs.ENTRY_BYTES < MAX_BYTES


def test_counts_are_added_and_multiplied_field_by_field():
    one = RequestCounts(*range(len(fields(RequestCounts))))
    assert one + one == one * 2
    assert one * 3 - one == one * 2


def test_one_upload_a_day_is_one_batch_a_day():
    assert spark(DailyTraffic(1, 1), Gathering()).batches == pytest.approx(1, rel=0.01)
    assert spark(DailyTraffic(0, 1), Gathering()).batches == 0


def test_jobs_of_a_route_run_one_after_the_other():
    shortest = costs.JOB_STARTS_AFTER + costs.JOB_SECONDS
    assert spark(MEASURED, ALONE).starts == pytest.approx(costs.DAY / shortest, rel=0.02)


def test_a_longer_wait_makes_as_many_jobs_as_there_are_waits():
    found = spark(DailyTraffic(117_123, 1_000), replace(ALONE, max_wait=900))
    assert found.starts == found.batches == pytest.approx(96, rel=0.01)


def test_a_worker_that_stays_saves_starts_and_lets_uploads_wait_for_seconds():
    alone, shared = spark(MEASURED, ALONE), spark(MEASURED, Gathering())
    assert shared.starts < alone.starts / 8
    assert shared.batches > 10 * alone.batches
    assert bill(MEASURED, Gathering()).dollars < 0.65 * bill(MEASURED, ALONE).dollars
    (always, *_), (_, shortest, *_) = (waits(MEASURED, each) for each in (Gathering(), Gathering()))
    assert always.longest_wait < 15 < shortest.usual_wait < waits(MEASURED, ALONE)[1].usual_wait


@given(st.builds(DailyTraffic, st.floats(1, 1e5), st.floats(1, 1_000)), st.floats(10, 1e5))
def test_a_worker_that_stays_costs_at_most_one_start_more_for_each(traffic: DailyTraffic, wait: float):
    """A default that is wrong for a traffic costs twice as much, and not more, while its driver reads the batches."""
    alone = bill(traffic, Gathering(wait, stay=0))
    assert bill(traffic, Gathering(wait)).of("EMR") <= 2.05 * alone.of("EMR") + 0.1


@pytest.mark.parametrize(
    ("traffic", "gathering", "dollars"),
    [
        (DailyTraffic(8_640, 1e7), Gathering(60, stay=ALWAYS), 228),
        (DailyTraffic(1_440, 1e7), Gathering(60), 157),
        (DailyTraffic(10, 1e10), Gathering(60, stay=0), 5),
    ],
)
def test_spark_costs_what_a_simulation_of_single_uploads_has_found(
    traffic: DailyTraffic, gathering: Gathering, dollars: float
):
    """Each worker, batch and executor by itself, uploads at random: of batches for executors, and of uploads that are
    larger than a batch."""
    assert bill(traffic, gathering).of("EMR") == pytest.approx(dollars, rel=0.5)


@pytest.mark.parametrize(("stay", "starts"), [(60, 286), (STAY, 22)])
def test_batches_that_are_full_before_their_wait_are_counted(stay: float, starts: float):
    """By the same simulation."""
    assert spark(DailyTraffic(86_400, 1e6), Gathering(3_600, stay=stay)).starts == pytest.approx(starts, rel=0.5)


@given(TRAFFICS, st.floats(10, 1e5))
def test_the_worker_that_is_always_there_is_paid_for_always(traffic: DailyTraffic, wait: float):
    found = spark(traffic, Gathering(wait, stay=ALWAYS))
    assert found.drivers >= costs.DAY
    assert found.batches <= traffic.per_day + 1e-6


def test_an_idle_worker_asks_for_less_than_a_cent_in_an_hour():
    quantities = costs.quantities_of(WORKER_MINUTE * 60, costs.Spark())
    assert sum(PRICES[name].of(each) for name, each in quantities.items()) < 0.01


def test_a_batch_is_never_larger_than_its_targets():
    by_number = spark(DailyTraffic(1e7, 1), Gathering(max_wait=3_600)).batches
    assert by_number >= 1e7 / Gathering().target_objects
    by_bytes = spark(DailyTraffic(1_000, 1e8), Gathering(max_wait=3_600)).batches
    assert by_bytes >= 1_000 * 1e8 / Gathering().target_bytes


def test_a_window_has_the_upload_that_opens_it_and_those_that_follow():
    assert in_a_window(0, 60) == 1
    assert in_a_window(1.36, 60) == pytest.approx(7.8)
    assert in_a_window(0.1, 3_600) == pytest.approx(31)
    assert in_a_window(1e6, 60) == costs.MOST_IN_A_WINDOW


@given(TRAFFICS)
def test_nothing_costs_less_than_the_floor(traffic: DailyTraffic):
    least = floor(traffic)
    for made in (bill(traffic, Gathering()), usual(traffic, 1), usual(traffic, 10)):
        of_floor = {line.name: line.quantity for line in least.lines}
        quantities = {line.name: line.quantity for line in made.lines}
        assert all(quantities[name] >= quantity * 0.999 for name, quantity in of_floor.items())


@given(TRAFFICS, st.floats(60, 1e5), st.floats(60, 1e5))
def test_a_longer_wait_never_costs_more(traffic: DailyTraffic, one: float, other: float):
    short, long = sorted((one, other))
    cheap, dear = (bill(traffic, Gathering(max_wait=wait)).dollars for wait in (long, short))
    assert cheap <= dear * 1.01


@given(TRAFFICS)
def test_there_is_one_knee_and_no_step_after_it_is_worth_a_tenth(traffic: DailyTraffic):
    found = waits(traffic, Gathering())
    (knee,) = [number for number, each in enumerate(found) if each.knee]
    for before, after in zip(found[knee:], found[knee + 1 :], strict=False):
        assert before.dollars - after.dollars < costs.WORTH * before.dollars
    if knee:
        assert found[knee - 1].dollars - found[knee].dollars >= costs.WORTH * found[knee - 1].dollars


def test_the_wait_that_was_asked_about_is_in_the_table():
    assert 420 in [each.max_wait for each in waits(MEASURED, replace(Gathering(), max_wait=420))]


def test_a_job_for_ten_files_costs_a_tenth_of_the_starts():
    assert usual(MEASURED, 1).jobs == pytest.approx(10 * usual(MEASURED, 10).jobs)


def test_the_lines_of_requests_come_first_and_every_price_has_a_source():
    assert OF_REQUESTS[-1] == "EMR Serverless, memory"
    assert all(price.source.startswith("https://aws.amazon.com/") for price in PRICES.values())


def test_each_batch_is_written_to_the_table_whoever_makes_it():
    found = costs.quantities_of(RequestCounts(), costs.Spark(starts=1, batches=10))
    assert found["S3, puts and listings"] == 10 * costs.TABLE_PUTS


def test_two_workers_are_paid_for_while_one_takes_over():
    found = spark(DailyTraffic(0, 1), Gathering(stay=ALWAYS))
    assert found.drivers == costs.DAY + found.starts * HANDOVER
