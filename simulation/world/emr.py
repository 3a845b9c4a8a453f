"""EMR Serverless: job runs, client tokens that it may forget, events that it may lose, runs that may have two
drivers."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulation.world.kernel import Kernel, Process
from simulation.world.wire import Refusal

ENDED = ("SUCCESS", "FAILED", "CANCELLED")


@dataclass
class SimulatedJobRun:
    id: str
    arguments: list[str]
    state: str = "SCHEDULED"
    drivers: list[Process] = field(default_factory=list)
    forgotten: bool = False

    @property
    def running(self) -> bool:
        """Whether it has not ended. It may not have begun."""
        return self.state not in ENDED

    @property
    def batch(self) -> str:
        (found,) = (each.removeprefix("--batch=") for each in self.arguments if each.startswith("--batch="))
        return found


class Emr:
    """`drive` runs a driver to its end and returns its exit code; `on_ended` is called with each run that ended."""

    def __init__(
        self, kernel: Kernel, drive: Callable[[list[str]], int], on_ended: Callable[[SimulatedJobRun], None]
    ) -> None:
        self.kernel = kernel
        self.runs: dict[str, SimulatedJobRun] = {}
        self.startup: Callable[[], float] = lambda: 40.0
        self.forgets_tokens: Callable[[], bool] = lambda: False
        self.twin_after: Callable[[], float | None] = lambda: None
        """How many seconds after its first driver a run gets a second one, if any."""
        self.cancelled_after: Callable[[], float | None] = lambda: None
        """How many seconds after its start a run is cancelled, or ended by its timeout, if at all."""
        self.outlives: Callable[[], bool] = lambda: False
        """Whether the driver of a run that is cancelled goes on."""
        self.forgets: Callable[[], bool] = lambda: False
        """Whether a run is forgotten as soon as it has ended."""
        self.skew: Callable[[], float] = lambda: 0.0
        """By how many seconds the clock of the next driver is fast."""
        self.on_driver: Callable[[SimulatedJobRun], object] = lambda run: None
        """Called with each driver that begins."""
        self._drive = drive
        self._on_ended = on_ended
        self._tokens: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "StartJobRun":
            return self._start(request)
        assert operation == "GetJobRun", f"EMR Serverless {operation} is not simulated"
        run = self.runs.get(request["jobRunId"])
        if run is None or run.forgotten:
            raise Refusal(404, "ResourceNotFoundException", f"job run {request['jobRunId']} does not exist")
        return {"jobRun": {"jobRunId": run.id, "state": run.state, "stateDetails": ""}}

    def _start(self, request: Mapping[str, Any]) -> dict[str, Any]:
        token = request["clientToken"]
        if token in self._tokens and not self.forgets_tokens():
            return {"applicationId": "app", "jobRunId": self._tokens[token], "arn": "arn"}
        run = SimulatedJobRun(f"run-{next(self._numbers)}", request["jobDriver"]["sparkSubmit"]["entryPointArguments"])
        self.runs[run.id] = run
        self._tokens[token] = run.id
        delay = self.startup()
        self.kernel.after(delay, lambda: self._drive_one(run))
        twin = self.twin_after()
        if twin is not None:
            self.kernel.after(delay + twin, lambda: self._drive_one(run))
        cancelled = self.cancelled_after()
        if cancelled is not None:
            self.kernel.after(cancelled, lambda: self._cancel(run))
        return {"applicationId": "app", "jobRunId": run.id, "arn": "arn"}

    def _drive_one(self, run: SimulatedJobRun) -> None:
        if not run.running and not run.drivers:
            return  # it was cancelled before it began

        def done(process: Process) -> None:
            # the run ends with its first driver: what a twin does after that is not reported
            self._end(run, "FAILED" if process.failed or process.answer else "SUCCESS")

        name = f"driver-{run.id}" + ("-twin" if run.drivers else "")
        if run.running:
            run.state = "RUNNING"
        driver = self.kernel.spawn(name, lambda: self._drive(run.arguments), done)
        driver.skew = self.skew()
        run.drivers.append(driver)
        self.on_driver(run)

    def _cancel(self, run: SimulatedJobRun) -> None:
        if run.running and not self.outlives():
            for driver in run.drivers:
                driver.kill()
        self._end(run, "CANCELLED")

    def _end(self, run: SimulatedJobRun, state: str) -> None:
        if run.running:
            run.state = state
            run.forgotten = self.forgets()
            self.kernel.note(run.id, state)
            self._on_ended(run)
