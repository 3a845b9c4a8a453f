"""The unchanged product in a simulated world.

Only these are replaced: the socket (botocore's `before-send`), the clock, sleeping, random numbers, threads (a pool
becomes a loop, because one seed must give one order), and Spark. No line of `lambdas`, `flows`, `core` or `aws` is.
"""

import importlib
import logging
import math
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

import botocore.retries.quota
import time_machine
import ulid
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.regions import EndpointRulesetResolver
from botocore.validate import ValidationErrors

from simulation.world.kernel import START, Kernel
from simulation.world.network import Network
from tidegate import wiring
from tidegate.settings import load

SERVICES = ("dynamodb", "emr-serverless", "events", "s3", "sns", "sqs")

RESOURCES = {
    "deployment": "simulated",
    "account": "123456789012",
    "ledger": "ledger",
    "topic": "arn:aws:sns:us-east-1:123456789012:topic.fifo",
    "buffer": "https://sqs.us-east-1.amazonaws.com/123456789012/buffer",
    "dead_letters": "https://sqs.us-east-1.amazonaws.com/123456789012/dead-letters",
    "notices": "https://sqs.us-east-1.amazonaws.com/123456789012/notices.fifo",
    "notices_dead_letters": "https://sqs.us-east-1.amazonaws.com/123456789012/notices-dead-letters.fifo",
    "work": "work",
    "application": "app",
    "job_role": "arn:aws:iam::123456789012:role/job",
    "entry_point": "s3://assets/entry.py",
    "spark_parameters": "--conf spark.simulated=true",
}


class _Here:
    """The world that this operating system's process is simulating right now."""

    kernel: Kernel | None = None
    network: Network | None = None
    deployed: tuple[str, ...] = ()
    """The configurations that functions run with; several while one is being replaced by another."""
    deployments: tuple[tuple[float, tuple[str, ...]], ...] = ()
    """What was deployed in this world, and when."""
    first: str = ""
    """The configuration that every world begins with, unless it has one of its own."""
    folder: Path = Path()
    ids: random.Random = random.Random(0)
    """The source of the product's batch ids."""
    chance: random.Random = random.Random(0)
    """The source of all other ids, also of the SDK's request ids, whose number may vary."""
    thread: int = 0
    """A world runs in one thread. Other threads (a server that a test left running) are not part of it."""

    @property
    def simulated(self) -> bool:
        """Whether the caller is a process of a world."""
        return self.kernel is not None and self.kernel.current is not None and self.thread == threading.get_ident()


HERE = _Here()


@contextmanager
def inhabited(kernel: Kernel, network: Network, config: str = "") -> Iterator[None]:
    """Within the context this world answers all calls of the product. Its tidegate.toml is `config`."""
    random.seed(kernel.random.random())
    drawn = kernel.random.random()
    HERE.ids, HERE.chance = random.Random(-drawn), random.Random(drawn)
    # each process has a generator of its own: nothing keeps the ids of one millisecond in order
    ulid.default_generator = ulid.ULIDGenerator(randomness=_randomness, policy=ulid.PureRandomPolicy())
    for quota in _QUOTAS:
        quota._available_capacity = quota._max_capacity
    HERE.kernel, HERE.network, HERE.thread = kernel, network, threading.get_ident()
    HERE.deployed = (config or HERE.first,)
    HERE.deployments = ((-math.inf, HERE.deployed),)
    with time_machine.travel(START, tick=False) as clock:
        kernel.on_tick = clock.move_to
        try:
            yield
        finally:
            HERE.kernel = HERE.network = None


def deploy(*configs: str) -> None:
    """From now on the functions run with this tidegate.toml, or each invocation with one of several; those that run go
    on with the one they have."""
    HERE.deployed = configs
    HERE.deployments += ((HERE.kernel.now if HERE.kernel else -math.inf, configs),)


def this_deployment() -> wiring.Deployment:
    """`wiring.this_deployment` for a process of a world: the configuration at its first call."""
    process = HERE.kernel.current if HERE.kernel else None
    if process is None or HERE.kernel is None:
        return _deployment(HERE.deployed[0], HERE.folder)
    if process.deployed is None:
        process.deployed = HERE.kernel.random.choice(HERE.deployed) if len(HERE.deployed) > 1 else HERE.deployed[0]
    return _deployment(process.deployed, HERE.folder)


@cache
def _deployment(config: str, folder: Path) -> wiring.Deployment:
    path = folder / "tidegate.toml"
    path.write_text(config)
    return wiring.Deployment(load(path), wiring.Resources.from_environment(os.environ))


_QUOTAS: list[Any] = []


@contextmanager
def installed(config: str, folder: Path) -> Iterator[None]:
    """The product, ready to be simulated; `config` is its tidegate.toml. Clients are created once, because that takes
    longer than most simulations."""
    before = HERE.first, HERE.folder, HERE.deployed
    HERE.first, HERE.folder, HERE.deployed = config, folder, (config,)
    environment = {
        "AWS_ACCESS_KEY_ID": "simulated",
        "AWS_SECRET_ACCESS_KEY": "simulated",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "POWERTOOLS_METRICS_DISABLED": "true",
        "POWERTOOLS_SERVICE_NAME": "simulated",
        "POWERTOOLS_METRICS_NAMESPACE": "Tidegate",
        "POWERTOOLS_LOG_LEVEL": "CRITICAL",
        **{f"TIDEGATE_{name.upper()}": value for name, value in RESOURCES.items()},
    }
    hidden = {name: "" for name in os.environ if name.startswith("AWS_ENDPOINT_URL")}
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, environment))
        for name in hidden:
            del os.environ[name]
        stack.enter_context(patch("botocore.retries.quota.RetryQuota", _remembered(botocore.retries.quota.RetryQuota)))
        stack.enter_context(patch.object(time, "sleep", _sleep(time.sleep)))
        stack.enter_context(patch.object(uuid, "uuid4", _uuid4))
        stack.enter_context(patch.object(logging, "basicConfig", lambda **_: None))
        # half of the SDK's time, and nothing that a fault could touch
        stack.enter_context(patch("botocore.signers.RequestSigner.sign", lambda *_, **__: None))
        stack.enter_context(patch("botocore.validate.ParamValidator.validate", lambda *_: ValidationErrors()))
        stack.enter_context(patch("botocore.useragent.UserAgentString.to_string", lambda *_: "simulated"))
        shared = importlib.import_module("lambdas.shared")  # it reads the environment
        stack.enter_context(patch.object(shared, "EphemeralMetrics", _written_once(shared.EphemeralMetrics)))
        stack.enter_context(patch.object(EndpointRulesetResolver, "construct_endpoint", _endpoints()))
        stack.enter_context(patch.object(wiring, "this_deployment", this_deployment))
        stack.enter_context(patch("tidegate.stores.dynamodb.ThreadPoolExecutor", _Loop))
        stack.enter_context(patch("tidegate.reading.ahead.ThreadPoolExecutor", _Loop))
        stack.enter_context(patch("tidegate.flows.manifest.ThreadPoolExecutor", _Loop))
        stack.enter_context(patch("tidegate.flows.replacing.ThreadPoolExecutor", _Loop))
        stack.enter_context(patch.object(ulid, "default_generator", ulid.default_generator))
        # caches of its own: within another `installed`, whose clients are answered by other patches, too
        for name in ("_client", "_ledger", "_hand_off_records"):
            stack.enter_context(patch.object(wiring, name, cache(getattr(wiring, name).__wrapped__)))
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        for service in SERVICES:
            stack.enter_context(_answered(wiring._client(service), service))
        try:
            yield
        finally:
            HERE.first, HERE.folder, HERE.deployed = before


@contextmanager
def _answered(client: Any, service: str) -> Iterator[None]:
    """The world answers all calls of this client, both where boto3 is called and where a request is sent."""
    real = client._make_api_call

    def ask(operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        assert HERE.network is not None, f"{service} {operation} outside of any world"
        return HERE.network.ask(service, operation, asked, lambda: real(operation, asked))

    def send(event_name: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        assert HERE.network is not None, f"{event_name} outside of any world"
        return HERE.network.send(service, event_name.rsplit(".", 1)[1], request)

    client.meta.events.register_first(f"before-send.{client.meta.service_model.service_id.hyphenize()}", send)
    with patch.object(client, "_make_api_call", ask):
        yield


def _remembered(quota: type[Any]) -> Any:
    """The SDK's retry quota belongs to a process. Every world must begin with a full one."""

    def make(*arguments: Any, **named: Any) -> Any:
        made = quota(*arguments, **named)
        _QUOTAS.append(made)
        return made

    return make


def _written_once(real: type[Any]) -> type[Any]:
    """Powertools checks and serializes a metric. Nobody reads it here, so it does that once for each name, unit and
    set of dimensions, with the first value: a tenth of a world's time otherwise."""
    known: set[tuple[Any, ...]] = set()

    class Once:
        def __init__(self, **named: Any) -> None:
            self._named = named
            self._metrics: list[dict[str, Any]] = []
            self._dimensions: list[dict[str, Any]] = []

        def add_metric(self, **metric: Any) -> None:
            self._metrics.append(metric)

        def add_dimension(self, **dimension: Any) -> None:
            self._dimensions.append(dimension)

        def flush_metrics(self) -> None:
            metrics = [(each["name"], each["unit"], type(each["value"])) for each in self._metrics]
            key = (*metrics, *((each["name"], each["value"]) for each in self._dimensions))
            if key in known:
                return
            written = real(**self._named)
            for metric in self._metrics:
                written.add_metric(**metric)
            for dimension in self._dimensions:
                written.add_dimension(**dimension)
            written.flush_metrics()
            known.add(key)

    return Once


def _endpoints() -> Callable[..., Any]:
    """Compute the endpoint once for each client, operation and bucket."""
    known: dict[tuple[Any, ...], Any] = {}
    real = EndpointRulesetResolver.construct_endpoint

    def construct(resolver: Any, operation_model: Any, call_args: Any, request_context: Any) -> Any:
        key = (resolver, operation_model.name, (call_args or {}).get("Bucket"))
        if key not in known:
            known[key] = real(resolver, operation_model, call_args, request_context)
        return known[key]

    return construct


def _sleep(real: Callable[[float], None]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        if HERE.simulated:
            assert HERE.kernel is not None
            HERE.kernel.sleep(seconds)
        else:
            real(seconds)

    return sleep


def _uuid4() -> uuid.UUID:
    source = HERE.chance if HERE.thread == threading.get_ident() else random.SystemRandom()
    return uuid.UUID(int=source.getrandbits(128), version=4)


def _randomness(_: int) -> bytes:
    return HERE.ids.randbytes(10)


class _Loop:
    """A thread pool that runs its tasks one after the other."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        results, errors = [], []
        for item in items:
            try:
                results.append(function(item))
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return _Done(function, arguments)

    def __enter__(self) -> "_Loop":
        return self

    def __exit__(self, *_: Any) -> None: ...


class _Done:
    """A future that runs its task when the result is read."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        self._function = function
        self._arguments = arguments

    @cached_property
    def _result(self) -> Any:
        return self._function(*self._arguments)

    def result(self) -> Any:
        return self._result
