"""Intake: S3's notifications become notices on the topic.

S3 cannot notify a FIFO topic, so intake does. It keeps no state and takes no decision. If it dies at any step, its
messages are delivered again, and perhaps packed differently. The ledger refuses the duplicates. A message is
acknowledged only after the topic has accepted every notice with an upload from it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from tidegate.core.errors import TidegateError
from tidegate.core.notices import pack
from tidegate.core.notifications import Garbage, NotAnUpload, Notified, parse
from tidegate.core.routes import Route, is_folder, route_of
from tidegate.core.uploads import Upload
from tidegate.flows.ports import Delivery, Ports
from tidegate.metrics import Metric


def intake(
    deliveries: Iterable[Delivery],
    ports: Ports,
    *,
    routes: Sequence[Route],
    ignore: Sequence[tuple[str, str]] = (),
    tell: Callable[[Upload], None] = lambda upload: None,
) -> frozenset[str]:
    """The ids of the deliveries to give back.

    `ignore` lists the buckets and prefixes whose uploads are meant to have no route. `tell` is called with every other
    upload that no route takes.
    """
    give_back: set[str] = set()
    gathered: dict[str, dict[Upload, set[str]]] = defaultdict(lambda: defaultdict(set))
    for delivery in deliveries:
        for record in parse(delivery.body):
            match record:
                case Notified(upload) if is_folder(upload):
                    ports.measure(Metric.RECORDS_NOT_UPLOADS, 1)
                case Notified(upload):
                    if route := route_of(upload, routes):
                        gathered[route.name][upload].add(delivery.id)
                    elif _ignored(upload, ignore):
                        ports.measure(Metric.UPLOADS_IGNORED, 1)
                    else:
                        ports.measure(Metric.UPLOADS_OF_NO_ROUTE, 1)
                        tell(upload)
                case NotAnUpload():
                    ports.measure(Metric.RECORDS_NOT_UPLOADS, 1)
                case Garbage(body, reason):
                    ports.measure(Metric.RECORDS_SET_ASIDE, 1)
                    try:
                        ports.dead_letters.set_aside(body, reason)
                    except TidegateError:
                        give_back.add(delivery.id)
    for route in routes:
        if uploads := gathered.get(route.name):
            give_back |= _publish(route, uploads, ports)
    return frozenset(give_back)


def _ignored(upload: Upload, places: Iterable[tuple[str, str]]) -> bool:
    return any(upload.bucket == bucket and upload.key.startswith(prefix) for bucket, prefix in places)


def _publish(route: Route, uploads: dict[Upload, set[str]], ports: Ports) -> set[str]:
    """Publish the uploads. Returns the ids of the deliveries whose uploads the topic did not accept."""
    notices = list(pack(route.name, route.bucket, uploads))
    try:
        accepted = ports.topic.publish(notices)
    except TidegateError:
        accepted = frozenset()
    delivered_by: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for upload, deliveries in uploads.items():
        delivered_by[upload.identity] |= deliveries
    refused: set[str] = set()
    for notice in notices:
        if notice.id in accepted:
            ports.measure(Metric.UPLOADS_NOTIFIED, len(notice.entries), route.name)
        else:
            refused.update(*(delivered_by[entry.upload.identity] for entry in notice.entries))
    return refused
