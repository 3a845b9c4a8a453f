"""One file's bytes become a table, or tables, or the reason why not."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol, TypeVar

import pyarrow as pa

from tidegate.core.quantities import counted
from tidegate.core.routes import Dataset
from tidegate.formats.decode import Decoder, SalvageDecoder, StreamDecoder, decoder, salvaging, splitter, streaming
from tidegate.formats.from_key import KeyColumns
from tidegate.formats.paths import misplaced, unplaceable
from tidegate.formats.reasons import AnotherFormat, Oversized, TooManyBad, Undecodable, first_line
from tidegate.formats.records import ends_of_lines
from tidegate.formats.registry import BAD_ROWS_SHARE, FORMATS, FROM_KEY, USUAL_SHARE, unknown_of
from tidegate.formats.said import concat, said_of
from tidegate.formats.salvage import NoneLeft, allowed, rows_with_bad
from tidegate.formats.splits import Split, Splitter
from tidegate.formats.streams import WHOLE_BYTES, Allowance, ByteSource, HeldBytes, Stream
from tidegate.formats.unknown import known
from tidegate.reading.decompress import codec_of, decompress
from tidegate.reading.sources import Watched

T = TypeVar("T")
MOST_TOLD = 5
"""So many bad rows are called few, if they are no more than `bad_rows_share` lets through by default."""
MOST_ROWS = 1 << 62
"""Of a file of which it is not known how many it has."""

log = logging.getLogger("tidegate.reading")


@dataclass(frozen=True, slots=True)
class Refused:
    """The file cannot become rows. The reason is for its owner, and so is `where` in the file it is (`formats.places`):
    it quotes the file, so it is never logged."""

    reason: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Larger:
    """The file is too large to be decoded whole: it is to be decoded piece by piece (`Decode.streamed`)."""


class Decode(Protocol):
    """How files are decoded. Other files must land, whatever one contains."""

    def __call__(self, key: str, body: bytes) -> pa.Table | Refused | Larger:
        """The table in a file of this key and these bytes. Raises MemoryError, and nothing else."""
        ...

    def streamed(self, key: str, source: ByteSource) -> Iterator[pa.Table]:
        """The tables in a file that is decoded piece by piece, in order. Raises Undecodable, also after some of them:
        then none of its rows may land. Raises MemoryError, and whatever `source` raises."""
        ...


@dataclass(frozen=True)
class Decoding:
    """How the files of a dataset are decoded. It is sent to other processes, so it has plain values only."""

    dataset: Dataset
    schema: pa.Schema

    def prepare(self) -> None:
        """Import and make the decoders, so that the first file does not wait for that. Arrow imports pandas with the
        first values that it converts."""
        _ = self._decode, self._stream, self._salvage
        pa.array([""])

    @cached_property
    def keys(self) -> KeyColumns:
        return KeyColumns(str(dict(self.dataset.options).get(FROM_KEY.name, FROM_KEY.default)), self.schema)

    @cached_property
    def of_file(self) -> pa.Schema:
        """What becomes of a file by itself: without the columns that are in its key."""
        return self.keys.of_file

    @property
    def known(self) -> list[str]:
        """The columns of the route's own schema that are in files: without what is kept of a row beyond it."""
        return list(known(self.of_file, unknown_of(self.dataset.options)).names)

    @property
    def whole_bytes(self) -> int:
        """How many bytes a file may have, or become, that is decoded whole."""
        return min(self.dataset.max_object_bytes, WHOLE_BYTES)

    def __call__(self, key: str, body: bytes) -> pa.Table | Refused | Larger:
        unpacked = self.unpack(key, body)
        return self.decode(key, unpacked) if isinstance(unpacked, bytes) else unpacked

    def unpack(self, key: str, body: bytes) -> bytes | Refused | Larger:
        """The file without the compression that its key names. Raises as `__call__` does."""
        return self._judged(key, lambda: decompress(key, body, self.whole_bytes))

    def decode(self, key: str, unpacked: bytes) -> pa.Table | Refused | Larger:
        """The table in an unpacked file. Raises as `__call__` does."""

        def placed() -> pa.Table:
            try:
                table = self._decode(unpacked)
                if why := self.unplaceable(table):
                    raise Undecodable(why)
                return table
            except Undecodable as refused:
                if isinstance(refused, Oversized | AnotherFormat):
                    raise
                if self._salvage is None:
                    raise self._advised(unpacked, refused) from None
                return self._salvaged(self._salvage, unpacked, refused)

        return self._judged(key, placed)

    def _salvaged(self, salvage: SalvageDecoder, unpacked: bytes, refused: Undecodable) -> pa.Table:
        """The rows of a refused file that fit, if so few do not that they are set aside. Raises Undecodable."""
        try:
            return concat(list(salvage(self._held(unpacked), ends_of_lines(unpacked) + 1)))
        except NoneLeft:
            raise refused from None
        except (Oversized, TooManyBad):
            raise
        except Undecodable:
            # of the file as a whole, the strict decoder says it better
            raise refused from None

    def _advised(self, unpacked: bytes, refused: Undecodable) -> Undecodable:
        """The same, and that few rows are bad, if they are: who has read of one is inclined to change the schema for
        it. It costs a few decodings of the file (`MOST_TOLD`)."""
        given, lines = self.dataset, ends_of_lines(unpacked) + 1
        others = {**dict(given.options), BAD_ROWS_SHARE.name: USUAL_SHARE}
        if not FORMATS[given.format].is_text or not allowed(lines, USUAL_SHARE):
            return refused
        salvage = salvaging(given.format, self.of_file, tuple(others.items()))
        assert salvage is not None
        try:
            tables = list(salvage(self._held(unpacked), min(lines, MOST_TOLD * 100)))
        except Undecodable:
            return refused
        bad, rows = sum(len(said_of(each).bad) for each in tables), sum(map(rows_with_bad, tables))
        few = f"Of {counted(rows, 'row')}, {bad} {'does' if bad == 1 else 'do'} not fit"
        advice = f"{few}: {BAD_ROWS_SHARE.name} = {USUAL_SHARE} of the route lands the others"
        return Undecodable(f"{refused}. {advice}", row=refused.row, where=refused.where) if bad else refused

    def _held(self, unpacked: bytes) -> Stream:
        return Stream(HeldBytes(unpacked), None, Allowance(self.whole_bytes, "max_object_bytes"))

    def _judged(self, key: str, read: Callable[[], T]) -> T | Refused | Larger:
        """What `read` returns; whatever it raises refuses the file, or has it decoded piece by piece. MemoryError
        passes."""
        try:
            return read()
        except Undecodable as error:
            if isinstance(error, Oversized) and self.whole_bytes < self.dataset.max_object_bytes:
                return Larger()
            return Refused(str(error), error.where)
        except MemoryError:
            # perhaps not the fault of the file: another worker, or the next attempt, may have the memory
            raise
        except Exception as error:
            return Refused(_bug(key, error))

    def unplaceable(self, table: pa.Table) -> str:
        """Why a row cannot be written under a path; empty if all can."""
        return unplaceable(table, self.dataset.partition_by)

    def streamed(self, key: str, source: ByteSource) -> Iterator[pa.Table]:
        allowance = Allowance.of(source.size, self.dataset.max_object_bytes)
        salvage = self._salvage
        decode = self._stream if salvage is None else lambda stream: salvage(stream, MOST_ROWS)
        yield from self._tables(key, source, decode, allowance)

    @cached_property
    def splitter(self) -> Splitter | None:
        """None also if bad rows are set aside: how many of a file's are bad is known of the whole of it."""
        given = self.dataset
        if self._salvage is not None:
            return None
        return splitter(given.format, self.of_file, given.options)

    def splits(self, key: str) -> bool:
        """Whether a large file of this key can be split."""
        return self.splitter is not None and codec_of(key) is None

    def split(self, key: str, source: ByteSource, split: Split) -> Iterator[pa.Table]:
        """The tables of a split of a file, as `streamed`. A file that is refused as a whole has a split that is."""
        assert self.splitter is not None
        # the parts of the allowance are together no more than the whole
        whole = Allowance.of(source.size, self.dataset.max_object_bytes)
        allowance = replace(whole, limit=whole.limit // split.of)
        rows = 0
        for table in self._tables(key, source, partial(self.splitter.tables, split=split), allowance):
            rows += table.num_rows
            yield table
        if rows != split.rows:
            raise Undecodable(f"a split has {rows} rows, and {split.rows} were counted")

    def _tables(self, key: str, source: ByteSource, decode: StreamDecoder, allowance: Allowance) -> Iterator[pa.Table]:
        watched = Watched(source)
        stream = Stream(watched, codec_of(key), allowance)
        rows = 0
        try:
            for table in decode(stream):
                if unplaced := unplaceable(table, self.dataset.partition_by, rows):
                    raise Undecodable(unplaced)
                rows += rows_with_bad(table)
                yield table
        except Exception as error:
            if watched.failed is not None:
                raise watched.failed from error
            if isinstance(error, Undecodable | MemoryError):
                raise
            raise Undecodable(_bug(key, error)) from error
        if watched.failed is not None:
            raise watched.failed

    @cached_property
    def _decode(self) -> Decoder:
        given = self.dataset
        return decoder(given.format, self.of_file, given.options, max_bytes=self.whole_bytes)

    @cached_property
    def _stream(self) -> StreamDecoder:
        return streaming(self.dataset.format, self.of_file, self.dataset.options)

    @cached_property
    def _salvage(self) -> SalvageDecoder | None:
        return salvaging(self.dataset.format, self.of_file, self.dataset.options, self._require_places)

    def _require_places(self, table: pa.Table) -> None:
        """Raises Undecodable for the first row that cannot be written under a path. It names none: whoever asks has the
        row of the file."""
        if found := misplaced(table, self.dataset.partition_by):
            raise Undecodable(found.why, row=found.row)


def _bug(key: str, error: Exception) -> str:
    log.exception("decoding %s failed", key)
    return f"the decoder failed, which is a bug of the decoder: {type(error).__name__}: {first_line(error)}"
