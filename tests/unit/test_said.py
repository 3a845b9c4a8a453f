"""What is said of a table goes where the table goes."""

import pickle

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.formats.said import NOTHING, BadRow, Said, said_of, say

TABLE = pa.table({"id": [1, 2, 3]})
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
ROWS = st.none() | st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=3).map(tuple)
SAID = st.builds(
    Said,
    st.dictionaries(TEXTS, ROWS, max_size=3),
    st.lists(st.builds(BadRow, st.integers(0, 1 << 40), TEXTS, TEXTS, TEXTS), max_size=3).map(tuple),
)


@given(SAID)
def test_it_comes_out_of_another_process_as_it_went_in(said: Said):
    sent = pickle.loads(pickle.dumps(say(TABLE, said)))
    assert said_of(sent) == said
    assert sent.equals(TABLE)


def test_what_is_said_replaces_what_was():
    assert said_of(say(say(TABLE, Said({"a": None})), NOTHING)) == NOTHING
    assert said_of(TABLE) == NOTHING
