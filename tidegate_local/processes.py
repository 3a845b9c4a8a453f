"""Child processes that cannot outlive their parent, and the sockets they inherit from it.

The parent opens every listening socket and hands it down. So no port is lost between choosing and binding it, a
connection made before the child is ready waits in the socket's backlog instead of being refused, and a child that is
started again keeps its address.

A *lifeline* is a pipe whose writing end only the parent holds. When the parent is gone, however it went, the child
reads the end of file and stops. Unlike Linux's PR_SET_PDEATHSIG it does not depend on the thread that started the
child, and it works on macOS too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate_local.errors import LocalError, log_tail

HOST = "127.0.0.1"
LIFELINE = "TIDEGATE_LIFELINE"
LISTENER = "TIDEGATE_LISTENER"

# How long a child may take to stop in an orderly way once its parent is gone; nobody is left to wait for it.
_ORPHAN_GRACE = 5.0
STOP_SECONDS = 15.0
"""How long a process of the stack may take to stop in an orderly way."""


def listen(port: int = 0) -> socket.socket:
    """A listening socket on 127.0.0.1, on any free port if `port` is 0. Raises LocalError if it is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise LocalError(
            f"port {port} of {HOST} cannot be used ({error}): choose another, or none to take a free one"
        ) from error
    listener.listen(256)
    return listener


def listen_again(port: int, seconds: float) -> socket.socket | None:
    """A socket on a port that was ours before, or None if it stays taken for so many seconds: processes of the stack
    before may still be ending."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return listen(port)
        except LocalError:
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.2)


def url_of(listener: socket.socket) -> str:
    return f"http://{HOST}:{listener.getsockname()[1]}"


@dataclass(slots=True)
class Child:
    """A process that was started by `spawn`, in a session of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    lifeline: int

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def ask_to_stop(self) -> None:
        if self.is_alive:
            self.process.terminate()

    def stop(self, grace: float) -> None:
        """Ask it to stop, and after `grace` seconds end it and whatever shares its process group."""
        self.ask_to_stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(grace)
        self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1

    def death(self) -> str:
        """How it ended, with the end of its log."""
        code = self.process.poll()
        how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        return f"{self.name} {how}; the end of {self.log}:\n{log_tail(self.log)}"


def spawn(
    name: str,
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    folder: Path | None = None,
    listener: socket.socket | None = None,
    errors_log: Path | None = None,
) -> Child:
    """Start a child whose output goes to the end of `log` (its errors to `errors_log`, if given)."""
    reading, writing = os.pipe()
    inherited = {LIFELINE: str(reading)}
    if listener is not None:
        inherited[LISTENER] = str(listener.fileno())
    try:
        with contextlib.ExitStack() as files:
            output = files.enter_context(log.open("ab"))
            errors = files.enter_context(errors_log.open("ab")) if errors_log else output
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env={**environment, **inherited},
                cwd=folder,
                pass_fds=[int(each) for each in inherited.values()],
                start_new_session=True,  # the terminal's Ctrl-C is for the supervisor, who stops children in order
            )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return Child(name, process, log, writing)


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module with this Python. It imports nothing from the folder in which it runs: that may be
    a bundle, which has a `tidegate` without the command line."""
    return [sys.executable, "-P", "-m", module, *arguments]


def inherited_listener() -> socket.socket | None:
    """The socket that the parent handed down, or None if this process was started by hand."""
    number = os.environ.pop(LISTENER, "")
    return socket.socket(fileno=int(number)) if number else None


def follow_lifeline() -> None:
    """From now on end this process when its parent is gone: first as by SIGTERM, then at once."""
    if descriptor := take_lifeline():
        threading.Thread(target=_wait_for_the_end, args=(descriptor,), daemon=True, name="lifeline").start()


def take_lifeline() -> int:
    """The reading end of this process's lifeline, 0 if it has none; its own children must not inherit it."""
    descriptor = int(os.environ.pop(LIFELINE, "0"))
    if descriptor:
        os.set_inheritable(descriptor, False)
    return descriptor


def _wait_for_the_end(descriptor: int) -> None:
    wait_until_closed(descriptor)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ORPHAN_GRACE)
    os._exit(1)


def wait_until_closed(descriptor: int) -> None:
    """Return when the writing end is closed; nothing is ever written to it."""
    with contextlib.suppress(OSError):
        while os.read(descriptor, 1):
            pass


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
