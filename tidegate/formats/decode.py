"""The decoder for the files of a dataset.

A small file is decoded whole before any of its rows is emitted, so that a file that breaks in its last row leaves
nothing behind. A large one is decoded piece by piece, and its rows are emitted before its end is known: whoever stages
them takes them back if it is refused (docs/adr/0061). All ways take and refuse the same files. A bad file raises
`Undecodable`; any other error is a bug. `docs/formats.md` lists what is taken and what is refused.

The module of a format has these functions. It is imported here, so that a job imports only what its own files need.

    make_decoder(schema, max_bytes, **options)    for `decoder`
    make_streaming(schema, **options)             for `streaming`; and `make_streaming(schema, fits, **options)` for
                                                  `salvaging`, if its rows are text (`formats.text_files.TextDecoder`)
    make_piece(schema, max_bytes, **options)      for `divider`, if its files can be joined (`formats.pieces`)
    make_splitter(schema, **options)              for `splitter`, if its files can be split
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import pyarrow as pa

from tidegate.formats.added import AddedColumns
from tidegate.formats.columns import check_type
from tidegate.formats.pieces import Piece
from tidegate.formats.reasons import AnotherFormat, Oversized, Undecodable
from tidegate.formats.recognize import HEAD_BYTES, instead
from tidegate.formats.registry import (
    ENCODING,
    FORMATS,
    KEEP,
    REFUSE,
    REPORT,
    UNKNOWN,
    UTF_8,
    Format,
    share_of_bad_rows,
    unknown_of,
)
from tidegate.formats.salvage import Fits, all_fit, allowed, limited
from tidegate.formats.splits import Splitter
from tidegate.formats.streams import Stream, head_of
from tidegate.formats.unknown import beside, judge, known, own

REPORT_INSTEAD = 'set unknown = "report"'
OptionValues = Iterable[tuple[str, Any]]
Decoder = Callable[[bytes], pa.Table]
"""Raises Undecodable."""
Divider = Callable[[bytes], Piece | None]
StreamDecoder = Callable[[Stream], Iterator[pa.Table]]
"""The tables of a file, in order; some may have no rows. Raises Undecodable, also after some of them."""
SalvageDecoder = Callable[[Stream, int], Iterator[pa.Table]]
"""As a StreamDecoder, and the number of rows that the file has at the most."""


def decoder(format: str, schema: pa.Schema, options: OptionValues = (), *, max_bytes: int = 1 << 40) -> Decoder:
    """The decoder of files of `format` into tables of exactly `schema`.

    `max_bytes` limits a file's size in memory. Raises ValueError if no file, or none of this format, can hold such a
    column, and if an option or its value is not known.
    """
    if format not in FORMATS:
        raise ValueError(f"no decoder for format {format!r}")
    for field in schema:
        check_type(field.type)
    FORMATS[format].check_known(name for name, _ in options)
    making = _Making.of(format, schema, options)
    made = making.make("make_decoder", max_bytes)
    unknown = making.settled[UNKNOWN.name]
    narrow = making.with_unknown(REPORT).make("make_decoder", max_bytes) if unknown == KEEP else None

    def decode(body: bytes) -> pa.Table:
        try:
            table = made(body)
        except Oversized:
            raise
        except Undecodable as error:
            if other := making.another_format(body[:HEAD_BYTES]):
                raise other from error
            if narrow is not None and REPORT_INSTEAD not in str(error) and _lands(narrow, body):
                why = f"{error}. That is beyond the schema: {REPORT_INSTEAD}"
                raise Undecodable(why, row=error.row, where=error.where) from error
            raise
        return making.judged(table)

    return decode


def _lands(made: Decoder, body: bytes) -> bool:
    try:
        made(body)
    except Undecodable:
        return False
    return True


def divider(format: str, schema: pa.Schema, options: OptionValues = (), *, max_bytes: int = 1 << 40) -> Divider | None:
    """What makes a piece of a file for `decoder`; None if files of `format` cannot be joined."""
    found: Divider | None = _Making.of(format, schema, options).make("make_piece", max_bytes)
    return found


def streaming(format: str, schema: pa.Schema, options: OptionValues = ()) -> StreamDecoder:
    """The decoder of files of `format` that are decoded piece by piece.

    It takes and refuses the files that `decoder` takes and refuses, with the same rows and the same reasons; of a file
    with several faults it may name another one. Raises ValueError as `decoder` does.
    """
    making = _Making.of(format, schema, options)
    made = making.make("make_streaming")
    return lambda stream: making.told(stream, made(stream))


def salvaging(
    format: str, schema: pa.Schema, options: OptionValues = (), fits: Fits = all_fit
) -> SalvageDecoder | None:
    """As `streaming`, but rows that do not fit are left out, and said of the tables (`formats.salvage`). None if the
    options do not say that they are set aside. Raises ValueError as `decoder` does."""
    share = share_of_bad_rows(options)
    if share is None:
        return None
    making = _Making.of(format, schema, options)
    # a row with an unknown name is no bad row: the file is refused for it, or not
    looking = making.with_unknown(REPORT) if making.settled[UNKNOWN.name] == REFUSE else making
    made = looking.make("make_streaming", fits)
    # with so many bad rows it is refused, whatever the others are
    return lambda stream, rows: making.told(stream, limited(made(stream, allowed(rows, share)), share))


def splitter(format: str, schema: pa.Schema, options: OptionValues = ()) -> Splitter | None:
    """What splits large files of `format`; None if they are read by one task each. Raises ValueError as `decoder`
    does."""
    making = _Making.of(format, schema, options)
    made = making.make("make_splitter")
    return made and replace(made, tables=lambda stream, split: map(making.judged, made.tables(stream, split)))


@dataclass(frozen=True, slots=True)
class _Making:
    """How decoders of a format with these options are made."""

    format: Format
    settled: Mapping[str, Any]
    schema: pa.Schema
    """What the format's module makes tables of."""
    added: AddedColumns | None
    """What fills the columns beside the route's, if the module does not."""

    @staticmethod
    def of(format: str, schema: pa.Schema, options: OptionValues) -> "_Making":
        given = FORMATS[format]
        settled = given.settled(dict(options))
        added = AddedColumns.of(beside(schema), given, settled) if given.is_text and beside(schema) else None
        settled[UNKNOWN.name] = unknown_of(settled.items())
        return _Making(given, settled, own(schema) if added else schema, added)

    def with_unknown(self, unknown: str) -> "_Making":
        """For the route's own columns."""
        schema = known(self.schema, self.settled[UNKNOWN.name])
        return replace(self, settled={**self.settled, UNKNOWN.name: unknown}, schema=schema, added=None)

    def make(self, name: str, *arguments: Any) -> Any:
        """What the function of this name in the format's module makes; None if there is none."""
        make = getattr(import_module(self.format.module), name, None)
        return make and make(self.schema, *arguments, **self.format.for_modules(self.settled))

    def judged(self, table: pa.Table) -> pa.Table:
        judged = judge(self.settled[UNKNOWN.name])(table)
        return judged if self.added is None else self.added.filled(judged)

    def told(self, stream: Stream, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The tables of a file; if it is refused, and is of another format, it is called what it is."""
        try:
            yield from map(self.judged, tables)
        except Oversized:
            raise
        except Undecodable as error:
            if other := self.another_format(head_of(stream)):
                raise other from error
            raise

    def another_format(self, head: bytes) -> AnotherFormat | None:
        """What is wrong with a refused file that is of another format as a whole, so that no row of it is a bad
        one."""
        if other := instead(self.format.name, self.settled.get(ENCODING.name, UTF_8), head):
            return AnotherFormat(other)
        return None
