"""Send again: send uploads whose owner has let go of them in a new notice.

Their same bytes had ended without a row and were uploaded again, or their notice is void, or a person redrives them.
The new notice names their owners, because an ordinary notice takes nothing over (rule 4, docs/adr/0020). Its id is a
hash of its content: a repeat, after a crash or by a twin, makes the same notice.
"""

from collections import defaultdict
from collections.abc import Iterable

from tidegate.core.errors import Retryable
from tidegate.core.notices import ORIGIN_AGAIN, ORIGIN_REDRIVE, Entry, pack_entries
from tidegate.flows.ports import Ports
from tidegate.metrics import Metric


def send_again(route: str, entries: Iterable[Entry], ports: Ports, *, origin: str = ORIGIN_AGAIN, at: int = 0) -> None:
    """Publish the entries in as few notices as hold them. `origin` names a person's redrive (`core.notices`). `at` is
    when the owners' claims were read (docs/adr/0044), 0 for just now.

    Raises Retryable if the topic did not accept all notices: acknowledge nothing, and note nothing as done."""
    by_bucket: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_bucket[entry.upload.bucket].append(entry)
    for bucket, found in by_bucket.items():
        notices = list(pack_entries(route, bucket, found, origin=origin, at=at or ports.clock()))
        if len(ports.topic.publish(notices)) < len(notices):
            raise Retryable(f"route {route}: the topic did not take the notice of {len(found)} uploads to send again")
        if not origin.startswith(ORIGIN_REDRIVE):
            ports.measure(Metric.UPLOADS_AGAIN, len(found), route)
