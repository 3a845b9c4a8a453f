"""The files of a task become Arrow batches, and each file's ending is reported."""

import datetime
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.core.lineage import LINEAGE_COLUMNS
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.formats.added import NewNames
from tidegate.formats.from_key import KeyColumns
from tidegate.formats.paths import misplaced
from tidegate.formats.reasons import Undecodable, too_large
from tidegate.formats.registry import FORMATS
from tidegate.formats.said import BadRow, said_of
from tidegate.formats.salvage import places_of, rows_with_bad
from tidegate.formats.splits import Split
from tidegate.formats.streams import STORED_BYTES, ByteSource, HeldBytes
from tidegate.formats.unknown import as_beside
from tidegate.reading.ahead import Received, fetched_ahead
from tidegate.reading.careful import careful
from tidegate.reading.decoding import Decode, Decoding, Larger
from tidegate.reading.emitted import EMIT_BYTES, batches_of, encoded, for_each_row
from tidegate.reading.fetch import (
    Deleted,
    Fetched,
    Missed,
    TooLarge,
    Unreadable,
    Withheld,
    deleted_since,
    fetch,
    fetch_unless_deleted,
    probe,
)
from tidegate.reading.ranges import GoneMeanwhile, Ranges
from tidegate.reading.sources import Watched
from tidegate.reading.streamed import streamed
from tidegate.reading.together import JOINED_BYTES, DecodeAll, Span, Together, one_by_one

LINEAGE_ROWS = 1 << 20
"""The most rows of a file that get their lineage at once: the uri may have 1,093 bytes, and Arrow counts the bytes of a
column of text in 32 bits. It notices no overflow if it repeats a value (pyarrow 26.0.1)."""

NO_COLUMNS = pa.schema([])

log = logging.getLogger("tidegate.reading")

LINEAGE = pa.schema(
    [
        pa.field("_source_uri", pa.string(), nullable=False),
        pa.field("_source_version", pa.string(), nullable=False),
        pa.field("_source_row", pa.int64(), nullable=False),
        pa.field("_batch_id", pa.string(), nullable=False),
        pa.field("_ingested_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
LINEAGE_ENCODED = pa.schema(
    field.with_type(pa.dictionary(pa.int32(), field.type)) if pa.types.is_string(field.type) else field
    for field in LINEAGE
)
REJECTED = pa.schema(
    [
        pa.field("place", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
        *LINEAGE,
    ]
)
"""The rows of a table of rejected rows: where in its file a row is, how the file has it, and why it does not fit."""
REJECTED_COLUMNS = {"place": "string", "text": "string", "error": "string", **LINEAGE_COLUMNS}
"""Their types, as Spark calls them."""
LINEAGE_DDL = ", ".join(f"{name} {kind} not null" for name, kind in LINEAGE_COLUMNS.items())


def with_lineage(ddl: str) -> str:
    """The columns of a route with those of the lineage. The DDL may end in a comment, even in one that continues."""
    return f"{ddl}\n\n, {LINEAGE_DDL}"


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
    encoded: bool = False
    """Emit the lineage's texts as dictionaries: a text for each file, and a number for each row. Arrow writes them as
    they are, Spark cannot read them."""
    beside: pa.Schema = NO_COLUMNS
    """Columns of the table that `schema` lacks, if they are filled (`formats.added`)."""
    names: NewNames | None = None
    """Where names are noted that may become such columns."""
    keys: KeyColumns = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", self.decoding.keys)

    @property
    def emitted(self) -> pa.Schema:
        """The schema of the batches of rows."""
        return pa.schema([*self.schema, *self.beside, *(LINEAGE_ENCODED if self.encoded else LINEAGE)])

    @property
    def decoding(self) -> Decoding:
        return Decoding(self.dataset, pa.schema([*self.schema, *as_beside(self.beside)]))

    def read(
        self, items: Sequence[tuple[int, OwnedUpload]], report: Callable[[int, Read], None]
    ) -> Iterator[pa.RecordBatch]:
        """Batches of `schema` plus lineage. `report` receives each item's ending before its rows are emitted, and after
        them if the item is decoded piece by piece (`tidegate.reading.streamed`)."""
        decoding = self.decoding
        if not self.careful:
            yield from self._read(items, Together(decoding), decoding, report)
            return
        with careful(decoding, self.batch) as decode:
            yield from self._read(items, one_by_one(decode), decode, report)

    def read_rejected(self, items: Sequence[tuple[int, OwnedUpload]]) -> Iterator[pa.RecordBatch]:
        """Batches of `REJECTED`: the rows of these uploads that do not fit. It reads the uploads once more. One that is
        not there any more, or is refused, has none, or only those before its fault; its neighbours have theirs. Whoever
        asks knows how many they have to be."""
        decoding = self.decoding
        reading = careful(decoding, self.batch) if self.careful else nullcontext(decoding)
        with reading as decode:
            for _, item, body in self._fetch_ahead(items):
                try:
                    for first, table in self._tables(item, body, decode):
                        if bad := said_of(table).bad:
                            yield self._rejected(item, first, bad)
                except (Undecodable, GoneMeanwhile) as error:
                    # the reason may quote the file
                    log.info("%s lands no more as it was read: %s", item.upload.uri, type(error).__name__)

    def _tables(self, item: OwnedUpload, body: Fetched, decode: Decode) -> Iterator[tuple[int, pa.Table]]:
        """The tables of a file, each with the number of rows before it."""
        judged = self._judged(item.upload, body)
        found = decode(item.upload.key, judged) if isinstance(judged, bytes) else judged
        if isinstance(found, pa.Table):
            yield 0, found
        elif isinstance(found, Larger):
            with self._source(item, body) as source:
                before = 0
                for table in decode.streamed(item.upload.key, source):
                    yield before, table
                    before += rows_with_bad(table)

    def _rejected(self, item: OwnedUpload, before: int, bad: Sequence[BadRow]) -> pa.RecordBatch:
        upload = item.upload
        rows = [
            (each.place, each.text, each.error, upload.uri, upload.version, before + each.row, self.batch)
            for each in bad
        ]
        columns = [pa.array(values) for values in zip(*rows, strict=True)]
        at = pa.repeat(pa.scalar(self.ingested_at, LINEAGE.field("_ingested_at").type), len(bad))
        return pa.RecordBatch.from_arrays([*columns, at], schema=REJECTED)

    def read_split(self, item: OwnedUpload, split: Split, report: Callable[[Read], None]) -> Iterator[pa.RecordBatch]:
        """The batches of a split of a large file. `report` receives its ending after them. An ending other than
        committed says that the file has to be read as a whole, and not how the file ends."""
        body = self._of_announced_size(item)
        if not isinstance(body, TooLarge):
            report(Read(Outcome.QUARANTINED, 0, "not as it was surveyed"))
            return
        with Ranges(item.upload, split.reach, self.owner) as ranges:
            tables = self.decoding.split(item.upload.key, ranges, split)
            yield from streamed(tables, partial(self._emitted, item, split.before), report)

    def survey(self, item: OwnedUpload, start: int, end: int) -> Any:
        """What there is in a range of a large file (`formats.splits`); None if the file has to be read as a whole."""
        body = self._of_announced_size(item)
        splitter = self.decoding.splitter
        if splitter is None or not isinstance(body, TooLarge) or self._misplaced(item.upload):
            return None
        if self.dataset.removes and deleted_since(item.upload, self.owner):
            return None
        with Ranges(item.upload, end, self.owner) as ranges:
            watched = Watched(ranges)
            found = None
            try:
                found = splitter.survey(watched, start, end)
            except MemoryError:
                raise
            except Exception as error:
                # its text may quote the file
                log.info("%s is read by one task: %s", item.upload.uri, type(error).__name__)
        if isinstance(watched.failed, GoneMeanwhile):
            return None
        if watched.failed is not None:
            raise watched.failed
        return found

    def _of_announced_size(self, item: OwnedUpload) -> Fetched | None:
        """A large object, unread; None if it has not as many bytes as S3 announced."""
        body = probe(item.upload, self.owner)
        return None if isinstance(body, TooLarge) and body.size != item.upload.size else body

    def _emitted(self, item: OwnedUpload, before: int, table: pa.Table, first: int) -> Iterator[pa.RecordBatch]:
        return batches_of(list(self._with_lineage(Span(table, [0], [table.num_rows], [()]), [item], before + first)))

    def _read(
        self,
        items: Sequence[tuple[int, OwnedUpload]],
        decode_all: DecodeAll,
        decode: Decode,
        report: Callable[[int, Read], None],
    ) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        size = 0
        for portion in self._portions(items):
            found: list[tuple[int, OwnedUpload, bytes]] = []
            larger: list[Received] = []
            for position, item, body in portion:
                judged = self._judged(item.upload, body)
                if isinstance(judged, Read):
                    report(position, judged)
                elif isinstance(judged, Larger):
                    larger.append((position, item, body))
                else:
                    found.append((position, item, judged))
            for decoded in decode_all([(item.upload.key, body) for _, item, body in found]):
                larger += [found[number] for number in decoded.larger]
                for number, refused in decoded.refused.items():
                    report(found[number][0], Read(Outcome.QUARANTINED, 0, refused.reason, where=refused.where))
                for span in decoded.spans:
                    bad = len(said_of(span.table).bad)
                    for number, count, unknown in zip(span.files, span.counts, span.unknown, strict=True):
                        report(found[number][0], Read(Outcome.COMMITTED, count, rejected=bad, unknown=unknown))
                    for table in self._with_lineage(span, [found[number][1] for number in span.files]):
                        waiting.append(table)
                        size += table.nbytes
                        if size >= EMIT_BYTES:
                            yield from batches_of(waiting)
                            waiting, size = [], 0
            for position, item, body in larger:
                yield from batches_of(waiting)
                waiting, size = [], 0
                yield from self._streamed(item, body, decode, partial(report, position))
        yield from batches_of(waiting)

    def _portions(self, items: Sequence[tuple[int, OwnedUpload]]) -> Iterator[list[Received]]:
        """The items in order, each with its bytes, so many at once that decoding them together is cheap."""
        portion: list[Received] = []
        size = 0
        for fetched in self._fetch_ahead(items):
            portion.append(fetched)
            size += fetched[1].upload.size
            if size >= JOINED_BYTES:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion

    def _fetch_ahead(self, items: Sequence[tuple[int, OwnedUpload]]) -> Iterator[Received]:
        """The items in order, each with its bytes."""
        whole = min(self.dataset.max_object_bytes, STORED_BYTES)
        asked = fetch_unless_deleted if self.dataset.removes else fetch
        return fetched_ahead(items, lambda upload: asked(upload, whole, self.owner))

    def _streamed(
        self, item: OwnedUpload, body: Fetched, decode: Decode, report: Callable[[Read], None]
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a file that is decoded piece by piece. It was fetched whole only if it is small as stored."""
        with self._source(item, body) as source:
            yield from streamed(decode.streamed(item.upload.key, source), partial(self._emitted, item, 0), report)

    @contextmanager
    def _source(self, item: OwnedUpload, body: Fetched) -> Iterator[ByteSource]:
        with Ranges(item.upload, body.size, self.owner) if isinstance(body, TooLarge) else nullcontext() as ranges:
            yield ranges or HeldBytes(body if isinstance(body, bytes) else b"")

    def _judged(self, upload: Upload, body: Fetched) -> bytes | Read | Larger:
        """The bytes of a file that is decoded whole, or how it has ended."""
        limit = self.dataset.max_object_bytes
        if isinstance(body, Deleted) and self.dataset.removes:
            return Read(Outcome.COMMITTED, deletion=True)
        if isinstance(body, Missed):
            return Read(body.outcome, 0, body.reason)
        if isinstance(body, Unreadable):
            return Read(Outcome.QUARANTINED, 0, body.reason)
        if isinstance(body, Withheld):
            reason = f"S3 refused to hand it out, and handed out its neighbours: {body.reason}"
            return Read(Outcome.QUARANTINED, 0, reason, refused=True)
        if why := self._misplaced(upload):
            return Read(Outcome.QUARANTINED, 0, why)
        if isinstance(body, TooLarge):
            if body.size <= limit:
                return Larger()
            return Read(Outcome.QUARANTINED, 0, too_large(body.size, limit))
        return body

    def _misplaced(self, upload: Upload) -> str:
        """Why no row of an upload can be written: its key does not say what it has to; or a path would be too long,
        because a table may be partitioned by the lineage and by what is in the key. Empty if all is well."""
        fields = [each for each in self.dataset.partition_by if self.keys.pattern or "_source_uri" in each.lower()]
        try:
            told = self.keys.values(upload.key)
        except Undecodable as error:
            return str(error)
        found = misplaced(pa.table({**told, "_source_uri": pa.array([upload.uri])}), fields) if fields else None
        return found.why if found else ""

    def _with_lineage(self, span: Span, items: Sequence[OwnedUpload], before: int = 0) -> Iterator[pa.Table]:
        """The rows of a span with the lineage columns; `items` are its files. `before`: so many rows of the
        first file came before these. Rows that were left out keep their numbers. Only what has one file may have many
        rows: it comes in several tables."""
        # only a file that was decoded alone has bad rows, and then its rows count from its first
        places = places_of(span.table) + before
        if len(places) <= LINEAGE_ROWS or len(items) > 1:
            yield self._joined(span.table, span.counts, places, items)
            return
        for start in range(0, len(places), LINEAGE_ROWS):
            table = span.table.slice(start, LINEAGE_ROWS)
            yield self._joined(table, [table.num_rows], places[start : start + LINEAGE_ROWS], items)

    def _joined(
        self, table: pa.Table, of_each: Sequence[int], places: np.ndarray, items: Sequence[OwnedUpload]
    ) -> pa.Table:
        """`of_each` is how many rows each file has, `places` the numbers of the rows in the first file."""
        counts = np.asarray(of_each, np.int64)
        numbers = places
        if len(items) > 1:
            numbers = places - np.repeat(np.cumsum(counts) - counts, counts)
        each_row = encoded if self.encoded else for_each_row
        values = (
            each_row([item.upload.uri for item in items], counts),
            each_row([item.upload.version for item in items], counts),
            pa.array(numbers, pa.int64()),
            each_row([self.batch], np.array([len(numbers)])),
            pa.repeat(pa.scalar(self.ingested_at, LINEAGE.field("_ingested_at").type), len(numbers)),
        )
        if self.names is not None:
            self.names.note(table, of_text=FORMATS[self.dataset.format].is_text)
        if self.keys.names:
            of_each_file = [self.keys.values(item.upload.key) for item in items]
            file = pa.array(np.repeat(np.arange(len(items)), counts))
            told = {
                name: pa.concat_arrays([each[name] for each in of_each_file]).take(file) for name in self.keys.names
            }
            table = self.keys.joined(table, told)
        return pa.Table.from_arrays([*table.columns, *values], schema=self.emitted)
