"""One stack while it is created: what exists already, and what its resources are called and refer to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidegate_local.description import Function, Rule
from tidegate_local.environment import ACCOUNT, REGION, client
from tidegate_local.errors import LocalError
from tidegate_local.intrinsics import NO_VALUE, Resolver
from tidegate_local.loader.absent import ABSENT, absent
from tidegate_local.loader.assembly import Assembly
from tidegate_local.loader.kinds import KINDS, Created

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_emr_serverless import EMRServerlessClient
    from types_boto3_s3 import S3Client
    from types_boto3_sns import SNSClient
    from types_boto3_sqs import SQSClient


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
        self.told: set[tuple[str, str]] = set()
        """The notifications that this template wants: the bucket, and the id of each."""
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
        resource = self.resources[logical]
        kind = resource["Type"]
        self.in_progress.append(logical)
        try:
            if kind in ABSENT:
                self.created[logical] = absent(self, logical, resource)
            elif logical in self.handlers_of_custom_resources():
                self.created[logical] = Created(
                    logical, {"Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{logical}"}
                )
            else:
                self.created[logical] = self._create(kind, logical, resource)
        except ClientError as error:
            raise LocalError(f"{kind} {logical} could not be created: {error}") from error
        finally:
            self.in_progress.pop()
        return self.created[logical]

    def _create(self, kind: str, logical: str, resource: Mapping[str, Any]) -> Created:
        left_over = dict(self.resolver.resolve(resource.get("Properties", {})))
        created = KINDS[kind].create(self, logical, left_over)
        for name in sorted(left_over.keys() - KINDS[kind].ignored.keys()):
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
