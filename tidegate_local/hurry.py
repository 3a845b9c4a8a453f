"""Shorter waits for tests of a whole stack: an audit takes an upload for lost after 12 hours, and no test waits that
long.

`LOCAL_STACK_HURRY` in the environment of whoever starts a stack holds other values of `tidegate.settings.fixed`, as
JSON: names of it in lower case, and fields of its `BATCH`. Only the functions of a local stack read it. What is
deployed has no such door.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, replace

from tidegate.settings import fixed

HURRY = "LOCAL_STACK_HURRY"


def hurry(environment: Mapping[str, str] = os.environ) -> None:
    """Have this process run by what the environment holds. Raises AttributeError for a name that is none."""
    given: dict[str, int] = json.loads(environment.get(HURRY) or "{}")
    of_batch = {field.name for field in fields(fixed.BATCH)} & given.keys()
    fixed.BATCH = replace(fixed.BATCH, **{name: given[name] for name in of_batch})
    for name in given.keys() - of_batch:
        getattr(fixed, name.upper())
        setattr(fixed, name.upper(), given[name])
