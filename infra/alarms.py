"""The alarms, and the topic that they are sent to.

Thresholds are computed where they can be: from the queues and the schedule (`infra.sizing`), and from the routes. All
times are in seconds.
"""

from collections.abc import Iterable, Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.measures import PERIOD, Parts
from infra.permissions import only_this_account
from infra.roster import ROSTER, scheduled
from infra.runbook import Alarm
from infra.sizing import DISPATCH, Source
from tidegate.metrics import Metric
from tidegate.schedule import AUDIT_SCHEDULE, SCHEDULE
from tidegate.settings import DAY, HOUR, MINUTE

SILENT = {Alarm.SETTLE_SILENT: SCHEDULE, Alarm.AUDIT_OR_MAINTAIN_SILENT: AUDIT_SCHEDULE}
"""The alarms on silence, and the schedule of the functions that each of them watches."""
LOOKS = 5
"""A function is silent when it has missed this many scheduled runs in a row."""

TROUBLED_LOOKS = 3
"""A conflict in the ledger is gone at the next run. So three of five runs in a row must report an error."""

LASTING = 3
"""A batch is late if it is in so many periods in a row: one that was opened long before its first notice seems old
while its job runs."""

UNANNOUNCED_TOO_LONG = 15 * MINUTE
"""Settling announces what it has committed in the same run, and repeats what fails every minute."""

QUARANTINED_TOO_LONG = 2 * HOUR
"""As long as a batch may be late. Settling needs an hour to give up a file that was corrected."""

LONGEST_SILENCE_IN_MINUTES = DAY
"""All periods of an alarm together may last 7 days, which the settings see to, and 1 day if a period is shorter than an
hour (https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html)."""

BREACHING = cloudwatch.TreatMissingData.BREACHING
FINE = cloudwatch.TreatMissingData.NOT_BREACHING
UNCHANGED = cloudwatch.TreatMissingData.IGNORE
"""settle writes the gauges at every run. If it does not run, the state of the batches is unknown, and another alarm
sounds."""


def stuck_after(source: Source) -> float:
    """The age of a message that was delivered twice and is still in the queue.

    One failure is ordinary. A standard queue leaves a message out of this metric from its third delivery on. That
    delivery comes after two visibility timeouts, so the alarm must sound earlier
    (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html).
    """
    return 1.5 * source.visibility


def silence(seconds: int) -> tuple[int, int]:
    """The period, and the number of periods, that cover a silence of `seconds`."""
    period = PERIOD if seconds <= LONGEST_SILENCE_IN_MINUTES else HOUR
    return period, -(-seconds // period)


class Alarms(Construct):
    """The alarms. `emails`, and any other subscribers of `topic`, receive them. `announces`: the deployment announces
    batches. `expected` has the routes of which an alarm sounds if nothing was uploaded for so many seconds.

    There is one for each kind, however many routes and functions there are. Where several causes share one, its value
    says that one of them is there, and the dashboard shows which. Of routes, each is a contributor of the alarm, and
    its messages name the route.

    The policy of a customer `key` must let CloudWatch use it; that of `infra.encryption` does. The policy of SNS's own
    key does not, and no alarm would arrive.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        parts: Parts,
        expected: Mapping[str, int],
        announces: bool = True,
        emails: Iterable[str] = (),
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        self._deployment = parts.deployment
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        self._let_cloudwatch_publish()
        for email in emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
        self.all: list[cloudwatch.Alarm] = []
        self._watch_functions(parts)
        self._watch_queues(parts)
        self._watch_path(parts, announces=announces)
        self._watch_routes(parts, expected)

    def _let_cloudwatch_publish(self) -> None:
        """Allow CloudWatch alarms of this account to publish, and nothing else."""
        alarms = cdk.Stack.of(self).format_arn(
            service="cloudwatch",
            resource="alarm",
            resource_name="*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sns:Publish"],
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                resources=[self.topic.topic_arn],
                conditions=only_this_account(alarms),
            )
        )

    def _watch_functions(self, parts: Parts) -> None:
        for alarm, every in SILENT.items():
            # in a shorter period than their schedule none of them need run
            length = max(PERIOD, every)
            looks = [
                parts.functions[row.name].metric_invocations(statistic="Sum", period=cdk.Duration.seconds(length))
                for row in scheduled(every)
            ]
            # a run that Lambda throttles is no invocation
            self._add(alarm, _over("MIN", looks), periods=-(-LOOKS * every // length), below=True, missing=BREACHING)
        period = cdk.Duration.seconds(PERIOD)
        errors = [parts.functions[row.name].metric_errors(statistic="Sum", period=period) for row in ROSTER]
        # the handlers handle every error that they expect, so one error is enough
        self._add(Alarm.FUNCTION_ERRORS, _over("SUM", errors))

    def _watch_queues(self, parts: Parts) -> None:
        minute, period = cdk.Duration.seconds(MINUTE), cdk.Duration.seconds(PERIOD)
        ages = [
            queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=minute)
            for queue in (parts.buffer, parts.notices)
        ]
        limits = [stuck_after(source) for source in (parts.intake, DISPATCH)]
        self._add(Alarm.MESSAGES_STUCK, _over("MAX", ages, of=limits))
        letters = [
            queue.metric_approximate_number_of_messages_visible(statistic="Maximum", period=period)
            for queue in (parts.buffer_dead_letters, parts.notices_dead_letters)
        ]
        self._add(Alarm.DEAD_LETTERS, _over("MAX", letters))

    def _watch_path(self, parts: Parts, *, announces: bool) -> None:
        limits = {Metric.SETTLING_TROUBLES: 1}
        if announces:
            limits[Metric.OLDEST_UNANNOUNCED_SECONDS] = UNANNOUNCED_TOO_LONG
        troubles = _over("MAX", [parts.own(metric, period=SCHEDULE) for metric in limits], of=[*limits.values()])
        self._add(Alarm.SETTLING_TROUBLES, troubles, periods=LOOKS, of_them=TROUBLED_LOOKS)
        missed = [parts.own(metric) for metric in (Metric.UPLOADS_OF_NO_ROUTE, Metric.UPLOADS_FOUND_LOST)]
        self._add(Alarm.UPLOADS_MISSED, _over("SUM", missed))
        self._add(Alarm.TABLES_NOT_MAINTAINED, parts.own(Metric.TABLES_NOT_MAINTAINED))

    def _watch_routes(self, parts: Parts, expected: Mapping[str, int]) -> None:
        late, halted = parts.of_each_route(Metric.LATE_NOW), parts.of_each_route(Metric.HALTED_NOW, period=SCHEDULE)
        self._add(Alarm.BATCH_LATE, late, periods=LASTING, missing=UNCHANGED)
        self._add(Alarm.BATCH_HALTED, halted, missing=UNCHANGED)
        # of a removed route nothing is written once its quarantine is empty
        oldest = parts.of_each_route(Metric.OLDEST_QUARANTINED_SECONDS)
        self._add(Alarm.UPLOADS_QUARANTINED, oldest, threshold=QUARANTINED_TOO_LONG, missing=FINE)
        for route, seconds in expected.items():
            # a query looks back on three hours at most, so each of these routes has an alarm
            # (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html)
            period, periods = silence(seconds)
            notified = parts.own(Metric.UPLOADS_NOTIFIED, route, period=period)
            self._add(Alarm.NOTHING_RECEIVED, notified, route, periods=periods, below=True, missing=BREACHING)

    def _add(
        self,
        alarm: Alarm,
        metric: cloudwatch.IMetric,
        route: str = "",
        *,
        threshold: float = 1,
        below: bool = False,
        periods: int = 1,
        of_them: int | None = None,
        missing: cloudwatch.TreatMissingData = FINE,
    ) -> None:
        """Make an alarm. It sounds when the metric is at or above the threshold (or `below` it) in all `periods`, or in
        `of_them` of those periods."""
        name = "-".join(filter(None, (alarm.value.name, route)))
        operator = cloudwatch.ComparisonOperator
        made = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._deployment}-{name}",
            alarm_description=alarm.value.text,
            metric=metric,
            threshold=threshold,
            comparison_operator=operator.LESS_THAN_THRESHOLD if below else operator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=periods,
            datapoints_to_alarm=of_them,
            treat_missing_data=missing,
        )
        made.add_alarm_action(actions.SnsAction(self.topic))
        self.all.append(made)


def _over(function: str, metrics: Sequence[cloudwatch.Metric], *, of: Sequence[float] = ()) -> cloudwatch.IMetric:
    """The sum, the greatest or the least of the metrics, each as a part of what it may be at most, if that is given. A
    metric that has no data counts as 0. A single metric needs no expression."""
    if len(metrics) == 1:
        return metrics[0]
    names = [f"m{number}" for number in range(len(metrics))]
    terms = [f"FILL({name}, 0)" for name in names]
    if of:
        terms = [f"{term} / {most:g}" for term, most in zip(terms, of, strict=True)]
    return cloudwatch.MathExpression(
        expression=f"{function}([{', '.join(terms)}])",
        using_metrics=dict(zip(names, metrics, strict=True)),
        period=metrics[0].period,
    )
