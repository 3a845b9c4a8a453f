"""A route: which uploads go to which table, and how they are gathered into batches."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

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
    """Uploads under `prefix` and `suffix` of `bucket` become rows of `dataset.table`.

    A `retired` route takes no new uploads and only finishes what it has gathered. `owner` is the account that the
    bucket belongs to, "" for the deployment's own.
    """

    name: str
    bucket: str
    prefix: str
    suffix: str
    dataset: Dataset
    limits: Limits
    retired: bool = False
    owner: str = ""

    def takes(self, upload: Upload) -> bool:
        return (
            upload.bucket == self.bucket
            and upload.key.startswith(self.prefix)
            and upload.key.endswith(self.suffix)
            and not is_folder(upload)
        )

    def overlaps(self, other: "Route") -> bool:
        """Whether some key could belong to both: then its rows would land twice. A retired route takes none, so its
        successor may stand beside it."""
        return (
            not (self.retired or other.retired)
            and self.bucket == other.bucket
            and (self.prefix.startswith(other.prefix) or other.prefix.startswith(self.prefix))
            and (self.suffix.endswith(other.suffix) or other.suffix.endswith(self.suffix))
        )


def is_folder(upload: Upload) -> bool:
    """Whether this is the empty object that a console makes for a folder; its key ends in a slash
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-folders.html). One that holds something is a file."""
    return upload.key.endswith("/") and upload.size == 0


def route_of(upload: Upload, routes: Iterable[Route]) -> Route | None:
    """The one route that takes `upload`, or None. Routes do not overlap: settings refuse that. Retired ones take no
    more."""
    return next((route for route in routes if not route.retired and route.takes(upload)), None)


# ---- as the ledger keeps them


def encode_dataset(dataset: Dataset) -> str:
    """Compact JSON, the same text for the same dataset."""
    return _json(asdict(dataset))


def decode_dataset(text: str) -> Dataset:
    return _dataset(json.loads(text))


def encode_route(route: Route) -> str:
    """Compact JSON, the same text for the same route."""
    return _json(asdict(route))


def decode_route(text: str) -> Route:
    """What a newer version has added is left out; what an older one did not know has its default."""
    given = json.loads(text)
    return Route(**{**_known(Route, given), "dataset": _dataset(given["dataset"]), "limits": _limits(given["limits"])})


def _dataset(given: Mapping[str, Any]) -> Dataset:
    return Dataset(**{**_known(Dataset, given), "partition_by": tuple(given.get("partition_by", ()))})


def _limits(given: Mapping[str, Any]) -> Limits:
    return Limits(**_known(Limits, given))


def _known(of: type, given: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(of)}
    return {name: value for name, value in given.items() if name in names}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
