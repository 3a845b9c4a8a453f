"""Judgements about landing buckets: owner, region, versions and notifications."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from urllib.parse import unquote_plus

from tidegate.cli.account.ask import Absent, Answer, Denied, Found, Silence, Unanswered, cannot_tell, fails
from tidegate.cli.checks import Check, CheckState
from tidegate.settings import RouteSettings

_TARGETS = {
    "QueueConfigurations": "QueueArn",
    "TopicConfigurations": "TopicArn",
    "LambdaFunctionConfigurations": "LambdaFunctionArn",
}
_CREATED = "s3:ObjectCreated:"


class Whose(Enum):
    NOBODYS = auto()
    OURS = auto()
    SOMEBODY_ELSES = auto()


@dataclass(frozen=True, slots=True)
class Held:
    """Whose bucket it is, and in which region, if S3 reports that."""

    whose: Whose
    region: str | None = None


def held(plain: Answer, as_owner: Answer, own: Answer, bucket: str) -> Held | Silence:
    """Whose a bucket is, from three answers: HeadBucket, HeadBucket with `ExpectedBucketOwner`, and ListBuckets.

    404 is a free name. 403 is somebody else's bucket, or one whose s3:ListBucket is denied. With an expected owner S3
    also answers 403 if the owner is another one. HEAD has no body that could tell them apart
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html).
    """
    match plain, as_owner, own:
        case Absent(), _, _:
            return Held(Whose.NOBODYS)
        case _, Found(body), _:
            return Held(Whose.OURS, _region(body))
        case Found(body), Denied(), _:
            return Held(Whose.SOMEBODY_ELSES, _region(body))
        case _, _, Found(body):
            for each in body.get("Buckets", ()):
                if each["Name"] == bucket:
                    return Held(Whose.OURS, each.get("BucketRegion"))
            return Held(Whose.SOMEBODY_ELSES)
        case (Denied() | Unanswered()) as silence, _, _:
            return silence
        case _, (Denied() | Unanswered()) as silence, _:
            return silence
    return Unanswered("the answers of S3 contradict each other")


def _region(body: dict[str, Any]) -> str | None:
    headers = body.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return body.get("BucketRegion") or headers.get("x-amz-bucket-region")


def created(name: str, held: Held | Silence, region: str, stack: str, members: Answer) -> Check:
    """A bucket that the stack creates. `members` are the resources of the stack; Absent before it is deployed."""
    line = f"bucket {name}"
    if isinstance(held, Denied | Unanswered):
        return cannot_tell(line, "whose it is", held)
    if held.whose is Whose.SOMEBODY_ELSES:
        return fails(
            line,
            "belongs to another account",
            "names of buckets are shared by all accounts: give the route another `bucket`",
        )
    made = None if isinstance(members, Denied | Unanswered) else name in _names(members)
    if held.whose is Whose.NOBODYS:
        if made:
            return fails(line, f"is gone, and stack {stack} made it", "deploy the stack anew, or find who deleted it")
        return Check(line, CheckState.OK, "the name is free; the deployment creates it")
    if held.region and held.region != region:
        return fails(
            line,
            f"is in this account already, in {held.region}",
            f"give the route another `bucket`, or deploy to {held.region}",
        )
    if made is None:
        assert isinstance(members, Denied | Unanswered)
        return cannot_tell(line, f"whether stack {stack} made it; it is in this account", members)
    if made:
        return Check(line, CheckState.OK, f"made by stack {stack}")
    return fails(
        line,
        f"is in this account already, and stack {stack} has not made it",
        "to use it as it is, set `existing = true`; else give the route another `bucket`",
    )


def _names(members: Answer) -> set[str]:
    if not isinstance(members, Found):
        return set()
    return {each.get("PhysicalResourceId", "") for each in members.body.get("StackResourceSummaries", ())}


def existing(name: str, held: Held | Silence, region: str, owner: str) -> Check:
    """A bucket of a route with `existing`. It should belong to the account `owner`."""
    line = f"bucket {name}"
    if isinstance(held, Denied | Unanswered):
        return cannot_tell(line, f"whether it is there and belongs to {owner}", held)
    match held.whose:
        case Whose.NOBODYS:
            return fails(line, "does not exist", "correct `bucket`, or leave out `existing = true` to have it created")
        case Whose.SOMEBODY_ELSES:
            return fails(
                line,
                f"does not belong to account {owner}, or these credentials may not see it",
                "correct `bucket`, or name its account in `bucket_owner`",
            )
    if held.region and held.region != region:
        return fails(
            line,
            f"is in {held.region}, and this is {region}",
            f"S3 notifies queues of its own region only: deploy to {held.region}",
        )
    return Check(line, CheckState.OK, f"exists, and belongs to {owner}")


def versions(name: str, believed: bool, answer: Answer) -> Check:
    """Whether a bucket keeps versions as its routes expect (`versioned`)."""
    line = f"versions of {name}"
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether it keeps versions", answer)
    status = answer.body.get("Status", "never switched on")
    if status == "Enabled":
        return Check(line, CheckState.OK, "kept")
    if not believed:
        return Check(line, CheckState.OK, f"not kept ({status}), as the routes expect")
    return Check(
        line,
        CheckState.WARN,
        f"not kept ({status})",
        "switch versioning on, or set `versioned = false`: uploads that are overwritten or deleted before they are read"
        " then end as superseded or vanished",
    )


@dataclass(frozen=True, slots=True)
class Notification:
    """The target that a bucket notifies, and of which new objects."""

    target: str
    prefix: str
    suffix: str

    def overlaps(self, route: RouteSettings) -> bool:
        """Whether S3 would refuse a notification for the route beside this one: one object would be announced twice
        (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-filtering.html)."""
        return (self.prefix.startswith(route.prefix) or route.prefix.startswith(self.prefix)) and (
            self.suffix.endswith(route.suffix) or route.suffix.endswith(self.suffix)
        )

    def serves(self, route: RouteSettings) -> bool:
        return (self.prefix, self.suffix) == (route.prefix, route.suffix)


def notifications(body: dict[str, Any]) -> Iterator[Notification]:
    """The notifications about new objects. S3 keeps the values of filters encoded as in URLs."""
    for kind, target in _TARGETS.items():
        for each in body.get(kind, ()):
            if not any(event.startswith(_CREATED) for event in each.get("Events", ())):
                continue
            rules = each.get("Filter", {}).get("Key", {}).get("FilterRules", ())
            values = {rule["Name"].lower(): unquote_plus(rule["Value"]) for rule in rules}
            yield Notification(each[target], values.get("prefix", ""), values.get("suffix", ""))


def room(name: str, routes: Sequence[RouteSettings], answer: Answer) -> Check:
    """Before the deployment: whether S3 will take the notifications that it adds to an existing bucket."""
    line = f"notifications of {name}"
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether its notifications leave room for ours", answer)
    if routes[0].source == "eventbridge":
        on = "EventBridgeConfiguration" in answer.body
        return Check(line, CheckState.OK, "go to EventBridge" if on else "the deployment switches EventBridge on")
    for there in notifications(answer.body):
        for route in routes:
            if there.overlaps(route):
                return fails(
                    line,
                    f"{there.target} is notified of keys {there.prefix}*{there.suffix} already, which route"
                    f" {route.name} takes too",
                    "S3 refuses overlapping notifications: give the route another prefix or suffix, or `source ="
                    ' "eventbridge"`; if an earlier deployment left it, remove it',
                )
    return Check(line, CheckState.OK, "leave room for ours")


def in_place(name: str, routes: Sequence[RouteSettings], answer: Answer, buffer: str) -> Check:
    """After the deployment: whether the bucket notifies the queue of ARN `buffer`, or EventBridge, for every route."""
    line = f"notifications of {name}"
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether they are in place", answer)
    advice = "deploy again. Its uploads are not announced meanwhile: copy each of them onto itself afterwards"
    if routes[0].source == "eventbridge":
        if "EventBridgeConfiguration" in answer.body:
            return Check(line, CheckState.OK, "go to EventBridge")
        return fails(line, "do not go to EventBridge", advice)
    ours = [each for each in notifications(answer.body) if each.target == buffer]
    missing = [route.name for route in routes if not any(each.serves(route) for each in ours)]
    if missing:
        return fails(line, f"do not go to the buffer for route {', '.join(missing)}", advice)
    return Check(line, CheckState.OK, f"go to the buffer for route {', '.join(route.name for route in routes)}")
