"""Comments in a schema, as Spark has them. `tests/spark/test_schemas.py` compares with Spark itself."""

import pytest

from tidegate.schemas import ddl


@pytest.mark.parametrize(
    "text",
    [
        "a int /* x /* y */ z */, b int",
        "a /* /* /* */ */ */ int, b int",
        "a int /* /*/ */ */, b int /**/",
        "a int /* /*+ x */, b int",
        "a int, /* `b` ' /* \" */ */ b int -- /*",
    ],
)
def test_comments_may_have_comments_in_them(text: str):
    parsed = ddl.parse(text)
    assert parsed.mistakes == ()
    assert [column.name for column in parsed.columns] == ["a", "b"]


@pytest.mark.parametrize(("text", "at"), [("a int /* /* */, b int", 6), ("a int, /*", 7), ("/* a int", 0)])
def test_a_comment_that_is_not_closed_is_named_where_it_begins(text: str, at: int):
    (mistake,) = ddl.parse(text).mistakes
    assert (mistake.at.start, mistake.at.end) == (at, at + 2)
    assert mistake.message == "this comment is not closed: each `/*` in it, too, needs its `*/`"


@pytest.mark.parametrize("text", ["a int /* /* */ */ */", "a int /*+ x */", "a int */"])
def test_what_is_no_comment_does_not_belong_there(text: str):
    assert ddl.parse(text).mistakes
