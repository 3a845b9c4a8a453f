"""The landing buckets: where uploads arrive, and the notifications of them to the buffer."""

from collections.abc import Iterable
from itertools import groupby
from urllib.parse import quote_plus

import aws_cdk as cdk
import jsii
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct, IConstruct, IDependable

from infra.buckets import Buckets
from infra.buffer import Buffer
from infra.catalogs import grant_federated
from infra.permissions import allow
from tidegate.settings import RouteSettings
from tidegate.settings.scale import event_matchers, readable

CREATED, DELETED = s3.EventType.OBJECT_CREATED, s3.EventType.OBJECT_REMOVED_DELETE_MARKER_CREATED
EVENTS = {CREATED: "s3:ObjectCreated:*", DELETED: "s3:ObjectRemoved:DeleteMarkerCreated"}
"""All that were created: large files arrive as CompleteMultipartUpload, copies as Copy."""

METADATA_BUCKET = "aws-s3"
"""The table bucket that S3 Metadata keeps its tables in
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/metadata-tables-overview.html)."""

METADATA_TABLES = (("database/{}", ""), ("table/{}", "/*"))


class LandingBuckets(Construct):
    """One bucket for each that the routes name: created here, or only with a notification added if it exists."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        routes: Iterable[RouteSettings],
        buffer: Buffer | None,
        buckets: Buckets,
        keep_versions: cdk.Duration,
        local: bool = False,
    ) -> None:
        """`local` for a stack where every bucket is the same account's. Without a `buffer` all routes are retired."""
        super().__init__(scope, id)
        self._admitted: set[str] = set()
        self._buckets = buckets
        self._told = buffer
        self._notifying: list[IConstruct] = []
        self._rules: list[events.CfnRule] = []
        self._routes = sorted(routes, key=lambda route: (route.bucket, route.name))
        told_by_s3 = {
            route.bucket: _owner(route) for route in self._routes if not route.retired and route.source != "eventbridge"
        }
        permission = (
            self._buffer.accept_from_buckets(
                [_bucket_arn(self, bucket) for bucket in told_by_s3], sorted(set(told_by_s3.values()))
            )
            if told_by_s3
            else None
        )
        for name, group in groupby(self._routes, key=lambda route: route.bucket):
            on_bucket = list(group)
            # uploads for a retired route need no notification
            told = [route for route in on_bucket if not route.retired]
            by_rule = on_bucket[0].source == "eventbridge"
            waits_for = None if by_rule else permission
            if not on_bucket[0].existing:
                self._create(name, told, waits_for, keep_versions, versioned=on_bucket[0].versioned)
            elif told and (local or not told[0].bucket_owner):
                self._subscribe(name, told, waits_for)
            elif told and by_rule:
                self._admit(str(told[0].bucket_owner), _detail_types(self._routes))
            if told and by_rule:
                self._match(name, told)
        if self._rules:
            self._buffer.accept_from_rules([rule.attr_arn for rule in self._rules])

    @property
    def _buffer(self) -> Buffer:
        assert self._told is not None, "no buffer to notify"
        return self._told

    def grant_read(self, role: iam.Role) -> None:
        """Let `role` read the uploads of the routes, each at the version that was notified."""
        allow(
            role,
            ["s3:GetObject", "s3:GetObjectVersion"],
            *(_bucket_arn(self, keys) for keys in readable(self._routes)),
            wildcard="The uploads of the routes, whose keys others choose.",
        )
        # Without these S3 answers 403 for an object that was deleted since, and "vanished" would look like
        # "no permission".
        allow(
            role,
            ["s3:ListBucket", "s3:ListBucketVersions"],
            *dict.fromkeys(_bucket_arn(self, route.bucket) for route in self._routes),
        )

    def grant_list(self, role: iam.Role) -> None:
        """Let `role` list the uploads of the routes that take any, versions included."""
        told = dict.fromkeys(_bucket_arn(self, route.bucket) for route in self._routes if not route.retired)
        if told:
            allow(role, ["s3:ListBucketVersions"], *told)

    def grant_inventories(self, role: iam.Role) -> None:
        """Let `role` read the inventories in which audits find the uploads (`audit_from`)."""
        stack = cdk.Stack.of(self)
        audited = [route for route in self._routes if not route.retired]
        for source in sorted({route.audit_from for route in audited if route.audit_from.startswith("s3://")}):
            bucket, _, prefix = source.removeprefix("s3://").strip("/").partition("/")
            # the files of a list are beside its manifest, or beside the folder
            folder = prefix.rpartition("/")[0]
            allow(
                role,
                ["s3:GetObject"],
                f"{_bucket_arn(self, bucket)}/{folder}/*" if folder else f"{_bucket_arn(self, bucket)}/*",
                wildcard="S3 names the files of an inventory.",
            )
            allow(role, ["s3:ListBucket"], _bucket_arn(self, bucket))
        if kept := [route.bucket for route in audited if route.audit_from.startswith("s3-metadata")]:
            tables = [f"{kind}/b_{each}{rest}" for each in dict.fromkeys(kept) for kind, rest in METADATA_TABLES]
            arn = stack.format_arn(service="s3tables", resource="bucket", resource_name=METADATA_BUCKET)
            actions = ["glue:GetDatabase", "glue:GetTable"]
            why = "The journal and the inventory of each bucket."
            grant_federated(role, METADATA_BUCKET, actions, tables, wildcard=why)
            allow(role, ["s3tables:GetNamespace", "s3tables:GetTableBucket"], arn)
            allow(
                role,
                ["s3tables:GetTable", "s3tables:GetTableData", "s3tables:GetTableMetadataLocation"],
                f"{arn}/table/*",
                wildcard="S3 Metadata names its tables by ids that it makes.",
            )

    def notify_after(self, reader: IDependable) -> None:
        """Let S3 notify nothing new before `reader` is up to date. When a route is added, the old code has no route for
        its uploads, and drops them."""
        for each in self._notifying:
            each.node.add_dependency(reader)

    def _create(
        self,
        name: str,
        routes: list[RouteSettings],
        permission: IDependable | None,
        keep_versions: cdk.Duration,
        *,
        versioned: bool,
    ) -> None:
        """The bucket stays when its last route retires, because it has uploads. It only sends no notifications."""
        bucket = self._buckets.make(
            self,
            name,
            bucket_name=name,
            # an upload that is overwritten before it was read can still be read
            versioned=versioned,
            lifecycle_rules=[s3.LifecycleRule(noncurrent_version_expiration=keep_versions)] if versioned else [],
        )
        if not routes:
            return
        # The L2 methods would add a Lambda function for what a property of the bucket does.
        resource, kinds = bucket.node.default_child, s3.CfnBucket
        assert isinstance(resource, kinds)
        if permission is None:
            by_rule = kinds.EventBridgeConfigurationProperty(event_bridge_enabled=True)
            resource.notification_configuration = kinds.NotificationConfigurationProperty(
                event_bridge_configuration=by_rule
            )
            return
        arn = self._buffer.queue.queue_arn
        told = [
            kinds.QueueConfigurationProperty(event=EVENTS[event], queue=arn, filter=_filter(each))
            for each in routes
            for event in _events(each)
        ]
        resource.notification_configuration = kinds.NotificationConfigurationProperty(queue_configurations=told)
        # S3 sends a test message when the notification is set up, and refuses the bucket if it may not
        resource.node.add_dependency(permission)
        self._notifying.append(resource)

    def _subscribe(self, name: str, routes: list[RouteSettings], permission: IDependable | None) -> None:
        """Add to the notifications of an existing bucket; the others stay as they are. EventBridge, once switched on,
        stays on when the stack is deleted, because others may need its events by then."""
        bucket = s3.Bucket.from_bucket_name(self, name, name)
        if permission is None:
            bucket.enable_event_bridge_notification()
            return
        destination = _Destination(self._buffer, permission)
        for route in routes:
            rules = _rules(route)
            filters = [s3.NotificationKeyFilter(**rules)] if rules else []
            for event in _events(route):
                bucket.add_event_notification(event, destination, *filters)
        self._notifying.append(bucket)

    def _admit(self, owner: str, detail_types: list[str]) -> None:
        """Let the account `owner` forward S3's events to this account's bus, for our rule. That account must set up the
        forwarding, or S3's notifications to the buffer; docs/deploy.md has the steps
        (https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-cross-account.html)."""
        if owner in self._admitted:
            return
        self._admitted.add(owner)
        stack = cdk.Stack.of(self)
        events.CfnEventBusPolicy(
            self,
            f"Forwarded{owner}",
            event_bus_name="default",
            statement_id=f"{stack.stack_name}-{owner}",
            statement={
                "Effect": "Allow",
                "Principal": {"AWS": stack.format_arn(service="iam", region="", account=owner, resource="root")},
                "Action": "events:PutEvents",
                "Resource": stack.format_arn(service="events", resource="event-bus", resource_name="default"),
                "Condition": {"StringEquals": {"events:source": "aws.s3", "events:detail-type": detail_types}},
            },
        )

    def _match(self, name: str, routes: list[RouteSettings]) -> None:
        """Send the bucket's events of the routes to the buffer."""
        rule = events.CfnRule(
            self,
            f"{name}Events",
            description=f"Uploads to {name}",
            event_pattern=_pattern(name, routes),
            targets=[
                events.CfnRule.TargetProperty(
                    id="Buffer",
                    arn=self._buffer.queue.queue_arn,
                    # EventBridge tries for a day; then an event that it could not deliver is a dead letter
                    dead_letter_config=events.CfnRule.DeadLetterConfigProperty(arn=self._buffer.dead_letters.queue_arn),
                )
            ],
        )
        self._rules.append(rule)
        self._notifying.append(rule)


@jsii.implements(s3.IBucketNotificationDestination)
class _Destination:
    """The buffer, as the target of a notification. CDK's own would add a permission without SourceAccount."""

    def __init__(self, buffer: Buffer, permission: IDependable) -> None:
        self._buffer = buffer
        self._permission = permission

    def bind(self, scope: Construct, bucket: s3.IBucket) -> s3.BucketNotificationDestinationConfig:
        return s3.BucketNotificationDestinationConfig(
            arn=self._buffer.queue.queue_arn,
            type=s3.BucketNotificationDestinationType.QUEUE,
            dependencies=[self._permission],
        )


def _bucket_arn(scope: Construct, name: str) -> str:
    """From the name alone: the bucket waits for the permission, so the permission cannot refer to it."""
    return cdk.Stack.of(scope).format_arn(service="s3", region="", account="", resource=name)


def _owner(route: RouteSettings) -> str:
    return route.bucket_owner or cdk.Aws.ACCOUNT_ID


def _pattern(bucket: str, routes: list[RouteSettings]) -> dict[str, object]:
    """The pattern of EventBridge: events of this bucket, of the account that owns it, for keys of these routes."""
    keys = [matcher for route in routes for matcher in event_matchers(route)]
    detail: dict[str, object] = {"bucket": {"name": [bucket]}}
    if all(route.prefix or route.suffix for route in routes):
        detail["object"] = {"key": keys}
    return {
        "source": ["aws.s3"],
        "detail-type": _detail_types(routes),
        "account": [_owner(routes[0])],
        "detail": detail,
    }


def _events(route: RouteSettings) -> list[s3.EventType]:
    return [CREATED, DELETED] if route.on_delete == "remove" else [CREATED]


def _detail_types(routes: list[RouteSettings]) -> list[str]:
    """Among all deletions intake finds those that left a delete marker."""
    events = {event for route in routes for event in _events(route)}
    return ["Object Created", *(["Object Deleted"] if DELETED in events else [])]


def _filter(route: RouteSettings) -> s3.CfnBucket.NotificationFilterProperty | None:
    rules = [s3.CfnBucket.FilterRuleProperty(name=name, value=value) for name, value in _rules(route).items()]
    if not rules:
        return None
    return s3.CfnBucket.NotificationFilterProperty(s3_key=s3.CfnBucket.S3KeyFilterProperty(rules=rules))


def _rules(route: RouteSettings) -> dict[str, str]:
    """The filter for S3, which needs special characters encoded
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-filtering.html)."""
    rules = {"prefix": route.prefix, "suffix": route.suffix}
    return {name: quote_plus(value, safe="/!-_.*'()") for name, value in rules.items() if value}
