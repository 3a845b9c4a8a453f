"""EMR Serverless at the level of HTTP: three of its operations, for a boto3 client that calls nothing else."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto.core.models import botocore_stubber

from tests.support.faults import answer

APPLICATION = "00f1application"


def nobody(run: str, arguments: Sequence[str]) -> None:
    """Plays no job: the test does."""


@dataclass
class EmrService:
    """Records the runs that are started, recognises a client token (or not), and runs nothing itself."""

    knows_tokens: bool = True
    refusal: tuple[int, str] | None = None
    """Answer every start with this status and error code instead."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The body of every StartJobRun."""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Every run that was started, as GetJobRun returns it."""
    plays: Callable[[str, Sequence[str]], None] = nobody
    """Is told of each run that is started, and its arguments: it may play the job."""
    _by_token: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)

    def attach(self, client: Any) -> None:
        """Answer all calls of `client`."""
        client.meta.events.unregister("before-send", botocore_stubber)  # moto's EMR knows neither tokens nor labels
        client.meta.events.register("before-send.emr-serverless", self.serve)

    def forget(self) -> None:
        """Reset everything."""
        self.knows_tokens, self.refusal, self.plays = True, None, nobody
        for memory in (self.asked, self.runs, self._by_token):
            memory.clear()

    def end(self, run: str, state: str = "SUCCESS", details: str = "") -> None:
        self.runs[run] |= {"state": state, "stateDetails": details}

    def serve(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        path = re.fullmatch(r"https://[^/]+/applications/([^/?]+)/jobruns(?:/([^/?]+))?(?:\?.*)?", request.url)
        assert path, f"{request.method} {request.url} is not imitated"
        if path[1] != APPLICATION:
            return _error(request, 404, "ResourceNotFoundException")
        if request.method == "POST":
            return self._start(request)
        if path[2] not in self.runs:
            return _error(request, 404, "ResourceNotFoundException")
        if request.method == "DELETE":
            self.end(path[2], "CANCELLED")
            return answer(request.url, 200, {"applicationId": APPLICATION, "jobRunId": path[2]})
        return answer(request.url, 200, {"jobRun": self.runs[path[2]]})

    def _start(self, request: AWSPreparedRequest) -> AWSResponse:
        body = json.loads(bytes(request.body))
        self.asked.append(body)
        if self.refusal:
            return _error(request, *self.refusal)
        token = body["clientToken"]
        if token not in self._by_token or not self.knows_tokens:
            run = f"run-{len(self.runs) + 1}"
            self._by_token[token] = run, body
            arn = f"arn:aws:emr-serverless:us-east-1:123456789012:/applications/{APPLICATION}/jobruns/{run}"
            self.runs[run] = {
                "applicationId": APPLICATION,
                "jobRunId": run,
                "name": body["name"],
                "arn": arn,
                "createdBy": "arn:aws:iam::123456789012:user/test",
                "createdAt": 1_800_000_000,
                "updatedAt": 1_800_000_000,
                "executionRole": body["executionRoleArn"],
                "state": "RUNNING",
                "stateDetails": "",
                "releaseLabel": "emr-spark-8.1.0",
                "jobDriver": body["jobDriver"],
            }
            self.plays(run, body["jobDriver"]["sparkSubmit"]["entryPointArguments"])
        run, way = self._by_token[token]
        if way != body:
            # AWS documents the error, and not when it comes
            return _error(request, 409, "ConflictException")
        return answer(request.url, 200, {"applicationId": APPLICATION, "jobRunId": run, "arn": self.runs[run]["arn"]})


def _error(request: AWSPreparedRequest, status: int, code: str) -> AWSResponse:
    refused = answer(request.url, status, {"message": f"{code}, as told"})
    refused.headers["x-amzn-ErrorType"] = code
    return refused
