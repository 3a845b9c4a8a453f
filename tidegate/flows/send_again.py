"""Send again: uploads whose same bytes had ended without a row travel once more, in a notice made for them.

Made for them, because an ordinary notice takes nothing over (rule 4, docs/adr/0020). Its id is a hash of its content: a
repeat of this, after a crash or by a twin, makes the same notice.
"""

from collections import defaultdict
from collections.abc import Iterable

from tidegate.core.errors import Retryable
from tidegate.core.notices import ORIGIN_AGAIN, Entry, pack_entries
from tidegate.flows.ports import Counter, Topic


def send_again(route: str, entries: Iterable[Entry], *, topic: Topic, count: Counter) -> None:
    """Raises Retryable if the topic did not take all of it: acknowledge nothing, and note nothing as done."""
    by_bucket: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_bucket[entry.upload.bucket].append(entry)
    for bucket, found in by_bucket.items():
        notices = list(pack_entries(route, bucket, found, origin=ORIGIN_AGAIN))
        if len(topic.publish(notices)) < len(notices):
            raise Retryable(f"route {route}: the topic did not take the notice of {len(found)} repeated uploads")
        count("UploadsAgain", len(found), route)
