"""Lanes: over which message groups the notices of a route are spread."""

from collections import Counter

import pytest

from tests.support.build import notice
from tidegate.core.lanes import MOST_LANES, group_of

NOTICES = [notice(f"flights/{number}.json") for number in range(4_000)]


def test_a_route_with_one_lane_has_the_group_of_its_name():
    assert {group_of(each, 1) for each in NOTICES} == {"flights"}


@pytest.mark.parametrize("lanes", [2, 3, MOST_LANES])
def test_notices_are_spread_evenly(lanes: int):
    found = Counter(group_of(each, lanes) for each in NOTICES)
    assert set(found) == {"flights", *(f"flights/{lane}" for lane in range(1, lanes))}
    assert min(found.values()) > 0.7 * len(NOTICES) / lanes


def test_the_lane_is_pinned_for_repeats_come_from_other_versions():
    of = notice("flights/a.json")
    assert of.id == "2105ceec0a54313625600b598f4ed978a7096256"
    assert [group_of(of, lanes) for lanes in (1, 2, 8)] == ["flights", "flights", "flights/6"]
