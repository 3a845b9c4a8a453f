"""Alarms that can sound, sentences that help, and a dashboard of metrics that exist."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import time_machine

from infra.roster import ROSTER, Schedule, scheduled
from infra.runbook import EVERY, PAGE, Advice, Alarm
from infra.sizing import DISPATCH, INTAKE
from lambdas.audit.app import handler as audit
from lambdas.dispatch.app import handler as dispatch
from lambdas.intake.app import handler as intake
from lambdas.maintain.app import handler as maintain
from lambdas.settle.app import handler as settle
from tests.functional.test_handlers import (  # noqa: F401 (the fixtures are used by name)
    CONFIG,
    Context,
    Deployment,
    clients,
    deployment,
    event,
)
from tests.support.build import notice
from tests.support.emf import Emitted, emitted
from tests.support.fakes import play_fencing, play_giving_up, play_publishing
from tests.support.faults import answered
from tests.support.pages import sections
from tests.support.world import memory_ports
from tests.unit.test_docs import verbs
from tidegate import wiring
from tidegate.core.batches import Wish
from tidegate.core.outcomes import Outcome
from tidegate.core.unknown import UnknownNames
from tidegate.flows.abort import Aborted, abort
from tidegate.metrics import NAMESPACE, Metric
from tidegate.settings import DAY, HOUR, MINUTE, parse
from tidegate_local import toolchain

ROOT = Path(__file__).parents[2]
APPLICATION = "00fapplication"
Body = dict[str, Any]


@pytest.fixture(scope="module")
def build() -> Iterator[Any]:
    """Makes the template of a stack with nothing in it but what is watched, the alarms and the dashboard."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in toolchain.cdk_environment().items():
            patch.setenv(name, value)
        import aws_cdk as cdk  # starts Node, so only here
        from aws_cdk import assertions
        from aws_cdk import aws_kms as kms
        from aws_cdk import aws_lambda as lambda_
        from aws_cdk import aws_sqs as sqs

        from infra.alarms import Alarms
        from infra.dashboard import Dashboard
        from infra.measures import Parts

        def make(
            toml: str = CONFIG, *, expect: dict[str, int] | None = None, key: bool = False, **options: Any
        ) -> Body:
            settings = parse(toml)
            stack = cdk.Stack(cdk.App(analytics_reporting=False), settings.deployment.name)
            functions = {
                row.name: lambda_.Function(
                    stack,
                    row.construct,
                    code=lambda_.Code.from_inline("pass"),
                    handler="index.handler",
                    runtime=lambda_.Runtime.PYTHON_3_13,
                )
                for row in ROSTER
            }
            parts = Parts(
                deployment=settings.deployment.name,
                buffer=sqs.Queue(stack, "Buffer"),
                intake=INTAKE,
                buffer_dead_letters=sqs.Queue(stack, "BufferDeadLetters"),
                notices=sqs.Queue(stack, "Notices", fifo=True),
                notices_dead_letters=sqs.Queue(stack, "NoticesDeadLetters", fifo=True),
                functions=functions,
                application_id=APPLICATION,
            )
            made = kms.Key(stack, "Key") if key else None
            alarms = Alarms(stack, "Alarms", parts=parts, expected=expect or {}, key=made, **options)
            Dashboard(stack, "Dashboard", parts=parts, alarms=alarms.all)
            body: Body = assertions.Template.from_stack(stack).to_json()
            return body

        yield make


@pytest.fixture(scope="module")
def template(build: Any) -> Body:
    """The two routes of the functions' tests; one of them must not be silent."""
    found: Body = build(expect={"weather": 6 * HOUR})
    return found


def of(template: Body, kind: str) -> dict[str, Body]:
    return {name: each.get("Properties", {}) for name, each in template["Resources"].items() if each["Type"] == kind}


def alarms(template: Body) -> dict[str, Body]:
    return {each["AlarmName"]: each for each in of(template, "AWS::CloudWatch::Alarm").values()}


def kind_of(name: str) -> Advice:
    """Which of the alarms of the deployment `tidegate` this is, of whatever route."""
    found = [each for each in EVERY if re.fullmatch(f"tidegate-{each.name}(-weather)?", name)]
    assert len(found) == 1, name
    return found[0]


Series = tuple[str, str, frozenset[tuple[str, str]]]
"""Namespace, name and dimensions of a metric; "*" stands for every route."""


def watched(alarm: Body) -> Iterator[tuple[Body, Series]]:
    """What an alarm looks at: the statistic and the period of each metric, and the metric."""
    if "MetricName" in alarm:
        yield alarm, _series(alarm)
    for each in alarm.get("Metrics", []):
        if stat := each.get("MetricStat"):
            yield {"Statistic": stat["Stat"], "Period": stat["Period"]}, _series(stat["Metric"])
        elif query := re.fullmatch(QUERY, each["Expression"]):
            found = frozenset({("deployment", query["deployment"]), ("route", "*")})
            yield (
                {"Statistic": STATISTICS[query["function"]], "Period": each["Period"]},
                (*(query["namespace"], query["name"], found),),
            )


STATISTICS = {"SUM": "Sum", "MAX": "Maximum"}
QUERY = (
    r"SELECT (?P<function>SUM|MAX)\((?P<name>\w+)\) FROM SCHEMA\((?P<namespace>\w+), deployment, route\)"
    r" WHERE deployment = '(?P<deployment>[\w-]+)' GROUP BY route ORDER BY (?P=function)\(\) DESC"
)
"""What an alarm on several time series needs, with GROUP BY and ORDER BY
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Create_Metrics_Insights_Alarm.html)."""
SEARCH = (
    r"(SUM\()?SEARCH\('\{(?P<namespace>\w+),deployment,route\} deployment=\"(?P<deployment>[\w-]+)\""
    r" MetricName=\"(?P<name>\w+)\"', '(Sum|Maximum)', 300\)\)?"
)


def _series(metric: Body) -> Series:
    dimensions = ((each["Name"], str(each["Value"])) for each in metric["Dimensions"])
    return metric["Namespace"], metric["MetricName"], frozenset(dimensions)


def period(alarm: Body) -> int:
    """Seconds; that of all metrics that it looks at."""
    (found,) = {how["Period"] for how, _ in watched(alarm)}
    return int(found)


def widgets(template: Body) -> list[Body]:
    """What the dashboard shows, with the names of resources for what only AWS can fill in."""
    (dashboard,) = of(template, "AWS::CloudWatch::Dashboard").values()
    parts = dashboard["DashboardBody"]["Fn::Join"][1]
    body = "".join(each if isinstance(each, str) else "/".join(_names(each)) for each in parts)
    found: list[Body] = json.loads(body)["widgets"]
    return found


def _names(reference: Body) -> list[str]:
    ((_, value),) = reference.items()
    return value if isinstance(value, list) else [value]


def graphed(template: Body) -> Iterator[Series]:
    """Every metric on the dashboard."""
    for widget in widgets(template):
        for line in widget["properties"].get("metrics", []):
            if isinstance(line[0], dict):
                found = re.fullmatch(SEARCH, line[0]["expression"])
                assert found, line
                dimensions = frozenset({("deployment", found["deployment"]), ("route", "*")})
                yield found["namespace"], found["name"], dimensions
                continue
            namespace, name, *rest = (each for each in line if isinstance(each, str))
            yield namespace, name, frozenset(zip(rest[::2], rest[1::2], strict=True))


def alarmed(template: Body) -> Iterator[Series]:
    for each in alarms(template).values():
        yield from (series for _, series in watched(each))


# --- the alarms


def test_every_alarm_is_there_once_and_watches_every_route(template: Body) -> None:
    names = set(alarms(template))
    assert {kind_of(name) for name in names} == set(EVERY)
    assert len(names) == len(EVERY), "however many routes there are"
    of_routes = {
        Alarm(kind_of(name))
        for name, alarm in alarms(template).items()
        if any(("route", "*") in dimensions for _, (_, _, dimensions) in watched(alarm))
    }
    assert of_routes == {Alarm.BATCH_LATE, Alarm.BATCH_HALTED, Alarm.UPLOADS_QUARANTINED}, "three for each route"
    assert len(EVERY) <= 12


def test_a_query_looks_back_no_longer_than_it_can(template: Body) -> None:
    """Three hours (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html)."""
    for name, alarm in alarms(template).items():
        if any("SELECT" in each.get("Expression", "") for each in alarm.get("Metrics", [])):
            assert period(alarm) * alarm["EvaluationPeriods"] <= 3 * HOUR, name
            assert period(alarm) >= MINUTE, "Metrics Insights has nothing finer"


def test_silence_is_alarming_only_where_the_route_says_so(template: Body) -> None:
    assert [name for name in alarms(template) if "nothing-received" in name] == ["tidegate-nothing-received-weather"]


def test_every_alarm_goes_to_the_topic_and_says_what_to_do(template: Body) -> None:
    (topic,) = of(template, "AWS::SNS::Topic")
    for name, alarm in alarms(template).items():
        assert alarm["AlarmActions"] == [{"Ref": topic}]
        advice = kind_of(name)
        assert alarm["AlarmDescription"] == f"{advice.happened} {advice.act} {PAGE}#{advice.anchor}"
        assert len(alarm["AlarmDescription"]) <= 1024, "more is refused"


def test_only_cloudwatch_of_this_account_may_publish_and_only_over_tls(template: Body) -> None:
    (topic,) = of(template, "AWS::SNS::Topic")
    (policy,) = of(template, "AWS::SNS::TopicPolicy").values()
    assert policy["Topics"] == [{"Ref": topic}]
    statements = policy["PolicyDocument"]["Statement"]
    (allowed,) = (each for each in statements if each["Effect"] == "Allow")
    assert allowed["Action"] == "sns:Publish"
    assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allowed["Resource"] == {"Ref": topic}
    account, region, partition = ({"Ref": f"AWS::{name}"} for name in ("AccountId", "Region", "Partition"))
    source = ["arn:", partition, ":cloudwatch:", region, ":", account, ":alarm:*"]
    assert allowed["Condition"]["ArnEquals"] == {"aws:SourceArn": {"Fn::Join": ["", source]}}
    assert allowed["Condition"]["StringEqualsIfExists"] == {"aws:SourceAccount": account}
    (refused,) = (each for each in statements if each["Effect"] == "Deny")
    assert refused["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_whoever_is_named_is_told_and_nobody_else(build: Any, template: Body) -> None:
    assert of(template, "AWS::SNS::Subscription") == {}
    told = of(build(emails=["sea@example.com", "land@example.com"]), "AWS::SNS::Subscription").values()
    assert sorted((each["Protocol"], each["Endpoint"]) for each in told) == [
        ("email", "land@example.com"),
        ("email", "sea@example.com"),
    ]


def test_the_topic_is_encrypted_with_the_key_that_it_is_given(build: Any, template: Body) -> None:
    found = build(key=True)
    (key,) = of(found, "AWS::KMS::Key")
    (topic,) = of(found, "AWS::SNS::Topic").values()
    assert topic["KmsMasterKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
    (topic,) = of(template, "AWS::SNS::Topic").values()
    assert "KmsMasterKeyId" not in topic


# --- when they sound


def test_a_message_is_stuck_after_its_second_delivery_and_before_sqs_stops_telling_its_age(template: Body) -> None:
    alarm = alarms(template)["tidegate-messages-stuck"]
    assert {name for _, (_, name, _) in watched(alarm)} == {"ApproximateAgeOfOldestMessage"}
    (expression,) = (each["Expression"] for each in alarm["Metrics"] if "Expression" in each)
    limits = [float(each) for each in re.findall(r"FILL\(m\d, 0\) / (\d+)", expression)]
    assert expression.startswith("MAX([")
    assert alarm["Threshold"] == 1
    for source, limit in zip((INTAKE, DISPATCH), limits, strict=True):
        # a standard queue leaves out what was received three times: at 0, 1 and 2 visibility timeouts
        noticed = limit + period(alarm) * alarm["EvaluationPeriods"]
        assert source.visibility < limit < noticed < 2 * source.visibility
        assert noticed < source.patience, "before it is a dead letter"


def test_the_sentences_tell_the_times_that_the_alarms_have(template: Body) -> None:
    def lasts(name: str) -> int:
        alarm = alarms(template)[f"tidegate-{name}"]
        return int(period(alarm) * alarm["EvaluationPeriods"])

    assert "five minutes" in Alarm.SETTLE_SILENT.value.happened
    assert lasts("settle-silent") == 5 * MINUTE
    assert "five hours" in Alarm.AUDIT_OR_MAINTAIN_SILENT.value.happened
    assert lasts("audit-or-maintain-silent") == 5 * HOUR
    assert "a quarter of an hour" in Alarm.SETTLING_TROUBLES.value.happened
    assert "two hours" in Alarm.UPLOADS_QUARANTINED.value.happened
    assert alarms(template)["tidegate-uploads-quarantined"]["Threshold"] == 2 * HOUR
    told = " ".join(page().split())
    assert "one and a half visibility timeouts" in told
    assert "older than `max_wait`, a minute and two hours" in told


def test_an_alarm_on_batches_and_quarantine_lasts_as_long_as_its_cause(template: Body) -> None:
    """A route begins to sound at the first, and a gauge is written every minute, zero too."""
    gauges = {metric.value.name for metric in Metric if metric.value.gauge}
    for name in ("batch-late", "batch-halted", "uploads-quarantined"):
        alarm = alarms(template)[f"tidegate-{name}"]
        ((how, (_, metric, _)),) = watched(alarm)
        assert metric in gauges
        assert how["Statistic"] == "Maximum"
        assert alarm["TreatMissingData"] == ("notBreaching" if name == "uploads-quarantined" else "ignore")


def test_who_announces_nothing_waits_for_nobody(build: Any, template: Body) -> None:
    quiet = alarms(build(expect={"weather": 6 * HOUR}, announces=False))
    assert quiet.keys() == alarms(template).keys()
    name = "tidegate-settling-troubles"
    names = [{metric for _, (_, metric, _) in watched(each[name])} for each in (alarms(template), quiet)]
    assert names == [{"SettlingTroubles", "OldestUnannouncedSeconds"}, {"SettlingTroubles"}]


def test_a_function_is_silent_when_it_has_missed_five_looks(template: Body) -> None:
    from infra.alarms import LOOKS, SILENT  # needs Node, which the fixture has started

    told = {row.name for every in SILENT.values() for row in scheduled(every)}
    assert told == {row.name for row in ROSTER if isinstance(row.started_by, Schedule)}
    for alarm, every in SILENT.items():
        names = [row.name for row in scheduled(every)]
        assert alarm.value.name == f"{'-or-'.join(names)}-silent"
        assert alarm.value.happened.startswith(f"{' or '.join(names)} has not run for ")
        made = alarms(template)[f"tidegate-{alarm.value.name}"]
        assert every <= period(made), "or in some periods none of them need run"
        assert LOOKS * every <= period(made) * made["EvaluationPeriods"] < LOOKS * every + period(made)


def test_of_what_is_watched_together_the_one_in_trouble_is_seen(template: Body) -> None:
    expressions = {
        name.removeprefix("tidegate-"): re.sub(r"FILL\((m\d), 0\)", r"\1", each["Expression"])
        for name, alarm in alarms(template).items()
        for each in alarm.get("Metrics", [])
        if "FILL" in each.get("Expression", "")
    }
    every = ", ".join(f"m{number}" for number in range(len(ROSTER)))
    assert expressions == {
        "function-errors": f"SUM([{every}])",
        # none of them may be silent
        "audit-or-maintain-silent": "MIN([m0, m1])",
        "messages-stuck": expressions["messages-stuck"],
        "dead-letters": "MAX([m0, m1])",
        # each as a part of what it may be
        "settling-troubles": "MAX([m0 / 1, m1 / 900])",
        "uploads-missed": "SUM([m0, m1])",
    }


def test_no_data_is_bad_news_only_where_there_must_be_some(template: Body) -> None:
    treated: dict[str, set[Advice]] = {}
    for name, alarm in alarms(template).items():
        treated.setdefault(alarm["TreatMissingData"], set()).add(kind_of(name))
        below = alarm["ComparisonOperator"] == "LessThanThreshold"
        assert below == (alarm["TreatMissingData"] == "breaching"), "what waits for something"
        assert below or alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert alarm["Threshold"] >= 1
    waiting = (Alarm.SETTLE_SILENT, Alarm.AUDIT_OR_MAINTAIN_SILENT, Alarm.NOTHING_RECEIVED)
    assert treated["breaching"] == {alarm.value for alarm in waiting}
    # the gauges: that settle does not run says nothing about batches, and has an alarm of its own
    gauges = (Alarm.BATCH_LATE, Alarm.BATCH_HALTED)
    assert treated["ignore"] == {alarm.value for alarm in gauges}
    assert treated["notBreaching"] == set(EVERY) - treated["breaching"] - treated["ignore"]


EXPECTED = [1, 59, MINUTE, 5 * MINUTE, 5 * MINUTE + 1, HOUR, 6 * HOUR, DAY - 1, DAY, DAY + 1, 3 * DAY, 7 * DAY]


def test_silence_is_looked_for_as_long_as_expected_and_no_longer_than_cloudwatch_can(build: Any) -> None:
    from infra.alarms import silence  # needs Node, which the fixture has started

    for expected in EXPECTED:
        period, periods = silence(expected)
        assert expected <= period * periods < expected + period
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
        assert period % 60 == 0
        assert period * periods <= (7 * DAY if period >= HOUR else DAY)


def test_every_alarm_keeps_within_what_cloudwatch_evaluates(template: Body) -> None:
    for name, alarm in alarms(template).items():
        longest = 7 * DAY if period(alarm) >= HOUR else DAY
        assert period(alarm) * alarm["EvaluationPeriods"] <= longest, name
        assert alarm.get("DatapointsToAlarm", 1) <= alarm["EvaluationPeriods"], name


# --- what they look at exists


@pytest.fixture
def written(
    deployment: Deployment,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> list[Emitted]:
    """What the handlers write while everything that is ever counted happens to them."""
    ledger, work, emr = deployment.ledger, deployment.work, deployment.emr

    def run() -> None:
        deployment.clock.advance(300)
        settle(event("settle_schedule"), Context())

    def arrive(*keys: str) -> None:
        body = notice(*keys, route="weather").encode()
        record = event("dispatch_two_groups")["Records"][0] | {"body": body}
        record["attributes"] = record["attributes"] | {"MessageGroupId": "weather"}
        dispatch({"Records": [record]}, Context())

    intake(event("intake_s3"), Context())
    intake(event("intake_garbage"), Context())
    arrive("weather/a.json")
    arrive("weather/a.json")
    # a hand-off that fails, then a job that fails, then a batch that ends in every way
    emr.refusal = (400, "ValidationException")
    arrive("weather/b.json", "weather/c.json", "weather/d.json")
    emr.refusal = None
    run()
    (batch,) = ledger.route("weather").running
    emr.end("run-1", "FAILED")
    run()
    ends = {
        "weather/a.json": (Outcome.QUARANTINED, "no JSON"),
        "weather/b.json": (Outcome.SUPERSEDED, ""),
        "weather/c.json": (Outcome.VANISHED, ""),
    }
    play_publishing(work, batch, ends, unknown=UnknownNames(1, {"coupon": 1}), rejected=1)
    run()
    # one that halts and is fenced
    arrive("weather/e.json", "weather/f.json")
    run()
    (batch,) = ledger.route("weather").running
    run_id = ledger.batch(batch).job_run
    play_giving_up(work, batch, 1, "no such column", hopeless=True)
    emr.end(run_id, "FAILED")
    run()
    assert abort(batch, memory_ports(ledger=ledger), Wish.DROP) is Aborted.FENCING
    play_fencing(work, batch)
    run()
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    with answered(wiring._client("dynamodb"), "GetItem", 400, denied, containing="r#weather"):
        run()
    # an upload that was never announced
    audit(event("settle_schedule"), Context())
    with time_machine.travel(deployment.clock.now, tick=False):
        wiring._client("s3").put_object(Bucket="landing", Key="weather/lost.json", Body=b"{}")
    deployment.clock.advance(2 * DAY)
    audit(event("settle_schedule"), Context())
    # a job that maintains the tables and fails
    maintain(event("settle_schedule"), Context())
    emr.end(f"run-{len(emr.runs)}", "FAILED")
    maintain(event("settle_schedule"), Context())
    return list(emitted(capsys.readouterr().out))


def test_the_log_of_intake_gives_an_example_of_uploads_that_no_route_takes(
    deployment: Deployment,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert "The log of intake or audit names uploads" in Alarm.UPLOADS_MISSED.value.act
    intake(event("intake_garbage"), Context())
    (told,) = caplog.records
    assert vars(told)["uploads"] == 1
    assert vars(told)["for_example"] == "s3://landing/trains/of no route.json"
    assert f'the log of intake: "{told.message}"' in page()


def test_uploads_of_no_route_sound_an_alarm_unless_their_place_is_ignored(
    template: Body,
    deployment: Deployment,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alarm = alarms(template)["tidegate-uploads-missed"]
    assert {name for _, (_, name, _) in watched(alarm)} == {"UploadsOfNoRoute", "UploadsFoundLost"}
    assert alarm["Threshold"] == 1
    intake(event("intake_garbage"), Context())
    assert "UploadsOfNoRoute" in {each.name for each in emitted(capsys.readouterr().out)}
    settings = parse(CONFIG + '\n[operations]\nignore = ["s3://landing"]\n')
    application = replace(wiring.this_deployment(), settings=settings)
    with monkeypatch.context() as patch:
        patch.setattr(wiring, "this_deployment", lambda: application)
        intake(event("intake_garbage"), Context())
    names = {each.name for each in emitted(capsys.readouterr().out)}
    assert "UploadsIgnored" in names
    assert "UploadsOfNoRoute" not in names


RARE = {
    *(Metric.UPLOADS_IGNORED, Metric.UPLOADS_AGAIN, Metric.NOTICES_VOID, Metric.TABLES_BEHIND, Metric.BATCHES_SLOW),
}
"""What does not happen to the handlers here; tests of intake, dispatch, settle and maintain count it."""


def any_route(dimensions: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset((name, "*" if name == "route" else value) for name, value in dimensions)


def test_every_metric_of_ours_that_is_looked_at_is_written_by_the_code(template: Body, written: list[Emitted]) -> None:
    there = {(each.namespace, each.name, any_route(each.dimensions)) for each in written}
    wanted = {each for each in (*alarmed(template), *graphed(template)) if each[0] == "Tidegate"}
    assert not {(space, name, any_route(found)) for space, name, found in wanted} - there
    assert {dict(found)["route"] for _, _, found in wanted if "route" in dict(found)} == {"*", "weather"}


def test_every_metric_is_written_as_it_is_described(written: list[Emitted]) -> None:
    there = {(each.namespace, each.name, each.unit, frozenset(dict(each.dimensions))) for each in written}
    described = {metric.value for metric in set(Metric) - RARE}
    assert there == {(NAMESPACE, each.name, each.unit, frozenset(each.by)) for each in described}


def test_of_two_deployments_in_one_account_each_has_metrics_and_alarms_of_its_own(
    build: Any,
    template: Body,
    deployment: Deployment,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = build(CONFIG.replace('name = "tidegate"', 'name = "other"'))
    assert not set(alarms(other)) & set(alarms(template))
    mine, theirs = ({each for each in alarmed(body) if each[0] == "Tidegate"} for body in (template, other))
    assert mine
    assert not mine & theirs
    monkeypatch.setenv("TIDEGATE_DEPLOYMENT", "other")
    settle(event("settle_schedule"), Context())
    wrote = {(each.namespace, each.name, each.dimensions) for each in emitted(capsys.readouterr().out)}
    assert wrote
    of_any = {(space, name, any_route(found)) for space, name, found in wrote}
    assert not of_any & mine
    assert of_any & theirs


def test_what_aws_measures_is_asked_for_as_aws_names_it(template: Body) -> None:
    dimensions = {
        "AWS/SQS": {"QueueName"},
        "AWS/Lambda": {"FunctionName"},
        "AWS/EMRServerless": {"ApplicationId", "ApplicationName"},
        "Tidegate": {"deployment", "route"},
    }
    looked_at = {*alarmed(template), *graphed(template)}
    assert {namespace for namespace, _, _ in looked_at} == set(dimensions)
    for namespace, name, found in looked_at:
        assert {key for key, _ in found} <= dimensions[namespace], name
        assert namespace == "Tidegate" or len(found) == len(dimensions[namespace]), name
    of_emr = {found for namespace, _, found in looked_at if namespace == "AWS/EMRServerless"}
    assert of_emr == {frozenset({("ApplicationId", APPLICATION), ("ApplicationName", "tidegate")})}


@pytest.mark.parametrize(
    ("alarm", "parts"),
    [
        ("messages-stuck", ["Buffer", "Notices"]),
        ("dead-letters", ["BufferDeadLetters", "NoticesDeadLetters"]),
        ("function-errors", [row.construct for row in ROSTER]),
        ("settle-silent", ["Settle"]),
        ("audit-or-maintain-silent", ["Audit", "Maintain"]),
    ],
)
def test_each_alarm_looks_at_its_own_parts(template: Body, alarm: str, parts: list[str]) -> None:
    found = [dict(dimensions) for _, (_, _, dimensions) in watched(alarms(template)[f"tidegate-{alarm}"])]
    for of_part, part in zip(found, parts, strict=True):
        (target,) = of_part.values()
        assert re.search(rf"'{part}[0-9A-F]{{8}}'", target), (target, part)


# --- the dashboard


def test_the_dashboard_is_called_as_the_deployment_and_has_a_line_for_every_route(template: Body) -> None:
    (dashboard,) = of(template, "AWS::CloudWatch::Dashboard").values()
    assert dashboard["DashboardName"] == "tidegate"
    titles = [widget["properties"].get("title", "") for widget in widgets(template)]
    assert {"Uploads of all routes", "Oldest pending batch, seconds, by route", "Halted batches, by route"} <= set(
        titles
    )
    assert {"Troubles", "Oldest message, seconds", "Messages waiting", "Jobs by state"} <= set(titles)
    assert {row.name for row in ROSTER} <= set(titles)
    for widget in widgets(template):
        if widget["properties"].get("title", "").endswith(", by route"):
            ((search,),) = widget["properties"]["metrics"]
            assert search["label"] == "${PROP('Dim.route')}"


def test_a_deployment_of_many_routes_has_every_alarm_on_its_dashboard(build: Any) -> None:
    found = build(expect={f"flights{number:03}": HOUR for number in range(150)})
    shown = [widget["properties"]["alarms"] for widget in widgets(found) if widget["type"] == "alarm"]
    assert all(len(each) <= 100 for each in shown), "a widget shows no more"
    assert len({arn for each in shown for arn in each}) == len(alarms(found)) > 150
    assert all(widget["x"] + widget["width"] <= 24 for widget in widgets(found))


# --- the page


def page() -> str:
    return (ROOT / PAGE).read_text()


def test_the_page_has_a_row_for_every_alarm_in_its_words() -> None:
    table = page().partition("\n## Alarms\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| \[`([a-z-]+)`\]\(#([a-z-]+)\) \| (.+) \| (.+) \|$", table, re.MULTILINE)
    assert rows == [(advice.name, advice.anchor, advice.happened, advice.act) for advice in EVERY]


PARTS = ["Means", "Why", "Do", "Waiting"]


def test_every_alarm_has_a_section_of_the_same_parts() -> None:
    """`Means` only where it says more than the table."""
    alarms_of_the_page = [each for each in sections(ROOT / PAGE) if each.path[-2:-1] == ("Alarms",)]
    anchors_there = [each.heading.lower() for each in alarms_of_the_page]
    assert anchors_there == list(dict.fromkeys(advice.anchor for advice in EVERY)), "in the order of the table"
    for section in alarms_of_the_page:
        parts = re.findall(r"^\*\*(\w+)\.\*\* \S", section.text, re.MULTILINE)
        assert parts in (PARTS, PARTS[1:]), section.heading


def test_what_waiting_does_is_said_of_each_function_that_may_fail_or_be_silent() -> None:
    waiting = {each.heading: each.text.partition("**Waiting.**")[2].lower() for each in sections(ROOT / PAGE)}
    for heading, functions in (
        ("function-errors", [row.name for row in ROSTER]),
        ("function-silent", [row.name for row in ROSTER if isinstance(row.started_by, Schedule)]),
    ):
        assert functions
        assert not [name for name in functions if not re.search(rf"\b{name}\b", waiting[heading])], heading


def test_every_function_may_be_put_for_function() -> None:
    (sentence,) = re.findall(r"FUNCTION is\s(.*?)\. ", page(), re.DOTALL)
    assert re.findall(r"`(\w+)`", sentence) == [row.construct for row in ROSTER]


def test_the_verbs_that_alarms_tell_to_run_exist() -> None:
    told = {verb for advice in EVERY for verb in re.findall(r"`tidegate ([a-z]+)`", advice.text)}
    assert told
    assert told <= verbs()
