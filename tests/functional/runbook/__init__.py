"""Scenarios of docs/operations.md, one or more for each section that has commands.

A scenario puts a deployment into the state that its section describes, types the section's commands, and asserts what
the section promises. CONTRIBUTING.md says how to add one.
"""

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Callable

from tests.functional.runbook.stage import Stage

Scenario = Callable[[Stage], None]

SCENARIOS: dict[str, list[Scenario]] = defaultdict(list)
"""By heading."""


def scenario(heading: str) -> Callable[[Scenario], Scenario]:
    """Marks a function as a scenario of the section with this heading."""

    def add(play: Scenario) -> Scenario:
        SCENARIOS[heading].append(play)
        return play

    return add


def load() -> dict[str, list[Scenario]]:
    """All scenarios: every module of this folder is imported."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return SCENARIOS
