"""The schedules, which here run more often than on AWS: settle at each look, the audit's hour at each of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.chaos.traffic import ROUTES
from tests.e2e.conftest import LocalStack


@dataclass
class Schedules:
    """Has the scheduled functions look. `lost` counts the looks that were cut off, by function."""

    stack: LocalStack
    lost: dict[str, int] = field(default_factory=lambda: {"settle": 0, "audit": 0})
    audits: int = 0

    def settle(self) -> None:
        self._look("settle")

    def audit(self) -> None:
        """Have the audit go on with each route's run, or begin one."""
        for route in ROUTES:
            self.stack.let_an_hour_pass(route)
        if self._look("audit"):
            self.audits += 1

    def _look(self, function: str) -> bool:
        try:
            return self.stack.look(function)
        except OSError:  # it was killed meanwhile
            self.lost[function] += 1
            return False
