"""A route: which uploads go to which table, and how they are gathered into batches."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate.core.batches import BatchLimits
from tidegate.core.uploads import Upload
from tidegate.core.versions import known_fields

REJECTED = "__rejected"
"""The end of the name of a table of rejected rows."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """How ingest turns a route's files into a table's rows.

    `schema` is Spark DDL without the lineage columns. `max_object_bytes` bounds one file both as stored and
    decompressed, because one task reads it. `replaces`: the rows of an object's later version replace those of the
    earlier ones. `removes`: an object that is deleted has no rows. `skips`: a version with the bytes of its neighbour
    brings no rows (`core.same_bytes`). `where` is the SQL that says which rows land, all if it is empty; `generated`
    are the columns of `schema` that no file has, with the SQL of their values. `options` are the format's, sorted by
    name. This module does not interpret them (see `tidegate.formats.registry`).
    """

    table: str
    schema: str
    format: str
    partition_by: tuple[str, ...] = ()
    max_object_bytes: int = 100_000_000_000
    options: tuple[tuple[str, Any], ...] = ()
    replaces: bool = False
    removes: bool = False
    skips: bool = False
    where: str = ""
    generated: tuple[tuple[str, str], ...] = ()

    @property
    def rejected_table(self) -> str:
        """Where rows go that do not fit, if the route sets them aside."""
        return self.table + REJECTED


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where the uploads of a route are: the keys of a bucket that have this prefix and this suffix."""

    bucket: str
    prefix: str
    suffix: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}*{self.suffix}"

    def overlaps(self, other: "Place") -> bool:
        """Whether some key could be in both."""
        return (
            self.bucket == other.bucket
            and (self.prefix.startswith(other.prefix) or other.prefix.startswith(self.prefix))
            and (self.suffix.endswith(other.suffix) or other.suffix.endswith(self.suffix))
        )


@dataclass(frozen=True, slots=True)
class Route:
    """Uploads under `prefix` and `suffix` of `bucket` become rows of `dataset.table`.

    A `retired` route takes no new uploads and only finishes what it has gathered. `owner` is the account that owns the
    bucket, "" for the deployment's own. `audit_from` is where an audit finds the uploads that are in the bucket
    (`tidegate.core.screening`). `lanes` is over how many message groups its notices are spread (`tidegate.core.lanes`).
    """

    name: str
    bucket: str
    prefix: str
    suffix: str
    dataset: Dataset
    limits: BatchLimits
    retired: bool = False
    owner: str = ""
    audit_from: str = "listing"
    lanes: int = 1

    @property
    def place(self) -> Place:
        return Place(self.bucket, self.prefix, self.suffix)

    def takes(self, upload: Upload) -> bool:
        return upload.bucket == self.bucket and is_file_under(upload, self.prefix, self.suffix)

    def overlaps(self, other: "Route") -> bool:
        """Whether some key could belong to both: then its rows would land twice. A retired route takes no uploads, so
        it overlaps no route."""
        return not (self.retired or other.retired) and self.place.overlaps(other.place)


def is_file_under(upload: Upload, prefix: str, suffix: str) -> bool:
    return upload.key.startswith(prefix) and upload.key.endswith(suffix) and not is_folder(upload)


def is_folder(upload: Upload) -> bool:
    """Whether this is the empty object that the S3 console creates for a folder; its key ends in a slash
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-folders.html). An object with content is a file."""
    return upload.key.endswith("/") and upload.size == 0


def route_of(upload: Upload, routes: Iterable[Route]) -> Route | None:
    """The one route that takes `upload`, or None. The settings refuse routes that overlap. Retired routes take no
    uploads."""
    return next((route for route in routes if not route.retired and route.takes(upload)), None)


class RouteIndex:
    """`route_of` for many uploads. It compares a key with the routes whose prefix it has, however many routes there
    are."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_prefix: dict[str, dict[int, dict[str, list[Route]]]] = {}
        """Of each bucket, by length and prefix."""
        for route in routes:
            of_length = self._by_prefix.setdefault(route.bucket, {}).setdefault(len(route.prefix), {})
            of_length.setdefault(route.prefix, []).append(route)

    def route_of(self, upload: Upload) -> Route | None:
        for length, by_prefix in self._by_prefix.get(upload.bucket, {}).items():
            if route := route_of(upload, by_prefix.get(upload.key[:length], ())):
                return route
        return None


# ---- encoding, for the ledger


def encode_dataset(dataset: Dataset) -> str:
    """Compact JSON, the same text for the same dataset."""
    return _json(_fields(dataset))


def reading_of(dataset: Dataset) -> str:
    """The same for datasets by which a file becomes the same rows, whatever their table is."""
    return hashlib.sha256(
        encode_dataset(replace(dataset, table="", partition_by=(), replaces=False, removes=False, skips=False)).encode()
    ).hexdigest()[:16]


def decode_dataset(text: str) -> Dataset:
    """Each name that is not a field of a dataset is an option of its format, also if this version lacks it."""
    return _dataset(json.loads(text))


def encode_route(route: Route) -> str:
    """Compact JSON, the same text for the same route."""
    return _json({**asdict(route), "dataset": _fields(route.dataset)})


def decode_route(text: str) -> Route:
    """Fields that a newer version added are left out. Fields that an older version lacked get their defaults."""
    given = json.loads(text)
    return Route(
        **{**known_fields(Route, given), "dataset": _dataset(given["dataset"]), "limits": _limits(given["limits"])}
    )


def _fields(dataset: Dataset) -> dict[str, Any]:
    """A dataset's fields, with its options beside them. One that only appends has the text that it had before any could
    do more."""
    given = asdict(dataset)
    for name in ("replaces", "removes", "skips", "where", "generated"):
        if not given[name]:
            del given[name]
    return {**dict(given.pop("options")), **given}


def _dataset(given: Mapping[str, Any]) -> Dataset:
    known = known_fields(Dataset, given)
    options = tuple(sorted((name, value) for name, value in given.items() if name not in known))
    generated = tuple((name, sql) for name, sql in given.get("generated", ()))
    tuples = {"partition_by": tuple(given.get("partition_by", ())), "options": options, "generated": generated}
    return Dataset(**{**known, **tuples})


def _limits(given: Mapping[str, Any]) -> BatchLimits:
    return BatchLimits(**known_fields(BatchLimits, given))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
