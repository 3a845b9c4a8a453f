"""Guards: a failed creation is rolled back completely, so that the next one can succeed; and a deletion ends.

CloudFormation calls one function for all guards (`infra.guard_handler`). A guard is created after what it guards, and
deleted before it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_emrserverless as emrserverless
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct, IConstruct

from infra.bundling import PYTHON
from infra.functions import own_log, own_role
from infra.permissions import accept

HANDLER = Path(__file__).with_name("guard_handler.py")
TIMEOUT = cdk.Duration.minutes(5)
LATE = cdk.Duration.minutes(10)
"""The time after which CloudFormation gives the function up. The default is an hour."""


class Guards(Construct):
    def __init__(self, scope: Construct, id: str, *, key: kms.IKey | None) -> None:
        super().__init__(scope, id)
        log_group = own_log(self, key)
        self._role = own_role(self, log_group)
        self._function = lambda_.Function(
            self,
            "Function",
            handler="index.handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            code=lambda_.Code.from_inline(HANDLER.read_text(encoding="utf-8")),
            timeout=TIMEOUT,
            role=self._role,
            log_group=log_group,
        )
        accept(self._function, "L1", f"Python {PYTHON} is supported, and the one that the other functions have.")

    def names(self, buckets: Iterable[str]) -> IConstruct | None:
        """Fails if a bucket of one of these names exists and is not of this stack. That is the likeliest mistake, and
        S3 reports it only when nearly everything else is created. None if there are no buckets to be created."""
        names = sorted(set(buckets))
        if not names:
            return None
        stack = cdk.Stack.of(self)
        arns = [stack.format_arn(service="s3", region="", account="", resource=name) for name in names]
        return self._guard(
            "Names",
            " ".join(names),
            (["s3:ListBucket"], arns),
            (["cloudformation:ListStackResources"], [cdk.Aws.STACK_ID]),
        )

    def archive(self, topic: sns.Topic, days: int) -> None:
        """Keep published notices for `days`. The archive is not a property of the topic, because SNS deletes no topic
        that has one, and a failed creation must be able to delete the topic
        (https://docs.aws.amazon.com/sns/latest/dg/message-archiving-and-replay-topic-owner.html,
        https://github.com/aws/aws-cdk/pull/37113)."""
        self._guard("Archive", topic.topic_arn, (["sns:SetTopicAttributes"], [topic.topic_arn]), Days=str(days))

    def protection(self, table: dynamodb.Table) -> None:
        """Protect the table from deletion. That is not a property of the table either: CloudFormation calls DeleteTable
        and nothing before it (`handlers` of its resource schema), so the rollback of a creation would fail there."""
        self._guard(
            "Protection",
            table.table_name,
            (["dynamodb:DescribeTable", "dynamodb:UpdateTable"], [table.table_arn]),
            (["cloudformation:DescribeStacks"], [cdk.Aws.STACK_ID]),
        )

    def application(self, application: emrserverless.CfnApplication, starters: Iterable[IConstruct]) -> None:
        """Stop the application before it is deleted, which CloudFormation does not, and after `starters`, which could
        start it again, are gone (https://github.com/gchq/sleeper/issues/1125)."""
        guard = self._guard(
            "Application",
            application.attr_application_id,
            (["emr-serverless:GetApplication", "emr-serverless:StopApplication"], [application.attr_arn]),
            # each application has its own guard: the old one is stopped when the new one is in use
            id=application.node.id,
        )
        for starter in starters:
            starter.node.add_dependency(guard)

    def _guard(
        self, kind: str, of: str, *allowed: tuple[Sequence[str], Sequence[str]], id: str = "", **properties: str
    ) -> cdk.CustomResource:
        """What it is `allowed`, actions on resources, is a policy of its own, or every guard would wait for what any of
        them guards."""
        policy = iam.Policy(
            self,
            f"{id or kind}Policy",
            roles=[self._role],
            statements=[iam.PolicyStatement(actions=[*actions], resources=[*on]) for actions, on in allowed],
        )
        guard = cdk.CustomResource(
            self,
            id or kind,
            resource_type=f"Custom::Tidegate{kind}",
            service_token=self._function.function_arn,
            service_timeout=LATE,
            properties={"Of": of, **properties},
        )
        # so the policy is created before the guard, and deleted after it
        guard.node.add_dependency(policy)
        return guard


def after(guard: IConstruct, stack: cdk.Stack) -> None:
    """Let resources that are slow to create, or that outlive the stack, wait for `guard`."""
    for each in stack.node.find_all():
        if isinstance(each, s3.CfnBucket | dynamodb.CfnTable | emrserverless.CfnApplication | sns.CfnTopic):
            each.node.add_dependency(guard)
