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

    def of_each_route(self, metric: Metric, *, period: int = PERIOD) -> cloudwatch.MathExpression:
        """A metric of each route that has it, as one alarm can watch it: each route is a contributor of the alarm, with
        a state and messages of its own, and a new route is one as soon as it writes the metric
        (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Create_Metrics_Insights_Alarm.html)."""
        measured = metric.value
        function = "MAX" if measured.gauge else "SUM"
        return cloudwatch.MathExpression(
            expression=f"SELECT {function}({measured.name}) FROM SCHEMA({NAMESPACE}, {', '.join(measured.by)})"
            f" WHERE deployment = '{self.deployment}' GROUP BY route ORDER BY {function}() DESC",
            period=cdk.Duration.seconds(period),
        )

    def search(self, metric: Metric, *, label: str = "", total: bool = False) -> cloudwatch.MathExpression:
        """A metric of each route, or the `total` of all, as a graph can show it; no alarm can
        (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html)."""
        measured = metric.value
        found = (
            f'SEARCH(\'{{{NAMESPACE},{",".join(measured.by)}}} deployment="{self.deployment}"'
            f" MetricName=\"{measured.name}\"', '{'Maximum' if measured.gauge else 'Sum'}', {PERIOD})"
        )
        return cloudwatch.MathExpression(
            expression=f"SUM({found})" if total else found,
            label=label or "${PROP('Dim.route')}",
            period=cdk.Duration.seconds(PERIOD),
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
