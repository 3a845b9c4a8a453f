"""The version `v` of each file, message and record. Older code refuses a newer version, so it cannot misread it.

What older code wrote stays readable for ever: notices wait in queues, archives and dead letters, batches for a person.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tidegate.core.errors import Rejected


def check_version(version: Any, what: str, newest: int) -> None:
    """Raises Rejected unless `version` is from 1 to `newest`. `what` begins the message."""
    # True equals 1, and 1.0 too
    if type(version) is not int or not 1 <= version <= newest:
        advice = ": newer code wrote it, deploy that" if type(version) is int and version > newest else ""
        raise Rejected(f"{what} has version {version!r}; this code reads {newest}{advice}")


def known_fields(of: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Without what newer code has added to a record of this dataclass: older code goes on without it."""
    names = {field.name for field in fields(of)}
    return {name: value for name, value in given.items() if name in names}
