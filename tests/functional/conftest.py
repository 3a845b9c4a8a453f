"""A small world for each test."""

import pytest

from tests.support.world import World, small_world


@pytest.fixture
def world() -> World:
    return small_world(max_wait=300, in_flight=1, attempts=3)
