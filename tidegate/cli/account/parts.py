"""Judgements about the parts of a deployed stack: whether each is there, switched on, and works."""

from collections.abc import Iterable
from typing import Any

from tidegate.cli.account.ask import Absent, Answer, Denied, Found, cannot_tell, fails
from tidegate.cli.checks import Check, CheckState
from tidegate.core.quantities import counted

DEPLOY = "deploy the stack again"
_ON_THEIR_WAY = frozenset({"Creating", "Enabling", "Updating"})
_WELL = frozenset({"", "OK", "No records processed"})
"""Lambda's results of the last poll of a queue if nothing is wrong; else the result begins with PROBLEM. These were
observed: its API lists no values
(https://docs.aws.amazon.com/lambda/latest/api/API_EventSourceMappingConfiguration.html)."""
_READY = frozenset({"CREATED", "STARTING", "STARTED", "STOPPING", "STOPPED"})
"""States from which an application starts by itself for a job
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/application-states.html)."""

TTL_ATTRIBUTE = "expires_at"


def stack(name: str, answer: Answer, *, expected: bool) -> Check:
    """The stack as a whole; `expected` if its outputs were given."""
    line = f"stack {name}"
    if isinstance(answer, Absent):
        if expected:
            return fails(line, "does not exist, although its outputs do", f"check the outputs, or {DEPLOY}")
        return Check(line, CheckState.OK, "not deployed yet")
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether it is deployed", answer)
    (found,) = answer.body["Stacks"]
    status = str(found["StackStatus"])
    if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"):
        return Check(line, CheckState.OK, status)
    if status.endswith("_IN_PROGRESS"):
        return Check(line, CheckState.WARN, status, "wait until it has ended, and check again")
    reason = found.get("StackStatusReason", "")
    finding = f"{status}: {reason}" if reason else status
    if status in ("UPDATE_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_COMPLETE"):
        return Check(
            line, CheckState.WARN, finding, "the last change was rolled back: read the stack's events and deploy again"
        )
    return fails(line, finding, "read the stack's events in CloudFormation, then deploy or delete it")


def source(function: str, queue: str, answer: Answer) -> Check:
    """The mapping by which Lambda feeds a function from the queue with this ARN."""
    line = f"source of {function}"
    if not isinstance(answer, Found):
        return _unless(line, answer, "whether Lambda reads its queue")
    mappings = answer.body.get("EventSourceMappings", ())
    if not mappings:
        return fails(line, f"no function reads {queue}", DEPLOY)
    if len(mappings) > 1:
        others = ", ".join(each["FunctionArn"] for each in mappings)
        return fails(line, f"several functions read {queue}: {others}", "leave only the deployment's own")
    (mapping,) = mappings
    state, result = mapping["State"], mapping.get("LastProcessingResult") or ""
    if state in _ON_THEIR_WAY:
        return Check(line, CheckState.WARN, f"is {state}", "wait a minute and check again")
    if state != "Enabled":
        reason = mapping.get("StateTransitionReason", "")
        return fails(
            line,
            f"is {state} ({reason})" if reason else f"is {state}",
            f"aws lambda update-event-source-mapping --enabled --uuid {mapping['UUID']}",
        )
    if result.startswith("PROBLEM"):
        return fails(line, f"is Enabled, and its last poll reports {result}", f"read the log of {function}")
    if result not in _WELL:
        return Check(
            line, CheckState.WARN, f"is Enabled, and its last poll reports {result}", f"read the log of {function}"
        )
    return Check(line, CheckState.OK, f"Enabled; its last poll reports {result or 'nothing yet'}")


def rules(members: Iterable[dict[str, Any]], answers: dict[str, Answer]) -> list[Check]:
    """The EventBridge rules of the stack: the schedule of settle, the ends of jobs, events of buckets."""
    lines = []
    for each in members:
        # without the hash that the CDK adds
        line = f"rule {each['LogicalResourceId'][:-8]}"
        answer = answers[each["PhysicalResourceId"]]
        if not isinstance(answer, Found):
            lines.append(_unless(line, answer, "whether it is switched on"))
        elif answer.body["State"] == "DISABLED":
            lines.append(fails(line, "is DISABLED", f"aws events enable-rule --name {each['PhysicalResourceId']}"))
        else:
            what = answer.body.get("ScheduleExpression") or "by pattern"
            lines.append(Check(line, CheckState.OK, f"{answer.body['State']}, {what}"))
    return lines


def queue(name: str, answer: Answer) -> Check:
    line = name
    if not isinstance(answer, Found):
        return _unless(line, answer, "how many messages wait")
    return Check(line, CheckState.OK, _depth(answer.body["Attributes"]))


def dead_letters(name: str, answer: Answer) -> Check:
    line = name
    if not isinstance(answer, Found):
        return _unless(line, answer, "how many dead letters there are")
    attributes = answer.body["Attributes"]
    if not _waiting(attributes):
        return Check(line, CheckState.OK, "none")
    advice = "read their `reason`, remove the cause, move them back: docs/operations.md, Queues and dead letters"
    return Check(line, CheckState.WARN, _depth(attributes), advice)


def _waiting(attributes: dict[str, str]) -> int:
    return int(attributes["ApproximateNumberOfMessages"]) + int(attributes["ApproximateNumberOfMessagesNotVisible"])


def _depth(attributes: dict[str, str]) -> str:
    return (
        f"{counted(int(attributes['ApproximateNumberOfMessages']), 'message waits', 'messages wait')},"
        f" {attributes['ApproximateNumberOfMessagesNotVisible']} are being worked on"
    )


def ledger(table: Answer, ttl: Answer, backups: Answer) -> list[Check]:
    """Whether the table is there, deletes what has expired, and can be restored."""
    if not isinstance(table, Found):
        return [_unless("ledger", table, "whether it is there")]
    status = table.body["Table"]["TableStatus"]
    name = table.body["Table"]["TableName"]
    if status not in ("ACTIVE", "UPDATING"):
        return [fails("ledger", f"{name} is {status}", "wait until it is ACTIVE; settle then goes on")]
    return [Check("ledger", CheckState.OK, f"{name} is {status}"), _ttl(ttl, name), _backups(backups, name)]


def _ttl(answer: Answer, table: str) -> Check:
    line = "ledger expiry"
    if not isinstance(answer, Found):
        return _unless(line, answer, "whether expired records are deleted")
    found = answer.body["TimeToLiveDescription"]
    status, attribute = found["TimeToLiveStatus"], found.get("AttributeName", "")
    if status in ("ENABLED", "ENABLING") and attribute == TTL_ATTRIBUTE:
        return Check(line, CheckState.OK, f"{status}, by {attribute}")
    return Check(
        line,
        CheckState.WARN,
        f"{status}{f', by {attribute}' if attribute else ''}: expired records stay, and cost their storage",
        f"aws dynamodb update-time-to-live --table-name {table}"
        f" --time-to-live-specification Enabled=true,AttributeName={TTL_ATTRIBUTE}",
    )


def _backups(answer: Answer, table: str) -> Check:
    line = "ledger recovery"
    if not isinstance(answer, Found):
        return _unless(line, answer, "whether the ledger can be brought back to an earlier state")
    found = answer.body["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    status = found.get("PointInTimeRecoveryStatus", "DISABLED")
    if status == "ENABLED":
        return Check(line, CheckState.OK, "point-in-time recovery is ENABLED")
    return fails(
        line,
        f"point-in-time recovery is {status}: if the ledger is lost, every upload is new again",
        f"aws dynamodb update-continuous-backups --table-name {table}"
        " --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true",
    )


def subscription(queue: str, answer: Answer) -> Check:
    """The topic's subscription by the queue of notices."""
    line = "subscription"
    if not isinstance(answer, Found):
        return _unless(line, answer, "whether the topic delivers to the queue of notices")
    ours = [each for each in answer.body.get("Subscriptions", ()) if each["Endpoint"] == queue]
    if not ours:
        return fails(line, "the topic does not deliver to the queue of notices", DEPLOY)
    if any(each["SubscriptionArn"].startswith("arn:") for each in ours):
        return Check(line, CheckState.OK, "the topic delivers to the queue of notices")
    return fails(line, f"is not confirmed ({ours[0]['SubscriptionArn']})", DEPLOY)


def application(identifier: str, answer: Answer) -> Check:
    line = "emr application"
    if not isinstance(answer, Found):
        return _unless(line, answer, "in which state it is")
    found = answer.body["application"]
    state, label = found["state"], found["releaseLabel"]
    if state in _READY:
        return Check(line, CheckState.OK, f"{identifier} is {state}, {label}")
    if state == "CREATING":
        return Check(line, CheckState.WARN, f"{identifier} is {state}", "wait a minute and check again")
    details = found.get("stateDetails", "")
    return fails(line, f"{identifier} is {state}{f': {details}' if details else ''}", DEPLOY)


def _unless(line: str, answer: Answer, what: str) -> Check:
    """The line for a part that was not found: it does not exist, or there was no answer."""
    match answer:
        case Absent():
            return fails(line, "does not exist, although the deployment names it", f"check the outputs, or {DEPLOY}")
        case Denied():
            return cannot_tell(line, what, answer)
        case Found():
            raise AssertionError("what was found is judged elsewhere")
        case _:
            return cannot_tell(line, what, answer)
