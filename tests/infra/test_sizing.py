"""The numbers fit together, and a configuration that would break them is refused."""

import pytest

from infra import sizing
from infra.roster import ROSTER
from tidegate.aws.jobs import REMEMBER_SECONDS
from tidegate.settings import DAY, HOUR, RetentionSettings, Settings, parse

ROUTE = """
[[route]]
name = "a"
bucket = "example-landing"
format = "json"
table = "lake.a.a"
schema = "id bigint"
"""


def settings(**retention: str) -> Settings:
    lines = "\n".join(f'{name} = "{value}"' for name, value in retention.items())
    return parse(f"[retention]\n{lines}\n{ROUTE}")


def test_the_defaults_fit_together():
    sizing.check(settings())


def test_what_a_function_is_given_fits_an_invocation():
    # one notification as a record of the function's event has about 1,900 bytes, and an event 6 MB at most
    assert sizing.INTAKE.batch_size * 2_000 <= 6_000_000
    assert sizing.INTAKE.window >= 1, "a batch of more than 10 messages needs a window"
    assert (sizing.DISPATCH.batch_size, sizing.DISPATCH.window) == (10, 0), "the most that a FIFO queue gives"


@pytest.mark.parametrize(
    ("waits", "window"),
    [(["1s"], 2), (["60s"], 5), (["1h", "60s"], 5), (["15m"], 75), (["1h"], 300), (["2d"], 300)],
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


def test_a_queue_must_keep_a_message_until_it_is_a_dead_letter():
    with pytest.raises(sizing.SizingError, match=r"`?messages`? must be longer than 3600s: dispatch .* 5 times"):
        sizing.check(settings(messages="1h"))


@pytest.mark.parametrize("dead_letters", ["4d", "3d"])
def test_dead_letters_must_be_kept_longer_than_messages(dead_letters):
    with pytest.raises(sizing.SizingError, match="dead_letters must be longer than `messages`"):
        sizing.check(settings(dead_letters=dead_letters))


def test_a_replayed_notice_meets_a_ledger_that_still_knows_it():
    for claims in range(46, 90):
        retention: RetentionSettings = settings(claims=f"{claims}d").retention
        days = sizing.archive_days(retention)
        assert days * DAY + retention.travel < retention.claims
        assert days == sizing.ARCHIVE_DAYS or (days + 1) * DAY + retention.travel >= retention.claims


def test_there_is_no_archive_where_the_ledger_forgets_too_soon():
    # the settings refuse so short a memory
    retention = RetentionSettings.model_construct(
        messages=6 * HOUR, dead_letters=2 * DAY, look_back=115 * HOUR, claims=116 * HOUR
    )
    assert retention.claims - retention.travel == 2 * HOUR
    assert sizing.archive_days(retention) == 0


def limited(lines: str, route: str = ROUTE) -> Settings:
    return parse(f"[limits]\n{lines}\n{route}")


@pytest.mark.parametrize("lines", ["memory_gb = 24", "vcpu = 6", "disk_gb = 40"])
def test_one_job_fits_into_the_least_that_the_settings_allow(lines):
    sizing.check(limited(lines))
    smallest = sizing.smallest_job()
    assert (smallest.vcpu, smallest.memory, smallest.disk) == (6, 24, 40)


def test_a_larger_worker_would_be_refused_where_it_does_not_fit(monkeypatch):
    monkeypatch.setitem(sizing.WORKERS, "spark.executor.cores", "16")
    with pytest.raises(sizing.SizingError, match=r"vcpu must be 18 at least"):
        sizing.check(limited("vcpu = 16"))


@pytest.mark.parametrize(
    ("lines", "jobs", "executors"),
    [
        ("", 2, 2),
        ("vcpu = 6\nmemory_gb = 24", 1, 1),
        ("concurrent_jobs = 1", 1, 3),
        ("concurrent_jobs = 6", 6, 1),
        ("vcpu = 64\nmemory_gb = 64", 2, 2),
        ("vcpu = 64\nmemory_gb = 256\ndisk_gb = 2000", 10, 2),
        ("vcpu = 64\nmemory_gb = 256\ndisk_gb = 2000\nconcurrent_jobs = 2", 2, 14),
        ("vcpu = 10000\nmemory_gb = 100000\ndisk_gb = 100000", 1000, 1001),
    ],
)
def test_as_many_jobs_run_as_have_room_and_a_large_one_leaves_the_others_theirs(lines: str, jobs: int, executors: int):
    given = limited(lines)
    sizing.check(given)
    assert sizing.concurrent_jobs(given.limits) == jobs
    assert sizing.most_executors(given.limits) == executors
    driver, executor, smallest = sizing.worker("driver"), sizing.worker("executor"), sizing.smallest_job()
    if executors > 1:
        assert driver.vcpu + executors * executor.vcpu + (jobs - 1) * smallest.vcpu <= given.limits.vcpu
        assert driver.memory + executors * executor.memory + (jobs - 1) * smallest.memory <= given.limits.memory_gb


def test_what_routes_hand_off_changes_nothing_about_the_application():
    many = ROUTE + "[route.batch]\nin_flight = 50\n"
    assert sizing.concurrent_jobs(limited("", many).limits) == sizing.concurrent_jobs(limited("").limits)
    sizing.check(limited("concurrent_jobs = 1", many))


def test_drivers_that_would_leave_no_room_for_an_executor_are_refused():
    sizing.check(limited("concurrent_jobs = 6"))
    with pytest.raises(sizing.SizingError, match=r"concurrent_jobs may be 6 at most: .* no room for an executor"):
        sizing.check(limited("concurrent_jobs = 7"))


def test_a_small_job_starts_one_executor():
    """EMR begins with the larger of the two, whose default is 3."""
    told = sizing.spark_workers(limited("").limits)
    assert told["spark.dynamicAllocation.initialExecutors"] == told["spark.executor.instances"] == "1"
    assert told["spark.dynamicAllocation.maxExecutors"] == "2"


def test_an_attempt_ends_while_hand_off_still_knows_that_it_started_it():
    sizing.check(limited('queue_timeout = "12h"\njob_timeout = "11h"'))
    with pytest.raises(sizing.SizingError, match="less than 24h together"):
        sizing.check(limited('queue_timeout = "12h"\njob_timeout = "12h"'))
    assert sizing.HAND_OFF_REMEMBERED == REMEMBER_SECONDS


@pytest.mark.parametrize("row", ROSTER, ids=lambda row: row.name)
def test_no_function_runs_longer_than_lambda_allows(row):
    assert 0 < row.started_by.timeout <= sizing.LAMBDA_LONGEST_TIMEOUT
