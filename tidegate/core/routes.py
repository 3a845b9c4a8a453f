"""A route: which uploads go to which table, and how they are gathered into batches."""

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.batches import Limits
from tidegate.core.uploads import Upload


@dataclass(frozen=True, slots=True)
class Dataset:
    """What ingest must know to turn a route's files into a table's rows.

    `schema` is Spark DDL without the lineage columns; `max_object_bytes` bounds one file both as stored and
    decompressed, because a file is decoded whole in the memory of one task.
    """

    table: str
    schema: str
    format: str
    partition_by: tuple[str, ...] = ()
    max_object_bytes: int = 128_000_000
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class Route:
    """Uploads under `prefix` and `suffix` of `bucket` become rows of `dataset.table`."""

    name: str
    bucket: str
    prefix: str
    suffix: str
    dataset: Dataset
    limits: Limits

    def takes(self, upload: Upload) -> bool:
        return (
            upload.bucket == self.bucket
            and upload.key.startswith(self.prefix)
            and upload.key.endswith(self.suffix)
            # S3 consoles make "folders" as empty objects whose key is the prefix itself
            and upload.key != self.prefix
        )

    def overlaps(self, other: "Route") -> bool:
        """Whether some key could belong to both: then its rows would land twice."""
        return (
            self.bucket == other.bucket
            and (self.prefix.startswith(other.prefix) or other.prefix.startswith(self.prefix))
            and (self.suffix.endswith(other.suffix) or other.suffix.endswith(self.suffix))
        )


def route_of(upload: Upload, routes: Iterable[Route]) -> Route | None:
    """The one route that takes `upload`, or None. Routes do not overlap: settings refuse that."""
    return next((route for route in routes if route.takes(upload)), None)
