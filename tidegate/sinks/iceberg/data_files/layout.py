"""Whether the tasks write the data files of a table themselves, and how.

They do if what they would write is what Spark would have written, but for the bytes. Whatever a table or its catalog
asks for that is not known here is Spark's to do: a partition that is not by time, an order, an encryption, a setting.
So a setting that Iceberg gets tomorrow is never ignored. Iceberg 1.11.0: `TableProperties`, `S3FileIOProperties`,
`AwsClientProperties`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidegate.reading.fetch import is_plain
from tidegate.sinks.iceberg.data_files.fields import Mismatched, with_field_ids
from tidegate.sinks.iceberg.data_files.partitions import TimePartition, time_partitions

WRITER = "tidegate.writer"
"""A property of a table: `spark` has Spark write its data files, whatever they are."""
SCHEMA_KEY = b"iceberg.schema"
"""Where Iceberg's own writer puts the table's schema in a Parquet file."""
PROBE = "a.parquet"

_VERSIONS = (1, 2)
"""Of version 3, a column that a file lacks may have a default other than null."""
_PLACES = {
    "org.apache.iceberg.hadoop.HadoopFileIO": ("file",),
    "org.apache.iceberg.aws.s3.S3FileIO": ("s3",),
    "org.apache.iceberg.io.ResolvingFileIO": ("file", "s3"),
}
"""What opens the table's files, and the schemes of those that are written here."""
_OF_STORES = ("s3.", "client.", "http-client.", "io.", "hadoop.")
"""How the settings of a catalog begin that are about its files."""
_STORE_SETTINGS = frozenset({"s3.endpoint", "s3.path-style-access", "client.region"})

_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "uncompressed": "none"}
_LEVELS = {"zstd": 3, "gzip": 6}
"""Those of Iceberg's writer, if the table names none. Arrow has others."""
_FORMAT = "write.format.default"
_CODEC = "write.parquet.compression-codec"
_LEVEL = "write.parquet.compression-level"
_TARGET = "write.target-file-size-bytes"
_TARGET_DEFAULT = 536_870_912
_DISTRIBUTION = "write.distribution-mode"
_OBJECT_STORAGE = "write.object-storage.enabled"
_HONOURED = frozenset({_FORMAT, _CODEC, _LEVEL, _TARGET, _DISTRIBUTION, _OBJECT_STORAGE})
_OF_OTHERS = (
    "write.avro.",
    "write.data.path",
    "write.delete.",
    "write.folder-storage.path",
    "write.manifest",
    "write.merge.",
    "write.metadata.",
    "write.object-storage.path",
    "write.orc.",
    "write.spark.",
    "write.summary.",
    "write.update.",
    "write.upsert.",
    "write.wap.",
)
"""Settings that mean nothing for the data files of an append; or Iceberg itself honours them, as
those of the metrics and of the location."""
_SESSION = "spark.sql.iceberg."
_OF_READERS = tuple(
    _SESSION + name
    for name in (
        *("aggregate-push-down", "data-planning-mode", "delete-planning-mode", "distributed-planning"),
        *("executor-cache.", "locality.", "parquet.reader-type", "planning.", "preserve-data-grouping"),
        *("report-column-stats", "vectorization."),
    )
)
"""Settings of the session that mean nothing for what is written (`SparkSQLProperties`, 1.11.0)."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is to be known of a table. `schema` and `spec` (of its partitions) are Iceberg's JSON of them, `location` is
    where it would put a data file called PROBE, `store` the settings of its catalog, `confided` whether the catalog
    gave credentials of its own."""

    version: int
    schema: str
    spec: str
    sorted: bool
    encrypted: bool
    location: str
    io: str
    store: Mapping[str, str]
    confided: bool
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Access:
    """How the bucket of the files is reached; empty for what the environment says."""

    endpoint: str = ""
    region: str = ""
    path_style: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """How the tasks write the data files. It is sent to the executors, so it has plain values only.

    `folder` ends in a slash; `schema` has the table's ids of the columns; `target_bytes` is when a task begins another
    file; `level` is None for a codec without levels."""

    folder: str
    schema: pa.Schema
    codec: str
    level: int | None
    target_bytes: int
    partitions: tuple[TimePartition, ...] = ()
    access: Access = Access()


@dataclass(frozen=True, slots=True)
class BySpark:
    """Spark writes the data files. `avoidable`: nothing but a setting that is not known here is the reason. Without it
    the tasks would write."""

    reason: str
    avoidable: bool = False


def layout(facts: TableFacts, rows: pa.Schema, settings: Mapping[str, str]) -> Layout | BySpark:
    """How the rows are written; `settings` are those of Spark's session."""
    if reason := _asked(facts) or _of_settings(facts.properties) or _of_store(facts):
        return BySpark(reason)
    codec = facts.properties.get(_CODEC, "zstd").lower()
    level, target = facts.properties.get(_LEVEL, ""), facts.properties.get(_TARGET, str(_TARGET_DEFAULT))
    if codec not in _CODECS:
        return BySpark(f"{_CODEC} is {codec}")
    if not target.isdecimal() or not int(target) or (level and not level.isdecimal()):
        return BySpark(f"{_TARGET} is {target}, {_LEVEL} is {level or 'absent'}")
    try:
        schema = with_field_ids(rows, json.loads(facts.schema))
        partitions = time_partitions(json.loads(facts.spec), schema)
    except Mismatched as error:
        return BySpark(str(error))
    if partitions and facts.properties.get(_DISTRIBUTION, "none").lower() != "none":
        return BySpark(f"{_DISTRIBUTION} is set, and the table is partitioned")
    # last: what is not known is told as the reason only if it is the only one
    if name := _not_known(facts.properties, settings):
        return BySpark(f"{name} is set", avoidable=True)
    return Layout(
        folder=facts.location.removesuffix(PROBE),
        schema=schema.with_metadata({SCHEMA_KEY: facts.schema}),
        codec=_CODECS[codec],
        # Spark ignores a level for a codec that has none
        level=int(level) if level and codec in _LEVELS else _LEVELS.get(codec),
        target_bytes=int(target),
        partitions=partitions,
        access=_access(facts.store),
    )


def access_to_files(facts: TableFacts) -> Access | None:
    """None if a file of the table cannot be read without Iceberg."""
    return None if facts.encrypted or _of_store(facts) else _access(facts.store)


def _access(store: Mapping[str, str]) -> Access:
    path_style = store.get("s3.path-style-access", "").lower() == "true"
    return Access(store.get("s3.endpoint", ""), store.get("client.region", ""), path_style)


def _asked(facts: TableFacts) -> str:
    """What of the table itself is Spark's to do."""
    wanted = facts.properties.get(WRITER, "")
    asked = {
        f"{WRITER} is {wanted}": bool(wanted),
        f"the table is of format version {facts.version}": facts.version not in _VERSIONS,
        "the table has a sort order": facts.sorted,
        "the table is encrypted": facts.encrypted,
    }
    return next((reason for reason, there in asked.items() if there), "")


def _of_settings(properties: Mapping[str, str]) -> str:
    if (kind := properties.get(_FORMAT, "parquet").lower()) != "parquet":
        return f"{_FORMAT} is {kind}"
    if properties.get(_OBJECT_STORAGE, "").lower() not in ("", "false"):
        return f"{_OBJECT_STORAGE} is set"
    return ""


def _not_known(properties: Mapping[str, str], settings: Mapping[str, str]) -> str:
    """The first setting of the table, or else of the session, that may be about what is written."""
    for name in sorted(properties):
        known = name in _HONOURED or name.startswith(_OF_OTHERS)
        if name.startswith(("write.", "encryption.")) and not known:
            return name
    of_session = (name for name in sorted(settings) if name.startswith(_SESSION))
    return next((name for name in of_session if not name.startswith(_OF_READERS)), "")


def _of_store(facts: TableFacts) -> str:
    if facts.confided:
        return "the catalog gives credentials of its own for the table"
    for name in sorted(facts.store):
        if name.startswith(_OF_STORES) and name not in _STORE_SETTINGS:
            return f"the catalog sets {name}"
    scheme, folder = facts.location.partition(":")[0], facts.location.removesuffix(PROBE)
    if scheme not in _PLACES.get(facts.io, ()) or not folder.endswith("/"):
        return f"the table's files are at {folder}, by {facts.io.rpartition('.')[2]}"
    if scheme == "s3" and not is_plain(key_of(facts.location)[1]):
        return f"the table's files are at {folder}"
    return ""


def key_of(location: str) -> tuple[str, str]:
    """Bucket and key of a location in S3."""
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return bucket, key
