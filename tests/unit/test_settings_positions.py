"""Where things are in a TOML text: as many keys, values and characters as `tomllib` finds, each at its place."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.settings.positions import positions
from tidegate.settings.words import Location, TomlPlace

WORDS = st.text("abcxyz019_-", min_size=1, max_size=6)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=["Cs", "Cc"]), max_size=8)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def in_many_lines(text: str) -> str:
    return '"""\n' + text.replace("\\", "\\\\").replace('"', '\\"') + '\\\n   \n"""'


LITERAL = TEXTS.filter(lambda text: "'" not in text)
SCALARS = st.one_of(
    TEXTS.map(quoted),
    TEXTS.map(in_many_lines),
    LITERAL.map(lambda text: f"'{text}'"),
    LITERAL.map(lambda text: f"'''\n{text}'''"),
    TEXTS.map(lambda text: quoted(text)[:-1] + '\\u00e9\\t\\U0001F600"'),
    st.sampled_from(["1", "-2.5e3", "true", "1979-05-27 07:32:00", "07:32:00", "inf", "0x1F"]),
)
SPACE = st.sampled_from(["", " ", "\t", "  "])
GAPS = st.sampled_from(["", " ", "\n  ", " # a comment ] } \" ' \n"])


@st.composite
def lists(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    members = draw(st.lists(values, max_size=3))
    comma = draw(st.sampled_from(["", ","])) if members else ""
    return "[" + ",".join(f"{draw(GAPS)}{member}{draw(GAPS)}" for member in members) + comma + draw(GAPS) + "]"


@st.composite
def tables(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    names = draw(st.lists(WORDS, max_size=3, unique=True))
    return "{" + ",".join(f" {name}{draw(SPACE)}= {draw(values)} " for name in names) + "}"


VALUES = st.recursive(SCALARS, lambda inner: st.one_of(lists(inner), tables(inner)), max_leaves=5)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Sections of drawn names and values. Some are no TOML, because a name is there twice."""
    lines = []
    for number in range(draw(st.integers(0, 4))):
        name = draw(st.sampled_from(["[a]", "[[list]]", "[ list . inner ]", "[[list.more]]", '["b c"]', "[d.e]", ""]))
        lines.append(draw(SPACE) + name)
        for key in draw(st.lists(WORDS, max_size=3, unique=True)):
            dotted = draw(st.sampled_from(["", f"{key}. 'x y'.", f'"n{number}" . ']))
            end = draw(st.sampled_from(["", " # said", "\n", "\n# a line [x] = 'y'"]))
            lines.append(f"{draw(SPACE)}{dotted}{key}{draw(SPACE)}={draw(SPACE)}{draw(VALUES)}{end}")
    return "\n".join(lines)


def everything(value: Any, at: Location = ()) -> Iterator[tuple[Location, Any]]:
    yield at, value
    if isinstance(value, dict):
        for name, each in value.items():
            yield from everything(each, (*at, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from everything(each, (*at, number))


@given(documents())
def test_all_that_tomllib_finds_has_a_place(source: str):
    try:
        data = tomllib.loads(source)
    except tomllib.TOMLDecodeError:
        return
    found = positions(source)
    for location, value in everything(data):
        if not location:
            continue
        assert location in found.values or location in found.keys
        if location in found.values:
            start, end = found.values[location]
            assert tomllib.loads(f"it = {source[start:end]}")["it"] == value
        if isinstance(value, str):
            offsets = found.texts[location]
            assert len(offsets) == len(value) + 1
            for character, offset in zip(value, offsets, strict=False):
                assert source[offset] in (character, "\\")
    assert set(found.texts) <= {location for location, _ in everything(data)}


SOURCE = '''\
[a]
text = "one\\ttwo"
many = """
  first int,
  second strng
"""
list = ["x", "yy"]

[[b]]
c.d = 5
[[b]]
c.d = 6
'''


@pytest.mark.parametrize(
    ("location", "part", "place"),
    [
        (("a", "text"), None, TomlPlace(2, 8, 10)),
        (("a", "text"), (4, 7), TomlPlace(2, 14, 3)),
        (("a", "many"), (22, 27), TomlPlace(5, 10, 5)),
        (("a", "list", 1), None, TomlPlace(7, 14, 4)),
        (("b", 1, "c", "d"), None, TomlPlace(12, 7, 1)),
        (("b", 0, "missing"), None, TomlPlace(9, 1, 5)),
        (("nothing",), None, None),
    ],
)
def test_a_place_is_a_line_a_column_and_a_length(location: Location, part: tuple[int, int] | None, place: TomlPlace):
    assert positions(SOURCE).of(location, part) == place
