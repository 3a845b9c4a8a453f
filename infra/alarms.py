"""The alarms, and the topic that they go to.

No threshold is a guess where it can be computed: from what the queues and the schedule do (`infra.limits`) and from
what the routes say. All times in seconds.
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

from infra.limits import DISPATCH, INTAKE, SETTLE_EVERY, LimitsError, Source
from infra.measures import FUNCTIONS, PERIOD, Parts, Watched
from infra.permissions import only_this_account
from infra.runbook import Alarm
from tidegate.settings import DAY, HOUR, MINUTE

ORDINARY_JOB = HOUR
"""A batch is minutes of work, and a job that hangs is ended after hours only: in between, somebody should look."""

LASTING = -(-max(INTAKE.visibility, DISPATCH.visibility) // PERIOD)
"""Periods in a row that make a state last: what Lambda throttled it repeats within its queue's visibility timeout."""

LOOKS, TROUBLED_LOOKS = 5, 3
"""A conflict in the ledger is gone at the next look, so of five looks in a row three must meet trouble."""

LONGEST_SILENCE = 7 * DAY
LONGEST_SILENCE_IN_MINUTES = DAY
"""All periods of an alarm together may last 7 days, and 1 day if a period is shorter than an hour
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html)."""

BREACHING = cloudwatch.TreatMissingData.BREACHING
FINE = cloudwatch.TreatMissingData.NOT_BREACHING
UNCHANGED = cloudwatch.TreatMissingData.IGNORE
"""Settle writes the gauges every minute. If it does not, that says nothing about batches: SETTLE_SILENT says so."""


def stuck_after(source: Source) -> float:
    """The age of a message that was delivered twice and is still there.

    A first failure is ordinary. A standard queue leaves a message out of this metric from its third delivery on, which
    comes after two visibility timeouts, so the age must be noticed before
    (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html).
    """
    return 1.5 * source.visibility


def pending_too_long(route: Watched) -> int:
    """The age that no batch reaches while all goes well: its wait, the schedule's, the job that holds the slot, and its
    own."""
    return route.max_wait + SETTLE_EVERY + 2 * ORDINARY_JOB


def silence(expect_every: int) -> tuple[int, int]:
    """(period, how many of them) that cover so long a silence. Raises LimitsError if CloudWatch cannot look so far."""
    if expect_every > LONGEST_SILENCE:
        raise LimitsError(f"`expect_every` may be 7d at most, not {expect_every} s: no alarm looks further back")
    period = PERIOD if expect_every <= LONGEST_SILENCE_IN_MINUTES else HOUR
    return period, -(-expect_every // period)


class Alarms(Construct):
    """Who is told is up to the user: `emails` here, or any other subscription of `topic`.

    The policy of a customer `key` must let CloudWatch use it, as `infra.encryption` has it. That of SNS's own key does
    not, and no alarm would arrive.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        parts: Parts,
        routes: Iterable[Watched],
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
        for route in routes:
            self._watch_route(parts, route)

    def _let_cloudwatch_publish(self) -> None:
        """For the alarms of this account, and for nobody else."""
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
            (Alarm.BUFFER_STUCK, parts.buffer, INTAKE),
            (Alarm.NOTICES_STUCK, parts.notices, DISPATCH),
        ):
            age = queue.metric_approximate_age_of_oldest_message(
                statistic="Maximum", period=cdk.Duration.seconds(MINUTE)
            )
            self._add(alarm, age, threshold=stuck_after(source))
        for alarm, queue in (
            (Alarm.BUFFER_DEAD_LETTERS, parts.buffer_dead_letters),
            (Alarm.NOTICES_DEAD_LETTERS, parts.notices_dead_letters),
        ):
            letters = queue.metric_approximate_number_of_messages_visible(
                statistic="Maximum", period=cdk.Duration.seconds(PERIOD)
            )
            self._add(alarm, letters)

    def _watch_functions(self, parts: Parts) -> None:
        period = cdk.Duration.seconds(PERIOD)
        for name in FUNCTIONS:
            function = parts.functions[name]
            # the handlers answer for every error that they expect, so one is enough
            self._add(Alarm(f"{name}-errors"), function.metric_errors(statistic="Sum", period=period))
            throttles = function.metric_throttles(statistic="Sum", period=period)
            self._add(Alarm(f"{name}-throttled"), throttles, periods=LASTING)
        looks = parts.functions["settle"].metric_invocations(
            statistic="Sum", period=cdk.Duration.seconds(LOOKS * SETTLE_EVERY)
        )
        self._add(Alarm.SETTLE_SILENT, looks, below=True, missing=BREACHING)
        troubles = parts.own("SettlingTroubles", period=SETTLE_EVERY)
        self._add(Alarm.SETTLING_TROUBLES, troubles, periods=LOOKS, of_them=TROUBLED_LOOKS)
        self._add(Alarm.RECORDS_SET_ASIDE, parts.own("RecordsSetAside"))
        self._add(Alarm.UPLOADS_OF_NO_ROUTE, parts.own("UploadsOfNoRoute"))
        left = parts.own("UnconfiguredNow", statistic="Maximum", period=SETTLE_EVERY)
        self._add(Alarm.ROUTE_NOT_CONFIGURED, left, missing=UNCHANGED)

    def _watch_route(self, parts: Parts, route: Watched) -> None:
        def add(alarm: Alarm, metric: str, *, statistic: str = "Sum", period: int = PERIOD, **options: Any) -> None:
            self._add(alarm, parts.own(metric, route.name, statistic=statistic, period=period), route.name, **options)

        add(
            Alarm.BATCH_PENDING,
            "OldestPendingSeconds",
            statistic="Maximum",
            threshold=pending_too_long(route),
            # a batch that was opened long before its first notice looks old while it is landed
            periods=LASTING,
            missing=UNCHANGED,
        )
        add(Alarm.BATCH_HALTED, "HaltedNow", statistic="Maximum", period=SETTLE_EVERY, missing=UNCHANGED)
        add(Alarm.ATTEMPTS_FAILED, "AttemptsFailed")
        # the schedule makes up for a single one within a minute
        add(Alarm.HAND_OFFS_FAILED, "HandOffsFailed", periods=LASTING, of_them=LASTING - 1)
        add(Alarm.UPLOADS_QUARANTINED, "SettledQuarantined")
        # nothing counts these before there is an audit
        add(Alarm.UPLOADS_LOST, "UploadsFoundLost")
        if route.expect_every:
            period, periods = silence(route.expect_every)
            add(
                Alarm.NOTHING_RECEIVED,
                "UploadsNotified",
                period=period,
                periods=periods,
                below=True,
                missing=BREACHING,
            )

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
        """Alarm when the metric is at the threshold or above (or `below` it) in `periods`, or in so many `of_them`."""
        name = "-".join(filter(None, (alarm.value, route)))
        operator = cloudwatch.ComparisonOperator
        made = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._deployment}-{name}",
            alarm_description=alarm.advice.text,
            metric=metric,
            threshold=threshold,
            comparison_operator=operator.LESS_THAN_THRESHOLD if below else operator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=periods,
            datapoints_to_alarm=of_them,
            treat_missing_data=missing,
        )
        made.add_alarm_action(actions.SnsAction(self.topic))
        self.all.append(made)
