"""The checks of `doctor`: one line each, with a finding and an advice."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.cli.exits import Exit


class CheckState(StrEnum):
    OK = "ok"
    WARN = "warn"  # it works, but not as well as it could, or not everywhere
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what was found, what to do about it, and the exit code of `doctor` if it fails."""

    name: str
    state: CheckState
    finding: str
    advice: str = ""
    exit: Exit = Exit.OK


def verdict(checks: Sequence[Check]) -> Exit:
    """The code of the first check that failed."""
    return next((check.exit for check in checks if check.state is CheckState.FAIL), Exit.OK)
