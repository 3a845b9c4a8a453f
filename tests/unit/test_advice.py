"""Advice that leads somewhere: few bad rows are few, the lines of an array are no rows, a table keeps its types."""

import json

import pyarrow as pa
import pytest

from tidegate.core.advice import about_the_table
from tidegate.core.routes import Dataset
from tidegate.reading.arrow_schema import arrow_schema
from tidegate.reading.decoding import Decoding, Refused

SCHEMA = pa.schema([("id", pa.int64()), ("paid", pa.decimal128(6, 2))])
SET_ASIDE = (("bad_rows_share", 0.01),)


def refused(format: str, body: bytes, *options: tuple[str, object], schema: pa.Schema = SCHEMA) -> str:
    found = Decoding(Dataset("lake.n.t", "", format, options=options), schema).decode("k", body)
    assert isinstance(found, Refused)
    return found.reason


def lines(format: str, count: int, bad: int) -> bytes:
    """So many rows, of which the last ones do not fit."""
    paid = ["1.25"] * (count - bad) + ["n/a"] * bad
    if format == "csv":
        return ("id,paid\n" + "".join(f"{number},{each}\n" for number, each in enumerate(paid))).encode()
    return "".join(f"{json.dumps({'id': number, 'paid': each})}\n" for number, each in enumerate(paid)).encode()


@pytest.mark.parametrize("format", ["csv", "json"])
@pytest.mark.parametrize(
    ("count", "bad", "said"),
    [
        (10_000, 1, "Of 10,000 rows, 1 does not fit: bad_rows_share = 0.01 of the route lands the others"),
        (500, 5, "Of 500 rows, 5 do not fit: bad_rows_share = 0.01 of the route lands the others"),
        (10_000, 6, ""),
        (99, 1, ""),
        (500, 500, ""),
    ],
)
def test_that_few_rows_are_bad_is_said_with_what_lands_the_others(format: str, count: int, bad: int, said: str):
    reason = refused(format, lines(format, count, bad))
    assert "paid 'n/a' is no decimal number" in reason.replace("paid = ", "paid ")
    assert reason.endswith(said)
    assert ("bad_rows_share" in reason) == bool(said)


@pytest.mark.parametrize("format", ["csv", "json"])
def test_whoever_follows_it_has_the_others(format: str):
    found = Decoding(Dataset("lake.n.t", "", format, options=SET_ASIDE), SCHEMA).decode("k", lines(format, 500, 5))
    assert isinstance(found, pa.Table)
    assert found.num_rows == 495


def test_what_is_wrong_with_the_file_as_a_whole_is_no_bad_row():
    assert "bad_rows" not in refused("csv", b"other\n" + b"1\n" * 500)


def test_an_array_on_a_line_of_its_own_is_a_bad_row():
    body = b"[1, 2]\n" + lines("json", 500, 0)
    assert "Of 501 rows, 1 does not fit" in refused("json", body)


def test_a_type_that_is_advised_is_said_to_be_the_tables_as_well():
    retyped = "line 3: total 'x' is no number: correct it, or make the column a string"
    said = about_the_table(retyped, "lake.shop.orders")
    assert said.startswith("table lake.shop.orders is there, and keeps the types that it has")
    assert "new `table`" in said
    assert about_the_table(retyped, "").startswith("its table is there")
    assert about_the_table("broken gzip", "lake.shop.orders") == ""


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ("total int", b'{"total": 3000000000}'),
        ("total float", b'{"total": 1e300}'),
        ("total decimal(5,2)", b'{"total": 12345.67}'),
    ],
)
def test_a_wider_type_needs_no_new_table(schema: str, line: bytes):
    said = about_the_table(refused("json", line, schema=arrow_schema(schema)), "lake.shop.orders")
    assert "ALTER COLUMN" in said
    assert "new `table`" not in said


def test_more_decimals_need_a_new_table():
    """Iceberg widens the precision of a decimal, and never its scale."""
    said = about_the_table("line 1: total 1.234 has 3 decimals, decimal(5,2) holds 2: make the column decimal(6,3)", "")
    assert "new `table`" in said


def test_what_no_double_holds_is_advised_to_be_what_a_string_takes():
    advised = refused("json", b'{"total": 1e999}', schema=arrow_schema("total double"))
    assert "write it as text, and make the column a string" in advised
    found = Decoding(Dataset("lake.n.t", "", "json"), arrow_schema("total string")).decode("k", b'{"total": "1e999"}')
    assert isinstance(found, pa.Table)
