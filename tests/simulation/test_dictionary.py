"""A table that follows its source is a dictionary of the last version of each key, whatever comes late, twice or never,
and whichever call fails."""

import pytest

from simulation.checker import dictionary
from simulation.checker.explore import following, run, run_all, simulation
from tests.simulation.test_simulation import HERE, TODAY, told

SEEDS = 100


def test_the_table_is_a_dictionary_of_the_last_versions():
    report = run_all(following(TODAY, TODAY + SEEDS), processes=HERE)
    assert not report.failures, told(report)


def test_a_table_that_is_none_is_found(monkeypatch: pytest.MonkeyPatch):
    expected = dictionary.last_versions
    monkeypatch.setattr(dictionary, "last_versions", lambda world: dict(list(expected(world).items())[1:]))
    with simulation():
        broken = [each for case in following(1, 4) for each in run(case).judgement.broken]
    # of seed 1 nothing is left in the end
    assert [each.startswith("dictionary: ") for each in broken] == [True, True]
