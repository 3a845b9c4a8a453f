"""What the conformance tests share: clients of the simulated services, a clock for all, and what is expected of each.

The simulated services must answer as the real ones do, else the simulation proves things about a world that is not
there. So each test beside this module says what AWS does, and the same body runs on each backend there is. Where a
backend is known to do something else, `simulation.world.differences` names it, and the test must fail there: once it
passes, it is reported, and the entry goes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
import pytest
import time_machine
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core.models import botocore_stubber

from simulation.world.differences import DIFFERENCES
from simulation.world.kernel import START, Kernel
from simulation.world.protocols import Service, over_http
from simulation.world.wire import as_response


def expect_differences(request: pytest.FixtureRequest, backend: str) -> None:
    """From a fixture: let the test fail where it is known to, and only in what it asserts; passing is a failure."""
    function = getattr(request.node, "originalname", request.node.name)
    for difference in DIFFERENCES:
        if difference.backend == backend and function in difference.tests:
            marker = pytest.mark.xfail(reason=difference.does, strict=True, raises=difference.raises)
            request.applymarker(marker)


# ---- time


class Clock:
    """One clock for a simulated service and for moto, which asks the operating system's."""

    def __init__(self, kernel: Kernel, traveller: time_machine.Traveller) -> None:
        self.kernel = kernel
        self._traveller = traveller
        kernel.on_tick = traveller.move_to

    def advance(self, seconds: float) -> None:
        """Let time pass, and whatever was to happen meanwhile."""
        end = self.kernel.now + seconds
        self.kernel.run(lambda: False, end)
        self.kernel.now = end
        self._traveller.move_to(end)


@contextmanager
def stopped_clock() -> Iterator[Clock]:
    with time_machine.travel(START, tick=False) as traveller:
        yield Clock(Kernel(0), traveller)


# ---- clients


class _Current:
    """What answers a service's simulated client right now."""

    def __init__(self) -> None:
        self.services: dict[str, Service] = {}
        self.turn = threading.Lock()


_CURRENT = _Current()


@contextmanager
def simulated(service: str, answer: Service) -> Iterator[Any]:
    """A boto3 client that `answer` answers, at the place where the simulated network does it for the product."""
    _CURRENT.services[service] = answer
    try:
        yield _simulated_client(service)
    finally:
        del _CURRENT.services[service]


@cache
def _simulated_client(service: str) -> Any:
    """Making a client takes longer than most tests, so there is one of each."""
    client = _client(service)

    def send(event_name: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        with _CURRENT.turn:  # a service decides one request at a time; the ledger sends from several threads
            answer = over_http(service, _CURRENT.services[service], event_name.rsplit(".", 1)[1], request)
        return as_response(request.url, answer)

    client.meta.events.unregister("before-send", botocore_stubber)
    client.meta.events.register("before-send", send)
    return client


@cache
def _moto_client(service: str) -> Any:
    return _client(service)


@contextmanager
def moto(service: str) -> Iterator[Any]:
    """A boto3 client of moto, in this process, empty."""
    client = _moto_client(service)
    with mock_aws():
        yield client


def _client(service: str) -> Any:
    session = boto3.Session(region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing")
    # AWS's own endpoint, whatever other tests have put into the environment
    host = "s3.amazonaws.com" if service == "s3" else f"{service}.us-east-1.amazonaws.com"
    return session.client(service, endpoint_url=f"https://{host}")


def code_of(call: Callable[[], Any]) -> str:
    """The code of the error that the call ends with; empty if it ends well."""
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""
