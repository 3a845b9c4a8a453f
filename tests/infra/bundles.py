"""Bundles for tests: built once, and given up only where there is no network to fetch dependencies from."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from infra import bundling

OFFLINE = ("dns error", "error sending request", "client error (Connect)")


def packed(bundle: AbstractContextManager[Path]) -> Iterator[Path]:
    """For a fixture: the folder of `bundle`, for as long as the fixture lives."""
    try:
        with bundle as folder:
            yield folder
    except bundling.BundlingError as error:
        if any(sign in str(error) for sign in OFFLINE):
            pytest.skip("the dependencies cannot be fetched without a network")
        raise
