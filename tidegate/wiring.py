"""The only place where ports meet adapters.

Handlers and the CLI say what they want; from the environment (see `Resources`) and `tidegate.toml` this builds it.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer
from botocore.config import Config
from ulid import ULID

from tidegate.aws.jobs import EmrServerless, hand_off_records
from tidegate.aws.ledger import THREADS, DynamoLedger
from tidegate.aws.topic import SnsTopic, SqsDeadLetters
from tidegate.aws.work import S3Work
from tidegate.core.routes import Route
from tidegate.settings import MINUTE, Settings, load


@dataclass(frozen=True, slots=True)
class Resources:
    """What a deployment is made of, by the names that the stack gives its functions and its outputs."""

    deployment: str
    ledger: str
    topic: str
    buffer: str
    dead_letters: str
    notices: str
    notices_dead_letters: str
    work: str
    application: str
    job_role: str
    entry_point: str
    spark_parameters: str
    account: str = ""
    """Of the deployment; the environment always says it."""

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> "Resources":
        """Raises KeyError with the name of the variable that is missing."""
        return Resources(*(environment[f"TIDEGATE_{name.upper()}"] for name in Resources.__slots__))


@dataclass(frozen=True, slots=True)
class Application:
    """A deployment, ready to be used."""

    settings: Settings
    resources: Resources

    @property
    def routes(self) -> dict[str, Route]:
        return {route.name: route for route in self.settings.core_routes()}

    def ledger(self) -> DynamoLedger:
        return _ledger(self.resources.ledger, self.settings.retention.claims)

    def work(self) -> S3Work:
        return S3Work(_client("s3"), self.resources.work, self.resources.account)

    def topic(self, attempt: str) -> SnsTopic:
        return SnsTopic(_client("sns"), self.resources.topic, attempt)

    def dead_letters(self) -> SqsDeadLetters:
        return SqsDeadLetters(_client("sqs"), self.resources.dead_letters)

    def notices_dead_letters(self) -> SqsDeadLetters:
        return SqsDeadLetters(_client("sqs"), self.resources.notices_dead_letters)

    def jobs(self, lambda_context: Any) -> EmrServerless:
        return EmrServerless(
            _client("emr-serverless"),
            application=self.resources.application,
            role=self.resources.job_role,
            entry_point=self.resources.entry_point,
            spark_parameters=self.resources.spark_parameters,
            work=self.resources.work,
            account=self.resources.account,
            timeout_minutes=self.settings.limits.job_timeout // MINUTE,
            records=_hand_off_records(self.resources.ledger),
            lambda_context=lambda_context,
        )


@cache
def application() -> Application:
    """The deployment that this process belongs to."""
    return Application(load(settings_file(os.environ)), Resources.from_environment(os.environ))


def settings_file(environment: Mapping[str, str]) -> Path:
    """Where `tidegate.toml` is: `TIDEGATE_CONFIG`, else in the function's bundle, else here."""
    return Path(environment.get("TIDEGATE_CONFIG") or Path(environment.get("LAMBDA_TASK_ROOT", ".")) / "tidegate.toml")


def clock() -> int:
    return int(time.time())


def new_id() -> str:
    return str(ULID())


def smallest_id(seconds: int) -> str:
    """Every batch id that was made since then (epoch seconds) sorts after this one: an id begins with its time."""
    return str(ULID.from_bytes((seconds * 1000).to_bytes(6, "big") + bytes(10)))


def made_at(batch_id: str) -> int:
    """When a batch id was made (epoch seconds). Raises ValueError if it is none."""
    return int(ULID.from_str(batch_id).timestamp)


@cache
def _ledger(table: str, claim_retention: int) -> DynamoLedger:
    """One for the process: it keeps threads, and a warm function is invoked many times."""
    return DynamoLedger(_client("dynamodb"), table, clock=clock, claim_retention=claim_retention)


@cache
def _hand_off_records(table: str) -> DynamoDBPersistenceLayer:
    return hand_off_records(table, _client("dynamodb"))


@cache
def _client(service: str) -> Any:
    # one connection per claiming thread; standard retries are bounded and know which errors are worth one
    return boto3.client(
        service, config=Config(max_pool_connections=THREADS, retries={"mode": "standard", "total_max_attempts": 4})
    )
