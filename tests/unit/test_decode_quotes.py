"""Quotes in CSV: refused where Python's strict csv module refuses them, and read as it reads them elsewhere."""

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.formats.decode import decoder
from tidegate.formats.quotes import check_quotes
from tidegate.formats.reasons import Undecodable


def strict(body: bytes, delimiter: str = ",") -> list[list[str]] | None:
    """What the csv module reads, or None if it refuses."""
    try:
        return list(csv.reader(io.StringIO(body.decode(), newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return None


def accepted(body: bytes, delimiter: str = ",") -> bool:
    try:
        check_quotes(body, delimiter)
    except Undecodable:
        return False
    return True


@given(st.text('",;ab\n\r', max_size=14), st.sampled_from(",;"))
@example('a,b\n1,"x\n2,y\n3,"z\n4,w\n', ",")
@example('""""', ",")
@example('"""', ",")
@example('a""\n"b"', ",")
@settings(max_examples=700)
def test_quotes_are_refused_where_the_strict_csv_module_refuses_them(text: str, delimiter: str):
    assert accepted(text.encode(), delimiter) == (strict(text.encode(), delimiter) is not None)


@given(st.lists(st.lists(st.text('",ab\n\r é', max_size=6), min_size=2, max_size=2), max_size=8), st.booleans())
@settings(max_examples=100)
def test_what_a_writer_of_csv_quotes_comes_back(rows: list[list[str]], everything: bool):
    text = io.StringIO()
    quoting = csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL
    csv.writer(text, quoting=quoting).writerows([["a", "b"], *rows])
    decode = decoder("csv", pa.schema([("a", pa.string()), ("b", pa.string())]))
    found = decode(text.getvalue().encode()).to_pylist()
    assert [[row["a"] or "", row["b"] or ""] for row in found] == rows


@given(st.text('",ab\n\r', max_size=12))
@example('5" pipe,"a\r\nb"\r\nx,"""y"""')
@settings(max_examples=400)
def test_an_accepted_file_has_the_rows_that_the_csv_module_reads(text: str):
    body = b"a,b\n" + text.encode()
    decode = decoder("csv", pa.schema([("a", pa.string()), ("b", pa.string())]))
    expected = strict(body)
    if expected is None or any(len(row) not in (0, 2) for row in expected):
        with pytest.raises(Undecodable):
            decode(body)
    else:
        # a blank line is no row
        rows = [row for row in expected[1:] if row]
        assert [[row["a"] or "", row["b"] or ""] for row in decode(body).to_pylist()] == rows


def test_an_even_number_of_stray_quotes_swallows_no_rows():
    decode = decoder("csv", pa.schema([("a", pa.int64()), ("b", pa.string())]))
    with pytest.raises(Undecodable, match=r"opened in line 2 closes in line 4, and 'z.*' comes behind it"):
        decode(b'a,b\n1,"x\n2,y\n3,"z\n4,w\n')


def test_the_line_of_a_quote_that_is_never_closed_is_told():
    with pytest.raises(Undecodable, match="line 3 is opened and never closed"):
        check_quotes(b'a,b\r\n1,2\r\n1,"2\r\n', ",")
