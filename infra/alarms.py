"""The alarms, and the topic that they are sent to.

Thresholds are computed where they can be: from the queues and the schedule (`infra.sizing`), and from the routes. All
times are in seconds.
"""

from collections.abc import Iterable
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.measures import PERIOD, Parts, WatchedRoute
from infra.permissions import only_this_account
from infra.roster import ROSTER, Feed, Schedule
from infra.runbook import LOOKS, Advice, Alarm, errors, silent, throttled
from infra.sizing import DISPATCH, SizingError, Source
from tidegate.metrics import Metric
from tidegate.schedule import SCHEDULE
from tidegate.settings import DAY, HOUR, MINUTE

ORDINARY_JOB = HOUR
"""A job takes minutes. A job that hangs is ended only after hours. The alarm comes in between."""

_VISIBILITY = max(row.started_by.source.visibility for row in ROSTER if isinstance(row.started_by, Feed))
LASTING = -(-_VISIBILITY // PERIOD)
"""A state lasts if it holds for this many periods in a row. Within its queue's visibility timeout, Lambda repeats what
it throttled."""

TROUBLED_LOOKS = 3
"""A conflict in the ledger is gone at the next run. So three of five runs in a row must report an error."""

STILL = HOUR // PERIOD
"""After an hour the alarm on what is halted sounds once more, and stays on as long as its cause."""

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


def pending_too_long(route: WatchedRoute) -> int:
    """An age that no batch reaches in ordinary operation: `max_wait`, one interval of the schedule, the job that holds
    the slot, and the batch's own job."""
    return route.max_wait + SCHEDULE + 2 * ORDINARY_JOB


def silence(seconds: int) -> tuple[int, int]:
    """The period, and the number of periods, that cover a silence of `seconds`. Raises SizingError if CloudWatch cannot
    cover it."""
    if seconds > LONGEST_SILENCE:
        raise SizingError(f"`expect_every` may be 7d at most, not {seconds} s: no alarm covers more")
    period = PERIOD if seconds <= LONGEST_SILENCE_IN_MINUTES else HOUR
    return period, -(-seconds // period)


class Alarms(Construct):
    """The alarms. `emails`, and any other subscribers of `topic`, receive them. `announces`: the deployment announces
    batches.

    The policy of a customer `key` must let CloudWatch use it; that of `infra.encryption` does. The policy of SNS's own
    key does not, and no alarm would arrive.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        parts: Parts,
        routes: Iterable[WatchedRoute],
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
        self._watch_queues(parts)
        self._watch_functions(parts)
        self._watch_path(parts)
        if announces:
            waiting = parts.own(Metric.OLDEST_UNANNOUNCED_SECONDS)
            alarm = Alarm.BATCHES_UNANNOUNCED.value
            self._add(alarm, waiting, threshold=UNANNOUNCED_TOO_LONG, missing=UNCHANGED)
        for route in routes:
            self._watch_route(parts, route)

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

    def _watch_queues(self, parts: Parts) -> None:
        for alarm, queue, source in (
            (Alarm.BUFFER_STUCK, parts.buffer, parts.intake),
            (Alarm.NOTICES_STUCK, parts.notices, DISPATCH),
        ):
            age = queue.metric_approximate_age_of_oldest_message(
                statistic="Maximum", period=cdk.Duration.seconds(MINUTE)
            )
            self._add(alarm.value, age, threshold=stuck_after(source))
        for alarm, queue in (
            (Alarm.BUFFER_DEAD_LETTERS, parts.buffer_dead_letters),
            (Alarm.NOTICES_DEAD_LETTERS, parts.notices_dead_letters),
        ):
            letters = queue.metric_approximate_number_of_messages_visible(
                statistic="Maximum", period=cdk.Duration.seconds(PERIOD)
            )
            self._add(alarm.value, letters)

    def _watch_functions(self, parts: Parts) -> None:
        period = cdk.Duration.seconds(PERIOD)
        for row in ROSTER:
            function = parts.functions[row.name]
            # the handlers handle every error that they expect, so one error is enough
            self._add(errors(row), function.metric_errors(statistic="Sum", period=period))
            throttles = function.metric_throttles(statistic="Sum", period=period)
            self._add(throttled(row), throttles, periods=LASTING)
        for row in ROSTER:
            if isinstance(row.started_by, Schedule):
                length, periods = silence(LOOKS * row.started_by.every)
                looks = parts.functions[row.name].metric_invocations(
                    statistic="Sum", period=cdk.Duration.seconds(length)
                )
                self._add(silent(row, row.started_by), looks, periods=periods, below=True, missing=BREACHING)

    def _watch_path(self, parts: Parts) -> None:
        troubles = parts.own(Metric.SETTLING_TROUBLES, period=SCHEDULE)
        self._add(Alarm.SETTLING_TROUBLES.value, troubles, periods=LOOKS, of_them=TROUBLED_LOOKS)
        self._add(Alarm.RECORDS_SET_ASIDE.value, parts.own(Metric.RECORDS_SET_ASIDE))
        self._add(Alarm.UPLOADS_OF_NO_ROUTE.value, parts.own(Metric.UPLOADS_OF_NO_ROUTE))
        self._add(Alarm.TABLES_NOT_MAINTAINED.value, parts.own(Metric.TABLES_NOT_MAINTAINED))
        left = parts.own(Metric.UNCONFIGURED_NOW, period=SCHEDULE)
        self._add(Alarm.ROUTE_NOT_CONFIGURED.value, left, missing=UNCHANGED)

    def _watch_route(self, parts: Parts, route: WatchedRoute) -> None:
        def add(alarm: Alarm, metric: Metric, *, period: int = PERIOD, **options: Any) -> None:
            self._add(alarm.value, parts.own(metric, route.name, period=period), route.name, **options)

        add(
            Alarm.BATCH_PENDING,
            Metric.OLDEST_PENDING_SECONDS,
            threshold=pending_too_long(route),
            # a batch that was opened long before its first notice seems old while its job runs
            periods=LASTING,
            missing=UNCHANGED,
        )
        # CloudWatch sends a message when an alarm begins to sound. One on the number of halted batches would go on
        # sounding when the next one halts. This one ends within minutes, since there is no data unless a batch halts.
        add(Alarm.BATCH_HALTED, Metric.BATCHES_HALTED, period=SCHEDULE)
        add(Alarm.BATCH_STILL_HALTED, Metric.HALTED_NOW, periods=STILL, missing=UNCHANGED)
        add(Alarm.ATTEMPTS_FAILED, Metric.ATTEMPTS_FAILED)
        # after a single failure, the schedule tries again within a minute
        add(Alarm.HAND_OFFS_FAILED, Metric.HAND_OFFS_FAILED, periods=LASTING, of_them=LASTING - 1)
        add(Alarm.UPLOADS_QUARANTINED, Metric.SETTLED_QUARANTINED)
        add(Alarm.UPLOADS_LOST, Metric.UPLOADS_FOUND_LOST)
        if route.expect_every:
            period, periods = silence(route.expect_every)
            add(
                Alarm.NOTHING_RECEIVED,
                Metric.UPLOADS_NOTIFIED,
                period=period,
                periods=periods,
                below=True,
                missing=BREACHING,
            )

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
