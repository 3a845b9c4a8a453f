"""What `files` and `batches` have in common: a page of something, by the age of its batch."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tidegate.cli.options import SINCE_WHEN, WHEN, check_route, span

if TYPE_CHECKING:
    from tidegate.flows.batch_list import BatchIds
    from tidegate.flows.ports import Ports
    from tidegate.wiring import Deployment

T = TypeVar("T")

SHOWN, MOST = 20, 1_000
"""On a page, if nothing is said, and at most."""


@dataclass(frozen=True, slots=True)
class AskedPage:
    """What a page was asked for, as it was typed: a route, and options that leave something out. An option without a
    value, and one that was not given, are True and None."""

    route: str | None
    options: Mapping[str, str | bool | None] = field(default_factory=dict)

    @property
    def narrowing(self) -> str:
        """The options that were given, as they were typed; "" if there are none."""
        given = {"--route": self.route, **self.options}
        return " ".join(
            name if value is True else f"{name} {shlex.quote(str(value))}" for name, value in given.items() if value
        )


GatheredSinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar=WHEN, help=f"Only of batches that gathered at or after: {SINCE_WHEN}."),
]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="At most so many.")]
AfterOption = Annotated[
    str, typer.Option("--after", metavar="TOKEN", help="Go on where a page ended: what it printed as --after.")
]


def begin(since: str | None) -> int:
    """The moment of --since (epoch seconds), 0 if it is not given. Raises BadParameter."""
    from tidegate import wiring  # what calls AWS: the help does not

    return span(since, None, wiring.clock())[0] or 0


def ids() -> "BatchIds":
    from tidegate import wiring

    return wiring.BATCH_IDS


def ports_of(deployed: "Deployment", route: str | None) -> "Ports":
    """The deployment's ports. Raises BadParameter if it has no such route."""
    from tidegate.cli import deployment

    ports = deployed.ports()
    check_route(route, deployment.known_names(deployed.routes, ports))
    return ports


def token(after: str, parsed: Callable[[str], T]) -> T | None:
    """What --after says, None if it is not given. Raises BadParameter if `parsed` raises ValueError."""
    try:
        return parsed(after) if after else None
    except ValueError:
        raise typer.BadParameter(f"--after {after!r} is not what a page of this deployment has printed") from None
