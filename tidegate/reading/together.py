"""Many files in one call: small files of text are joined, and decoded as one file.

Decoding a file of 2 KB takes longer for the call than for the bytes. So the pieces of many files (`formats.pieces`) are
joined and decoded by the decoder of one file, which is as strict as ever. The result must not show it: the same rows,
the same refusals in the same words, as if each file was decoded alone.

- **The rows.** A piece ends with the end of a line, outside of quotes. Each row is read without regard to the others.
- **Which row is of which file.** A piece says how many rows it has, and the sum must be what was decoded.
- **A file that is refused.** If the joined text is refused, its files are decoded in halves, each half in halves again,
  down to one file. A file alone goes the strict way, which says what is wrong with it, and where.
- **A file that would be refused, and is not.** Only checks of a file as a whole can do that. Its size: a piece is made
  only if the file would pass. Its columns: a file whose values are all null is decoded alone, because it may have no
  column of the schema.
- **Which file has which unknown names.** The decoder says which rows have a name that the schema lacks.
- **A file that is odd.** It is no piece, and is decoded alone. So is a file of another format, and a large one.

A bad file among n costs some log n calls more, and its neighbours are read again with it. Careful mode
(`reading.careful`) decodes each file alone.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.unknown import few
from tidegate.formats.decode import Decoder, Divider, decoder, divider
from tidegate.formats.pieces import Piece
from tidegate.formats.unknown import names_by_file, names_of
from tidegate.reading.decoding import Decode, Decoding, Larger, Refused

log = logging.getLogger("tidegate.reading")

PIECE_BYTES = 256_000
"""Larger files are decoded alone: for them the call is cheap."""
JOINED_BYTES = 2_000_000

File = tuple[str, bytes]
"""A key, and the bytes under it."""


@dataclass(frozen=True, slots=True)
class Span:
    """Rows of some files: `table` has `counts[i]` rows of file `files[i]`, one file after the other. `unknown[i]` are
    the names in that file which the schema lacks."""

    table: pa.Table
    files: Sequence[int]
    counts: Sequence[int]
    unknown: Sequence[tuple[str, ...]]


@dataclass(slots=True)
class Decoded:
    """What became of some files, by their places in the sequence that was given: each has rows, or is refused, or is
    too large to be decoded whole."""

    spans: list[Span] = field(default_factory=list)
    refused: dict[int, Refused] = field(default_factory=dict)
    larger: list[int] = field(default_factory=list)

    @staticmethod
    def alone(file: int, result: pa.Table | Refused | Larger) -> "Decoded":
        if isinstance(result, Refused):
            return Decoded(refused={file: result})
        if isinstance(result, Larger):
            return Decoded(larger=[file])
        return Decoded(spans=[Span(result, [file], [result.num_rows], [few(names_of(result))])])


DecodeAll = Callable[[Sequence[File]], Iterator[Decoded]]
"""What became of files, portion by portion: a small file as stored may become 128 MB, and they are not all held."""


def one_by_one(decode: Decode) -> DecodeAll:
    """Each file alone."""

    def decode_all(files: Sequence[File]) -> Iterator[Decoded]:
        for number, (key, body) in enumerate(files):
            yield Decoded.alone(number, decode(key, body))

    return decode_all


@dataclass(frozen=True, slots=True)
class _Small:
    """A file that can be joined: its place, its key, its unpacked bytes, and its piece."""

    number: int
    key: str
    unpacked: bytes
    piece: Piece


@dataclass(frozen=True)
class Together:
    """Decodes as `decoding` does, with fewer calls."""

    decoding: Decoding

    def __call__(self, files: Sequence[File]) -> Iterator[Decoded]:
        """Raises MemoryError, and nothing else."""
        waiting: dict[bytes, list[_Small]] = {}
        size = 0
        for number, (key, body) in enumerate(files):
            unpacked = self.decoding.unpack(key, body)
            if not isinstance(unpacked, bytes):
                yield Decoded.alone(number, unpacked)
            elif piece := self._piece(unpacked):
                waiting.setdefault(piece.head, []).append(_Small(number, key, unpacked, piece))
                size += len(unpacked)
                if size >= JOINED_BYTES:
                    yield from self._joined_by_head(waiting)
                    waiting, size = {}, 0
            else:
                yield Decoded.alone(number, self.decoding.decode(key, unpacked))
        yield from self._joined_by_head(waiting)

    def _joined_by_head(self, waiting: Mapping[bytes, Sequence[_Small]]) -> Iterator[Decoded]:
        for group in waiting.values():
            yield from self._decode(group)

    def _decode(self, group: Sequence[_Small]) -> Iterator[Decoded]:
        if len(group) == 1:
            yield Decoded.alone(group[0].number, self.decoding.decode(group[0].key, group[0].unpacked))
        elif (joined := self._table([each.piece for each in group])) is not None:
            table, unknown = joined
            counts = [each.piece.rows for each in group]
            yield Decoded([Span(table, [each.number for each in group], counts, unknown)])
        else:
            middle = len(group) // 2
            yield from self._decode(group[:middle])
            yield from self._decode(group[middle:])

    def _table(self, pieces: Sequence[Piece]) -> tuple[pa.Table, list[tuple[str, ...]]] | None:
        """The rows of all pieces, and the unknown names of each; None if one of them may be refused, or cannot be told
        from its neighbours."""
        try:
            table = self._joined(pieces[0].head + b"".join(piece.text for piece in pieces))
            counts = [piece.rows for piece in pieces]
            if table.num_rows != sum(counts) or self.decoding.unplaceable(table):
                return None
            if not _all_null(table.select(self.decoding.known), counts):
                unknown = names_by_file(table, counts)
                return None if unknown is None else (table, list(map(few, unknown)))
        except MemoryError:
            raise
        except Exception:  # each file alone raises it again, and is refused for it
            return None
        return None

    def _piece(self, unpacked: bytes) -> Piece | None:
        if self._divide is None or len(unpacked) > PIECE_BYTES:
            return None
        try:
            return self._divide(unpacked)
        except MemoryError:
            raise
        except Exception:
            log.exception("a file of %d bytes could not be made a piece", len(unpacked))
            return None

    @cached_property
    def _divide(self) -> Divider | None:
        given = self.decoding.dataset
        return divider(given.format, self.decoding.of_file, given.options, max_bytes=self.decoding.whole_bytes)

    @cached_property
    def _joined(self) -> Decoder:
        given = self.decoding.dataset
        return decoder(given.format, self.decoding.of_file, given.options)


def _all_null(table: pa.Table, counts: Sequence[int]) -> bool:
    """Whether one of the files has rows, and no value in any of them."""
    if any(not column.null_count for column in table.columns):
        return False
    empty = np.ones(table.num_rows, bool)
    for column in table.columns:
        empty &= pc.is_null(column).to_numpy(zero_copy_only=False)
    ends = np.cumsum([0, *counts])
    before = np.concatenate([[0], np.cumsum(empty)])[ends]
    return bool(((np.diff(before) == counts) & (np.asarray(counts) > 0)).any())
