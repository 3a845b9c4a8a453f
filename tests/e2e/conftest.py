"""A whole local stack: real processes, real handlers, real spark-submit, real Iceberg."""

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import boto3
import pytest
from botocore.exceptions import ClientError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from tests.support.patience import HANGING, eventually
from tests.support.world import memory_ports
from tidegate.cli import json_output
from tidegate.core.records import audit_key
from tidegate.core.routes import Route
from tidegate.flows.ledger import Ledger
from tidegate.flows.overview import Overview
from tidegate.flows.status import everything as ask_status
from tidegate.settings import HOUR, load
from tidegate.stores.dynamodb import DynamoDbStore
from tidegate.wiring import clock, settings_file
from tidegate_local import stack as local_stack
from tidegate_local.environment import client
from tidegate_local.hurry import HURRY

CONFIG = """
[deployment]
name = "e2e"

[audit]
every = "1h"

[[route]]
name = "events"
bucket = "landing-e2e"
prefix = "events/"
suffix = ".json"
format = "json"
table = "lake.e2e.events"
schema = "id bigint, text string"

[route.batch]
max_wait = "2s"

[[route]]
name = "plain"
bucket = "landing-plain"
versioned = false
format = "csv"
table = "lake.e2e.plain"
schema = "id bigint"

[route.batch]
max_wait = "2s"

[[route]]
name = "stuck"
bucket = "landing-stuck"
format = "json"
table = "lake.e2e.stuck"
schema = "id bigint"

[route.batch]
max_wait = "2s"

[[route]]
name = "old"
bucket = "landing-old"
format = "json"
table = "lake.e2e.old"
schema = "id bigint, text string"

[route.batch]
max_wait = "2s"

[[route]]
name = "mixed"
bucket = "landing-mixed"
format = "json"
table = "lake.e2e.mixed"
schema = "id int"
max_object_bytes = "1MB"

[route.batch]
max_wait = "2s"

[[route]]
name = "source"
bucket = "landing-source"
format = "json"
on_overwrite = "replace"
on_delete = "remove"
table = "lake.e2e.source"
schema = "id bigint"

[route.batch]
max_wait = "2s"

[[route]]
name = "given-up"
bucket = "landing-given-up"
format = "json"
table = "lake.e2e.given_up"
schema = "id bigint"

[route.batch]
max_wait = "2s"
"""


# a test that stops or kills a driver looks for it by its batch: without subnets each has one of its own
WAITS = {"min_age": 1, "retry_wait": 1, "stay": 10}

T = TypeVar("T")

LOOK_EVERY = 1.0
"""Seconds between two looks of settle while a test waits. A look keeps two processes busy for a tenth of a second, and
the job that is waited for needs the processor."""


@dataclass
class LocalStack:
    folder: Path
    environment: dict[str, str]

    def client(self, service: str) -> Any:
        endpoint = {
            "emr-serverless": self.environment["AWS_ENDPOINT_URL_EMR_SERVERLESS"],
        }.get(service, self.environment["AWS_ENDPOINT_URL"])
        return boto3.client(
            service,
            endpoint_url=endpoint,
            region_name=self.environment["AWS_REGION"],
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    @property
    def catalog(self) -> SqlCatalog:
        return SqlCatalog(
            "lake",
            uri=self.environment["TIDEGATE_CATALOG_URI"],
            warehouse=self.environment["TIDEGATE_WAREHOUSE"],
        )

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The table's rows as an independent reader sees them."""
        try:
            rows: list[dict[str, Any]] = self.catalog.load_table(table).scan().to_arrow().to_pylist()
        except NoSuchTableError:
            return []
        return rows

    def ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in self.rows(table))

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("tidegate")), *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=check,
            timeout=HANGING,
        )

    def look(self, function: str = "settle") -> bool:
        """Have settle, or another scheduled function, look now, as the schedule does: tests need not wait for it."""
        url = json.loads((self.folder / "stack.json").read_text())["invoke"][function]
        request = urllib.request.Request(
            f"{url}/2015-03-31/functions/{function}/invocations",
            data=json.dumps({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}).encode(),
        )
        with urllib.request.urlopen(request, timeout=HANGING) as answer:
            return bool(answer.status == 200)

    def once(self, ask: Callable[[], T], done: Callable[[T], bool] = bool, *, waiting_for: str) -> T:
        """The first answer that is `done`. Before each question settle looks."""
        return eventually(lambda: (self.look(), ask())[1], done, waiting_for=waiting_for, every=LOOK_EVERY)

    def let_an_hour_pass(self, route: str) -> None:
        """For the audit of a route: its next run begins an hour after the last one began, by the record of that one."""
        key = audit_key(self._asked[0][route].place, 1)
        with contextlib.suppress(ClientError):  # there is no run yet, or it is not finished and goes on
            client("dynamodb", self.environment).update_item(
                TableName=self.environment["TIDEGATE_LEDGER"],
                Key={"pk": {"S": key.pk}, "sk": {"S": key.sk}},
                UpdateExpression="ADD started_at :back",
                ConditionExpression="finished_at > :never",
                ExpressionAttributeValues={":back": {"N": str(-HOUR)}, ":never": {"N": "0"}},
            )

    def statuses(self) -> dict[str, Any]:
        """What `tidegate status --json` would print. Tests ask again and again: it needs no process of its own."""
        routes, ledger = self._asked
        found: dict[str, Any] = json.loads(
            json_output.dumps(json_output.status("", Overview(tuple(ask_status(routes, memory_ports(ledger=ledger))))))
        )
        return found

    def printed_statuses(self) -> dict[str, Any]:
        """What `tidegate status --json` prints."""
        found: dict[str, Any] = json.loads(self.cli("status", "--json", check=False).stdout)
        return found

    def status(self, route: str, *, printed: bool = False) -> dict[str, Any]:
        answer = self.printed_statuses() if printed else self.statuses()
        found: dict[str, Any] = next(each for each in answer["routes"] if each["route"] == route)
        return found

    @cached_property
    def _asked(self) -> tuple[dict[str, Route], Ledger]:
        settings = load(settings_file(self.environment))
        database = client("dynamodb", self.environment)
        store = DynamoDbStore(database, self.environment["TIDEGATE_LEDGER"])
        ledger = Ledger(store, clock, settings.retention.claims)
        return {route.name: route for route in settings.core_routes()}, ledger


@pytest.fixture(scope="session", autouse=True)
def hurried() -> Iterator[None]:
    """For every stack that a test starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HURRY, json.dumps(WAITS))
        yield


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    folder = tmp_path_factory.mktemp("stack")
    config = folder / "tidegate.toml"
    config.write_text(CONFIG)
    # a killed function's messages come back after `patience` seconds instead of the 12 minutes of AWS
    running = local_stack.detach(config, folder / "local", on_progress=print, patience=20)
    yield LocalStack(folder / "local", dict(running.environment))
    local_stack.down(folder / "local")
