"""The parts of a stack that the runbook's `aws` commands look up, made by moto's CloudFormation under the stack's name.

tests/infra/test_runbook_parts.py holds the real template against it: the same beginnings of names, the same types.
"""

import json
import time
from dataclasses import dataclass
from typing import Any

import boto3

from infra.roster import ROSTER, Feed, FeedQueue, RosterRow, Schedule

LOG, FUNCTION = "AWS::Logs::LogGroup", "AWS::Lambda::Function"
RULE, MAPPING = "AWS::Events::Rule", "AWS::Lambda::EventSourceMapping"
STREAM = "one"


@dataclass(frozen=True, slots=True)
class StackParts:
    """The parts of each function, by the beginning of its name and its type."""

    names: dict[tuple[str, str], str]

    def __getitem__(self, part: tuple[str, str]) -> str:
        return self.names[part]

    def log(self, function: str, *lines: str) -> None:
        """Write to a function's log in CloudWatch."""
        now = int(time.time() * 1000)
        if lines:
            boto3.client("logs").put_log_events(
                logGroupName=self[function.capitalize(), LOG],
                logStreamName=STREAM,
                logEvents=[{"timestamp": now, "message": line} for line in lines],
            )


def make_parts(deployment: str, queues: dict[FeedQueue, str]) -> StackParts:
    """`queues` are URLs."""
    cloudformation = boto3.client("cloudformation")
    resources: dict[str, Any] = {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": []}}}
    }
    for row in ROSTER:
        resources |= _parts_of(row, queues)
    cloudformation.create_stack(StackName=deployment, TemplateBody=json.dumps({"Resources": resources}))
    there = cloudformation.list_stack_resources(StackName=deployment)["StackResourceSummaries"]
    constructs = [row.construct for row in ROSTER]
    names = {
        (construct, each["ResourceType"]): each["PhysicalResourceId"]
        for each in there
        for construct in constructs
        if each["LogicalResourceId"].startswith(construct)
    }
    for construct in constructs:
        boto3.client("logs").create_log_stream(logGroupName=names[construct, LOG], logStreamName=STREAM)
    return StackParts(names)


def _parts_of(row: RosterRow, queues: dict[FeedQueue, str]) -> dict[str, Any]:
    function = f"{row.construct}Function"
    made: dict[str, Any] = {
        f"{row.construct}Log": {"Type": LOG},
        function: {
            "Type": FUNCTION,
            "Properties": {
                "Handler": "index.handler",
                "Runtime": "python3.13",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Code": {"ZipFile": "pass"},
            },
        },
    }
    match row.started_by:
        case Schedule(every):
            target = {"Arn": {"Fn::GetAtt": [function, "Arn"]}, "Id": "Target0"}
            rule = {"ScheduleExpression": f"rate({every // 60} minutes)", "State": "ENABLED", "Targets": [target]}
            made[f"{row.construct}Rule"] = {"Type": RULE, "Properties": rule}
        case Feed(queue):
            arn = f"arn:aws:sqs:us-east-1:123456789012:{queues[queue].rpartition('/')[2]}"
            mapping = {"EventSourceArn": arn, "FunctionName": {"Ref": function}}
            made[f"{row.construct}Mapping"] = {"Type": MAPPING, "Properties": mapping}
    return made
