"""What the contracts are tested on. Another store is one more of `STORES`."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.lives import ROUTE, ids
from tests.contract.sqlite_store import SqliteStore
from tests.support.dynamodb_local import DynamoDbLocal, running
from tests.support.ledgers import RETENTION, SettableClock, Table, create_table, moto_table
from tidegate.core.batches import Batch
from tidegate.flows.ledger import Ledger
from tidegate.flows.store import NewId, Store
from tidegate.stores.dynamodb import DynamoDbStore
from tidegate.stores.memory import MemoryStore, Rehearsal

OPENED: dict[str, Callable[[Path], Callable[[], Store]]] = {
    "memory": lambda folder: _always(MemoryStore()),
    "rehearsal": lambda folder: _always(Rehearsal(MemoryStore())),
    "sqlite": lambda folder: lambda: SqliteStore(folder / "ledger.db"),
}
"""By name: given a folder, what opens the store as one more process does."""
TABLES = ("moto", "dynamodb-local")
"""What imitates DynamoDB. moto is quick to run everywhere; DynamoDB Local is what proves the races."""
STORES = (*OPENED, *TABLES)


def _always(store: Store) -> Callable[[], Store]:
    return lambda: store


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


@dataclass(frozen=True)
class Opening:
    """A store, as often as somebody opens it, and the clock of whoever does."""

    store: Callable[[], Store]
    clock: SettableClock

    def ledger(self) -> Ledger:
        return Ledger(self.store(), self.clock, RETENTION)


@contextmanager
def table_on(name: str, request: pytest.FixtureRequest) -> Iterator[Table]:
    """A table on one of `TABLES`."""
    with moto_table() if name == "moto" else request.getfixturevalue("local_table")() as made:
        yield made


def opening_of(table: Table) -> Opening:
    return Opening(lambda: DynamoDbStore(table.client, table.name), table.clock)


@pytest.fixture(params=STORES)
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    if request.param in OPENED:
        yield Opening(OPENED[request.param](tmp_path), SettableClock())
        return
    with table_on(request.param, request) as table:
        yield opening_of(table)


@pytest.fixture
def store(opening: Opening) -> Store:
    return opening.store()


@pytest.fixture
def ledger(opening: Opening) -> Ledger:
    return opening.ledger()


@pytest.fixture
def clock(opening: Opening) -> SettableClock:
    return opening.clock


@pytest.fixture
def another(opening: Opening) -> Callable[[], Ledger]:
    """The same ledger, as another process sees it."""
    return opening.ledger


@pytest.fixture
def new_id() -> NewId:
    return ids()


@pytest.fixture
def batch(ledger: Ledger, new_id: NewId) -> Batch:
    """The route's open batch, empty."""
    return ledger.open_batch(ROUTE, new_id)
