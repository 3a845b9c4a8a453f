"""The gate that every call passes. It numbers, delays, strikes and answers calls.

There are two roads through it. The long road begins where botocore would open a socket (`before-send`), below the SDK's
retries. Faults that the SDK sees and retries take it, so the retries are tested, too. The short road begins where boto3
is called, and answers at once, at a quarter of the cost. Only the fault decides which road a call takes, and both give
the same result (tests/simulation/test_roads.py). Calls outside the SDK (the table's catalog, Lambda's own calls of a
queue) pass the gate, too.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ClientError, ReadTimeoutError

from simulation.world.faults import CALL_KINDS, PLATFORM_KINDS, SEEN_BY_THE_SDK, Kind, Plan
from simulation.world.kernel import Died, Kernel
from simulation.world.protocols import Parameters, Service, parameters, written
from simulation.world.wire import Refusal, as_response, refusal_answer

T = TypeVar("T")

THROTTLED = {
    "dynamodb": (400, "ProvisionedThroughputExceededException"),
    "s3": (503, "SlowDown"),
    "sns": (400, "Throttling"),
    "sqs": (400, "RequestThrottled"),
    "emr-serverless": (429, "ThrottlingException"),
    "events": (400, "ThrottlingException"),
}
INTERNAL = {
    "dynamodb": "InternalServerError",
    "s3": "InternalError",
    "sns": "InternalFailure",
    "sqs": "InternalFailure",
    "emr-serverless": "InternalServerException",
    "events": "InternalException",
}


class Network:
    """`services` answer (operation, request); `latency` gives the seconds that a request, or its answer, travels."""

    def __init__(self, kernel: Kernel, services: Mapping[str, Service], plan: Plan) -> None:
        self.kernel = kernel
        self.plan = plan
        self.latency: Callable[[], float] = lambda: 0.005
        self.calls: list[tuple[str, tuple[Kind, ...]]] = []
        """The site of every call so far, and the faults that could strike it."""
        self.struck: Counter[tuple[str, Kind]] = Counter()
        self.struck_at: list[int] = []
        self.readers_died = 0
        """How often a file killed those that read it."""
        self._services = services
        self.long_road_only = False
        self.situation: Callable[[str], tuple[str, str]] = lambda batch: ("-", "-")
        """(state of a batch, state of its last job), while watched."""
        self.watched = False
        self.met: Counter[tuple[str, str, str]] = Counter()
        """(state of the batch, state of its job, site) of each call, while watched."""
        self.met_struck: Counter[tuple[str, str, str, Kind]] = Counter()
        self.unobserved = False
        """No fault strikes the calls, and nobody counts or notes them."""
        self.era = 0
        """The current era. A request of an earlier era never arrives."""
        self._remark = ""
        """The batch of the next call, for the trace."""
        self._persistent: dict[str, Kind] = {}
        self._struck_already: list[Kind | None] = []
        """The fault of the call that takes the long road now."""

    # ---- calls of the SDK

    def ask(
        self, service: str, operation: str, asked: Parameters, long_road: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """A call of boto3's. Raises ClientError."""
        if self.long_road_only:
            return long_road()
        kind = self._strike(self._site(service, operation, asked), CALL_KINDS)
        if kind in SEEN_BY_THE_SDK:
            self._struck_already.append(kind)
            return long_road()
        answer = self._pass(
            kind, f"{service}.{operation}", lambda: self._served(service, operation, asked), _no_answer, _denied
        )
        if isinstance(answer, Refusal):
            assert answer.status < 500, f"the SDK would repeat {operation} after {answer.code}"
            raise _client_error(operation, answer)
        return answer

    def send(self, service: str, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        """A request of the SDK, or one of its retries."""
        asked = parameters(service, operation, request)
        invocation = _text(request.headers.get("amz-sdk-invocation-id", ""))
        if invocation in self._persistent:
            kind: Kind | None = self._persistent[invocation]
            self.kernel.note("again", service, operation)
        elif self._struck_already:
            kind = self._struck_already.pop()
        else:
            kind = self._strike(self._site(service, operation, asked), CALL_KINDS)
        if kind in (Kind.MUTE, Kind.THROTTLE, Kind.BREAK):
            self._persistent[invocation] = kind

        def lost() -> Exception:
            return ReadTimeoutError(endpoint_url=request.url)

        def refused(kind: Kind) -> Refusal:
            return _throttled(service) if kind is Kind.THROTTLE else _denied(kind)

        answer = self._pass(
            kind, f"{service}.{operation}", lambda: self._served(service, operation, asked), lost, refused
        )
        if kind is Kind.BREAK:
            answer = Refusal(500, INTERNAL[service], "struck by a fault")
        if isinstance(answer, Refusal):
            return as_response(request.url, refusal_answer(service, answer))
        return as_response(request.url, written(service, operation, answer))

    def _served(self, service: str, operation: str, asked: Parameters) -> dict[str, Any] | Refusal:
        try:
            return self._services[service](operation, asked)
        except Refusal as refusal:
            self.kernel.note("refused", refusal.code)
            return refusal

    def _site(self, service: str, operation: str, asked: Parameters) -> str:
        process = self.kernel.current
        assert process is not None, f"{service} {operation} was called by nobody"
        if self.watched or self.kernel.keep_trace:
            self._remark = _batch(service, operation, asked)
            process.batch = self._remark or process.batch
        return f"{process.role} {service}.{operation} {_about(service, operation, asked)}"

    def answered(self, service: str, operation: str, asked: Parameters) -> dict[str, Any]:
        """A service's answer without the gate, for clients other than boto3. Raises Refusal."""
        return self._services[service](operation, asked)

    # ---- other calls of a process

    def call(
        self, site: str, apply: Callable[[], T], lost: Callable[[], Exception], failed: Callable[[], Exception]
    ) -> T:
        """A call without retries: the caller gets `lost` instead of a lost answer, and `failed` for a refusal."""
        process = self.kernel.current
        assert process is not None, f"{site} was called by nobody"

        def refused(kind: Kind) -> T:
            raise failed()

        kind = self._strike(f"{process.role} {site}", CALL_KINDS)
        answer = self._pass(kind, site, apply, lost, refused)
        if kind is Kind.BREAK:
            raise lost()
        return answer

    def _pass(
        self,
        kind: Kind | None,
        site: str,
        apply: Callable[[], T],
        lost: Callable[[], Exception],
        refused: Callable[[Kind], T],
    ) -> T:
        process = self.kernel.current
        assert process is not None
        if process.dead:
            raise Died(process.name)
        if kind is Kind.DIE_BEFORE:
            process.kill()
        elif kind is Kind.LATE:
            self.kernel.after(self.plan.delay(), self._late(site, apply))
            process.kill()
        elif kind is Kind.PAUSE:
            self.kernel.sleep(self.plan.delay())
        elif kind is Kind.SLOW:
            self.kernel.sleep(self.plan.slowness())
        self.kernel.sleep(self.latency())
        if kind in (Kind.THROTTLE, Kind.FAIL):
            return refused(kind)
        if kind is Kind.ECHO:
            self.kernel.after(self.plan.delay(), self._late(site, apply))
            raise lost()
        answer = apply()
        if kind:
            self.kernel.note("applied", site)
        if kind is Kind.DIE_AFTER:
            process.kill()
        self.kernel.sleep(self.latency())
        if kind in (Kind.LOSE, Kind.MUTE):
            raise lost()
        return answer

    def _late(self, site: str, apply: Callable[[], Any]) -> Callable[[], None]:
        sent = self.era
        return lambda: self._apply_late(site, apply) if sent == self.era else None

    def _apply_late(self, site: str, apply: Callable[[], Any]) -> None:
        self.kernel.note("late", site)
        try:
            apply()
        except Exception as error:
            self.kernel.note("late, refused", type(error).__name__)

    # ---- what the platform does

    def platform(self, site: str, kinds: tuple[Kind, ...] = PLATFORM_KINDS) -> Kind | None:
        return self._strike(f"platform {site}", kinds)

    def arrivals(self, event: str) -> int:
        """How often what the platform sends arrives."""
        return {Kind.DROP: 0, Kind.TWICE: 2}.get(self.platform(event), 1)

    def _strike(self, site: str, kinds: tuple[Kind, ...]) -> Kind | None:
        if self.unobserved:
            return None
        number = len(self.calls)
        self.calls.append((site, kinds))
        kind = self.plan.strike(number, site, kinds)
        self.kernel.note(number, site)
        self.kernel.remark(self._remark)
        self._remark = ""
        if kind:
            self.kernel.say(f"<<< {kind}")
        if self.watched:
            process = self.kernel.current
            met = (*self.situation(process.batch if process else ""), site)
            self.met[met] += 1
            if kind:
                self.met_struck[(*met, kind)] += 1
        if kind:
            self.struck[site, kind] += 1
            self.struck_at.append(number)
        return kind


def _about(service: str, operation: str, asked: Parameters) -> str:
    """The kind of record or object in a call, without ids."""
    if service == "dynamodb":
        return ",".join(dict.fromkeys(pk[0] for pk in _partition_keys(operation, asked) if pk[1:2] == "#"))
    if service == "s3":
        if operation.startswith("List"):
            return "listing"
        key = asked.get("Key", "")
        found = _IN_A_BATCH.match(key)
        return found[1] if found else "same" if key.startswith("same-bytes/") else "upload"
    return ""


def _batch(service: str, operation: str, asked: Parameters) -> str:
    """The batch of a call; empty if it names none."""
    if service == "s3":
        key = asked.get("Key") or asked.get("Prefix", "")
        return key.split("/")[1] if key.startswith("batches/") else ""
    if service == "dynamodb":
        return next((pk[2:] for pk in _partition_keys(operation, asked) if pk.startswith("b#")), "")
    return ""


_IN_A_BATCH = re.compile(r"batches/[^/]+/([a-z]+)")


def _partition_keys(operation: str, asked: Parameters) -> list[str]:
    if operation == "TransactWriteItems":
        writes = (next(iter(each.values())) for each in asked["TransactItems"])
        return [(write.get("Key") or write["Item"])["pk"]["S"] for write in writes]
    if operation == "BatchGetItem":
        return [key["pk"]["S"] for wanted in asked["RequestItems"].values() for key in wanted["Keys"]]
    if operation == "BatchExecuteStatement":
        # the product's inserts give the partition key first
        return [each["Parameters"][0]["S"] for each in asked["Statements"]]
    found = asked.get("Key") or asked.get("Item")
    return [found["pk"]["S"]] if found else []


def _no_answer() -> Exception:
    raise AssertionError("what gets no answer is the SDK's to repeat")


def _throttled(service: str) -> Refusal:
    status, code = THROTTLED[service]
    return Refusal(status, code, "struck by a fault")


def _denied(kind: Kind) -> Refusal:
    return Refusal(403, "AccessDenied", "struck by a fault")


def _client_error(operation: str, refusal: Refusal) -> ClientError:
    answered: Any = {
        "Error": {"Code": refusal.code, "Message": refusal.message},
        "ResponseMetadata": {"HTTPStatusCode": refusal.status, "HTTPHeaders": refusal.more.get("headers", {})},
        **refusal.more,
    }
    return ClientError(answered, operation)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, (bytes, bytearray)) else str(value)
