"""Bundles for tests: built once, and given up only where there is no network to fetch dependencies from."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import pytest

from infra import bundling

OFFLINE = ("dns error", "error sending request", "client error (Connect)")


T = TypeVar("T")


def packed(bundle: AbstractContextManager[T]) -> Iterator[T]:
    """For a fixture: what `bundle` gives, for as long as the fixture lives."""
    try:
        with bundle as given:
            yield given
    except bundling.BundlingError as error:
        if any(sign in str(error) for sign in OFFLINE):
            pytest.skip("the dependencies cannot be fetched without a network")
        raise
