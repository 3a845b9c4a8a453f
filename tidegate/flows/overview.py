"""Overview: all that `status` shows of a deployment.

It costs, whatever the deployment has done before:

    requests to the ledger                                      how many
    the names of the routes; what is to be announced            1 each
    the routes' records                                         1 for each 100
    their unfinished batches, and those with a wish             1 for each 100
    a batch with a wish that has expired                        1 for each
    what was left outside, of a route with abandoned uploads    1 for each
    the same, of a route with uploads in quarantine             1 for each
    the workers                                                 1
    the two queues of dead letters                              1 each

`status` also looks for earlier files: a listing for each route that has taken no upload (`flows.earlier_files`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core.errors import TidegateError
from tidegate.core.routes import Route
from tidegate.core.workers import Worker, is_idle
from tidegate.flows.announce import NOTHING_WAITS, Unannounced, unannounced
from tidegate.flows.earlier_files import EarlierFiles
from tidegate.flows.needs import Need, needs
from tidegate.flows.ports import Ports
from tidegate.flows.status import RouteStatus, everything
from tidegate.flows.waiting_letters import CountsLetters, LettersWaiting, waiting_letters


@dataclass(frozen=True, slots=True)
class Overview:
    """`letters` is None if they could not be counted, and `uncounted` says why. `waiting_workers` have nothing to do:
    what comes lands in seconds, and until then they are paid for."""

    statuses: tuple[RouteStatus, ...]
    needs: tuple[Need, ...] = ()
    waiting: Unannounced = NOTHING_WAITS
    letters: LettersWaiting | None = None
    uncounted: str = ""
    earlier: tuple[EarlierFiles, ...] = ()
    """Empty if nobody has looked for them: `overview` does not."""
    waiting_workers: tuple[Worker, ...] = ()

    @property
    def jobs(self) -> frozenset[str]:
        """The job runs that are on record for batches under way. Nobody has asked whether they still run."""
        unfinished = (batch for each in self.statuses for batch in each.unfinished)
        return frozenset(batch.job_run for batch in unfinished if batch.job_run and not batch.halted)


def overview(
    configured: Mapping[str, Route],
    ports: Ports,
    boxes: tuple[CountsLetters, CountsLetters],
    *,
    most_waiting: int = 0,
) -> Overview:
    """`boxes` are the dead letters of the notifications, and of the notices: whoever may not count them still learns
    the rest. `most_waiting` as in `flows.announce.unannounced`."""
    statuses = tuple(everything(configured, ports))
    waiting = unannounced(ports, most_waiting)
    letters, uncounted = None, ""
    try:
        letters = waiting_letters(*boxes)
    except TidegateError as error:
        uncounted = str(error)
    idle = tuple(each for each in ports.ledger.pool().workers if is_idle(each, each.code, now=ports.clock()))
    return Overview(statuses, tuple(needs(statuses, letters)), waiting, letters, uncounted, waiting_workers=idle)
