"""Every planted mistake is found, and none is found where there is none: the oracle is neither blind nor jumpy."""

from collections.abc import Iterator

import pytest

from tests.sim.bugs import BUGS, HARMLESS
from tests.sim.explore import Case, run, seeds, simulation
from tests.sim.extra_scenarios import EXTRA
from tests.sim.planting import Bug, Edit, hurried, planted, show
from tests.sim.scenarios import PLAIN
from tidegate.core.claims import judge

SEEDS = 8


@pytest.fixture(scope="module", autouse=True)
def product_at_hand() -> Iterator[None]:
    with simulation():
        yield


@pytest.fixture
def hurry() -> Iterator[None]:
    with hurried():
        yield


def called(bug: Bug) -> str:
    return bug.name.replace(" ", "-")


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("bug", BUGS, ids=called)
def test_a_planted_mistake_breaks_a_promise_in_a_run_that_is_good_without_it(bug: Bug) -> None:
    shown, without = show(bug)
    assert shown.judgement.broken, f"{shown.case} does not show it"
    assert not without.judgement.broken, f"{without.case} is bad without the mistake: {without.judgement.broken}"


@pytest.mark.parametrize("bug", HARMLESS, ids=called)
def test_what_only_saves_money_can_be_taken_away(bug: Bug) -> None:
    for case in (*map(Case, PLAIN), *seeds(0, SEEDS)):
        with planted(bug):
            result = run(case)
        assert result.good, f"{case}: {result.judgement.broken}"


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("scenario", EXTRA)
def test_the_product_gets_through_each_accident(scenario: str) -> None:
    assert run(Case(scenario)).judgement.broken == []


def test_every_mistake_has_a_name_of_its_own() -> None:
    names = [bug.name for bug in (*BUGS, *HARMLESS)]
    assert sorted(set(names)) == sorted(names)


def test_a_mistake_is_gone_when_its_planting_ends() -> None:
    before = judge.__code__
    with planted(BUGS[0]):
        assert judge.__code__ is not before
    assert judge.__code__ is before


def test_a_mistake_that_does_not_fit_the_product_any_more_is_an_error() -> None:
    outdated = Bug("outdated", "-", (Edit("tidegate.core.claims:judge", "words that are not there", ""),))
    with pytest.raises(LookupError, match="0 times"), planted(outdated):
        pass
