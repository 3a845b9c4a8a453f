"""The version that everything written down carries as `v`: a reader of older code stops instead of misreading it.

What older code wrote stays readable for ever: notices wait in queues, archives and dead letters, batches for a person.
"""

from typing import Any

from tidegate.core.errors import Rejected


def check_version(version: Any, what: str, newest: int) -> None:
    """Raises Rejected if `version` is none that code which writes `newest` reads; `what` begins the sentence."""
    # True equals 1, and 1.0 too
    if type(version) is not int or not 1 <= version <= newest:
        advice = ": newer code wrote it, deploy that" if type(version) is int and version > newest else ""
        raise Rejected(f"{what} has version {version!r}; this code reads {newest}{advice}")
