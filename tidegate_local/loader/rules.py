"""Rules of EventBridge: described here, and run by the bus. Those that send S3's events to queues become notifications
of buckets: a day of uploads would be more than the bus of this machine bears."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tidegate_local.description import Rule
from tidegate_local.environment import ACCOUNT, REGION
from tidegate_local.errors import LocalError
from tidegate_local.events import OPERATORS
from tidegate_local.loader.buckets import notify
from tidegate_local.loader.loading import Created, Loading, Properties, creates

_SPAN = {"minute": 60, "hour": 3600, "day": 86400}

_EVENTS = {"Object Created": "s3:ObjectCreated:*", "Object Deleted": "s3:ObjectRemoved:DeleteMarkerCreated"}


@creates("AWS::Events::Rule")
def rule(loading: Loading, logical: str, properties: Properties) -> Created:
    name = properties.pop("Name", None) or loading.generated_name(logical)
    pattern = properties.pop("EventPattern", None)
    schedule = properties.pop("ScheduleExpression", None)
    targets = properties.pop("Targets", [])
    to_queues = [each for each in targets if ":sqs:" in each["Arn"]]
    if pattern is not None and pattern.get("source") == ["aws.s3"] and to_queues == targets:
        if properties.pop("State", "ENABLED") == "ENABLED":
            uploads(loading, logical, pattern, targets)
        return Created(name, {"Arn": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{name}"})
    names = tuple(each["Arn"].rpartition(":")[2] for each in targets)
    if unknown := [each for each in names if each not in loading.functions]:
        raise LocalError(f"rule {logical} has targets that are no functions of the template: {', '.join(unknown)}")
    inputs = {each["Arn"].rpartition(":")[2]: json.loads(each["Input"]) for each in targets if "Input" in each}
    if pattern is not None:
        _refuse_operators(logical, pattern)
    if properties.pop("State", "ENABLED") == "ENABLED":
        loading.rules.append(Rule(name, names, pattern, _period(logical, schedule) if schedule else 0, inputs))
    return Created(name, {"Arn": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{name}"})


def uploads(loading: Loading, logical: str, pattern: Mapping[str, Any], targets: list[Mapping[str, Any]]) -> None:
    """A rule for S3's events: here the bucket notifies the queue itself, of the same keys, in S3's other words."""
    arns = [each["Arn"] for each in targets]
    detail = pattern["detail"]
    keys = detail.get("object", {}).get("key", [{"prefix": ""}])
    for bucket in detail["bucket"]["name"]:
        for arn in arns:
            for key in keys:
                # a key written out is one that the pattern with a wildcard is too long for; a filter takes it
                if not isinstance(key, str):
                    for kind in pattern["detail-type"]:
                        notify(loading, bucket, arn, _EVENTS[kind], filter_rules(logical, key))


def filter_rules(logical: str, matcher: Mapping[str, str]) -> list[dict[str, str]]:
    """EventBridge's content filter for a key, as S3's: prefix, suffix, or a wildcard between the two."""
    ((operator, value),) = matcher.items()
    if operator in ("prefix", "suffix"):
        return [{"Name": operator, "Value": value}] if value else []
    # a backslash before `*`, or before another one, makes it a character like any other
    tokens = re.findall(r"\\.|\*|[^\\*]+", value, re.DOTALL)
    if operator != "wildcard" or tokens.count("*") != 1:
        raise LocalError(f"rule {logical} matches keys with {dict(matcher)!r}, which the local stack does not")
    at = tokens.index("*")
    prefix, suffix = ("".join(each.removeprefix("\\") for each in part) for part in (tokens[:at], tokens[at + 1 :]))
    return [{"Name": "prefix", "Value": prefix}, {"Name": "suffix", "Value": suffix}]


def _period(logical: str, expression: str) -> int:
    """The seconds of `rate(1 minute)`."""
    match = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    if not match:
        raise LocalError(f"rule {logical} runs at {expression!r}; the local stack knows rate(...) only")
    return int(match[1]) * _SPAN[match[2]]


def _refuse_operators(logical: str, pattern: Mapping[str, Any]) -> None:
    for name, expected in pattern.items():
        if isinstance(expected, Mapping):
            _refuse_operators(logical, expected)
        elif not isinstance(expected, list) or any(
            isinstance(each, dict) and not {*each} <= {*OPERATORS} for each in expected
        ):
            raise LocalError(
                f"rule {logical} matches {name} with {expected!r}; the local stack compares values only, or their ends"
            )
