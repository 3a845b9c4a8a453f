"""`make test` has a test of each layer, and what it leaves out is there."""

import re
from pathlib import Path

import pytest

from tests.support.tiers import LONG, NONETHELESS, is_long

TESTS = Path(__file__).parents[1]
NAMED = sorted({*LONG, *NONETHELESS})


@pytest.mark.parametrize("begins", NAMED)
def test_what_is_named_is_there(begins: str):
    path, _, test = begins.partition("::")
    assert (TESTS.parent / path).exists()
    if test:
        name = test.partition("[")[0]
        assert re.search(rf"^def {name}", (TESTS.parent / path).read_text(), re.MULTILINE)


def test_each_exception_is_one():
    assert all(each.startswith(LONG) for each in NONETHELESS)


def test_whoever_begins_otherwise_is_not_long():
    assert is_long("tests/spark/test_maintain.py::test_a")
    assert not is_long("tests/spark/test_ingest.py::test_a")
    assert not is_long("tests/unit/test_batches.py::test_a")
