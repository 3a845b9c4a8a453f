"""The functions: each with a role, a log group and an environment of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from infra.permissions import accept, allow
from infra.roster import Event, Feed, FeedQueue, May, RosterRow, Schedule
from infra.sizing import Source
from tidegate.metrics import NAMESPACE
from tidegate.settings import Settings


def own_log(scope: Construct, key: kms.IKey | None) -> logs.LogGroup:
    """The log group of the function in `scope`. It keeps logs for a month, and is deleted with the stack."""
    return logs.LogGroup(
        scope,
        "Log",
        retention=logs.RetentionDays.ONE_MONTH,
        removal_policy=cdk.RemovalPolicy.DESTROY,
        encryption_key=key,
    )


def own_role(scope: Construct, log_group: logs.ILogGroup) -> iam.Role:
    """The role of the function in `scope`. It may write to this log, and nothing else until something is granted. The
    role that CDK would create may write to every log group of the account."""
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    allow(role, ["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)
    return role


@dataclass(frozen=True, slots=True)
class Reach:
    """The parts of the stack that the rows name."""

    queues: Mapping[FeedQueue, tuple[sqs.IQueue, Source]]
    events: Mapping[Event, events.EventPattern]
    all_may: Sequence[Callable[[iam.Role], None]]
    """What every function may."""
    grants: Mapping[May, Sequence[Callable[[iam.Role], None]]]


class LambdaFunction(Construct):
    """The function of a row of `infra.roster`, with the sources and the permissions of its row."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        row: RosterRow,
        code: lambda_.Code,
        environment: Mapping[str, str],
        settings: Settings,
        reach: Reach,
        log_key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._concurrency = row.concurrency(settings)
        log_group = own_log(self, log_key)
        role = own_role(self, log_group)
        self.function = lambda_.Function(
            self,
            "Function",
            handler=f"lambdas.{row.name}.app.handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            code=code,
            timeout=cdk.Duration.seconds(row.started_by.timeout),
            memory_size=row.memory,
            role=role,
            log_group=log_group,
            environment={
                **environment,
                "POWERTOOLS_SERVICE_NAME": row.name,
                "POWERTOOLS_METRICS_NAMESPACE": NAMESPACE,
                "POWERTOOLS_LOG_LEVEL": "INFO",
            },
        )
        accept(
            self.function,
            "L1",
            f"Python {PYTHON} is supported, and the newest that EMR's image has: functions and job share one lock.",
        )
        self.triggers: list[IConstruct] = []
        """The parts that invoke it."""
        for grant in reach.all_may:
            grant(role)
        match row.started_by:
            case Feed(queue):
                self._feed_from(*reach.queues[queue])
            case Schedule(every):
                self._invoke_by("Schedule", schedule=events.Schedule.rate(cdk.Duration.seconds(every)))
        for event in row.also_on:
            # the rule of the ends of jobs was the first, and is called so since
            name = "Events" if event is Event.JOB_ENDED else event.name.title().replace("_", "")
            self._invoke_by(name, event_pattern=reach.events[event])
        for may in row.may:
            for grant in reach.grants[may]:
                grant(role)

    def _feed_from(self, queue: sqs.IQueue, source: Source) -> None:
        """Feed the function from a queue. It reports which messages failed. Without the limit the queue's poller would
        be throttled, and each throttled delivery counts as a delivery."""
        known = set(self.function.node.children)
        self.function.add_event_source(
            sources.SqsEventSource(
                queue,
                batch_size=source.batch_size,
                max_batching_window=cdk.Duration.seconds(source.window) if source.window else None,
                report_batch_item_failures=True,
                max_concurrency=self._concurrency,
            )
        )
        self.triggers += [each for each in self.function.node.children if each not in known]

    def _invoke_by(self, rule: str, **when: Any) -> None:
        self.triggers.append(events.Rule(self, rule, targets=[targets.LambdaFunction(self.function)], **when))
