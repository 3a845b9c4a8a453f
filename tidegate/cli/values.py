"""Values of a table as text, and as JSON has them."""

import base64
import datetime
import json
import math
from decimal import Decimal
from typing import Any

from tidegate.cli import printed


def plain(value: Any) -> Any:
    """A value as JSON can hold it without losing anything: decimals, times and what is no number are text, bytes are
    base64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return format(value, "f")
        case datetime.datetime():
            return value.isoformat().replace("+00:00", "Z")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return str(value)


def text(value: Any) -> str:
    """A value in one line of a file or of a terminal: nothing for null, JSON for what is nested."""
    match plain(value):
        case None:
            return ""
        case bool() as truth:
            return "true" if truth else "false"
        case dict() | list() as nested:
            return json.dumps(nested, ensure_ascii=False)
        case other:
            return str(other)


def visible(value: Any) -> str:
    """`text` for a terminal: what would move the cursor or end the line is shown as an escape."""
    return printed.visible(text(value))
