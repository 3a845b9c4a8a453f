"""Files of the Spark benches, the same ones each time. The small S3 server hands them out, and peers read them."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.arrow import SCHEMA
from bench.inputs import BUCKET, Sums
from tidegate.core.uploads import Upload

DDL = "id bigint, cents int, text string"
DAYS = 20_000
"""The first day of those rows that have one, since the epoch."""
ROW_BYTES = {"json": 66, "csv": 40, "parquet": 40}
AT_BYTES = 30
WORDS = ["tide", "gate", "harbour", "lock", "sluice", "berth", "mooring", "fairway"]


@dataclass(frozen=True, slots=True)
class BenchFiles:
    """So many files of a format, and what their rows add up to."""

    title: str
    format: str
    folder: Path
    """The bucket's folder is in it."""
    uploads: tuple[Upload, ...]
    sums: Sums
    size: int
    days: int = 0
    """The rows have a time (`at`) of so many days, and their table a partition for each."""

    @property
    def columns(self) -> str:
        return f"{DDL}, at timestamp" if self.days else DDL

    @property
    def partitions(self) -> tuple[str, ...]:
        return ("day(at)",) if self.days else ()

    @property
    def bucket(self) -> Path:
        return self.folder / BUCKET

    @property
    def paths(self) -> list[str]:
        return [str(self.bucket / each.key) for each in self.uploads]


def make_files(
    folder: Path, title: str, format: str, count: int, size: int, *, packed: bool = False, days: int = 0
) -> BenchFiles:
    """`count` files of about `size` bytes before gzip (`packed`), each with rows of its own. Those of JSON may be of so
    many `days`."""
    rows = max(1, size // (ROW_BYTES[format] + (AT_BYTES if days else 0)))
    written: Callable[[range], bytes] = {"json": partial(_json, days=days), "csv": _csv, "parquet": _parquet}[format]
    ending = f".{format}.gz" if packed else f".{format}"
    uploads, total = [], Sums(0, 0, 0, 0)
    for number in range(count):
        ids = range(number * rows, (number + 1) * rows)
        body = written(ids)
        if packed:
            body = gzip.compress(body, 6, mtime=0)
        key = f"events/{number // 1000:04}-{number:07}{ending}"
        path = folder / BUCKET / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        uploads.append(Upload(BUCKET, key, f"version-{number:024}", len(body)))
        total = Sums(
            total.rows + rows,
            total.ids + sum(ids),
            total.cents + sum(map(cents_of, ids)),
            total.letters + sum(len(text_of(each)) for each in ids),
        )
    return BenchFiles(title, format, folder, tuple(uploads), total, sum(each.size for each in uploads), days)


def cents_of(number: int) -> int:
    return number * 7_919 % 100_003


def text_of(number: int) -> str:
    return f"{WORDS[number % 8]} {WORDS[number // 8 % 8]} {number % 1000}"


def _json(ids: range, days: int) -> bytes:
    return "".join(
        f'{{"id": {each}, "cents": {cents_of(each)}, "text": {json.dumps(text_of(each))}{_at(each, days)}}}\n'
        for each in ids
    ).encode()


def _at(number: int, days: int) -> str:
    """The time of a row, in the day that is next in turn."""
    if not days:
        return ""
    day = date(1970, 1, 1) + timedelta(DAYS + number % days)
    return f', "at": "{day.isoformat()}T10:21:{number % 60:02}Z"'


def _csv(ids: range) -> bytes:
    return ("id,cents,text\n" + "".join(f"{each},{cents_of(each)},{text_of(each)}\n" for each in ids)).encode()


def _parquet(ids: range) -> bytes:
    table = pa.table([list(ids), list(map(cents_of, ids)), list(map(text_of, ids))], schema=SCHEMA)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100_000)
    body: bytes = sink.getvalue().to_pybytes()
    return body
