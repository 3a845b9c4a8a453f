"""Shorter waits on this machine: a worker that is always there, and, for tests of a whole stack, audits that take an
upload for lost after seconds and not after 12 hours.

`LOCAL_STACK_HURRY` in the environment of whoever starts a stack holds other values of `tidegate.settings.fixed`, as
JSON: names of it in lower case, and fields of its `BATCH`. Only the functions of a local stack read it. What is
deployed has no such door.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, replace

from tidegate.core.workers import ALWAYS
from tidegate.settings import fixed

HURRY = "LOCAL_STACK_HURRY"


def stay_always() -> None:
    """Have a worker always there in the stacks that this process starts, unless their file says how long it stays: here
    it costs nobody money, and a first upload lands in seconds."""
    os.environ[HURRY] = json.dumps({"stay": ALWAYS, **json.loads(os.environ.get(HURRY) or "{}")})


def hurry(environment: Mapping[str, str] = os.environ) -> None:
    """Have this process run by what the environment holds. Raises AttributeError for a name that is none."""
    given: dict[str, int] = json.loads(environment.get(HURRY) or "{}")
    of_batch = {field.name for field in fields(fixed.BATCH)} & given.keys()
    fixed.BATCH = replace(fixed.BATCH, **{name: given[name] for name in of_batch})
    for name in given.keys() - of_batch:
        getattr(fixed, name.upper())
        setattr(fixed, name.upper(), given[name])
