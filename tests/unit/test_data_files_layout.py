"""Which tables get data files that the tasks write: those of which nothing is asked that only Spark does."""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tidegate.sinks.iceberg.data_files.fields import FIELD_ID, Mismatched, with_field_ids
from tidegate.sinks.iceberg.data_files.layout import SCHEMA_KEY, Access, BySpark, Layout, TableFacts, key_of, layout
from tidegate.sinks.iceberg.data_files.partitions import TimePartition

ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])


def column(number: int, name: str, kind: Any, *, required: bool = False) -> dict[str, Any]:
    return {"id": number, "name": name, "required": required, "type": kind}


def struct(*columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(columns)}


TABLE = struct(column(1, "id", "long", required=True), column(2, "text", "string"), column(3, "more", "date"))


def spec(*fields: tuple[str, str, int]) -> str:
    return json.dumps(
        {
            "spec-id": 0,
            "fields": [
                {"name": name, "transform": transform, "source-id": source, "field-id": 1000 + number}
                for number, (name, transform, source) in enumerate(fields)
            ],
        }
    )


FACTS = TableFacts(
    version=2,
    schema=json.dumps(TABLE),
    spec=json.dumps({"spec-id": 0, "fields": []}),
    sorted=False,
    encrypted=False,
    location="s3://lake/shop/orders/data/a.parquet",
    io="org.apache.iceberg.aws.s3.S3FileIO",
    store={"warehouse": "s3://lake", "type": "glue", "glue.endpoint": "http://localhost"},
    confided=False,
    properties={"write.parquet.compression-codec": "zstd", "owner": "somebody"},
)


def test_a_plain_table_gets_files_of_the_tasks() -> None:
    found = layout(FACTS, ROWS, {"spark.sql.shuffle.partitions": "4"})
    assert isinstance(found, Layout)
    assert (found.folder, found.codec, found.level, found.target_bytes) == (
        "s3://lake/shop/orders/data/",
        "zstd",
        3,
        512 * 1024 * 1024,
    )
    assert found.schema.names == ["id", "text"]
    assert [field.metadata[FIELD_ID] for field in found.schema] == [b"1", b"2"]
    assert found.schema.metadata == {SCHEMA_KEY: FACTS.schema.encode()}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"version": 3}, "the table is of format version 3"),
        ({"spec": spec(("by", "bucket[4]", 1))}, "the table is partitioned by bucket[4]: by"),
        ({"spec": spec(("by", "identity", 2))}, "the table is partitioned by identity: by"),
        ({"spec": spec(("by", "void", 3))}, "the table is partitioned by void: by"),
        ({"spec": spec(("by", "day", 3))}, "the table is partitioned by day: by"),
        ({"sorted": True}, "the table has a sort order"),
        ({"encrypted": True}, "the table is encrypted"),
        ({"confided": True}, "the catalog gives credentials of its own for the table"),
        ({"io": "org.example.FileIO"}, "the table's files are at s3://lake/shop/orders/data/, by FileIO"),
        ({"location": "s3a://lake/t/data/a.parquet"}, "the table's files are at s3a://lake/t/data/, by S3FileIO"),
        ({"location": "file:///t/data/a.parquet"}, "the table's files are at file:///t/data/, by S3FileIO"),
        ({"location": "s3://lake/t//data/a.parquet"}, "the table's files are at s3://lake/t//data/"),
        ({"location": "s3://lake/t/../data/a.parquet"}, "the table's files are at s3://lake/t/../data/"),
        ({"schema": json.dumps(struct(column(1, "id", "long")))}, "the table has no column text"),
        (
            {"schema": json.dumps(struct(column(1, "id", "int"), column(2, "text", "string")))},
            "column id is int in the table, and its values are int64",
        ),
    ],
)
def test_what_is_asked_of_the_table_itself(changed: dict[str, Any], reason: str) -> None:
    assert layout(replace(FACTS, **changed), ROWS, {}) == BySpark(reason)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("tidegate.writer", "spark", "tidegate.writer is spark"),
        ("write.format.default", "orc", "write.format.default is orc"),
        ("write.object-storage.enabled", "true", "write.object-storage.enabled is set"),
        ("write.location-provider.impl", "org.example.Places", "write.location-provider.impl is set"),
        ("write.parquet.row-group-size-bytes", "1000", "write.parquet.row-group-size-bytes is set"),
        ("write.parquet.bloom-filter-enabled.column.id", "true", "write.parquet.bloom-filter-enabled.column.id is set"),
        ("write.parquet.stats-enabled.column.id", "false", "write.parquet.stats-enabled.column.id is set"),
        ("write.parquet.compression-codec", "lz4", "write.parquet.compression-codec is lz4"),
        ("write.parquet.compression-level", "x", "write.target-file-size-bytes is 536870912,"),
        ("write.target-file-size-bytes", "0", "write.target-file-size-bytes is 0,"),
        ("write.something-of-tomorrow", "1", "write.something-of-tomorrow is set"),
        ("encryption.key-id", "k", "encryption.key-id is set"),
    ],
)
def test_settings_of_the_table(name: str, value: str, reason: str) -> None:
    found = layout(replace(FACTS, properties={name: value}), ROWS, {})
    assert isinstance(found, BySpark)
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    "name",
    [
        "write.metadata.delete-after-commit.enabled",
        "write.metadata.metrics.default",
        "write.delete.mode",
        "write.distribution-mode",
        "write.wap.enabled",
        "write.spark.accept-any-schema",
        "commit.retry.num-retries",
    ],
)
def test_settings_that_mean_nothing_for_the_files_or_that_iceberg_honours(name: str) -> None:
    assert isinstance(layout(replace(FACTS, properties={name: "1"}), ROWS, {}), Layout)


@pytest.mark.parametrize(
    "name",
    [
        "s3.sse.type",
        "s3.acl",
        "s3.remote-signing-enabled",
        "s3.access-key-id",
        "s3.write.tags.team",
        "s3.new-one",
        "client.assume-role.arn",
        "client.factory",
        "io.manifest.cache-enabled",
        "hadoop.fs.s3a.endpoint",
        "http-client.proxy-endpoint",
    ],
)
def test_settings_of_the_catalog(name: str) -> None:
    assert layout(replace(FACTS, store={name: "x"}), ROWS, {}) == BySpark(f"the catalog sets {name}")


def test_settings_of_the_session() -> None:
    for end in ("compression-codec", "distribution-mode", "snapshot-property.team", "something-of-tomorrow"):
        name = f"spark.sql.iceberg.{end}"
        assert layout(FACTS, ROWS, {name: "x"}) == BySpark(f"{name} is set", avoidable=True)
        assert layout(replace(FACTS, sorted=True), ROWS, {name: "x"}) == BySpark("the table has a sort order")
    for end in ("vectorization.enabled", "planning.preserve-data-grouping", "locality.enabled"):
        assert isinstance(layout(FACTS, ROWS, {f"spark.sql.iceberg.{end}": "x"}), Layout)


TIMED = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("more", pa.date32())])


def test_partitions_by_time() -> None:
    facts = replace(FACTS, spec=spec(("more_day", "day", 3), ("more_year", "year", 3)))
    found = layout(facts, TIMED, {})
    assert isinstance(found, Layout)
    assert found.partitions == (TimePartition("more_day", "more", "day"), TimePartition("more_year", "more", "year"))
    for mode in ("hash", "range"):
        asked = replace(facts, properties={"write.distribution-mode": mode})
        assert layout(asked, TIMED, {}) == BySpark("write.distribution-mode is set, and the table is partitioned")
        assert isinstance(layout(replace(asked, spec=FACTS.spec), TIMED, {}), Layout)


def test_what_is_honoured() -> None:
    properties = {
        "write.format.default": "PARQUET",
        "write.parquet.compression-codec": "GZIP",
        "write.parquet.compression-level": "9",
        "write.target-file-size-bytes": "1000",
        "write.object-storage.enabled": "false",
    }
    store = {"s3.endpoint": "http://localhost:1", "client.region": "eu-west-1", "s3.path-style-access": "True"}
    found = layout(replace(FACTS, properties=properties, store=store), ROWS, {})
    assert isinstance(found, Layout)
    assert (found.codec, found.level, found.target_bytes) == ("gzip", 9, 1000)
    assert found.access == Access("http://localhost:1", "eu-west-1", path_style=True)


def test_nested_columns_get_the_ids_of_what_is_in_them() -> None:
    rows = pa.schema(
        [
            pa.field("o", pa.struct([pa.field("p", pa.int32()), pa.field("a", pa.list_(pa.decimal128(9, 2)))])),
            pa.field("m", pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
            pa.field("u", pa.dictionary(pa.int32(), pa.string())),
        ]
    )
    elements = {"type": "list", "element-id": 6, "element": "decimal(9, 2)", "element-required": False}
    entries = {
        "type": "map",
        "key-id": 7,
        "key": "string",
        "value-id": 8,
        "value": "timestamptz",
        "value-required": False,
    }
    table = struct(
        column(3, "u", "string"),
        column(1, "o", struct(column(5, "a", elements), column(4, "p", "int"))),
        column(2, "m", entries),
    )
    found = with_field_ids(rows, table)
    assert found == rows

    def number(field: pa.Field) -> int:
        return int(field.metadata[FIELD_ID])

    o, m, u = found
    assert [number(field) for field in (o, m, u)] == [1, 2, 3]
    assert [number(field) for field in (o.type.field("p"), o.type.field("a"))] == [4, 5]
    assert number(o.type.field("a").type.value_field) == 6
    assert [number(m.type.key_field), number(m.type.item_field)] == [7, 8]


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (pa.int32(), "long"),
        (pa.int16(), "int"),
        (pa.timestamp("us"), "timestamptz"),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("ns", "UTC"), "timestamptz"),
        (pa.decimal128(9, 2), "decimal(9, 3)"),
        (pa.large_string(), "string"),
        (pa.string(), "uuid"),
        (pa.binary(), "fixed[3]"),
        (pa.string(), "variant"),
        (pa.list_(pa.int32()), struct(column(1, "x", "int"))),
        (pa.list_(pa.int32()), {"type": "list", "element-id": 2, "element": "long", "element-required": False}),
        (pa.list_(pa.int32()), {"type": "list", "element-id": 2, "element": "int", "element-required": True}),
        (pa.struct([("x", pa.int32())]), struct(column(2, "x", "int", required=True))),
        (
            pa.map_(pa.string(), pa.int32()),
            {"type": "map", "key-id": 2, "key": "string", "value-id": 3, "value": "int", "value-required": True},
        ),
        (pa.struct([("x", pa.int32())]), struct(column(1, "y", "int"))),
        (pa.duration("us"), ""),
    ],
)
def test_another_type_is_left_to_spark(kind: pa.DataType, known: Any) -> None:
    with pytest.raises(Mismatched):
        with_field_ids(pa.schema([("c", kind)]), struct(column(1, "c", known)))


def test_the_bucket_and_the_key_of_a_location() -> None:
    assert key_of("s3://lake/a/b.parquet") == ("lake", "a/b.parquet")


@pytest.mark.parametrize("codec", ["snappy", "uncompressed"])
def test_a_level_means_nothing_for_a_codec_without_levels(codec: str) -> None:
    asked = {"write.parquet.compression-codec": codec, "write.parquet.compression-level": "3"}
    found = layout(replace(FACTS, properties=asked), ROWS, {})
    assert isinstance(found, Layout)
    assert found.level is None
