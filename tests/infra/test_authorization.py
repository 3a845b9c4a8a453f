"""Every grant can grant something: its action exists, takes the kind of resource it is granted on, and knows the
conditions it is granted under.

IAM accepts a policy that can never apply, and nobody is told. What each action takes is in the service authorization
reference (https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html),
a copy of which `policy_sentry` carries.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest
from policy_sentry.querying.actions import get_action_data, get_actions_for_service

from tests.infra.account import Account, Policy, listed
from tests.infra.conftest import VARIANTS

LONG_NAMES = ("CatalogName", "KeyName", "ObjectName", "RoleNameWithPath")
"""Parts of ARNs that may hold a slash."""


# ---- whether two patterns of ARNs have an ARN in common


@dataclass(frozen=True)
class Part:
    """One character out of `these` (None: any but a separator; "": any at all), or any number of them."""

    these: str | None
    many: bool = False

    def meets(self, other: "Part") -> bool:
        if self.these and other.these:
            return self.these == other.these
        one = self.these or other.these
        return not one or None not in (self.these, other.these) or one not in "/:"


@cache
def granted(arn: str) -> list[Part]:
    """A resource as a policy writes it: `*` and `?` are wildcards, `${*}` is a star."""
    parts = []
    for escaped, wildcard, character in re.findall(r"\$\{([*?$])\}|([*?])|(.)", arn):
        parts.append(Part("", many=wildcard == "*") if wildcard else Part(escaped or character))
    return parts


@cache
def taken(arn_format: str) -> list[Part]:
    """A resource as the reference writes it: `${Name}` is a name."""
    parts = []
    for name, character in re.findall(r"\$\{(\w+)\}|(.)", arn_format):
        if character:
            parts.append(Part(character))
        elif name in ("Partition", "Region", "Account"):
            parts.append(Part(None, many=True))
        else:
            these = "" if name in LONG_NAMES else None
            parts += [Part(these), Part(these, many=True)]
    return parts


def meet(one: list[Part], other: list[Part]) -> bool:
    ahead: list[tuple[int, int]] = [(0, 0)]
    seen: set[tuple[int, int]] = set()
    while ahead:
        state = i, j = ahead.pop()
        if state in seen:
            continue
        seen.add(state)
        if state == (len(one), len(other)):
            return True
        if i < len(one) and one[i].many:
            ahead.append((i + 1, j))
        if j < len(other) and other[j].many:
            ahead.append((i, j + 1))
        if i < len(one) and j < len(other) and one[i].meets(other[j]):
            ahead.append((i if one[i].many else i + 1, j if other[j].many else j + 1))
    return False


# ---- what the reference says


@dataclass(frozen=True)
class Action:
    arns: tuple[str, ...]
    keys: tuple[str, ...]

    def takes(self, resource: str) -> bool:
        if resource == "*":
            return not self.arns
        return any(meet(granted(resource), taken(each)) for each in self.arns)

    def knows(self, key: str) -> bool:
        """Global keys can be compared with every action."""
        return key.startswith("aws:") or any(
            re.fullmatch(re.sub(r"\\\$\\\{\w+\\\}|<\w+>", ".+", re.escape(each)), key) for each in self.keys
        )


_GLUE = "arn:${Partition}:glue:${Region}:${Account}:"
WITHIN_A_CATALOG = {
    "catalog": _GLUE + "catalog/${CatalogName}",
    "database": _GLUE + "database/${CatalogName}/${DatabaseName}",
    "table": _GLUE + "table/${CatalogName}/${DatabaseName}/${TableName}",
}
"""The resources of a catalog within the account's, such as that of a table bucket. The reference does not have them yet
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-integrating-aws.html)."""


@cache
def action(name: str) -> Action | None:
    service, _, verb = name.partition(":")
    rows = (get_action_data(service, verb) or {}).get(service, [])
    if not rows:
        return None
    arns = [row["resource_arn_format"] for row in rows]
    if service == "glue":
        # what is within a catalog of the account's is named with it
        kinds = {"catalog", "database", "table"} & {each.rpartition(":")[2].partition("/")[0] for each in arns}
        arns += [WITHIN_A_CATALOG[kind] for kind in kinds]
    return Action(
        tuple(each for each in arns if each != "*"), tuple(key for row in rows for key in row["condition_keys"])
    )


def stands_for_something(pattern: str) -> bool:
    every = get_actions_for_service(pattern.partition(":")[0])
    return any(fnmatchcase(each.lower(), pattern.lower()) for each in every)


# ---- what is wrong with a policy


def faults(owner: str, policy: Policy) -> Iterator[str]:
    return (f"{owner}: {each}" for statement in policy["Statement"] for each in _faults(statement))


def _faults(statement: dict[str, Any]) -> Iterator[str]:
    """Of actions given by a pattern, which only policies of resources have, it is only asked whether there are any."""
    names = listed(statement["Action"])
    known = {each: found for each in names if "*" not in each and (found := action(each))}
    for each in names:
        if each not in known and not ("*" in each and stands_for_something(each)):
            yield f"there is no action {each}"
    keys = sorted({key for conditions in statement.get("Condition", {}).values() for key in conditions})
    for each, found in known.items():
        yield from (f"{each} is never asked with {key}" for key in keys if not found.knows(key))
    resources = listed(statement.get("Resource", []))
    # a role's trust has no resource, and in the policy of a resource `*` is that resource
    if "Principal" in statement and resources in ([], ["*"]):
        return
    for each, found in known.items():
        if not any(found.takes(resource) for resource in resources):
            takes = ", ".join(found.arns) or "no resource"
            yield f"{each} is granted on {', '.join(resources)}, and takes {takes}"
    # a pattern may stand for an action that takes what the others do not
    for resource in resources if len(known) == len(names) else []:
        if not any(found.takes(resource) for found in known.values()):
            yield f"{resource} is a resource of none of {', '.join(known)}"


def all_faults(account: Account) -> list[str]:
    return [fault for owner, policy in account.documents() for fault in faults(owner, policy)]


# ---- the tests


@pytest.mark.parametrize("name", VARIANTS)
def test_every_grant_can_grant_something(variant, name):
    account = Account(variant(name))
    assert len(account.documents()) > 10
    assert all_faults(account) == []


@pytest.mark.parametrize(
    ("grant", "arn_format", "together"),
    [
        ("arn:aws:s3:::b", "arn:${Partition}:s3:::${BucketName}", True),
        ("arn:aws:s3:::b/*", "arn:${Partition}:s3:::${BucketName}", False),
        ("arn:aws:s3:::b/a/${*}*.csv", "arn:${Partition}:s3:::${BucketName}/${ObjectName}", True),
        ("arn:aws:s3:::b", "arn:${Partition}:s3:::${BucketName}/${ObjectName}", False),
        ("arn:aws:sqs:r:1:q", "arn:${Partition}:sns:${Region}:${Account}:${TopicName}", False),
        ("arn:aws:iam::1:role/path/r", "arn:${Partition}:iam::${Account}:role/${RoleNameWithPath}", True),
    ],
)
def test_patterns_of_arns_that_have_an_arn_in_common(grant, arn_format, together):
    assert meet(granted(grant), taken(arn_format)) is together
