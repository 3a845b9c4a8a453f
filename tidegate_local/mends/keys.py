"""What an object may be called, and where a listing goes on."""

from __future__ import annotations

from typing import Any

from moto.moto_server.utilities import RegexConverter
from moto.s3.models import S3Backend

from tidegate_local.mends.patching import patch


def keys_may_hold_line_breaks() -> None:
    """A key is "a sequence of Unicode characters", any of them
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html). moto's routes stop at a line break, which
    `.` does not match there.
    """
    original = RegexConverter.__init__

    def whole(converter: RegexConverter, url_map: Any, *items: Any) -> None:
        original(converter, url_map, *items)
        converter.regex = f"(?s:{converter.regex})"

    patch(RegexConverter, __init__=whole)


def a_listing_of_versions_goes_on_after_any_text() -> None:
    """`KeyMarker` without a version is any text, and the listing goes on with the first key after it
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectVersions.html). moto takes it for a key that it has
    listed: it leaves out the first version that follows.
    """
    original = S3Backend.list_object_versions

    def list_object_versions(backend: S3Backend, bucket_name: str, *given: Any, **named: Any) -> Any:
        marker = named.get("key_marker")
        if marker and not named.get("version_id_marker"):
            keys = backend.get_bucket(bucket_name).keys
            last = max((key for key in keys if key <= marker), default=None)
            # the version that moto lists last: what follows it is what follows the text
            versions = sorted(keys.getlist(last), key=lambda each: each.last_modified) if last is not None else []
            named["key_marker"] = last
            named["version_id_marker"] = versions[0].version_id if versions else None
        return original(backend, bucket_name, *given, **named)

    patch(S3Backend, list_object_versions=list_object_versions)
