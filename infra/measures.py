"""What alarms and the dashboard look at: the parts that AWS measures, and the metrics that Tidegate writes itself."""

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from infra.functions import NAMESPACE
from tidegate.settings import MINUTE

PERIOD = 5 * MINUTE
"""Seconds that a data point covers where nothing else is said."""
FUNCTIONS = ("intake", "dispatch", "settle")


@dataclass(frozen=True, slots=True)
class Watched:
    """A route, as far as its alarms depend on it; times in seconds.

    `expect_every` is the longest time for which nothing may be uploaded; None if that is nobody's business.
    """

    name: str
    max_wait: int
    expect_every: int | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """What is watched. `functions` are intake, dispatch and settle, by name."""

    deployment: str
    buffer: sqs.IQueue
    buffer_dead_letters: sqs.IQueue
    notices: sqs.IQueue
    notices_dead_letters: sqs.IQueue
    functions: dict[str, lambda_.IFunction]
    application_id: str

    def own(
        self, name: str, route: str = "", *, statistic: str = "Sum", period: int = PERIOD, label: str | None = None
    ) -> cloudwatch.Metric:
        """A metric that Tidegate writes, with the dimensions that `lambdas.shared.measure` gives it."""
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={"deployment": self.deployment} | ({"route": route} if route else {}),
            statistic=statistic,
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
