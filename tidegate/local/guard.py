"""Runs one command and takes all of it down, descendants included, when it ends or when the guard's parent is gone.

    python -m tidegate.local.guard COMMAND ...

The guard leads a session (see `processes.spawn`). Spark's Python workers leave its process group but not its
session, so on Linux the session is what is ended. Elsewhere it is the command, whose end Spark's workers notice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from tidegate.local.processes import take_lifeline, wait_until_closed

GRACE = 5.0
"""Seconds between asking a command to stop and ending it."""


def session_members(session: int) -> list[int]:
    """The living processes of a session, except this one; empty where there is no /proc."""
    members = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # the second field, the command, is in parentheses and may hold anything
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
            state, in_session = fields[0], int(fields[3])
            # the dead wait for whoever reaps them, which in a container may be nobody
            if in_session == session and state not in "ZX" and int(entry.parent.name) != os.getpid():
                members.append(int(entry.parent.name))
    return members


def signal_session(number: int, process: subprocess.Popen[bytes]) -> None:
    """Send a signal to everything that shares the guard's session, except the guard."""
    for member in session_members(os.getsid(0)) or [process.pid]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(member, number)


def end_session() -> None:
    """Kill everything that shares the guard's session, except the guard, and whatever it starts meanwhile."""
    deadline = time.monotonic() + GRACE
    while (members := session_members(os.getsid(0))) and time.monotonic() < deadline:
        for member in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(member, signal.SIGKILL)
        time.sleep(0.02)


def main(command: list[str]) -> int:
    lifeline = take_lifeline()
    if os.getsid(0) != os.getpid():
        os.setsid()
    process = subprocess.Popen(command)
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    if lifeline:
        threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    deadline = 0.0
    while process.poll() is None:
        if stopping.is_set():
            if not deadline:
                deadline = time.monotonic() + GRACE
                signal_session(signal.SIGTERM, process)
            elif time.monotonic() > deadline:
                signal_session(signal.SIGKILL, process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    end_session()
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _end_with_parent(lifeline: int) -> None:
    wait_until_closed(lifeline)
    end_session()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
