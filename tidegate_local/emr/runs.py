"""What an application and a job run are. There is no I/O here.

The states are those of https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_JobRun.html. Times are in
epoch seconds, and said by the caller.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate_local.environment import ACCOUNT, REGION

ENDED = frozenset({"SUCCESS", "FAILED", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class Application:
    """`settings` are the Spark settings that every job of it begins with."""

    id: str
    name: str
    release_label: str
    architecture: str
    settings: Mapping[str, str]
    token: str
    created_at: float

    @property
    def arn(self) -> str:
        return f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/{self.id}"

    def summary(self) -> dict[str, Any]:
        return {
            "arn": self.arn,
            "name": self.name,
            "releaseLabel": self.release_label,
            "type": "Spark",
            "architecture": self.architecture,
            "state": "STARTED",
            "createdAt": self.created_at,
            "updatedAt": self.created_at,
        }


@dataclass(frozen=True, slots=True)
class JobRun:
    """A job run at one moment."""

    id: str
    application: Application
    token: str
    name: str
    role: str
    driver: Mapping[str, Any]
    settings: Mapping[str, str]
    tags: Mapping[str, str]
    timeout_minutes: int
    created_at: float
    state: str = "SUBMITTED"
    details: str = ""
    updated_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0

    @property
    def arn(self) -> str:
        return f"{self.application.arn}/jobruns/{self.id}"

    @property
    def is_active(self) -> bool:
        return self.state not in ENDED

    def moved(self, state: str, now: float, details: str = "") -> JobRun:
        """The run in its next state. One that is being cancelled is cancelled, however its process ended."""
        if self.state == "CANCELLING":
            state, details = "CANCELLED", self.details
        return replace(
            self,
            state=state,
            details=details,
            updated_at=now,
            started_at=now if state == "RUNNING" else self.started_at,
            ended_at=now if state in ENDED else 0.0,
        )

    def report(self) -> dict[str, Any]:
        """What is answered to whoever asks for it."""
        times = {"startedAt": self.started_at, "endedAt": self.ended_at}
        return {
            "applicationId": self.application.id,
            "id": self.id,
            "jobRunId": self.id,
            "name": self.name,
            "arn": self.arn,
            "createdBy": self.role,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "executionRole": self.role,
            "state": self.state,
            "stateDetails": self.details,
            "releaseLabel": self.application.release_label,
            "jobDriver": self.driver,
            "tags": self.tags,
            "executionTimeoutMinutes": self.timeout_minutes,
            **{name: value for name, value in times.items() if value},
        }

    def change(self, previous: str) -> dict[str, Any]:
        """The detail of the event that tells of its new state
        (https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-emr-serverless.html)."""
        return {
            "jobRunId": self.id,
            "jobRunName": self.name,
            "applicationId": self.application.id,
            "arn": self.arn,
            "releaseLabel": self.application.release_label,
            "state": self.state,
            **({"previousState": previous} if previous else {}),
            "createdBy": self.role,
            "createdAt": iso(self.created_at),
            "updatedAt": iso(self.updated_at),
        }


def iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
