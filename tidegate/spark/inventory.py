"""The newest list of an S3 Inventory, in Parquet.

S3 writes a list daily or weekly. Its `manifest.json` names its files, and comes last
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html).
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tidegate.aws.work import S3Work, asking_s3
from tidegate.core.errors import Rejected
from tidegate.core.inventories import MANIFEST, oldest_name, place_of, recent
from tidegate.core.lineage import SCHEME

LAG = 24 * 3_600
"""Seconds. A list may lack what was put shortly before it was begun
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory.html)."""
COLUMNS = ("key", "version_id", "e_tag", "size", "last_modified_date", "is_delete_marker")
_TYPES = (
    "key string, version_id string, e_tag string, size bigint, last_modified_date timestamp, is_delete_marker boolean"
)


@dataclass(frozen=True, slots=True)
class InventoryList:
    """The files of one list, in one bucket, and until when (epoch seconds) it knows of every upload."""

    bucket: str
    keys: tuple[str, ...]
    until: int


def newest_list(folder: str, bucket: str, now: int, account: str) -> InventoryList:
    """The newest list of `bucket` in `folder`, a URI that ends in `BUCKET/CONFIGURATION`. Raises Rejected if there is
    none that was begun within `OLDEST` seconds before `now` (epoch seconds), or if the newest is of another bucket, not
    in Parquet, or lacks a field."""
    place, prefix = place_of(folder)
    objects = S3Work(boto3.client("s3"), place, account)
    begun = oldest_name(now)
    for name in recent(objects.folders(f"{prefix}/", begun), now):
        path = f"{prefix}/{name}/{MANIFEST}"
        body = objects.get(path)
        if body is not None:
            return _list_of(json.loads(body), f"{SCHEME}{place}/{path}", place, bucket)
    raise Rejected(
        f"there is no list in {folder} that was begun at {begun} or later: S3 Inventory writes one a day or a week, and"
        " the first one within two days. Is it switched on, and is this its folder?"
    )


def _list_of(manifest: dict[str, Any], name: str, place: str, bucket: str) -> InventoryList:
    if manifest["sourceBucket"] != bucket:
        raise Rejected(f"{name} lists bucket {manifest['sourceBucket']}, not {bucket}")
    if manifest["fileFormat"] != "Parquet":
        raise Rejected(f"{name} is of {manifest['fileFormat']} files: let the inventory write Parquet")
    if missing := [each for each in COLUMNS if not re.search(rf"\b{each}\b", manifest["fileSchema"])]:
        # without the version an upload has no identity
        raise Rejected(
            f"{name} has no {', '.join(missing)}: let the inventory include all versions, and size, last modified date"
            " and ETag"
        )
    keys = tuple(each["key"] for each in manifest["files"])
    return InventoryList(place, keys, int(manifest["creationTimestamp"]) // 1000 - LAG)


def rows_of(spark: SparkSession, of: InventoryList) -> DataFrame:
    """The rows of all files, each read by one task."""
    files = [(key,) for key in of.keys]
    names = spark.createDataFrame(spark.sparkContext.parallelize(files, max(1, len(files))), "file string")
    bucket = of.bucket

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        client = boto3.client("s3")
        for batch in batches:
            for key in batch.column(0).to_pylist():
                with tempfile.TemporaryFile() as file, asking_s3(f"read s3://{bucket}/{key}"):
                    client.download_fileobj(bucket, key, file)
                    for rows in pq.ParquetFile(file).iter_batches(columns=list(COLUMNS)):
                        yield _typed(rows)

    return names.mapInArrow(read, _TYPES)


def _typed(rows: Any) -> Any:
    """The columns as `_TYPES` has them; the list's times are in milliseconds and in UTC."""
    types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.timestamp("us", tz="UTC"), pa.bool_())
    arrays = []
    for name, kind in zip(COLUMNS, types, strict=True):
        column = rows.column(name)
        if pa.types.is_timestamp(kind) and column.type.tz is None:
            column = column.cast(pa.timestamp("us")).cast(kind)
        arrays.append(column.cast(kind))
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
