"""Values of a table as text, and as JSON has them."""

import base64
import datetime
import json
import math
from decimal import Decimal
from typing import Any

from tidegate.cli import printed

SPARK_NAMES = {
    "int": "int",
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "fixed": "binary",
}
"""Iceberg's names of types that Spark, and so `tidegate.toml`, has other names for."""


def type_name(iceberg: Any) -> str:
    """The type of a column, as table metadata has it, in the words of `tidegate.toml`."""
    match iceberg:
        case {"type": "struct", "fields": fields}:
            inner = (f"{each['name']}: {type_name(each['type'])}" for each in fields)
            return f"struct<{', '.join(inner)}>"
        case {"type": "list", "element": element}:
            return f"array<{type_name(element)}>"
        case {"type": "map", "key": key, "value": value}:
            return f"map<{type_name(key)}, {type_name(value)}>"
        case _:
            name = str(iceberg).replace(", ", ",")
            return SPARK_NAMES.get(name.partition("[")[0], name)


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
