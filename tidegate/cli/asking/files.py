"""The files of the tables, as DuckDB gets them: by a file system that can only read, and only below the tables' roots.

DuckDB's own file systems write whatever a statement or a function names, and none of its settings keeps them from that:
what `allowed_directories` allows to be read, it allows to be written. So `engine` takes them all away, and DuckDB opens
what it opens by one of these (https://duckdb.org/docs/stable/guides/python/filesystems).
"""

import contextlib
import datetime
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsspec import AbstractFileSystem

if TYPE_CHECKING:
    from tidegate.cli.asking.properties import Caller


@dataclass(frozen=True, slots=True)
class FileFacts:
    size: int
    modified: datetime.datetime


class FileUnreadable(OSError):
    """A file of a table cannot be read."""


class ReadOnlyFiles(AbstractFileSystem):
    """What DuckDB calls of a file system to read. Of what it would call to write there is nothing.

    `failed` is the last error: DuckDB hands on its text, in an error that does not say where it is from.
    """

    cachable = False
    failed: FileUnreadable | None = None

    def open(self, path: str, mode: str = "rb", **_: Any) -> "_OpenedRange":
        if mode != "rb":
            raise PermissionError(f"{path} can only be read here")
        with self._noted():
            return _OpenedRange(self.facts(path).size, lambda start, count: self._range(path, start, count))

    def _range(self, path: str, start: int, count: int) -> bytes:
        with self._noted():
            return self.read_range(path, start, count)

    def size(self, path: str) -> int:
        with self._noted():
            return self.facts(path).size

    def modified(self, path: str) -> datetime.datetime:
        with self._noted():
            return self.facts(path).modified

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """By this DuckDB asks whether a file is there."""
        return {"name": path, "size": self.facts(path).size, "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        """A table names its files, each as it is; a pattern finds nothing."""
        return [path] if self.isfile(path) else []

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failed = FileUnreadable(str(error))
            raise

    @abstractmethod
    def facts(self, path: str) -> FileFacts:
        """Raises OSError."""

    @abstractmethod
    def read_range(self, path: str, start: int, count: int) -> bytes:
        """So many bytes, all of which the file has. Raises OSError. Threads call it at once."""


class _OpenedRange:
    """An opened file. DuckDB reads a place of it in two calls, `seek` and `read`, and lets several threads do so at
    once: so where a thread went is known to that thread, until it reads."""

    def __init__(self, size: int, read_range: Callable[[int, int], bytes]) -> None:
        self.size, self.read_range = size, read_range
        self.place = 0
        self.asked = threading.local()

    def seek(self, place: int) -> None:
        self.asked.place = place

    def tell(self) -> int:
        found: int | None = getattr(self.asked, "place", None)
        return self.place if found is None else found

    def read(self, count: int) -> bytes:
        start = self.tell()
        self.asked.place = None
        end = min(start + count, self.size)
        self.place = max(start, end)
        return self.read_range(start, end - start) if start < end else b""

    def close(self) -> None:
        """A file is opened for each range that is read: there is nothing to close."""


class LocalFiles(ReadOnlyFiles):
    """The files below a folder of this machine, wherever its links lead."""

    protocol = "file"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder.resolve()

    def facts(self, path: str) -> FileFacts:
        found = self._file(path).stat()
        return FileFacts(found.st_size, datetime.datetime.fromtimestamp(found.st_mtime, datetime.UTC))

    def read_range(self, path: str, start: int, count: int) -> bytes:
        with self._file(path).open("rb") as opened:
            opened.seek(start)
            return opened.read(count)

    def _file(self, path: str) -> Path:
        # Spark names files as file:/..., which DuckDB asks no file system but its own for. So it is told that the table
        # was moved (`engine._show`): then it puts what a file is called within its table behind the metadata's name
        metadata, moved, within = path.rpartition(".metadata.json/")
        if moved:
            path = f"{metadata.rpartition('/metadata/')[0]}/{within}"
        file = Path(path.removeprefix("file://")).resolve()
        if not file.is_relative_to(self.folder):
            raise PermissionError(f"{path} is not below {self.folder}")
        return file


class S3Files(ReadOnlyFiles):
    """The objects that these keys may read, and below a prefix those that are handed out for it."""

    protocol = ("s3", "s3a", "s3n")

    def __init__(self, who: "Caller") -> None:
        super().__init__()
        self.keys = {"": who}
        self.lock = threading.Lock()
        self.clients: dict[Caller, Any] = {}
        self.known: dict[str, FileFacts] = {}

    def hand(self, prefix: str, who: "Caller") -> None:
        """From now on read what is below the prefix, a URI, with these keys."""
        self.keys[prefix] = who

    def facts(self, path: str) -> FileFacts:
        # DuckDB asks for one fact at a time, and no object of an Iceberg table changes
        if path not in self.known:
            found = self._call("head_object", path)
            self.known[path] = FileFacts(found["ContentLength"], found["LastModified"])
        return self.known[path]

    def read_range(self, path: str, start: int, count: int) -> bytes:
        answer = self._call("get_object", path, Range=f"bytes={start}-{start + count - 1}")
        found: bytes = answer["Body"].read()
        return found

    def _call(self, operation: str, path: str, **arguments: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        bucket, _, key = path.partition("://")[2].partition("/")
        who = self.keys[max(filter(path.startswith, self.keys), key=len)]
        try:
            return getattr(self._client(who), operation)(Bucket=bucket, Key=key, **arguments)
        except (BotoCoreError, ClientError) as error:
            raise OSError(f"{path}: {error}") from error

    def _client(self, who: "Caller") -> Any:
        with self.lock:
            if who not in self.clients:
                self.clients[who] = _client(who)
            return self.clients[who]


def _client(who: "Caller") -> Any:
    import boto3

    return boto3.client(
        "s3",
        region_name=who.region,
        endpoint_url=who.s3 or None,
        aws_access_key_id=who.access_key,
        aws_secret_access_key=who.secret_key,
        aws_session_token=who.token or None,
    )
