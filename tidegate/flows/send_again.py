"""Send again: send uploads whose same bytes had ended without a row in a new notice.

The notice names their owners, because an ordinary notice takes nothing over (rule 4, docs/adr/0020). Its id is a hash
of its content: a repeat, after a crash or by a twin, makes the same notice.
"""

from collections import defaultdict
from collections.abc import Iterable

from tidegate.core.errors import Retryable
from tidegate.core.notices import ORIGIN_AGAIN, Entry, pack_entries
from tidegate.flows.ports import Ports
from tidegate.metrics import Metric


def send_again(route: str, entries: Iterable[Entry], ports: Ports) -> None:
    """Raises Retryable if the topic did not accept all notices: acknowledge nothing, and note nothing as done."""
    by_bucket: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_bucket[entry.upload.bucket].append(entry)
    for bucket, found in by_bucket.items():
        notices = list(pack_entries(route, bucket, found, origin=ORIGIN_AGAIN))
        if len(ports.topic.publish(notices)) < len(notices):
            raise Retryable(f"route {route}: the topic did not take the notice of {len(found)} repeated uploads")
        ports.measure(Metric.UPLOADS_AGAIN, len(found), route)
