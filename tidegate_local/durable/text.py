"""JSON for what moto holds, which may be bytes, too."""

from __future__ import annotations

import base64
import json
from typing import Any

_BYTES = "$bytes"


def dumps(value: Any) -> str:
    """Raises TypeError for what is neither JSON nor bytes."""
    return json.dumps(value, default=_as_json)


def loads(text: str) -> Any:
    return json.loads(text, object_hook=_from_json)


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(f"{value!r} cannot be kept")


def _from_json(value: dict[str, Any]) -> Any:
    return base64.b64decode(value[_BYTES]) if value.keys() == {_BYTES} else value
