"""`unknown = "keep"`: what the schema lacks is in `_unknown`, value by value, whatever the format of the file is and
however it is read."""

import base64
import datetime
import io
import json
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from tests.unit.test_unknown import streamed_in
from tidegate.core.routes import Dataset
from tidegate.formats import json_lines, json_unknown, rest, streams
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import REST
from tidegate.formats.streams import HeldBytes
from tidegate.formats.unknown import names_of
from tidegate.reading.careful import Limits, Supervisor
from tidegate.reading.decoding import Decoding, Refused
from tidegate.reading.together import Together
from tidegate.schemas import checks, ddl
from tidegate.settings.reading import check

TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "customer": pa.struct([("city", pa.string())]),
    "lines": pa.list_(pa.struct([("sku", pa.string()), ("at", pa.struct([("x", pa.int64())]))])),
    "tags": pa.map_(pa.string(), pa.struct([("n", pa.int64())])),
}
NESTED = pa.schema(list(TYPES.items()))
FLAT = pa.schema([("id", pa.int64()), ("text", pa.string())])


def decoding(format: str, unknown: str = "keep", **options: Any) -> Decoding:
    schema = FLAT if format == "csv" else NESTED
    given = tuple(sorted({**options, "unknown": unknown}.items()))
    full = pa.schema([*schema, pa.field(REST, pa.string())]) if unknown == "keep" else schema
    return Decoding(Dataset("lake.t", "", format, options=given), full)


def table_of(found: Any) -> pa.Table:
    assert isinstance(found, pa.Table), found
    return found


def rest_of(found: pa.Table) -> list[Any]:
    return [None if text is None else json.loads(text, parse_float=str) for text in found[REST].to_pylist()]


# ---- drawn drifts: a file has columns and nested fields that the schema lacks

KINDS = ("text", "whole", "real", "flag", "list", "record", "map", "none")


def value(of: random.Random, kind: str, nulls: bool = True) -> Any:
    """A value of a kind, often null."""
    if kind == "none" or (nulls and of.random() < 0.2):
        return None
    match kind:
        case "text":
            return of.choice(["", "a", 'qu"ote', "back\\slash", "line\nend", "é\u2028", "\x01", "null", "1,5;x"])
        case "whole":
            return of.choice([0, -1, 2**62, of.randrange(10**6)])
        case "real":
            return of.choice([0.5, -1e300, 1e-7, 3.25])
        case "flag":
            return of.random() < 0.5
        case "list":
            return [value(of, "whole", nulls) for _ in range(of.randrange(3))]
        case "map":
            return {each: value(of, "text", nulls) for each in of.sample(["k", 'k"2', "k 3"], of.randrange(3))}
        case _:
            return {"deep": value(of, "text", nulls), "deeper": [value(of, "flag", nulls)]}


ARROW = {
    "text": pa.string(),
    "whole": pa.int64(),
    "real": pa.float64(),
    "flag": pa.bool_(),
    "list": pa.list_(pa.int64()),
    "map": pa.map_(pa.string(), pa.string()),
    "record": pa.struct([("deep", pa.string()), ("deeper", pa.list_(pa.bool_()))]),
    "none": pa.null(),
}
RECORD = {"deep": ["null", "string"], "deeper": {"type": "array", "items": ["null", "boolean"]}}


def avro_of(kind: str, name: str) -> Any:
    inner: Any = {
        "text": "string",
        "whole": "long",
        "real": "double",
        "flag": "boolean",
        "list": {"type": "array", "items": ["null", "long"]},
        "map": {"type": "map", "values": ["null", "string"]},
        "record": record_of(RECORD, name),
    }.get(kind)
    return "null" if inner is None else ["null", inner]


def record_of(fields: dict[str, Any], name: str) -> Any:
    return {"type": "record", "name": name, "fields": [{"name": each, "type": of} for each, of in fields.items()]}


NAMES = ("coupon", "Zone", "id2", "a_b", "_unknown")
OTHERS = ('qu"ote', "ex tra", "é", "a.b")
"""Names that Avro cannot have."""


class Drift:
    """What a producer has added, by a seed: names with kinds, at four places."""

    def __init__(self, seed: int, format: str) -> None:
        self.of = random.Random(seed)
        # of nulls within nested values Arrow writes other values to ORC (pyarrow 26.0.1)
        self.nulls = format != "orc"
        names = NAMES if format == "avro" else NAMES + OTHERS
        kinds = ("text",) if format == "csv" else KINDS if format in ("json", "parquet", "avro") else KINDS[:-1]
        places = ["row"] if format == "csv" else ["row", "customer", "lines", "at", "tags"]
        self.added = {
            place: {name: self.of.choice(kinds) for name in self.of.sample(names, self.of.randrange(3))}
            for place in places
        }
        self.rows = [self._row(format) for _ in range(self.of.randrange(1, 5))]

    def _some(self, share: float) -> bool:
        return not self.nulls or self.of.random() < share

    def _with(self, place: str, own: dict[str, Any]) -> dict[str, Any]:
        more = {name: value(self.of, kind, self.nulls) for name, kind in self.added[place].items()}
        return {**own, **more}

    def _row(self, format: str) -> dict[str, Any]:
        number = self.of.randrange(100)
        if format == "csv":
            return self._with("row", {"id": number, "text": "t"})
        lines = [
            self._with("lines", {"sku": "s", "at": self._with("at", {"x": 1}) if self._some(0.7) else None})
            for _ in range(self.of.randrange(3))
        ]
        own = {
            "id": number,
            "customer": self._with("customer", {"city": "R"}) if self._some(0.8) else None,
            "lines": lines if self._some(0.8) else None,
            "tags": {key: self._with("tags", {"n": 1}) for key in self.of.sample("xy", self.of.randrange(3))},
        }
        return self._with("row", own)

    # as files

    def body(self, format: str) -> bytes:
        match format:
            case "json":
                return "".join(
                    json.dumps(row, ensure_ascii=self.of.random() < 0.5) + "\n" for row in self.rows
                ).encode()
            case "csv":
                names = list(self.rows[0])
                cells = [[self._cell(row[name]) for name in names] for row in self.rows]
                return "".join(",".join(each) + "\n" for each in [list(map(self._cell, names)), *cells]).encode()
            case "avro":
                buffer = io.BytesIO()
                fastavro.writer(buffer, self._avro(), self.rows, sync_interval=40)
                return buffer.getvalue()
        buffer = io.BytesIO()
        table = pa.Table.from_pylist([self._paired(row) for row in self.rows], self._arrow())
        if format == "parquet":
            pq.write_table(table, buffer, row_group_size=2)
        else:
            pyarrow.orc.write_table(table, buffer)
        return buffer.getvalue()

    @staticmethod
    def _cell(value: Any) -> str:
        return (
            "" if value is None else '"' + str(value).replace('"', '""') + '"' if isinstance(value, str) else str(value)
        )

    def _paired(self, value: Any, maps: bool = False) -> Any:
        """Maps as Arrow takes them."""
        if isinstance(value, list):
            return [self._paired(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {
            name: list((key, self._paired(each)) for key, each in inner.items())
            if isinstance(inner, dict) and (name == "tags" or self._is_map(name, value, inner))
            else self._paired(inner)
            for name, inner in value.items()
        }

    def _is_map(self, name: str, within: dict[str, Any], inner: dict[str, Any]) -> bool:
        return name != "customer" and name != "at" and "deep" not in inner

    def _struct(self, place: str, own: list[tuple[str, pa.DataType]]) -> pa.DataType:
        return pa.struct([*own, *((name, ARROW[kind]) for name, kind in self.added[place].items())])

    def _arrow(self) -> pa.Schema:
        at = self._struct("at", [("x", pa.int64())])
        return pa.schema(
            [
                ("id", pa.int64()),
                ("customer", self._struct("customer", [("city", pa.string())])),
                ("lines", pa.list_(self._struct("lines", [("sku", pa.string()), ("at", at)]))),
                ("tags", pa.map_(pa.string(), self._struct("tags", [("n", pa.int64())]))),
                *((name, ARROW[kind]) for name, kind in self.added["row"].items()),
            ]
        )

    def _avro(self) -> Any:
        def more(place: str) -> dict[str, Any]:
            return {name: avro_of(kind, f"r_{place}_{name}") for name, kind in self.added[place].items()}

        at = record_of({"x": "long", **more("at")}, "at")
        lines = record_of({"sku": "string", "at": ["null", at], **more("lines")}, "line")
        fields = {
            "id": "long",
            "customer": ["null", record_of({"city": "string", **more("customer")}, "customer")],
            "lines": ["null", {"type": "array", "items": lines}],
            "tags": {"type": "map", "values": record_of({"n": "long", **more("tags")}, "tag")},
            **more("row"),
        }
        return fastavro.parse_schema(record_of(fields, "row"))

    # what has to be kept, by the plainest way

    def expected(self, *, nulls: bool) -> list[Any]:
        return [self._beyond(row, "row", nulls) for row in self.rows]

    def _beyond(self, given: Any, place: str, nulls: bool) -> Any:
        if given is None:
            return None
        found = {
            name: plain(given[name], nulls=nulls, of=kind)
            for name, kind in self.added[place].items()
            if nulls or given[name] is not None
        }
        if place == "row" and "tags" in given:
            lines = [self._beyond(each, "lines", nulls) for each in given["lines"] or ()]
            tags = {key: self._beyond(each, "tags", nulls) for key, each in given["tags"].items()}
            found["customer"] = self._beyond(given["customer"], "customer", nulls)
            found["lines"] = lines if any(lines) else None
            found["tags"] = {key: each for key, each in tags.items() if each} or None
            found = {
                name: each
                for name, each in found.items()
                if each is not None or name not in ("customer", "lines", "tags")
            }
        if place == "lines" and (at := self._beyond(given["at"], "at", nulls)):
            found["at"] = at
        return found or None


def plain(value: Any, *, nulls: bool, of: str) -> Any:
    """A kept value as a reader of JSON has it. JSON keeps its nulls; elsewhere a member that is null is left out."""
    if isinstance(value, float):
        return repr(value)
    if of == "record" and value is not None and not nulls:
        return {name: each for name, each in value.items() if each is not None}
    return value


def same(found: Any) -> Any:
    """Numbers with a point, which were read as text, by their value."""
    if isinstance(found, dict):
        return {name: same(each) for name, each in found.items()}
    if isinstance(found, list):
        return [same(each) for each in found]
    try:
        return float(found) if isinstance(found, str) and ("." in found or "e" in found) else found
    except ValueError:
        return found


DRIFTS = {"json": 1500, "csv": 1000, "parquet": 1250, "avro": 1250, "orc": 100}
"""More than 5,000. They have names at each level, values of each kind, nulls and odd characters."""
FEW = 60


@pytest.mark.parametrize("format", DRIFTS)
def test_no_value_is_lost_of_a_drawn_drift(format: str):
    loses_nothing(format, range(FEW))


@pytest.mark.parametrize("format", DRIFTS)
def test_no_value_is_lost_of_thousands_of_drawn_drifts(format: str):
    loses_nothing(format, range(FEW, DRIFTS[format]))


def loses_nothing(format: str, seeds: range) -> None:
    of = decoding(format)
    for seed in seeds:
        drift = Drift(seed, format)
        found = table_of(of("k", drift.body(format)))
        assert same(rest_of(found)) == same(drift.expected(nulls=format == "json")), seed
        ours = decoding(format, "report")("k", drift.body(format))
        assert found.drop_columns(REST).replace_schema_metadata(None) == table_of(ours).replace_schema_metadata(None)
        assert names_of(found) == names_of(table_of(ours))


@pytest.mark.parametrize("format", DRIFTS)
def test_each_way_of_reading_keeps_the_same(format: str):
    of = decoding(format)
    bodies = [Drift(seed, format).body(format) for seed in range(60)]
    alone = [table_of(decoding(format)("k", body)) for body in bodies]
    for portion in Together(of)([("k", body) for body in bodies]):
        assert not portion.refused
        for span in portion.spans:
            expected = pa.concat_tables([alone[each].replace_schema_metadata(None) for each in span.files])
            assert span.table.replace_schema_metadata(None) == expected
    for body, whole in zip(bodies, alone, strict=True):
        for size in (7, 1 << 20):
            tables = list(streamed_in(size, lambda body=body: of.streamed("k", HeldBytes(body))))
            assert pa.concat_tables(tables).to_pylist() == whole.to_pylist()
    with Supervisor(decoding(format), Limits(memory=1 << 30, seconds=60)) as supervisor:
        for body, whole in zip(bodies[:5], alone[:5], strict=True):
            assert table_of(supervisor("k", body)).to_pylist() == whole.to_pylist()


def test_the_text_of_a_line_is_the_same_whatever_came_before():
    """The decoder learns names from earlier lines and files."""
    lines = [b'{"id":1,"b":1,"a":{"x": 1.50}}\n', b'{"id":1,"a":2,"b":1e999,"c":"\\u00e9"}\n', b'{"id":1}\n']
    with patch.object(json_lines, "BLOCK_BYTES", 10), patch.object(json_unknown, "MOST_BESIDE", 2):
        of = decoding("json")
        for _ in range(3):
            found = table_of(of("k", b"".join(lines)))
            assert found[REST].to_pylist() == ['{"a":{"x": 1.50},"b":1}', '{"a":2,"b":1e999,"c":"\\u00e9"}', None]
        assert table_of(of("k", lines[1])).to_pylist() == table_of(decoding("json")("k", lines[1])).to_pylist()


def test_values_of_each_type_are_text_that_says_them_all():
    utc = datetime.UTC
    columns = {
        "bytes": pa.array([b"\x00\xff"]),
        "day": pa.array([datetime.date(2026, 3, 1)]),
        "digits": pa.array([Decimal("12.50")], pa.decimal128(9, 2)),
        "instant": pa.array([datetime.datetime(2026, 3, 1, 12, tzinfo=utc)], pa.timestamp("us", "Europe/Berlin")),
        "local": pa.array([datetime.datetime(2026, 3, 1, 12)], pa.timestamp("us")),
        "nanos": pa.array([1], pa.timestamp("ns")),
        "nan": pa.array([float("nan")]),
        "pair": pa.array([[1, None]], pa.list_(pa.int8(), 2)),
        "small": pa.array([1.5], pa.float16()),
        "span": pa.array([90_000_000], pa.duration("us")),
        "time": pa.array([datetime.time(1, 2, 3)]),
        "word": pa.array(["a"]).dictionary_encode(),
    }
    table = pa.table({"id": [1], **columns})
    (text,) = rest.rest_of(table, pa.schema([("id", pa.int64())])).to_pylist()
    assert json.loads(text) == {
        "bytes": base64.b64encode(b"\x00\xff").decode(),
        "day": "2026-03-01",
        "digits": 12.5,
        "instant": "2026-03-01T12:00:00.000000Z",
        "local": "2026-03-01T12:00:00.000000",
        "nanos": "1970-01-01T00:00:00.000000001",
        "nan": "nan",
        "pair": [1, None],
        "small": 1.5,
        "span": 90_000_000,
        "time": "01:02:03.000000",
        "word": "a",
    }
    assert '"digits":12.50,' in text


def test_a_file_without_a_column_of_the_schema_is_still_of_another_kind():
    for format, body in {"json": b'{"a": 1}\n', "csv": b"a,b\n1,2\n"}.items():
        found = decoding(format)("k", body)
        assert isinstance(found, Refused), format
        assert "the file has none of the schema's columns" in found.reason
        portions = list(Together(decoding(format))([("k", body), ("l", body)]))
        assert [sorted(each.refused) for each in portions if each.refused] == [[0], [1]]


def test_a_bad_row_is_set_aside_and_its_neighbours_keep_theirs():
    body = b'{"id": 1, "a": 1}\n{"id": "x", "a": 2}\n{"id": 3, "a": 3}\n'
    found = table_of(decoding("json", bad_rows_share=0.5)("k", body))
    assert [(row["id"], row[REST]) for row in found.to_pylist()] == [(1, '{"a":1}'), (3, '{"a":3}')]


def test_an_avro_value_of_several_types_refuses_its_file():
    buffer = io.BytesIO()
    fields = {"id": "long", "either": ["null", "long", "string"]}
    fastavro.writer(buffer, record_of(fields, "row"), [{"id": 1, "either": "x"}])
    found = decoding("avro")("k", buffer.getvalue())
    assert isinstance(found, Refused)
    assert found.reason == (
        'column either: long or string in the file: a value of several types is not kept: set unknown = "report"'
    )


def test_a_damaged_text_of_a_column_beyond_the_schema_refuses_its_file():
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": [1], "text": broken}), buffer)
    found = decoding("parquet")("k", buffer.getvalue())
    assert isinstance(found, Refused)
    assert found.reason.startswith("column text cannot be kept: ")


# ---- what is refused, and how much memory it takes


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(
        pa.table({"id": pa.array([1] * len(next(iter(columns.values()))), pa.int64()), **columns}), buffer, **options
    )
    return buffer.getvalue()


def doubled() -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(["first"]), pa.array(["second"])], names=["a", "a"])


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (doubled(), "several fields are called 'a'"),
        (pa.array([2**62], pa.timestamp("us")), "a date or a time is out of range"),
        (pa.array([2**31 - 1], pa.date32()), "a date or a time is out of range"),
        (pa.array([[({"a": 1}, 2)]], pa.map_(pa.struct([("a", pa.int8())]), pa.int8())), "has no text in JSON"),
    ],
)
def test_what_has_no_text_refuses_its_file(column: pa.Array, why: str):
    table = pa.table({"id": [1], "odd": column})
    with pytest.raises(Undecodable, match=f"column odd cannot be kept: .*{why}"):
        rest.rest_of(table, pa.schema([("id", pa.int64())]))


def test_a_file_that_would_land_without_what_is_kept_says_so():
    found = decoding("csv")("k", b"id,text,o\xffd\n1,a,b\n")
    assert isinstance(found, Refused)
    assert found.reason.endswith('That is beyond the schema: set unknown = "report"')
    worse = decoding("csv")("k", b"id,text,o\xffd\nx,a,b\n")
    assert isinstance(worse, Refused)
    assert "unknown" not in worse.reason


def test_times_of_int96_are_instants_at_any_depth():
    at = pa.array([datetime.datetime(2026, 3, 1)], pa.timestamp("us"))
    inside = pa.StructArray.from_arrays([at, pa.array(["R"])], names=["seen", "city"])
    lists = pa.array([[{"at": at[0].as_py()}]], pa.list_(pa.struct([("at", pa.timestamp("us"))])))
    body = parquet({"customer": inside, "ev": lists, "top": at}, use_deprecated_int96_timestamps=True)
    (found,) = rest_of(table_of(decoding("parquet")("k", body)))
    text = "2026-03-01T00:00:00.000000Z"
    assert found == {"customer": {"seen": text}, "ev": [{"at": text}], "top": text}


def test_nulls_over_values_are_nulls():
    """An array may have values where it is null."""
    valid = pa.py_buffer(bytes([0b101]))
    items = pa.array(
        [{"sku": "s", "more": number} for number in range(6)], pa.struct([("sku", pa.string()), ("more", pa.int8())])
    )
    offsets = pa.py_buffer(np.array([0, 2, 4, 6], np.int32).tobytes())
    lists = pa.Array.from_buffers(pa.list_(items.type), 3, [valid, offsets], children=[items])
    wanted = pa.list_(pa.struct([("sku", pa.string())]))
    assert rest.beyond(lists, wanted).to_pylist() == ['[{"more":0},{"more":1}]', None, '[{"more":4},{"more":5}]']
    over = pa.StructArray.from_arrays([lists], names=["l"], mask=pa.array([True, False, False]))
    assert rest.beyond(over, pa.struct([("l", wanted)])).to_pylist() == [None, None, '{"l":[{"more":4},{"more":5}]}']


NAME = "n" * 200


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_names_within_values_count_where_a_file_is_divided(format: str, monkeypatch: pytest.MonkeyPatch):
    """They are in the file once, and in the text of each value."""
    monkeypatch.setattr(streams, "PIECE_MEMORY", 100_000)
    rows = [{"id": each, "l": [{NAME: True}] * 20} for each in range(400)]
    buffer = io.BytesIO()
    kinds = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.struct([(NAME, pa.bool_())])))])
    if format == "avro":
        inner = {"type": "array", "items": record_of({NAME: "boolean"}, "inner")}
        fastavro.writer(buffer, record_of({"id": "long", "l": inner}, "row"), rows)
    elif format == "orc":
        pyarrow.orc.write_table(pa.Table.from_pylist(rows, kinds), buffer)
    else:
        pq.write_table(pa.Table.from_pylist(rows, kinds), buffer)
    of = decoding(format)
    sizes = [table[REST].nbytes for table in of.streamed("k", HeldBytes(buffer.getvalue()))]
    assert sum(sizes) > 400 * 20 * 200
    assert max(sizes) < 150_000
    small = Dataset("lake.t", "", format, options=of.dataset.options, max_object_bytes=1_000_000)
    refused = Decoding(small, of.schema)("k", buffer.getvalue())
    assert isinstance(refused, Refused)
    assert "too large: more than 1000000 bytes" in refused.reason


def test_names_count_in_csv_joined_or_in_pieces():
    body = (f"id,{NAME * 100}\n" + "1,2\n" * 10_000).encode()
    of = decoding("csv")
    portions = list(Together(of)([("k", body), ("l", body)]))
    assert all(span.files for portion in portions for span in portion.spans if len(span.files) < 2)
    assert [len(span.files) for portion in portions for span in portion.spans] in ([], [1, 1])
    small = Dataset("lake.t", "", "csv", options=of.dataset.options, max_object_bytes=10_000_000)
    with pytest.raises(Undecodable, match="too large: more than 10000000 bytes"):
        list(Decoding(small, of.schema).streamed("k", HeldBytes(body)))


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_a_file_without_unknown_names_is_as_large_as_it_was(format: str):
    """The column of what is kept is no column of the file."""
    schema = pa.schema([("id", pa.int64())])
    body = {"json": b'{"id": 1}\n' * 10_000, "csv": b"id\n" + b"1\n" * 10_000}.get(format) or parquet(
        {"id": [1] * 10_000}
    )
    for most in (79_000, 81_000, 160_000):
        given = Dataset("lake.t", "", format, options=(("unknown", "keep"),), max_object_bytes=most)
        kept = Decoding(given, pa.schema([*schema, pa.field(REST, pa.string())])).decode("k", body)
        plain = Decoding(replace(given, options=()), schema).decode("k", body)
        assert isinstance(kept, pa.Table) == isinstance(plain, pa.Table), most


def test_each_portion_of_rows_is_escaped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rest, "ROWS", 2)
    table = pa.table({"id": [1, 2, 3], "a": ["x", "y", 'q"']})
    texts = rest.rest_of(table, pa.schema([("id", pa.int64())])).to_pylist()
    assert [json.loads(each) for each in texts] == [{"a": "x"}, {"a": "y"}, {"a": 'q"'}]


@pytest.mark.parametrize(
    ("format", "good", "other"), [("json", b'{"id": 1}\n', b'{"a": 1}\n'), ("csv", b"id,a\n1,x\n", b"id,a\n,x\n")]
)
def test_a_file_without_a_value_of_the_schema_among_others_is_as_it_is_alone(format: str, good: bytes, other: bytes):
    alone = decoding(format)("k", other)
    found = list(Together(decoding(format))([("k", good), ("l", other), ("m", good)]))
    assert {each for portion in found for each in portion.refused} == ({1} if isinstance(alone, Refused) else set())


def test_a_large_file_without_a_column_of_the_schema_is_of_another_kind():
    with pytest.raises(Undecodable, match="none of the schema's columns"):
        list(decoding("json").streamed("k", HeldBytes(b'{"a": 1}\n' * 3)))


def test_names_are_in_order_in_whatever_order_they_were_learned():
    of = decoding("json")
    first, both = b'{"id":1,"z":1}\n', b'{"id":1,"a":2,"z":1}\n'
    with patch.object(json_lines, "BLOCK_BYTES", 1):
        for _ in range(3):
            found = table_of(of("k", first + both + both))
            assert found[REST].to_pylist() == ['{"z":1}', *['{"a":2,"z":1}'] * 2]


@pytest.mark.parametrize("name", ["_unknown", "_Unknown"])
def test_a_column_of_its_name_is_refused_in_any_case(name: str):
    columns = ddl.parse(f"id bigint, {name} string").columns
    (found,) = checks.mistakes(columns, "json", keeps=True)
    assert found.message.startswith(f"`{name}`: Tidegate adds this column itself")
    assert not list(checks.mistakes(columns, "json"))


def test_routes_of_one_table_agree_on_the_column_of_what_is_kept():
    route = """
[[route]]
name = "{name}"
bucket = "landing"
prefix = "{name}/"
suffix = ".json"
format = "json"
table = "lake.raw.t"
schema = "id bigint{more}"
"""
    keeps = route.format(name="a", more="") + 'unknown = "keep"\n'
    for more, fits in (("", True), (", _unknown bigint", False)):
        found = check(keeps + route.format(name="b", more=more))
        said = [each.message for each in found.mistakes if "_unknown" in each.message]
        assert said == ([] if fits else ["column `_unknown` is bigint here and string in route 'a' of the same table"])
