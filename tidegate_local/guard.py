"""Runs one command and takes all of it down, descendants included, when it ends or when the guard's parent is gone.

    python -m tidegate_local.guard COMMAND ...

The guard leads a session (see `processes.spawn`). Spark's Python workers leave its process group but not its session,
so the session is what is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

import psutil

from tidegate_local.processes import take_lifeline, wait_until_closed

GRACE = 5.0
"""Seconds between asking a command to stop and ending it."""
_DEAD = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})


def session_members(session: int) -> list[int]:
    """The living processes of a session, except this one."""
    return [pid for pid in psutil.pids() if pid != os.getpid() and _lives_in(session, pid)]


def _lives_in(session: int, pid: int) -> bool:
    try:
        # the dead wait for whoever reaps them, which in a container may be nobody
        return os.getsid(pid) == session and psutil.Process(pid).status() not in _DEAD
    except (psutil.Error, ProcessLookupError, PermissionError):
        return False


def signal_session(number: int) -> None:
    """Send a signal to everything that shares the guard's session, except the guard."""
    for member in session_members(os.getsid(0)):
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
                signal_session(signal.SIGTERM)
            elif time.monotonic() > deadline:
                signal_session(signal.SIGKILL)
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
