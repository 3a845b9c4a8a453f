"""What runs where: the loaded stack as `stack.json`, which the local processes read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tidegate.environment import variables
from tidegate_local.errors import LocalError

FILE = "stack.json"


@dataclass(frozen=True, slots=True)
class EventSourceMapping:
    """An SQS queue that a function is invoked with. `window` in seconds."""

    queue_url: str
    queue_arn: str
    batch_size: int
    window: int
    reports_failures: bool

    @property
    def fifo(self) -> bool:
        return self.queue_arn.endswith(".fifo")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the stack. `timeout` in seconds, `memory` in MB; `code` is the folder its handler is in."""

    name: str
    arn: str
    handler: str
    code: str
    environment: Mapping[str, str]
    timeout: int
    memory: int
    sources: tuple[EventSourceMapping, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """An EventBridge rule: either `pattern` or `every` (seconds) is set. `targets` are names of functions."""

    name: str
    targets: tuple[str, ...]
    pattern: Mapping[str, Any] | None = None
    every: int = 0
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Description:
    """The loaded stack: what is in the emulated services is named in `outputs`, what is not is told by `notes`."""

    name: str
    functions: Mapping[str, Function]
    rules: tuple[Rule, ...]
    outputs: Mapping[str, str]
    notes: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    invoke: Mapping[str, str] = field(default_factory=dict)
    """Where each function answers Lambda's Invoke."""
    control: str = ""
    """Where the supervisor is asked to apply a changed configuration."""
    containers: str = ""
    """The name or address by which containers call this machine; empty if they do not reach the stack."""

    @property
    def printable(self) -> dict[str, str]:
        """The variables for a shell: endpoints, credentials, warehouse, and the outputs as the functions know them."""
        return {**self.environment, **variables(self.name, self.outputs)}

    def write(self, folder: Path) -> None:
        draft = folder / f"{FILE}.{os.getpid()}"
        draft.write_bytes(_JSON.dump_json(self, indent=1))
        os.replace(draft, folder / FILE)  # whole or not at all: processes read it as they start


_JSON = TypeAdapter(Description)


def read(folder: Path) -> Description:
    """The stack described in `folder`. Raises LocalError."""
    try:
        return _JSON.validate_json((folder / FILE).read_bytes())
    except FileNotFoundError:
        raise LocalError(
            f"no stack was started in {folder}: there is no {FILE}. Start one with `tidegate local up`"
        ) from None
    except ValidationError:
        raise LocalError(f"{folder / FILE} was written by another version of Tidegate: start the stack again") from None
