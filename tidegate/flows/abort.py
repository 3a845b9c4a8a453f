"""Abort: give a batch up for good, whatever it is doing.

The ledger cannot decide this: a zombie may publish at any moment, and after a rebuild of the ledger even a batch that
seems never to have begun may be in the table. So abort begins an attempt whose job fences the batch in the table. The
batch is ABANDONED only when settling reads the fence's receipt. If a driver publishes first, the receipt records that,
and the batch is committed.

step                                  if it dies right after it          if a twin runs beside it
1 an open batch: OPEN -> SEALED       a sealed batch, handed off as any  one transaction succeeds, and both go on
                                      other; the person asks again
2 a sealed batch: its manifest        the same                           both write the same, as in `seal`
3 SEALED -> SUBMITTED(1), fencing     settling starts the fence's job    one transaction succeeds; a hand-off is a twin,
                                                                         too: either attempt 1 is a fence, or this is
                                                                         MOVED_ON and the person asks again
3 SUBMITTED(k) -> SUBMITTED(k + 1),   the same                           one transaction succeeds
  fencing

4 ABANDONED, or being fenced already:   settling carries the wish out    both note the same; of two different wishes
  only the wish is noted                                                 the last one counts

A person may say in the same command what becomes of the uploads: drop them, or resend them (`core.batches.Wish`).
Step 3 notes that in the same transaction, and settling carries it out once the batch is abandoned
(`tidegate.flows.wishes`). If a driver publishes first, nothing becomes of the wish. Without a wish, one that was noted
before stays.

Each is conditional on what was read, so an answer that is out of date changes nothing. Step 1 takes the route's
settings from the ledger, as they were last deployed: they decide the batch's table, as in any sealing. Step 2 comes
before 3, because a fence is settled by the manifest: a batch whose files differ from the ledger would halt again.
"""

from enum import Enum, auto

from tidegate.core.batches import Batch, State, Wish
from tidegate.core.errors import Retryable
from tidegate.core.routes import Route
from tidegate.flows.ports import Ports
from tidegate.flows.seal import FilesDiffer, ensure_manifest, seal


class Aborted(Enum):
    """The result of a request to abort."""

    FENCING = auto()  # an attempt has begun that fences the batch
    WISHED = auto()  # it was given up before, and the wish is noted
    NO_SUCH_BATCH = auto()
    EMPTY = auto()  # an open batch without notices: nothing to abort
    COMMITTED = auto()  # too late: it is in the table
    ABANDONED = auto()  # it was given up before
    FILES_DIFFER = auto()  # its files differ from what the ledger registered: `Batch.halted` says how
    NOT_GIVEN_UP = auto()  # it is neither abandoned nor being fenced: nothing of it is skipped
    MOVED_ON = auto()  # it changed during this command: check it again


def abort(batch_id: str, ports: Ports, wish: Wish | None = None, *, skip_missing: bool = False) -> Aborted:
    """`wish`: what becomes of the uploads once the batch is abandoned; None leaves them pending. `skip_missing`: also
    if parts of it are missing in the work bucket, for a batch that was given up before.

    Raises Retryable if the batch is open, or there is a wish, and the ledger has no settings of its route: nothing
    looks at such a route."""
    batch = ports.ledger.batch(batch_id)
    refusal = refused(batch, wish, skip_missing=skip_missing)
    if batch is None or refusal:
        return refusal or Aborted.NO_SUCH_BATCH
    if wish and skip_missing:
        return _wished(batch, wish, ports, skips=True)
    if batch.state is State.OPEN:
        batch = _sealed(batch, ports)
    if batch is None:
        return Aborted.NO_SUCH_BATCH
    match batch.state:
        case State.OPEN:
            return Aborted.MOVED_ON
        case State.SEALED:
            try:
                ensure_manifest(batch, ports)
            except FilesDiffer:
                return Aborted.FILES_DIFFER
            done = ports.ledger.give_up(batch_id, batch.route, wish)
        case State.SUBMITTED if wish and batch.fencing and not batch.halted:
            # a fence is under way already: another attempt would only cost a job
            return _wished(batch, wish, ports)
        case State.SUBMITTED:
            done = ports.ledger.resume(
                batch_id, batch.route, batch.attempt + 1, fencing=True, floors=batch.floors, wish=wish
            )
        case State.COMMITTED:
            return Aborted.COMMITTED
        case State.ABANDONED:
            return _wished(batch, wish, ports) if wish else Aborted.ABANDONED
    return Aborted.FENCING if done else Aborted.MOVED_ON


def refused(batch: Batch | None, wish: Wish | None, *, skip_missing: bool) -> Aborted | None:
    """Why a request for this batch would do nothing, as far as that is seen without doing it; None if it would."""
    if batch is None:
        return Aborted.NO_SUCH_BATCH
    if batch.state is State.COMMITTED:
        return Aborted.COMMITTED
    if skip_missing and batch.state is not State.ABANDONED and not batch.fencing:
        return Aborted.NOT_GIVEN_UP
    if batch.state is State.OPEN and not batch.notices:
        return Aborted.EMPTY
    return Aborted.ABANDONED if batch.state is State.ABANDONED and not wish else None


def _wished(batch: Batch, wish: Wish, ports: Ports, *, skips: bool = False) -> Aborted:
    # a rebuilt ledger may know the batch, and not its route. That is for good until somebody names the route again
    _settings_of(batch, ports)
    return Aborted.WISHED if ports.ledger.wish(batch, wish, skips=skips) else Aborted.MOVED_ON


def _sealed(batch: Batch, ports: Ports) -> Batch | None:
    """The batch after it was sealed, by this process or another."""
    seal(_settings_of(batch, ports), batch.id, ports)
    return ports.ledger.batch(batch.id)


def _settings_of(batch: Batch, ports: Ports) -> Route:
    """The settings of the batch's route, as they were last deployed. Settling looks at the routes that have some."""
    route = ports.ledger.known_route(batch.route)
    if route is None:
        raise Retryable(
            f"batch {batch.id} is {batch.state}, and the ledger has no settings of its route {batch.route}, so nothing"
            " would come of this. Settling records those of a configured route within a minute. If tidegate.toml has no"
            " such route any more, add it with `retired = true`, deploy, and run this again"
        )
    return route
