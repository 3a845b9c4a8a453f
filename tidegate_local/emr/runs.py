"""What an application and a job run are, and how a run goes from state to state. There is no I/O here.

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
    type: str
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
            "type": self.type,
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

    def summary(self) -> dict[str, Any]:
        return {
            "applicationId": self.application.id,
            "name": self.name,
            "arn": self.arn,
            "createdBy": self.role,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "executionRole": self.role,
            "state": self.state,
            "stateDetails": self.details,
            "releaseLabel": self.application.release_label,
            "mode": "BATCH",
            "attempt": 1,
        }

    def report(self) -> dict[str, Any]:
        times = {"startedAt": self.started_at, "endedAt": self.ended_at}
        duration = int(self.ended_at - self.started_at) if self.ended_at and self.started_at else 0
        return {
            **self.summary(),
            "jobRunId": self.id,
            "jobDriver": self.driver,
            "tags": self.tags,
            "executionTimeoutMinutes": self.timeout_minutes,
            "totalExecutionDurationSeconds": duration,
            **{name: value for name, value in times.items() if value},
        }


def is_active(run: JobRun) -> bool:
    return run.state not in ENDED


def may_go_on(run: JobRun) -> bool:
    """Whether the next step towards running may be taken."""
    return is_active(run) and run.state != "CANCELLING"


def moved(run: JobRun, state: str, now: float, details: str = "") -> JobRun:
    """The run in its next state."""
    started_at = now if state == "RUNNING" else run.started_at
    return replace(run, state=state, details=details, updated_at=now, started_at=started_at)


def cancelled(run: JobRun, now: float, why: str) -> JobRun:
    """The run once it was asked to stop; one that has ended stays as it is."""
    return moved(run, "CANCELLING", now, why) if is_active(run) else run


def ended(run: JobRun, state: str, now: float, details: str) -> JobRun:
    """The run at its end: one that was being cancelled is cancelled, however its process ended."""
    if run.state == "CANCELLING":
        state, details = "CANCELLED", run.details
    return replace(moved(run, state, now, details), ended_at=now)


def change(run: JobRun, previous: str) -> dict[str, Any]:
    """The detail of the event that tells of a run's new state
    (https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-emr-serverless.html)."""
    return {
        "jobRunId": run.id,
        "jobRunName": run.name,
        "applicationId": run.application.id,
        "arn": run.arn,
        "releaseLabel": run.application.release_label,
        "state": run.state,
        **({"previousState": previous} if previous else {}),
        "createdBy": run.role,
        "createdAt": iso(run.created_at),
        "updatedAt": iso(run.updated_at),
    }


def iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
