"""Send: uploads that were found go into new notices.

Every way back ends here: what an audit, a backfill, a rebuild or a resend has found, what a void notice leaves, and
what came again before its first ending was known. Nothing is decided here. Each entry names the owner that it is taken
from, if there is one, because an ordinary notice takes nothing over (rule 4, docs/adr/0020). Dispatch takes it over
only if that owner has let go, and still is the owner.

    if the process dies     the same entries make the same notice: its id is a hash of its content
    if a twin sends, too    the first notice that claims an upload owns it; the others are refused
    if what was read is old it names an owner that has been replaced: refused
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tidegate.core.errors import Retryable
from tidegate.core.notices import ORIGIN_AGAIN, Entry, Notice, pack_entries
from tidegate.core.quantities import counted
from tidegate.flows.ports import Ports
from tidegate.metrics import Metric


class Unsent:
    """The topic of a rehearsal: it takes notices, and sends none."""

    def publish(self, notices: Sequence[Notice]) -> frozenset[str]:
        return frozenset(each.id for each in notices)


def send(route: str, entries: Iterable[Entry], ports: Ports, *, origin: str = ORIGIN_AGAIN, at: int = 0) -> None:
    """Publish the entries in as few notices as hold them. `origin` says who found them, and which run of it: a notice
    of another run is another notice. `at` is when the owners' claims were read, in epoch seconds (docs/adr/0044); 0 for
    just now.

    Raises Retryable if the topic did not accept all notices: acknowledge nothing, and note nothing as done."""
    by_bucket: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_bucket[entry.upload.bucket].append(entry)
    for bucket, found in by_bucket.items():
        notices = list(pack_entries(route, bucket, found, origin=origin, at=at or ports.clock()))
        if len(ports.topic.publish(notices)) < len(notices):
            raise Retryable(
                f"route {route}: the topic did not take the notices of {counted(len(found), 'upload')}. What was sent"
                " is not sent twice by another try"
            )
        if origin.startswith(ORIGIN_AGAIN):
            ports.measure(Metric.UPLOADS_AGAIN, len(found), route)
