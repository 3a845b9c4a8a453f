"""What becomes of files: good ones, bad ones, odd names, and tables that do not fit."""

import base64
import bz2
import gzip
import io
import json
import time

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
import zstandard

from tests.spark.world import LANDING, World
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.routes import Dataset
from tidegate.core.unknown import UnknownNames
from tidegate.flows.accounting import Contradiction, accounted
from tidegate.flows.publish import run
from tidegate.flows.sink import Staged
from tidegate.formats.paths import escape
from tidegate.sinks.iceberg.endings import Endings

pytestmark = pytest.mark.spark


def line(number: int) -> bytes:
    return json.dumps({"id": number, "text": "x"}).encode() + b"\n"


def ingest(world: World, batch: str, files: dict[str, bytes]) -> dict[str, tuple[Outcome, str]]:
    """Ingest the files as one batch; the exceptional endings by key."""
    world.seal(batch, world.put(files))
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)
    return {ending.key: (ending.outcome, ending.error) for ending in world.outcomes(batch).endings}


def test_every_row_comes_with_its_lineage(world: World, batch: str) -> None:
    begun = time.time()
    uploads = world.put({"in/a.json": line(1) + line(2), "in/b.json": line(3)})
    world.seal(batch, uploads)
    assert run(world.attempt(batch, 1), "ingest") == 0
    found = [(row.id, row._source_uri, row._source_version, row._source_row, row._batch_id) for row in world.rows()]
    assert found == [
        (1, "s3://landing/in/a.json", uploads[0].version, 0, batch),
        (2, "s3://landing/in/a.json", uploads[0].version, 1, batch),
        (3, "s3://landing/in/b.json", uploads[1].version, 0, batch),
    ]
    (ingested_at,) = {row._ingested_at for row in world.rows()}
    assert begun <= ingested_at.timestamp() <= time.time()


def test_the_columns_that_the_schema_lacks_come_out_of_spark_with_their_files(world: World, batch: str) -> None:
    wider = b'{"id": 2, "text": "x", "coupon": 1}\n'
    files = {"in/a.json": line(1), "in/b.json": wider, "in/c.json": wider + b'{"id": 3, "vip": 1}\n'}
    assert ingest(world, batch, files | {"in/d.json": b'{"id": "x", "bad": 1}\n'}).keys() == {"in/d.json"}
    examples = {"coupon": "s3://landing/in/b.json", "vip": "s3://landing/in/c.json"}
    assert world.outcomes(batch).unknown == UnknownNames(2, {"coupon": 2, "vip": 1}, examples)
    receipt = world.receipt(batch)
    assert receipt is not None
    assert receipt.unknown == UnknownNames(2, {"coupon": 2, "vip": 1})


def test_bad_files_are_quarantined_whole_and_their_neighbours_land(world: World, batch: str) -> None:
    many = b"".join(line(1000 + number) for number in range(5000))
    endings = ingest(
        world,
        batch,
        {
            "in/good.json": line(1),
            "in/good.json.gz": gzip.compress(line(2)),
            "in/good.json.bz2": bz2.compress(line(3)),
            "in/good.json.zst": zstandard.compress(line(4)),
            "in/empty.json": b"",
            "in/empty.json.gz": gzip.compress(b""),
            "in/blank-lines.json": b"\n" + line(5) + b"\n\n" + line(6),
            "in/truncated.json.gz": gzip.compress(many)[:-9],
            "in/truncated.json.bz2": bz2.compress(many)[:-9],
            "in/truncated.json.zst": zstandard.compress(many)[:-9],
            "in/not-gzip.json.gz": line(7),
            "in/last-row-broken.json": many + b'{"id": ',
            "in/last-row-of-other-type.json": many + b'{"id": "seven"}\n',
            "in/fraction.json": b'{"id": 1.5}\n',
            "in/too-big-a-number.json": b'{"id": 9223372036854775808}\n',
            "in/null-line.json": line(8) + b"null\n",
            "in/array.json": b"[" + line(9),
            "in/not-utf8.json": b'{"id": 10, "text": "\xff"}\n',
            "in/too-large.json": many * 40,
            "in/bomb.json.gz": gzip.compress(b" " * 2_000_000),
        },
    )
    assert {outcome for outcome, _ in endings.values()} == {Outcome.QUARANTINED}
    said = {key.removeprefix("in/"): error for key, (_, error) in endings.items()}
    assert said.keys() == {
        "truncated.json.gz",
        "truncated.json.bz2",
        "truncated.json.zst",
        "not-gzip.json.gz",
        "last-row-broken.json",
        "last-row-of-other-type.json",
        "fraction.json",
        "too-big-a-number.json",
        "null-line.json",
        "array.json",
        "not-utf8.json",
        "too-large.json",
        "bomb.json.gz",
    }
    assert "Truncated compressed stream" in said["truncated.json.gz"]
    assert "line 5001: id = 'seven' is text, and the schema says bigint" in said["last-row-of-other-type.json"]
    assert "too large" in said["too-large.json"]
    assert "more than 1000000 bytes decompressed" in said["bomb.json.gz"]
    assert not any("Traceback" in error for error in said.values())
    assert world.ids() == [1, 2, 3, 4, 5, 6]
    receipt = world.receipt(batch)
    assert receipt is not None
    assert (receipt.tally.committed, receipt.tally.quarantined, receipt.tally.rows) == (7, 13, 6)


def test_a_batch_of_bad_files_only_is_published_too(world: World, batch: str) -> None:
    """Else its next attempt could not tell that it is decided."""
    endings = ingest(world, batch, {"in/bad.json": b"?"})
    assert endings["in/bad.json"][0] is Outcome.QUARANTINED
    assert world.rows() == []
    before = world.receipt(batch)
    assert run(world.attempt(batch, 2), "ingest") == 0
    assert world.receipt(batch) == before


def test_overwritten_and_deleted_objects_end_so(world: World, batch: str) -> None:
    overwritten, deleted, kept = world.put({"in/o.json": line(1), "in/d.json": line(2), "in/k.json": line(3)})
    newer = world.put({"in/o.json": line(4)})
    world.s3.delete_object(Bucket=LANDING, Key="in/d.json")
    world.seal(batch, [overwritten, deleted, kept, *newer])
    assert run(world.attempt(batch, 1), "ingest") == 0
    endings = {(ending.key, ending.version): ending.outcome for ending in world.outcomes(batch).endings}
    assert endings == {
        ("in/o.json", overwritten.version): Outcome.SUPERSEDED,
        ("in/d.json", deleted.version): Outcome.VANISHED,
    }
    assert world.ids() == [3, 4]


ODD_KEYS = [
    "in/with space.json",
    "in/a+b.json",
    "in/a%2Bb.json",
    "in/ünïcødé/日本.json",
    "in/'quo\"ted'.json",
    "in/new\nline.json",
    "in//two-slashes.json",
    "in/back\\slash.json",
    "in/a?versionId=b#c&d=e.json",
    "in/*[]{}~^`|<>.json",
    "in/emoji-😀.json",
    "/leading.json",
    "in/" + "x" * (1024 - 8) + ".json",
]


def test_odd_keys_are_read_and_named_exactly(world: World, batch: str) -> None:
    files = {key: line(number) for number, key in enumerate(ODD_KEYS)}
    # what a sloppy path would read instead
    decoys = {"leading.json": line(100), "in/two-slashes.json": line(101)}
    world.put(decoys)
    assert ingest(world, batch, files) == {}
    assert {row._source_uri: row.id for row in world.rows()} == {
        f"s3://landing/{key}": number for number, key in enumerate(ODD_KEYS)
    }


def test_a_landing_bucket_that_is_gone_loses_nothing(world: World, batch: str) -> None:
    world.s3.create_bucket(Bucket="goner")
    uploads = world.put({"in/a.json": line(1)})
    moved = [type(each)("goner", each.key, each.version, each.size) for each in uploads]
    world.s3.delete_bucket(Bucket="goner")
    part_world = world
    part_world.work.put("unused", b"")
    from tidegate.core.manifests import Sealed, batch_folder, make_part

    part = make_part("n" * 40, "goner", moved)
    world.work.put(batch_folder(batch) + part.name, part.body)
    world.work.put(
        batch_folder(batch) + "sealed.json", Sealed(batch, "r", (part.name,), part.objects, part.size).encode()
    )
    assert run(world.attempt(batch, 1), "ingest") == 1
    failure = world.failure(batch, 1)
    assert "bucket goner does not exist" in failure.reason
    assert not failure.hopeless
    assert world.receipt(batch) is None


def parquet(**columns: object) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def test_parquet(world: World, batch: str) -> None:
    world.dataset = Dataset(world.dataset.table, "id bigint, text string", "parquet")
    endings = ingest(
        world,
        batch,
        {
            "in/good.parquet": parquet(id=[1, 2], text=["a", None], more=[0, 0]),
            "in/narrower.parquet": parquet(id=pa.array([3], pa.int32())),
            "in/no-rows.parquet": parquet(id=pa.array([], pa.int64()), text=pa.array([], pa.string())),
            "in/other-type.parquet": parquet(id=["x"], text=["y"]),
            "in/lossy.parquet": parquet(id=[1.5], text=["y"]),
            "in/empty.parquet": b"",
            "in/truncated.parquet": parquet(id=[4], text=["z"])[:-20],
        },
    )
    assert {key.removeprefix("in/") for key in endings} == {
        "other-type.parquet",
        "lossy.parquet",
        "empty.parquet",
        "truncated.parquet",
    }
    assert world.ids() == [1, 2, 3]


def test_avro(world: World, batch: str) -> None:
    world.dataset = Dataset(world.dataset.table, "id bigint, text string, at timestamp", "avro")
    at = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [{"name": "id", "type": "int"}, {"name": "at", "type": ["null", at]}, {"name": "more", "type": "bytes"}]
    rows = [{"id": 1, "at": 1_706_933_106_000, "more": b""}, {"id": 2, "at": None, "more": b"x"}]
    files = {
        "good": (fields, rows, "null"),
        "deflated": (fields, [{**each, "id": each["id"] + 2} for each in rows], "deflate"),
        "no-rows": (fields, [], "null"),
        "other-type": ([{"name": "id", "type": "string"}], [{"id": "5"}], "null"),
        "no-common-column": ([{"name": "other", "type": "int"}], [{"other": 5}], "null"),
    }
    bodies = {}
    for name, (shape, records, codec) in files.items():
        buffer = io.BytesIO()
        fastavro.writer(buffer, {"type": "record", "name": "row", "fields": shape}, records, codec=codec)
        bodies[f"in/{name}.avro"] = buffer.getvalue()
    bodies["in/truncated.avro"] = bodies["in/good.avro"][:-20]
    bodies["in/packed.avro.gz"] = gzip.compress(bodies["in/good.avro"])
    endings = ingest(world, batch, bodies)
    assert {key.removeprefix("in/") for key in endings} == {
        "no-common-column.avro",
        "other-type.avro",
        "truncated.avro",
    }
    assert sorted((row.id, row.text, str(row.at)) for row in world.rows()) == [
        *[(1, None, "2024-02-03 04:05:06")] * 2,
        *[(2, None, "None")] * 2,
        (3, None, "2024-02-03 04:05:06"),
        (4, None, "None"),
    ]


def test_orc(world: World, batch: str) -> None:
    world.dataset = Dataset(world.dataset.table, "id bigint, text string, at timestamp", "orc")

    def orc(**columns: pa.Array) -> bytes:
        buffer = io.BytesIO()
        pyarrow.orc.write_table(pa.table(columns), buffer)
        return buffer.getvalue()

    at = pa.array([1_706_933_106, None], pa.timestamp("s", "UTC"))
    good = orc(id=pa.array([1, 2], pa.int32()), at=at)
    endings = ingest(
        world,
        batch,
        {
            "in/good.orc": good,
            "in/packed.orc.gz": gzip.compress(good),
            "in/no-rows.orc": orc(id=pa.array([], pa.int64())),
            "in/other-type.orc": orc(id=pa.array(["x"])),
            "in/local.orc": orc(id=pa.array([4]), at=pa.array([1_706_933_106], pa.timestamp("s"))),
            "in/empty.orc": b"",
            "in/truncated.orc": good[:-20],
        },
    )
    assert {key.removeprefix("in/") for key in endings} == {
        "other-type.orc",
        "local.orc",
        "empty.orc",
        "truncated.orc",
    }
    assert sorted((row.id, row.text, str(row.at)) for row in world.rows()) == [
        *[(1, None, "2024-02-03 04:05:06")] * 2,
        *[(2, None, "None")] * 2,
    ]


def test_csv(world: World, batch: str) -> None:
    schema = "id bigint not null, text string, at timestamp"
    world.dataset = Dataset(world.dataset.table, schema, "csv", options=(("delimiter", ";"),))
    endings = ingest(
        world,
        batch,
        {
            "in/good.csv": b'text;id;at\n"a;b";1;2024-02-03T04:05:06Z\n;2;\n',
            "in/header-only.csv": b"id;text;at\n",
            "in/empty.csv": b"",
            "in/ragged.csv": b"id;text\n1;a\n2\n",
            "in/other-type.csv": b"id;text\none;a\n",
            "in/without-id.csv": b"text\na\n",
        },
    )
    assert {key.removeprefix("in/") for key in endings} == {"ragged.csv", "other-type.csv", "without-id.csv"}
    assert "not null" in endings["in/without-id.csv"][1]
    assert [(row.id, row.text, str(row.at)) for row in world.rows()] == [
        (1, "a;b", "2024-02-03 04:05:06"),
        (2, None, "None"),
    ]


def test_csv_of_another_country(world: World, batch: str) -> None:
    options = (("dates", "dd.mm.yyyy"), ("decimal", ","), ("delimiter", ";"), ("null", "NULL"))
    world.dataset = Dataset(world.dataset.table, "id bigint, day date, total decimal(12,2)", "csv", options=options)
    endings = ingest(
        world,
        batch,
        {
            "in/a.csv": b"id;day;total\n1;3.2.2024;12,50\n2;NULL;NULL\n",
            "in/b.csv": b"id;day;total\n3;24.12.2024;7\n",
            "in/point.csv": b"id;day;total\n4;24.12.2024;1.234\n",
        },
    )
    assert [*endings] == ["in/point.csv"]
    assert "Nothing may be between thousands" in endings["in/point.csv"][1]
    assert sorted((row.id, str(row.day), str(row.total)) for row in world.rows()) == [
        (1, "2024-02-03", "12.50"),
        (2, "None", "None"),
        (3, "2024-12-24", "7.00"),
    ]


def test_types_of_json(world: World, batch: str) -> None:
    schema = (
        "b boolean, i int, f double, d decimal(10,2), t timestamp, n timestamp_ntz, day date, s string, x binary,"
        " l array<int>, o struct<p: int, q: string>, m map<string, int>"
    )
    world.dataset = Dataset(world.dataset.table, schema, "json")
    row = {
        "b": True,
        "i": 1,
        "f": 2,
        "d": 1.25,
        "t": "2024-02-03T04:05:06+02:00",
        "n": "2024-02-03T04:05:06",
        "day": "2024-02-03",
        "s": "é",
        "x": "aGk=",
        "l": [1, None],
        "o": {"p": 1},
        "m": {"k": 1},
    }
    endings = ingest(
        world,
        batch,
        {"in/a.json": json.dumps(row).encode(), "in/b.json": b'{"b": null}\n', "in/c.json": b'{"d": 1.255}\n'},
    )
    assert set(endings) == {"in/c.json"}
    got = world.rows()[0]
    assert str(got.t) == "2024-02-03 02:05:06"
    assert str(got.n) == "2024-02-03 04:05:06"
    assert (str(got.d), str(got.day), bytes(got.x), got.l, got.o.p, got.m) == (
        "1.25",
        "2024-02-03",
        b"hi",
        [1, None],
        1,
        {"k": 1},
    )


class TestATableThatDoesNotFit:
    def refused(self, world: World, batch: str, said: str) -> None:
        world.seal(batch, world.put({"in/a.json": line(1)}))
        assert run(world.attempt(batch, 1), "ingest") == 1
        failure = world.failure(batch, 1)
        assert failure.hopeless
        assert said in failure.reason
        assert "\n" not in failure.reason

    def test_a_column_is_missing_and_the_message_adds_it(self, world: World, batch: str) -> None:
        world.attempt(batch, 1).sink.prepare()
        world.dataset = Dataset(world.dataset.table, "id bigint, text string, more double", "json")
        statement = f"ALTER TABLE {world.dataset.table} ADD COLUMN more double"
        self.refused(world, batch, statement)
        assert world.spark is not None
        world.spark.sql(statement)
        assert run(world.attempt(batch, 2), "ingest") == 0
        assert world.ids() == [1]

    def test_a_column_of_another_type(self, world: World, batch: str) -> None:
        world.attempt(batch, 1).sink.prepare()
        world.dataset = Dataset(world.dataset.table, "id string, text string", "json")
        self.refused(world, batch, "column id")

    def test_an_extra_column_of_the_table_is_left_null(self, world: World, batch: str) -> None:
        world.attempt(batch, 1).sink.prepare()
        assert world.spark is not None
        world.spark.sql(f"ALTER TABLE {world.dataset.table} ADD COLUMN mine string")
        ingest(world, batch, {"in/a.json": line(1)})
        assert [(row.id, row.mine) for row in world.rows()] == [(1, None)]

    def test_a_schema_that_is_no_ddl(self, world: World, batch: str) -> None:
        world.dataset = Dataset(world.dataset.table, "id bigint text", "json")
        self.refused(world, batch, "schema")

    def test_a_partition_column_that_is_not_there(self, world: World, batch: str) -> None:
        world.dataset = Dataset(world.dataset.table, "id bigint", "json", ("days(nothing)",))
        self.refused(world, batch, "partition_by")


def test_partitioned_by_a_transform(world: World, batch: str) -> None:
    world.dataset = Dataset(world.dataset.table, "id bigint, text string, at timestamp", "json", ("days(at)",))
    files = {
        f"in/{day}.json": json.dumps({"id": day, "at": f"2024-01-{day:02}T00:00:00Z"}).encode() for day in range(1, 29)
    }
    assert ingest(world, batch, files) == {}
    assert world.ids() == list(range(1, 29))
    assert world.spark is not None
    assert world.spark.table(f"{world.dataset.table}.partitions").count() == 28


def test_a_value_that_no_path_can_hold_takes_no_neighbour_with_it(world: World, batch: str) -> None:
    world.dataset = Dataset(
        world.dataset.table, "id bigint, region string, code binary", "json", ("region", "truncate(2, code)")
    )
    regions = ["eu", None, "é ~*.-_+/=%", "x" * 193, "x" * 194]
    ingested = {
        f"in/{number}.json": json.dumps({"id": number, "region": region, "code": "+/+/"}).encode()
        for number, region in enumerate(regions)
    }
    endings = ingest(world, batch, ingested)
    assert {key: outcome for key, (outcome, _) in endings.items()} == {"in/4.json": Outcome.QUARANTINED}
    assert "row 1: the table is partitioned by column region" in endings["in/4.json"][1]
    assert world.ids() == [0, 1, 2, 3]
    assert world.spark is not None
    # the paths that Iceberg makes are those that were measured
    paths = [row.file_path for row in world.spark.table(f"{world.dataset.table}.files").collect()]
    code = escape(base64.b64encode(base64.b64decode("+/+/")[:2]).decode())
    for region in regions[:4]:
        part = f"/region={'null' if region is None else escape(region)}/code_trunc={code}/"
        assert len([path for path in paths if part in path]) == 1, (part, paths)


@pytest.mark.parametrize("transform", ["hours(at)", "days(at)", "months(at)", "years(at)"])
def test_every_time_that_is_taken_can_be_written_and_read(world: World, batch: str, transform: str) -> None:
    world.dataset = Dataset(world.dataset.table, "id bigint, at timestamp", "parquet", (transform,))
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    endings = ingest(
        world,
        batch,
        {
            f"in/{number}.parquet": parquet(id=[number], at=pa.array([at], pa.timestamp("us", tz="UTC")))
            for number, at in enumerate([0, first, last, first - 1, last + 1, 2**63 - 1])
        },
    )
    assert set(endings) == {"in/3.parquet", "in/4.parquet", "in/5.parquet"}
    assert all("outside the years 0001 to 9999" in error for _, error in endings.values())
    assert world.spark is not None
    assert sorted(row.id for row in world.spark.table(world.dataset.table).select("id").collect()) == [0, 1, 2]


def test_an_upload_read_twice_with_different_endings_is_a_contradiction() -> None:
    endings = Endings()
    once, again = Read(Outcome.COMMITTED, 3), Read(Outcome.VANISHED)
    assert endings.addInPlace({1: once}, {1: once}) == {1: once}
    assert endings.addInPlace({1: once}, {1: again}) == {1: Endings.CONFLICT}


def test_an_attempt_with_a_contradiction_publishes_nothing(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.seal(batch, world.put({"in/a.json": line(1)}))
    attempt = world.attempt(batch, 1)
    attempt.sink.prepare()
    items = attempt.manifest()
    with pytest.raises(Contradiction):
        accounted(batch, items, Staged(1, 0, {0: None}))
    monkeypatch.setattr(Endings, "addInPlace", lambda self, one, two: dict.fromkeys(two, Endings.CONFLICT))
    assert run(attempt, "ingest") == 1
    assert world.ids() == []
    assert world.receipt(batch) is None
