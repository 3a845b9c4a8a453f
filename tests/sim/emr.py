"""EMR Serverless: job runs, a client token that it may forget, events that it may lose, drivers that may be two."""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest

from tests.sim.kernel import Kernel, Process
from tests.sim.wire import Answer, Refusal, body_of, json_answer


@dataclass
class JobRun:
    id: str
    arguments: list[str]
    state: str = "RUNNING"
    drivers: list[Process] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.state == "RUNNING"


class Emr:
    """`drive` runs a driver to its end and returns its exit code; `on_ended` is told of a run that ended."""

    def __init__(self, kernel: Kernel, drive: Callable[[list[str]], int], on_ended: Callable[[JobRun], None]) -> None:
        self.kernel = kernel
        self.runs: dict[str, JobRun] = {}
        self.startup: Callable[[], float] = lambda: 40.0
        self.forgets_tokens: Callable[[], bool] = lambda: False
        self.twin_after: Callable[[], float | None] = lambda: None
        """How many seconds after its first driver a run gets a second one, if any."""
        self._drive = drive
        self._on_ended = on_ended
        self._tokens: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def answer(self, operation: str, request: AWSPreparedRequest) -> Answer:
        if operation == "StartJobRun":
            return json_answer(self._start(json.loads(body_of(request))))
        assert operation == "GetJobRun", f"EMR Serverless {operation} is not simulated"
        job_run = re.sub(r".*/jobruns/", "", urlsplit(request.url).path)
        run = self.runs.get(job_run)
        if run is None:
            raise Refusal(404, "ResourceNotFoundException", f"job run {job_run} does not exist")
        return json_answer({"jobRun": {"jobRunId": run.id, "state": run.state, "stateDetails": ""}})

    def _start(self, request: dict[str, Any]) -> dict[str, str]:
        token = request["clientToken"]
        if token in self._tokens and not self.forgets_tokens():
            return {"applicationId": "app", "jobRunId": self._tokens[token], "arn": "arn"}
        run = JobRun(f"run-{next(self._numbers)}", request["jobDriver"]["sparkSubmit"]["entryPointArguments"])
        self.runs[run.id] = run
        self._tokens[token] = run.id
        delay = self.startup()
        self.kernel.after(delay, lambda: self._drive_one(run))
        twin = self.twin_after()
        if twin is not None:
            self.kernel.after(delay + twin, lambda: self._drive_one(run))
        return {"applicationId": "app", "jobRunId": run.id, "arn": "arn"}

    def _drive_one(self, run: JobRun) -> None:
        def done(process: Process) -> None:
            # the run ends with its first driver: what a twin does after that, nobody is told
            if run.state == "RUNNING":
                run.state = "FAILED" if process.failed or process.answer else "SUCCESS"
                self.kernel.note(run.id, run.state)
                self._on_ended(run)

        name = f"driver-{run.id}" + ("-twin" if run.drivers else "")
        run.drivers.append(self.kernel.spawn(name, lambda: self._drive(run.arguments), done))
