"""The applications and job runs there are, and the threads that run them."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from tidegate_local.durable.database import FOLDER
from tidegate_local.emr.records import RunRecords
from tidegate_local.emr.runs import Application, JobRun
from tidegate_local.emr.submit import Machine, begin, command, download, wait
from tidegate_local.endpoint import RefusedRequest
from tidegate_local.processes import Child


class EmulatedEmr:
    """Every method may be called by any thread. `publish` is told of each change of a run's state, in order."""

    def __init__(self, machine: Machine, publish: Callable[[dict[str, Any]], None], concurrent_jobs: int) -> None:
        """It goes on where the one before it in the machine's folder ended: to whoever waits for a run, it is still the
        same run."""
        self.machine = machine
        self.publish = publish
        self.records = RunRecords(machine.folder / FOLDER)
        self.applications, self.runs = self.records.known()
        self.lock = threading.RLock()
        self.stopping = False
        self.slots = concurrent_jobs
        self.executor = ThreadPoolExecutor(concurrent_jobs, thread_name_prefix="job")
        self._processes: dict[str, Child] = {}
        for run in list(self.runs.values()):
            if run.state == "CANCELLING":
                self._record(run.moved("CANCELLED", time.time()))
            elif run.is_active:
                self._record(replace(run, state="SUBMITTED", details="", started_at=0.0))
                self.executor.submit(self._execute, run.id)

    # --- applications ---

    def create(self, asked: Application) -> Application:
        """The application that was asked for, or the one that its token created before."""
        with self.lock:
            known = next((each for each in self.applications.values() if each.token == asked.token), asked)
            self._keep(known)
        return known

    def update(self, present: Application, release_label: str, settings: Mapping[str, str]) -> Application:
        """The application with another release and other settings, for the jobs that are started from now on."""
        with self.lock:
            updated = replace(present, release_label=release_label, settings=settings)
            self._keep(updated)
        return updated

    def application(self, identifier: str) -> Application:
        """Raises RefusedRequest."""
        if identifier not in self.applications:
            raise RefusedRequest(404, "ResourceNotFoundException", f"Application {identifier} does not exist")
        return self.applications[identifier]

    # --- job runs ---

    def run(self, application: str, identifier: str) -> JobRun:
        """Raises RefusedRequest."""
        owner = self.application(application)
        run = self.runs.get(identifier)
        if run is None or run.application.id != owner.id:
            raise RefusedRequest(404, "ResourceNotFoundException", f"JobRun {identifier} does not exist")
        return run

    def runs_of(self, application: Application) -> list[JobRun]:
        """The newest first."""
        with self.lock:
            found = [each for each in self.runs.values() if each.application.id == application.id]
        return sorted(found, key=lambda each: each.created_at, reverse=True)

    def start(self, asked: JobRun) -> JobRun:
        """The run that was asked for, or the one that its token started before. Raises RefusedRequest."""
        with self.lock:
            for known in self.runs.values():
                if known.token == asked.token and known.application.id == asked.application.id:
                    return known
            if self.stopping:
                raise RefusedRequest(500, "InternalServerException", "the endpoint is stopping")
            self._record(asked)
            if sum(each.is_active for each in self.runs.values()) > self.slots:
                self._record(asked.moved("QUEUED", time.time()))
            self.executor.submit(self._execute, asked.id)
        return asked

    def cancel(self, run: JobRun) -> None:
        with self.lock:
            present = self.runs[run.id]
            if present.is_active and present.state != "CANCELLING":
                self._record(present.moved("CANCELLING", time.time(), "cancelled on request"))
                if process := self._processes.get(run.id):
                    process.ask_to_stop()

    def stop(self) -> None:
        """End what runs, and wait until it is gone. It is run again at the next start."""
        with self.lock:
            self.stopping = True
            for process in self._processes.values():
                process.ask_to_stop()
        self.executor.shutdown(wait=True)

    # --- running them ---

    def _execute(self, identifier: str) -> None:
        try:
            state, details = self._spark_submit(self.runs[identifier])
        except Exception as error:
            state, details = "FAILED", f"{type(error).__name__}: {error}"
        with self.lock:
            self._processes.pop(identifier, None)
            if self.stopping and self.runs[identifier].state != "CANCELLING":
                return  # it did not end by itself
            self._record(self.runs[identifier].moved(state, time.time(), details))

    def _spark_submit(self, run: JobRun) -> tuple[str, str]:
        """How it ended, and why."""
        with self.lock:
            if not self._may_go_on(run.id):
                return "CANCELLED", "cancelled before the job began"
            self._record(run.moved("SCHEDULED", time.time()))
        folder = self.machine.job_folder(run.id)
        scratch = self.machine.scratch(run.id)
        for earlier in folder.glob("tmp*"):
            shutil.rmtree(earlier, ignore_errors=True)  # of a driver that was killed with the stack
        scratch.mkdir(parents=True)
        try:
            script = download(run, self.machine)
            words = command(run, self.machine, script)
            (folder / "command.json").write_text(json.dumps(words, indent=1))
            with self.lock:
                if not self._may_go_on(run.id):
                    return "CANCELLED", "cancelled before the job began"
                process = self._processes[run.id] = begin(run, self.machine, words)
                self._record(self.runs[run.id].moved("RUNNING", time.time()))
            return wait(process, run, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _may_go_on(self, identifier: str) -> bool:
        return not self.stopping and self.runs[identifier].state != "CANCELLING"

    def _keep(self, application: Application) -> None:
        self.records.application(application)
        self.applications[application.id] = application

    def _record(self, run: JobRun) -> None:
        before = self.runs.get(run.id)
        self.records.run(run)
        self.runs[run.id] = run
        self.publish(run.change(before.state if before else ""))
