"""The file that holds what the services hold: SQLite, with one transaction for each request that changed something.

A transaction is on the disk before its request is answered: with `synchronous=FULL` the write-ahead log is synced after
each (https://www.sqlite.org/pragma.html#pragma_synchronous). Requests that wait at the same time share one commit. What
a crash leaves of a transaction that was not committed is ignored by SQLite when the file is opened
(https://www.sqlite.org/wal.html).

If the file cannot be written, the process ends: its memory is ahead of the file, so nothing it says may be believed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tidegate_local.errors import LocalError

FOLDER = "state"
FILE = "services.db"
VERSION = 2
"""Of the file's tables. Raise it when older code could not read what newer code writes, or the other way round."""
LOCK_SECONDS = 15.0
"""How long the services of an earlier stack in the same folder may take to end."""
RECEIVERS_ARE_GONE = "TIDEGATE_RECEIVERS_ARE_GONE"
"""Set for the services of a stack that begins: whoever received a message before has ended with the stack before."""
CHUNK = 64 * 1024 * 1024
"""Bytes of an object in one row: SQLite's rows end at a billion bytes (https://www.sqlite.org/limits.html)."""

_TABLES = """
CREATE TABLE definitions (id INTEGER PRIMARY KEY, defined BLOB);
CREATE TABLE versions (id INTEGER PRIMARY KEY, bucket TEXT, version BLOB);
CREATE TABLE contents (version INTEGER, number INTEGER, bytes BLOB, PRIMARY KEY (version, number));
CREATE TABLE messages (place INTEGER PRIMARY KEY, queue TEXT, id TEXT, message BLOB, UNIQUE (queue, id));
CREATE TABLE repeats (queue TEXT, scope TEXT, deduplication TEXT, until REAL,
    PRIMARY KEY (queue, scope, deduplication)) WITHOUT ROWID;
CREATE TABLE items (owner TEXT, hash TEXT, range TEXT, item BLOB, PRIMARY KEY (owner, hash, range)) WITHOUT ROWID;
"""

Statement = tuple[str, tuple[Any, ...]]


@dataclass(slots=True)
class Transaction:
    """What one request has changed, and what is to be done once it is on the disk."""

    statements: list[Statement] = field(default_factory=list)
    afterwards: list[Callable[[], None]] = field(default_factory=list)

    def say(self, sql: str, *values: Any) -> None:
        self.statements.append((sql, values))


class Database:
    """Every method may be called by any thread. It is the only one that has its file open."""

    def __init__(self, folder: Path) -> None:
        """Make or open the file in `folder`. Raises LocalError if it is in use, or of another version."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._lock = _only_here(folder)
        self._connection = _connect(self.path)
        self._reader = _connect(self.path)
        self._reading = threading.Lock()
        self._committing = threading.Lock()
        self._queueing = threading.Lock()
        self._waiting: list[Transaction] = []
        self._queued = self._committed = 0

    # --- writing ---

    def queue(self, transaction: Transaction) -> int:
        """Take a transaction, to be committed after all that were taken before. The number to wait for."""
        with self._queueing:
            if transaction.statements:
                self._waiting.append(transaction)
                self._queued += 1
            return self._queued

    def wait(self, number: int) -> None:
        """Return when the transaction of this number is on the disk. Whoever comes first commits for all that wait."""
        with self._committing:
            if self._committed >= number:
                return
            with self._queueing:
                batch, self._waiting = self._waiting, []
                last = self._queued
            try:
                self._commit(batch)
            except (sqlite3.Error, OSError) as error:
                stop(f"{self.path} cannot be written ({error}): is the disk full? Nothing that was answered is lost")
            self._committed = last
            for transaction in batch:
                for each in transaction.afterwards:
                    each()

    def _commit(self, batch: list[Transaction]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for transaction in batch:
            for sql, values in transaction.statements:
                self._connection.execute(sql, values)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Commit what waits, and let go of the file."""
        self.wait(self._queued)
        with self._committing, self._reading:
            self._reader.close()
            self._connection.close()
            os.close(self._lock)

    # --- reading ---

    def rows(self, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """For the start, when nobody writes."""
        return iter(self._reader.execute(sql, values))

    def content(self, version: int) -> bytes:
        """The bytes of an object's version, `b""` if it has none."""
        with self._reading:
            found = self._reader.execute("SELECT bytes FROM contents WHERE version = ? ORDER BY number", (version,))
            return b"".join(each for (each,) in found)


def chunks(content: bytes) -> Iterator[tuple[int, memoryview]]:
    """The content in parts that fit into a row each, without a copy of it."""
    for number, start in enumerate(range(0, len(content), CHUNK)):
        yield number, memoryview(content)[start : start + CHUNK]


def version_of(folder: Path) -> int | None:
    """The version of the file in `folder`; None if there is none, 0 if it was never finished. Raises LocalError."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        raise LocalError(f"{path} cannot be read ({error})") from error
    return int(version)


def stop(reason: str) -> NoReturn:
    """End this process at once: what it has in memory is not what it would have after a start."""
    print(f"this process stops: {reason}", file=sys.stderr, flush=True)
    os._exit(1)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise LocalError(f"{path} is of version {version}, and this Tidegate reads version {VERSION}")
    except sqlite3.Error as error:
        raise LocalError(f"{path} cannot be opened ({error})") from error
    return connection


def _only_here(folder: Path) -> int:
    """A lock on the folder that ends with this process. Raises LocalError if another one keeps it."""
    descriptor = os.open(folder / "services.lock", os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LocalError(f"another process uses {folder / FILE}: stop it first") from None
            time.sleep(0.1)
        else:
            return descriptor
