"""The landing buckets: where uploads arrive, and what S3 tells the buffer about them."""

import re
from collections.abc import Iterable
from itertools import groupby
from urllib.parse import quote_plus

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct, IConstruct, IDependable

from infra.buckets import private_bucket
from infra.buffer import Buffer
from tidegate.settings import RouteSettings

EVENTS = "s3:ObjectCreated:*"
"""All of them: large files arrive as CompleteMultipartUpload, copies as Copy."""


class Landing(Construct):
    """One bucket for each that the routes name: created here, or only subscribed to if it exists already."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        routes: Iterable[RouteSettings],
        buffer: Buffer,
        keep_versions: cdk.Duration,
    ) -> None:
        super().__init__(scope, id)
        self._notifying: list[IConstruct] = []
        self._routes = sorted(routes, key=lambda route: (route.bucket, route.name))
        for name, group in groupby(self._routes, key=lambda route: route.bucket):
            on_bucket = list(group)
            permission = buffer.accept_from(_bucket_arn(self, name))
            if on_bucket[0].existing:
                self._subscribe(name, on_bucket, buffer, permission)
            else:
                self._create(name, on_bucket, buffer, permission, keep_versions)

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` read the uploads of the routes, each at the version that was notified."""
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:GetObject", "s3:GetObjectVersion"],
            resource_arns=[
                f"{_bucket_arn(self, route.bucket)}/{_literal(route.prefix)}*{_literal(route.suffix)}"
                for route in self._routes
            ],
        )
        # Without these S3 answers 403 for an object that was deleted since, and "vanished" could not be told
        # from "no permission".
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:ListBucket", "s3:ListBucketVersions"],
            resource_arns=list(dict.fromkeys(_bucket_arn(self, route.bucket) for route in self._routes)),
        )

    def notify_after(self, reader: IDependable) -> None:
        """Have S3 notify nothing new before `reader` is up to date: while a route is added, the old code would not
        know whose the uploads are, and drop them."""
        for each in self._notifying:
            each.node.add_dependency(reader)

    def _create(
        self,
        name: str,
        routes: list[RouteSettings],
        buffer: Buffer,
        permission: IDependable,
        keep_versions: cdk.Duration,
    ) -> None:
        versioned = routes[0].versioned
        bucket = private_bucket(
            self,
            name,
            bucket_name=name,
            # an upload that is overwritten before it was read can still be read
            versioned=versioned,
            lifecycle_rules=[s3.LifecycleRule(noncurrent_version_expiration=keep_versions)] if versioned else [],
        )
        # The L2 method would add a Lambda function to do what the bucket's own property does.
        resource = bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)
        arn = buffer.queue.queue_arn
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            queue_configurations=[
                s3.CfnBucket.QueueConfigurationProperty(event=EVENTS, queue=arn, filter=_filter(route))
                for route in routes
            ]
        )
        # S3 sends a test message when the notification is set up, and refuses the bucket if it may not
        resource.node.add_dependency(permission)
        self._notifying.append(resource)

    def _subscribe(self, name: str, routes: list[RouteSettings], buffer: Buffer, permission: IDependable) -> None:
        """Add to the notifications of a bucket that others own; theirs stay as they are."""
        bucket = s3.Bucket.from_bucket_name(self, name, name)
        destination = _Destination(buffer, permission)
        for route in routes:
            rules = _rules(route)
            filters = [s3.NotificationKeyFilter(**rules)] if rules else []
            bucket.add_event_notification(s3.EventType.OBJECT_CREATED, destination, *filters)
        self._notifying.append(bucket)


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


def _filter(route: RouteSettings) -> s3.CfnBucket.NotificationFilterProperty | None:
    rules = [s3.CfnBucket.FilterRuleProperty(name=name, value=value) for name, value in _rules(route).items()]
    if not rules:
        return None
    return s3.CfnBucket.NotificationFilterProperty(s3_key=s3.CfnBucket.S3KeyFilterProperty(rules=rules))


def _rules(route: RouteSettings) -> dict[str, str]:
    """What S3 filters by: it wants special characters encoded
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-filtering.html)."""
    rules = {"prefix": route.prefix, "suffix": route.suffix}
    return {name: quote_plus(value, safe="/!-_.*'()") for name, value in rules.items() if value}


def _literal(key: str) -> str:
    """As IAM wants characters that would be wildcards or variables in a resource."""
    return re.sub(r"[*?$]", lambda match: "${" + match[0] + "}", key)
