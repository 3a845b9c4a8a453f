"""The numbers fit together, and a configuration that would break them is refused."""

from dataclasses import replace

import pytest

from infra import sizing
from infra.roster import ROSTER
from tidegate.aws.jobs import REMEMBER_SECONDS
from tidegate.schedule import LONGEST_WINDOW
from tidegate.settings import DAY, HOUR, MINUTE, LimitSettings, SettingsError, parse
from tidegate.settings.fixed import DEAD_LETTERS, JOB_TIMEOUT, LONGEST_JOB, MESSAGES, QUEUE_TIMEOUT, TRAVEL
from tidegate.settings.sections import TWO_JOBS

ROUTE = """
[[route]]
name = "a"
bucket = "example-landing"
format = "json"
table = "lake.a.a"
schema = "id bigint"
"""


@pytest.mark.parametrize("source", [sizing.INTAKE, sizing.DISPATCH])
def test_a_queue_keeps_a_message_until_it_is_a_dead_letter(source):
    """One that expires while it is tried never reaches the dead letters. With the longest window of intake."""
    assert source.timeout <= sizing.LAMBDA_LONGEST_TIMEOUT
    assert replace(source, window=LONGEST_WINDOW).patience < MESSAGES


def test_dead_letters_are_kept_longer_than_messages():
    """A dead letter's age counts from when it was first sent: one that was tried for long would expire at once."""
    assert MESSAGES < DEAD_LETTERS <= 14 * DAY, "SQS keeps nothing longer"


def test_what_a_function_is_given_fits_an_invocation():
    # one notification as a record of the function's event has about 1,900 bytes, and an event 6 MB at most
    assert sizing.INTAKE.batch_size * 2_000 <= 6_000_000
    assert sizing.INTAKE.window >= 1, "a batch of more than 10 messages needs a window"
    assert (sizing.DISPATCH.batch_size, sizing.DISPATCH.window) == (10, 0), "the most that a FIFO queue gives"


@pytest.mark.parametrize(
    ("waits", "window"),
    [
        (["1s"], 1),
        (["3s"], 1),
        (["4s"], 2),
        (["60s"], 5),
        (["1h", "60s"], 5),
        (["15m"], 75),
        (["1h"], 300),
        (["2d"], 300),
    ],
)
def test_intake_gathers_for_a_twelfth_of_the_shortest_wait(waits, window):
    routes = [
        ROUTE.replace('"a"', f'"a{number}"').replace("[[route]]", f'[[route]]\nprefix = "{number}/"')
        + f'[route.batch]\nmax_wait = "{wait}"\n'
        for number, wait in enumerate(waits)
    ]
    source = sizing.intake(parse("".join(routes)))
    assert source.window == window
    assert source.visibility >= 6 * source.timeout + source.window
    assert sizing.DISPATCH.visibility >= source.visibility, "the alarms reckon with the longest"


def test_a_replayed_notice_meets_a_ledger_that_still_knows_it():
    for claims in range(46, 90):
        retention = parse(f'[retention]\nclaims = "{claims}d"\n{ROUTE}').retention
        days = sizing.archive_days(retention)
        assert days > 0
        assert days * DAY + TRAVEL < retention.claims
        assert days == sizing.ARCHIVE_DAYS or (days + 1) * DAY + TRAVEL >= retention.claims


def limited(vcpu: int, route: str = ROUTE) -> LimitSettings:
    return parse(f"[limits]\nvcpu = {vcpu}\n{route}").limits


def test_vcpu_alone_decide_how_many_workers_there_are():
    driver, executor = sizing.worker("driver"), sizing.worker("executor")
    assert driver.vcpu + executor.vcpu <= sizing.JOB_VCPU
    for each in (driver, executor):
        assert each.memory <= sizing.MEMORY_GB_A_VCPU * each.vcpu
        assert each.disk <= sizing.DISK_GB_A_VCPU * each.vcpu


def test_one_job_fits_into_the_least_that_the_settings_allow():
    assert limited(sizing.JOB_VCPU).vcpu == sizing.JOB_VCPU
    with pytest.raises(SettingsError, match=f"{sizing.JOB_VCPU} at least"):
        limited(sizing.JOB_VCPU - 1)


@pytest.mark.parametrize(
    ("vcpu", "jobs", "executors"),
    [(16, 2, 2), (6, 1, 1), (8, 1, 1), (11, 1, 2), (20, 3, 1), (64, 10, 2), (10_000, 1000, 1001)],
)
def test_as_many_jobs_run_as_have_room_and_a_large_one_leaves_the_others_theirs(vcpu: int, jobs: int, executors: int):
    given = limited(vcpu)
    assert sizing.concurrent_jobs(given) == jobs
    assert sizing.most_executors(given) == executors
    driver, executor = sizing.worker("driver").vcpu, sizing.worker("executor").vcpu
    assert driver + executors * executor + (jobs - 1) * sizing.JOB_VCPU <= vcpu
    assert jobs * driver + executor <= vcpu, "the drivers alone leave room for an executor"


def test_with_the_vcpu_that_the_worker_that_is_always_there_needs_two_jobs_run():
    assert [sizing.concurrent_jobs(limited(vcpu)) for vcpu in (TWO_JOBS - 1, TWO_JOBS)] == [1, 2]


def test_what_routes_hand_off_changes_nothing_about_the_application():
    assert sizing.concurrent_jobs(limited(16, ROUTE + "[route.batch]\nin_flight = 50\n")) == 2


def test_a_small_job_starts_one_executor():
    """EMR begins with the larger of the two, whose default is 3."""
    told = sizing.spark_workers(limited(16))
    assert told["spark.dynamicAllocation.initialExecutors"] == told["spark.executor.instances"] == "1"
    assert told["spark.dynamicAllocation.maxExecutors"] == "2"


def test_an_attempt_ends_while_hand_off_still_knows_that_it_started_it():
    assert QUEUE_TIMEOUT + LONGEST_JOB < REMEMBER_SECONDS
    for seconds in (QUEUE_TIMEOUT, JOB_TIMEOUT, LONGEST_JOB):
        assert seconds % MINUTE == 0, "EMR Serverless takes whole minutes"
    assert 15 * MINUTE <= QUEUE_TIMEOUT <= 12 * HOUR, "what EMR Serverless allows"


@pytest.mark.parametrize("row", ROSTER, ids=lambda row: row.name)
def test_no_function_runs_longer_than_lambda_allows(row):
    assert 0 < row.started_by.timeout <= sizing.LAMBDA_LONGEST_TIMEOUT
