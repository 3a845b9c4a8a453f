"""The supervisor of a stack: starts its processes in a folder, watches them, and leaves nothing behind.

What the emulated services hold is in state/, so the next stack in the folder goes on where this one ends
(`tidegate_local.continuing`). Only if the tables are there and state/ is not, the ledger is rebuilt from the tables
before any function runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tidegate.cli.asking.lakes import tables_in
from tidegate.cli.exits import Exit
from tidegate.environment import DEPLOYED, LOCAL_CONFIG, LOCAL_STACK
from tidegate.settings import Settings
from tidegate.settings import load as load_settings
from tidegate.settings import parse as parse_settings
from tidegate.settings.changes import column_types, unfit_tables
from tidegate_local import continuing, description
from tidegate_local.callers import CALLED_AS
from tidegate_local.containers import BridgeDoor, find_way
from tidegate_local.continuing import Begun, Past
from tidegate_local.description import Description
from tidegate_local.durable.database import RECEIVERS_ARE_GONE
from tidegate_local.endpoint import Endpoint, RefusedRequest, Request, Response, answer
from tidegate_local.environment import local_environment, process_environment
from tidegate_local.errors import LocalError, log_tail
from tidegate_local.loader import Assembly, load, read_assembly
from tidegate_local.lock import FolderLock
from tidegate_local.processes import STOP_SECONDS, Child, answers, listen, listen_again, python_module, spawn, url_of
from tidegate_local.template import project_root, synthesize

OnProgress = Callable[[str], None]

_READY_SECONDS = 60.0
_FILLING_SECONDS = 900.0
"""The services first read what they held: some 20 s for 100,000 uploads."""
_PORT_SECONDS = 8.0
"""How long the processes of a stack that was killed may hold its ports."""
_QUICK_DEATHS = 5
"""Deaths of one worker within a minute after which the stack gives up on it, those by `kill -9` excepted: they are
somebody else's doing, and Lambda would make a new sandbox however often."""
_BASE = ("events", "emr", "services")
"""Processes that the functions need, in the order in which they stop, after the functions. Containers need them too."""


@dataclass(slots=True)
class StackProcess:
    """A process of the stack, and how to start it again."""

    name: str
    command: list[str]
    listener: socket.socket
    child: Child
    deaths: list[float] = field(default_factory=list)


class Stack:
    """A running stack. `notes` says what differs from AWS; `past` what the folder had when it started."""

    def __init__(self, folder: Path, lock: FolderLock, progress: OnProgress) -> None:
        self.folder = folder
        self.progress = progress
        self.past = Past.NONE
        self.description = Description("", {}, (), {}, ())
        self._lock = lock
        self._processes: dict[str, StackProcess] = {}
        self._sockets: dict[str, socket.socket] = {}
        self._stopping = threading.Event()
        self._guard = threading.RLock()
        self._control: Endpoint | None = None
        self._doors: list[BridgeDoor] = []
        self._containers = ""
        self._begun = Begun()

    @property
    def environment(self) -> dict[str, str]:
        return self.description.printable

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

    def start(self, config: Path, port: int | None, patience: int | None, docker: bool) -> None:
        settings = load_settings(config, warn=self.progress)
        said = config.read_bytes()
        self.past, before = continuing.look(self.folder)
        self._tell_of_the_past(before, config, said)
        continuing.clear_way(self.folder, self.past)
        shutil.rmtree(self.folder / "logs", ignore_errors=True)
        if self.past is not Past.KEPT:
            shutil.rmtree(self.folder / "jobs", ignore_errors=True)
        for name in ("logs", "jobs", "warehouse"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / description.FILE).unlink(missing_ok=True)
        self._begun = before
        self._patience = patience
        if port:
            self._sockets["services"] = listen_again(port, self._patience_for_ports) or listen(port)
        for name in ("services", "emr", "events", "control"):
            self._listen(name)
        if docker:
            self._let_containers_in()
        self._local = local_environment(
            self.folder,
            services=url_of(self._sockets["services"]),
            jobs=url_of(self._sockets["emr"]),
            events=url_of(self._sockets["events"]),
            ambient=os.environ,
        )
        self._local |= {LOCAL_CONFIG: str(config), LOCAL_STACK: str(self.folder)}
        environment = process_environment(os.environ, self._local)
        paths = [str(project_root()), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)  # for jobs, too, which run in folders of their own
        if self._containers:
            environment[CALLED_AS] = self._containers
        self._environment = environment

        self.progress("starting the services")
        folder = ["--dir", str(self.folder)]
        self._start("services", ["tidegate_local.services", *folder], {**environment, RECEIVERS_ARE_GONE: "1"})
        self._start_emr(settings.catalog.name)

        self.progress("making the template")
        assembly = read_assembly(synthesize(config, self.folder))
        self._await("services", _FILLING_SECONDS)
        self._await("emr")

        self.progress("creating what the template says")
        loaded = self._load(assembly)
        if self.past is Past.LOST and may_come_again(settings, self._local):
            # before traffic is let in: else what has landed could land again
            self.progress("rebuilding the ledger from the tables that are here: a job reads each")
            self._describe(loaded, said)
            self._rebuild(environment)

        self._note(config, said, loaded)
        self.progress("starting the functions")
        self._start_functions(loaded)
        self._control = Endpoint(self._sockets["control"], [("POST", "/configuration", self._asked_to_apply)])
        threading.Thread(target=self._control.serve_forever, daemon=True, name="control").start()

    def apply(self, config: Path) -> bool:
        """Run by what `config` says now; False if nothing has changed. The services and the jobs go on meanwhile.

        Raises LocalError or SettingsError; then the functions run on by what it said before.
        """
        with self._guard:
            said = config.read_bytes()
            if (str(config), continuing.digest_of(said)) == (self._begun.config, self._begun.digest):
                return False
            settings = load_settings(config)
            self.progress(f"{config} has changed: applying it")
            loaded = self._load(read_assembly(synthesize(config, self.folder)))
            self._local[LOCAL_CONFIG] = self._environment[LOCAL_CONFIG] = str(config)
            self._stop_functions()
            self._end("events")
            if settings.catalog.name != self._catalog:
                self._end("emr")
                self._start_emr(settings.catalog.name)
                self._await("emr")
            self._note(config, said, loaded)
            self._start_functions(loaded)
            return True

    def _asked_to_apply(self, request: Request) -> Response:
        try:
            changed = self.apply(Path(request.json["config"]))
        except Exception as error:
            raise RefusedRequest(400, "ValidationException", str(error) or type(error).__name__) from error
        return answer({"changed": changed, "notes": list(self.notes)})

    def wait(self) -> None:
        """Return when the stack is asked to stop; meanwhile start again what dies.

        Raises LocalError if something died that it cannot go on without. In the main thread SIGTERM and SIGHUP ask
        it to stop.
        """
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: self._stopping.set())
        while not self._stopping.wait(0.5):
            with self._guard:
                for process in self._processes.values():
                    if not process.child.is_alive and not self._stopping.is_set():
                        self._revive(process)

    def stop(self) -> None:
        """Stop everything, the functions first, so that they can finish what they are at."""
        self._stopping.set()
        with self._guard:
            for door in self._doors:
                door.close()
            self._doors.clear()
            if self._control is not None:
                self._control.shutdown()
                self._control = None
            self._stop_functions()
            for name in _BASE:
                self._end(name)
            for each in self._sockets.values():
                each.close()
            self._sockets.clear()
            self._lock.release()

    def _stop_functions(self) -> None:
        functions = [process for process in self._processes.values() if process.name not in _BASE]
        for process in functions:
            process.child.ask_to_stop()
        deadline = time.monotonic() + STOP_SECONDS
        for process in functions:
            process.child.stop(max(0.0, deadline - time.monotonic()))
            del self._processes[process.name]

    def _end(self, name: str) -> None:
        if name in self._processes:
            self._processes.pop(name).child.stop(STOP_SECONDS)

    def _tell_of_the_past(self, before: Begun, config: Path, said: bytes) -> None:
        if self.past is Past.KEPT:
            self.progress("going on where the stack in this folder ended")
            if (before.config, before.digest) != (str(config), continuing.digest_of(said)):
                self.progress(f"{config} is not what the stack was made from: what has changed is applied")
        elif self.past is Past.LOST:
            self.progress("the tables are here, and what the services held is not: buckets and queues begin empty")

    def _load(self, assembly: Assembly) -> Description:
        return load(assembly, self._local, code=project_root(), patience=self._patience)

    def _describe(self, loaded: Description, said: bytes) -> None:
        """Listen for the functions, and say where everything is, and what the stack runs by: whoever reads that does
        not read a file that a person is writing."""
        loaded = replace(loaded, notes=(*loaded.notes, *self._unfit(said)))
        for name in loaded.functions:
            self._listen(name)
        invoke = {name: url_of(self._sockets[name]) for name in loaded.functions}
        self.description = replace(
            loaded,
            environment=dict(self._local),
            invoke=invoke,
            control=url_of(self._sockets["control"]),
            containers=self._containers,
        )
        draft = self.folder / f"{DEPLOYED}.{os.getpid()}"
        draft.write_bytes(said)
        os.replace(draft, self.folder / DEPLOYED)
        self.description.write(self.folder)

    def _unfit(self, said: bytes) -> list[str]:
        """What does not fit of tables that are there."""
        catalog = self.folder / "warehouse" / "catalog.db"
        if not catalog.exists():
            return []
        routes = parse_settings(said.decode()).core_routes()
        wanted = {route.dataset.table for route in routes}
        name, tables = tables_in(catalog)
        there = {}
        for (namespace, table), location in tables.items():
            called, metadata = f"{name}.{namespace}.{table}", Path(unquote(urlsplit(location).path))
            if called in wanted and metadata.exists():
                there[called] = column_types(json.loads(metadata.read_bytes()))
        return list(unfit_tables(routes, there))

    def _note(self, config: Path, said: bytes, loaded: Description) -> None:
        """Before anything is let in: from now on there is something to go on from."""
        self._describe(loaded, said)
        ports = {name: each.getsockname()[1] for name, each in self._sockets.items()}
        self._begun = Begun(str(config), continuing.digest_of(said), ports)
        self._begun.write(self.folder)

    def _start_functions(self, loaded: Description) -> None:
        folder = ["--dir", str(self.folder)]
        self._start("events", ["tidegate_local.events", *folder])
        for name in loaded.functions:
            self._start(name, ["tidegate_local.worker", name, *folder])
        for name in ("events", *loaded.functions):
            self._await(name)

    def _start_emr(self, catalog: str) -> None:
        self._catalog = catalog
        self._start("emr", ["tidegate_local.emr", "--dir", str(self.folder), "--catalog", catalog])

    def _let_containers_in(self) -> None:
        """Raises ToolMissing or LocalError."""
        found = find_way()
        self._containers = found.host
        if found.bridge is not None:
            for name in _BASE:
                self._doors.append(BridgeDoor(found, self._sockets[name].getsockname()[1]))

    def _listen(self, name: str) -> None:
        """Where this process listened before, if that is free."""
        if name in self._sockets:
            return
        port = self._begun.ports.get(name, 0)
        listener = listen_again(port, self._patience_for_ports)
        if listener is None:
            listener = listen()
            self.progress(f"port {port} is taken by another program: {name} now listens on {listener.getsockname()[1]}")
        self._sockets[name] = listener

    @property
    def _patience_for_ports(self) -> float:
        return _PORT_SECONDS if self._lock.was_killed else 0.0

    def _start(self, name: str, module: list[str], environment: Mapping[str, str] | None = None) -> None:
        command = python_module(*module)
        child = self._spawn(name, command, self._sockets[name], environment or self._environment)
        self._processes[name] = StackProcess(name, command, self._sockets[name], child)

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
        words = python_module("tidegate.cli.main", "ledger", "rebuild", "--dir", str(self.folder))
        guarded = python_module("tidegate_local.guard", *words)
        child = spawn("rebuild", guarded, log=log, environment=environment, folder=project_root())
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

    def _await(self, name: str, seconds: float = _READY_SECONDS) -> None:
        """Wait until a process answers HTTP; connections before that wait in its socket."""
        process = self._processes[name]
        deadline = time.monotonic() + seconds
        while not answers(url_of(process.listener), timeout=1.0):
            if not process.child.is_alive:
                raise LocalError(f"the local stack did not start: {process.child.death()}")
            if time.monotonic() > deadline:
                raise LocalError(
                    f"the local stack did not start: {name} does not answer after {seconds:.0f} s; the end of"
                    f" {process.child.log}:\n{log_tail(process.child.log)}"
                )

    def _revive(self, process: StackProcess) -> None:
        death = process.child.death()
        process.child.kill()
        now = time.monotonic()
        recent = [each for each in process.deaths if now - each < 60]
        process.deaths = recent if process.child.process.returncode == -signal.SIGKILL else [*recent, now]
        if len(process.deaths) > _QUICK_DEATHS:
            raise LocalError(
                f"the local stack cannot go on: {process.name} died {len(process.deaths)} times in a minute. {death}"
            )
        self.progress(f"{death}\nstarting {process.name} again")
        process.child = self._spawn(process.name, process.command, process.listener, self._environment)


def may_come_again(settings: Settings, environment: Mapping[str, str]) -> bool:
    """Whether an upload that a table holds could come once more to a stack whose ledger starts empty.

    In a bucket without versions an upload is named by its ETag, so a file that is uploaded again is the same upload:
    without its claim it would land a second time. In a bucket with versions it gets a new version id, and is another
    upload. Another emulator in place of S3 may still have what was uploaded to it.
    """
    return "AWS_ENDPOINT_URL_S3" in environment or any(not route.versioned for route in settings.routes)
