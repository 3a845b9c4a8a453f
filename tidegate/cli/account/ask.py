"""Calls to AWS, and their answers. A refusal is an answer, too: nothing here raises for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from tidegate.cli.checks import Check, CheckState
from tidegate.cli.exits import Exit
from tidegate.settings import Settings
from tidegate.wiring import Resources

PATIENCE = Config(connect_timeout=10, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3})

LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Found:
    """The service answered. `body` is boto3's response."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Absent:
    """The service answered that it does not exist."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The service refused to answer; the caller needs `permission`."""

    permission: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There was no answer, or none to the question."""

    reason: str


Answer = Found | Absent | Denied | Unanswered
Silence = Denied | Unanswered
"""Answers from which nothing follows."""

_IAM_PREFIXES = {"service-quotas": "servicequotas"}
"""IAM's name of a service, where boto3 has another."""

_PERMISSIONS = {
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListBuckets": "s3:ListAllMyBuckets",
    "s3:GetBucketNotificationConfiguration": "s3:GetBucketNotification",
    "s3:GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
}
"""Operations that are authorized by an action of another name
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html)."""

_ABSENT = frozenset(
    {
        *("404", "NoSuchBucket", "NoSuchKey", "NotFoundException", "NoSuchResourceException"),
        *("EntityNotFoundException", "ParameterNotFound", "ResourceNotFoundException", "InvalidSubnetID.NotFound"),
        "NoSuchLifecycleConfiguration",
    }
)
_DENIED = frozenset(
    {"403", "AccessDenied", "AccessDeniedException", "AuthorizationError", "Forbidden", "UnauthorizedOperation"}
)


@dataclass
class Account:
    """An AWS account, called with the credentials and the region of `session`."""

    session: boto3.Session
    needed: set[str] = field(default_factory=set)
    """The permissions that the calls so far needed, with IAM's names."""
    _clients: dict[str, Any] = field(default_factory=dict)

    @property
    def region(self) -> str | None:
        region: str | None = self.session.region_name
        return region

    def ask(self, service: str, operation: str, **parameters: Any) -> Answer:
        """The answer to one call; `operation` is boto3's name for it."""
        return self._asked(service, operation, lambda client: getattr(client, operation)(**parameters))

    def ask_all(self, service: str, operation: str, **parameters: Any) -> Answer:
        """The answer to a call with pages: all of them in one."""
        return self._asked(
            service,
            operation,
            lambda client: client.get_paginator(operation).paginate(**parameters).build_full_result(),
        )

    def _asked(self, service: str, operation: str, call: Callable[[Any], dict[str, Any]]) -> Answer:
        try:
            client = self._client(service)
            permission = permission_for(service, client.meta.method_to_api_mapping[operation])
            self.needed.add(permission)
            return Found(call(client))
        except ClientError as error:
            return worth(error, permission)
        except (BotoCoreError, ResponseParserError) as error:
            return Unanswered(_in_a_line(str(error)))

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            make: Callable[..., Any] = self.session.client  # its types know services by literal names only
            self._clients[service] = make(service, config=PATIENCE)
        return self._clients[service]


def permission_for(service: str, api: str) -> str:
    action = f"{_IAM_PREFIXES.get(service, service)}:{api}"
    return _PERMISSIONS.get(action, action)


def worth(error: ClientError, permission: str) -> Answer:
    """The answer that a refusal is."""
    told = error.response.get("Error", {})
    code, message = str(told.get("Code", "")), str(told.get("Message", ""))
    # CloudFormation has one code for all mistakes in a request
    if code in _ABSENT or (code == "ValidationError" and message.endswith("does not exist")):
        return Absent()
    if code in _DENIED:
        return Denied(permission)
    return Unanswered(_in_a_line(f"{code}: {message}" if message else code))


def _in_a_line(text: str) -> str:
    """The text in one line. A proxy, for example, may answer with a page."""
    return " ".join(text.split())[:LONGEST_REASON]


@dataclass(frozen=True, slots=True)
class Examined:
    """What a check is about. `owner` is the account, `stack` the name of the stack. `resources` are None before it is
    deployed."""

    settings: Settings
    account: Account
    owner: str
    region: str
    stack: str
    resources: Resources | None

    @property
    def role(self) -> str:
        """The job role's ARN, if there is one."""
        return self.resources.job_role if self.resources else ""

    def arn(self, rest: str) -> str:
        """In the partition of the deployment, such as aws-cn."""
        return f"arn:{self.role.split(':')[1] if self.role else 'aws'}:{rest}"


# --- lines ---


def fine(name: str, finding: str) -> Check:
    return Check(name, CheckState.OK, finding)


def warns(name: str, finding: str, advice: str) -> Check:
    return Check(name, CheckState.WARN, finding, advice)


def fails(name: str, finding: str, advice: str) -> Check:
    """What a person must repair."""
    return Check(name, CheckState.FAIL, finding, advice, Exit.FINDING)


def cannot_tell(name: str, what: str, answer: Absent | Denied | Unanswered) -> Check:
    """A question without an answer: it is no failure, and no all-clear either."""
    match answer:
        case Denied(permission):
            finding = f"cannot tell {what}: the call was denied"
            return warns(name, finding, f"use credentials that have the permission {permission}")
        case Unanswered(reason):
            finding = f"cannot tell {what}: {reason}"
        case Absent():
            finding = f"cannot tell {what}: the service reports that it does not exist"
    return warns(name, finding, "try again; if that does not help, check by hand")
