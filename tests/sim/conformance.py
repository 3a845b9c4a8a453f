"""What the conformance tests share: clients of the simulated services, a clock for all, and the known differences.

The simulated services must answer as the real ones do, else the simulation proves things about a world that is not
there. So each test of `test_conformance_*.py` says what AWS does, and the same body runs on each backend there is.
Where a backend is known to do something else, `DIFFERENCES` names it, and the test must fail there: once it passes,
it is reported, and the entry goes.

    python -m tests.sim.conformance     prints the table of differences
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
import pytest
import time_machine
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core.models import botocore_stubber

from tests.sim.expressions import Unsupported
from tests.sim.kernel import START, Kernel
from tests.sim.protocols import Service, over_http
from tests.sim.wire import as_response

SIMULATED = "simulated"
MOTO = "moto"
LOCAL = "dynamodb-local"


# ---- the known differences


@dataclass(frozen=True)
class Difference:
    """On `backend`, `tests` fail: `does` is what it does, `aws` what AWS does, `effect` why that does no harm."""

    backend: str
    tests: tuple[str, ...]
    does: str
    aws: str
    effect: str
    raises: tuple[type[Exception], ...] = (AssertionError,)


CHECKED_ELSEWHERE = "the contract of the ledger runs on DynamoDB Local, which refuses what the product may not send"
NOT_USED = "the product does not do this"
REPAIRED = "the local stack repairs it (`tidegate/local/queues.py`)"

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        SIMULATED,
        (
            "test_parentheses_may_not_be_doubled",
            "test_an_attribute_is_not_compared_with_itself",
            "test_an_expression_may_not_leave_values_unused",
            "test_an_expression_may_not_leave_names_unused",
            "test_an_expression_may_not_name_a_reserved_word",
            "test_an_update_may_not_write_a_key",
        ),
        "takes expressions that break DynamoDB's rules of writing, and evaluates them",
        "refuses them (`ValidationException`)",
        CHECKED_ELSEWHERE,
    ),
    Difference(
        SIMULATED,
        (
            "test_adding_text_is_refused",
            "test_adding_a_number_to_a_text_is_refused",
            "test_setting_from_what_is_not_there_is_refused",
        ),
        "stops the simulation with an error at an update whose operand does not fit",
        "refuses it (`ValidationException`)",
        "stricter: the run fails loudly",
        raises=(TypeError, Unsupported),
    ),
    Difference(
        SIMULATED,
        ("test_a_token_stands_for_one_content",),
        "answers a transaction with a known token as done, whatever it holds",
        "refuses other content under a token (`IdempotentParameterMismatchException`)",
        "the SDK makes a token of its own for each call: only its retries, of the same content, repeat one",
    ),
    Difference(
        MOTO,
        ("test_a_transaction_with_the_same_token_is_done_once", "test_a_token_stands_for_one_content"),
        "ignores a transaction's token",
        "does a transaction once for each token, for 10 minutes",
        "the ledger does not rely on the token, see `tests/contract/test_dynamo_ledger.py`",
    ),
    Difference(
        MOTO,
        ("test_what_is_not_there_has_no_size",),
        "fails at the size of a missing attribute",
        "lets the comparison fail",
        "the ledger asks whether the attribute is there first",
    ),
    Difference(
        MOTO,
        ("test_a_number_is_neither_before_nor_after_a_text",),
        "fails at an order of two types",
        "lets the comparison fail",
        NOT_USED,
    ),
    Difference(MOTO, ("test_true_is_not_one",), "takes true and 1 for equal", "tells them apart by type", NOT_USED),
    Difference(
        MOTO,
        ("test_an_attribute_is_not_compared_with_itself",),
        "compares an attribute with itself",
        "refuses that (`ValidationException`)",
        NOT_USED,
    ),
    Difference(
        SIMULATED,
        ("test_a_put_tells_its_version",),
        "does not name the version in its answer to a put",
        "names it",
        "the product puts into the work bucket only, and reads no version from the answer",
    ),
    Difference(
        SIMULATED,
        ("test_the_bucket_of_another_account_is_refused",),
        "knows one account, and takes any expected owner",
        "refuses a bucket of another owner (403 `AccessDenied`)",
        "less is tried: no bucket changes hands in the simulation",
    ),
    Difference(
        MOTO,
        ("test_the_bucket_of_another_account_is_refused",),
        "ignores the expected owner",
        "refuses a bucket of another owner (403 `AccessDenied`)",
        "that the owner is sent is tested on the request",
    ),
    Difference(
        MOTO,
        ("test_what_is_too_old_is_lost",),
        "stops at the first message that has expired, and gives none behind it",
        "deletes it and gives those behind it",
        REPAIRED,
    ),
    Difference(
        MOTO,
        ("test_a_batch_that_was_not_deleted_comes_again_whole_and_in_order",),
        "gives only the last message of a FIFO batch again",
        "gives the whole batch again, in order",
        REPAIRED,
    ),
    Difference(
        MOTO,
        ("test_an_expired_receipt_deletes_nothing_of_a_fifo_queue",),
        "deletes a FIFO message by a receipt from before it came again",
        "takes no receipt of a FIFO message after its visibility timeout",
        "so does the local stack: only the simulation shows what a late acknowledgement leaves behind",
    ),
    Difference(
        MOTO,
        (
            "test_a_repeat_of_what_was_received_and_deleted_is_dropped",
            "test_a_repeat_of_what_was_consumed_is_not_delivered",
        ),
        "forgets a deduplication id when its message is deleted",
        "remembers it for 5 minutes, whatever becomes of the message",
        REPAIRED,
    ),
    Difference(
        MOTO,
        ("test_too_many_bytes_at_once_are_refused",),
        "takes a batch of any size into a topic",
        "refuses more than 256 KiB (`BatchRequestTooLong`)",
        "sizes are tested where notices are packed",
        raises=(pytest.fail.Exception,),
    ),
    Difference(
        MOTO,
        ("test_a_run_is_known_by_its_token",),
        "ignores the token of a job run, and starts another",
        "takes it for a request that was made already",
        "two drivers of one batch are what decision 3 is for; the local stack has an endpoint of its own",
    ),
    Difference(
        MOTO,
        ("test_a_run_that_has_just_been_started_has_not_ended",),
        "ends a job run as soon as it is started",
        "runs it",
        "the local stack has an endpoint of its own, which runs the real `spark-submit`",
    ),
)


def expect_differences(request: pytest.FixtureRequest, backend: str) -> None:
    """From a fixture: let the test fail where it is known to, and only in what it asserts; passing is a failure."""
    function = getattr(request.node, "originalname", request.node.name)
    for difference in DIFFERENCES:
        if difference.backend == backend and function in difference.tests:
            marker = pytest.mark.xfail(reason=difference.does, strict=True, raises=difference.raises)
            request.applymarker(marker)


def table_of_differences() -> str:
    """As Markdown, for docs/simulation.md."""
    rows = ["| where | what it does | what AWS does | what follows | test |", "|---|---|---|---|---|"]
    for each in DIFFERENCES:
        tests = ", ".join(f"`{name}`" for name in each.tests)
        rows.append(f"| {each.backend} | {each.does} | {each.aws} | {each.effect} | {tests} |")
    return "\n".join(rows)


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


if __name__ == "__main__":
    print(table_of_differences())
