"""`unknown = "add"`: what is a column of the table leaves `_unknown` for it, if it fits, and nothing is lost."""

import io
import json
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from tests.unit.test_kept import ARROW, DRIFTS, KINDS, NAMES, Drift, decoding, parquet, rest_of, same, table_of, value
from tests.unit.test_unknown import streamed_in
from tidegate.formats import added
from tidegate.formats.added import AddedColumns, NewNames, both
from tidegate.formats.decode import decoder
from tidegate.formats.dialect import Dialect
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import REST
from tidegate.formats.streams import HeldBytes
from tidegate.formats.unknown import as_beside, names_of
from tidegate.reading.arrow_schema import arrow_schema
from tidegate.reading.careful import Limits, Supervisor
from tidegate.reading.decoding import Decoding, Refused
from tidegate.reading.reader import NO_COLUMNS
from tidegate.reading.together import Together

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


def taken(texts: list[str | None], schema: pa.Schema = SCHEMA, dialect: Dialect | None = None) -> Any:
    rest = pa.chunked_array([pa.array(texts, pa.string())])
    columns, left, stays = AddedColumns(schema, dialect).taken(rest)
    there = [json.loads(text or "{}") for text in left.to_pylist()]
    for name in schema.names:
        rows = [row for begin, end in stays.get(name, ()) for row in range(begin, end)]
        assert rows == [row for row, each in enumerate(there) if name in each]
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


def note(
    names: NewNames, texts: list[str | None], schema: pa.Schema = NO_COLUMNS, dialect: Dialect | None = None
) -> None:
    table = pa.table({REST: pa.array(texts, pa.string())})
    names.note(AddedColumns(schema, dialect).filled(table), of_text=True)


def types_of(
    rows: list[dict[str, Any]], dialect: Dialect | None = None, schema: pa.Schema = NO_COLUMNS
) -> dict[str, str]:
    names = NewNames(dialect)
    note(names, [json.dumps(row) for row in rows], schema, dialect)
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
        "lll": "decimal(38,0)",
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
        ("double", "", ""),
        ("bigint", "string", ""),
        ("decimal(38,2)", "decimal(38,4)", ""),
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
    note(names, texts)
    found = names.types()
    assert set(found) <= {name for name, kind in kinds.items() if kind in ("text", "whole", "real", "flag")}
    schema = arrow_schema(", ".join(f"{name} {kind}" for name, kind in found.items())) if found else pa.schema([])
    columns, left = taken(texts, schema)
    for number, row in enumerate(rows):
        there = json.loads(left[number]) if left[number] else {}
        assert not there.keys() & found.keys()
        for name in found:
            assert columns[name][number] == row[name] or str(columns[name][number])[:10] == row[name]


# ---- of whole files

BESIDE = [pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC")]
BESIDE += [pa.decimal128(38, 2), pa.int32(), pa.float32()]
FILES = {"json": 60, "csv": 60, "parquet": 60, "avro": 60, "orc": 30}


def with_beside(of: random.Random, format: str, drift: Drift) -> tuple[Decoding, pa.Schema]:
    """The decoding of a route that adds, whose table has some columns beside it, often of the type of the file's."""
    there = {name: ARROW[kind] for name, kind in drift.added["row"].items() if ARROW[kind] in BESIDE}
    drawn = {name: of.choice(BESIDE) for name in of.sample(NAMES[:-1], of.randrange(1, 4))}
    drawn |= {name: kind for name, kind in there.items() if name in NAMES[:-1] and of.random() < 0.6}
    columns = pa.schema(list(drawn.items()))
    keeping = decoding(format)
    given = replace(keeping.dataset, options=(("unknown", "add"),))
    return Decoding(given, pa.schema([*keeping.schema, *as_beside(columns)])), columns


def of_schema(format: str, columns: pa.Schema) -> Decoding:
    reporting = decoding(format, "report")
    return Decoding(reporting.dataset, pa.schema([*reporting.schema, *columns]))


@pytest.mark.parametrize("format", FILES)
def test_a_column_beside_is_what_it_would_be_in_the_schema_or_its_values_are_kept(format: str) -> None:
    taken_or_kept(format, range(FILES[format]))


@pytest.mark.parametrize("format", DRIFTS)
def test_nothing_is_lost_of_thousands_of_drawn_drifts(format: str) -> None:
    taken_or_kept(format, range(FILES[format], DRIFTS[format]))


def taken_or_kept(format: str, seeds: range) -> None:
    """Whether a schema with the column would take a file decides, and what it would make of it."""
    taken_of, lost_of = 0, 0
    for seed in seeds:
        of = random.Random(seed)
        drift = Drift(seed, format)
        body = drift.body(format)
        adding, columns = with_beside(of, format, drift)
        found = table_of(adding("k", body))
        assert found.schema.names == adding.schema.names
        before, after = rest_of(table_of(decoding(format)("k", body))), rest_of(found)
        said = set(names_of(table_of(decoding(format)("k", body))))
        for field in columns:
            alone = of_schema(format, pa.schema([field]))("k", body)
            kept = [row for row, rest in enumerate(after) if field.name in (rest or {})]
            if isinstance(alone, pa.Table):
                assert found[field.name] == alone[field.name], (seed, field)
                assert not kept
                taken_of += alone[field.name].null_count < len(alone)
                said -= {field.name}
            else:
                lost_of += 1
                assert kept == [
                    row
                    for row, rest in enumerate(before)
                    if field.name in (rest or {}) and found[field.name][row].as_py() is None
                    if not (format == "json" and rest[field.name] is None)
                ]
        for was, now in zip(before, after, strict=True):
            assert same({name: each for name, each in (was or {}).items() if name in (now or {})}) == same(now or {})
            assert (was or {}).keys() - (now or {}).keys() <= set(columns.names)
        assert set(names_of(found)) == said, seed
    assert min(taken_of, lost_of) > len(seeds) / 30


@pytest.mark.parametrize("format", FILES)
def test_each_way_of_reading_fills_the_same(format: str) -> None:
    of = random.Random(1)
    adding, _ = with_beside(of, format, Drift(1, format))
    bodies = [Drift(seed, format).body(format) for seed in range(20)]
    alone = [table_of(adding("k", body)) for body in bodies]
    for portion in Together(adding)([("k", body) for body in bodies]):
        assert not portion.refused
        for span in portion.spans:
            expected = pa.concat_tables([alone[each].replace_schema_metadata(None) for each in span.files])
            assert span.table.replace_schema_metadata(None).equals(expected)
            assert [set(each) for each in span.unknown] == [set(names_of(alone[each])) for each in span.files]
    with Supervisor(replace(adding), Limits(memory=1 << 30, seconds=60)) as supervisor:
        for body, whole in zip(bodies[:5], alone[:5], strict=True):
            assert table_of(supervisor("k", body)).equals(whole, check_metadata=True)
    if format in ("json", "csv"):
        for body, whole in zip(bodies, alone, strict=True):
            tables = list(streamed_in(7, lambda body=body: adding.streamed("k", HeldBytes(body))))
            assert pa.concat_tables(tables).to_pylist() == whole.to_pylist()
            assert {name for each in tables for name in names_of(each)} == set(names_of(whole))


def test_a_file_with_types_states_them() -> None:
    columns = {
        "id": pa.array([1], pa.int64()),
        "small": pa.array([1], pa.int16()),
        "huge": pa.array([1], pa.uint64()),
        "real": pa.array([float("nan")], pa.float32()),
        "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        "at": pa.array([0], pa.timestamp("ns", "UTC")),
        "local": pa.array([0], pa.timestamp("ms")),
        "day": pa.array([0], pa.date32()),
        "word": pa.array(["x"]).dictionary_encode(),
        "blob": pa.array([b"x"]),
        "nested": pa.array([[1]]),
        "none": pa.nulls(1),
    }
    names = NewNames()
    names.note(table_of(decoding("parquet")("k", parquet(columns))), of_text=False)
    assert names.types() == {
        "small": "bigint",
        "huge": "decimal(38,0)",
        "real": "double",
        "price": "decimal(38,2)",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "day": "date",
        "word": "string",
    }
    schema = arrow_schema(", ".join(f"{name} {kind}" for name, kind in names.types().items()))
    keeping = decoding("parquet")
    adding = Decoding(
        replace(keeping.dataset, options=(("unknown", "add"),)), pa.schema([*keeping.schema, *as_beside(schema)])
    )
    (row,) = table_of(adding("k", parquet(columns))).to_pylist()
    assert json.loads(row["_unknown"]).keys() == {"blob", "nested"}
    assert (row["price"], str(row["real"]), row["small"]) == (Decimal("1.50"), "nan", 1)


def test_a_number_that_a_column_would_change_stays() -> None:
    keeping = decoding("parquet")
    columns = pa.schema([("real", pa.float64()), ("other", pa.float64())])
    adding = Decoding(
        replace(keeping.dataset, options=(("unknown", "add"),)), pa.schema([*keeping.schema, *as_beside(columns)])
    )
    body = parquet({"id": pa.array([1, 2]), "real": pa.array([2**53 + 1, 5]), "other": pa.array([7, 8])})
    found = table_of(adding("k", body))
    assert found["real"].to_pylist() == [None, None]
    assert rest_of(found) == [{"real": 2**53 + 1}, {"real": 5}]
    assert found["other"].to_pylist() == [7.0, 8.0]
    assert names_of(found) == ("real",)


def test_a_misfit_of_any_row_group_or_stripe_is_told() -> None:
    keeping = decoding("parquet")
    columns = pa.schema([("size", pa.int64())])
    for format in ("parquet", "orc"):
        given = replace(keeping.dataset, format=format, options=(("unknown", "add"),))
        adding = Decoding(given, pa.schema([*keeping.schema, *as_beside(columns)]))
        table, buffer = pa.table({"id": [1, 2], "size": pa.array([Decimal(1), Decimal(2**70)])}), io.BytesIO()
        if format == "parquet":
            pq.write_table(table, buffer, row_group_size=1)
        else:
            pyarrow.orc.write_table(table, buffer)
        found = table_of(adding("k", buffer.getvalue()))
        assert "size" in (rest_of(found)[1] or {})
        assert names_of(found) == ("size",)


def test_a_file_of_a_header_has_its_names_beside_others() -> None:
    keeping = decoding("csv")
    given = replace(keeping.dataset, options=(("unknown", "add"),))
    adding = Decoding(given, pa.schema([*keeping.schema, *as_beside(pa.schema([("day", pa.date32())]))]))
    bodies = [b"id,text,day,other\n", b"id,text,day,other\n1,t,soon,x\n"]
    found = {
        file: set(unknown)
        for portion in Together(adding)([("k", body) for body in bodies])
        for span in portion.spans
        for file, unknown in zip(span.files, span.unknown, strict=True)
    }
    assert found == {0: {"other"}, 1: {"day", "other"}}


def test_values_of_csv_that_do_not_fit_cost_their_own_rows_only() -> None:
    """Columns of which all values fit are not read one by one for the sake of another one."""
    schema = pa.schema([(f"n{number}", pa.int64()) for number in range(20)])
    texts = [json.dumps({name: "1" for name in schema.names}) for _ in range(100)]
    texts[7] = json.dumps({**{name: "1" for name in schema.names}, "n3": "soon", "z": "?"})
    with patch.object(AddedColumns, "_one_by_one", side_effect=AssertionError):
        columns, left = taken(texts, schema, Dialect())
    assert [each.count(None) for each in columns.values()] == [number == 3 for number in range(20)]
    assert left == [None] * 7 + ['{"n3":"soon","z":"?"}'] + [None] * 92


def test_a_misfit_is_told_of_the_file_that_has_it() -> None:
    """Also where rows before it have no value at all."""
    keeping = decoding("csv")
    given = replace(keeping.dataset, options=(("unknown", "add"),))
    adding = Decoding(given, pa.schema([*keeping.schema, *as_beside(pa.schema([("n", pa.int64())]))]))
    bodies = [b"id,n,zz\n1,,1\n2,5,\n", b"id,n,zz\n3,,\n4,x,2\n"]
    (portion,) = Together(adding)([("k", body) for body in bodies])
    (span,) = portion.spans
    alone = [names_of(table_of(adding("k", body))) for body in bodies]
    assert span.unknown == alone == [("zz",), ("zz", "n")]


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_a_value_that_does_not_fit_is_told_wherever_it_is(format: str) -> None:
    keeping = decoding("parquet")
    given = replace(keeping.dataset, format=format, options=(("unknown", "add"),))
    adding = Decoding(given, pa.schema([*keeping.schema, *as_beside(pa.schema([("n", pa.int32())]))]))
    table, buffer = pa.table({"id": [1, 2, 3, 4], "n": [1, 2, 3, 1 << 40]}), io.BytesIO()
    if format == "parquet":
        pq.write_table(table, buffer, row_group_size=2)
    else:
        pyarrow.orc.write_table(table, buffer)
    found = table_of(adding("k", buffer.getvalue()))
    assert rest_of(found)[3] == {"n": 1 << 40}
    assert names_of(found) == ("n",)


@pytest.mark.parametrize("format", FILES)
@pytest.mark.parametrize("unknown", ["report", "keep", "add"])
def test_a_column_that_takes_no_null_is_missed(format: str, unknown: str) -> None:
    of = decoding(format, "report" if unknown == "report" else "keep")
    given = replace(of.dataset, options=(("unknown", unknown),))
    schema = pa.schema([*list(of.schema)[:1], pa.field("sure", pa.int64(), nullable=False), *list(of.schema)[1:]])
    found = Decoding(given, schema)("k", Drift(3, format).body(format))
    assert isinstance(found, Refused)
    assert "sure" in found.reason
