"""cdk-nag finds nothing in any variant of the stack but what is answered for, one finding at a time, with a reason."""

import re
from collections import Counter

import pytest

from tests.infra.conftest import VARIANTS

ANSWERED = {
    "AwsSolutions-S1": "Access logs need a bucket to go to",
    "AwsSolutions-L1": "Python 3.13 is supported",
    "AwsSolutions-IAM4": "A function of CDK's own",
}
"""Rules that one answer is given to, wherever they find something; what IAM5 finds has an answer for each resource."""


@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_is_left_to_answer_for(variant, name):
    assert variant(name).violations == []


@pytest.mark.parametrize("name", VARIANTS)
def test_each_answer_is_for_one_finding_on_one_construct_and_gives_a_reason(variant, name):
    for path, answers in variant(name).accepted.items():
        rules = Counter(rule for answer in answers for rule in answer)
        assert path.count("/") >= 1, "an answer for the whole stack would hide what comes later"
        for answer in answers:
            ((rule, reason),) = answer.items()
            assert len(reason.split()) > 5
            general = rule.partition("[")[0]
            if general in ANSWERED:
                assert reason.startswith(ANSWERED[general])
            elif rule == "AwsSolutions-IAM5[Resource::*]":
                assert "its action takes no resource" in reason
            else:
                assert re.fullmatch(r"AwsSolutions-IAM5\[Resource::.+\*.*\]", rule)
        assert not [rule for rule, times in rules.items() if times > 1]


def test_with_a_bucket_for_access_logs_every_created_bucket_writes_them_there(variant):
    template = variant("customer")
    for bucket in template.of("AWS::S3::Bucket").values():
        assert bucket["LoggingConfiguration"]["DestinationBucketName"] == "example-logs"
    prefixes = [each["LoggingConfiguration"]["LogFilePrefix"] for each in template.of("AWS::S3::Bucket").values()]
    assert len(set(prefixes)) == len(prefixes)
    assert "AwsSolutions-S1" not in str(template.accepted)


def test_a_wildcard_that_nobody_answers_for_cannot_be_granted(synthesize, simple):
    import aws_cdk as cdk
    from aws_cdk import aws_iam as iam

    from infra.permissions import allow

    stack = cdk.Stack(cdk.App(), "Alone")
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    with pytest.raises(ValueError, match=r"say why s3:GetObject is allowed on arn:aws:s3:::a/\*"):
        allow(role, ["s3:GetObject"], "arn:aws:s3:::a/*")
