"""One stack while it is created: who creates what, and what its resources are called and refer to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidegate_local.description import Function, Rule
from tidegate_local.environment import ACCOUNT, REGION, client
from tidegate_local.errors import LocalError
from tidegate_local.intrinsics import NO_VALUE, Resolver
from tidegate_local.loader.absent import ABSENT, MEANINGLESS, absent
from tidegate_local.loader.assembly import Assembly

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_emr_serverless import EMRServerlessClient
    from types_boto3_s3 import S3Client
    from types_boto3_sns import SNSClient
    from types_boto3_sqs import SQSClient


Properties = dict[str, Any]
"""What the template says of one resource, without intrinsic functions. Whoever applies a property takes it out."""


@dataclass(frozen=True, slots=True)
class Created:
    """What `Ref` and `Fn::GetAtt` answer for a resource."""

    ref: str
    attributes: Mapping[str, str] = field(default_factory=dict)


Create = Callable[["Loading", str, Properties], Created]
KINDS: dict[str, Create] = {}
"""Who creates a type of resource."""


def creates(kind: str) -> Callable[[Create], Create]:
    """Registers the function that creates resources of this type. What it leaves in the properties is not applied."""

    def register(create: Create) -> Create:
        KINDS[kind] = create
        return create

    return register


def taken(properties: Properties, *names: str) -> dict[str, Any]:
    """The properties of these names, taken out."""
    return {name: properties.pop(name) for name in names if name in properties}


class Loading:
    """One stack of `assembly`. A resource is created when it is first referred to, or its turn comes.

    `code` and `patience` are those of `tidegate_local.loader.load`.
    """

    def __init__(
        self, assembly: Assembly, environment: Mapping[str, str], code: Path | None, patience: int | None
    ) -> None:
        self.assembly = assembly
        self.environment = environment
        self.code = code
        self.patience = patience
        self.resources: Mapping[str, Any] = assembly.template.get("Resources", {})
        self.created: dict[str, Created] = {}
        self.in_progress: list[str] = []
        self.functions: dict[str, Function] = {}
        self.rules: list[Rule] = []
        self.notes: list[str] = []
        self.notifications: dict[str, list[dict[str, Any]]] = {}
        """What this template has each bucket notify."""
        self.on_the_bus: set[str] = set()
        """The buckets whose events go to EventBridge."""
        self.folders: dict[tuple[str, str], Path] = {}
        self.resolver = Resolver(self.ref, self.attribute)

    # --- clients ---

    @cached_property
    def s3(self) -> S3Client:
        return client("s3", self.environment)

    @cached_property
    def sqs(self) -> SQSClient:
        return client("sqs", self.environment)

    @cached_property
    def sns(self) -> SNSClient:
        return client("sns", self.environment)

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        return client("dynamodb", self.environment)

    @cached_property
    def jobs(self) -> EMRServerlessClient:
        return client("emr-serverless", self.environment)

    # --- names ---

    def ref(self, name: str) -> Any:
        pseudo = {
            "AWS::AccountId": ACCOUNT,
            "AWS::NoValue": NO_VALUE,
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{self.assembly.name}/local",
            "AWS::StackName": self.assembly.name,
            "AWS::URLSuffix": "amazonaws.com",
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.resources:
            return self.create(name).ref
        raise LocalError(f"the template refers to {name!r}, which is no resource; parameters have no value here")

    def attribute(self, logical: str, name: str) -> str:
        attributes = self.create(logical).attributes
        if name not in attributes:
            raise LocalError(
                f"the template asks for {name} of {logical} ({self.resources[logical]['Type']}), which the local stack"
                " does not know"
            )
        return attributes[name]

    def create(self, logical: str) -> Created:
        if logical in self.created:
            return self.created[logical]
        if logical not in self.resources:
            raise LocalError(f"the template refers to a resource {logical!r} that it does not have")
        if logical in self.in_progress:
            raise LocalError(f"resources of the template need each other: {' -> '.join([*self.in_progress, logical])}")
        kind = self.resources[logical]["Type"]
        self.in_progress.append(logical)
        try:
            self.created[logical] = self._create(kind, logical)
        except ClientError as error:
            raise LocalError(f"{kind} {logical} could not be created: {error}") from error
        finally:
            self.in_progress.pop()
        return self.created[logical]

    def _create(self, kind: str, logical: str) -> Created:
        if logical in self.handlers_of_custom_resources():
            return Created(logical, {"Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{logical}"})
        said = self.resources[logical].get("Properties", {})
        if kind in ABSENT:
            # what it is called is all that counts here, and nothing else needs to be known
            named = {name: self.resolver.resolve(said[name]) for name in ("RoleName", "LogGroupName") if name in said}
            return Created(*absent(kind, logical, named, self.generated_name))
        properties: Properties = dict(self.resolver.resolve(said))
        created = KINDS[kind](self, logical, properties)
        for name in sorted(properties.keys() - MEANINGLESS.keys()):
            self.notes.append(f"{kind} {logical}: {name} is not applied on this machine")
        return created

    def handlers_of_custom_resources(self) -> set[str]:
        """The functions that CloudFormation would call; the loader does their work itself."""
        tokens = [
            each["Properties"].get("ServiceToken", {})
            for each in self.resources.values()
            if each["Type"].startswith("Custom::")
        ]
        return {token["Fn::GetAtt"][0] for token in tokens if isinstance(token, dict) and "Fn::GetAtt" in token}

    def generated_name(self, logical: str, *, suffix: str = "", limit: int = 64) -> str:
        """A name for a resource that was given none: the same each time, as nothing else tells that it exists."""
        name = f"{self.assembly.name}-{logical}"
        if len(name) + len(suffix) > limit:
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            name = f"{name[: limit - len(suffix) - 9]}-{digest}"
        return name + suffix
