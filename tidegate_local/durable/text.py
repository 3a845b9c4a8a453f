"""JSON for what moto holds, which may be bytes, too."""

from __future__ import annotations

import base64
import json
from typing import Any

_BYTES, _PAIRS = "$bytes", "$pairs"
"""The only name of an object that stands for bytes; and of one that stands for an object with such a name."""


def dumps(value: Any) -> str:
    """Raises TypeError for what is neither JSON nor bytes."""
    return json.dumps(_as_json(value))


def loads(text: str) -> Any:
    return json.loads(text, object_hook=_from_json)


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict):
        inner = {name: _as_json(each) for name, each in value.items()}
        return {_PAIRS: [next(iter(inner.items()))]} if inner.keys() in ({_BYTES}, {_PAIRS}) else inner
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value


def _from_json(value: dict[str, Any]) -> Any:
    if value.keys() == {_BYTES}:
        return base64.b64decode(value[_BYTES])
    return dict(value[_PAIRS]) if value.keys() == {_PAIRS} else value
