"""What the runbook's commands look up, by the beginning of a name and a type, is there in the real template.

In the emulated account of tests/functional/test_runbook.py the parts are made by hand.
"""

import re

import pytest

from infra.roster import ROSTER, Schedule
from tests.functional.runbook.parts import FUNCTION, LOG, RULE
from tests.infra.conftest import ROOT
from tests.support.pages import sections

STEPS = [step for section in sections(ROOT / "docs" / "operations.md") for step in section.steps]


@pytest.mark.parametrize("row", ROSTER, ids=lambda row: row.name)
def test_each_function_has_one_part_of_each_type(simple, row):
    for kind in (LOG, FUNCTION):
        assert len([name for name in simple.of(kind) if name.startswith(row.construct)]) == 1
    rules = [name for name in simple.of(RULE) if name.startswith(row.construct)]
    assert bool(rules) == isinstance(row.started_by, Schedule)


def test_the_page_looks_up_nothing_else():
    constructs = {"FUNCTION", "$1", *(row.construct for row in ROSTER)}
    looked_up = {match for step in STEPS for match in re.findall(r'\$\(part "?([\w$]+)"? (AWS::[\w:]+)\)', step)}
    assert {kind for _, kind in looked_up} == {LOG, FUNCTION, RULE}
    assert {construct for construct, _ in looked_up} <= constructs
    logs = {match for step in STEPS for match in re.findall(r"^log (\w+) ", step)}
    assert logs
    assert logs <= constructs
