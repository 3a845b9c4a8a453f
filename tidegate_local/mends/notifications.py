"""What S3 tells of an upload
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote_plus

from moto.s3 import notifications
from moto.s3.models import Notification, S3Backend

from tidegate_local.announcer import Announcer
from tidegate_local.environment import client
from tidegate_local.mends.patching import patch

_UNENCODED = "/!-_.*'()"
"""What S3 leaves as it is in a notification's key (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html),
and in the values of a notification's filter."""


def notifications_name_the_version() -> None:
    """ "If the bucket is versioning-enabled", a notification holds the `versionId`
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html).

    Without it the same upload would be known under two identities, one from its notification and one from a listing.
    """

    def name(details: dict[str, Any], bucket: Any, key: Any) -> None:
        if bucket.is_versioned and key.version_id and key.version_id != "null":
            details["versionId"] = key.version_id

    _amend(name)


def notifications_of_a_key_are_in_order() -> None:
    """Of two notifications of one key the later has the greater `sequencer`, "a hexadecimal value"
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html)."""
    counter = itertools.count(time.time_ns() // 1000)

    def order(details: dict[str, Any], bucket: Any, key: Any) -> None:
        details["sequencer"] = f"{next(counter):018X}"

    _amend(order)


def notifications_encode_keys() -> None:
    """ "The object key name value is URL encoded"
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html)."""

    def encode(details: dict[str, Any], bucket: Any, key: Any) -> None:
        details["key"] = quote_plus(key.name, safe=_UNENCODED)

    _amend(encode)


def filters_are_compared_with_encoded_keys() -> None:
    """A filter's value is written as the key is in the notification, URL-encoded where it is special
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-filtering.html)."""
    key_matches = Notification._key_matches

    def encoded(notification: Any, key_name: str) -> bool:
        return bool(key_matches(notification, quote_plus(key_name, safe=_UNENCODED)))

    patch(Notification, _key_matches=encoded)


def a_multipart_upload_is_told_when_it_completes() -> None:
    """A multipart upload is told once, as `s3:ObjectCreated:CompleteMultipartUpload`
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-event-types-and-destinations.html)."""
    put_object = S3Backend.put_object

    def told_once(*arguments: Any, **options: Any) -> Any:
        quiet = options.get("disable_notification") or options.get("multipart") is not None
        return put_object(*arguments, **{**options, "disable_notification": quiet})

    patch(S3Backend, put_object=told_once)


def a_delete_marker_is_told() -> None:
    """A deletion in a bucket with versions is told as `s3:ObjectRemoved:DeleteMarkerCreated`, with the marker's version
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-event-types-and-destinations.html)."""
    set_delete_marker = S3Backend._set_delete_marker

    def told(backend: Any, bucket_name: str, key_name: str) -> Any:
        marker = set_delete_marker(backend, bucket_name, key_name)
        about = SimpleNamespace(name=marker.name, version_id=marker.version_id, etag="", size=0)
        event = notifications.S3NotificationEvent.OBJECT_REMOVED_DELETE_MARKER_CREATED_EVENT
        notifications.send_event(backend.account_id, event, backend.get_bucket(bucket_name), about)
        return marker

    patch(S3Backend, _set_delete_marker=told)


def _amend(change: Callable[[dict[str, Any], Any, Any], None]) -> None:
    """Have `change` look at what each notification says of its object, with the bucket and the key that it is about."""
    original = notifications._get_s3_event

    def amended(event_name: str, bucket: Any, key: Any, notification_id: str) -> dict[str, Any]:
        event: dict[str, Any] = original(event_name, bucket, key, notification_id)
        change(event["Records"][0]["s3"]["object"], bucket, key)
        return event

    notifications._get_s3_event = amended


def events_reach_the_bus(environment: Mapping[str, str]) -> None:
    """A bucket with EventBridge on tells of each object that was created
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html). moto tells its own EventBridge; here the bus
    of this machine is told."""
    announcer = Announcer(client("events", environment), lambda said: print(said, flush=True))

    def tell(account: str, bucket: Any, event_name: str, key: Any) -> None:
        named = {"bucket": {"name": bucket.name}, "object": {"key": key.name, "size": key.size}}
        announcer.publish("aws.s3", notifications._detail_type(event_name), named, bucket.arn)

    patch(notifications, _send_event_bridge_message=tell)
