"""The stack in a folder: started, asked, changed and stopped.

    with up(config, folder) as stack:       in this process, until it stops
        stack.wait()
    detach(config, folder)                  in a process of its own; `down(folder)` stops it

The folder holds everything: stack.json, logs/, jobs/, cdk.out/, warehouse/ and state/.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli.command import this_command
from tidegate.environment import STACK_DIR
from tidegate_local import continuing, description
from tidegate_local.continuing import Past
from tidegate_local.errors import LocalError, log_tail
from tidegate_local.lock import FolderLock
from tidegate_local.processes import STOP_SECONDS, python_module

if TYPE_CHECKING:
    from tidegate_local.supervisor import OnProgress, Stack


def up(
    config: Path,
    folder: Path = STACK_DIR,
    *,
    port: int | None = None,
    on_progress: OnProgress = print,
    patience: int | None = None,
    docker: bool = False,
) -> Stack:
    """Start the stack of `config` in `folder` and return when it takes uploads.

    `port` is for the emulated services. `patience`, in seconds, bounds how long a message that a function failed with
    stays hidden (12 minutes on AWS). With `docker`, containers reach it, too. Raises LocalError, SettingsError or
    ToolMissing, and leaves nothing running then.
    """
    from tidegate_local.supervisor import Stack  # whoever asks a stack does not start one

    folder = folder.resolve()
    lock = FolderLock(folder)
    lock.acquire()
    stack = Stack(folder, lock, on_progress)
    try:
        stack.start(config.resolve(), port, patience, docker)
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
    deadline = time.monotonic() + 4 * STOP_SECONDS
    with contextlib.suppress(ProcessLookupError):
        os.kill(holder, signal.SIGTERM)
    while lock.holder() == holder:
        if time.monotonic() > deadline:
            # its children follow by themselves
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)
            deadline += STOP_SECONDS
        time.sleep(0.1)
    return True


def forget(folder: Path = STACK_DIR) -> bool:
    """Delete all that stacks have left in `folder`, the tables too; False if there was nothing.

    Raises LocalError if one runs there.
    """
    folder = folder.resolve()
    if not folder.exists():
        return False
    lock = FolderLock(folder)
    lock.acquire()
    try:
        lock.path.unlink()  # a lock is nothing to find
        return continuing.forget(folder)
    finally:
        lock.release()


def is_running(folder: Path = STACK_DIR) -> bool:
    return FolderLock(folder.resolve()).holder() is not None


def apply(config: Path, folder: Path = STACK_DIR) -> tuple[str, ...] | None:
    """Have the stack that runs in `folder` run by what `config` says now. The notes, or None if nothing has changed.

    Raises LocalError if no stack runs there, or it cannot do it; then it runs on by what the file said before.
    """
    describe(folder)
    url = f"{description.read(folder.resolve()).control}/configuration"
    body = json.dumps({"config": str(config.resolve())}).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, body, method="POST")) as response:
            said = json.load(response)
    except urllib.error.HTTPError as error:
        why = json.load(error)["message"]
        raise LocalError(f"{config} could not be applied, and the stack runs as before: {why}") from None
    except OSError as error:
        raise LocalError(f"the stack in {folder} does not answer ({error})") from None
    return tuple(said["notes"]) if said["changed"] else None


def describe(folder: Path = STACK_DIR) -> dict[str, str]:
    """The environment that talks to the stack running in `folder`. Raises LocalError if none does."""
    folder = folder.resolve()
    if not is_running(folder):
        raise LocalError(
            f"no stack runs in {folder}: start one with `tidegate local up`, or name a deployed one with"
            f' eval "$({this_command()} --env OUTPUTS)"'
        )
    if not (folder / description.FILE).exists():
        raise LocalError(f"the stack in {folder} is still starting: wait a few seconds")
    return description.read(folder).printable


@dataclass(frozen=True, slots=True)
class Detached:
    """A stack that runs on by itself."""

    pid: int
    environment: Mapping[str, str]
    past: Past
    notes: tuple[str, ...]


def made_from(folder: Path) -> Path | None:
    """The file from which the last stack in this folder was made; None if none was, if the file is gone, or if the
    environment names one."""
    if os.environ.get("TIDEGATE_CONFIG"):
        return None
    try:
        _, begun = continuing.look(folder)
    except LocalError:
        return None  # whoever starts it is told
    file = Path(begun.config)
    return file if begun.config and file.is_file() else None


def detach(
    config: Path,
    folder: Path = STACK_DIR,
    *,
    port: int | None = None,
    on_progress: OnProgress = print,
    patience: int | None = None,
    docker: bool = False,
) -> Detached:
    """As `up`, in a process that lives until `down`. Raises LocalError."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    asked = {
        "config": str(config.resolve()),
        "folder": str(folder),
        "port": port,
        "patience": patience,
        "docker": docker,
    }
    log = folder / "supervisor.log"
    reading, writing = os.pipe()
    with log.open("wb") as output:
        process = subprocess.Popen(
            python_module("tidegate_local.stack", json.dumps(asked), str(writing)),
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
                return Detached(process.pid, describe(folder), Past(report["past"]), tuple(report["notes"]))
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
    """The detached supervisor: see `detach`, which starts it, and reads its reports until the stack is up."""
    asked, descriptor = json.loads(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(descriptor, False)

    def report(**fields: Any) -> None:
        print(json.dumps(fields), flush=True)
        with contextlib.suppress(OSError):  # whoever asked for the stack has read enough, or is gone
            os.write(descriptor, f"{json.dumps(fields)}\n".encode())

    config, folder = Path(asked.pop("config")), Path(asked.pop("folder"))
    try:
        stack = up(config, folder, on_progress=lambda step: report(progress=step), **asked)
    except Exception as error:
        report(error=str(error) or type(error).__name__)
        return 1
    with stack:
        report(past=stack.past.value, notes=list(stack.notes))
        try:
            stack.wait()
        except LocalError as error:
            report(error=str(error))
            return 1
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
