"""The dashboard: the alarms, uploads and batches of all routes and of each, and the state of the parts."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.measures import PERIOD, Parts
from infra.roster import ROSTER
from tidegate.metrics import Metric

WIDTH = 24
"""Columns of a dashboard."""
HEIGHT = 6
ALARMS_TOGETHER = 100
"""The most that one widget may show
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html)."""

WAITING = ("Submitted", "Pending", "Scheduled", "Running")
ENDED = ("Success", "Failed", "Cancelled")
"""States of jobs, as EMR Serverless names its metrics."""

UPLOADS = {
    "notified": Metric.UPLOADS_NOTIFIED,
    "refused as duplicates": Metric.DUPLICATES_REFUSED,
    "committed": Metric.SETTLED_COMMITTED,
    "quarantined": Metric.SETTLED_QUARANTINED,
    "superseded": Metric.SETTLED_SUPERSEDED,
    "vanished": Metric.SETTLED_VANISHED,
}
JOBS = {
    "jobs started": Metric.JOBS_STARTED,
    "attempts failed": Metric.ATTEMPTS_FAILED,
    "batches halted": Metric.BATCHES_HALTED,
    "batches committed": Metric.BATCHES_COMMITTED,
    "batches abandoned": Metric.BATCHES_ABANDONED,
}
TROUBLES = {
    "settling troubles": Metric.SETTLING_TROUBLES,
    "uploads of no route": Metric.UPLOADS_OF_NO_ROUTE,
    "uploads found lost": Metric.UPLOADS_FOUND_LOST,
    "tables not maintained": Metric.TABLES_NOT_MAINTAINED,
}
"""What alarms of the deployment watch together."""

OF_EACH_ROUTE = {
    "Uploads": Metric.UPLOADS_NOTIFIED,
    "Rows committed": Metric.SETTLED_ROWS,
    "Jobs started": Metric.JOBS_STARTED,
    "Attempts that failed": Metric.ATTEMPTS_FAILED,
    "Oldest pending batch, seconds": Metric.OLDEST_PENDING_SECONDS,
    "Late batches": Metric.LATE_NOW,
    "Halted batches": Metric.HALTED_NOW,
    "In quarantine, uploads": Metric.QUARANTINED_NOW,
    "In quarantine, age of the oldest, seconds": Metric.OLDEST_QUARANTINED_SECONDS,
}
"""A graph for each, with a line for each route. A dashboard takes 2,500 metrics
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_limits.html)."""


class Dashboard(Construct):
    """The dashboard has the deployment's name. First the alarms, then all routes, then each, then the shared parts."""

    def __init__(self, scope: Construct, id: str, *, parts: Parts, alarms: Sequence[cloudwatch.IAlarm]) -> None:
        super().__init__(scope, id)
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=parts.deployment)
        for start in range(0, len(alarms), ALARMS_TOGETHER):
            shown = alarms[start : start + ALARMS_TOGETHER]
            # high enough for four alarms to a line
            height = 2 + -(-len(shown) // 4)
            dashboard.add_widgets(
                cloudwatch.AlarmStatusWidget(title="Alarms", alarms=shown, width=WIDTH, height=height)
            )
        dashboard.add_widgets(
            *(
                _graph(
                    title, [parts.search(metric, label=label, total=True) for label, metric in metrics.items()], of=3
                )
                for title, metrics in (("Uploads of all routes", UPLOADS), ("Jobs and batches of all routes", JOBS))
            ),
            _graph(
                "Troubles",
                [parts.own(metric, label=label) for label, metric in TROUBLES.items()],
                of=3,
                right=[parts.own(Metric.OLDEST_UNANNOUNCED_SECONDS, label="oldest unannounced, seconds")],
            ),
        )
        dashboard.add_widgets(
            *(_graph(f"{title}, by route", [parts.search(metric)], of=4) for title, metric in OF_EACH_ROUTE.items())
        )
        dashboard.add_widgets(*_of_queues(parts), _of_jobs(parts))
        dashboard.add_widgets(*(_of_function(parts, row.name) for row in ROSTER))


def _of_queues(parts: Parts) -> list[cloudwatch.IWidget]:
    queues = {"buffer": parts.buffer, "notices": parts.notices}
    letters = {"buffer's dead letters": parts.buffer_dead_letters, "notices' dead letters": parts.notices_dead_letters}
    high = {"statistic": "Maximum", "period": cdk.Duration.seconds(PERIOD)}
    return [
        _graph(
            "Oldest message, seconds",
            [queue.metric_approximate_age_of_oldest_message(**high, label=name) for name, queue in queues.items()],
            of=3,
        ),
        _graph(
            "Messages waiting",
            [
                queue.metric_approximate_number_of_messages_visible(**high, label=name)
                for name, queue in (queues | letters).items()
            ],
            of=3,
        ),
    ]


def _of_jobs(parts: Parts) -> cloudwatch.IWidget:
    return _graph(
        "Jobs by state",
        [parts.jobs(state, statistic="Maximum") for state in WAITING],
        of=3,
        right=[parts.jobs(state, statistic="Sum") for state in ENDED],
    )


def _of_function(parts: Parts, name: str) -> cloudwatch.IWidget:
    function, period = parts.functions[name], cdk.Duration.seconds(PERIOD)
    return _graph(
        name,
        [
            function.metric_invocations(statistic="Sum", period=period, label="invocations"),
            function.metric_errors(statistic="Sum", period=period, label="errors"),
            function.metric_throttles(statistic="Sum", period=period, label="throttles"),
        ],
        of=len(ROSTER),
        right=[function.metric_duration(statistic="Maximum", period=period, label="longest, milliseconds")],
    )


def _graph(
    title: str,
    left: Sequence[cloudwatch.IMetric],
    *,
    of: int,
    right: Sequence[cloudwatch.IMetric] = (),
) -> cloudwatch.IWidget:
    """A graph, one of `of` in its row."""
    return cloudwatch.GraphWidget(title=title, left=left, right=list(right), width=WIDTH // of, height=HEIGHT)
