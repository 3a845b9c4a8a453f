"""Files of the Spark benches, the same ones each time. The small S3 server hands them out, and peers read them."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.arrow import SCHEMA
from bench.inputs import BUCKET, Sums
from tidegate.core.uploads import Upload

DDL = "id bigint, cents int, text string"
NO_ROWS = Sums(0, 0, 0, 0)
ROW_BYTES = {"json": 66, "csv": 40, "parquet": 40}
WORDS = ["tide", "gate", "harbour", "lock", "sluice", "berth", "mooring", "fairway"]


@dataclass(frozen=True, slots=True)
class BenchFiles:
    """So many files of a format, and what their rows add up to."""

    title: str
    format: str
    folder: Path
    """The bucket's folder is in it."""
    uploads: tuple[Upload, ...] = ()
    sums: Sums = NO_ROWS
    size: int = 0
    columns: str = DDL
    partitions: tuple[str, ...] = ()
    schema: pa.Schema = SCHEMA

    @property
    def bucket(self) -> Path:
        return self.folder / BUCKET

    @property
    def paths(self) -> list[str]:
        return [str(self.bucket / each.key) for each in self.uploads]


def make_files(folder: Path, title: str, format: str, count: int, size: int, *, packed: bool = False) -> BenchFiles:
    """`count` files of about `size` bytes before gzip (`packed`), each with rows of its own."""
    rows = max(1, size // ROW_BYTES[format])
    written: Callable[[range], bytes] = {"json": _json, "csv": _csv, "parquet": _parquet}[format]
    ending = f".{format}.gz" if packed else f".{format}"

    def body(ids: range) -> bytes:
        return gzip.compress(written(ids), 6, mtime=0) if packed else written(ids)

    return put_files(BenchFiles(title, format, folder), count, rows, body, ending)


def put_files(files: BenchFiles, count: int, rows: int, body: Callable[[range], bytes], ending: str) -> BenchFiles:
    """`count` files of so many rows each, with what they are and add up to. `body` writes the rows of some ids."""
    uploads, total = [], NO_ROWS
    for number in range(count):
        ids = range(number * rows, (number + 1) * rows)
        written = body(ids)
        key = f"events/{number // 1000:04}-{number:07}{ending}"
        path = files.bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(written)
        uploads.append(Upload(BUCKET, key, f"version-{number:024}", len(written)))
        total = Sums(
            total.rows + rows,
            total.ids + sum(ids),
            total.cents + sum(map(cents_of, ids)),
            total.letters + sum(len(text_of(each)) for each in ids),
        )
    return replace(files, uploads=tuple(uploads), sums=total, size=sum(each.size for each in uploads))


def cents_of(number: int) -> int:
    return number * 7_919 % 100_003


def text_of(number: int) -> str:
    return f"{WORDS[number % 8]} {WORDS[number // 8 % 8]} {number % 1000}"


def _json(ids: range) -> bytes:
    return "".join(
        f'{{"id": {each}, "cents": {cents_of(each)}, "text": {json.dumps(text_of(each))}}}\n' for each in ids
    ).encode()


def _csv(ids: range) -> bytes:
    return ("id,cents,text\n" + "".join(f"{each},{cents_of(each)},{text_of(each)}\n" for each in ids)).encode()


def _parquet(ids: range) -> bytes:
    table = pa.table([list(ids), list(map(cents_of, ids)), list(map(text_of, ids))], schema=SCHEMA)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100_000)
    body: bytes = sink.getvalue().to_pybytes()
    return body
