"""A small world for each test: real adapters, moto behind them."""

from collections.abc import Iterator

import pytest

from tests.support.world import World, moto_world


@pytest.fixture
def world() -> Iterator[World]:
    with moto_world(max_wait=300, in_flight=1, attempts=3) as made:
        yield made
