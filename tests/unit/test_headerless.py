"""CSV without a header: the fields of a line are the schema's columns. All else is as with one."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_json_layout import stream
from tests.unit.test_settings import GOOD
from tidegate.formats.decode import decoder, divider, salvaging, splitter, streaming
from tidegate.formats.reasons import Undecodable
from tidegate.formats.said import said_of
from tidegate.settings import parse

SCHEMA = pa.schema([("id", pa.int64()), ("a; b", pa.string()), ("share", pa.float64())])
HEADER = b'id;"a; b";share'
OPTIONS = [("delimiter", ";"), ("header", False)]
FIELDS = st.tuples(
    st.one_of(st.integers(-5, 99).map(str), st.just(""), st.just("x")),
    st.sampled_from(["a", "", '""', '"a;b"', '"two\nlines"', "id", "é"]),
    st.sampled_from(["1.5", "", "-2"]),
)
ENDS = st.sampled_from(["\n", "\r\n"])


def ended(rows: Iterator[pa.Table] | pa.Table) -> list[dict[str, object]]:
    tables = [rows] if isinstance(rows, pa.Table) else list(rows)
    return [row for table in tables for row in table.to_pylist()]


def outcome(read: object, body: bytes) -> object:
    try:
        return ended(read(body))  # type: ignore[operator]
    except Undecodable as error:
        return str(error).replace("the schema 3", "the header 3")


@given(st.lists(FIELDS, max_size=6), ENDS, st.booleans(), st.booleans(), st.sampled_from([1, 9, 1 << 20]))
def test_it_is_what_a_file_with_the_header_is(
    rows: list[tuple[str, ...]], end: str, last: bool, mark: bool, piece: int
):
    text = end.join(";".join(row) for row in rows).encode() + (end.encode() if last and rows else b"")
    begins = b"\xef\xbb\xbf" if mark else b""
    expected = outcome(decoder("csv", SCHEMA, OPTIONS[:1]), begins + HEADER + end.encode() + text)
    assert outcome(decoder("csv", SCHEMA, OPTIONS), begins + text) == expected
    streamed = streaming("csv", SCHEMA, OPTIONS)
    assert outcome(lambda body: streamed(stream(body, piece)), begins + text) == expected
    made = divider("csv", SCHEMA, OPTIONS)
    part = made(begins + text) if made else None
    if part is not None:
        assert outcome(decoder("csv", SCHEMA, OPTIONS), part.head + part.text) == expected


@pytest.mark.parametrize(
    ("body", "why", "where"),
    [
        (
            b'id;"a; b";share\n1;a;2\n',
            "row 1 has the names of columns (id, a; b, share): set header = true",
            'line 1: id;"a; b";share',
        ),
        (b"1;a\n", "row 1 has 2 fields, and the schema 3", "line 1: 1;a"),
        (b"1;a;2;3\n", "row 1 has 4 fields, and the schema 3", "line 1: 1;a;2;3"),
        (b"1;a;2\nx;b;3\n", "row 2: id = 'x' is no whole number", "line 2: x;b;3"),
        (b"id;a;share\n", "row 1: id = 'id' is no whole number", "line 1: id;a;share"),
        (b"\xef\xbb\xbf\xef\xbb\xbf1;a;2\n", "two byte order marks", ""),
    ],
)
def test_what_is_refused_names_the_line_of_the_file(body: bytes, why: str, where: str):
    streamed = streaming("csv", SCHEMA, OPTIONS)
    for read in (decoder("csv", SCHEMA, OPTIONS), lambda text: ended(streamed(stream(text, 3)))):
        with pytest.raises(Undecodable) as refused:
            read(body)
        assert why in str(refused.value)
        assert refused.value.where == where


def test_bad_rows_count_from_the_first_line():
    made = salvaging("csv", SCHEMA, [*OPTIONS, ("bad_rows_share", 0.5)])
    assert made is not None
    tables = [table for table in made(stream(b"1;a;1\nx;b;2\n3;c;3\n"), 3) if table.num_rows]
    assert ended(iter(tables)) == [{"id": 1, "a; b": "a", "share": 1.0}, {"id": 3, "a; b": "c", "share": 3.0}]
    (bad,) = said_of(tables[0]).bad
    assert (bad.place, bad.text) == ("line 2", "x;b;2")


def test_other_encodings_and_no_split():
    for encoding in ("utf-16", "windows-1252"):
        options = [*OPTIONS, ("encoding", encoding)]
        assert ended(decoder("csv", SCHEMA, options)("1;é;2\n".encode(encoding)))[0]["a; b"] == "é"
    assert splitter("csv", SCHEMA, OPTIONS) is None
    assert splitter("csv", SCHEMA, OPTIONS[:1]) is not None


def test_a_route_says_so():
    text = GOOD.replace('format = "csv"', 'format = "csv"\nheader = false')
    (route,) = (each for each in parse(text).core_routes() if each.dataset.format == "csv")
    assert ("header", False) in route.dataset.options
    with pytest.raises(Exception, match="header"):
        parse(text.replace("header = false", 'header = "no"'))


def test_a_file_with_two_marks_is_not_joined():
    made = divider("csv", SCHEMA, OPTIONS)
    assert made
    assert made(b"\xef\xbb\xbf1;a;2\n") is not None
    assert made(b"\xef\xbb\xbf\xef\xbb\xbf1;a;2\n") is None


def test_a_file_without_its_header_says_how_it_is_read():
    for body, told in ((b"1;a;2\n", True), (b"1;a\n", False)):
        with pytest.raises(Undecodable) as error:
            decoder("csv", SCHEMA, OPTIONS[:1])(body)
        assert ("If its first line is a row: header = false in the route" in str(error.value)) is told


def test_a_header_in_the_middle_of_a_file_is_a_bad_row_and_no_header():
    bad = HEADER + b"\n"
    streamed = streaming("csv", SCHEMA, OPTIONS)
    with pytest.raises(Undecodable) as error:
        ended(streamed(stream(b"1;a;2\n" * 50 + bad, 20)))
    assert "row 51: id = 'id' is no whole number" in str(error.value)
