"""What is read by a shorter way is the same, row by row and word by word, as by the strict one."""

import json
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.formats import json_lines
from tidegate.formats.byte_counts import SMALL, count, may_have_blank_lines
from tidegate.formats.decode import decoder
from tidegate.formats.json_numbers import at_once
from tidegate.formats.reasons import Undecodable

TEXTS = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"\t", b"\x0b", b"\0", b"{", b"}\n{", b"a"])).map(
    b"".join
)


@given(TEXTS, st.sampled_from([0, 1, SMALL]))
def test_bytes_are_counted_in_short_and_in_long_texts(text: bytes, more: int):
    long = text + b"." * more
    assert count(long, ord("\n")) == long.count(b"\n")
    assert count(long, ord("\r")) == long.count(b"\r")


@given(TEXTS)
def test_rows_are_the_lines_that_are_not_blank(text: bytes):
    lines = (text + b"\n").split(b"\n")[:-1]
    assert json_lines.count_rows(text + b"\n") == sum(bool(line.strip()) for line in lines)
    if any(not line.strip() for line in lines):
        assert may_have_blank_lines(text + b"\n")


def test_lines_without_white_space_at_their_beginning_are_known_to_be_rows():
    assert not may_have_blank_lines(b'{"id": 1}\n{"id": 2}\n')
    assert not may_have_blank_lines(b"")


EDGES = [0, -1, 127, 128, -128, -129, (1 << 31) - 1, 1 << 31, -(1 << 31) - 1, (1 << 63) - 1, 1 << 63, -(1 << 63) - 1]
WHOLE = st.one_of(st.sampled_from(EDGES), st.integers(-(1 << 65), 1 << 65), st.none())
FRACTIONS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.none())


@given(st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64()]), st.lists(WHOLE, max_size=6))
def test_whole_numbers_at_once_are_those_that_arrow_makes_one_by_one(kind: pa.DataType, values: list[int | None]):
    found = at_once(kind)(lambda value: value, values)
    try:
        strict = pa.array(values, kind)
    except (pa.ArrowException, OverflowError):
        assert found is None
        return
    assert found is None if None in values else found.equals(strict)


@given(st.sampled_from([pa.float32(), pa.float64()]), st.lists(FRACTIONS, max_size=6))
def test_fractions_at_once_are_those_that_arrow_makes_one_by_one(kind: pa.DataType, values: list[float | None]):
    found = at_once(kind)(lambda value: value, values)
    assert found is None if None in values else found.equals(pa.array(values, pa.float64()))


@pytest.mark.parametrize("kind", [pa.bool_(), pa.string(), pa.decimal128(9, 2), pa.list_(pa.int64())])
def test_only_numbers_are_made_at_once(kind: pa.DataType):
    assert at_once(kind)(lambda value: value, []) is None


SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int32()), ("c", pa.float64()), ("d", pa.float32()), ("e", pa.bool_())])
STRICT = SCHEMA.set(0, pa.field("a", pa.int64(), nullable=False))
VALUES = st.sampled_from(
    [
        "0",
        "-0",
        "1",
        "-7",
        "1.0",
        "1.5",
        "1e2",
        "1e39",
        "1e400",
        "-1e400",
        "null",
        "true",
        '"1"',
        "[]",
        "{}",
        "NaN",
        "01",
    ]
    + [str(edge) for edge in EDGES]
)
OBJECTS = st.dictionaries(st.sampled_from("abcdef"), VALUES, max_size=5).map(
    lambda found: "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in found.items()) + "}"
)


def _told(body: bytes, schema: pa.Schema) -> Any:
    try:
        return decoder("json", schema)(body)
    except Undecodable as error:
        return str(error), error.row, error.where


@settings(max_examples=400)
@given(st.lists(OBJECTS, min_size=1, max_size=8), st.sampled_from([SCHEMA, STRICT]), st.sampled_from([20, 256_000]))
def test_json_with_numbers_at_once_is_taken_and_refused_as_value_by_value(
    lines: list[str], schema: pa.Schema, block: int
):
    body = "\n".join(lines).encode()
    with patch.object(json_lines, "BLOCK_BYTES", block):
        found = _told(body, schema)
        with patch.object(json_lines, "at_once", lambda kind: lambda member, rows: None):
            assert _told(body, schema) == found
