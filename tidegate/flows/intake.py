"""Intake: S3's notifications become notices on the topic.

The bridge that S3 cannot be: it notifies no FIFO topic. It keeps no state and decides nothing that matters. If it
dies anywhere, its messages are delivered again and perhaps packed differently; the ledger refuses what came twice.
A message is acknowledged only when every notice that carries an upload of it was accepted by the topic.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from tidegate.core.errors import TidegateError
from tidegate.core.notices import pack
from tidegate.core.notifications import Garbage, NotAnUpload, Notified, parse
from tidegate.core.routes import Route, is_folder, route_of
from tidegate.core.uploads import Upload
from tidegate.flows.ports import Counter, DeadLetters, Delivery, Topic


def intake(
    deliveries: Iterable[Delivery],
    *,
    routes: Sequence[Route],
    topic: Topic,
    dead_letters: DeadLetters,
    count: Counter,
    ignore: Sequence[tuple[str, str]] = (),
    tell: Callable[[Upload], None] = lambda upload: None,
) -> frozenset[str]:
    """The ids of the deliveries to give back.

    `ignore` says in which buckets and under which prefixes uploads are meant to have no route; `tell` is told of every
    other upload that no route takes.
    """
    give_back: set[str] = set()
    gathered: dict[str, dict[Upload, set[str]]] = defaultdict(lambda: defaultdict(set))
    for delivery in deliveries:
        for record in parse(delivery.body):
            match record:
                case Notified(upload) if is_folder(upload):
                    count("RecordsNotUploads", 1)
                case Notified(upload):
                    if route := route_of(upload, routes):
                        gathered[route.name][upload].add(delivery.id)
                    elif _ignored(upload, ignore):
                        count("UploadsIgnored", 1)
                    else:
                        count("UploadsOfNoRoute", 1)
                        tell(upload)
                case NotAnUpload():
                    count("RecordsNotUploads", 1)
                case Garbage(body, reason):
                    count("RecordsSetAside", 1)
                    try:
                        dead_letters.set_aside(body, reason)
                    except TidegateError:
                        give_back.add(delivery.id)
    for route in routes:
        if uploads := gathered.get(route.name):
            give_back |= _publish(route, uploads, topic, count)
    return frozenset(give_back)


def _ignored(upload: Upload, places: Iterable[tuple[str, str]]) -> bool:
    return any(upload.bucket == bucket and upload.key.startswith(prefix) for bucket, prefix in places)


def _publish(route: Route, uploads: dict[Upload, set[str]], topic: Topic, count: Counter) -> set[str]:
    """Publish the uploads; the ids of the deliveries of those that were not accepted."""
    notices = list(pack(route.name, route.bucket, uploads))
    try:
        accepted = topic.publish(notices)
    except TidegateError:
        accepted = frozenset()
    delivered_by: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for upload, deliveries in uploads.items():
        delivered_by[upload.identity] |= deliveries
    refused: set[str] = set()
    for notice in notices:
        if notice.id in accepted:
            count("UploadsNotified", len(notice.entries), route.name)
        else:
            refused.update(*(delivered_by[entry.upload.identity] for entry in notice.entries))
    return refused
