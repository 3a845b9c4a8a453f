"""Mistakes in reading what was claimed."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute

from tests.sim.faults import Kind
from tests.sim.planting import Bug, Planting, Strike, but, replaced, rewired
from tidegate.core.outcomes import Outcome
from tidegate.spark.decode import Undecodable
from tidegate.spark.fetch import Missed, Refused

FETCH = "tidegate.spark.fetch:fetch"
GONE = Missed(Outcome.VANISHED, "gone")


def _whatever_is_there(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name not in ("VersionId", "IfMatch")}


def _whatever_obstore_finds(real: Any) -> Any:
    def store(*arguments: Any) -> Any:
        found = real(*arguments)
        return but(found, get=lambda key, options: found.get(key, options={}))

    return store


def _good_rows(real: Any) -> Any:
    def decoder(*arguments: Any, **options: Any) -> Any:
        whole = real(*arguments, **options)

        def decode(body: bytes) -> Any:
            lines = body.splitlines(keepends=True)
            while True:
                try:
                    return whole(b"".join(lines))
                except Undecodable:
                    if not lines:
                        raise
                    lines.pop()

        return decode

    return decoder


def _any_error(real: Any) -> Any:
    def fetch(*arguments: Any) -> Any:
        try:
            return real(*arguments)
        except Exception:
            return GONE

    return fetch


def _forbidden(real: Any) -> Any:
    def fetch(*arguments: Any) -> Any:
        found = real(*arguments)
        return GONE if isinstance(found, Refused) else found

    return fetch


def _column(name: str, change: Callable[[Any], Any]) -> Planting:
    """What the rows say in one column of their lineage."""

    def make(real: Any) -> Any:
        def with_lineage(reader: Any, table: Any, item: Any) -> Any:
            rows = real(reader, table, item)
            position = rows.schema.get_field_index(name)
            return rows.set_column(position, rows.schema.field(position), change(rows.column(position)))

        return with_lineage

    return replaced("tidegate.spark.read:Reader._with_lineage", make)


def _whole(change: Callable[[Any], Any]) -> Planting:
    """What a decoder makes of a whole file."""

    def make(real: Any) -> Any:
        def decoder(*arguments: Any, **options: Any) -> Any:
            decode = real(*arguments, **options)
            return lambda body: change(decode(body))

        return decoder

    return replaced("tidegate.spark.decode:decoder", make)


def _unfinished_line(real: Any) -> Any:
    def decompress(*arguments: Any) -> bytes:
        body: bytes = real(*arguments)
        return body[: body.rfind(b"\n") + 1]

    return decompress


def _neighbours(table: Any) -> Any:
    turned = list(range(1, table.num_rows)) + [0][: table.num_rows]
    return table.set_column(0, table.schema.field(0), table.column(0).take(pa.array(turned, pa.int64())))


BUGS = (
    Bug(
        "whatever the key holds now",
        "The object is read by its key, without the version or the ETag that was claimed.",
        (
            rewired("s3", "GetObject", _whatever_is_there),
            replaced("tidegate.spark.fetch:_store", _whatever_obstore_finds),
        ),
        "outcomes",
    ),
    Bug(
        "the good rows of a bad file",
        "A file that breaks in its second row leaves its first one in the table.",
        (replaced("tidegate.spark.decode:decoder", _good_rows),),
        "outcomes",
    ),
    Bug(
        "any error means gone",
        "Whatever keeps a file from being read is taken for its being gone.",
        (replaced(FETCH, _any_error),),
        strikes=(Strike("driver s3.GetObject upload", Kind.MUTE),),
    ),
    Bug(
        "forbidden means gone",
        "That S3 will not hand a file out is taken for its being gone.",
        (replaced(FETCH, _forbidden),),
        "refused_for_a_while",
    ),
    Bug(
        "rows counted from one",
        "The lineage of a file's first row says that it is the second.",
        (_column("_source_row", lambda column: pa.compute.add(column, 1)),),
    ),
    Bug(
        "the lineage without its version",
        "The lineage says `null` where the version of the upload belongs.",
        (_column("_source_version", lambda column: pa.array(["null"] * len(column))),),
    ),
    Bug(
        "the lineage says an encoded key",
        "The key is encoded in what the rows say of where they come from.",
        (_column("_source_uri", lambda column: pa.array([quote(each.as_py(), safe=":/") for each in column])),),
    ),
    Bug(
        "the last row is left out",
        "Of each file all rows but the last one are taken.",
        (_whole(lambda table: table.slice(0, table.num_rows - 1)),),
    ),
    Bug(
        "the neighbour's value",
        "Each row has the value of the one below it.",
        (_whole(_neighbours),),
    ),
    Bug(
        "a last line that is not ended",
        "What comes after a file's last line break is left out.",
        (replaced("tidegate.spark.decode:decompress", _unfinished_line),),
        "unended",
    ),
)
