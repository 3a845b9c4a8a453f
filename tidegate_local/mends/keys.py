"""What an object may be called."""

from __future__ import annotations

from typing import Any

from moto.moto_server.utilities import RegexConverter

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
