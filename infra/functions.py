"""The functions: each with a role, a log group and an environment of its own."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from infra.bundling import PYTHON
from infra.limits import MEMORY_MB, Source
from infra.permissions import accept, allow

NAMESPACE = "Tidegate"


def own_log(scope: Construct, key: kms.IKey | None) -> logs.LogGroup:
    """The log group of the function in `scope`: it is kept for a month, and goes with the stack."""
    return logs.LogGroup(
        scope,
        "Log",
        retention=logs.RetentionDays.ONE_MONTH,
        removal_policy=cdk.RemovalPolicy.DESTROY,
        encryption_key=key,
    )


def own_role(scope: Construct, log_group: logs.ILogGroup) -> iam.Role:
    """The role of the function in `scope`, which may write to this log and do nothing else until something is granted.
    The one that CDK would make may write to every log group of the account."""
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    allow(role, ["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)
    return role


class Function(Construct):
    """One handler of `lambdas/<name>`. It may do nothing but write its log until something is granted."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        code: lambda_.Code,
        timeout: int,
        environment: Mapping[str, str],
        log_key: kms.IKey | None = None,
        reserved: int | None = None,
    ) -> None:
        """`timeout` in seconds; `reserved` invocations at once are kept for this function, and never more."""
        super().__init__(scope, id)
        log_group = own_log(self, log_key)
        self.role = own_role(self, log_group)
        self.function = lambda_.Function(
            self,
            "Function",
            handler=f"lambdas.{name}.app.handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            code=code,
            timeout=cdk.Duration.seconds(timeout),
            memory_size=MEMORY_MB,
            role=self.role,
            log_group=log_group,
            reserved_concurrent_executions=reserved,
            environment={
                **environment,
                "POWERTOOLS_SERVICE_NAME": name,
                "POWERTOOLS_METRICS_NAMESPACE": NAMESPACE,
                "POWERTOOLS_LOG_LEVEL": "INFO",
            },
        )

        self.triggers: list[IConstruct] = []
        """What has it invoked."""
        accept(
            self.function,
            "L1",
            f"Python {PYTHON} is supported, and the newest that EMR's image has: functions and job share one lock.",
        )

    def feed_from(self, queue: sqs.IQueue, source: Source, concurrency: int) -> None:
        """Invoke this function with the queue's messages, at most `concurrency` times at once; it answers which of them
        failed. Without the bound the queue's poller would be throttled, and each throttled delivery counts as one."""
        known = set(self.function.node.children)
        self.function.add_event_source(
            sources.SqsEventSource(
                queue,
                batch_size=source.batch_size,
                max_batching_window=cdk.Duration.seconds(source.window) if source.window else None,
                report_batch_item_failures=True,
                max_concurrency=concurrency,
            )
        )
        self.triggers += [each for each in self.function.node.children if each not in known]

    def invoke_every(self, seconds: int) -> None:
        schedule = events.Schedule.rate(cdk.Duration.seconds(seconds))
        target = targets.LambdaFunction(self.function)
        self.triggers.append(events.Rule(self, "Schedule", schedule=schedule, targets=[target]))

    def invoke_on(self, pattern: events.EventPattern) -> None:
        target = targets.LambdaFunction(self.function)
        self.triggers.append(events.Rule(self, "Events", event_pattern=pattern, targets=[target]))
