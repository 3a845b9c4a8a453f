"""The checks of landing buckets: whose they are and where, whether they keep versions, and whom they notify."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any
from urllib.parse import unquote_plus

from tidegate.cli.account.ask import (
    Absent,
    Answer,
    Denied,
    Examined,
    Found,
    Silence,
    Unanswered,
    cannot_tell,
    fails,
    fine,
    warns,
)
from tidegate.cli.checks import Check, CheckState
from tidegate.core.notifications import MARKED
from tidegate.settings import RouteSettings

_TARGETS = {
    "QueueConfigurations": "QueueArn",
    "TopicConfigurations": "TopicArn",
    "LambdaFunctionConfigurations": "LambdaFunctionArn",
}
_CREATED, _MARKED = "s3:ObjectCreated:", f"s3:{MARKED}"


@dataclass(frozen=True, slots=True)
class Held:
    """A bucket of the account that should own it; and its region, if S3 reports that."""

    region: str = ""


@dataclass(frozen=True, slots=True)
class SomebodyElses:
    """A bucket of another account."""


Holder = Held | SomebodyElses | Absent | Silence


def checks(here: Examined) -> Iterator[Check]:
    members: Answer = Absent()
    if not all(route.existing for route in here.settings.routes):
        members = here.account.ask_all("cloudformation", "list_stack_resources", StackName=here.stack)
    by_bucket = sorted(here.settings.routes, key=lambda route: route.bucket)
    for name, group in groupby(by_bucket, key=lambda route: route.bucket):
        yield from _bucket(name, [*group], members, here)


def _bucket(name: str, routes: Sequence[RouteSettings], members: Answer, here: Examined) -> Iterator[Check]:
    first = routes[0]
    owned = {"Bucket": name, "ExpectedBucketOwner": first.bucket_owner or here.owner}
    answer = here.account.ask("s3", "head_bucket", **owned)
    own: Answer = Absent()
    if isinstance(answer, Denied) and owned["ExpectedBucketOwner"] == here.owner:
        own = here.account.ask_all("s3", "list_buckets", Prefix=name)
    holder = held(answer, own, name)
    line = whose(first, holder, members, here)
    yield line
    # a bucket that is missing or wrong has no versions or notifications to check
    if line.state is CheckState.FAIL or isinstance(holder, Absent):
        return
    yield versions(name, first.versioned, here.account.ask("s3", "get_bucket_versioning", **owned))
    if removing := [route for route in routes if route.on_delete == "remove"]:
        yield expiring(name, removing, here.account.ask("s3", "get_bucket_lifecycle_configuration", **owned))
    buffer = ""
    if here.resources is not None:
        *_, account, queue = here.resources.buffer.split("/")
        buffer = here.arn(f"sqs:{here.region}:{account}:{queue}")
    if buffer or first.existing:
        yield notified(name, routes, here.account.ask("s3", "get_bucket_notification_configuration", **owned), buffer)


def held(answer: Answer, own: Answer, bucket: str) -> Holder:
    """Whose a bucket is, by HeadBucket with `ExpectedBucketOwner`. 404 is a free name. 403 is another account's bucket,
    or one whose s3:ListBucket is denied, and HEAD has no body that could tell them apart
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html). `own`, the account's list, can."""
    match answer, own:
        case Found(body), _:
            headers = body.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            return Held(body.get("BucketRegion") or headers.get("x-amz-bucket-region", ""))
        case Denied(), Found(body):
            ours = (each for each in body.get("Buckets", ()) if each["Name"] == bucket)
            return next((Held(each.get("BucketRegion", "")) for each in ours), SomebodyElses())
        case Denied(), Denied() | Unanswered():
            return own
        case _:
            return answer


def whose(route: RouteSettings, holder: Holder, members: Answer, here: Examined) -> Check:
    """Whether the stack can create the bucket, has created it, or, with `existing`, finds it. `members` are the
    resources of the stack; Absent before it is deployed."""
    line, owner = f"bucket {route.bucket}", route.bucket_owner or here.owner
    made = isinstance(members, Found) and route.bucket in {
        each.get("PhysicalResourceId") for each in members.body.get("StackResourceSummaries", ())
    }
    match holder:
        case Denied() | Unanswered():
            return cannot_tell(line, f"whether it belongs to {owner}", holder)
        case SomebodyElses() if route.existing:
            return fails(line, f"does not belong to account {owner}", "correct `bucket`, or name its `bucket_owner`")
        case SomebodyElses():
            advice = "names of buckets are shared by all accounts: give the route another `bucket`"
            return fails(line, "belongs to another account", advice)
        case Absent() if route.existing:
            return fails(line, "does not exist", "correct `bucket`, or leave out `existing = true` to have it created")
        case Absent() if made:
            advice = "deploy the stack anew, or find who deleted it"
            return fails(line, f"is gone, and stack {here.stack} made it", advice)
        case Absent():
            return fine(line, "the name is free; the deployment creates it")
        case Held(region) if region not in ("", here.region):
            advice = f"S3 notifies queues of its own region only: deploy to {region}, or choose another `bucket`"
            return fails(line, f"is in {region}, and this is {here.region}", advice)
    if route.existing:
        return fine(line, f"exists, and belongs to {owner}")
    if isinstance(members, Denied | Unanswered):
        return cannot_tell(line, f"whether stack {here.stack} made it; it is in this account", members)
    if made:
        return fine(line, f"made by stack {here.stack}")
    advice = "to use it as it is, set `existing = true`; else give the route another `bucket`"
    return fails(line, f"is in this account already, and stack {here.stack} has not made it", advice)


def versions(name: str, believed: bool, answer: Answer) -> Check:
    """Whether a bucket keeps versions as its routes expect (`versioned`)."""
    line = f"versions of {name}"
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether it keeps versions", answer)
    status = answer.body.get("Status", "never switched on")
    if status == "Enabled":
        return fine(line, "kept")
    if not believed:
        return fine(line, f"not kept ({status}), as the routes expect")
    return warns(
        line,
        f"not kept ({status})",
        "switch versioning on, or set `versioned = false`: uploads that are overwritten or deleted before they are read"
        " then end as superseded or vanished",
    )


def expiring(name: str, removing: Sequence[RouteSettings], answer: Answer) -> Check:
    """Whether S3 deletes files of these routes by itself: then their rows leave the table."""
    line = f"expiry in {name}"
    rules = answer.body.get("Rules", ()) if isinstance(answer, Found) else ()
    if not isinstance(answer, Found | Absent):
        return cannot_tell(line, "whether a lifecycle rule deletes files", answer)
    for rule, route in product(rules, removing):
        prefix = rule.get("Filter", rule).get("Prefix") or rule.get("Filter", {}).get("And", {}).get("Prefix", "")
        near = prefix.startswith(route.prefix) or route.prefix.startswith(prefix)
        if rule["Status"] == "Enabled" and {"Days", "Date"} & rule.get("Expiration", {}).keys() and near:
            return warns(
                line,
                f"rule {rule.get('ID', prefix)} deletes files of route {route.name}, and their rows go with them",
                'let it expire noncurrent versions only, or set on_delete = "keep"',
            )
    return fine(line, "no rule deletes files whose rows would go with them")


@dataclass(frozen=True, slots=True)
class Notification:
    """The target that a bucket notifies, of what, and of which objects."""

    target: str
    prefix: str
    suffix: str
    events: frozenset[str]

    def overlaps(self, route: RouteSettings) -> bool:
        """Whether S3 would refuse a notification for the route beside this one: one object would be announced twice
        (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-filtering.html)."""
        return (
            not self.events.isdisjoint(_wanted(route))
            and (self.prefix.startswith(route.prefix) or route.prefix.startswith(self.prefix))
            and (self.suffix.endswith(route.suffix) or route.suffix.endswith(self.suffix))
        )


def _wanted(route: RouteSettings) -> set[str]:
    return {_CREATED, *([_MARKED] if route.on_delete == "remove" else [])}


def notifications(body: dict[str, Any]) -> Iterator[Notification]:
    """The notifications about new and deleted objects. S3 keeps the values of filters encoded as in URLs."""
    for kind, target in _TARGETS.items():
        for each in body.get(kind, ()):
            told = each.get("Events", ())
            events = {_CREATED for event in told if event.startswith(_CREATED)}
            events |= {_MARKED for event in told if event in (_MARKED, "s3:ObjectRemoved:*")}
            rules = each.get("Filter", {}).get("Key", {}).get("FilterRules", ())
            values = {rule["Name"].lower(): unquote_plus(rule["Value"]) for rule in rules}
            yield Notification(each[target], values.get("prefix", ""), values.get("suffix", ""), frozenset(events))


def notified(name: str, routes: Sequence[RouteSettings], answer: Answer, buffer: str) -> Check:
    """Whether the bucket notifies the queue of ARN `buffer`, or EventBridge, for every route. `buffer` is empty before
    the deployment: then whether S3 will take the notifications that it adds."""
    line = f"notifications of {name}"
    if not isinstance(answer, Found):
        return cannot_tell(line, "whom it notifies", answer)
    again = "deploy again. Its uploads are not announced meanwhile: copy each of them onto itself afterwards"
    if routes[0].source == "eventbridge":
        if "EventBridgeConfiguration" in answer.body:
            return fine(line, "go to EventBridge")
        if buffer:
            return fails(line, "do not go to EventBridge", again)
        return fine(line, "the deployment switches EventBridge on")
    there = [*notifications(answer.body)]
    if buffer:
        ours = {(each.prefix, each.suffix, event) for each in there if each.target == buffer for event in each.events}
        needs = [(route, {(route.prefix, route.suffix, event) for event in _wanted(route)}) for route in routes]
        if missing := [route.name for route, wanted in needs if not wanted <= ours]:
            return fails(line, f"do not go to the buffer for route {', '.join(missing)}", again)
        return fine(line, f"go to the buffer for route {', '.join(route.name for route in routes)}")
    for each, route in product(there, routes):
        if each.overlaps(route):
            keys = f"{each.prefix}*{each.suffix}"
            return fails(
                line,
                f"{each.target} is notified of keys {keys} already, which route {route.name} takes too",
                "S3 refuses overlapping notifications: give the route another prefix or suffix, or `source ="
                ' "eventbridge"`; if an earlier deployment left it, remove it',
            )
    return fine(line, "leave room for ours")
