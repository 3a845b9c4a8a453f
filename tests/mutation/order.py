"""A plugin for pytest, loaded for each mutant: the fastest tests first, and none on DynamoDB Local.

Most mutants die at the first test that reaches them. One that survives meets all of them.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    slow = [item for item in items if "dynamodb-local" in item.nodeid]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]
    yield
    durations = _durations()
    items.sort(key=lambda item: durations.get(item.nodeid, 0.0))


def _durations() -> dict[str, float]:
    """By test. mutmut writes them down where it puts the mutants, which is where it runs the tests."""
    try:
        durations: dict[str, float] = json.loads(Path("mutmut-stats.json").read_text())["duration_by_test"]
    except FileNotFoundError:
        return {}
    return durations
