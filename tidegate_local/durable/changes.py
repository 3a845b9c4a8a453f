"""What the request at hand has changed. There is no I/O here.

Whoever changes the state of an emulated service says what it touched. When the request's step ends, `keep` is told all
of it, while no other step can begin: so one request is one transaction, and the transactions have the order of the
changes. A step without `keep` (services without a folder) only keeps requests apart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Touched = Mapping[Hashable, Any]
"""What was touched, by its kind and name, in the order in which it was touched first."""
Keep = Callable[[Touched], int]
"""Takes what a step has touched, and answers with the number of the last transaction that it depends on."""


class Changes:
    """The steps of one process, one after the other."""

    def __init__(self) -> None:
        self.keep: Keep | None = None
        self._lock = threading.RLock()
        self._local = threading.local()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Everything that is touched in it belongs together. A step within a step is part of it."""
        with self._lock:
            if self._touched is not None:
                yield
                return
            touched: dict[Hashable, Any] = {}
            self._local.touched = touched
            try:
                yield
            finally:
                self._local.touched = None
                # what failed half-way has changed something, too
                if self.keep is not None:
                    self._local.ticket = self.keep(touched)

    def touch(self, *what: Hashable, value: Any = None) -> None:
        """Say that this is changed, or gone; outside a step nobody is told."""
        if self._touched is not None:
            self._touched[what] = value

    def ticket(self) -> int:
        """The number that `keep` gave for this thread's last step; 0 if there was none."""
        return int(getattr(self._local, "ticket", 0))

    @property
    def _touched(self) -> dict[Hashable, Any] | None:
        return getattr(self._local, "touched", None)


CHANGES = Changes()
"""Those of the emulated services, which are one in a process as moto's own state is."""
