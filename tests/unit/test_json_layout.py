"""JSON that is no lines: an array of objects, and objects over several lines. They land as their lines would."""

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.formats import json_lines
from tidegate.formats.decode import decoder, divider, salvaging, streaming
from tidegate.formats.json_layout import JsonLayout, _lines, as_lines, layout_of
from tidegate.formats.reasons import Undecodable
from tidegate.formats.said import said_of
from tidegate.formats.streams import Allowance, HeldBytes, Stream

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
TEXTS = st.text(st.sampled_from('a\\"\n {}[],é\u2028'), max_size=8)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 99), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
AROUND, CUTS = st.sampled_from(["", "\n", " "]), st.lists(st.integers(0))
OBJECTS = st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), max_size=5)


@dataclass(frozen=True, slots=True)
class InPieces(Stream):
    piece: int = 1 << 20

    def pieces(self, size: int = 0) -> Iterator[bytes]:
        for begin in range(0, self.source.size, self.piece):
            yield self.source.read(begin, min(begin + self.piece, self.source.size))


def stream(body: bytes, piece: int = 1 << 20) -> Stream:
    return InPieces(HeldBytes(body), None, Allowance(1 << 30, "the limit"), piece)


def in_parts(text: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(each % (len(text) + 1) for each in cuts), len(text)]
    return [text[begin:end] for begin, end in itertools.pairwise(places)]


@given(OBJECTS, st.sampled_from([None, 1, "\t"]), st.booleans(), AROUND, CUTS)
def test_each_object_of_an_array_is_a_line(objects: list[Any], indent: Any, crlf: bool, around: str, cuts: list[int]):
    text = around + json.dumps(objects, indent=indent) + around
    body = (text.replace("\n", "\r\n") if crlf else text).encode()
    layout, lines = as_lines(body)
    assert layout is JsonLayout.ARRAY
    assert b"".join(_lines(layout, in_parts(body, cuts))) == lines
    assert [json.loads(each) for each in lines.splitlines() if each.strip()] == objects
    assert all(each.startswith(b"{") and each.endswith(b"}") for each in lines.split(b"\n") if each), "at once"


@given(OBJECTS.filter(lambda found: bool(found and found[0])), st.lists(st.integers(0)))
def test_each_object_of_several_lines_is_one(objects: list[Any], cuts: list[int]):
    body = "\n".join(json.dumps(each, indent=2) for each in objects).encode()
    layout, lines = as_lines(body)
    assert layout is JsonLayout.OBJECTS
    assert b"".join(_lines(layout, in_parts(body, cuts))) == lines
    assert [json.loads(each) for each in lines.splitlines()] == objects


def test_what_is_no_array_of_objects_is_refused_and_nothing_else():
    """20,000 arrays, each changed in one or two places: what msgspec takes as a whole gives the same lines."""
    taken = 0
    for seed in range(20_000):
        chance = random.Random(seed)
        objects = [
            {"id": number, "v": chance.choice(['a"', "b\\", {"c": [1]}, None])} for number in range(chance.randrange(4))
        ]
        changed = bytearray(json.dumps(objects, indent=chance.choice([None, 1])).encode())
        for _ in range(chance.randrange(1, 3)):
            at = chance.randrange(len(changed))
            if chance.random() < 0.5:
                changed[at : at + chance.randrange(2)] = bytes([chance.choice(b'[]{},:"\\ 1\n')])
            else:
                del changed[at]
        body = bytes(changed)
        if layout_of(body) is not JsonLayout.ARRAY:
            continue
        try:
            expected = msgspec.json.decode(body, type=list[dict[str, Any]])
        except (msgspec.DecodeError, UnicodeDecodeError):
            expected = None
        try:
            lines = as_lines(body)[1].split(b"\n")
            found = [msgspec.json.decode(each, type=dict[str, Any]) for each in lines if each.strip()]
        except (Undecodable, msgspec.DecodeError, UnicodeDecodeError):
            found = None
        assert found == expected, body
        taken += expected is not None
    assert taken > 1_000


@pytest.mark.parametrize(
    ("head", "layout"),
    [
        (b'{"id": 1}\n{"id": 2}\n', JsonLayout.LINES),
        (b"", JsonLayout.LINES),
        (b'{"id": 1,\n', JsonLayout.LINES),
        (b'[1, 2]\n{"id": 1}\n', JsonLayout.LINES),
        (b'\n [{"id": 1}]', JsonLayout.ARRAY),
        (b"[\n", JsonLayout.ARRAY),
        (b'{\n "id": 1}', JsonLayout.OBJECTS),
    ],
)
def test_the_first_line_says_which_it_is(head: bytes, layout: JsonLayout):
    assert layout_of(head) is layout


ARRAY = b'[\n {"id": 1, "v": "a"},\n {"id": 2}\n]\n'
REFUSED = [
    (b'[{"id": 1}, {"id": "x"}]', "item 2: id = 'x'"),
    (b'[{"id": 1}, 7]', "item 2 is a whole number; each has to be one object"),
    (b'[{"id": 1} {"id": 2}]', "item 1 has several objects"),
    (b'[{"id": 1},, {"id": 2}]', "item 2 of the array: there is nothing"),
    (b'[{"id": 1}, ]', "item 2 of the array: there is nothing"),
    (b'[{"id": 1}] []', "after its array"),
    (b'[{"id": 1}]\n{"id": 2} x', "line 1 is a JSON array"),
    (b'[{"id": 1},\n{"id": 2}', "cut off"),
    (b'[{"id": 1}}]', "closes more objects"),
    (b'{\n "id": "x"\n}', "object 1: id = 'x'"),
    (b'{\n "id": 1\n', "object 1 ends in the middle of an object"),
]


@pytest.mark.parametrize(("body", "why"), REFUSED)
def test_an_array_is_refused_with_its_item(body: bytes, why: str):
    with pytest.raises(Undecodable) as whole:
        decoder("json", SCHEMA)(body)
    with pytest.raises(Undecodable) as streamed:
        list(streaming("json", SCHEMA)(stream(body, 7)))
    assert why in str(whole.value)
    assert why in str(streamed.value)


@pytest.mark.parametrize(
    "body",
    [
        ARRAY,
        b'{\r\n"id": 1, "v": "a"}\n{"id": 2}',
        b'{\n"id": 1, "v": "a"}\n{"id": 2}',
        b'[{"id": 1, "v": "a"},{"id": 2}]',
    ],
)
def test_each_way_of_reading_has_the_rows(body: bytes):
    rows = [{"id": 1, "v": "a"}, {"id": 2, "v": None}]
    assert decoder("json", SCHEMA)(body).to_pylist() == rows
    for piece in (1, 5, 1 << 20):
        found = [row for table in streaming("json", SCHEMA)(stream(body, piece)) for row in table.to_pylist()]
        assert found == rows
    made = divider("json", SCHEMA)
    piece_of_it = made(body) if made else None
    assert piece_of_it is not None
    assert piece_of_it.rows == 2
    assert decoder("json", SCHEMA)(piece_of_it.text).to_pylist() == rows


def test_an_array_is_not_split():
    with pytest.raises(Undecodable, match="no lines"):
        json_lines.survey(HeldBytes(ARRAY), 0, len(ARRAY))
    assert decoder("json", SCHEMA)(b"[]").num_rows == 0


def test_bad_items_are_set_aside():
    made = salvaging("json", SCHEMA, [("bad_rows_share", 0.5)])
    assert made is not None
    (table,) = made(stream(b'[{"id": 1},\n {"id": "x"},\n {"id": 3}]'), 3)
    assert table["id"].to_pylist() == [1, 3]
    (bad,) = said_of(table).bad
    assert (bad.place, bad.text) == ("item 2", '{"id": "x"}')


def test_a_split_that_begins_within_a_line_does_not_say_which_layout_it_is():
    body = b'{"v": [{"id": 1}]}\n{"v": []}\n'
    found = json_lines.survey(HeldBytes(body), 6, len(body))
    assert (found.rows, found.first) == (1, 19)
