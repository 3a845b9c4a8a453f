"""What is left out before texts are read is nothing that could be read."""

import decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.formats.columns import conform
from tidegate.formats.reasons import Undecodable
from tidegate.formats.text_values import may_be

KINDS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32()),
    *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(5, 2), pa.decimal128(38, 0), pa.binary()),
]
NUMBERS = st.from_regex(r"\A[-+]?[0-9]{0,22}\.?[0-9]{0,3}([eE][-+]?[0-9]{0,4})?\Z")
TIMES = st.from_regex(
    r"\A[0-9]{4}-[0-3][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,7})?)?(Z|\+02)?)?\Z"
)
WORDS = st.sampled_from(["true", "FALSE", "True", "0", "1", "t", "yes", "", "nan", "inf", "null", "YQ==", "-0", "007"])


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(text=st.one_of(NUMBERS, TIMES, WORDS, st.text(max_size=5)))
@example("9223372036854775807")
@example("-9223372036854775808")
@example("-00128")
@example("2024-02-29")
@example("0000-01-01")
def test_what_can_be_read_may_be_read(kind: pa.DataType, text: str) -> None:
    texts = pa.array([text])
    try:
        conform(pa.table({"c": texts}), pa.schema([("c", kind)]), texts=True)
    except Undecodable:
        return
    assert may_be(texts, kind).to_pylist() == [True]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int64(), "n/a"),
        (pa.int64(), "9223372036854775808"),
        (pa.int32(), "-2147483649"),
        (pa.float64(), "1.2.3"),
        (pa.bool_(), "yes"),
        (pa.date32(), "2026-02-29"),
        (pa.timestamp("us"), "2026-13-01 00:00"),
        (pa.timestamp("us"), "2026-03-01 25:00"),
        (pa.timestamp("us", "UTC"), "9999-12-31T23:59:59-10:00"),
        (pa.float64(), "1e400"),
        (pa.float32(), "1e100"),
        (pa.decimal128(5, 2), "1.255"),
    ],
)
def test_most_of_what_cannot_be_read_is_left_out(kind: pa.DataType, text: str) -> None:
    assert may_be(pa.array([text, text]), kind).to_pylist() == [False, False]


@pytest.mark.parametrize("scale", [0, 2, 6, 10, 20, 30, 38])
@given(st.data())
def test_a_decimal_is_exact_or_refused(scale: int, data: st.DataObject) -> None:
    """Arrow by itself makes another number of one that has more than 38 digits with the zeros of the scale."""
    whole = data.draw(st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(10**18), 10**18))
    kind = pa.decimal128(38, scale)
    fits = abs(whole) < 10 ** (38 - scale)
    columns = {"text": pa.array([str(whole)]), "number": pa.array([decimal.Decimal(whole)], pa.decimal128(38, 0))}
    for column, texts in (("text", True), ("number", False)):
        try:
            found = conform(pa.table({"c": columns[column]}), pa.schema([("c", kind)]), texts=texts)["c"][0].as_py()
        except Undecodable:
            assert not fits, (column, whole)
        else:
            assert (found, fits) == (decimal.Decimal(whole), True), (column, whole)


def test_any_number_of_zeros_may_be_before_a_whole_number() -> None:
    texts = pa.array(["0" * 5_000 + "1", "-" + "0" * 5_000, "soon"])
    assert may_be(texts, pa.int64()).to_pylist() == [True, True, False]
