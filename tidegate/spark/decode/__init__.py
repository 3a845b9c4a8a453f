"""One file's bytes become one Arrow table, or a reason why not. Pure: no network, no Spark.

A file is decoded whole before any of its rows is emitted, so that a file that breaks in its last row leaves nothing
behind. Every way in which a file can be bad ends in `Undecodable`; anything else that is raised is a bug.
`docs/formats.md` says what is taken and what is refused.
"""

from collections.abc import Callable

import pyarrow as pa

from tidegate.spark.decode.columns import check_type
from tidegate.spark.decode.delimited import delimited_decoder
from tidegate.spark.decode.json_lines import json_decoder
from tidegate.spark.decode.parquet import parquet_decoder
from tidegate.spark.decode.paths import unplaceable
from tidegate.spark.decode.reasons import Undecodable, first_line

__all__ = ["Decoder", "Undecodable", "decoder", "decompress", "first_line", "unplaceable"]

CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
CHUNK = 1 << 20

Decoder = Callable[[bytes], pa.Table]


def decoder(format: str, schema: pa.Schema, *, delimiter: str = ",", max_bytes: int = 1 << 40) -> Decoder:
    """What decodes files of `format` (json, csv, parquet) into tables of exactly `schema`.

    `max_bytes` bounds what a file may become in memory. Raises ValueError if no file, or none of this format, can hold
    such a column.
    """
    for field in schema:
        check_type(field.type)
    if format == "json":
        return json_decoder(schema, max_bytes)
    if format == "csv":
        return delimited_decoder(schema, delimiter, max_bytes)
    if format == "parquet":
        return parquet_decoder(schema, max_bytes)
    raise ValueError(f"no decoder for format {format!r}")


def decompress(key: str, body: bytes, max_bytes: int) -> bytes:
    """`body` without the compression that the key's suffix names. Raises Undecodable, also past `max_bytes`."""
    codec = next((name for suffix, name in CODECS.items() if key.endswith(suffix)), None)
    if codec is None or not body:
        return body
    pieces: list[bytes] = []
    size = 0
    try:
        # Arrow notices a stream that stops early in all three formats, and reads concatenated ones to their end
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            while piece := stream.read(CHUNK):
                size += len(piece)
                if size > max_bytes:
                    raise Undecodable(f"too large: more than {max_bytes} bytes decompressed (max_object_bytes)")
                pieces.append(piece)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, EOFError) as error:
        raise Undecodable(f"broken {codec}: {first_line(error)}") from error
    return b"".join(pieces)
