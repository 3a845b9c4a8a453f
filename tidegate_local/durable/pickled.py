"""moto's objects as bytes, and back.

Whoever puts another file into a stack's folder must not run code with it: nothing is loaded but classes of moto's four
services and a few plain types. An object is made by its class, and then takes what the file has of it. So what a newer
moto has added is as that one makes it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

from moto.dynamodb.models.dynamo_type import LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.s3.models import FakeBucket, FakeKey
from moto.sns.models import SNSBackend, Subscription, Topic, sns_backends
from moto.sqs.models import Message, Queue

from tidegate_local.environment import ACCOUNT, REGION

_MADE_WITH: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    FakeBucket: lambda each: (each.name, ACCOUNT, REGION),
    FakeKey: lambda each: (each.name, b"", ACCOUNT, REGION),
    Queue: lambda each: (each.name, REGION, ACCOUNT),
    Message: lambda each: (each.id, each.body),
    Topic: lambda each: (each.name, each.sns_backend),
    Subscription: lambda each: (ACCOUNT, each.topic, each.endpoint, each.protocol),
    Table: lambda each: (each.name, ACCOUNT, REGION, each.schema, each.attr),
}
_LEFT_OUT = frozenset(
    (
        # what has rows of its own: versions and their bytes, messages, items
        *("keys", "_value_buffer", "mailbox", "items"),
        # what ends with the process: parts of an upload, locks, what was ever published
        *("multiparts", "multipart", "lock", "_messages_lock", "_pending_messages", "sent_notifications"),
        # what leads to another object, which may be gone
        *("dead_letter_queue", "sns_backend"),
    )
)
_MODULES = tuple(f"moto.{each}." for each in ("core", "dynamodb", "s3", "sns", "sqs", "utilities"))
_PLAIN = {
    "builtins": ("bytearray", "set"),
    "collections": ("OrderedDict", "defaultdict"),
    "datetime": ("datetime", "timedelta", "timezone"),
    __name__: ("take", "limited"),
}


def dumps(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return file.getvalue()


def loads(content: bytes) -> Any:
    """Raises UnpicklingError for what `dumps` does not write."""
    return _Unpickler(io.BytesIO(content)).load()


def take(made: Any, state: dict[str, Any]) -> None:
    vars(made).update(state)


def limited(attributes: dict[str, Any]) -> LimitedSizeDict:
    """An item's attributes, past the check of their size, which looks at all of them for each."""
    made = LimitedSizeDict()
    dict.update(made, attributes)
    return made


class _Pickler(pickle.Pickler):
    def persistent_id(self, found: Any) -> str | None:
        return "sns" if isinstance(found, SNSBackend) else None

    def reducer_override(self, found: Any) -> Any:
        if type(found) is LimitedSizeDict:
            return limited, (dict(found),)
        if type(found) not in _MADE_WITH:
            return NotImplemented
        state = {name: value for name, value in vars(found).items() if name not in _LEFT_OUT}
        return type(found), _MADE_WITH[type(found)](found), state, None, None, take


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: str) -> Any:
        return sns_backends[ACCOUNT][REGION]

    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()):
            return super().find_class(module, name)
        found = super().find_class(module, name) if module.startswith(_MODULES) else None
        if not isinstance(found, type) or found.__module__ != module:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of what the services hold")
        return found
