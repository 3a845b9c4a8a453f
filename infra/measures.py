"""What the alarms and the dashboard read: parts that AWS measures, and metrics that Tidegate writes."""

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from infra.sizing import Source
from tidegate.metrics import NAMESPACE, Metric
from tidegate.settings import MINUTE

PERIOD = 5 * MINUTE
"""Seconds that a data point covers by default."""


@dataclass(frozen=True, slots=True)
class WatchedRoute:
    """What the alarms of a route depend on; times in seconds.

    `expect_every` is the longest time without an upload that sounds no alarm; None if there is no such alarm.
    """

    name: str
    max_wait: int
    expect_every: int | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that are watched. `functions` are those of `infra.roster`, by name."""

    deployment: str
    buffer: sqs.IQueue
    intake: Source
    """How the buffer feeds intake."""
    buffer_dead_letters: sqs.IQueue
    notices: sqs.IQueue
    notices_dead_letters: sqs.IQueue
    functions: dict[str, lambda_.IFunction]
    application_id: str

    def own(
        self, metric: Metric, route: str = "", *, period: int = PERIOD, label: str | None = None
    ) -> cloudwatch.Metric:
        """A metric that Tidegate writes: the sum of a counter, the maximum of a gauge."""
        measured = metric.value
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=measured.name,
            dimensions_map=measured.dimensions(self.deployment, route),
            statistic="Maximum" if measured.gauge else "Sum",
            period=cdk.Duration.seconds(period),
            label=label,
        )

    def jobs(self, state: str, *, statistic: str) -> cloudwatch.Metric:
        """How many of the application's jobs are in a state. Since release 7.10 the application's name, which is the
        deployment's, is a dimension too
        (https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-job-metrics.html)."""
        return cloudwatch.Metric(
            namespace="AWS/EMRServerless",
            metric_name=f"{state}Jobs",
            dimensions_map={"ApplicationId": self.application_id, "ApplicationName": self.deployment},
            statistic=statistic,
            period=cdk.Duration.seconds(MINUTE),
            label=state.lower(),
        )
