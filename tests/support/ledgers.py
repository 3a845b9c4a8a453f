"""Ledgers on tables that answer as DynamoDB does, a clock that tests set, and calls that race."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import boto3
from botocore.awsrequest import AWSPreparedRequest
from botocore.config import Config
from moto import mock_aws
from moto.core.models import botocore_stubber

from tests.support.faults import ANSWERED
from tidegate.aws.ledger import DAY, DynamoLedger
from tidegate.core.errors import Retryable

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
    """A table of a ledger, and what a process needs to open that ledger."""

    client: Any
    name: str
    clock: SettableClock

    def ledger(self, client: Any = None) -> DynamoLedger:
        """The ledger as one more process sees it."""
        return DynamoLedger(client or self.client, self.name, clock=self.clock, claim_retention=RETENTION)

    def item(self, pk: str, sk: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get_item(TableName=self.name, Key={"pk": {"S": pk}, "sk": {"S": sk}})[
            "Item"
        ]
        return found

    def items(self) -> list[dict[str, Any]]:
        pages = self.client.get_paginator("scan").paginate(TableName=self.name)
        return [item for page in pages for item in page["Items"]]


def create_table(client: Any, name: str) -> None:
    """The ledger's table as the stack has it, but without TTL: what has expired must not count while it is there."""
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
    with mock_aws():
        create_table(client, name)
        yield Table(client, name, SettableClock())


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
    """Let moto finish a request before it begins the next: each is atomic on DynamoDB, and in moto it is not."""
    turn = threading.Lock()

    def serve(event_name: str, request: AWSPreparedRequest, **other: Any) -> Any:
        if ANSWERED in request.headers:
            return None
        with turn:
            return botocore_stubber(event_name, request, **other)

    client.meta.events.unregister("before-send", botocore_stubber)  # or it would serve each request once more
    client.meta.events.register("before-send", serve)


def racing(*calls: Callable[[], T]) -> list[T]:
    """What each call returns, all begun at the same moment, each repeated as often as it is told to try again."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait()
        return persistently(call)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def persistently(call: Callable[[], T], tries: int = 50) -> T:
    """As a queue does that delivers again. DynamoDB cancels one of two transactions that meet on an item."""
    for _ in range(tries - 1):
        try:
            return call()
        except Retryable:
            threading.Event().wait(0.005)
    return call()
