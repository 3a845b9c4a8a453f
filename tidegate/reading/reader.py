"""The files of a task become Arrow batches, and each file's ending is reported."""

import datetime
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

import pyarrow as pa

from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.routes import Dataset
from tidegate.reading.careful import careful
from tidegate.reading.decoding import Decode, Decoding, Refused
from tidegate.reading.fetch import Fetched, Missed, TooLarge, Unreadable, Withheld, fetch

FETCH_THREADS = 16
FETCH_AHEAD_BYTES = 64_000_000
EMIT_BYTES = 16_000_000
EMIT_ROWS = 16_384

LINEAGE = pa.schema(
    [
        pa.field("_source_uri", pa.string(), nullable=False),
        pa.field("_source_version", pa.string(), nullable=False),
        pa.field("_source_row", pa.int64(), nullable=False),
        pa.field("_batch_id", pa.string(), nullable=False),
        pa.field("_ingested_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
LINEAGE_DDL = (
    "_source_uri string not null, _source_version string not null, _source_row bigint not null,"
    " _batch_id string not null, _ingested_at timestamp not null"
)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads tasks, each a sequence of (position, item). It is sent to the executors, so it has plain values only."""

    dataset: Dataset
    schema: pa.Schema
    batch: str
    ingested_at: datetime.datetime
    owner: str = ""
    """The account that the uploads' bucket must belong to; see `fetch`."""
    careful: bool = False
    """Decode each file in a process of its own; see `tidegate.reading.careful`."""

    @property
    def decoding(self) -> Decoding:
        return Decoding(self.dataset, self.schema)

    def read(
        self, items: Sequence[tuple[int, OwnedUpload]], report: Callable[[int, Read], None]
    ) -> Iterator[pa.RecordBatch]:
        """Batches of `schema` plus lineage. `report` receives each item's ending before its rows are emitted."""
        decoding = self.decoding
        with careful(decoding, self.batch) if self.careful else nullcontext(decoding) as decode:
            yield from self._read(items, decode, report)

    def _read(
        self, items: Sequence[tuple[int, OwnedUpload]], decode: Decode, report: Callable[[int, Read], None]
    ) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        size = 0
        for position, item, body in self._fetch_ahead(items):
            result = self._decode(item, body, decode)
            if isinstance(result, Read):
                report(position, result)
                continue
            report(position, Read(Outcome.COMMITTED, result.num_rows))
            waiting.append(self._with_lineage(result, item))
            size += waiting[-1].nbytes
            if size >= EMIT_BYTES:
                yield from _batches(waiting)
                waiting, size = [], 0
        yield from _batches(waiting)

    def _fetch_ahead(self, items: Sequence[tuple[int, OwnedUpload]]) -> Iterator[tuple[int, OwnedUpload, Fetched]]:
        """The items in order, each with its bytes, fetching ahead to hide S3's latency: at most `FETCH_THREADS` objects
        and, past the first, `FETCH_AHEAD_BYTES`."""
        ahead: deque[tuple[int, OwnedUpload, Future[Fetched]]] = deque()
        pending = 0
        with ThreadPoolExecutor(FETCH_THREADS) as pool:
            for position, item in items:
                size = item.upload.size
                while ahead and (len(ahead) >= FETCH_THREADS or pending + size > FETCH_AHEAD_BYTES):
                    done = ahead.popleft()
                    pending -= done[1].upload.size
                    yield done[0], done[1], done[2].result()
                body = pool.submit(fetch, item.upload, self.dataset.max_object_bytes, self.owner)
                ahead.append((position, item, body))
                pending += size
            while ahead:
                done = ahead.popleft()
                yield done[0], done[1], done[2].result()

    def _decode(self, item: OwnedUpload, body: Fetched, decode: Decode) -> pa.Table | Read:
        limit = self.dataset.max_object_bytes
        if isinstance(body, Missed):
            return Read(body.outcome, 0, body.reason)
        if isinstance(body, Unreadable):
            return Read(Outcome.QUARANTINED, 0, body.reason)
        if isinstance(body, Withheld):
            reason = f"S3 refused to hand it out, and handed out its neighbours: {body.reason}"
            return Read(Outcome.QUARANTINED, 0, reason, refused=True)
        if isinstance(body, TooLarge):
            return Read(Outcome.QUARANTINED, 0, f"too large: {body.size} bytes, at most {limit} (max_object_bytes)")
        table = decode(item.upload.key, body)
        if isinstance(table, Refused):
            return Read(Outcome.QUARANTINED, 0, table.reason, where=table.where)
        return table

    def _with_lineage(self, table: pa.Table, item: OwnedUpload) -> pa.Table:
        count = table.num_rows
        values = (
            pa.repeat(item.upload.uri, count),
            pa.repeat(item.upload.version, count),
            pa.array(range(count), pa.int64()),
            pa.repeat(self.batch, count),
            pa.repeat(pa.scalar(self.ingested_at, LINEAGE.field("_ingested_at").type), count),
        )
        return pa.Table.from_arrays([*table.columns, *values], schema=pa.schema([*self.schema, *LINEAGE]))


def _batches(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """The tables' rows in batches. Small tables go together, because each batch costs time. Large ones are sliced,
    because Spark has a batch whole in memory, and Arrow at most 2 GB in one column."""
    small = [table for table in tables if table.nbytes < EMIT_BYTES]
    if small:
        yield from pa.concat_tables(small).combine_chunks().to_batches(max_chunksize=EMIT_ROWS)
    for table in tables:
        if table.nbytes >= EMIT_BYTES:
            rows = max(1, min(EMIT_ROWS, table.num_rows * EMIT_BYTES // table.nbytes))
            yield from table.to_batches(max_chunksize=rows)
