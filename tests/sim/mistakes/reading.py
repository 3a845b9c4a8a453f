"""Mistakes in reading what was claimed."""

from typing import Any

from tests.sim.planting import Bug, replaced, rewired
from tidegate.spark.decode import Undecodable


def _whatever_is_there(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name not in ("VersionId", "IfMatch")}


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


BUGS = (
    Bug(
        "whatever the key holds now",
        "The object is read by its key, without the version or the ETag that was claimed.",
        (rewired("s3", "GetObject", _whatever_is_there),),
        "outcomes",
    ),
    Bug(
        "the good rows of a bad file",
        "A file that breaks in its second row leaves its first one in the table.",
        (replaced("tidegate.spark.decode:decoder", _good_rows),),
        "outcomes",
    ),
)
