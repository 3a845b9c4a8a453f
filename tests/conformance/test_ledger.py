"""The contract of the ledger, whole, on the simulated DynamoDB: what moto and DynamoDB Local pass, it passes, too."""

from collections.abc import Iterator

import pytest

from simulation.world.dynamodb import DynamoDb
from simulation.world.kernel import Kernel
from tests.conformance.backends import simulated
from tests.contract.conftest import (  # noqa: F401
    Opening,
    another,
    batch,
    clock,
    ledger,
    new_id,
    opening_of,
    store,
)
from tests.contract.test_afterwards import *  # noqa: F403
from tests.contract.test_attempts import *  # noqa: F403
from tests.contract.test_claiming import *  # noqa: F403
from tests.contract.test_ending import *  # noqa: F403
from tests.contract.test_given_up import *  # noqa: F403
from tests.contract.test_registering import *  # noqa: F403
from tests.contract.test_store import *  # noqa: F403
from tests.support.ledgers import SettableClock, Table


@pytest.fixture
def opening() -> Iterator[Opening]:
    service = DynamoDb(Kernel(0))
    with simulated("dynamodb", service.answer) as client:
        yield opening_of(Table(client, "ledger", SettableClock()))
