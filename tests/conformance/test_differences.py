"""The list of known differences is about tests that there are."""

import ast
from pathlib import Path

from simulation.world.differences import DIFFERENCES, table_of_differences


def test_every_difference_is_shown_by_tests_that_exist() -> None:
    defined = {
        node.name
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    named = [test for difference in DIFFERENCES for test in difference.tests]
    assert set(named) <= defined
    assert all(difference.tests for difference in DIFFERENCES)


def test_a_test_is_expected_to_fail_on_a_backend_for_one_reason() -> None:
    pairs = [(difference.backend, test) for difference in DIFFERENCES for test in difference.tests]
    assert len(set(pairs)) == len(pairs)


def test_the_table_has_a_line_for_each_difference() -> None:
    lines = table_of_differences().splitlines()
    assert len(lines) == 2 + len(DIFFERENCES)
    # no text may break the table: as many columns everywhere
    assert {line.count("|") for line in lines} == {5}
