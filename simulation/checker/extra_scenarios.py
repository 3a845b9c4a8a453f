"""The scenarios with a person or an accident, for the mistakes that those of `scenarios.py` do not show.

Without a fault the product keeps every promise in all of them. `bugs.py` names the mistakes that each one shows.
"""

from collections.abc import Callable
from inspect import isfunction
from types import ModuleType

from simulation.checker.accidents import crossings, people, services, tables, unannounced
from simulation.checker.accidents.scene import Scene
from simulation.checker.scenarios import CORE

Accident = Callable[[Scene], None]


def _scenarios_of(module: ModuleType) -> dict[str, Accident]:
    """The public functions of a module, by name, in their order. Those that it imports are no scenarios."""
    return {
        name: each
        for name, each in vars(module).items()
        if isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_")
    }


EXTRA: dict[str, Accident] = {}
for _module in (people, services, unannounced, tables, crossings):
    EXTRA |= _scenarios_of(_module)

BEYOND = frozenset(
    {"stuck_behind_the_topic", "notices_purged", "a_job_that_takes_days", "lost_while_a_backfill_gathers"}
)
"""Their accident destroys a notice or rows, or makes the ledger lose a record before its expiry. Without an audit, or a
further backfill, Tidegate does not promise to recover from that. Here it does, because nothing else happens; so no
faults are added."""

CROSSED = ("returning", "again_in_company", "again_while_it_is_claimed", "told_while_given_up")
"""Scenarios in which an upload comes again while it is open how the first one ends."""
SHARED = (*CORE, *CROSSED, "announced", "unannounced", "screened")
"""Of the faults of these `make test-all` tries a share, `make faults` every one."""
