"""`from_key`: columns whose values are in the key of a file."""

import datetime
import io
import re
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.streaming import StreamingReader
from tests.unit.test_settings import GOOD
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.formats.from_key import KeyColumns
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import key_pattern
from tidegate.formats.streams import HeldBytes
from tidegate.reading import reader as reading
from tidegate.reading.decoding import Decoding
from tidegate.reading.reader import Reader
from tidegate.reading.trial import tried
from tidegate.settings import SettingsError, parse

SCHEMA = pa.schema(
    [
        ("year", pa.int32()),
        ("id", pa.int64()),
        ("day", pa.date32()),
        pa.field("shop", pa.string(), nullable=False),
        ("total", pa.decimal128(9, 2)),
    ]
)
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def values(pattern: str, key: str) -> Any:
    found = KeyColumns(pattern, SCHEMA).values(key)
    return {name: value[0].as_py() for name, value in found.items()}


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("year={year}/shop={shop}/", "in/year=2026/shop=eu/a.json", {"year": 2026, "shop": "eu"}),
        ("year={year}/shop={shop}/", "year=0026/shop=a=b/x/y.json", {"year": 26, "shop": "a=b"}),
        ("{shop}/{day}", "eu/2026-03-01/a.json", {"day": datetime.date(2026, 3, 1), "shop": "eu"}),
        ("in/{shop}-{day}.json", "in/eu-1-2026-03-01.json", None),
        ("in/{day}_{shop}.*", "in/2026-03-01_eu-1.json.gz", {"day": datetime.date(2026, 3, 1), "shop": "eu-1"}),
        ("in/*_{shop}", "in/9_eu", {"shop": "eu"}),
        ("in/{shop}", "in/eu.v1.json/b", {"shop": "eu.v1.json"}),
        ("day={day}/{shop}/", "day=__HIVE_DEFAULT_PARTITION__/eu/a", {"day": None, "shop": "eu"}),
        ("{shop}/t={total}/", "in/eu/t=1.50/a", {"shop": "eu", "total": pytest.approx(1.5)}),
        ("a.b/{shop}/", "axb/1/a.b/2/x", {"shop": "2"}),
        ("shop={shop}/", "shop=a%2Fb%3A%25/x", {"shop": "a/b:%"}),
        ("in/{shop}/", "in/a%2Fb/x", {"shop": "a%2Fb"}),
    ],
)
def test_values_are_where_the_pattern_says(pattern: str, key: str, expected: Any):
    if expected is None:
        with pytest.raises(Undecodable, match="its key: day = "):
            values(pattern, key)
        return
    found = values(pattern, key)
    assert {name: float(each) if name == "total" else each for name, each in found.items()} == expected


@pytest.mark.parametrize(
    ("pattern", "key", "why"),
    [
        (
            "year={year}/",
            "in/Year=2026/a",
            "its key 'in/Year=2026/a' does not fit from_key of the route, which is year={year}/",
        ),
        ("year={year}/", "in/myyear=2026/a", "its key 'in/myyear=2026/a' does not fit"),
        ("year={year}/", "in/year=/a", "its key 'in/year=/a' does not fit"),
        ("year={year}/", "in/year=20x6/a", "its key: year = '20x6' "),
        ("year={year}/", "in/year=99999999999/a", "its key: year = 99999999999 is more than int holds"),
        ("day={day}/", "day=2026-02-30/a", "its key: day = '2026-02-30' "),
        ("day={day}/", "day=0000-01-01/a", "its key: day"),
        ("shop={shop}/", "shop=__HIVE_DEFAULT_PARTITION__/a", "its key: shop is null or missing"),
        ("{shop}/t={total}/", "eu/t=1.239/a", "its key: total = 1.239 has 3 decimals"),
    ],
)
def test_a_key_that_does_not_fit_refuses_its_file(pattern: str, key: str, why: str):
    with pytest.raises(Undecodable) as refused:
        values(pattern, key)
    assert str(refused.value).startswith(why)


PARTS = st.lists(st.sampled_from(["{a}", "{b}", "*", "_", "x/", "a=", "/", ".j"]), max_size=6)


@given(PARTS, st.text(st.sampled_from("ab/=_x.j"), max_size=16))
def test_it_finds_what_trying_everything_finds(parts: list[str], key: str):
    pattern = "".join(parts)
    try:
        found = re.search(key_pattern(pattern), key)
    except ValueError:
        return
    slowly = re.escape(pattern).replace(r"\{a\}", "(?P<a>[^/]+?)").replace(r"\{b\}", "(?P<b>[^/]+?)")
    end = "" if pattern.endswith("/") else r"(?=/|\Z)"
    expected = re.search(r"(?:\A|/)" + slowly.replace(r"\*", "[^/]*?") + end, key)
    assert (found and found.groupdict()) == (expected and expected.groupdict())


@pytest.mark.parametrize("pattern", ["{a}_{b}_{c}_{d}.json", "{a}_{b}_{c}_*_{d}.json"])
def test_a_long_key_that_does_not_fit_takes_no_time(pattern: str):
    began = time.perf_counter()
    assert re.search(key_pattern(pattern), "_a" * 480 + ".csv") is None
    assert re.search(key_pattern(pattern), "/_a" * 300 + ".csv") is None
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("dt={year}{month}/", "nothing says where {year} ends and {month} begins"),
        ("{year}*", "nothing says where {year} ends"),
        ("*{year}/", "nothing says where"),
        ("/{year}/", "it fits no key"),
        ("a//{year}", "it fits no key"),
    ],
)
def test_a_pattern_that_would_find_nonsense_is_refused(pattern: str, why: str):
    with pytest.raises(ValueError, match=re.escape(why)):
        key_pattern(pattern)


@given(st.text(st.sampled_from("ab/={}*.é\n"), max_size=12), st.text(st.sampled_from("ab/={}*.é\n"), max_size=20))
def test_any_pattern_is_one_or_is_refused(pattern: str, key: str):
    """And what it finds has no slash, and is in the key."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    try:
        key_pattern(pattern)
    except ValueError:
        return
    try:
        found = KeyColumns(pattern, schema).values(key)
    except Undecodable:
        return
    for value in found.values():
        assert "/" not in value[0].as_py()
        assert value[0].as_py() in key


# ---- files


def dataset(pattern: str, format: str = "json", **more: Any) -> Dataset:
    return Dataset("lake.t", "", format, options=(("from_key", pattern),), **more)


def read(bodies: dict[str, bytes], given: Dataset, monkeypatch: pytest.MonkeyPatch, kind: Any = Reader) -> Any:
    monkeypatch.setattr(reading, "fetch", lambda upload, *_: bodies[upload.key])
    items = [
        (number, OwnedUpload("n" * 40, Upload("b", key, f"etag:{number}", len(body))))
        for number, (key, body) in enumerate(bodies.items())
    ]
    reads: dict[int, Read] = {}
    batches = list(kind(given, SCHEMA, "B1", NOW).read(items, reads.__setitem__))
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["year"], row["id"], row["shop"], row["_source_row"]) for row in rows], reads


BODIES = {
    "year=2026/eu/a.json": b'{"id": 1}\n{"id": 2}\n',
    "year=2025/us/b.json": b'{"id": 3}\n',
    "other/c.json": b'{"id": 4}\n',
    "year=2024/us/d.json": b"",
    "year=20/us/e.json": b'{"id": "x"}\n',
    "year=2023/us/f.json": b'{"id": 5, "year": 1999}\n',
}


@pytest.mark.parametrize("kind", [Reader, StreamingReader])
def test_each_row_has_the_values_of_its_files_key(monkeypatch: pytest.MonkeyPatch, kind: Any):
    """Small files are decoded together. What a file itself has of such a name is not the column's."""
    long = {f"year={year}/eu/l.json": b"".join(b'{"id": %d}\n' % each for each in range(300)) for year in (1, 2)}
    rows, reads = read(BODIES | long, dataset("year={year}/{shop}/"), monkeypatch, kind)
    assert sorted(row for row in rows if row[0] > 2) == [
        (2023, 5, "us", 0),
        (2025, 3, "us", 0),
        (2026, 1, "eu", 0),
        (2026, 2, "eu", 1),
    ]
    assert sorted(row for row in rows if row[0] <= 2) == [(year, at, "eu", at) for year in (1, 2) for at in range(300)]
    assert [reads[each].outcome for each in range(6)] == [
        *(Outcome.COMMITTED, Outcome.COMMITTED, Outcome.QUARANTINED),
        *(Outcome.COMMITTED, Outcome.QUARANTINED, Outcome.COMMITTED),
    ]
    assert reads[2].error == "its key 'other/c.json' does not fit from_key of the route, which is year={year}/{shop}/"
    assert reads[5].unknown == ("year",)


def test_a_path_of_a_value_that_is_too_long_refuses_its_file(monkeypatch: pytest.MonkeyPatch):
    long = "é" * 200
    rows, reads = read(
        {f"year=1/{long}/a.json": b'{"id": 1}\n'}, dataset("year={year}/{shop}/", partition_by=("shop",)), monkeypatch
    )
    assert (rows, reads[0].outcome) == ([], Outcome.QUARANTINED)
    assert "the table is partitioned by column shop" in reads[0].error


def test_what_the_schema_lacks_is_kept_beside(monkeypatch: pytest.MonkeyPatch):
    """Also what a file itself has of a column of the key."""
    options = (("from_key", "year={year}/{shop}/"), ("unknown", "keep"))
    schema = pa.schema([*SCHEMA, pa.field("_unknown", pa.string())])
    decoding = Decoding(Dataset("lake.t", "", "json", options=options), schema)
    (row,) = tried(decoding, "year=1/eu/a", HeldBytes(b'{"id": 1, "year": 5, "a": 2}'), 9).first.to_pylist()
    assert (row["year"], row["shop"], row["_unknown"]) == (1, "eu", '{"a":2,"year":5}')


def test_what_try_shows_has_the_columns_too():
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), buffer)
    decoding = Decoding(dataset("year={year}/{shop}/", "parquet"), SCHEMA)
    found = tried(decoding, "year=2026/eu/a", HeldBytes(buffer.getvalue()), 9)
    assert found.first.select(["year", "id", "shop"]).to_pylist() == [
        {"year": 2026, "id": 1, "shop": "eu"},
        {"year": 2026, "id": 2, "shop": "eu"},
    ]
    assert found.nulls == ("day", "total")
    assert tried(decoding, "x/eu/a", HeldBytes(buffer.getvalue()), 9).reason.startswith("its key 'x/eu/a' does not fit")


def test_the_same_values_are_read_once(monkeypatch: pytest.MonkeyPatch):
    keys = KeyColumns("year={year}/{shop}/", SCHEMA)
    asked: list[Any] = []
    whole = KeyColumns._values
    monkeypatch.setattr(KeyColumns, "_values", lambda self, texts: asked.append(texts) or whole(self, texts))
    for number in range(100):
        keys.values(f"year={number % 3}/eu/{number}.json")
    assert len(asked) == 3


# ---- settings


@pytest.mark.parametrize(
    ("from_key", "why"),
    [
        ("{", "a column of a key is its name in braces, such as year={year}/"),
        ("{a b}/", "a column of a key is its name in braces"),
        ("{id}/{id}", "{id} is there twice"),
        ("year/", "it names no column"),
        ("x/{yeer}/", "the schema has no column `yeer`; it has "),
        ("{id}/", "would be 'flights' for each file: write from_key = \"flights/{id}/\""),
    ],
)
def test_a_pattern_that_finds_no_column_is_told_at_its_place(from_key: str, why: str):
    config = GOOD.replace("[[route]]", f'[[route]]\nfrom_key = "{from_key}"', 1)
    with pytest.raises(SettingsError) as error:
        parse(config)
    assert why in str(error.value)
    assert "from_key" in str(error.value)
