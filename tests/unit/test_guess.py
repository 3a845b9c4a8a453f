"""Guessed columns take the samples that they were guessed from, and lose nothing of them."""

import csv
import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.formats import guess
from tidegate.formats.decode import decoder
from tidegate.formats.guess import SampleColumns, Unguessable, format_of
from tidegate.formats.guess_text import Digits, SeenValues
from tidegate.formats.recognize import SHOWN_FORMATS
from tidegate.formats.registry import FORMATS
from tidegate.formats.streams import HeldBytes
from tidegate.formats.type_names import quoted_name
from tidegate.reading.arrow_schema import arrow_schema

NAMES = ["id", "b c", "ä", "e`f", "order"]
ZONES = st.sampled_from([datetime.UTC, datetime.timezone(datetime.timedelta(hours=-5, minutes=-30))])
TIMES = st.datetimes(datetime.datetime(2, 1, 2), datetime.datetime(9998, 12, 30))
SCALARS = [
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(-(10**6), 10**6, places=2).map(float),
    st.booleans(),
    st.text("aä\"'0,;\n\t", max_size=4),
    st.dates(datetime.date(2, 1, 1), datetime.date(9998, 12, 31)).map(str),
    TIMES.map(lambda time: time.isoformat()),
    st.builds(lambda time, zone: time.replace(tzinfo=zone).isoformat(), TIMES, ZONES),
    st.sampled_from(["2024-02-03T04:05:06.1234567Z", "2023-02-29", "0000-01-01", "2024-02-03T04:05", "12.50", "007"]),
    st.none(),
]
VALUES: list[Any] = [*SCALARS, st.one_of(SCALARS)]
for of in [*SCALARS[:4], SCALARS[6], st.one_of(SCALARS[:3])]:
    VALUES += [st.lists(st.none() | of, max_size=3), st.dictionaries(st.sampled_from(["x", "X", "y z"]), of)]


@st.composite
def objects(draw: st.DrawFn) -> list[dict[str, Any]]:
    kinds = {name: draw(st.sampled_from(VALUES)) for name in draw(st.sets(st.sampled_from(NAMES), min_size=1))}
    row = st.fixed_dictionaries({}, optional={name: st.none() | kind for name, kind in kinds.items()})
    return draw(st.lists(row, min_size=1, max_size=5))


def columns_of(format: str, body: bytes, **options: str) -> tuple[dict[str, str], dict[str, str]]:
    """The types of the columns, and the remarks of those that are left out."""
    found = SampleColumns(guess.SampleFormat(format, tuple(options.items())))
    found.look(HeldBytes(body), body)
    types = found.types()
    return {name: each.ddl for name, each in types.items() if each.ddl}, {
        name: each.remark for name, each in types.items() if not each.ddl
    }


def schema_of(types: dict[str, str]) -> pa.Schema:
    return arrow_schema(", ".join(f"{quoted_name(name)} {kind}" for name, kind in types.items()))


def is_same(given: Any, found: Any) -> bool:
    """Whether what was read is what was written, but for fields that are left out."""
    match found:
        case dict():
            return all(is_same(given.get(name), each) for name, each in found.items())
        case list() if isinstance(given, dict):
            return len(given) == len(found) and all(is_same(given[name], each) for name, each in found)
        case list():
            return len(given) == len(found) and all(map(is_same, given, found))
        case datetime.datetime() | datetime.date():
            return bool(type(found).fromisoformat(given) == found)
        case Decimal():
            return Decimal(json.dumps(given)) == found
    return bool(given == found) and isinstance(given, bool) == isinstance(found, bool)


@given(objects())
@example([{"id": 10**39}, {"id": 1}])
@example([{"id": 0.1234567890123456789}, {"id": 12345678901234567890}])
@example([{"id": {"x": 1, "X": 2}}, {"ä": []}])
@example([{"id": 2**63}, {"id": -(2**63)}])
@example([{"id": 1e300}, {"id": 1}])
@settings(max_examples=500, deadline=None)
def test_json_is_read_as_it_is(rows: list[dict[str, Any]]):
    body = "\n".join(map(json.dumps, rows)).encode()
    types, left = columns_of("json", body)
    assert {*types, *left} == {name for row in rows for name in row}
    if not types:
        return
    found = decoder("json", schema_of(types))(body).to_pylist()
    for given_row, row in zip(rows, found, strict=True):
        for name, value in row.items():
            assert is_same(given_row.get(name), value), (name, types[name])


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    names = draw(st.permutations(NAMES))[: draw(st.integers(1, 5))]
    columns = [draw(st.sampled_from(SCALARS[:10])) for _ in names]
    rows = draw(st.lists(st.tuples(*columns), max_size=5))
    return [
        list(names),
        *([json.dumps(each).strip('"') if not isinstance(each, str) else each for each in row] for row in rows),
    ]


@given(tables(), st.sampled_from([",", ";", "\t", "|"]))
@example([["id"], ["1e5"], ["1.50"]], ",")
@example([["id"], ["-0"], ["12345678901234567890"]], ",")
@example([["id", "ä"], ["TRUE", "007"], ["false", "7"]], ",")
@settings(max_examples=500, deadline=None)
def test_csv_is_read_as_it_is(table: list[list[str]], delimiter: str):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(table)
    body = text.getvalue().encode()
    types, left = columns_of("csv", body, delimiter=delimiter)
    names, *rows = table
    assert types.keys() == set(names)
    assert not left
    found = decoder("csv", schema_of(types), [("delimiter", delimiter)])(body).to_pylist()
    assert len(found) == len(rows)
    for given_row, row in zip(rows, found, strict=True):
        for name, text_of in zip(names, given_row, strict=True):
            value = row[name]
            if isinstance(value, bool):
                assert text_of.lower() == str(value).lower()
            elif isinstance(value, int):
                assert Decimal(text_of) == value
            elif isinstance(value, float):
                assert Decimal(repr(value)) == Decimal(text_of)
            elif value is None:
                assert text_of == ""
            else:
                assert text_of == value or is_same(text_of, value)


def json_type(*values: Any) -> Any:
    seen = SeenValues()
    for each in values:
        seen.of_json(each)
    return seen.json_type()


@pytest.mark.parametrize(
    ("values", "ddl", "remark"),
    [
        ([Digits("1"), Digits("-9223372036854775808")], "bigint", ""),
        ([Digits("9223372036854775808")], "decimal(38,0)", "more digits than a double holds"),
        ([Digits("1" * 39)], None, "numbers of more digits than any column holds"),
        ([Digits("1.25"), Digits("3")], "double", "decimal(12,2) would be exact, and refuse more decimals"),
        ([Digits("1e5")], "double", ""),
        ([Digits("1.2345678901234567")], "decimal(38,16)", "more digits than a double holds"),
        (["2024-02-03", "2024-02-03T04:05:06Z"], "string", "dates and times of several forms"),
        (["2024-02-03T04:05:06Z", "2024-02-03T04:05:06"], "string", "dates and times of several forms"),
        (["2024-02-03T04:05:06.1234567Z"], "string", "times finer than microseconds"),
        (["2024-02-03", "soon"], "string", ""),
        (["12.50", "-7"], "string", "numbers in quotes: decimal(12,2) would hold them, and refuse more digits"),
        (["12.50", "007"], "string", ""),
        ([None], "string", "only null in the samples"),
        ([True, "x"], None, "boolean and text in the samples"),
        ([[], [None]], "array<string>", "in the list: only null in the samples"),
        ([{}], "map<string,string>", "only empty objects"),
        ([{f"k{number}": Digits("1") for number in range(60)}], "map<string,bigint>", "60 different keys"),
    ],
)
def test_a_guess_and_its_remark(values: list[Any], ddl: str | None, remark: str):
    found = json_type(*values)
    assert found.ddl == ddl
    assert found.remark.startswith(remark)
    assert bool(found.remark) == bool(remark)


def test_columns_of_avro_are_those_that_hold_its_values():
    record = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["int", "string"]}],
    }
    types = {
        "id": ["null", "long"],
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "local": {"type": "long", "logicalType": "local-timestamp-micros"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        "kind": {"type": "enum", "name": "e", "symbols": ["A"]},
        "pairs": {"type": "map", "values": {"type": "array", "items": "float"}},
        "inner": record,
        "again": "r",
        "clock": {"type": "int", "logicalType": "time-millis"},
        "span": {"type": "fixed", "name": "f", "size": 12, "logicalType": "duration"},
        "long": {"type": "bytes", "logicalType": "decimal", "precision": 77},
        "some": ["null", "int", "string"],
    }
    body = io.BytesIO()
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    fastavro.writer(body, {"type": "record", "name": "row", "fields": fields}, [])
    assert columns_of("avro", body.getvalue()) == (
        {
            "id": "bigint",
            "at": "timestamp",
            "local": "timestamp_ntz",
            "price": "decimal(12,2)",
            "kind": "string",
            "pairs": "map<string,array<float>>",
            "inner": "struct<x:int>",
            "again": "struct<x:int>",
        },
        {
            "clock": "no column holds the type time of day",
            "span": "no column holds the type interval",
            "long": "no column holds the type void",
            "some": "no column holds the type union of int and string",
        },
    )


def test_a_long_text_is_looked_at_up_to_its_last_whole_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guess, "SAMPLED_BYTES", 20)
    assert columns_of("json", b'{"id": 1}\n{"id": "cu')[0] == {"id": "bigint"}
    assert columns_of("csv", b"id,x\n1,22222222\n2,cu", delimiter=",")[0] == {"id": "bigint", "x": "bigint"}


@pytest.mark.parametrize(
    ("name", "body", "format"),
    [
        ("a", b'{"id": 1}', "json"),
        ("a", b"a;b\n1;2\n", "csv"),
        ("a.txt", b"a\n1\n", "csv"),
        ("a", b"PAR1\0\0", "parquet"),
        ("a", b"Obj\x01\0\0", "avro"),
        ("a", b"ORC\0\0", "orc"),
        ("a", b"ORC,b\n1,2\n", "csv"),
    ],
)
def test_the_format_is_that_of_the_content(name: str, body: bytes, format: str):
    assert format_of(name, body).format == format


@pytest.mark.parametrize("body", [b"", b"a\n1\n", b"%PDF-1.7", b"\x1f\x8b\x08", b"<html>"])
def test_what_is_no_file_of_a_route(body: bytes):
    with pytest.raises(Unguessable):
        format_of("a", body)


def test_every_format_is_recognized_and_guessed():
    assert SHOWN_FORMATS.keys() == FORMATS.keys()
    assert {"json", "csv", *guess.FIELDS} == FORMATS.keys()


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        # "" in quotes is text, nothing is null: docs/formats.md
        (b'"id","n"\n"1","2"\n"2",""\n', {"id": "bigint", "n": "string"}),
        (b'"id","n"\n"1","2"\n"2",\n', {"id": "bigint", "n": "bigint"}),
        (b'"id","d"\n"1","2024-02-03"\n"2",""\n', {"id": "bigint", "d": "string"}),
        (b'"id","b"\n"1","true"\n"2",""\n', {"id": "bigint", "b": "string"}),
        (b'"t","n","m"\n"a"",""b",,""\n"c\nd",1,""\n', {"t": "string", "n": "bigint", "m": "string"}),
        (b'"n";"m"\r\n;""\r\n"1";""\r\n', {"n": "bigint", "m": "string"}),
    ],
)
def test_an_empty_field_in_quotes_is_text_and_one_without_is_null(body: bytes, kinds: dict[str, str]):
    delimiter = ";" if b";" in body else ","
    found, _ = columns_of("csv", body, delimiter=delimiter)
    assert found == kinds
    schema = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    decoder("csv", arrow_schema(schema), [("delimiter", delimiter)])(body)


def test_why_a_column_with_empty_text_is_text_is_said():
    found = SampleColumns(guess.SampleFormat("csv", (("delimiter", ","),)))
    found.look(HeldBytes(b""), b'"n"\n"1"\n""\n')
    assert found.types()["n"].remark == 'numbers, and "" in quotes, which is text and not null'


@pytest.mark.parametrize("number", ["1e-400", "-2.5E-330", "5e-324", "1e400", "1e309", f"0.{400 * '0'}1"])
def test_a_number_that_a_double_would_change_is_no_double(number: str):
    assert columns_of("csv", f"n\n{number}\n2.5\n".encode(), delimiter=",")[0] == {"n": "string"}
    kept, left = columns_of("json", f'{{"n": {number}}}\n{{"n": 2.5}}\n'.encode())
    assert (kept, left) == ({}, {"n": "numbers larger, or nearer to 0, than a double holds"})


@pytest.mark.parametrize("number", ["0e-400", "0.0e10", "1e-300", "1.5e308"])
def test_a_number_that_a_double_holds_is_one(number: str):
    assert columns_of("csv", f"n\n{number}\n2.5\n".encode(), delimiter=",")[0] == {"n": "double"}


def test_what_becomes_of_an_empty_object_beside_others_is_said():
    seen = SeenValues()
    for value in ({}, {"k": Digits("1")}):
        seen.of_json(value)
    assert seen.json_type() == guess.GuessedType(
        "struct<k:bigint>", "an empty one in the samples becomes one with null in each field"
    )
