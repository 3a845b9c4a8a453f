"""Judgements about landing buckets: whose they are, where, with which versions, and whom they notify."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from urllib.parse import unquote_plus

from tidegate.cli.account.ask import Absent, Answer, Denied, Found, Silence, Unanswered, cannot_tell, fails
from tidegate.cli.doctor import Check, State
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
    """Whose bucket it is, and in which region, if S3 says that."""

    whose: Whose
    region: str | None = None


def held(plain: Answer, as_owner: Answer, own: Answer, bucket: str) -> Held | Silence:
    """Whose a bucket is, from three answers: HeadBucket, HeadBucket with `ExpectedBucketOwner`, and ListBuckets.

    404 is a free name. 403 is somebody else's bucket, or one whose s3:ListBucket is denied; with an expected owner it
    is also what S3 says if the owner is another one. HEAD has no body that could tell them apart
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
    return Unanswered("S3 contradicts itself")


def _region(body: dict[str, Any]) -> str | None:
    headers = body.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return body.get("BucketRegion") or headers.get("x-amz-bucket-region")


def created(name: str, held: Held | Silence, region: str, stack: str, members: Answer) -> Check:
    """A bucket that the stack makes. `members` are the resources that the stack has; Absent before it is there."""
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
            return fails(line, f"is gone, and stack {stack} made it", "deploy the stack anew, or ask who deleted it")
        return Check(line, State.OK, "the name is free; the deployment creates it")
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
        return Check(line, State.OK, f"made by stack {stack}")
    return fails(
        line,
        f"is in this account already, and stack {stack} has not made it",
        "if it is to be used as it is, say `existing = true`; else give the route another `bucket`",
    )


def _names(members: Answer) -> set[str]:
    if not isinstance(members, Found):
        return set()
    return {each.get("PhysicalResourceId", "") for each in members.body.get("StackResourceSummaries", ())}


def existing(name: str, held: Held | Silence, region: str, owner: str) -> Check:
    """A bucket that the route says exists, and belongs to the account `owner`."""
    line = f"bucket {name}"
    if isinstance(held, Denied | Unanswered):
        return cannot_tell(line, f"whether it is there and belongs to {owner}", held)
    match held.whose:
        case Whose.NOBODYS:
            return fails(line, "does not exist", "correct `bucket`, or leave out `existing = true` to have it created")
        case Whose.SOMEBODY_ELSES:
            return fails(
                line,
                f"does not belong to account {owner}, or hides from these credentials",
                "correct `bucket`, or say whose it is with `bucket_owner`",
            )
    if held.region and held.region != region:
        return fails(
            line,
            f"is in {held.region}, and this is {region}",
            f"S3 notifies queues of its own region only: deploy to {held.region}",
        )
    return Check(line, State.OK, f"exists, and belongs to {owner}")


def versions(name: str, believed: bool, answer: Answer) -> Check:
    """Whether a bucket keeps versions as its routes believe (`versioned`)."""
    line = f"versions of {name}"
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether it keeps versions", answer)
    status = answer.body.get("Status", "never switched on")
    if status == "Enabled":
        return Check(line, State.OK, "kept")
    if not believed:
        return Check(line, State.OK, f"not kept ({status}), as the routes say")
    return Check(
        line,
        State.WARN,
        f"not kept ({status})",
        "switch versioning on; or say `versioned = false`: what is overwritten or deleted before it was read then ends"
        " as superseded or vanished",
    )


@dataclass(frozen=True, slots=True)
class Notification:
    """Which new objects a bucket tells whom of."""

    target: str
    prefix: str
    suffix: str

    def overlaps(self, route: RouteSettings) -> bool:
        """Whether S3 would refuse a notification for the route beside this one: one object would be told twice
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
        return Check(line, State.OK, "go to EventBridge" if on else "the deployment switches EventBridge on")
    for there in notifications(answer.body):
        for route in routes:
            if there.overlaps(route):
                return fails(
                    line,
                    f"{there.target} is told of keys {there.prefix}*{there.suffix} already, which route {route.name}"
                    " takes too",
                    "S3 refuses overlapping notifications: give the route another prefix or suffix, or `source ="
                    ' "eventbridge"`; if an earlier deployment left it, remove it',
                )
    return Check(line, State.OK, "leave room for ours")


def in_place(name: str, routes: Sequence[RouteSettings], answer: Answer, buffer: str) -> Check:
    """After the deployment: whether the bucket tells the queue of ARN `buffer`, or EventBridge, of every route."""
    line = f"notifications of {name}"
    if not isinstance(answer, Found):
        return cannot_tell(line, "whether they are in place", answer)
    advice = "deploy again; until then nobody hears of its uploads. Those since then have to be copied onto themselves"
    if routes[0].source == "eventbridge":
        if "EventBridgeConfiguration" in answer.body:
            return Check(line, State.OK, "go to EventBridge")
        return fails(line, "do not go to EventBridge", advice)
    ours = [each for each in notifications(answer.body) if each.target == buffer]
    missing = [route.name for route in routes if not any(each.serves(route) for each in ours)]
    if missing:
        return fails(line, f"do not tell the buffer of route {', '.join(missing)}", advice)
    return Check(line, State.OK, f"tell the buffer of route {', '.join(route.name for route in routes)}")
