"""What the job may read of a landing bucket: every key of its routes, as IAM compares, and no other."""

import json
import re

import pytest

from tests.infra.conftest import SIMPLE
from tests.infra.test_permissions import resources
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
