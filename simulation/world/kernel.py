"""One virtual clock, one seed, and processes that take turns.

A process is a greenlet. It runs until it asks the world for something (a call, a sleep) and is resumed when its turn
comes on the virtual clock, so two processes interleave at every call and nowhere else. Nothing happens at the same
time: of two events due at once, the one that was scheduled first goes first.
"""

import hashlib
import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

START = 1_800_000_000.0
"""When a world begins, in epoch seconds: a round number in 2027."""


class Died(BaseException):
    """The process died. The product must not catch this."""


class Stuck(AssertionError):
    """Too many events: something loops."""


class Process:
    """A process that runs code of the product and may die at any call."""

    def __init__(self, kernel: "Kernel", name: str, body: Callable[[], Any], done: Callable[["Process"], None]) -> None:
        self.kernel = kernel
        self.name = name
        self.role = name.partition("-")[0]
        """The name of the process, the same in each run of it."""
        self.deployed: str | None = None
        """Its configuration, once it has read one."""
        self.batch = ""
        """The batch of its last call, while watched."""
        self.skew = 0.0
        """By how many seconds its clock is fast."""
        self.dead = False
        self.ended = False
        self.error: BaseException | None = None
        self.answer: Any = None
        self._body = body
        self._done = done
        self._greenlet = greenlet(self._run, parent=kernel.hub)

    def _run(self) -> None:
        try:
            self.answer = self._body()
        except Died:
            self.dead = True
        except Exception as error:
            self.error = error
        self.ended = True
        self._done(self)

    def resume(self) -> None:
        if not self.ended:
            kernel = self.kernel
            if self.skew:
                kernel.on_tick(kernel.now + self.skew)
            kernel.current, before = self, kernel.current
            self._greenlet.switch()
            kernel.current = before
            if self.skew:
                kernel.on_tick(kernel.now)

    def kill(self) -> None:
        """Kill it: it dies at the call that it waits for."""
        self.dead = True

    @property
    def failed(self) -> bool:
        return self.dead or self.error is not None


class Kernel:
    """The clock, the order of events, the random numbers, and the trace of all calls."""

    def __init__(self, seed: int, *, most_events: int = 60_000) -> None:
        self.now = START
        self.random = random.Random(seed)
        self.hub = getcurrent()
        self.current: Process | None = None
        self.trace: list[str] = []
        self.keep_trace = False
        self.on_tick: Callable[[float], None] = lambda now: None
        self._digest = hashlib.sha256()
        self._unhashed: list[str] = []
        self._queue: list[tuple[float, int, Callable[[], object], bool]] = []
        self._numbers = itertools.count()
        self.most_events = most_events
        """How many more may happen."""
        self._background = 0

    # ---- events

    def after(self, seconds: float, action: Callable[[], object], *, background: bool = False) -> None:
        """Have `action` happen `seconds` from now. Background events (a schedule) do not keep a world awake."""
        heapq.heappush(self._queue, (self.now + seconds, next(self._numbers), action, background))
        self._background += background

    def spawn(
        self, name: str, body: Callable[[], Any], done: Callable[[Process], None] = lambda process: None
    ) -> Process:
        process = Process(self, name, body, done)
        self.after(0, process.resume)
        return process

    def sleep(self, seconds: float) -> None:
        """Only within a process: let others run. Raises Died if the process was killed meanwhile."""
        process = self.current
        assert process is not None, "only a process can sleep"
        if process.dead:
            raise Died(process.name)
        self.after(seconds, process.resume)
        self.hub.switch()
        if process.dead:
            raise Died(process.name)

    @property
    def busy(self) -> bool:
        """Whether anything but schedules is still to happen."""
        return len(self._queue) > self._background

    def run(self, until: Callable[[], bool], deadline: float) -> bool:
        """Let events happen until `until` holds; False if `deadline` (epoch seconds) comes first or nothing is left."""
        while not until():
            if not self._queue or self._queue[0][0] > deadline:
                return until()
            self.step()
        return True

    def step(self) -> None:
        at, _, action, background = heapq.heappop(self._queue)
        self._background -= background
        self.most_events -= 1
        if self.most_events < 0:
            raise Stuck("too many events: something goes round in a circle")
        if at > self.now:
            self.now = at
            self.on_tick(at)
        action()

    # ---- evidence

    def note(self, *words: object) -> None:
        line = f"{self.now - START:.3f} {' '.join(map(str, words))}"
        self._unhashed.append(line)
        if len(self._unhashed) > 10_000:
            self._hash()
        if self.keep_trace:
            self.trace.append(line)

    def say(self, words: str) -> None:
        """For readers of the trace. It is not part of the hash, so that two faults with the same effect have the same
        hash."""
        if self.keep_trace:
            self.trace.append(f"{self.now - START:.3f} {words}")

    def remark(self, words: str) -> None:
        """The same, at the end of the last line."""
        if self.keep_trace and words:
            self.trace[-1] += f"  {words}"

    def _hash(self) -> None:
        self._digest.update("\n".join([*self._unhashed, ""]).encode())
        self._unhashed.clear()

    @property
    def digest(self) -> str:
        """The hash of the trace: the same seed and plan give the same hash. It covers a fault's effect, not its
        name."""
        self._hash()
        return self._digest.hexdigest()
