"""The contract of the ledger, whole, on the simulated DynamoDB: what moto and DynamoDB Local pass, it passes, too."""

from collections.abc import Iterator

import pytest

from simulation.world.dynamodb import DynamoDb
from simulation.world.kernel import Kernel
from tests.conformance.backends import simulated
from tests.contract.conftest import Opening, another, clock, ledger, opening_of, store  # noqa: F401
from tests.contract.test_ledger import *  # noqa: F403
from tests.contract.test_store import *  # noqa: F403
from tests.support.ledgers import SettableClock, Table


@pytest.fixture
def opening() -> Iterator[Opening]:
    service = DynamoDb(Kernel(0))
    with simulated("dynamodb", service.answer) as client:
        yield opening_of(Table(client, "ledger", SettableClock()))
