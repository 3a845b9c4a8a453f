"""Where S3 Inventory writes its lists, and which of them are recent.

S3 writes a list daily or weekly, each into a folder that is named after when it was begun
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html).
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from tidegate.core.lineage import SCHEME

OLDEST = 10 * 24 * 3_600
"""Seconds. A list is written once a week at least, and may take two days."""
MANIFEST = "manifest.json"
"""Names the files of a list, and comes last."""
_FOLDER = r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}Z"


def place_of(folder: str) -> tuple[str, str]:
    """The bucket of a URI that ends in `BUCKET/CONFIGURATION`, and the prefix there, without a slash at its end."""
    place, _, prefix = folder.removeprefix(SCHEME).strip("/").partition("/")
    return place, prefix


def oldest_name(now: int) -> str:
    """The name of a list's folder that was begun `OLDEST` seconds before `now` (epoch seconds)."""
    return f"{datetime.fromtimestamp(now - OLDEST, UTC):%Y-%m-%dT%H-%MZ}"


def recent(names: Iterable[str], now: int) -> list[str]:
    """Those of the names that are folders of lists and not older than `OLDEST`, the newest first."""
    oldest = oldest_name(now)
    return sorted((each for each in names if re.fullmatch(_FOLDER, each) and each >= oldest), reverse=True)
