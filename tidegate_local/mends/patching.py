"""How moto is changed: what is replaced has to be there."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def patch(owner: type | ModuleType, **replacements: Any) -> None:
    """Replace attributes of a class or a module of moto's. They must be there, so that a new release does not pass
    unnoticed."""
    for name, replacement in replacements.items():
        if name not in vars(owner) and name != "_messages":
            raise AttributeError(f"{owner.__name__} of this moto has no {name}: look at what the repair was for")
        setattr(owner, name, replacement)
