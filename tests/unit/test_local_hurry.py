"""Tests of a whole local stack shorten what no `tidegate.toml` says. Nothing else does."""

import json
from pathlib import Path

import pytest

from tests.unit.test_settings import GOOD
from tidegate.core.workers import ALWAYS
from tidegate.settings import fixed, parse
from tidegate_local.hurry import HURRY, hurry, stay_always

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BATCH", "MIN_AGE", "STAY"):
        monkeypatch.setattr(fixed, name, getattr(fixed, name))


def test_a_function_of_a_hurried_stack_waits_for_less():
    hurry({HURRY: json.dumps({"min_age": 1, "retry_wait": 2, "attempts": 3})})
    settings = parse(GOOD)
    limits = settings.core_routes()[0].limits
    assert (settings.audit_limits().min_age, limits.retry_wait, limits.attempts) == (1, 2, 3)


def test_a_stack_that_nobody_hurries_runs_by_what_is_deployed():
    before = fixed.BATCH, fixed.MIN_AGE
    hurry({})
    assert before == (fixed.BATCH, fixed.MIN_AGE)


def test_a_worker_is_always_there_unless_the_file_says_for_how_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(HURRY, json.dumps({"min_age": 1}))
    stay_always()
    hurry()
    assert (parse(GOOD).stay, fixed.MIN_AGE) == (ALWAYS, 1)
    assert parse(f'{GOOD}\n[limits]\nstay = "90s"').stay == 90


def test_a_name_that_is_none_is_refused():
    with pytest.raises(AttributeError, match="NO_SUCH_WAIT"):
        hurry({HURRY: '{"no_such_wait": 1}'})


def test_what_is_deployed_has_no_such_door():
    for folder in ("tidegate", "lambdas", "infra"):
        for file in (ROOT / folder).rglob("*.py"):
            assert HURRY not in file.read_text(), file
