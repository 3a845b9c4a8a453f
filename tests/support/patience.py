"""Waits for other threads and processes. Results do not depend on time; the deadline only ends a test that hangs.

Whoever waits longer than that says what for.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HANGING = 600.0
"""Seconds after which a wait counts as hanging: several times what a busy machine needs. pytest's own `timeout` is
longer, so that the message of the wait is printed."""


def eventually(
    look: Callable[[], T],
    done: Callable[[T], bool] = bool,
    *,
    waiting_for: str,
    seconds: float = HANGING,
    every: float = 0.05,
) -> T:
    """The first value that is `done`; fails with the last one seen."""
    deadline = time.monotonic() + seconds
    while not done(value := look()):
        assert time.monotonic() < deadline, f"still waiting for {waiting_for} after {seconds:.0f} s: {str(value)[:500]}"
        time.sleep(every)
    return value
