"""The only module that connects ports with adapters.

It builds them for the handlers and the CLI, from the environment (see `Resources`) and `tidegate.toml`.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from ulid import ULID

from tidegate.aws.bus import EventBridge
from tidegate.aws.clients import HURRIED
from tidegate.aws.jobs import EmrServerless, SparkApplication
from tidegate.aws.lineage import EmrLineage
from tidegate.aws.listing import S3Listing
from tidegate.aws.topic import SnsTopic, SqsDeadLetters
from tidegate.aws.waited import WaitedJobs
from tidegate.aws.work import S3Work
from tidegate.core.manifests import BATCHES
from tidegate.core.routes import Route
from tidegate.environment import DEPLOYED, LOCAL_STACK
from tidegate.flows.batch_list import BatchIds
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import Measure, Ports
from tidegate.metrics import Metric
from tidegate.settings import MINUTE, Settings, load_deployed
from tidegate.settings.fixed import READ_RATE
from tidegate.stores.dynamodb import THREADS, DynamoDbStore
from tidegate.stores.guarded import GuardedStore

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from tidegate.aws.fencing import EmrFencer
    from tidegate.aws.letters import SqsLetters
    from tidegate.aws.maintenance import EmrMaintenance, WaitedMaintenance
    from tidegate.aws.screening import EmrScreens, WaitedScreening


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a deployment, by the names that the stack gives to its functions and its outputs."""

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
    """The deployment's account; the environment always has it."""

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> "Resources":
        """Raises KeyError with the name of the variable that is missing."""
        return Resources(*(environment[f"TIDEGATE_{name.upper()}"] for name in Resources.__slots__))


def unmeasured(metric: Metric, value: int, route: str = "") -> None:
    """A command writes no metrics."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment: its settings and its resources."""

    settings: Settings
    resources: Resources
    known: Mapping[str, Route] | None = None
    """The routes that the ledger has, if nobody can read what was deployed."""

    @property
    def routes(self) -> dict[str, Route]:
        if self.known is not None:
            return dict(self.known)
        return {route.name: route for route in self.settings.core_routes()}

    def ports(
        self,
        attempt: str = "",
        *,
        measure: Measure = unmeasured,
        lambda_context: "LambdaContext | None" = None,
        guarded: bool = True,
    ) -> Ports:
        """The ports of the flows. To publish needs an `attempt`, new for every invocation (see `SnsTopic`). A function
        that starts jobs passes its `lambda_context`. Only who rebuilds the ledger asks for one without a guard."""
        work = self._work()
        ledger = _ledger(self.resources.ledger, self.settings.retention.claims)
        if guarded:
            guard = GuardedStore(ledger.store, clock, lambda: next(iter(work.folders(BATCHES, "")), None) is None)
            ledger = replace(ledger, store=guard)
        return Ports(
            ledger=ledger,
            work=work,
            topic=SnsTopic(_lazy("sns"), self.resources.topic, attempt, self._lanes()),
            jobs=self._jobs(lambda_context),
            dead_letters=SqsDeadLetters(_lazy("sqs"), self.resources.dead_letters),
            notices_dead_letters=SqsDeadLetters(_lazy("sqs"), self.resources.notices_dead_letters),
            measure=measure,
            clock=clock,
            new_id=new_id,
            listing=S3Listing(_lazy("s3"), self.resources.account),
            bus=self._bus(),
            lineage=self.lineage(),
        )

    def lineage(self, tell: Callable[[str], None] = lambda said: None) -> EmrLineage:
        """Reads the lineage of a table by a job. `tell` gets a line when the job's state changes."""
        return EmrLineage(self._waited(tell), self._work(), new_id)

    def screens(self) -> "EmrScreens":
        """Starts the jobs that screen buckets for audits."""
        from tidegate.aws.screening import EmrScreens  # only the audit needs it

        claims = self.settings.retention.claims
        return EmrScreens(self._application(), ledger=self.resources.ledger, claims=claims, rate=READ_RATE)

    def screening(self, tell: Callable[[str], None]) -> "WaitedScreening":
        """Lets a job screen a bucket, and waits for it. `tell` as in `lineage`."""
        from tidegate.aws.screening import WaitedScreening  # only a command needs it

        return WaitedScreening(self._waited(tell), self.screens(), self._work())

    def maintenance(self) -> "EmrMaintenance":
        """Starts the job that maintains tables."""
        from tidegate.aws.maintenance import EmrMaintenance  # only one function needs it

        return EmrMaintenance(self._application())

    def waited_maintenance(self, tell: Callable[[str], None]) -> "WaitedMaintenance":
        """The same, and waits for it. `tell` as in `lineage`."""
        from tidegate.aws.maintenance import WaitedMaintenance  # only a command needs it

        return WaitedMaintenance(self._waited(tell))

    def fencer(self, tell: Callable[[str], None]) -> "EmrFencer":
        """Fences batches whose table was rolled back past them. `tell` as in `lineage`."""
        from tidegate.aws.fencing import EmrFencer  # no function needs it

        return EmrFencer(self._waited(tell), self._work(), new_id)

    def _lanes(self) -> Mapping[str, int]:
        return {route.name: route.lanes for route in self.settings.routes if route.lanes > 1}

    def _work(self) -> S3Work:
        return S3Work(_lazy("s3"), self.resources.work, self.resources.account)

    def _waited(self, tell: Callable[[str], None]) -> WaitedJobs:
        return WaitedJobs(self._application(), sleep=time.sleep, tell=tell)

    def _application(self) -> SparkApplication:
        return SparkApplication(
            _lazy("emr-serverless"),
            id=self.resources.application,
            role=self.resources.job_role,
            entry_point=self.resources.entry_point,
            spark_parameters=self.resources.spark_parameters,
            work=self.resources.work,
            account=self.resources.account,
            timeout_minutes=self.settings.job_timeout // MINUTE,
            stay=self.settings.stay,
            ledger=self.resources.ledger,
        )

    def _bus(self) -> EventBridge | None:
        bus = self.settings.announce.bus
        return EventBridge(_lazy("events"), bus, self.resources.deployment) if bus else None

    def letters(self) -> "tuple[SqsLetters, SqsLetters]":
        """The dead letters of the buffer, and those of the notices' queue."""
        from tidegate.aws.letters import SqsLetters  # no function needs it

        named = self.resources
        return (
            SqsLetters(_lazy("sqs"), named.dead_letters, named.buffer),
            SqsLetters(_lazy("sqs"), named.notices_dead_letters, named.notices),
        )

    def _jobs(self, lambda_context: "LambdaContext | None") -> EmrServerless:
        return EmrServerless(
            self._application(),
            records=lambda: _hand_off_records(self.resources.ledger),
            lambda_context=lambda_context,
        )


@cache
def this_deployment() -> Deployment:
    """The deployment that this process belongs to."""
    return Deployment(load_deployed(settings_file(os.environ)), Resources.from_environment(os.environ))


def known_deployment() -> Deployment:
    """The same, for whoever cannot read its `tidegate.toml`: its routes as the ledger has them, and defaults for the
    rest. Enough to look at it. Raises KeyError."""
    found = Deployment(Settings.model_construct(), Resources.from_environment(os.environ))
    return replace(found, known=found.ports().ledger.known_routes())


def settings_file(environment: Mapping[str, str]) -> Path:
    """What the deployment runs by: of a stack on this machine the copy in its folder; `TIDEGATE_CONFIG`; in a function
    the file of its bundle; else `tidegate.toml` here."""
    if folder := environment.get(LOCAL_STACK):
        return Path(folder) / DEPLOYED
    return Path(environment.get("TIDEGATE_CONFIG") or Path(environment.get("LAMBDA_TASK_ROOT", ".")) / "tidegate.toml")


def paced(rate: int) -> Callable[[int], None]:
    """Waits after so many uploads were sent, so that they are `rate` a second at most."""
    return lambda sent: time.sleep(sent / rate)


def clock() -> int:
    return int(time.time())


def new_id() -> str:
    """A new batch's id: a ULID, which is milliseconds and 80 random bits.

    Two batches of one id would lose rows: decision 3 would take the second one for published. A counter repeats after a
    ledger is rebuilt, and a hash of the content when that is sent again on purpose. The transaction that opens a batch
    also requires that no item has the id. ULIDs sort by age, so the oldest batch is handed off first; nothing else
    depends on the clocks that made them."""
    return str(ULID())


def smallest_id(seconds: int) -> str:
    """Every batch id made since `seconds` (epoch) sorts after this one: an id begins with its time."""
    return str(ULID.from_bytes((seconds * 1000).to_bytes(6, "big") + bytes(10)))


def made_at(batch_id: str) -> int:
    """When a batch id was made (epoch seconds). Raises ValueError if it is none."""
    return int(ULID.from_str(batch_id).timestamp)


BATCH_IDS = BatchIds(made_at, smallest_id)
"""What the flows that list batches know of their ids."""


@cache
def _ledger(table: str, claim_retention: int) -> Ledger:
    """One for each process: it keeps threads, and a warm function is invoked many times."""
    return Ledger(DynamoDbStore(_lazy("dynamodb"), table), clock, claim_retention)


@cache
def _hand_off_records(table: str) -> "DynamoDBPersistenceLayer":
    from tidegate.aws.hand_offs import records_in  # only who starts a job needs it

    return records_in(table, _client("dynamodb"))


_MAKES_CLIENTS = Lock()
"""boto3's session makes clients in one thread at a time
(https://docs.aws.amazon.com/boto3/latest/guide/session.html#multithreading-or-multiprocessing-with-sessions). The page
asks in several."""

if TYPE_CHECKING:
    # boto3.client has the type of each service's client
    _client = _lazy = boto3.client
else:

    @cache
    def _client(service):  # noqa: ANN001
        # one connection for each claiming thread; standard retries are bounded, and only for errors worth a retry
        config = Config(max_pool_connections=THREADS, retries={"mode": "standard", "total_max_attempts": 4})
        with _MAKES_CLIENTS:
            return boto3.client(service, config=config.merge(HURRIED) if service == "events" else config)

    class _lazy:  # noqa: N801
        """A client that is created at its first use: a command that only reads the ledger creates no other."""

        def __init__(self, service: str) -> None:
            self._service = service

        def __getattr__(self, name: str) -> object:
            return getattr(_client(self._service), name)
