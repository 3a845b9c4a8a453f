"""The contract of the ledger, whole, on the simulated DynamoDB: what moto and DynamoDB Local pass, it passes, too."""

from collections.abc import Iterator

import pytest

from tests.contract.conftest import another, clock, ledger  # noqa: F401
from tests.contract.test_ledger import *  # noqa: F403
from tests.sim.conformance import simulated
from tests.sim.dynamodb import DynamoDb
from tests.sim.kernel import Kernel
from tests.support.ledgers import SettableClock, Table


@pytest.fixture
def table() -> Iterator[Table]:
    service = DynamoDb(Kernel(0))
    with simulated("dynamodb", service.answer) as client:
        yield Table(client, "ledger", SettableClock())
