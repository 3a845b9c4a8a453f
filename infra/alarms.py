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
from infra.roster import ROSTER, Feed
from infra.runbook import LOOKS, Advice, Alarm, scheduled, silent
from infra.sizing import DISPATCH, Source
from tidegate.metrics import Metric
from tidegate.schedule import SCHEDULE
from tidegate.settings import DAY, HOUR, MINUTE

_VISIBILITY = max(row.started_by.source.visibility for row in ROSTER if isinstance(row.started_by, Feed))
LASTING = -(-_VISIBILITY // PERIOD)
"""A state lasts if it holds for this many periods in a row. Within its queue's visibility timeout, Lambda repeats what
it throttled."""

TROUBLED_LOOKS = 3
"""A conflict in the ledger is gone at the next run. So three of five runs in a row must report an error."""

UNANNOUNCED_TOO_LONG = 15 * MINUTE
"""Settling announces what it has committed in the same run, and repeats what fails every minute."""

LONGEST_SILENCE = 7 * DAY
LONGEST_SILENCE_IN_MINUTES = DAY
"""All periods of an alarm together may last 7 days, and 1 day if a period is shorter than an hour
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html)."""

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
    """The period, and the number of periods, that cover a silence of `seconds`. Raises ValueError if CloudWatch cannot
    cover it."""
    if seconds > LONGEST_SILENCE:
        raise ValueError(f"`expect_every` may be 7d at most, not {seconds} s: no alarm covers more")
    period = PERIOD if seconds <= LONGEST_SILENCE_IN_MINUTES else HOUR
    return period, -(-seconds // period)


class Alarms(Construct):
    """The alarms. `emails`, and any other subscribers of `topic`, receive them. `announces`: the deployment announces
    batches. `expected`: see `infra.operations`.

    There is one for each kind, however many routes and functions there are. Where several things are watched by an
    expression, its value says that one of them is in trouble, and the dashboard shows which. Of routes, each is a
    contributor of the alarm, and its messages name the route.

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
        self._watch_routes(parts)
        for route, seconds in expected.items():
            self._expect(parts, route, seconds)

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
        period = cdk.Duration.seconds(PERIOD)
        watched = [parts.functions[row.name] for row in ROSTER]
        errors = [each.metric_errors(statistic="Sum", period=period) for each in watched]
        throttles = [each.metric_throttles(statistic="Sum", period=period) for each in watched]
        # the handlers handle every error that they expect, so one error is enough
        self._add(Alarm.FUNCTION_ERRORS.value, _over("SUM", errors))
        self._add(Alarm.FUNCTION_THROTTLED.value, _over("SUM", throttles), periods=LASTING)
        for every, rows, schedules in scheduled():
            silence(LOOKS * every)
            # in a shorter period than their schedule none of them need run
            length = max(PERIOD, every)
            periods = -(-LOOKS * every // length)
            looks = [
                parts.functions[row.name].metric_invocations(statistic="Sum", period=cdk.Duration.seconds(length))
                for row in rows
            ]
            self._add(silent(rows, schedules), _over("MIN", looks), periods=periods, below=True, missing=BREACHING)

    def _watch_queues(self, parts: Parts) -> None:
        minute = cdk.Duration.seconds(MINUTE)
        ages = [
            queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=minute)
            for queue in (parts.buffer, parts.notices)
        ]
        limits = [stuck_after(source) for source in (parts.intake, DISPATCH)]
        self._add(Alarm.MESSAGES_STUCK.value, _over("MAX", ages, of=limits))
        letters = [
            queue.metric_approximate_number_of_messages_visible(
                statistic="Maximum", period=cdk.Duration.seconds(PERIOD)
            )
            for queue in (parts.buffer_dead_letters, parts.notices_dead_letters)
        ]
        self._add(Alarm.DEAD_LETTERS.value, _over("MAX", letters))

    def _watch_path(self, parts: Parts, *, announces: bool) -> None:
        troubles = parts.own(Metric.SETTLING_TROUBLES, period=SCHEDULE)
        self._add(Alarm.SETTLING_TROUBLES.value, troubles, periods=LOOKS, of_them=TROUBLED_LOOKS)
        self._add(Alarm.UPLOADS_OF_NO_ROUTE.value, parts.own(Metric.UPLOADS_OF_NO_ROUTE))
        self._add(Alarm.TABLES_NOT_MAINTAINED.value, parts.own(Metric.TABLES_NOT_MAINTAINED))
        if announces:
            waiting = parts.own(Metric.OLDEST_UNANNOUNCED_SECONDS)
            alarm = Alarm.BATCHES_UNANNOUNCED.value
            self._add(alarm, waiting, threshold=UNANNOUNCED_TOO_LONG, missing=UNCHANGED)

    def _watch_routes(self, parts: Parts) -> None:
        # a batch that was opened long before its first notice seems old while its job runs
        late = parts.of_each_route(Metric.LATE_NOW)
        self._add(Alarm.BATCH_LATE.value, late, periods=LASTING, missing=UNCHANGED)
        halted = parts.of_each_route(Metric.HALTED_NOW, period=SCHEDULE)
        self._add(Alarm.BATCH_HALTED.value, halted, missing=UNCHANGED)
        for alarm, metric in (
            (Alarm.ATTEMPTS_FAILED, Metric.ATTEMPTS_FAILED),
            (Alarm.UPLOADS_QUARANTINED, Metric.SETTLED_QUARANTINED),
            (Alarm.UPLOADS_LOST, Metric.UPLOADS_FOUND_LOST),
        ):
            self._add(alarm.value, parts.of_each_route(metric))

    def _expect(self, parts: Parts, route: str, seconds: int) -> None:
        """A query looks back on three hours at most, so each of these routes has an alarm
        (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html)."""
        period, periods = silence(seconds)
        notified = parts.own(Metric.UPLOADS_NOTIFIED, route, period=period)
        self._add(Alarm.NOTHING_RECEIVED.value, notified, route, periods=periods, below=True, missing=BREACHING)

    def _add(
        self,
        advice: Advice,
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
        name = "-".join(filter(None, (advice.name, route)))
        operator = cloudwatch.ComparisonOperator
        made = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._deployment}-{name}",
            alarm_description=advice.text,
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
    if len(metrics) == 1 and not of:
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
