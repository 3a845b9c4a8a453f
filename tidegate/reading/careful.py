"""Careful mode: each file is decoded in a child process with limits, so that a file that kills its reader is found.

A file can make a decoder crash, or need more memory than there is. Then the process that decodes it dies, and says
nothing. A batch whose attempts died so is read in this mode (see `core.receipts.reads_carefully`):

- One task at a time on each executor, so that a file has all the memory there is.
- The task's process decodes nothing itself. It hands one file after the other to a child, so it knows which one the
  child had when it died.
- That file gets a second chance, in a new child: an earlier file may have damaged the first one. If the new child dies
  too, the file is refused by name, and its neighbours land.

A large file is decoded piece by piece in the child. The task's process fetches each range that the child asks for, and
emits each table that comes back. A second child knows nothing of the first: it begins at the first byte, and counts
rows, bad rows and names anew. What outlives a child is what was emitted, and no child sees that. So the tables are
what is counted here, and not their rows: a table may have no row, and say something all the same (`formats.said`).

    line                                  if the child dies before it         if it dies after it
    1 the child asks for a range          the second child asks for it        the same: a range is the same bytes
    2 the child sends a table             nothing of it was emitted: the      as at 3: it came whole, or it did not come
                                          second child sends it
    3 it is emitted, if it is none of     as at 2                             it is among the first: the second child's
      the first, which were emitted                                           is compared with it, and dropped
    4 the child says that it is the end   the second child's tables are       the file is done: a child that died is
                                          all compared and dropped            missed by the next file

The same bytes become the same tables, cut at the same places: the decoders are deterministic, and no limit of memory or
time cuts a table. That is not taken for granted. The second child's first tables must have as many rows as those that
were emitted, and say the same. If they do not, nobody knows which rows the file has, and it is refused.

No network is used in the child: an object that cannot be fetched is no fault of its content. The time limit counts the
child's processor time, so a slow machine refuses nothing; a large file has it for each table, so it may take any time
as long as it goes on. A limit by the clock, three times as long, is for a child that hangs.
"""

import fcntl
import multiprocessing
import os
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.core.routes import Dataset
from tidegate.formats.reasons import Undecodable
from tidegate.formats.said import KEY as SAID
from tidegate.formats.streams import WHOLE_BYTES, ByteSource
from tidegate.reading.decoding import Decode, Decoding, Larger, Refused

CHANCES = 2
BYTES_PER_SECOND = 1_000_000
"""No decoder is that slow: the slowest measured reads 31 MB of text a second."""
LEAST_SECONDS = 60
MEMORY_TIMES = 24
"""How many times its largest size a file may need in memory: more than an executor's task has in ordinary mode."""
LEAST_MEMORY = 1 << 30
STARTS_WITHIN = 300
READY = "ready"
HANGS_AFTER = 3
"""How many times its processor time a child may take by the clock."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of decoding one file: bytes of memory, and seconds of processor time."""

    memory: int
    seconds: int


def limits_for(dataset: Dataset, *, machine_memory: int) -> Limits:
    """In proportion to the largest file that is decoded whole; of memory at most half of what there is, since the
    task's process and Spark need the other half."""
    largest = min(dataset.max_object_bytes, WHOLE_BYTES)
    memory = min(max(LEAST_MEMORY, MEMORY_TIMES * largest), machine_memory // 2)
    return Limits(memory, LEAST_SECONDS + largest // BYTES_PER_SECOND)


def machine_memory(limit_file: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """The bytes of memory of this container, or of the machine."""
    there: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(there, int(limit_file.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return there


@contextmanager
def careful(decoding: Decoding, name: str) -> Iterator[Decode]:
    """Decode as `decoding` does, in a child process, alone among the tasks of this executor. `name` is the batch's."""
    limits = limits_for(decoding.dataset, machine_memory=machine_memory())
    with _alone(name), Supervisor(decoding, limits) as supervisor:
        yield supervisor


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """One task at a time. The lock belongs to the open file, so the system frees it if this process dies."""
    with open(Path(tempfile.gettempdir()) / f"tidegate-{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass
class Supervisor:
    """Hands files to a child process, one at a time. A child that lives decodes the next file too."""

    decoding: Decode
    limits: Limits
    _child: "_Child | None" = field(default=None, init=False)

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, key: str, body: bytes) -> pa.Table | Refused | Larger:
        died = ""
        for _ in range(CHANCES):
            self._child = self._child or _Child(self.decoding, self.limits)
            answer = self._child.decode(key, body)
            if not isinstance(answer, _Died):
                return answer
            self._end()
            died = answer.how
        return Refused(_died_of_it(died))

    def streamed(self, key: str, source: ByteSource) -> Iterator[pa.Table]:
        died = ""
        emitted: list[int] = []
        for _ in range(CHANCES):
            self._child = self._child or _Child(self.decoding, self.limits)
            first = iter(tuple(emitted))
            try:
                for table in self._child.streamed(key, source):
                    again = next(first, None)
                    if again is None:
                        emitted.append(_digest(table))
                        yield table
                    elif again != _digest(table):
                        raise _Otherwise
                if next(first, None) is not None:
                    raise _Otherwise
                return
            except _ChildDied as error:
                self._end()
                died = error.how
            except _Otherwise:
                self._end()
                raise Undecodable(
                    f"it was decoded twice, with different rows, after its reader had died: {died}. This is a bug of"
                    " the decoder"
                ) from None
            except Undecodable:
                raise
            except BaseException:
                # the child waits for something that never comes
                self._end()
                raise
        raise Undecodable(_died_of_it(died))

    def _end(self) -> None:
        if self._child:
            self._child.end()
        self._child = None


def _died_of_it(how: str) -> str:
    return f"its reader died of it, {CHANCES} times, alone in a process: {how}"


def _digest(table: pa.Table) -> int:
    """Of what is counted: how many rows it has, and what is said of it."""
    return hash((table.num_rows, (table.schema.metadata or {}).get(SAID)))


class _Otherwise(Exception):
    """A second child has found other tables than the first."""


@dataclass(frozen=True, slots=True)
class _Died:
    how: str


class _ChildDied(Exception):
    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


@dataclass(frozen=True, slots=True)
class _Range:
    """The child asks for these bytes of the file."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _End:
    """All tables of the file have come."""


class _Child:
    def __init__(self, decoding: Decode, limits: Limits) -> None:
        # a fork would copy the fetching threads' locks, and the memory of this process
        context = multiprocessing.get_context("spawn")
        self._limits = limits
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, decoding, limits), daemon=True)
        self._process.start()
        theirs.close()
        self._begin()

    def _begin(self) -> None:
        """Wait until the child is ready: its start is no file's fault, and no file's time."""
        try:
            if wait([self._pipe, self._process.sentinel], STARTS_WITHIN) and self._pipe.recv() == READY:
                return
        except (EOFError, OSError):
            self._process.join()
        raise RuntimeError(
            f"the process that decodes files did not start within {STARTS_WITHIN} seconds: its exit code is"
            f" {self._process.exitcode}"
        )

    def decode(self, key: str, body: bytes) -> pa.Table | Refused | Larger | _Died:
        return self._answer((key, body))

    def streamed(self, key: str, source: ByteSource) -> Iterator[pa.Table]:
        """Raises _ChildDied."""
        answer = self._answer((key, source.size))
        while not isinstance(answer, _End):
            if isinstance(answer, _Died):
                raise _ChildDied(answer.how)
            if isinstance(answer, Refused):
                raise Undecodable(answer.reason, where=answer.where)
            if isinstance(answer, _Range):
                answer = self._answer(source.read(answer.start, answer.end))
            else:
                yield answer
                answer = self._answer(None)

    def _answer(self, said: Any) -> Any:
        """What the child answers to it."""
        patience = HANGS_AFTER * self._limits.seconds
        try:
            self._pipe.send(said)
            if not wait([self._pipe, self._process.sentinel], patience):
                return _Died(f"it was not done after {patience} seconds")
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            return _Died(_how(self._process.exitcode, self._limits))
        return _Died(f"it needs more than {self._limits.memory} bytes of memory") if answer is None else answer

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _how(exit_code: int | None, limits: Limits) -> str:
    if exit_code == -signal.SIGXCPU:
        return f"it needs more than {limits.seconds} seconds of processor time"
    if exit_code is not None and exit_code < 0:
        return f"{signal.Signals(-exit_code).name}"
    return f"it ended with code {exit_code}"


def _serve(pipe: Connection, decoding: Decode, limits: Limits) -> None:
    """The child: decode what comes, until the parent is gone. None is the answer if the memory was not enough."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_least(limits.memory, most), most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if isinstance(decoding, Decoding):
        decoding.prepare()
    pipe.send(READY)
    while True:
        try:
            key, given = pipe.recv()
        except EOFError:
            return
        _grant(limits.seconds)
        answer: Any
        try:
            answer = _stream(pipe, decoding, limits, key, given) if isinstance(given, int) else decoding(key, given)
        except MemoryError:
            answer = None
        pipe.send(answer)


def _stream(pipe: Connection, decoding: Decode, limits: Limits, key: str, size: int) -> Refused | _End:
    """The child: send the tables of a file of `size` bytes, each when the one before was taken."""
    try:
        for table in decoding.streamed(key, _Asked(pipe, size)):
            pipe.send(table)
            pipe.recv()
            _grant(limits.seconds)
    except Undecodable as error:
        return Refused(str(error), error.where)
    return _End()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A file of which the parent has the bytes, as a source."""

    pipe: Connection
    size: int

    def read(self, start: int, end: int) -> bytes:
        self.pipe.send(_Range(start, end))
        body: bytes = self.pipe.recv()
        return body


def _grant(seconds: int) -> None:
    """So much processor time from now on. The system's limit counts from the start of the process."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    until = _least(int(time.process_time()) + 1 + seconds, most)
    resource.setrlimit(resource.RLIMIT_CPU, (until, most))


def _least(wanted: int, most: int) -> int:
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)
