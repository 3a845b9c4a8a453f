"""A template as CloudFormation would fill it in: every reference is the ARN or name that a resource has in an account.

What IAM decides by can then be read as it stands there: `identity_policies` of a role, and `resource_policy` of a
resource, which for a function is made of its permissions.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tidegate.settings import parse
from tidegate_local.intrinsics import Resolver

ACCOUNT = "123456789012"
REGION = "us-east-1"
Policy = dict[str, Any]

_PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/tidegate/00000000-0000-0000-0000-000000000000",
    "AWS::URLSuffix": "amazonaws.com",
}
# by type: the ARN of a resource with this name
_ARNS: dict[str, Callable[[str], str]] = {
    "AWS::CloudWatch::Alarm": lambda name: f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}",
    "AWS::CloudWatch::Dashboard": lambda name: f"arn:aws:cloudwatch::{ACCOUNT}:dashboard/{name}",
    "AWS::DynamoDB::Table": lambda name: f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}",
    "AWS::EMRServerless::Application": lambda name: f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/{name}",
    "AWS::Events::Rule": lambda name: f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{name}",
    "AWS::IAM::Role": lambda name: f"arn:aws:iam::{ACCOUNT}:role/{name}",
    "AWS::KMS::Key": lambda name: f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{name}",
    "AWS::Lambda::Function": lambda name: f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}",
    "AWS::Lambda::EventSourceMapping": lambda name: f"arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:{name}",
    "AWS::Logs::LogGroup": lambda name: f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}",
    "AWS::S3::Bucket": lambda name: f"arn:aws:s3:::{name}",
    "AWS::SNS::Topic": lambda name: f"arn:aws:sns:{REGION}:{ACCOUNT}:{name}",
    "AWS::SQS::Queue": lambda name: f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}",
}
# by type: the property that names a resource, and the one that names those that a policy is attached to
_NAMES = {
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SNS::Topic": "TopicName",
}
_POLICIES = {
    "AWS::S3::BucketPolicy": "Bucket",
    "AWS::SNS::TopicPolicy": "Topics",
    "AWS::SQS::QueuePolicy": "Queues",
}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class Account:
    """`names` are those of resources, by how their logical id begins; others are called as CloudFormation would."""

    def __init__(self, template: Any, names: Mapping[str, str] | None = None) -> None:
        self.deployment = parse(template.toml).deployment.name
        self.resources: dict[str, dict[str, Any]] = template.resources
        self._names = names or {}
        self._resolver = Resolver(self._ref, self._attribute)

    def resolve(self, value: Any) -> Any:
        return self._resolver.resolve(value)

    def find(self, kind: str, part: str = "") -> str:
        """The logical id of the only resource of a type whose logical id begins with `part`."""
        (found,) = (name for name, each in self.resources.items() if each["Type"] == kind and name.startswith(part))
        return found

    def name(self, logical_id: str) -> str:
        for part, name in self._names.items():
            if logical_id.startswith(part):
                return name
        resource = self.resources[logical_id]
        given = resource.get("Properties", {}).get(_NAMES.get(resource["Type"], ""))
        generated = f"{self.deployment}-{logical_id}-1ABCDEFGHIJKL"
        return given or (generated.lower() if resource["Type"] == "AWS::S3::Bucket" else generated)

    def arn(self, logical_id: str) -> str:
        return _ARNS[self.resources[logical_id]["Type"]](self.name(logical_id))

    def arns(self) -> list[str]:
        """Of all resources that have one."""
        return [self.arn(name) for name, each in self.resources.items() if each["Type"] in _ARNS]

    def identity_policies(self, role: str) -> list[Policy]:
        """What is written into the template for the role; what AWS manages is not."""
        attached = [
            each["Properties"]["PolicyDocument"]
            for each in self.resources.values()
            if each["Type"] == "AWS::IAM::Policy" and {"Ref": role} in each["Properties"]["Roles"]
        ]
        inline = self.resources[role]["Properties"].get("Policies", [])
        return [self.resolve(each) for each in (*attached, *(each["PolicyDocument"] for each in inline))]

    def resource_policy(self, logical_id: str) -> Policy | None:
        """Raises if several documents are attached to one resource: the last one would replace the others."""
        resource = self.resources[logical_id]
        match resource["Type"]:
            case "AWS::IAM::Role":
                documents = [resource["Properties"]["AssumeRolePolicyDocument"]]
            case "AWS::KMS::Key":
                documents = [resource["Properties"]["KeyPolicy"]]
            case "AWS::Lambda::Function":
                permissions = self._permissions(logical_id)
                documents = [{"Version": "2012-10-17", "Statement": permissions}] if permissions else []
            case _:
                documents = [
                    each["Properties"]["PolicyDocument"]
                    for each in self.resources.values()
                    if each["Type"] in _POLICIES
                    and {"Ref": logical_id} in listed(each["Properties"][_POLICIES[each["Type"]]])
                ]
        if len(documents) > 1:
            raise AssertionError(f"{logical_id} has {len(documents)} policies: the last one replaces the others")
        return self.resolve(documents[0]) if documents else None

    def resource_policy_of(self, arn: str) -> Policy | None:
        """The policy of the resource of the template that has this ARN, or that holds the object which has it."""
        for name, each in self.resources.items():
            if each["Type"] in _ARNS and (arn == self.arn(name) or arn.startswith(f"{self.arn(name)}/")):
                return self.resource_policy(name)
        return None

    def documents(self) -> list[tuple[str, Policy]]:
        """Every policy of the template, with the logical id of what it is attached to."""
        roles = (name for name, each in self.resources.items() if each["Type"] == "AWS::IAM::Role")
        found = [(role, each) for role in roles for each in self.identity_policies(role)]
        for name in self.resources:
            policy = self.resource_policy(name)
            if policy:
                found.append((name, policy))
        return found

    def _permissions(self, function: str) -> list[dict[str, Any]]:
        """As Lambda writes them into the policy of a function
        (https://docs.aws.amazon.com/lambda/latest/dg/permissions-function-services.html)."""
        statements = []
        for each in self.resources.values():
            properties = each.get("Properties", {})
            if each["Type"] != "AWS::Lambda::Permission" or self.arn(function) != self.resolve(
                properties["FunctionName"]
            ):
                continue
            conditions: dict[str, dict[str, Any]] = {}
            if "SourceArn" in properties:
                conditions["ArnLike"] = {"aws:SourceArn": properties["SourceArn"]}
            if "SourceAccount" in properties:
                conditions["StringEquals"] = {"aws:SourceAccount": properties["SourceAccount"]}
            statements.append(
                {
                    "Effect": "Allow",
                    "Action": properties["Action"],
                    "Principal": {"Service": properties["Principal"]},
                    "Resource": self.arn(function),
                    **({"Condition": conditions} if conditions else {}),
                }
            )
        return statements

    def _ref(self, name: str) -> Any:
        if name in _PSEUDO:
            return _PSEUDO[name]
        return self.arn(name) if self.resources[name]["Type"] == "AWS::SNS::Topic" else self.name(name)

    def _attribute(self, name: str, attribute: str) -> Any:
        if attribute in ("Arn", "TopicArn"):
            whole_group = ":*" if self.resources[name]["Type"] == "AWS::Logs::LogGroup" else ""
            return self.arn(name) + whole_group
        return self.name(name)
