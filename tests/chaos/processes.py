"""The processes of this machine, as /proc has them, and which of them belong to a stack."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A living process. `born`, in clock ticks since boot, tells it from a later one with the same pid."""

    pid: int
    parent: int
    born: int
    words: tuple[str, ...]

    def value(self, option: str) -> str:
        """What follows `option` in one of its words; empty if none begins with it."""
        return next((word.removeprefix(option) for word in self.words if word.startswith(option)), "")


def processes() -> Iterator[Process]:
    """Every process that lives: the dead that nobody has reaped are left out."""
    for entry in Path("/proc").glob("[0-9]*"):
        if found := _look(int(entry.name)):
            yield found


def descendants(root: int, among: Iterable[Process] | None = None) -> list[Process]:
    """Children, grandchildren and so on of `root`. An orphan is nobody's, so it is not among them."""
    children: dict[int, list[Process]] = defaultdict(list)
    for process in processes() if among is None else among:
        children[process.parent].append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        of = children.get(waiting.pop(), [])
        found += of
        waiting += [each.pid for each in of]
    return found


def kill(process: Process) -> bool:
    """`kill -9`; False if it was gone before."""
    now = _look(process.pid)
    if now is None or now.born != process.born:
        return False
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def with_variable(name: str, value: str) -> list[int]:
    """The living processes that were started with this variable in their environment, orphans included."""
    entry = f"{name}={value}".encode()
    found = []
    for process in processes():
        with contextlib.suppress(OSError):
            if entry in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                found.append(process.pid)
    return found


def _look(pid: int) -> Process | None:
    try:
        # the second field, the command, is in parentheses and may hold anything
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    return Process(pid, parent=int(fields[1]), born=int(fields[19]), words=tuple(words))
