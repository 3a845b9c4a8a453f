"""How much one deployment can hold, and how its job's role names the uploads and tables of many routes.

All resources of a deployment are in one CloudFormation template, which takes 500
(https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html). Some 90 are there without
any route. A route has an alarm if it has `expect_every`; a bucket has four resources at most. So the two numbers below
leave room. The text that a role or a queue has on each of them is bounded too, by IAM and by SQS. `tests/infra/
test_scale.py` synthesizes deployments of the largest size.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from os.path import commonprefix

from tidegate.core.audit import LISTING
from tidegate.settings.routes import RouteSettings

MOST_ROUTES = 200
MOST_BUCKETS = 40
ONE_BY_ONE = 10
"""A role names the uploads and tables of so many routes exactly. Those of more routes it names by bucket and database:
the inline policies of a role have 10,240 characters at most
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html)."""
JOB_NAMES = 6_500
"""Of these characters, how many the names of the routes' uploads and tables may take in the job's role."""
S3_ARN, GLUE_ARN = 24, 54
"""Characters of an ARN before the name, in whatever partition and region, with quotes and comma."""
COMMON = 64
"""Characters of a prefix that a role names, where it stands for several routes."""
NOTIFICATIONS = 100
"""Of a bucket (https://docs.aws.amazon.com/general/latest/gr/s3.html#limits_s3)."""
PATTERN = 2_048
"""Characters of a rule's pattern (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html)."""
PATTERN_FRAME = 200
"""What is in a pattern beside the keys and the bucket's name."""

SPLIT = 'Put some of the routes into another deployment (docs/deploy.md, "Several deployments")'


def too_large(routes: Sequence[RouteSettings], *, in_glue: str | None) -> tuple[str, int] | None:
    """What is wrong with so many routes, and the position of one that is too many; None if they fit. `in_glue` is what
    Glue has before the name of a database, None if the tables are not in Glue."""
    return next(_complaints(routes, in_glue), None)


def _complaints(routes: Sequence[RouteSettings], in_glue: str | None) -> Iterator[tuple[str, int]]:
    if len(routes) > MOST_ROUTES:
        yield f"one deployment takes {MOST_ROUTES} routes, and this is the next one. {SPLIT}", MOST_ROUTES
    of_buckets: dict[str, list[int]] = {}
    for position, route in enumerate(routes):
        of_buckets.setdefault(route.bucket, []).append(position)
    for begins, *_ in list(of_buckets.values())[MOST_BUCKETS:]:
        yield f"one deployment takes uploads of {MOST_BUCKETS} buckets, and this is the next one. {SPLIT}", begins
    for bucket, positions in of_buckets.items():
        told = [position for position in positions if not routes[position].retired]
        if told and routes[told[0]].source == "eventbridge":
            length = _pattern_length(bucket, [routes[position] for position in told])
            if length > PATTERN:
                yield (
                    f"EventBridge takes {PATTERN:,} characters of what is to be matched, and the prefixes and suffixes"
                    f" of bucket {bucket} need {length:,}: use shorter ones, fewer routes of this bucket, or"
                    ' source = "s3"',
                    told[-1],
                )
        elif len(told) > NOTIFICATIONS:
            yield (
                f"S3 notifies {NOTIFICATIONS} places of a bucket at most, and bucket {bucket} has {len(told)} routes:"
                ' use source = "eventbridge", or fewer routes of this bucket',
                told[NOTIFICATIONS],
            )
    length = _names_length(routes, of_buckets, in_glue)
    if length > JOB_NAMES:
        yield (
            f"the role of the jobs names what the routes read and write, in {JOB_NAMES:,} characters at most, and needs"
            f" {length:,}: use fewer or shorter names of buckets{'' if in_glue is None else ' and databases'}. {SPLIT}",
            len(routes) - 1,
        )


def _pattern_length(bucket: str, routes: Iterable[RouteSettings]) -> int:
    keys = [matcher for route in routes for matcher in event_matchers(route)]
    return len(json.dumps(keys, separators=(",", ":"))) + len(bucket) + PATTERN_FRAME


def _names_length(routes: Sequence[RouteSettings], buckets: Iterable[str], in_glue: str | None) -> int:
    of_s3 = [*readable(routes), *buckets]
    of_glue = [] if in_glue is None else [f"{in_glue}{name}" for name in glue_names(routes)]
    # an inventory: its bucket and its files; S3 Metadata: a database and its tables
    audited = {
        route.audit_from if "/" in route.audit_from else route.bucket
        for route in routes
        if not route.retired and route.audit_from != LISTING
    }
    return (
        sum(len(name) + S3_ARN for name in of_s3)
        + sum(len(name) + GLUE_ARN for name in of_glue)
        + sum(2 * (len(name) + GLUE_ARN) for name in audited)
    )


def readable(routes: Iterable[RouteSettings]) -> list[str]:
    """Bucket and keys of the uploads of the routes, as a resource of IAM has them. Of more than `ONE_BY_ONE` routes it
    is what the keys of each bucket begin with."""
    of_all = sorted(routes, key=lambda route: (route.bucket, route.name))
    if len(of_all) <= ONE_BY_ONE:
        return [f"{route.bucket}/{key}" for route in of_all for key in _keys(route)]
    return [
        f"{bucket}/{_begin(route.prefix for route in of_bucket)}*"
        for bucket, of_bucket in groupby(of_all, key=lambda route: route.bucket)
    ]


def glue_names(routes: Iterable[RouteSettings]) -> list[str]:
    """The databases and tables of the routes, as Glue's ARNs have them. Of more than `ONE_BY_ONE` routes it is all
    tables of their databases."""
    of_all = [route.table.split(".")[1:] for route in routes]
    tables = {f"table/{database}/{table if len(of_all) <= ONE_BY_ONE else '*'}" for database, table in of_all}
    return sorted({f"database/{database}" for database, _ in of_all} | tables)


def event_matchers(route: RouteSettings) -> list[object]:
    """EventBridge's content filters for the keys of a route, which it does not encode
    (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html)."""
    if not route.suffix:
        return [{"prefix": route.prefix}]
    if not route.prefix:
        return [{"suffix": route.suffix}]
    between = "*".join(re.sub(r"[*\\]", r"\\\g<0>", part) for part in (route.prefix, route.suffix))
    return [{"wildcard": between}, *_overlaps(route)]


def _keys(route: RouteSettings) -> Iterator[str]:
    yield f"{_literal(route.prefix)}*{_literal(route.suffix)}"
    yield from map(_literal, _overlaps(route))


def _begin(prefixes: Iterable[str]) -> str:
    """What all of them begin with, up to what IAM would take for a wildcard or a variable."""
    # by character, as S3 and IAM compare prefixes, which know no folders
    return re.split(r"[*?$]", commonprefix(list(prefixes))[:COMMON])[0]  # noqa: RUF071


def _overlaps(route: RouteSettings) -> list[str]:
    """The keys that begin with the prefix, end with the suffix, and are too short for both side by side. A wildcard
    between the two misses them."""
    prefix, suffix = route.prefix, route.suffix
    shared = range(1, min(len(prefix), len(suffix)) + 1)
    return [prefix + suffix[length:] for length in shared if prefix.endswith(suffix[:length])]


def _literal(key: str) -> str:
    """The text with IAM's escapes for characters that would be wildcards or variables in a resource."""
    return re.sub(r"[*?$]", lambda match: "${" + match[0] + "}", key)
