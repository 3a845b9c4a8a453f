"""CloudFormation's intrinsic functions."""

import pytest

from tidegate_local.errors import LocalError
from tidegate_local.intrinsics import NO_VALUE, Resolver

NAMES = {"Queue": "http://queue", "AWS::Region": "us-east-1", "AWS::NoValue": NO_VALUE}


@pytest.fixture
def resolver():
    return Resolver(NAMES.__getitem__, lambda resource, attribute: f"<{resource}.{attribute}>")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        (7, 7),
        ({"Ref": "Queue"}, "http://queue"),
        ({"Fn::GetAtt": ["Queue", "Arn"]}, "<Queue.Arn>"),
        ({"Fn::GetAtt": "Queue.Arn"}, "<Queue.Arn>"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Queue"}, 3]]}, "a-http://queue-3"),
        ({"Fn::Sub": "${Queue}/${Queue.Arn}/${AWS::Region}/${!kept}"}, "http://queue/<Queue.Arn>/us-east-1/${kept}"),
        ({"Fn::Sub": ["${x}-${Queue}", {"x": {"Ref": "AWS::Region"}}]}, "us-east-1-http://queue"),
        ({"Fn::Select": [2, {"Fn::Split": [":", "arn:aws:sqs"]}]}, "sqs"),
        ({"a": [{"Ref": "Queue"}, {"Ref": "AWS::NoValue"}], "b": {"Ref": "AWS::NoValue"}}, {"a": ["http://queue"]}),
        ({"Ref": "Queue", "other": 1}, {"Ref": "Queue", "other": 1}),
    ],
)
def test_resolves(resolver, value, expected):
    assert resolver.resolve(value) == expected


def test_what_it_does_not_know_is_an_error(resolver):
    with pytest.raises(LocalError, match="Fn::ImportValue"):
        resolver.resolve({"x": [{"Fn::ImportValue": "y"}]})
