"""What numpy counts is what a look at each byte finds."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tidegate.formats import byte_counts
from tidegate.formats.byte_counts import SMALL, count, may_have_blank_lines
from tidegate.formats.json_lines import count_rows

TEXTS = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"\t", b"\x0b", b"\0", b"{", b"}\n{", b"a"])).map(
    b"".join
)


PARTS = st.sampled_from([1, 2, 3, byte_counts.AT_ONCE])


@given(TEXTS, st.sampled_from([0, 1, SMALL]), PARTS)
def test_bytes_are_counted_in_short_and_in_long_texts(text: bytes, more: int, part: int):
    long = text + b"." * more
    with patch.object(byte_counts, "AT_ONCE", part):
        assert count(long, ord("\n")) == long.count(b"\n")
        assert count(long, ord("\r")) == long.count(b"\r")


@given(TEXTS, PARTS, st.sampled_from([0, SMALL]))
def test_rows_are_the_lines_that_are_not_blank(text: bytes, part: int, more: int):
    text += b"{}" * more
    lines = (text + b"\n").split(b"\n")[:-1]
    with patch.object(byte_counts, "AT_ONCE", part):
        assert count_rows(text + b"\n") == sum(bool(line.strip()) for line in lines)
        if any(not line.strip() for line in lines):
            assert may_have_blank_lines(text + b"\n")


def test_lines_without_white_space_at_their_beginning_are_known_to_be_rows():
    assert not may_have_blank_lines(b'{"id": 1}\n{"id": 2}\n')
    assert not may_have_blank_lines(b"")
