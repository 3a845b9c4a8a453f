"""What the job may read of a landing bucket: every key of its routes, as IAM compares, and no other. And buckets that
another account has."""

import json
import re

import pytest

from infra import bundling
from tests.infra.conftest import ROOT, SIMPLE
from tests.infra.test_lint import IGNORED, findings
from tests.infra.test_permissions import resources, text
from tests.infra.test_template import allowed
from tests.support.build import upload
from tidegate.settings import parse


def iam_matches(pattern: str, text: str) -> bool:
    """`*` stands for any characters, `?` for one, and `${*}`, `${?}` and `${$}` for the characters themselves
    (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html#policy-vars-specialchars)."""
    tokens = re.findall(r"\$\{[*?$]\}|\*|\?|[^*?$]+|\$", pattern, re.DOTALL)
    assert "".join(tokens) == pattern
    wild = {"*": ".*", "?": "."}
    written = (wild.get(each) or re.escape(each[2] if each.startswith("${") else each) for each in tokens)
    return re.fullmatch("".join(written), text, re.DOTALL) is not None


def test_the_comparison_is_as_iam_makes_it():
    assert iam_matches("a/*.json", "a/b/c.json")
    assert not iam_matches("a/*.json", "a/json")
    assert not iam_matches("in/*/data.json", "in/data.json")
    assert iam_matches("a?", "ab")
    assert not iam_matches("a${?}", "ab")
    assert iam_matches("a${?}${*}${$}", "a?*$")


@pytest.mark.parametrize(
    ("prefix", "suffix"),
    [
        ("", ""),
        ("in/", ""),
        ("", ".json"),
        ("in/", ".json"),
        ("in/", "/data.json"),
        ("data.", ".json"),
        ("aaa", "aa"),
        ("x*y/", "/*z"),
        ("exports/latest.json", ""),
        ("a.json", "a.json"),
    ],
)
def test_the_job_may_read_exactly_the_keys_that_its_route_takes(synthesize, prefix: str, suffix: str):
    toml = SIMPLE.replace('"flights/"', json.dumps(prefix)).replace('".json.gz"', json.dumps(suffix))
    template = synthesize(toml)
    (route,) = parse(toml).core_routes()
    bucket = "arn:<AWS::Partition>:s3:::example-landing/"
    granted = [each.removeprefix(bucket) for each in resources(template, "job", "s3:GetObjectVersion")]
    keys = {prefix + between + suffix for between in ("", "m", "m/n*")}
    keys |= {prefix + suffix[cut:] for cut in range(len(suffix) + 1)}
    keys |= {prefix, suffix, "other", prefix + "other", "other" + suffix, "xxy/zz", "in/data.json", "data.json"} - {""}
    for key in keys:
        taken = route.takes(upload(key, bucket="example-landing"))
        assert any(iam_matches(each, key) for each in granted) == taken, (key, granted)
    assert not template.violations


REMOVES = 'on_overwrite = "replace"\non_delete = "remove"\n'
MARKED = "s3:ObjectRemoved:DeleteMarkerCreated"


def test_where_a_route_removes_s3_tells_of_delete_markers(synthesize):
    """A created bucket, an existing one, and one whose events come by a rule."""
    removing = SIMPLE.replace("[[route]]", f"[[route]]\n{REMOVES}", 1)
    landing = synthesize(removing).one("AWS::S3::Bucket", "Landing")[1]["NotificationConfiguration"]
    assert [each["Event"] for each in landing["QueueConfigurations"]] == ["s3:ObjectCreated:*", MARKED]
    theirs = THEIRS.replace('bucket_owner = "999999999999"\n', "") + REMOVES
    _, added = synthesize(SIMPLE + theirs.replace("SOURCE", "s3")).one("Custom::S3BucketNotifications")
    found = added["NotificationConfiguration"]["QueueConfigurations"]
    assert sorted(each["Events"][0] for each in found) == ["s3:ObjectCreated:*", MARKED]
    rules = synthesize(SIMPLE + theirs.replace("SOURCE", "eventbridge")).of("AWS::Events::Rule").values()
    patterns = [rule["EventPattern"] for rule in rules if "example-theirs" in str(rule)]
    assert [each["detail-type"] for each in patterns] == [["Object Created", "Object Deleted"]]


# --- buckets of other accounts ---

THEIRS = """
[[route]]
name = "prices"
bucket = "example-theirs"
existing = true
bucket_owner = "999999999999"
source = "SOURCE"
prefix = "prices/"
format = "json"
table = "lake.shop.prices"
schema = "id bigint"
"""


@pytest.fixture(params=["s3", "eventbridge"])
def theirs(request, synthesize, monkeypatch):
    """A bucket of our own, and one of another account, as they are deployed; two routes, so that it is said once."""
    monkeypatch.setattr(bundling, "_install", lambda target, *_: (target / "dependency.py").touch())
    route = THEIRS.replace("SOURCE", request.param)
    other = route.replace("prices", "stock").replace('bucket = "example-theirs"', 'bucket = "example-other"')
    return request.param, synthesize(SIMPLE + route + other, local=False)


def test_nothing_is_asked_of_a_bucket_that_another_account_has(theirs):
    """What it notifies, nobody here may change; CDK's function would fail, and the deployment with it."""
    _, template = theirs
    assert not template.of("Custom::S3BucketNotifications")
    assert "s3:PutBucketNotification" not in str(template.of("AWS::IAM::Policy"))
    assert not template.violations
    assert not [each for each in findings(template.body) if each.split()[0] not in IGNORED]


def test_what_another_accounts_bucket_tells_is_let_in(theirs):
    source, template = theirs
    statements = allowed(template, template.one("AWS::SQS::Queue", "BufferQueue")[0])
    services = [each["Principal"]["Service"] for each in statements]
    if source == "s3":
        assert services == ["s3.amazonaws.com"]
        (owners,) = (each["Condition"]["StringEquals"]["aws:SourceAccount"] for each in statements)
        assert {text(each) for each in owners} == {"<AWS::AccountId>", "999999999999"}
        assert not template.of("AWS::Events::EventBusPolicy")
        return
    assert sorted(services) == ["events.amazonaws.com", "s3.amazonaws.com"]
    policy = template.one("AWS::Events::EventBusPolicy")[1]
    assert policy["EventBusName"] == "default"
    assert policy["StatementId"] == "tidegate-999999999999"
    statement = policy["Statement"]
    assert text(statement["Principal"]["AWS"]) == "arn:<AWS::Partition>:iam::999999999999:root"
    assert statement["Action"] == "events:PutEvents"
    assert text(statement["Resource"]) == "arn:<AWS::Partition>:events:<AWS::Region>:<AWS::AccountId>:event-bus/default"
    assert statement["Condition"] == {
        "StringEquals": {"events:source": "aws.s3", "events:detail-type": ["Object Created"]}
    }
    patterns = [
        rule["EventPattern"]
        for rule in template.of("AWS::Events::Rule").values()
        # the work bucket's rule is of this account's bucket only, and names no account
        if rule.get("EventPattern", {}).get("source") == ["aws.s3"] and "account" in rule["EventPattern"]
    ]
    assert [each["account"] for each in patterns] == [["999999999999"], ["999999999999"]]


def test_the_page_says_what_the_other_account_must_set_up(theirs):
    """For S3's own notifications exactly what CDK's function would have set up."""
    source, _ = theirs
    page = (ROOT / "docs" / "deploy.md").read_text().partition("### Of another account")[2].partition("\n## ")[0]
    examples = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    notification, pattern, bus = examples
    if source == "s3":
        (queue,) = notification["QueueConfigurations"]
        assert queue["Events"] == ["s3:ObjectCreated:*"]
        assert queue["Filter"]["Key"]["FilterRules"] == [{"Name": "prefix", "Value": "shop/orders/"}]
    else:
        assert (pattern["source"], pattern["detail-type"]) == (["aws.s3"], ["Object Created"])
        assert bus["Action"] == "events:PutEvents"
        assert bus["Resource"] == "arn:aws:events:REGION:ACCOUNT:event-bus/default"
