"""Intake: S3's notifications become notices on the topic.

S3 cannot notify a FIFO topic, so intake does. It keeps no state and takes no decision. If it dies at any step, its
messages are delivered again, and perhaps packed differently. The ledger refuses the duplicates. A message is
acknowledged only after the topic has accepted every notice with an upload from it.

A bad record is copied to the dead letters at once, with the reason, and counts as handled. If SQS moved its message
there after five deliveries, the good records of the message would wait for half an hour, and be moved too.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from tidegate.core.errors import TidegateError
from tidegate.core.notices import pack
from tidegate.core.notifications import Garbage, NotAnUpload, Notified, parse
from tidegate.core.routes import Route, RouteIndex, is_folder
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
    tell_trouble: Callable[[str], None] = lambda reason: None,
) -> frozenset[str]:
    """The ids of the deliveries to give back.

    `ignore` lists the buckets and prefixes whose uploads are meant to have no route. `tell` is called with every other
    upload that no route takes, `tell_trouble` with each reason to give something back.
    """
    index = RouteIndex(routes)
    give_back: set[str] = set()
    counted: Counter[Metric] = Counter()
    gathered: dict[str, dict[Upload, set[str]]] = defaultdict(lambda: defaultdict(set))
    for delivery in deliveries:
        for record in parse(delivery.body):
            match record:
                case Notified(upload, deletion) if is_folder(upload) or (deletion and not _follows(index, upload)):
                    counted[Metric.RECORDS_NOT_UPLOADS] += 1
                case Notified(upload):
                    if route := index.route_of(upload):
                        gathered[route.name][upload].add(delivery.id)
                    elif _ignored(upload, ignore):
                        counted[Metric.UPLOADS_IGNORED] += 1
                    else:
                        counted[Metric.UPLOADS_OF_NO_ROUTE] += 1
                        tell(upload)
                case NotAnUpload():
                    counted[Metric.RECORDS_NOT_UPLOADS] += 1
                case Garbage(body, reason):
                    counted[Metric.RECORDS_SET_ASIDE] += 1
                    try:
                        ports.dead_letters.set_aside(body, reason)
                    except TidegateError as error:
                        give_back.add(delivery.id)
                        tell_trouble(str(error))
    for metric, records in counted.items():
        # one line of the log for all of them
        ports.measure(metric, records)
    give_back |= _publish(gathered, routes, ports, tell_trouble)
    return frozenset(give_back)


def _follows(index: RouteIndex, upload: Upload) -> bool:
    """Whether its route removes what is deleted."""
    route = index.route_of(upload)
    return route is not None and route.dataset.removes


def _ignored(upload: Upload, places: Iterable[tuple[str, str]]) -> bool:
    return any(upload.bucket == bucket and upload.key.startswith(prefix) for bucket, prefix in places)


def _publish(
    gathered: Mapping[str, Mapping[Upload, set[str]]],
    routes: Iterable[Route],
    ports: Ports,
    tell_trouble: Callable[[str], None],
) -> frozenset[str]:
    """Publish the uploads of all routes together. Returns the ids of the deliveries whose uploads the topic did not
    accept."""
    notices = [
        notice
        for route in routes
        if route.name in gathered
        for notice in pack(route.name, route.bucket, gathered[route.name])
    ]
    try:
        accepted = ports.topic.publish(notices) if notices else frozenset()
    except TidegateError as error:
        accepted = frozenset()
        tell_trouble(str(error))
    else:
        if len(accepted) < len(notices):
            tell_trouble(f"the topic did not accept {len(notices) - len(accepted)} of {len(notices)} notices")
    delivered_by: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for uploads in gathered.values():
        for upload, deliveries in uploads.items():
            delivered_by[upload.identity] |= deliveries
    notified: Counter[str] = Counter()
    refused: set[str] = set()
    for notice in notices:
        if notice.id in accepted:
            notified[notice.route] += len(notice.entries)
        else:
            refused.update(*(delivered_by[entry.upload.identity] for entry in notice.entries))
    for route_name, uploads_accepted in notified.items():
        ports.measure(Metric.UPLOADS_NOTIFIED, uploads_accepted, route_name)
    return frozenset(refused)
