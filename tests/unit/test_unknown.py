"""Columns of a file that the schema lacks are said: at any depth, of each format, the same whichever way it is read."""

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.core import unknown as kept
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.routes import Dataset
from tidegate.core.splits import joined
from tidegate.core.unknown import few
from tidegate.formats import json_lines, json_unknown, streams, unknown
from tidegate.formats.said import Said, said_of
from tidegate.formats.splits import Split, Splitter
from tidegate.formats.streams import HeldBytes
from tidegate.formats.unknown import MORE, names_of
from tidegate.reading import together
from tidegate.reading.careful import Limits, Supervisor
from tidegate.reading.decoding import Decoding, Refused
from tidegate.reading.streamed import streamed
from tidegate.reading.together import Together
from tidegate.reading.trial import tried

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.struct([("city", pa.string())])),
        ("lines", pa.list_(pa.struct([("sku", pa.string())]))),
        ("tags", pa.map_(pa.string(), pa.struct([("n", pa.int64())]))),
    ]
)
FLAT = pa.schema([("id", pa.int64()), ("text", pa.string())])
ROW: dict[str, Any] = {
    "id": 1,
    "customer": {"city": "Riga", "vip": True},
    "lines": [{"sku": "a"}, {"sku": "b", "colour": "red"}],
    "tags": {"x": {"n": 1, "by": "me"}},
    "coupon": "ABC",
}
NAMES = ("coupon", "customer.vip", "lines[].colour", "tags[].by")
TYPES = {
    "customer": pa.struct([("city", pa.string()), ("vip", pa.bool_())]),
    "lines": pa.list_(pa.struct([("sku", pa.string()), ("colour", pa.string())])),
    "tags": pa.map_(pa.string(), pa.struct([("n", pa.int64()), ("by", pa.string())])),
}
AVRO: dict[str, Any] = {
    "id": "long",
    "customer": {
        "type": "record",
        "name": "c",
        "fields": [{"name": "city", "type": "string"}, {"name": "vip", "type": "boolean"}],
    },
    "lines": {
        "type": "array",
        "items": {
            "type": "record",
            "name": "l",
            "fields": [{"name": "sku", "type": "string"}, {"name": "colour", "type": ["null", "string"]}],
        },
    },
    "tags": {
        "type": "map",
        "values": {
            "type": "record",
            "name": "t",
            "fields": [{"name": "n", "type": "long"}, {"name": "by", "type": "string"}],
        },
    },
    # what is in it is not looked at
    "coupon": {"type": "record", "name": "q", "fields": [{"name": "code", "type": "string"}]},
}


def decoding(format: str, schema: pa.Schema = SCHEMA, **options: Any) -> Decoding:
    return Decoding(Dataset("lake.t", "", format, options=tuple(sorted(options.items()))), schema)


def jsonl(*rows: Any, end: str = "\n") -> bytes:
    return "".join(json.dumps(row) + end for row in rows).encode()


def table(count: int = 1) -> pa.Table:
    row = ROW | {"tags": list(ROW["tags"].items())}
    columns = {"coupon": pa.string(), "id": pa.int64(), **TYPES}
    return pa.Table.from_pylist([row] * count, pa.schema(list(columns.items())))


def file_of(format: str, count: int = 1) -> bytes:
    """A file whose columns and nested fields are those of `ROW`."""
    buffer = io.BytesIO()
    match format:
        case "json":
            return jsonl(*[ROW] * count)
        case "parquet":
            pq.write_table(table(count), buffer, row_group_size=2)
        case "orc":
            pyarrow.orc.write_table(table(count), buffer)
        case "avro":
            fields = [{"name": name, "type": kind} for name, kind in AVRO.items()]
            row = ROW | {"coupon": {"code": "ABC"}, "lines": [{"colour": None} | each for each in ROW["lines"]]}
            fastavro.writer(buffer, {"type": "record", "name": "r", "fields": fields}, [row] * count, sync_interval=1)
        case "csv":
            return b"coupon,id,text,note\n" + b"a,1,b,c\n" * count
    return buffer.getvalue()


WIDE = {"json": NAMES, "parquet": NAMES, "orc": NAMES, "avro": NAMES, "csv": ("coupon", "note")}


def schema_of(format: str) -> pa.Schema:
    return FLAT if format == "csv" else SCHEMA


def rows_of(found: pa.Table | Refused | Any) -> pa.Table:
    assert isinstance(found, pa.Table), found
    return found


# ---- each way of reading a file


def alone(of: Decoding, body: bytes) -> tuple[str, ...] | None:
    found = of("k", body)
    return few(names_of(found)) if isinstance(found, pa.Table) else None


def in_pieces(of: Decoding, body: bytes, size: int = 40) -> tuple[str, ...] | None:
    return reported(streamed_in(size, lambda: of.streamed("k", HeldBytes(body))))


def streamed_in(size: int, tables: Any) -> Iterator[pa.Table]:
    whole = streams.Stream.pieces
    with patch.object(streams.Stream, "pieces", lambda stream: whole(stream, size)):
        yield from tables()


def in_splits(of: Decoding, body: bytes, most: int = 60) -> tuple[str, ...] | None:
    """None if the file is not split, or one of its splits is refused."""
    splitter: Splitter | None = of.splitter
    assert splitter is not None
    with patch.object(streams, "RANGE_BYTES", 24):
        source = HeldBytes(body)
        surveys = [splitter.survey(source, *each) for each in splitter.ranges(len(body), most)]
        splits: Sequence[Split] = splitter.cut(surveys, len(body), most)
    ended: list[Read | None] = []
    for split in splits:
        reads: list[Read] = []
        list(streamed(of.split("k", HeldBytes(body), split), lambda table, _: iter(table.to_batches()), reads.append))
        ended += reads
    found = joined(ended) if ended else None
    return found.unknown if found and found.outcome is Outcome.COMMITTED else None


def reported(tables: Iterator[pa.Table]) -> tuple[str, ...] | None:
    reads: list[Read] = []
    list(streamed(tables, lambda table, _: iter(table.to_batches()), reads.append))
    return reads[0].unknown if reads[0].outcome is Outcome.COMMITTED else None


@pytest.mark.parametrize("format", WIDE)
def test_each_format_says_the_names_at_any_depth(format: str):
    found = alone(decoding(format, schema_of(format)), file_of(format))
    assert found is not None
    assert sorted(found) == sorted(WIDE[format])


@pytest.mark.parametrize("format", WIDE)
def test_each_way_of_reading_says_the_same(format: str):
    of, body = decoding(format, schema_of(format)), file_of(format, 9)
    expected = alone(of, body)
    assert expected
    assert in_pieces(of, body) == expected
    assert tried(of, "k", HeldBytes(body), 1).unknown == expected
    with Supervisor(decoding(format, schema_of(format)), Limits(memory=1 << 30, seconds=60)) as supervisor:
        assert few(names_of(rows_of(supervisor("k", body)))) == expected
        assert reported(supervisor.streamed("k", HeldBytes(body))) == expected
    if format in ("json", "csv", "parquet"):
        assert in_splits(of, body) == expected


@pytest.mark.parametrize("format", [each for each in WIDE if each != "json"])
def test_a_file_without_rows_states_its_columns_too(format: str):
    """Where a child sends tables, it sends those without rows."""
    of, body = decoding(format, schema_of(format)), file_of(format, 0)
    expected = alone(of, body)
    assert expected is not None
    assert set(expected) == set(WIDE[format])
    assert in_pieces(of, body) == expected
    if format != "parquet":
        return
    with Supervisor(decoding(format, schema_of(format)), Limits(memory=1 << 30, seconds=60)) as supervisor:
        assert reported(supervisor.streamed("k", HeldBytes(body))) == expected


@pytest.mark.parametrize("format", WIDE)
def test_nothing_is_said_of_a_file_that_has_what_the_schema_has(format: str):
    schema = schema_of(format)
    body = {"json": b'{"id": 1}\n', "csv": b"id\n1\n"}.get(format)
    if body is None:
        body = _narrow(format)
    assert alone(decoding(format, schema), body) == ()


def _narrow(format: str) -> bytes:
    buffer = io.BytesIO()
    narrow = pa.table({"id": [1]})
    if format == "parquet":
        pq.write_table(narrow, buffer)
    elif format == "orc":
        pyarrow.orc.write_table(narrow, buffer)
    else:
        fields = [{"name": "id", "type": "long"}]
        fastavro.writer(buffer, {"type": "record", "name": "r", "fields": fields}, [{"id": 1}])
    return buffer.getvalue()


# ---- JSON: line by line

VALUES: Any = st.recursive(
    st.none() | st.integers(0, 9),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)
LINE: Any = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(0, 9),
        "customer": st.none() | st.fixed_dictionaries({}, optional={"city": st.just("R"), "vip": VALUES, "é": VALUES}),
        "lines": st.none()
        | st.lists(st.none() | st.fixed_dictionaries({}, optional={"sku": st.none(), "colour": VALUES}), max_size=2),
        "tags": st.none()
        | st.dictionaries(
            st.sampled_from("xy"), st.none() | st.fixed_dictionaries({}, optional={"by": VALUES}), max_size=2
        ),
        "coupon": VALUES,
        "ex tra": VALUES,
        'qu"ote': VALUES,
    },
)
TEXT = st.tuples(LINE.map(json.dumps), st.sampled_from(["\n", "\n", "\n", "\r\n", " \n", "\n\n"])).map("".join)
FILE = st.lists(TEXT, max_size=6).map("".join).map(str.encode)


def expected_of(line: Any) -> set[str]:
    """By the plainest way."""
    found = {name for name in line if name not in SCHEMA.names}
    found |= {f"customer.{name}" for name in line.get("customer") or () if name != "city"}
    found |= {f"lines[].{name}" for each in line.get("lines") or () for name in each or () if name != "sku"}
    return found | {
        f"tags[].{name}" for each in (line.get("tags") or {}).values() for name in each or () if name != "n"
    }


@given(st.lists(FILE, max_size=5), st.integers(1, 200), st.integers(1, 4))
@settings(deadline=None)
def test_lines_of_json_say_their_names_in_any_blocks(bodies: list[bytes], block: int, beside: int):
    """Also if the types for the lines take names that others have had before, or no more of them."""
    with patch.object(json_lines, "BLOCK_BYTES", block), patch.object(json_unknown, "MOST_BESIDE", beside):
        of = decoding("json")
        for body in bodies:
            found = of("k", body)
            if isinstance(found, Refused):
                continue
            lines = [json.loads(text) for text in body.splitlines() if text.strip()]
            said = said_of(found).unknown
            by_row = [
                {name for name, rows in said.items() if any(begin <= row < end for begin, end in rows or ())}
                for row in range(len(lines))
            ]
            assert by_row == list(map(expected_of, lines))


@given(st.lists(FILE, max_size=5), st.integers(1, 60))
@settings(deadline=None)
def test_each_way_of_reading_json_says_the_same(bodies: list[bytes], size: int):
    of, other = decoding("json"), decoding("json")
    found = {number: alone(of, body) for number, body in enumerate(bodies)}
    assert by_file(other, bodies) == found
    for number, body in enumerate(bodies):
        if found[number] is not None:
            assert in_pieces(other, body, size) == found[number]
            assert not body or in_splits(other, body, max(size, 9)) in (None, found[number])


def by_file(of: Decoding, bodies: Sequence[bytes]) -> dict[int, tuple[str, ...] | None]:
    found: dict[int, tuple[str, ...] | None] = {}
    for portion in Together(of)([("k", body) for body in bodies]):
        found |= dict.fromkeys(portion.refused)
        for span in portion.spans:
            found |= dict(zip(span.files, map(tuple, span.unknown), strict=True))
    return found


def test_files_that_are_joined_have_their_own_names():
    bodies = [jsonl({"id": 1}, {"id": 2, "b": 1, "a": 1}), b"", jsonl({"id": 1, "a": 2}), jsonl({"id": 1})]
    assert by_file(decoding("json"), bodies) == {0: ("a", "b"), 1: (), 2: ("a",), 3: ()}
    csv = [b"id,b,a\n1,2,3\n", b"id,b,a\n", b"id\n1\n"]
    assert by_file(decoding("csv", FLAT), csv) == {0: ("b", "a"), 1: ("b", "a"), 2: ()}


def test_files_with_too_many_names_for_one_table_are_not_joined(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_unknown, "MOST_OF_A_TABLE", 3)
    bodies = [jsonl({"id": 1, f"a{number}": 1, f"b{number}": 1}) for number in range(4)]
    assert by_file(decoding("json"), bodies) == {n: (f"a{n}", f"b{n}") for n in range(4)}


def test_so_many_ranges_are_said_that_joined_files_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    """A name, its quotes, a colon and a value take six bytes with what parts them from others."""
    assert (together.JOINED_BYTES + together.PIECE_BYTES) / 6 < json_unknown.MOST_RANGES
    monkeypatch.setattr(json_unknown, "MOST_RANGES", 2)
    found = rows_of(decoding("json")("k", jsonl(*({"id": n, **({"a": 1} if n % 2 else {})} for n in range(9)))))
    assert said_of(found) == Said({"a": ((1, 2), (3, 8))})


def test_a_file_has_fifty_names_at_most_and_says_that_there_are_more():
    row = {"id": 1, **{f"n{number:03}": 1 for number in range(60)}}
    found = alone(decoding("json"), jsonl(row))
    assert found == (*(f"n{number:03}" for number in range(50)), MORE)
    assert in_pieces(decoding("json"), jsonl({"id": 1}, row, row)) == found
    assert MORE == kept.MORE


def test_names_can_be_shown_and_are_cut():
    row = {"id": 1, "a\nb\x1b[31m": 1, "x" * 200: 1, "": 1, "größe": 1}
    found = alone(decoding("json"), jsonl(row))
    assert found == ('""', "a\\nb\\x1b[31m", "größe", "x" * 100 + "...")
    assert unknown.called("a\ud800") == "a\\ud800"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_last_of_two_equal_keys_counts(end: str):
    body = f'{{"id": 1, "customer": {{"vip": 1}}, "customer": {{}}}}{end}'.encode()
    assert alone(decoding("json"), body) == ()
    assert alone(decoding("json", unknown="refuse"), body) == ()


# ---- what becomes of them


@pytest.mark.parametrize("format", WIDE)
def test_whoever_ignores_them_gets_the_same_rows_and_nothing_is_said(format: str):
    schema, body = schema_of(format), file_of(format, 3)
    found, silent = (decoding(format, schema, unknown=each)("k", body) for each in ("report", "ignore"))
    assert rows_of(silent).equals(rows_of(found))
    assert said_of(rows_of(silent)) == Said()
    assert in_pieces(decoding(format, schema, unknown="ignore"), body) == ()


WAYS_OUT = 'add them to the schema of the route, take them out of the files, or set unknown = "report"'


def refusal(of: Decoding, body: bytes) -> Refused:
    found = of("k", body)
    assert isinstance(found, Refused), found
    return found


@pytest.mark.parametrize(
    ("format", "names"),
    [
        ("csv", "coupon and note"),
        ("parquet", "coupon, customer.vip, lines[].colour and tags[].by"),
        ("orc", "coupon, customer.vip, lines[].colour and tags[].by"),
        ("avro", "customer.vip, lines[].colour, tags[].by and coupon"),
    ],
)
def test_a_file_that_states_others_is_refused_before_a_row_of_it_lands(format: str, names: str):
    of = decoding(format, schema_of(format), unknown="refuse")
    reason = f"the file has columns that the schema lacks: {names}: {WAYS_OUT}"
    assert refusal(of, file_of(format)) == Refused(reason)
    reads: list[Read] = []
    list(streamed(of.streamed("k", HeldBytes(file_of(format, 5))), lambda table, _: iter([table]), reads.append))
    assert reads == [Read(Outcome.QUARANTINED, 0, reason)]


@pytest.mark.parametrize("size", [9, 40, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_first_line_with_others_is_named_wherever_the_file_is_cut(end: str, size: int):
    of = decoding("json", unknown="refuse")
    body = end.encode() + jsonl({"id": 1}, {"id": 2, "coupon": 1, "customer": {"vip": 1}}, {"id": 3, "b": 1}, end=end)
    where = 'line 3: {"id": 2, "coupon": 1, "customer": {"vip": 1}}'
    reason = f"line 3: the schema lacks coupon and customer.vip: {WAYS_OUT}"
    assert refusal(of, body) == Refused(reason, where)
    reads: list[Read] = []
    tables = streamed_in(size, lambda: of.streamed("k", HeldBytes(body)))
    list(streamed(tables, lambda table, _: iter(table.to_batches()), reads.append))
    (read,) = reads
    assert (read.outcome, read.error, read.where) == (Outcome.QUARANTINED, reason, where)


def test_a_bad_value_is_told_first():
    of = decoding("json", unknown="refuse")
    assert refusal(of, jsonl({"id": 1, "coupon": 1}, {"id": "x"})).reason.startswith("line 2: id = 'x'")
    csv = decoding("csv", FLAT, unknown="refuse")
    assert refusal(csv, b"id,coupon\nx,1\n").reason.startswith("row 1: id = 'x'")


def test_one_refused_file_leaves_its_neighbours_as_they_are():
    bodies = [jsonl({"id": 1}), jsonl({"id": 2, "coupon": 1}), jsonl({"id": 3})]
    assert by_file(decoding("json", unknown="refuse"), bodies) == {0: (), 1: None, 2: ()}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", MORE], "a and more"),
        ([f"n{number}" for number in range(11)], "n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and more"),
    ],
)
def test_names_in_a_reason(names: list[str], told: str):
    assert unknown.listed(names) == told


@given(
    st.lists(st.sampled_from([*"abcdef", MORE]), max_size=9), st.lists(st.sampled_from([*"abcdefgh", MORE]), max_size=9)
)
@example([MORE], ["a"])
def test_a_few_of_parts_are_the_few_of_the_whole(one: list[str], other: list[str]):
    with patch.object(kept, "MOST_OF_A_FILE", 3):
        assert few((*few(one), *few(other))) == few((*one, *other))


@given(st.lists(st.lists(st.sampled_from([*"abcdef", MORE]), max_size=5), max_size=8))
def test_a_task_tells_so_many_names_and_says_which_files_have_others(files: list[list[str]]):
    with patch.object(kept, "MOST_OF_A_TASK", 2):
        task = kept.NamesOfTask()
        told = [task.of(few(names)) for names in files]
    assert len({name for names in told for name in names} - {MORE}) <= 4
    for names, found in zip(files, told, strict=True):
        assert set(found) <= {*names, MORE}
        assert bool(found) == bool(names)
        assert MORE in found or set(found) == set(names)


def test_what_many_files_have_is_told_whatever_one_has():
    task = kept.NamesOfTask()
    told = [task.of(few(f"key_{file}_{number}" for number in range(50))) for file in range(40)]
    told += [task.of(["coupon"]) for _ in range(5_000)]
    found = kept.gathered((str(number), names) for number, names in enumerate(told))
    assert next(iter(found.names.items())) == ("coupon", 4_999)


@pytest.mark.parametrize("body", [("json", b'{"id": 1, "...": 2}\n'), ("csv", b"id,...\n1,2\n")])
def test_a_column_that_is_called_as_the_mark_for_more_is_a_column(body: tuple[str, bytes]) -> None:
    format, text = body
    table = decoding(format, FLAT)("k", text)
    assert isinstance(table, pa.Table)
    assert few(names_of(table)) == ('"..."',)
    assert kept.told({name: 1 for name in names_of(table)}) == '"..." (1 upload)'
    refused = decoding(format, FLAT, unknown="refuse")("k", text)
    assert isinstance(refused, Refused)
    assert 'lacks "...":' in refused.reason or 'lacks: "...":' in refused.reason
