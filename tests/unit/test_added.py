"""`unknown = "add"`: what is a column of the table leaves `_unknown` for it, if it fits, and nothing is lost."""

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.test_kept import KINDS, value
from tidegate.formats import added
from tidegate.formats.added import AddedColumns, NewNames, both
from tidegate.formats.decode import decoder
from tidegate.formats.dialect import Dialect
from tidegate.formats.reasons import Undecodable
from tidegate.reading.arrow_schema import arrow_schema
from tidegate.reading.reader import NO_COLUMNS

COLUMNS = {
    "flag": pa.bool_(),
    "small": pa.int32(),
    "whole": pa.int64(),
    "single": pa.float32(),
    "real": pa.float64(),
    "text": pa.string(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "price": pa.decimal128(10, 2),
}
SCHEMA = pa.schema(list(COLUMNS.items()))
ODD = ("true", "7", "-0", "7.5", "1e3", "1e999", "4294967296", "99999999999999999999", '""', '"x"', '"2026-02-29"')
TIMES = ('"2026-03-01"', '"2026-03-01T10:00:00Z"', '"2026-03-01 10:00"', '"12.30"', "12.30", "12.345")
NONE = ("null", "[]", "{}")


def taken(texts: list[str | None], schema: pa.Schema = SCHEMA, dialect: Dialect | None = None, **more: Any) -> Any:
    rest = pa.chunked_array([pa.array(texts, pa.string())])
    columns, left = AddedColumns(schema, dialect).taken(rest, **more)
    assert all(len(each) == len(texts) for each in columns)
    assert [each.type for each in columns] == list(schema.types)
    return dict(zip(schema.names, (each.to_pylist() for each in columns), strict=True)), left.to_pylist()


DECODERS = {name: decoder("json", pa.schema([(name, kind)])) for name, kind in COLUMNS.items()}


def alone(name: str, text: str) -> tuple[bool, Any]:
    """Whether a route whose schema has the column would take the value, and what it would be."""
    try:
        return True, DECODERS[name](f'{{"{name}": {text}}}\n'.encode())[name][0].as_py()
    except Undecodable:
        return False, None


def written(row: dict[str, str]) -> str | None:
    members = (f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in row.items())
    return "{" + ",".join(members) + "}" if row else None


def test_a_value_is_a_columns_exactly_if_the_schema_would_take_it_and_else_it_stays() -> None:
    """10,000 drawn rows; the other decoder of JSON decides."""
    of = random.Random(20261130)
    known: dict[tuple[str, str], tuple[bool, Any]] = {}
    rows = []
    for _ in range(10_000):
        names = of.sample([*COLUMNS, "other", "é"], of.randrange(5))
        rows.append({name: of.choice(ODD + TIMES + NONE) for name in sorted(names)})
    texts = [written(row) for row in rows]
    columns, left = taken(texts)
    for number, row in enumerate(rows):
        stays = {}
        for name, text in row.items():
            if name in COLUMNS and (name, text) not in known:
                known[name, text] = alone(name, text)
            fits, found = known.get((name, text), (False, None))
            if not fits:
                stays[name] = text
            if name in COLUMNS:
                assert columns[name][number] == found, (name, text)
        assert left[number] == written(stays)
    assert len(known) > 150
    # a row by itself is read at once, if all of it fits
    for number in range(0, len(rows), 20):
        alone_there, alone_left = taken([texts[number]])
        assert {name: found[0] for name, found in alone_there.items()} == {n: columns[n][number] for n in columns}
        assert alone_left == [left[number]]


def test_what_has_no_column_stays_byte_for_byte() -> None:
    text = '{"a":1.50,"b":[1,  2]}'
    assert taken([text, None], pa.schema([]))[1] == [text, None]
    assert taken(['{"a":1.50,"text":"x"}'])[1] == ['{"a":1.50}']


def test_ever_other_values_that_do_not_fit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added, "ROWS", 100)
    texts = [f'{{"day":"{each}"}}' for each in range(250)]
    texts[130] = '{"day":"2026-03-01"}'
    columns, left = taken([*texts, None], pa.schema([("day", pa.date32())]))
    assert [str(day) for day in columns["day"] if day] == ["2026-03-01"]
    assert left == [*texts[:130], None, *texts[131:], None]


# ---- the names that are noted


def types_of(
    rows: list[dict[str, Any]], dialect: Dialect | None = None, schema: pa.Schema = NO_COLUMNS
) -> dict[str, str]:
    names = NewNames(dialect)
    taken([json.dumps(row) for row in rows], schema, dialect, names=names)
    return names.types()


def test_the_type_is_the_one_that_init_writes() -> None:
    rows = [
        {"a": 1, "b": 1, "c": "x", "d": "2026-03-01", "e": "2026-03-01T10:00:00Z", "f": True},
        {"g": None, "h": {}, "i": []},
        {"a": 2, "b": 1.5, "c": "", "d": "2026-03-02", "e": "2026-03-01T10:00:00+01:00", "f": False, "g": None, "j": 1},
        {"j": "1", "k": "2026-03-01 10:00:00", "a.b": 1, "q`": 1, "A": 5, "l" * 3: 1 << 70},
    ]
    assert types_of(rows) == {
        "a": "bigint",
        "b": "double",
        "c": "string",
        "d": "date",
        "e": "timestamp",
        "f": "boolean",
        "k": "timestamp_ntz",
    }


@pytest.mark.parametrize(
    "name", ["${env:HOME}", "_pos", "\u0131d", "a.b", "a`b", 'a"b', "", " a", "a ", "1", "l" * 101]
)
def test_what_a_table_could_not_bear_is_no_name(name: str) -> None:
    assert not added.is_name(name)
    assert types_of([{name: "x"}]) == {}


def test_csv_has_types_in_its_texts() -> None:
    dialect = Dialect(decimal=",", null="NA")
    rows = [{"n": "5", "p": "1,5", "z": "01", "q": "NA"}, {"n": "NA", "p": "2", "z": "02"}]
    assert types_of(rows, dialect) == {"n": "bigint", "p": "double", "z": "string"}


def test_what_was_taken_is_not_noted() -> None:
    assert types_of([{"text": "x", "new": 1}, {"text": 5}], schema=SCHEMA) == {"new": "bigint", "text": "bigint"}
    assert types_of([{"text": "x", "new": 1}], schema=SCHEMA) == {"new": "bigint"}


def test_of_a_task_so_many_values_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added, "MOST_SEEN", 3)
    assert types_of([{"a": 1}] * 3 + [{"a": "x"}]) == {"a": "bigint"}
    monkeypatch.setattr(added, "MOST_LOOKED_AT", 5)
    assert types_of([{f"n{number}": 1} for number in range(9)]).keys() == {f"n{number}" for number in range(5)}


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("bigint", "bigint", "bigint"),
        ("bigint", "double", "double"),
        ("bigint", "string", "string"),
        ("date", "timestamp", "string"),
    ],
)
def test_tasks_agree_on_a_type(one: str, other: str, found: str) -> None:
    assert both({"a": one, "b": one}, {"a": other, "c": other}) == {"a": found, "b": one, "c": other}
    assert both({"a": other}, {"a": one}) == {"a": found}


@pytest.mark.parametrize("seed", range(50))
def test_whatever_is_noted_is_a_column_that_takes_the_values(seed: int) -> None:
    of = random.Random(seed)
    kinds = {f"n{number}": of.choice(KINDS) for number in range(6)}
    rows = [{name: value(of, kind) for name, kind in kinds.items()} for _ in range(30)]
    names = NewNames()
    texts: list[str | None] = [json.dumps(row) for row in rows]
    taken(texts, pa.schema([]), names=names)
    found = names.types()
    assert set(found) <= {name for name, kind in kinds.items() if kind in ("text", "whole", "real", "flag")}
    schema = arrow_schema(", ".join(f"{name} {kind}" for name, kind in found.items())) if found else pa.schema([])
    columns, left = taken(texts, schema)
    for number, row in enumerate(rows):
        there = json.loads(left[number]) if left[number] else {}
        assert not there.keys() & found.keys()
        for name in found:
            assert columns[name][number] == row[name] or str(columns[name][number])[:10] == row[name]
