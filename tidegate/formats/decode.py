"""The decoder for the files of a dataset.

A small file is decoded whole before any of its rows is emitted, so that a file that breaks in its last row leaves
nothing behind. A large one is decoded piece by piece, and its rows are emitted before its end is known: whoever stages
them takes them back if it is refused (docs/adr/0061). Both ways take and refuse the same files. A bad file raises
`Undecodable`; any other error is a bug. `docs/formats.md` lists what is taken and what is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

import pyarrow as pa

from tidegate.formats.columns import check_type
from tidegate.formats.pieces import Piece
from tidegate.formats.reasons import AnotherFormat, Oversized, TooManyBad, Undecodable
from tidegate.formats.recognize import HEAD_BYTES, instead, is_json_array
from tidegate.formats.registry import ENCODING, FORMATS, REFUSE, REPORT, UNKNOWN, UTF_8, share_of_bad_rows
from tidegate.formats.salvage import Fits, all_fit, allowed, limited
from tidegate.formats.splits import Splitter
from tidegate.formats.streams import Stream, head_of
from tidegate.formats.unknown import Judging, judge

Decoder = Callable[[bytes], pa.Table]
"""Raises Undecodable."""
Divider = Callable[[bytes], Piece | None]
StreamDecoder = Callable[[Stream], Iterator[pa.Table]]
"""The tables of a file, in order; some may have no rows. Raises Undecodable, also after some of them."""


def decoder(
    format: str, schema: pa.Schema, options: Iterable[tuple[str, Any]] = (), *, max_bytes: int = 1 << 40
) -> Decoder:
    """The decoder of files of `format` into tables of exactly `schema`.

    `max_bytes` limits a file's size in memory. Raises ValueError if no file, or none of this format, can hold such a
    column, and if an option or its value is not known.

    The format's module has `make_decoder(schema, max_bytes, **options)`. It is imported here, so that a job imports
    only what its own files need.
    """
    if format not in FORMATS:
        raise ValueError(f"no decoder for format {format!r}")
    for field in schema:
        check_type(field.type)
    found = FORMATS[format]
    found.check_known(name for name, _ in options)
    settled = found.settled(dict(options))
    made: Decoder = import_module(found.module).make_decoder(schema, max_bytes, **found.for_modules(settled))
    judged = judge(settled[UNKNOWN.name])

    def decode(body: bytes) -> pa.Table:
        try:
            table = made(body)
        except Oversized:
            raise
        except Undecodable as error:
            if other := _another_format(format, settled, body[:HEAD_BYTES], error):
                raise other from error
            raise
        return judged(table)

    return decode


def divider(
    format: str, schema: pa.Schema, options: Iterable[tuple[str, Any]] = (), *, max_bytes: int = 1 << 40
) -> Divider | None:
    """What makes a piece of a file for `decoder` (see `tidegate.formats.pieces`); None if files of `format` cannot be
    joined."""
    found = FORMATS[format]
    make = getattr(import_module(found.module), "make_piece", None)
    made: Divider | None = make and make(schema, max_bytes, **found.for_modules(found.settled(dict(options))))
    return made


def streaming(format: str, schema: pa.Schema, options: Iterable[tuple[str, Any]] = ()) -> StreamDecoder | None:
    """The decoder of files of `format` that are decoded piece by piece; None if the format has none.

    It takes and refuses the files that `decoder` takes and refuses, with the same rows and the same reasons; of a file
    with several faults it may name another one. The module of the format's `stream` has
    `make_streaming(schema, **options)`. Raises ValueError as `decoder` does.
    """
    found = FORMATS[format]
    if not found.stream:
        return None
    settled = found.settled(dict(options))
    made: StreamDecoder = import_module(found.stream).make_streaming(schema, **found.for_modules(settled))
    judged = judge(settled[UNKNOWN.name])

    return lambda stream: map(judged, _telling(format, settled, stream, made(stream)))


def _telling(format: str, settled: Mapping[str, Any], stream: Stream, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The tables of a file; if it is refused, and is of another format, it is called what it is."""
    try:
        yield from tables
    except Oversized:
        raise
    except Undecodable as error:
        if other := _another_format(format, settled, head_of(stream), error):
            raise other from error
        raise


def _another_format(format: str, settled: Mapping[str, Any], head: bytes, error: Undecodable) -> AnotherFormat | None:
    """What is wrong with a refused file that is of another format as a whole, so that no row of it is a bad one."""
    if other := instead(format, settled.get(ENCODING.name, UTF_8), head):
        return AnotherFormat(other)
    if format == "json" and is_json_array(head):
        said = error.first if isinstance(error, TooManyBad) else str(error)
        return AnotherFormat(said, row=error.row, where=error.where)
    return None


SalvageDecoder = Callable[[Stream, int], Iterator[pa.Table]]
"""As a StreamDecoder, and the number of rows that the file has at the most."""


def salvaging(
    format: str, schema: pa.Schema, options: Iterable[tuple[str, Any]] = (), fits: Fits = all_fit
) -> SalvageDecoder | None:
    """As `streaming`, but rows that do not fit are left out, and said of the tables (`formats.salvage`). None if the
    options do not say that they are set aside. Raises ValueError as `decoder` does."""
    share = share_of_bad_rows(options)
    if share is None:
        return None
    found = FORMATS[format]
    settled = found.settled(dict(options))
    # a row with an unknown name is no bad row: the file is refused for it, or not
    looks = {**settled, UNKNOWN.name: REPORT if settled[UNKNOWN.name] == REFUSE else settled[UNKNOWN.name]}
    made: SalvageDecoder = import_module(found.stream).make_salvaging(schema, fits, **found.for_modules(looks))
    judged = judge(settled[UNKNOWN.name])

    def decode(stream: Stream, rows: int) -> Iterator[pa.Table]:
        # with so many bad rows it is refused, whatever the others are
        tables = limited(made(stream, allowed(rows, share)), share)
        return map(judged, _telling(format, settled, stream, tables))

    return decode


def splitter(format: str, schema: pa.Schema, options: Iterable[tuple[str, Any]] = ()) -> Splitter | None:
    """What splits large files of `format`; None if they are read by one task each. The module of the format's `splits`
    has `make_splitter(schema, **options)`. Raises ValueError as `decoder` does."""
    found = FORMATS[format]
    if not found.splits:
        return None
    settled = found.settled(dict(options))
    made: Splitter | None = import_module(found.splits).make_splitter(schema, **found.for_modules(settled))
    return made and Judging(made, judge(settled[UNKNOWN.name]))
