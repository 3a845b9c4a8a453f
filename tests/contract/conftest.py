"""The ledgers that the contract is tested on. A new implementation of `flows.ports.Ledger` is one more of `TABLES`."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.support.dynamodb_local import DynamoDbLocal, running
from tests.support.ledgers import SettableClock, Table, create_table, moto_table
from tidegate.aws.ledger import DynamoLedger


@pytest.fixture(scope="session")
def dynamodb_local() -> Iterator[DynamoDbLocal]:
    with running() as local:
        yield local


@pytest.fixture(scope="session")
def local_table(dynamodb_local: DynamoDbLocal) -> Callable[[], AbstractContextManager[Table]]:
    """Makes a table of its own for each test."""
    client = dynamodb_local.client()
    numbers = itertools.count()

    @contextmanager
    def table() -> Iterator[Table]:
        name = f"ledger-{next(numbers)}"
        create_table(client, name)
        yield Table(client, name, SettableClock())
        client.delete_table(TableName=name)

    return table


@pytest.fixture(params=["moto", "dynamodb-local"])
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    make = moto_table if request.param == "moto" else request.getfixturevalue("local_table")
    with make() as made:
        yield made


@pytest.fixture
def ledger(table: Table) -> DynamoLedger:
    return table.ledger()


@pytest.fixture
def clock(table: Table) -> SettableClock:
    return table.clock


@pytest.fixture
def another(table: Table) -> Callable[[], DynamoLedger]:
    """The same ledger, as another process sees it."""
    return table.ledger
