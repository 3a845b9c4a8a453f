"""The register of resource types: who creates one, and which of its properties mean nothing on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate_local.loader.loading import Loading

Properties = dict[str, Any]
"""What the template says of one resource, without intrinsic functions. Whoever applies a property takes it out."""


@dataclass(frozen=True, slots=True)
class Created:
    """What `Ref` and `Fn::GetAtt` answer for a resource."""

    ref: str
    attributes: Mapping[str, str] = field(default_factory=dict)


Create = Callable[["Loading", str, Properties], Created]


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A type of resource that is created here; `ignored` has the reason for each property that is not applied."""

    create: Create
    ignored: Mapping[str, str]


KINDS: dict[str, ResourceType] = {}


def creates(kind: str, ignored: Mapping[str, str] | None = None) -> Callable[[Create], Create]:
    """Registers the function that creates resources of this type. What it leaves in the properties is not applied."""

    def register(create: Create) -> Create:
        KINDS[kind] = ResourceType(create, ignored or {})
        return create

    return register
