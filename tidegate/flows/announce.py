"""Announce: tell others of each batch that is committed, through an outbox.

The transaction that ends a batch as COMMITTED also writes a record to the outbox (`core.transitions.end_batch`). So
there is a record for each such batch, and for no other. Settling sends what is in the outbox, as its last step.

    line                               if it dies right after it           if a twin runs beside it
    1. read the oldest records         nothing has happened                both read the same
    2. send at most ten of them        they are sent again, with the       each event is sent twice, with the same id
                                       same ids
    3. delete those that were taken,   they are not read any more          one delete succeeds; the other finds nothing,
       if each is still that event's                                       and that is fine

- The answer to line 2 may be lost: then the events may have been taken, and are sent again.
- What the bus refuses stays in the outbox. So does everything while the bus does not answer. Then the first failed call
  ends the run: each further one would cost its timeout.
- The read is consistent, so a record is there as soon as its batch is COMMITTED. Line 3 is final: the record is written
  once, when the batch ends. A ledger that is rebuilt announces the batches of a day once more, with the same ids.
- If announcing is switched off, no record is written, and none is read. What waits then stays, and is sent when it is
  switched on again. A batch that ended while it was off is never announced. If the bus changes, what waits goes to the
  new one.
- A record does not expire, because it is a promise. An outage makes records wait, and no record grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.announcements import Announcement
from tidegate.core.errors import Retryable, TidegateError
from tidegate.flows.ports import EventBus, Ports
from tidegate.metrics import Metric

AT_A_LOOK = 500
"""The most events of one run. They take seconds. After an outage of a day, 50 routes with a batch a minute have 72,000
events waiting: these take two and a half hours."""
TOGETHER = 10
"""What EventBridge takes in one call
(https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html)."""


COUNTED = 10_000
"""How many waiting announcements `status` counts: some megabytes to read."""


@dataclass(frozen=True, slots=True)
class Unannounced:
    """How many committed batches wait to be announced, and since when the oldest does (epoch seconds, 0 if there is
    none). `more`: there are more than were counted."""

    batches: int = 0
    since: int = 0
    more: bool = False


NOTHING_WAITS = Unannounced()


def unannounced(ports: Ports, most: int = 0) -> Unannounced:
    """What waits in the outbox, for a person: also if announcing is switched off. `most` are counted, `COUNTED` if that
    is 0."""
    most = most or COUNTED
    waiting = ports.ledger.outbox(most + 1)
    since = min((each.committed_at for each in waiting), default=0)
    return Unannounced(min(most, len(waiting)), since, more=len(waiting) > most)


def announce(ports: Ports) -> list[TidegateError]:
    """Send what waits in the outbox, the oldest batches first. Returns what went wrong; it is tried again in a
    minute."""
    if ports.bus is None:
        return []
    waiting = ports.ledger.outbox(AT_A_LOOK)
    left = {each.id: each for each in waiting}
    troubles: list[TidegateError] = []
    for start in range(0, len(waiting), TOGETHER):
        group = waiting[start : start + TOGETHER]
        try:
            refused = _send(group, ports.bus, ports)
        except TidegateError as error:
            troubles.append(error)
            break
        for each in group:
            if each.id in refused:
                reason = refused[each.id]
                troubles.append(Retryable(f"could not announce batch {each.batch}: {reason}; it will be sent again"))
            else:
                del left[each.id]
    # behind a full page there may be more, which is not older than its last one
    more = waiting[-1:] if len(waiting) == AT_A_LOOK else []
    oldest = min((each.committed_at for each in (*left.values(), *more)), default=ports.clock())
    ports.measure(Metric.OLDEST_UNANNOUNCED_SECONDS, max(0, ports.clock() - oldest))
    return troubles


def _send(group: Sequence[Announcement], bus: EventBus, ports: Ports) -> dict[str, str]:
    """Send them, and note those that were taken. Returns the ids of the others, with the reasons."""
    refused = dict(bus.send(group))
    ports.ledger.note_announced([each for each in group if each.id not in refused])
    return refused
