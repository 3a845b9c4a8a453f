"""One stack a folder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from tidegate_local.commands import command
from tidegate_local.errors import LocalError

_LOCK = "stack.pid"


class FolderLock:
    """Held by the supervisor for as long as it lives, so a stale pid in the file cannot mislead anybody."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _LOCK
        self.was_killed = False
        """Whether the holder before did not release it."""
        self._file: int | None = None

    def acquire(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _locked(descriptor):
            os.close(descriptor)
            raise LocalError(
                f"a stack runs in {self.path.parent} already (process {self.holder()}): stop it with"
                f" `{command('local', 'down', folder=self.path.parent)}`, or use another folder with --dir"
            )
        self.was_killed = bool(os.read(descriptor, 32))
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
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
