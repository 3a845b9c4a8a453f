"""`kill -9`, every few seconds, of what runs the product: its functions, Spark's drivers, JVMs and Python workers.

Whom and in which manner is drawn from a seed. When it strikes depends on what the machine does: so a seed gives the
same mixture again, and not the same run.

Left alone are the processes that stand for AWS (the services, the EMR endpoint and its guard, the event bus) and
the supervisor, which starts functions again as Lambda makes new sandboxes.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.fates import FunctionFate, JobFate, Kind, Manner, function_fates, job_fates
from tests.chaos.processes import Process, descendants, kill

AT_WORK_PATIENCE = 4.0
"""Seconds to wait for an invocation to begin; then the function has nothing to do, and another one is chosen."""
TICK = 0.02
LOOK = 0.2
"""Seconds between two looks at all processes."""


@dataclass(slots=True)
class Strike:
    """One `kill -9`. `at` in seconds since the killer began. Of a function: whether an invocation was cut off, and when
    its next sandbox was ready (`back`)."""

    at: float
    kind: Kind
    manner: Manner
    victim: str
    """A function, or a batch."""
    attempt: int = 0
    cut_off: bool = False
    back: float | None = None


@dataclass(slots=True)
class Job:
    """A job run that was seen, and its fate; `over` once that has come, or cannot come any more."""

    guard: Process
    batch: str
    attempt: int
    lake: Path
    fate: JobFate
    due: float | None
    """When to strike, monotonic; None until what the strike waits for has happened."""
    commits: int
    """How many commits the tables have when the strike's time has come."""
    over: bool


@dataclass(slots=True)
class Aim:
    """The next strike at a function."""

    fate: FunctionFate
    due: float
    mark: int | None = None
    """Where the function's log ended when the wait for an invocation began."""
    begun: bool = False


@dataclass
class Killer:
    """Strikes from a thread of its own until `calm`, and watches until `stop`."""

    folder: Path
    supervisor: int
    seed: int
    tell: Callable[[str], None]
    strikes: list[Strike] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed} victims")
        self._function_fates = function_fates(random.Random(f"{self.seed} functions"))
        self._job_fates = job_fates(random.Random(f"{self.seed} jobs"))
        self._stopping = threading.Event()
        self._calm = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer", daemon=True)
        self._returning: dict[str, int] = {}  # functions that were struck, and where their logs ended then
        self._began = 0.0
        self._aim: Aim | None = None

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def calm(self) -> None:
        """No more strikes; what they led to is still watched."""
        self._calm.set()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident:
            self._thread.join(30)

    def jobs_struck(self) -> int:
        return sum(strike.kind is not Kind.FUNCTION for strike in self.strikes)

    def _run(self) -> None:
        try:
            tree: list[Process] = []
            looked = 0.0
            while not self._stopping.wait(TICK):
                now = time.monotonic()
                if now - looked > LOOK:
                    tree, looked = descendants(self.supervisor), now
                    self._meet(tree, now)
                    self._note_returns()
                if not self._calm.is_set():
                    self._strike_function(tree, now)
                    for job in self.jobs:
                        self._strike_job(job, tree, now)
        except Exception as error:
            self.error = error

    # --- functions ---

    def _strike_function(self, tree: list[Process], now: float) -> None:
        if self._aim is None:
            fate = next(self._function_fates)
            self._aim = Aim(fate, now + fate.pause)
        aim, fate = self._aim, self._aim.fate
        if now < aim.due:
            return
        log = self._log(fate.function)
        if fate.manner is Manner.AT_WORK and not aim.begun:
            if aim.mark is None:
                aim.mark = log.stat().st_size
            elif "platform.start" in _since(log, aim.mark):
                aim.begun, aim.due = True, now + fate.delay
            elif now - aim.due > AT_WORK_PATIENCE:
                self._aim = None
            return
        self._aim = None
        size = log.stat().st_size
        victim = next((each for each in tree if _is_function(each, fate.function)), None)
        strike = Strike(self._clock(), Kind.FUNCTION, fate.manner, fate.function)
        if victim and self._strike(victim, strike):
            strike.cut_off = _began_and_did_not_end(log)
            self._returning[fate.function] = size

    def _note_returns(self) -> None:
        """Of every function that was struck, when its next sandbox was ready."""
        for name, size in list(self._returning.items()):
            if "platform.initEnd" in _since(self._log(name), size):
                del self._returning[name]
                for strike in self.strikes:
                    if strike.victim == name and strike.back is None:
                        strike.back = self._clock()

    def _log(self, function: str) -> Path:
        return self.folder / "logs" / f"{function}.log"

    # --- jobs ---

    def _meet(self, tree: list[Process], now: float) -> None:
        """Draw the fates of jobs that are new."""
        known = {(job.guard.pid, job.guard.born) for job in self.jobs}
        for process in tree:
            if "tidegate_local.guard" in process.words and (process.pid, process.born) not in known:
                self.jobs.append(self._job(process, next(self._job_fates), now))

    def _job(self, guard: Process, fate: JobFate, now: float) -> Job:
        lake = self.folder / "warehouse"
        return Job(
            guard=guard,
            batch=guard.value("--batch="),
            attempt=int(guard.value("--attempt=")),
            lake=lake,
            fate=fate,
            due=now + fate.delay if fate.manner is Manner.ANY_TIME else None,
            # the first of all creates a table
            commits=max(_commits(lake), 1) + fate.commits,
            over=fate.kind is None,
        )

    def _strike_job(self, job: Job, tree: list[Process], now: float) -> None:
        if job.over:
            return
        if job.due is None:
            if self._has_come(job, tree):
                job.due = now + job.fate.delay
        elif now >= job.due:
            job.over = True
            # the tree may be a moment old, and a task lasts no longer
            victims = [each for each in descendants(job.guard.pid) if _kind_of(each, job) is job.fate.kind]
            if victims and job.fate.kind:
                strike = Strike(self._clock(), job.fate.kind, job.fate.manner, job.batch, job.attempt)
                self._strike(self._random.choice(victims), strike)

    def _has_come(self, job: Job, tree: list[Process]) -> bool:
        if job.fate.manner is Manner.WROTE:
            return _commits(job.lake) >= job.commits
        return any(_kind_of(each, job) is Kind.WORKER for each in descendants(job.guard.pid, tree))

    # --- both ---

    def _strike(self, victim: Process, strike: Strike) -> bool:
        if not kill(victim):
            return False
        self.strikes.append(strike)
        of = f"batch {strike.victim}, attempt {strike.attempt}" if strike.attempt else strike.victim
        self.tell(f"{strike.at:6.1f} s  kill -9 {victim.pid}: {strike.kind}, {strike.manner} ({of})")
        return True

    def _clock(self) -> float:
        return time.monotonic() - self._began


def _is_function(process: Process, name: str) -> bool:
    return "tidegate_local.worker" in process.words and name in process.words


def _began_and_did_not_end(log: Path) -> bool:
    """Whether an invocation did, the last one of a function with this log."""
    text = log.read_text(errors="replace")
    return text.rfind('"platform.start"') > text.rfind('"platform.report"')


def _kind_of(process: Process, job: Job) -> Kind | None:
    """Which part of a job a process is."""
    if any(word in ("pyspark.daemon", "pyspark.worker") for word in process.words):
        return Kind.WORKER
    if process.parent == job.guard.pid:
        return Kind.SPARK_SUBMIT
    if process.value("--batch=") == job.batch and "python" in Path(process.words[0]).name:
        return Kind.DRIVER
    return None


def _commits(lake: Path) -> int:
    """How many versions of their metadata all tables have: one for each commit, and one for each creation."""
    return sum(1 for _ in lake.glob("*/*/metadata/*.metadata.json"))


def _since(log: Path, size: int) -> str:
    with log.open("rb") as file:
        file.seek(size)
        return file.read().decode(errors="replace")
