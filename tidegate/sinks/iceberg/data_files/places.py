"""Where data files are: in S3, or in a folder of this machine. A file is put there whole, or not at all."""

import os
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import obstore
import pyarrow as pa
from obstore.store import S3Store

from tidegate.formats.streams import AsFile
from tidegate.reading.s3_store import s3_store
from tidegate.sinks.iceberg.data_files.layout import Access, Layout, key_of

PART_BYTES = 16 * 1024 * 1024
"""S3 takes 10,000 parts, so a file may have 160 GB."""
PARTS_AT_ONCE = 4


def put(layout: Layout, file: Path, location: str) -> None:
    """Put a finished file there. A location is used once. Raises whatever S3 or the file system raises."""
    if location.startswith("file:"):
        _move(file, _path(location))
        return
    bucket, key = key_of(location)
    obstore.put(_store(bucket, layout.access), key, file, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)


def remove(layout: Layout, location: str) -> None:
    """Remove a file that no table will have."""
    if location.startswith("file:"):
        _path(location).unlink(missing_ok=True)
        return
    bucket, key = key_of(location)
    obstore.delete(_store(bucket, layout.access), key)


def opened(access: Access, location: str, size: int) -> pa.NativeFile:
    """A file that a table has, of so many bytes, to be read here and there."""
    if location.startswith("file:"):
        return pa.OSFile(str(_path(location)))
    bucket, key = key_of(location)
    return pa.PythonFile(AsFile(_InS3(_store(bucket, access), key, size)), "r")


@dataclass(frozen=True, slots=True)
class _InS3:
    """`formats.streams.ByteSource` on an object."""

    store: S3Store
    key: str
    size: int

    def read(self, start: int, end: int) -> bytes:
        return bytes(obstore.get_range(self.store, self.key, start=start, end=end))


def _move(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    # whoever lists the folder meanwhile sees no half of it
    waiting = to.with_name(f".{to.name}.tmp")
    shutil.move(file, waiting)
    os.replace(waiting, to)


def _path(location: str) -> Path:
    """As Hadoop reads it: what looks encoded is not decoded."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))


@cache
def _store(bucket: str, access: Access) -> S3Store:
    """A bucket, as Iceberg's S3FileIO finds it: by its settings, then by the environment."""
    # a name with dots is no name of a host with a certificate
    hosted = not access.path_style and "." not in bucket
    return s3_store(bucket, endpoint=access.endpoint, region=access.region, hosted=hosted)
