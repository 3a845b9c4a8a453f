"""The lineage of a table: which uploads have rows in it, and which batch put them there.

Every row names its upload and its batch (`_source_uri`, `_source_version`, `_batch_id`). A run of the lineage groups
the rows of one snapshot of `main` by these, and writes the groups to the work bucket (`tidegate.spark.lineage`):

    lineage/<run>/<driver>/<number>.jsonl.gz   some uploads, in order; the files are in order by their names
    lineage/<run>/<driver>/history.json.gz     the history of `main` that ends at the snapshot that was read
    lineage/<run>/failure.json                 why a driver gave up, for people
    lineage/<run>/complete.json                which driver's files count; their names and their sums

EMR may run two drivers for one job, and they may read two snapshots. So each writes to a folder of its own, and
`complete.json` is written once, by the first that has written everything.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass

from tidegate.core.errors import Rejected
from tidegate.core.publication import History, Snapshot
from tidegate.core.versions import check_version

LINEAGE_COLUMNS = {
    "_source_uri": "string",
    "_source_version": "string",
    "_source_row": "bigint",
    "_batch_id": "string",
    "_ingested_at": "timestamp",
}
"""The columns of the lineage, with Spark's types. They follow those of the schema, and none is ever null."""

VERSION = 1
HISTORY_VERSION = 2  # since 2 it says which snapshots added and removed files
SCHEME = "s3://"
PART_UPLOADS = 50_000
"""How many uploads one file has at most: whoever reads it has it in memory."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What the table holds of one upload, put there by one batch: so many rows.

    `version` and `batch` are empty if another tool wrote the rows and left them out.
    """

    bucket: str
    key: str
    version: str
    batch: str
    rows: int

    @property
    def identity(self) -> tuple[str, str, str]:
        return (self.bucket, self.key, self.version)

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Where it is in the order. Strings compare by code points, which is the order of their UTF-8 bytes."""
        return (self.bucket, self.key, self.version, self.batch)


@dataclass(frozen=True, slots=True)
class CompleteLineage:
    """What a complete run has written. `snapshot` is the one that was read, None of a table that does not exist or has
    none. `parts` are the names of the files in `folder`, in order."""

    table: str
    prefix: str
    snapshot: int | None
    folder: str
    parts: tuple[str, ...]
    uploads: int
    rows: int

    def encode(self) -> bytes:
        return json.dumps({"v": VERSION, **asdict(self)}, indent=1).encode()


def decode_complete(body: bytes) -> CompleteLineage:
    """Raises Rejected if newer code wrote it."""
    data = json.loads(body)
    check_version(data.pop("v"), "complete.json of a lineage run", VERSION)
    return CompleteLineage(**{**data, "parts": tuple(data["parts"])})


def lineage_folder(run: str) -> str:
    return f"lineage/{run}/"


def checked_prefix(prefix: str) -> str:
    """What every `_source_uri` under `prefix` begins with. `prefix` is `s3://bucket/...`, or empty for all. A bucket
    without a slash means all of that bucket, and not of others whose names begin alike. Raises ValueError."""
    if not prefix:
        return SCHEME
    bucket, slash, rest = prefix.removeprefix(SCHEME).partition("/")
    if not prefix.startswith(SCHEME) or not bucket:
        raise ValueError(f"{prefix!r} is not s3://BUCKET/PREFIX")
    return prefix if slash else f"{SCHEME}{bucket}/{rest}"


def encode_landed(found: Iterable[Landed]) -> bytes:
    lines = (json.dumps([each.bucket, each.key, each.version, each.batch, each.rows]) for each in found)
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def history_name(folder: str) -> str:
    """The file of the history that the driver of `folder` has read."""
    return f"{folder}history.json.gz"


def encode_history(history: History) -> bytes:
    """`history` as gzipped JSON, its head first."""
    told = {
        "v": HISTORY_VERSION,
        "uuid": history.table_uuid,
        "ancestors": [
            [each, parent, sorted(publishes), *more]
            for each, parent, publishes, *more in map(astuple, history.ancestors)
        ],
    }
    return gzip.compress(json.dumps(told).encode(), mtime=0)


def decode_history(body: bytes) -> History:
    """Raises Rejected if newer code wrote it."""
    told = json.loads(gzip.decompress(body))
    check_version(told["v"], "history.json.gz of a lineage run", HISTORY_VERSION)
    ancestors = (
        Snapshot(each, parent, frozenset(publishes), *more) for each, parent, publishes, *more in told["ancestors"]
    )
    return History(told["uuid"], tuple(ancestors))


def decode_landed(body: bytes) -> Iterator[Landed]:
    for line in gzip.decompress(body).splitlines():
        yield Landed(*json.loads(line))


def in_order(found: Iterable[Landed], complete: CompleteLineage) -> Iterator[Landed]:
    """`found` as it comes. Raises Rejected if it is not in order, or is not what `complete` states: a reader that
    merges would take for missing what is in the table."""
    last: tuple[str, str, str, str] | None = None
    uploads = rows = 0
    for each in found:
        if last is not None and each.place <= last:
            raise Rejected(f"the lineage of {complete.table} is not in order at s3://{each.bucket}/{each.key}")
        last = each.place
        uploads, rows = uploads + 1, rows + each.rows
        yield each
    if (uploads, rows) != (complete.uploads, complete.rows):
        raise Rejected(
            f"the lineage of {complete.table} has {uploads} uploads with {rows} rows; its job counted"
            f" {complete.uploads} with {complete.rows}"
        )
