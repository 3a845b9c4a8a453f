"""The gate that every call passes: where it is numbered, delayed, struck by faults, and answered.

It stands where botocore is about to open a socket (`before-send`), below the SDK's retries, so those are part of what
is tested. Calls that are not the SDK's (the table's catalog, what Lambda itself does with a queue) pass it, too.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ReadTimeoutError

from tests.sim.faults import CALL_KINDS, PLATFORM_KINDS, Kind, Plan
from tests.sim.kernel import Died, Kernel
from tests.sim.wire import Answer, Refusal, as_response, refusal_answer

T = TypeVar("T")

THROTTLED = {
    "dynamodb": (400, "ProvisionedThroughputExceededException"),
    "s3": (503, "SlowDown"),
    "sns": (400, "Throttling"),
    "sqs": (400, "RequestThrottled"),
    "emr-serverless": (429, "ThrottlingException"),
}


class Network:
    """`services` answer (operation, request); `latency` says how long one way takes (seconds)."""

    def __init__(
        self, kernel: Kernel, services: Mapping[str, Callable[[str, AWSPreparedRequest], Answer]], plan: Plan
    ) -> None:
        self.kernel = kernel
        self.plan = plan
        self.latency: Callable[[], float] = lambda: 0.005
        self.calls: list[tuple[str, tuple[Kind, ...]]] = []
        """The site of every call so far, and the faults that could strike it."""
        self.struck: Counter[tuple[str, Kind]] = Counter()
        self.struck_at: list[int] = []
        self._services = services
        self._persistent: dict[str, Kind] = {}

    # ---- calls of the SDK

    def send(self, service: str, operation: str, request: AWSPreparedRequest) -> AWSResponse:
        process = self.kernel.current
        assert process is not None, f"{service} {operation} was called by nobody"
        invocation = _text(request.headers.get("amz-sdk-invocation-id", ""))
        site = f"{process.name.split('-')[0]} {service}.{operation} {_about(service, operation, request)}"

        def apply() -> Answer:
            try:
                return self._services[service](operation, request)
            except Refusal as refusal:
                self.kernel.note("refused", refusal.code)
                return refusal_answer(service, refusal)

        def lost() -> Exception:
            return ReadTimeoutError(endpoint_url=request.url)

        def refused(kind: Kind) -> Answer:
            status, code = THROTTLED[service] if kind is Kind.THROTTLE else (403, "AccessDenied")
            return refusal_answer(service, Refusal(status, code, "struck by a fault"))

        return as_response(request.url, self._pass(site, invocation, apply, lost, refused))

    # ---- other calls of a process

    def call(
        self, site: str, apply: Callable[[], T], lost: Callable[[], Exception], failed: Callable[[], Exception]
    ) -> T:
        """A call that nobody repeats: `lost` is what the caller sees instead of an answer, `failed` a refusal."""
        process = self.kernel.current
        assert process is not None, f"{site} was called by nobody"

        def refused(kind: Kind) -> T:
            raise failed()

        return self._pass(f"{process.name.split('-')[0]} {site}", "", apply, lost, refused)

    def _pass(
        self,
        site: str,
        invocation: str,
        apply: Callable[[], T],
        lost: Callable[[], Exception],
        refused: Callable[[Kind], T],
    ) -> T:
        process = self.kernel.current
        assert process is not None
        if process.dead:
            raise Died(process.name)
        kind = self._persistent.get(invocation) or self._strike(site, CALL_KINDS)
        if kind in (Kind.MUTE, Kind.THROTTLE, Kind.FAIL) and invocation:
            self._persistent[invocation] = kind
        if kind is Kind.DIE_BEFORE:
            process.kill()
        elif kind is Kind.LATE:
            self.kernel.after(self.plan.delay(), lambda: self._apply_late(site, apply))
            process.kill()
        elif kind is Kind.PAUSE:
            self.kernel.sleep(self.plan.delay())
        self.kernel.sleep(self.latency())
        if kind in (Kind.THROTTLE, Kind.FAIL):
            return refused(kind)
        if kind is Kind.ECHO:
            self.kernel.after(self.plan.delay(), lambda: self._apply_late(site, apply))
            raise lost()
        answer = apply()
        if kind is Kind.DIE_AFTER:
            process.kill()
        self.kernel.sleep(self.latency())
        if kind in (Kind.LOSE, Kind.MUTE):
            raise lost()
        return answer

    def _apply_late(self, site: str, apply: Callable[[], Any]) -> None:
        self.kernel.note("late", site)
        try:
            apply()
        except Exception as error:
            self.kernel.note("late, refused", type(error).__name__)

    # ---- what the platform does

    def platform(self, site: str, kinds: tuple[Kind, ...] = PLATFORM_KINDS) -> Kind | None:
        return self._strike(f"platform {site}", kinds)

    def _strike(self, site: str, kinds: tuple[Kind, ...]) -> Kind | None:
        number = len(self.calls)
        self.calls.append((site, kinds))
        kind = self.plan.strike(number, site, kinds)
        self.kernel.note(number, site, *([f"<<< {kind}"] if kind else []))
        if kind:
            self.struck[site, kind] += 1
            self.struck_at.append(number)
        return kind


def _about(service: str, operation: str, request: AWSPreparedRequest) -> str:
    """Which record or object a call is about, without what differs from one to the next."""
    if service == "dynamodb":
        body = _text(request.body)
        return ",".join(dict.fromkeys(re.findall(r'"pk": \{"S": "(\w)#', body)))
    if service == "s3":
        found = re.search(r"/batches/[^/]+/([a-z]+)", _text(request.url)) or re.search(r"prefix=", _text(request.url))
        return (found[1] if found.lastindex else "listing") if found else "upload"
    return ""


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, (bytes, bytearray)) else str(value)
