"""The product's reader, with the files of a folder in place of S3: so it reads what its peers read, as they do.

Everything but the request is the product's: what is fetched ahead, decoded, checked and written, by how many threads.
It is a module of its own, because Spark's tasks import it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Read
from tidegate.core.uploads import Upload
from tidegate.formats.splits import Split
from tidegate.reading import ranges, reader
from tidegate.reading.fetch import Fetched, TooLarge
from tidegate.reading.local_files import LocalFile
from tidegate.reading.reader import Reader
from tidegate.sinks.iceberg.sink import IcebergSink


@dataclass(frozen=True)
class DiskReader(Reader):
    """`folder` has a folder for each bucket. A file stands for every version of its object."""

    folder: str = ""

    def read(
        self, items: Sequence[tuple[int, OwnedUpload]], report: Callable[[int, Read], None]
    ) -> Iterator[pa.RecordBatch]:
        with self._from_disk():
            yield from super().read(items, report)

    def read_split(self, item: OwnedUpload, split: Split, report: Callable[[Read], None]) -> Iterator[pa.RecordBatch]:
        with self._from_disk():
            yield from super().read_split(item, split, report)

    def survey(self, item: OwnedUpload, start: int, end: int) -> Any:
        with self._from_disk():
            return super().survey(item, start, end)

    @contextmanager
    def _from_disk(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module, name, instead in (
                (reader, "fetch", self._fetch),
                (reader, "probe", self._probe),
                (ranges, "fetch_range", self._fetch_range),
            ):
                stack.enter_context(patch.object(module, name, instead))
            yield

    def _fetch(self, upload: Upload, max_bytes: int, owner: str = "") -> Fetched:
        with open(f"{self.folder}/{upload.bucket}/{upload.key}", "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            return TooLarge(size) if size > max_bytes else file.read(size)

    def _fetch_range(self, upload: Upload, start: int, end: int, owner: str = "") -> Fetched:
        return self._file(upload).read(start, end)

    def _probe(self, upload: Upload, owner: str = "") -> Fetched:
        return TooLarge(self._file(upload).size)

    def _file(self, upload: Upload) -> LocalFile:
        return LocalFile.of(Path(self.folder, upload.bucket, upload.key))


@dataclass
class DiskSink(IcebergSink):
    folder: str = ""

    def _reader(self, careful: bool) -> Reader:
        made = super()._reader(careful)
        given = {each.name: getattr(made, each.name) for each in fields(made) if each.init}
        return DiskReader(**given, folder=self.folder)
