"""Ledgers on tables that behave as DynamoDB's, a clock that tests set, and concurrent calls."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar
from unittest.mock import patch

import boto3
from botocore.awsrequest import AWSPreparedRequest
from botocore.config import Config
from moto import mock_aws
from moto.core.models import botocore_stubber
from moto.dynamodb.models import DynamoDBBackend

from tests.support.faults import ANSWERED
from tidegate.core.errors import Retryable
from tidegate.core.items import Applied, Refused, Transition
from tidegate.core.records import DAY
from tidegate.flows.ledger import Ledger
from tidegate.flows.store import Store
from tidegate.stores.dynamodb import DynamoDbStore
from tidegate_local.mends.statements import with_inserts

T = TypeVar("T")

START = 1_800_000_000
"""When tests begin, in epoch seconds: a round number in 2027."""

RETENTION = 60 * DAY
"""How long claims are kept, in seconds."""


@dataclass
class SettableClock:
    now: int = START

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: int) -> None:
        self.now += seconds


@dataclass(frozen=True)
class Table:
    """A ledger's table, and the settings that a process needs to open the ledger."""

    client: Any
    name: str
    clock: SettableClock

    def ledger(self, client: Any = None) -> Ledger:
        """The ledger as opened by another process."""
        return Ledger(DynamoDbStore(client or self.client, self.name), self.clock, RETENTION)

    def item(self, pk: str, sk: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get_item(TableName=self.name, Key={"pk": {"S": pk}, "sk": {"S": sk}})[
            "Item"
        ]
        return found

    def items(self) -> list[dict[str, Any]]:
        pages = self.client.get_paginator("scan").paginate(TableName=self.name)
        return [item for page in pages for item in page["Items"]]


@dataclass
class Interrupted:
    """A store that runs a callback right before it applies independent transitions for the second time: after a ledger
    has read the conflicting records, and before it acts on them."""

    beneath: Store
    meanwhile: Callable[[], object]
    times: int = 0

    def __getattr__(self, verb: str) -> Any:
        return getattr(self.beneath, verb)

    def apply_each(self, transitions: Sequence[Transition]) -> Sequence[Applied | Refused]:
        self.times += 1
        if self.times == 2:
            self.meanwhile()
        return self.beneath.apply_each(transitions)


def interrupted(ledger: Ledger, meanwhile: Callable[[], object]) -> Ledger:
    return replace(ledger, store=Interrupted(ledger.store, meanwhile))


def create_table(client: Any, name: str) -> None:
    """The ledger's table as in the stack, but without TTL: an expired item must not count while it exists."""
    client.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )


@contextmanager
def moto_table(name: str = "ledger") -> Iterator[Table]:
    """A table in moto, in this process."""
    client = moto_client("dynamodb")
    with mock_aws(), mended_inserts():
        create_table(client, name)
        yield Table(client, name, SettableClock())


@contextmanager
def mended_inserts() -> Iterator[None]:
    """moto's inserts as the local stack mends them: it fails at those with parameters."""
    mended = with_inserts(DynamoDBBackend.batch_execute_statement)
    with patch.object(DynamoDBBackend, "batch_execute_statement", mended):
        yield


@cache
def moto_client(service: str) -> Any:
    """A client for use while moto imitates AWS. Making one takes longer than most tests, so all of them share it."""
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing")
    # the endpoint is AWS's own, which moto stands in for, whatever other tests have put into the environment
    host = "s3.amazonaws.com" if service == "s3" else f"{service}.us-east-1.amazonaws.com"
    client = session.client(service, endpoint_url=f"https://{host}", config=Config(max_pool_connections=64))
    serve_one_at_a_time(client)
    return client


def serve_one_at_a_time(client: Any) -> None:
    """Make moto finish a request before it begins the next. A request is atomic on DynamoDB, and not in moto."""
    turn = threading.Lock()

    def serve(event_name: str, request: AWSPreparedRequest, **other: Any) -> Any:
        if ANSWERED in request.headers:
            return None
        with turn:
            return botocore_stubber(event_name, request, **other)

    client.meta.events.unregister("before-send", botocore_stubber)  # or it would serve each request once more
    client.meta.events.register("before-send", serve)


def racing(*calls: Callable[[], T]) -> list[T]:
    """The result of each call. All begin at the same moment; each is repeated while it raises Retryable."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        return persistently(call)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def persistently(call: Callable[[], T], tries: int = 50) -> T:
    """Repeat as a queue redelivers. DynamoDB cancels one of two transactions that conflict on an item."""
    for _ in range(tries - 1):
        try:
            return call()
        except Retryable:
            threading.Event().wait(0.005)
    return call()
