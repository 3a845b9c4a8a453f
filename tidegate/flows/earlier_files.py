"""Earlier files: what is under the prefix of a route that has taken no upload yet.

S3 announces what is uploaded from now on. Whoever makes a route for a bucket with files in it has to load those once,
by a backfill. Nothing tells the two apart before the first upload has arrived, so what was put within `RECENT` is not
counted: its notification is under way.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.audit import BEGINNING
from tidegate.core.errors import TidegateError
from tidegate.core.routes import Route
from tidegate.flows.ports import Ports
from tidegate.flows.status import RouteStatus

RECENT = 15 * 60
"""Seconds. "Typically, event notifications are delivered in seconds but can sometimes take a minute or longer"
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventNotifications.html)."""


@dataclass(frozen=True, slots=True)
class EarlierFiles:
    """`count` files are there for a route, or `more` than that: only one page was listed. `trouble`: why the bucket
    could not be listed, "" if it could."""

    route: Route
    count: int = 0
    more: bool = False
    trouble: str = ""


def earlier_files(statuses: Iterable[RouteStatus], ports: Ports) -> list[EarlierFiles]:
    """Two requests for each route that is configured and has taken no upload, none for others."""
    found = [_of_route(each.route, ports) for each in statuses if _unused(each)]
    return [each for each in found if each.count or each.trouble]


def _unused(each: RouteStatus) -> bool:
    return each.configured and not (each.route.retired or each.uploads.notified or each.refused)


def _of_route(route: Route, ports: Ports) -> EarlierFiles:
    try:
        page = ports.listing.page(route.bucket, route.prefix, BEGINNING, route.owner)
    except TidegateError as error:
        return EarlierFiles(route, trouble=str(error))
    before = ports.clock() - RECENT
    there = (each for each in page.listed if each.latest and not each.deletion and route.takes(each.upload))
    found = [each.upload for each in there if each.modified < before]
    if found and ports.ledger.claims_on(found[:1]):
        return EarlierFiles(route)  # another route took them, under the name that this one had before
    return EarlierFiles(route, len(found), page.after is not None)
