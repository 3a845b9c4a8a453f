"""The decoder for the files of a dataset.

A file is decoded whole before any of its rows is emitted, so that a file that breaks in its last row leaves nothing
behind. A bad file raises `Undecodable`; any other error is a bug. `docs/formats.md` lists what is taken and what is
refused.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import pyarrow as pa

from tidegate.formats.columns import check_type
from tidegate.formats.registry import FORMATS

Decoder = Callable[[bytes], pa.Table]
"""Raises Undecodable."""


def decoder(
    format: str, schema: pa.Schema, options: Iterable[tuple[str, Any]] = (), *, max_bytes: int = 1 << 40
) -> Decoder:
    """The decoder of files of `format` into tables of exactly `schema`.

    `max_bytes` limits a file's size in memory. Raises ValueError if no file, or none of this format, can hold such a
    column, and if the value of an option is not allowed.

    The format's module has `make_decoder(schema, max_bytes, **options)`. It is imported here, so that a job imports
    only what its own files need.
    """
    if format not in FORMATS:
        raise ValueError(f"no decoder for format {format!r}")
    for field in schema:
        check_type(field.type)
    found = FORMATS[format]
    made: Decoder = import_module(found.module).make_decoder(schema, max_bytes, **found.settled(dict(options)))
    return made
