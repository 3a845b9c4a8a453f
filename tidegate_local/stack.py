"""The supervisor: starts the whole stack in a folder, watches it, and leaves nothing behind.

    with up(config, folder) as stack:       in this process, until it stops
        stack.wait()
    detach(config, folder)                  in a process of its own; `down(folder)` stops it

The folder holds everything: stack.json, logs/, jobs/, cdk.out/ and warehouse/. Only the warehouse outlives the stack:
the emulated services start empty. The ledger is rebuilt from the warehouse before any function runs.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tidegate.cli.exits import Exit
from tidegate.environment import STACK_DIR, variables
from tidegate.settings import load as load_settings
from tidegate_local import description
from tidegate_local.description import Description
from tidegate_local.environment import local_environment, process_environment
from tidegate_local.errors import LocalError, log_tail
from tidegate_local.loader import load, read_assembly
from tidegate_local.processes import Child, listen, python_module, spawn, url_of
from tidegate_local.rebuilding import may_come_again
from tidegate_local.template import project_root, synthesize

OnProgress = Callable[[str], None]

_LOCK = "stack.pid"
_READY_SECONDS = 60.0
_STOP_SECONDS = 15.0
_QUICK_DEATHS = 5
"""Deaths of one worker within a minute after which the stack gives up on it, those by `kill -9` excepted: they are
somebody else's doing, and Lambda would make a new sandbox however often."""
VITAL = ("services", "emr")
"""Processes whose state is lost with them: the stack cannot go on without."""


@dataclass(slots=True)
class StackProcess:
    """A process of the stack, and how to start it again."""

    name: str
    command: list[str]
    listener: socket.socket
    child: Child
    deaths: list[float] = field(default_factory=list)


class Stack:
    """A running stack. `notes` says what differs from AWS; `existing_warehouse` that tables were there before."""

    def __init__(self, folder: Path, lock: FolderLock, progress: OnProgress) -> None:
        self.folder = folder
        self.progress = progress
        self.existing_warehouse = (folder / "warehouse" / "catalog.db").exists()
        self.description = Description("", {}, (), {}, ())
        self._lock = lock
        self._processes: dict[str, StackProcess] = {}
        self._stopping = threading.Event()

    @property
    def environment(self) -> dict[str, str]:
        return printable_environment(self.description)

    @property
    def outputs(self) -> Mapping[str, str]:
        return self.description.outputs

    @property
    def notes(self) -> tuple[str, ...]:
        return self.description.notes

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def start(self, config: Path, port: int | None, concurrent_jobs: int, patience: int | None) -> None:
        settings = load_settings(config, warn=self.progress)
        for name in ("logs", "jobs"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir(parents=True)
        (self.folder / "warehouse").mkdir(exist_ok=True)
        (self.folder / description.FILE).unlink(missing_ok=True)
        sockets = {"services": listen(port or 0), "emr": listen(), "events": listen()}
        local = local_environment(
            self.folder,
            services=url_of(sockets["services"]),
            jobs=url_of(sockets["emr"]),
            events=url_of(sockets["events"]),
            ambient=os.environ,
        )
        local["TIDEGATE_CONFIG"] = str(config)
        environment = process_environment(os.environ, local)
        paths = [str(project_root()), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)  # for jobs, too, which run in folders of their own
        folder = ["--dir", str(self.folder)]

        self.progress("starting the services")
        self._start("services", ["tidegate_local.services"], sockets["services"], environment)
        jobs = ["tidegate_local.emr", *folder, "--catalog", settings.catalog.name]
        self._start("emr", [*jobs, "--concurrent-jobs", str(concurrent_jobs)], sockets["emr"], environment)

        self.progress("making the template")
        assembly = read_assembly(synthesize(config, self.folder))
        self._await("services")
        self._await("emr")

        self.progress("creating what the template says")
        loaded = load(assembly, local, code=project_root(), patience=patience)
        workers = {name: listen() for name in loaded.functions}
        self.description = replace(
            loaded, environment=local, invoke={name: url_of(each) for name, each in workers.items()}
        )
        self.description.write(self.folder)

        if self.existing_warehouse and may_come_again(settings, local):
            # before traffic is let in: else what has landed could land again
            self.progress("rebuilding the ledger from the tables that are here: a job reads each")
            self._rebuild(environment)

        self.progress("starting the functions")
        self._start("events", ["tidegate_local.events", *folder], sockets["events"], environment)
        for name, listener in workers.items():
            self._start(name, ["tidegate_local.worker", name, *folder], listener, environment)
        for name in ("events", *workers):
            self._await(name)

    def wait(self) -> None:
        """Return when the stack is asked to stop; meanwhile start again what dies.

        Raises LocalError if something died that it cannot go on without. In the main thread SIGTERM and SIGHUP ask
        it to stop.
        """
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: self._stopping.set())
        while not self._stopping.wait(0.5):
            for process in self._processes.values():
                if not process.child.is_alive:
                    self._revive(process)

    def stop(self) -> None:
        """Stop everything, the functions first, so that they can finish what they are at."""
        self._stopping.set()
        processes = list(self._processes.values())
        functions = [process for process in processes if process.name not in (*VITAL, "events")]
        for process in functions:
            process.child.ask_to_stop()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in functions:
            process.child.stop(max(0.0, deadline - time.monotonic()))
        for name in ("events", "emr", "services"):
            if name in self._processes:
                self._processes[name].child.stop(_STOP_SECONDS)
        for process in processes:
            process.listener.close()
        self._processes.clear()
        self._lock.release()

    def _start(self, name: str, module: list[str], listener: socket.socket, environment: Mapping[str, str]) -> None:
        command = python_module(*module)
        child = self._spawn(name, command, listener, environment)
        self._processes[name] = StackProcess(name, command, listener, child)
        self._child_environment = environment

    def _spawn(self, name: str, command: list[str], listener: socket.socket, environment: Mapping[str, str]) -> Child:
        return spawn(
            name,
            command,
            log=self.folder / "logs" / f"{name}.log",
            environment=environment,
            folder=project_root(),
            listener=listener,
        )

    def _rebuild(self, environment: Mapping[str, str]) -> None:
        """Raises LocalError if the ledger could not be rebuilt: it would take what has landed for new."""
        log = self.folder / "logs" / "rebuild.log"
        command = python_module("tidegate_local.rebuilding", "--dir", str(self.folder))
        child = spawn("rebuild", command, log=log, environment=environment, folder=project_root())
        try:
            code = child.process.wait()
        finally:
            child.kill()
        if code == Exit.FINDING:
            self.progress(f"the ledger could not be rebuilt completely; {log} says what is left to do")
        elif code:
            raise LocalError(
                f"the ledger could not be rebuilt from the tables in {self.folder / 'warehouse'}, so files that have"
                f" landed could land again: {child.death()}\nTo start over, delete that folder, or use another --dir"
            )

    def _await(self, name: str) -> None:
        """Wait until a process answers HTTP; connections before that wait in its socket."""
        process = self._processes[name]
        deadline = time.monotonic() + _READY_SECONDS
        while not answers(url_of(process.listener), timeout=1.0):
            if not process.child.is_alive:
                raise LocalError(f"the local stack did not start: {process.child.death()}")
            if time.monotonic() > deadline:
                raise LocalError(
                    f"the local stack did not start: {name} does not answer after {_READY_SECONDS:.0f} s; the end of"
                    f" {process.child.log}:\n{log_tail(process.child.log)}"
                )

    def _revive(self, process: StackProcess) -> None:
        death = process.child.death()
        process.child.kill()
        if process.name in VITAL:
            raise LocalError(f"the local stack cannot go on: {death}")
        now = time.monotonic()
        recent = [each for each in process.deaths if now - each < 60]
        process.deaths = recent if process.child.process.returncode == -signal.SIGKILL else [*recent, now]
        if len(process.deaths) > _QUICK_DEATHS:
            raise LocalError(
                f"the local stack cannot go on: {process.name} died {len(process.deaths)} times in a minute. {death}"
            )
        self.progress(f"{death}\nstarting {process.name} again")
        process.child = self._spawn(process.name, process.command, process.listener, self._child_environment)


def answers(url: str, timeout: float) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/", timeout=timeout) as answer:
            answer.read()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


# --- one stack a folder ---


class FolderLock:
    """Held by the supervisor for as long as it lives, so a stale pid in the file cannot mislead anybody."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _LOCK
        self._file: int | None = None

    def acquire(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _locked(descriptor):
            os.close(descriptor)
            raise LocalError(
                f"a stack runs in {self.path.parent} already (process {self.holder()}): stop it with `tidegate local"
                f" down --dir {shlex.quote(str(self.path.parent))}`, or use another folder with --dir"
            )
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._file = descriptor

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def holder(self) -> int | None:
        """The process that holds the lock, or None."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.read(descriptor, 32) or b"0") or None
        else:
            return None
        finally:
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Take the lock; somebody who only looks holds it for an instant, so look again before giving up."""
    for _ in range(10):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False


def up(
    config: Path,
    folder: Path = STACK_DIR,
    *,
    port: int | None = None,
    on_progress: OnProgress = print,
    concurrent_jobs: int = 2,
    patience: int | None = None,
) -> Stack:
    """Start the stack of `config` in `folder` and return when it takes uploads.

    `port` is for the emulated services. `patience`, in seconds, bounds how long a message that a function failed with
    stays hidden (12 minutes on AWS). Raises LocalError, SettingsError or ToolMissing, and leaves nothing running then.
    """
    folder = folder.resolve()
    lock = FolderLock(folder)
    lock.acquire()
    stack = Stack(folder, lock, on_progress)
    try:
        stack.start(config.resolve(), port, concurrent_jobs, patience)
    except BaseException:
        stack.stop()
        raise
    return stack


def down(folder: Path = STACK_DIR) -> bool:
    """Stop the stack in `folder` and wait until it is gone; False if none runs there. Raises LocalError."""
    lock = FolderLock(folder.resolve())
    holder = lock.holder()
    if holder is None:
        return False
    deadline = time.monotonic() + 4 * _STOP_SECONDS
    with contextlib.suppress(ProcessLookupError):
        os.kill(holder, signal.SIGTERM)
    while lock.holder() == holder:
        if time.monotonic() > deadline:
            # its children follow by themselves
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)
            deadline += _STOP_SECONDS
        time.sleep(0.1)
    return True


def is_running(folder: Path = STACK_DIR) -> bool:
    return FolderLock(folder.resolve()).holder() is not None


def describe(folder: Path = STACK_DIR) -> dict[str, str]:
    """The environment that talks to the stack running in `folder`. Raises LocalError if none does."""
    folder = folder.resolve()
    if not is_running(folder):
        raise LocalError(
            f"no stack runs in {folder}: start one with `tidegate local up`, or name a deployed one with"
            ' eval "$(tidegate env OUTPUTS)"'
        )
    if not (folder / description.FILE).exists():
        raise LocalError(f"the stack in {folder} is still starting: wait a few seconds")
    return printable_environment(description.read(folder))


def printable_environment(stack: Description) -> dict[str, str]:
    """The variables for a shell: endpoints, credentials, the warehouse, and the outputs as the functions know them."""
    return {**stack.environment, **variables(stack.name, stack.outputs)}


# --- in a process of its own ---


@dataclass(frozen=True, slots=True)
class Detached:
    """A stack that runs on by itself."""

    pid: int
    environment: Mapping[str, str]
    existing_warehouse: bool
    notes: tuple[str, ...]


def detach(
    config: Path,
    folder: Path = STACK_DIR,
    *,
    port: int | None = None,
    on_progress: OnProgress = print,
    concurrent_jobs: int = 2,
    patience: int | None = None,
) -> Detached:
    """As `up`, in a process that lives until `down`. Raises LocalError."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["--config", str(config.resolve()), "--dir", str(folder), "--concurrent-jobs", str(concurrent_jobs)]
    arguments += ["--port", str(port)] if port else []
    arguments += ["--patience", str(patience)] if patience is not None else []
    log = folder / "supervisor.log"
    reading, writing = os.pipe()
    with log.open("wb") as output:
        process = subprocess.Popen(
            python_module("tidegate_local.stack", *arguments, "--report-to", str(writing)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[writing],
            start_new_session=True,
        )
    os.close(writing)
    try:
        for report in _reports(reading):
            if "progress" in report:
                on_progress(report["progress"])
            elif "error" in report:
                process.wait()
                raise LocalError(report["error"])
            else:
                return Detached(process.pid, describe(folder), report["existing_warehouse"], tuple(report["notes"]))
    except BaseException:
        process.terminate()
        raise
    process.wait()
    raise LocalError(f"the supervisor ended before the stack was ready; the end of {log}:\n{log_tail(log)}")


def _reports(descriptor: int) -> Iterator[dict[str, Any]]:
    with os.fdopen(descriptor) as lines:
        for line in lines:
            yield json.loads(line)


def main() -> int:
    """The detached supervisor."""
    parser = argparse.ArgumentParser(prog="python -m tidegate_local.stack")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--dir", type=Path, default=STACK_DIR)
    parser.add_argument("--port", type=int)
    parser.add_argument("--concurrent-jobs", type=int, default=2)
    parser.add_argument("--patience", type=int)
    parser.add_argument("--report-to", type=int, default=-1)
    arguments = parser.parse_args()

    listening = arguments.report_to >= 0
    if listening:
        os.set_inheritable(arguments.report_to, False)

    def report(**fields: Any) -> None:
        print(json.dumps(fields), flush=True)
        if listening:
            with contextlib.suppress(OSError):  # whoever asked for the stack may be gone
                os.write(arguments.report_to, f"{json.dumps(fields)}\n".encode())

    try:
        stack = up(
            arguments.config,
            arguments.dir,
            port=arguments.port,
            on_progress=lambda step: report(progress=step),
            concurrent_jobs=arguments.concurrent_jobs,
            patience=arguments.patience,
        )
    except Exception as error:
        report(error=str(error) or type(error).__name__)
        return 1
    with stack:
        report(existing_warehouse=stack.existing_warehouse, notes=list(stack.notes))
        if listening:
            listening = False
            os.close(arguments.report_to)
        try:
            stack.wait()
        except LocalError as error:
            print(json.dumps({"error": str(error)}), flush=True)
            return 1
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
