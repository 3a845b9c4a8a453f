"""The policy docs/deployer-policy.json lets CloudFormation make, change and delete everything in every template.

What CloudFormation calls for a type of resource is in the type's schema, handler by handler
(https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-schema.html#schema-properties-handlers);
cfn-lint carries the schemas. They list what any property might need, so what no template needs is left out below, each
with its reason, and a test sees to it that the reason still holds.
"""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.infra.account import ACCOUNT, REGION, Account, Policy
from tests.infra.conftest import KEY_ARN, SIMPLE, VARIANTS
from tests.infra.evaluator import ALLOWED, DENIED, Request, evaluate
from tests.infra.schemas import packed_schemas
from tests.infra.test_authorization import action

NARROW = (Path(__file__).parents[2] / "docs" / "deployer-policy.json").read_text()
SCHEMAS = packed_schemas()
LONGEST_POLICY = 6_144
"""Characters of a managed policy, without white space
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html)."""
ROLE = f"arn:aws:iam::{ACCOUNT}:role/cdk-hnb659fds-cfn-exec-role-{ACCOUNT}-{REGION}"
KEY_POLICY: Policy = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "kms:*", "Resource": "*"}
    ],
}
"""Of a key that leaves it to the account's IAM policies, as ours does."""
NETWORK = SIMPLE + '\n[network]\nsubnets = ["subnet-0123456789abcdef0"]\nsecurity_groups = ["sg-0123456789abcdef0"]\n'

HANDLERS = ("create", "read", "update", "delete")
CUSTOM = ("lambda:InvokeFunction",)
"""For a custom resource CloudFormation calls its function
(https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-custom-resources-lambda.html)."""


@dataclass(frozen=True)
class Unasked:
    """What the schema of `kind` lists and no template needs: it is for properties that none sets, or `because`."""

    kind: str
    permissions: tuple[str, ...]
    properties: tuple[str, ...] = ()
    because: str = ""

    def covers(self, kind: str, permission: str) -> bool:
        return kind == self.kind and any(fnmatchcase(permission, each) for each in self.permissions)


UNASKED = (
    Unasked(
        "AWS::S3::Bucket",
        ("s3tables:*", "s3:*BucketMetadata*"),
        ("MetadataConfiguration", "MetadataTableConfiguration"),
    ),
    Unasked("AWS::S3::Bucket", ("s3:DeleteObject", "s3:PutObjectAcl"), because="no bucket is made with objects in it"),
    Unasked(
        "AWS::DynamoDB::Table",
        ("dynamodb:ImportTable", "dynamodb:DescribeImport", "s3:*", "logs:*"),
        ("ImportSourceSpecification",),
    ),
    Unasked("AWS::DynamoDB::Table", ("kinesis:*", "dynamodb:*Kinesis*"), ("KinesisStreamSpecification",)),
    Unasked(
        "AWS::DynamoDB::Table",
        ("iam:CreateServiceLinkedRole",),
        because="the role is for replicas, which another type of resource has",
    ),
    Unasked("AWS::IAM::Policy", ("iam:*UserPolicy",), ("Users",)),
    Unasked("AWS::IAM::Policy", ("iam:*GroupPolicy",), ("Groups",)),
    Unasked("AWS::IAM::Role", ("iam:*RolePermissionsBoundary",), ("PermissionsBoundary",)),
    Unasked("AWS::EMRServerless::Application", ("sso:*",), ("IdentityCenterConfiguration",)),
    Unasked("AWS::EMRServerless::Application", ("ecr:*",), ("ImageConfiguration", "WorkerTypeSpecifications")),
    Unasked(
        "AWS::EMRServerless::Application",
        (
            *("kms:CancelKeyDeletion", "kms:*Alias", "kms:ListGrants", "kms:ListKeyPolicies", "kms:ListKeys"),
            "kms:UpdatePrimaryRegion",
        ),
        because="the key of the logs is there before the application, and EMR does not look after it",
    ),
    Unasked("AWS::Lambda::Function", ("ec2:*",), ("VpcConfig",)),
    Unasked("AWS::Lambda::Function", ("elasticfilesystem:*", "s3files:*"), ("FileSystemConfigs",)),
    Unasked("AWS::Lambda::Function", ("lambda:PassCapacityProvider",), ("CapacityProviderConfig",)),
    Unasked("AWS::Lambda::Function", ("lambda:GetLayerVersion",), ("Layers",)),
    Unasked("AWS::Lambda::Function", ("lambda:GetCodeSigningConfig",), ("CodeSigningConfigArn",)),
    Unasked(
        "AWS::Logs::LogGroup",
        ("s3:REST.PUT.OBJECT", "firehose:TagDeliveryStream", "logs:CreateLogDelivery"),
        ("DataProtectionPolicy",),
    ),
    Unasked("AWS::Logs::LogGroup", ("logs:PutIndexPolicy", "logs:DeleteIndexPolicy"), ("FieldIndexPolicies",)),
    Unasked("AWS::Logs::LogGroup", ("logs:*ResourcePolic*",), ("ResourcePolicyDocument",)),
)
MISNAMED = {
    "lambda:AssociateRuntimeAlias",
    *(f"s3:DeleteBucket{name}" for name in ("AnalyticsConfiguration", "Cors", "Encryption", "Lifecycle")),
    *("s3:DeleteBucketMetricsConfiguration", "s3:DeleteBucketReplication", "s3:PutBucketReplication"),
    "s3:PutObjectLockConfiguration",
}
"""What schemas list and IAM does not know: S3 authorizes these calls by the name of the Put of the same thing, which is
listed as well (https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html). It knows
AssociateRuntimeAlias under no name."""
WITHOUT_SCHEMA = {"AWS::CDK::Metadata": "CloudFormation makes nothing of it"}
"""Types that no schema describes, other than custom resources."""


# ---- what is needed


@cache
def schema(kind: str) -> dict[str, Any] | None:
    index = json.loads((SCHEMAS / "providers" / f"{REGION}.json").read_text())
    if kind not in index:
        return None
    found: dict[str, Any] = json.loads((SCHEMAS / "resources" / f"{index[kind]}.json").read_text())
    return found


def permissions(kind: str) -> list[str]:
    """What CloudFormation needs for a type of resource, less what no template needs."""
    if kind.startswith("Custom::") or kind == "AWS::CloudFormation::CustomResource":
        return [*CUSTOM]
    if kind in WITHOUT_SCHEMA:
        return []
    described = schema(kind)
    assert described is not None, f"no schema says what CloudFormation calls for a {kind}"
    listed = {each for name in HANDLERS for each in described["handlers"].get(name, {}).get("permissions", [])}
    assert listed, f"the schema of {kind} does not say what CloudFormation calls"
    return sorted(each for each in listed - MISNAMED if not any(unasked.covers(kind, each) for unasked in UNASKED))


def needed(account: Account) -> Iterator[tuple[str, str]]:
    """Every permission, with every ARN of the stack that its action takes."""
    arns = [
        *account.arns(),
        *(f"{arn}:5c8f7a" for arn in account.arns() if ":sns:" in arn),
        f"arn:aws:s3:::cdk-hnb659fds-assets-{ACCOUNT}-{REGION}/code.zip",
        f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/ops.emr-serverless.amazonaws.com/AWSServiceRoleForAmazonEMRServerless",
        f"arn:aws:ec2:{REGION}:{ACCOUNT}:network-interface/eni-01",
        KEY_ARN,
    ]
    asked = {
        permission for kind in {each["Type"] for each in account.resources.values()} for permission in permissions(kind)
    }
    for permission in sorted(asked):
        known = action(permission)
        assert known, f"there is no action {permission}: say in UNASKED why it is not needed"
        if not known.arns:
            yield permission, "*"
            continue
        on = [arn for arn in arns if _is_meant(permission, arn) and known.takes(arn)]
        assert on, f"say what {permission} is needed on, which takes {', '.join(known.arns)}"
        yield from ((permission, arn) for arn in on)


def _is_meant(permission: str, arn: str) -> bool:
    """The role that EMR has by itself is made, and nothing else is done with it; others are not made so."""
    return ("aws-service-role" in arn) == (permission == "iam:CreateServiceLinkedRole")


# ---- what is allowed


def policy(deployment: str) -> Policy:
    """The narrow one, filled in."""
    values = {
        "ACCOUNT": ACCOUNT,
        "REGION": REGION,
        "DEPLOYMENT": deployment,
        # one bucket there, several here
        "LANDING": "example-*",
    }
    found: Policy = json.loads(re.sub("|".join(values), lambda match: values[match[0]], NARROW))
    return found


def refused(account: Account, by: Policy) -> list[str]:
    """The permissions that are needed and not there."""
    context = {"ec2:CreateNetworkInterface": {"aws:CalledViaLast": "ops.emr-serverless.amazonaws.com"}}
    requests = [
        Request(ROLE, name, arn, context.get(name, {}), [by], KEY_POLICY if ":key/" in arn else None)
        for name, arn in needed(account)
    ]
    assert len(requests) > 100
    answers = evaluate(requests)
    return [
        f"{each.action} on {each.resource}" for each, answer in zip(requests, answers, strict=True) if answer != ALLOWED
    ]


@pytest.fixture
def templates(variant, synthesize):
    """Every variant, and the one with workers inside a network."""
    return {name: variant(name) for name in VARIANTS} | {"network": synthesize(NETWORK)}


def test_the_deployer_may_do_all_that_cloudformation_does(templates):
    for name, template in templates.items():
        account = Account(template)
        assert refused(account, policy(account.deployment)) == [], name


def test_what_is_left_out_belongs_to_properties_that_no_template_sets(templates):
    resources = [each for template in templates.values() for each in template.resources.values()]
    assert not [each for each in MISNAMED if action(each)]
    for unasked in UNASKED:
        same = [each for each in resources if each["Type"] == unasked.kind]
        assert bool(unasked.properties) != bool(unasked.because), unasked
        described = schema(unasked.kind)
        assert described
        for name in unasked.properties:
            assert name in described["properties"], f"{unasked.kind} has no {name}"
            assert not [each for each in same if name in each.get("Properties", {})]
        listed = [each for name in HANDLERS for each in described["handlers"].get(name, {}).get("permissions", [])]
        for pattern in unasked.permissions:
            assert any(fnmatchcase(each, pattern) for each in listed), f"{unasked.kind} does not ask for {pattern}"


def test_a_type_of_resource_that_nobody_has_looked_at_is_found(simple):
    body = deepcopy(simple.body)
    body["Resources"]["New"] = {"Type": "AWS::Nowhere::Thing", "Properties": {}}
    with pytest.raises(AssertionError, match="no schema says what CloudFormation calls for a AWS::Nowhere::Thing"):
        list(needed(Account(replace(simple, body=body))))
    body["Resources"]["New"] = {"Type": "AWS::Kinesis::Stream", "Properties": {}}
    account = Account(replace(simple, body=body))
    with pytest.raises(AssertionError, match="say what kinesis:"):
        refused(account, policy(account.deployment))


def test_the_deployer_may_not_touch_what_is_not_the_deployments(simple):
    account = Account(simple)
    others = [
        ("sqs:DeleteQueue", f"arn:aws:sqs:{REGION}:{ACCOUNT}:theirs"),
        ("dynamodb:DeleteTable", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/theirs"),
        ("lambda:InvokeFunction", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:theirs"),
        ("iam:PutRolePolicy", f"arn:aws:iam::{ACCOUNT}:role/theirs"),
        ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/theirs"),
        ("s3:DeleteObject", "arn:aws:s3:::example-landing/flights/1.json.gz"),
        ("s3:GetObject", "arn:aws:s3:::example-landing/flights/1.json.gz"),
        ("s3:PutBucketPolicy", "arn:aws:s3:::theirs"),
        ("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:theirs-AbCdEf"),
    ]
    by = policy(account.deployment)
    assert set(evaluate([Request(ROLE, name, arn, {}, [by]) for name, arn in others])) == {DENIED}


def test_the_policy_fits():
    assert len(re.sub(r"\s", "", json.dumps(policy("d" * 31)))) <= LONGEST_POLICY
