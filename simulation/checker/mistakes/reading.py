"""Mistakes in reading the claimed uploads."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute

from simulation.checker.planting import Bug, Planting, Strike, but, replaced, rewired
from simulation.world.faults import Kind
from tidegate.core.outcomes import Outcome
from tidegate.formats.reasons import Undecodable
from tidegate.reading.fetch import Missed, Withheld

FETCH = "tidegate.reading.fetch:fetch"
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
        return GONE if isinstance(found, Withheld) else found

    return fetch


def _column(name: str, change: Callable[[Any], Any]) -> Planting:
    """Changes one column of the rows' lineage."""

    def make(real: Any) -> Any:
        def with_lineage(reader: Any, span: Any, items: Any) -> Any:
            rows = real(reader, span, items)
            position = rows.schema.get_field_index(name)
            return rows.set_column(position, rows.schema.field(position), change(rows.column(position)))

        return with_lineage

    return replaced("tidegate.reading.reader:Reader._with_lineage", make)


def _whole(change: Callable[[Any], Any]) -> Planting:
    """Changes the decoded rows of a whole file."""

    def make(real: Any) -> Any:
        def decoder(*arguments: Any, **options: Any) -> Any:
            decode = real(*arguments, **options)
            return lambda body: change(decode(body))

        return decoder

    return replaced("tidegate.formats.decode:decoder", make)


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
        "the current object of the key",
        "The object is read by its key, without the claimed version or ETag.",
        (
            rewired("s3", "GetObject", _whatever_is_there),
            replaced("tidegate.reading.fetch:_store", _whatever_obstore_finds),
        ),
        "outcomes",
    ),
    Bug(
        "the good rows of a bad file",
        "A file that breaks in its second row leaves its first one in the table.",
        (replaced("tidegate.formats.decode:decoder", _good_rows),),
        "outcomes",
    ),
    Bug(
        "any error means gone",
        "Any error while a file is read counts as vanished.",
        (replaced(FETCH, _any_error),),
        strikes=(Strike("driver s3.GetObject upload", Kind.MUTE),),
    ),
    Bug(
        "forbidden means gone",
        "A file that S3 refuses counts as vanished.",
        (replaced(FETCH, _forbidden),),
        "refused_for_a_while",
    ),
    Bug(
        "rows counted from one",
        "The lineage numbers a file's rows one too high.",
        (_column("_source_row", lambda column: pa.compute.add(column, 1)),),
    ),
    Bug(
        "the lineage without its version",
        "The lineage has `null` in place of the upload's version.",
        (_column("_source_version", lambda column: pa.array(["null"] * len(column))),),
    ),
    Bug(
        "the lineage says an encoded key",
        "The lineage has the encoded key.",
        (_column("_source_uri", lambda column: pa.array([quote(each.as_py(), safe=":/") for each in column])),),
    ),
    Bug(
        "the last row is left out",
        "The last row of each file is dropped.",
        (_whole(lambda table: table.slice(0, table.num_rows - 1)),),
    ),
    Bug(
        "the neighbour's value",
        "Each row has the value of the one below it.",
        (_whole(_neighbours),),
    ),
    Bug(
        "a last line that is not ended",
        "The text after a file's last line break is dropped.",
        (replaced("tidegate.reading.decompress:decompress", _unfinished_line),),
        "unended",
    ),
)
