"""How other countries and tools write CSV: the same values as in the grammar's own form, by each way of reading."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_cli_init import made
from tests.unit.test_stream_decode import SIZES, compared, told
from tests.unit.test_together import decoding, same
from tidegate.formats.decode import decoder
from tidegate.formats.dialect import FORMS
from tidegate.formats.guess_dialect import WrittenValues, dialect_of, doubt_of
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import DATES, ISO_DATES

SCHEMA = pa.schema(
    [
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("x", pa.float64()),
        ("total", pa.decimal128(12, 2)),
        ("n", pa.int64()),
        ("name", pa.string()),
    ]
)
GERMAN = {"delimiter": ";", "decimal": ",", "dates": "dd.mm.yyyy", "null": "NULL"}


def of_csv(line: str, **options: str) -> dict[str, Any]:
    (row,) = decoder("csv", SCHEMA, options.items())(f"day;at;x;total;n;name\n{line}\n".encode()).to_pylist()
    return row


def test_one_row_as_a_german_writes_it():
    assert of_csv("3.2.2024;24.12.2024 18:30;-1,5;1234,50;7;NULL", **GERMAN) == {
        "day": datetime.date(2024, 2, 3),
        "at": datetime.datetime(2024, 12, 24, 18, 30),
        "x": -1.5,
        "total": Decimal("1234.50"),
        "n": 7,
        "name": None,
    }
    assert of_csv('NULL;;NULL;;NULL;"NULL"', **GERMAN) == {**dict.fromkeys(SCHEMA.names), "name": "NULL"}


DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
WRITE = {
    ISO_DATES: lambda day, pad: day.isoformat(),
    "dd.mm.yyyy": lambda day, pad: f"{day.day:{pad}}.{day.month:{pad}}.{day.year:04}",
    "dd/mm/yyyy": lambda day, pad: f"{day.day:{pad}}/{day.month:{pad}}/{day.year:04}",
    "mm/dd/yyyy": lambda day, pad: f"{day.month:{pad}}/{day.day:{pad}}/{day.year:04}",
}


@given(
    st.lists(st.tuples(DAYS, st.floats(allow_nan=False, allow_infinity=False), st.booleans()), max_size=6),
    st.sampled_from(DATES),
)
def test_a_date_and_a_number_are_the_same_however_they_are_written(rows: list[tuple[Any, float, bool]], dates: str):
    lines = [
        f"{WRITE[dates](day, '02' if padded else '')};{WRITE[dates](day, '02')}T04:05;{str(x).replace('.', ',')}"
        for day, x, padded in rows
    ]
    body = "\n".join(["day;at;x", *lines, ""]).encode()
    found = decoder("csv", SCHEMA, [("delimiter", ";"), ("decimal", ","), ("dates", dates)])(body).to_pylist()
    assert [(each["day"], each["x"]) for each in found] == [(day, x) for day, x, _ in rows]
    assert [each["at"] for each in found] == [datetime.datetime(day.year, day.month, day.day, 4, 5) for day, *_ in rows]


CELLS = st.sampled_from(
    ["", "NULL", "1,5", "1.5", "7", "3.2.2024", "2024-02-03", "3.2.2024 4:05", "31.02.2024", "x", '"NULL"', "\0", ","]
)
LINES = st.lists(st.tuples(CELLS, CELLS, CELLS).map(";".join), max_size=6)


@given(LINES, SIZES)
def test_a_file_in_pieces_is_the_whole_one(lines: list[str], size: int):
    body = "\n".join(["day;x;name", *lines, ""]).encode()
    whole, piecewise = compared("csv", body, SCHEMA, size=size, **GERMAN)
    # of several faults another one may be named
    assert piecewise[0] == whole[0]
    assert piecewise == whole or whole[0] == "refused"


@given(st.lists(LINES, min_size=2, max_size=4))
def test_files_together_are_each_alone(files: list[list[str]]):
    schema = pa.schema([SCHEMA.field(name) for name in ("day", "x", "name")])
    same(
        decoding("csv", schema, options=tuple(GERMAN.items())),
        ["\n".join(["day;x;name", *each, ""]).encode() for each in files],
    )


@pytest.mark.parametrize("column", ["x", "total", "n"])
@pytest.mark.parametrize("text", ["1.5", "1.234,5", "1.234", "1,2,3", "1\0005"])
def test_no_number_with_a_point_is_taken_for_another(column: str, text: str):
    """1.234 is more than a thousand to a German, and less than two to others."""
    body = f"{column}\n{text}\n".encode()
    with pytest.raises(Undecodable, match=r"is no .*number"):
        decoder("csv", SCHEMA, GERMAN.items())(body)


@pytest.mark.parametrize(
    ("column", "text", "options", "said"),
    [
        (
            "x",
            "1,5",
            {},
            '\'1,5\' is no number, .* If "," is the decimal mark of these files: decimal = "," in the route',
        ),
        ("total", "1.5", GERMAN, "'1.5' is no decimal number, .*decimal = \"\\.\" in the route"),
        ("day", "13/02/2024", {}, "'13/02/2024' is no date.* If it is a date: dates = \"dd/mm/yyyy\" in the route"),
        ("day", "03/02/2024", {}, 'dates = "dd/mm/yyyy" or dates = "mm/dd/yyyy" in the route'),
        ("at", "03.02.2024 04:05", {}, 'dates = "dd.mm.yyyy" in the route'),
        ("day", "x", GERMAN, "'x' is no date, as in 03.02.2024: write it so"),
        ("day", "31.02.2024", GERMAN, "'31.02.2024' is no day of the years"),
        ("n", "NA", {}, "'NA' is no whole number, .* If NA stands for null: null = \"NA\" in the route"),
        ("n", "\\N", {}, 'null = "\\\\\\\\N" in the route'),
        (
            "x",
            "1,5x",
            GERMAN,
            "'1,5x' is no number, and the schema says double: correct it, or make the column a string$",
        ),
    ],
)
def test_an_error_shows_what_is_in_the_file_and_names_the_option(column: str, text: str, options: Any, said: str):
    with pytest.raises(Undecodable, match=said):
        decoder("csv", SCHEMA, {**options, "delimiter": ";"}.items())(f"{column}\n{text}\n".encode())


@pytest.mark.parametrize("text", ["03/02/2024 00:00", "03/02/2024 ", "03/02/2024T04:05:06"])
def test_no_advice_makes_good_files_other_ones(text: str):
    """The date is of the route's form. By the other one all dates would be other days."""
    with pytest.raises(Undecodable) as error:
        decoder("csv", SCHEMA, [("dates", "dd/mm/yyyy")])(f"day\n{text}\n".encode())
    assert "dates =" not in str(error.value)
    with pytest.raises(Undecodable) as error:
        decoder("csv", SCHEMA, [("null", "NA")])(b"n,name\nNULL,NA\n")
    assert "null =" not in str(error.value)


def test_json_has_no_dialect():
    kind, why, _ = told(lambda: [decoder("json", SCHEMA)(b'{"day": "03.02.2024"}\n')])
    assert kind == "refused"
    assert "dates =" not in why


def written(*texts: str) -> WrittenValues:
    found = WrittenValues()
    for text in texts:
        found.add(text)
    return found


@pytest.mark.parametrize(
    ("columns", "guessed"),
    [
        ([["1,5", "7"]], {"decimal": ","}),
        # may be thousands
        ([["1,500", "2,000"]], {}),
        ([["1,500", "2,00"]], {"decimal": ","}),
        # files have one decimal mark
        ([["1,5"], ["1.5"]], {}),
        ([["1,5", "x"]], {}),
        ([["03.02.2024", "1.1.2024"]], {"dates": "dd.mm.yyyy"}),
        ([["03/02/2024"]], {}),
        ([["03/02/2024"], ["13/02/2024 04:05"]], {"dates": "dd/mm/yyyy"}),
        ([["02/13/2024"]], {"dates": "mm/dd/yyyy"}),
        # both orders in one file
        ([["02/13/2024"], ["13/02/2024"]], {}),
        ([["03.02.2024", "x"]], {}),
        ([["7", "NA"], ["a", "NULL", "NULL"]], {"null": "NA"}),
        ([["0,5", "0,75"], ["1.234"]], {}),
        # the country, in another column
        ([["7", "NA"], ["DE", "NA"]], {}),
        ([["7", "NULL"], ["DE", "NULL"]], {"null": "NULL"}),
        # names may be called so
        ([["a", "NA"]], {}),
        ([["NA"]], {}),
        ([["2024-02-03", "\\N"]], {"null": "\\N"}),
    ],
)
def test_a_guess_is_careful(columns: list[list[str]], guessed: dict[str, str]):
    assert dialect_of(written(*each) for each in columns) == guessed


def test_a_column_whose_order_is_not_known_says_so():
    assert 'dates = "dd/mm/yyyy" or dates = "mm/dd/yyyy"' in doubt_of(written("03/02/2024"), [], "")
    assert doubt_of(written("13/02/2024"), [], "") == doubt_of(written("x"), [], "") == ""


def test_a_number_that_may_be_thousands_and_a_word_that_may_be_null_say_so():
    rate, amount = written("0,5", "0,75"), written("1.234")
    assert "which of them is the decimal mark?" in doubt_of(amount, [rate, amount], "")
    assert "if these are thousands" in doubt_of(amount, [amount], "")
    assert "if these are thousands" in doubt_of(written("1.234", "12.500", "7"), [], "")
    assert "if these are thousands" in doubt_of(written("1.234,56", "12,500.00"), [], "")
    assert doubt_of(written("1.234", "1.5"), [], "") == ""
    assert 'set null = "NA"' in doubt_of(written("7", "NA"), [], "")
    assert doubt_of(written("7", "NA"), [], "NA") == ""


def test_the_examples_are_of_their_forms():
    for name, form in FORMS.items():
        assert form.example == WRITE[name](datetime.date(2024, 2, 3), "02")
        assert form.has(form.example)


def test_init_guesses_from_all_files_and_writes_what_decodes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eu").mkdir()
    (tmp_path / "eu" / "a.csv").write_text("id;x;day;name\n1;7;03.02.2024;A\n")
    (tmp_path / "eu" / "b.csv").write_text("id;x;day;name\n2;7,5;24.12.2024;A\n3;NULL;;NULL\n")
    route, _, _ = made("eu")
    assert (route.decimal, route.dates, route.null) == (",", "dd.mm.yyyy", "NULL")
    assert route.table_schema.split() == ["id", "bigint,", "x", "double,", "day", "date,", "name", "string"]
