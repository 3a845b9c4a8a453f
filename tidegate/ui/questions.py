"""What a page asks the deployment for. The answers are the documents of `tidegate.cli.json_output`, so that a page and
a verb cannot say different things.

    page          what it asks for                                  how often
    flow, route   the flow of `status` (`flows.overview`)           every two seconds while it is open
    batches       the flow of `batches` (`flows.batch_list`)        every ten, if it shows the newest
    trace         the flow of `trace`                               every two, while an upload is pending
                  a search: the flow of `files` (`flows.files`)     when it is asked for
    quarantine    what `resend quarantine` finds, 100 at most       when it is opened

One question of a kind at a time: pages that are open side by side do not multiply what is asked, and a slow question
does not hold the pages that ask something else. A release is of the same kind as the list of the quarantine.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any

import typer

from tidegate.cli import json_output
from tidegate.cli.deployment import known_names
from tidegate.cli.options import check_route
from tidegate.cli.resend import other_ways
from tidegate.cli.selecting import found_in
from tidegate.core.errors import TidegateError
from tidegate.core.routes import Route, route_of
from tidegate.core.uploads import Upload
from tidegate.flows.batch_list import Wanted, batch_page
from tidegate.flows.files import WantedFiles, files_page
from tidegate.flows.nearest import nearest
from tidegate.flows.overview import Overview, overview
from tidegate.flows.ports import Ports
from tidegate.flows.quarantine import Selection
from tidegate.flows.resend import release
from tidegate.flows.trace import trace
from tidegate.wiring import BATCH_IDS, Deployment

LISTED = 100
"""Uploads in quarantine on one page."""
RELEASED = 500
"""Uploads that the page releases at once: each batch costs four requests, and the list of the quarantine waits."""
BATCHES = 30
"""Batches on one page."""
FILES = 30
"""Uploads that a search finds."""
MOST_WAITING = 100
"""Announcements that are counted at each look."""
FRESH = 1.0
"""Seconds for which an answer serves every page that is open."""


Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WantedQuarantine:
    """Which uploads in quarantine are meant: of which route, None for all, and the selection."""

    route: str | None
    selection: Selection


@dataclass(frozen=True, slots=True)
class Seen:
    """The same twice: what was read, and what `tidegate status --json` prints of it."""

    overview: Overview
    document: Document


@dataclass(frozen=True, slots=True)
class Releasable:
    """What a release would take. `remarks`: what a person may not expect of the routes that these go through. `more`:
    there are more than the page releases."""

    count: int
    first: Document
    remarks: tuple[str, ...]
    more: bool
    asked_at: int


@dataclass
class Questions:
    """The questions of the pages to one deployment. `monotonic` is in seconds."""

    deployed: Deployment
    monotonic: Callable[[], float] = time.monotonic
    _turns: dict[str, Lock] = field(default_factory=dict)
    _seen: tuple[float, Seen] | None = None

    @property
    def name(self) -> str:
        return self.deployed.resources.deployment

    @property
    def routes(self) -> Mapping[str, Route]:
        return self.deployed.routes

    def _turn(self, kind: str) -> Lock:
        return self._turns.setdefault(kind, Lock())

    def status(self) -> Seen:
        """As `tidegate status`."""
        with self._turn("status"):
            if self._seen is None or self.monotonic() - self._seen[0] >= FRESH:
                found = overview(
                    self.deployed.routes, self.deployed.ports(), self.deployed.letters(), most_waiting=MOST_WAITING
                )
                self._seen = (self.monotonic(), Seen(found, json_output.status(self.name, found)))
            return self._seen[1]

    def batches(self, wanted: Wanted, after: str) -> Document:
        """As `tidegate files --batches --json`. Raises BadParameter for a route that is not there, or an `after` that
        is no batch."""
        with self._turn("batches"):
            ports = self.deployed.ports()
            if wanted.route:
                check_route(wanted.route, known_names(self.deployed.routes, ports))
            page = batch_page(ports, BATCH_IDS, wanted, after=_batch_id(after), limit=BATCHES)
            return json_output.batches(page, ports.clock())

    def trace(self, bucket: str, key: str) -> Document:
        """As `tidegate trace --json`, and whether a route takes the key today."""
        with self._turn("trace"):
            ports = self.deployed.ports()
            traces = trace(bucket, key, ports)
            taken = route_of(Upload(bucket, key, version="", size=0), self.routes.values())
            near = _near(bucket, key, taken, ports) if taken and not traces else []
            return {**json_output.trace(f"s3://{bucket}/{key}", traces, near), "taken": taken is not None}

    def files(self, words: str) -> Document:
        """As `tidegate files --json`: those whose keys have these words in them, or match them as a pattern."""
        pattern = words if any(each in words for each in "*?[") else f"*{words}*"
        with self._turn("files"):
            page = files_page(self.deployed.ports(), BATCH_IDS, WantedFiles(key=pattern), limit=FILES)
            return json_output.files(page)

    def quarantine(self, wanted: WantedQuarantine) -> Document:
        """What `tidegate resend quarantine` would send."""
        with self._turn("quarantine"):
            coming = self._found(self.deployed.ports(), wanted)
            found = list(islice(coming, LISTED))
            return json_output.document(more=next(coming, None) is not None, uploads=found)

    def names(self) -> Sequence[str]:
        """The routes that quarantine may be of."""
        with self._turn("names"):
            return known_names(self.deployed.routes, self.deployed.ports())

    def releasable(self, wanted: WantedQuarantine) -> Releasable:
        with self._turn("quarantine"):
            ports = self.deployed.ports()
            asked_at = ports.clock()
            found = list(islice(self._found(ports, wanted), RELEASED + 1))
            remarks = tuple(other_ways(found, self.deployed, ports))
        first = json_output.document(more=len(found) > LISTED, uploads=found[:LISTED])
        return Releasable(min(len(found), RELEASED), first, remarks, len(found) > RELEASED, asked_at)

    def release(self, wanted: WantedQuarantine) -> int:
        """As `tidegate resend quarantine`, `RELEASED` uploads at most. Returns how many were sent."""
        with self._turn("quarantine"):
            ports = self.deployed.ports(f"release-{uuid.uuid4().hex}")
            began = ports.clock()
            coming = islice(self._found(ports, wanted), RELEASED)
            done = release(coming, ports, run=ports.new_id(), configured=self.deployed.routes, began=began)
        with self._turn("status"):  # what was being read meanwhile may be from before
            self._seen = None
        return done.sent

    def _found(self, ports: Ports, wanted: WantedQuarantine) -> Iterator[Any]:
        return found_in(self.deployed, ports, wanted.route, wanted.selection)


def _batch_id(given: str) -> str:
    try:
        if given:
            BATCH_IDS.made_at(given)
        return given
    except ValueError:
        raise typer.BadParameter(f"{given!r} is no batch: the page before has the link to the next one") from None


def _near(bucket: str, key: str, taken: Route, ports: Ports) -> list[str]:
    """None if they cannot be looked for: that must not hide the answer."""
    try:
        return [f"s3://{bucket}/{each}" for each in nearest(bucket, key, taken.name, ports, BATCH_IDS)]
    except TidegateError:
        return []
