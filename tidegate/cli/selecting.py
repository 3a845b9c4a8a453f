"""What of quarantine is meant: the options that `resend` and `abort` have in common."""

import difflib
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, NamedTuple

import typer

from tidegate import wiring
from tidegate.cli import deployment
from tidegate.cli.options import SINCE_WHEN, WHEN, check_route, confirm, span
from tidegate.core.quantities import counted
from tidegate.flows.ports import Ports
from tidegate.flows.quarantine import EVERYTHING, Quarantined, Selection, quarantined
from tidegate.wiring import Deployment

QUARANTINE, LETTERS = "quarantine", "dead-letters"
"""The words that a person types for it, and for the dead letters of both queues."""
COUNTED = 10_000
"""How many uploads are counted, and kept in memory, before the question whether to go on."""

ErrorOption = Annotated[
    str, typer.Option("--error", metavar="TEXT", help="Of quarantine: only errors that contain this, in any case.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar=WHEN,
        help=f"Of quarantine: only batches settled at or after; of a reload: only what was put then: {SINCE_WHEN}.",
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar=WHEN, help="Of quarantine, and of a reload: only before this.")
]


class Selected(NamedTuple):
    """What of quarantine a person has named. `route` is None for all of them."""

    route: str | None
    selection: Selection

    @property
    def all(self) -> bool:
        return self == (None, EVERYTHING)


def refuse_misspelt(what: str, words: Sequence[str]) -> None:
    """Raises BadParameter for what is nearly one of these words, and not one of them."""
    if what not in words and (meant := difflib.get_close_matches(what.lower(), words, cutoff=0.7)):
        raise typer.BadParameter(f"{what!r} is no batch: did you mean `{meant[0]}`?")


def selected(route: str | None, key: str, error: str, since: str | None, until: str | None) -> Selected:
    """Raises BadParameter."""
    begin, end = span(since, until, wiring.clock())
    return Selected(route, Selection(begin or 0, end, key, error))


class FoundQuarantined(NamedTuple):
    """What a selection found: the first uploads, `COUNTED` and one at most, and those that follow."""

    first: Sequence[Quarantined]
    rest: Iterator[Quarantined]

    @property
    def each(self) -> Iterator[Quarantined]:
        return chain(self.first, self.rest)

    @property
    def counted(self) -> str:
        more = "more than " if len(self.first) > COUNTED else ""
        return f"{more}{counted(min(len(self.first), COUNTED), 'upload')}"

    def confirm(self, what: str) -> None:
        """Ask whether to do `what` to these."""
        confirm(f"{what} {self.counted}?")


def find(wanted: Selected, deployed: Deployment, ports: Ports) -> FoundQuarantined:
    coming = found_in(deployed, ports, wanted.route, wanted.selection)
    return FoundQuarantined(list(islice(coming, COUNTED + 1)), coming)


def found_in(deployed: Deployment, ports: Ports, route: str | None, selection: Selection) -> Iterator[Quarantined]:
    """Raises BadParameter for a route that neither the configuration nor the ledger has."""
    names = deployment.known_names(deployed.routes, ports)
    check_route(route, names)
    for name in [route] if route is not None else names:
        yield from quarantined(name, selection, ports)
