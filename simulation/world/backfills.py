"""People who backfill the buckets: at bad moments, and the person on call when everything is at rest.

They act as the command line does: through the product's flows, in a process that faults may strike. The lineage is read
by a job as it is; only Spark's part of it reads the model of a table (`simulation.world.driver`).
"""

import math
from collections.abc import Mapping
from functools import partial

from simulation.world import resending
from simulation.world.audits import HOUR, audited
from simulation.world.kernel import Process
from simulation.world.knobs import Knobs
from simulation.world.seen import BACKFILLED, RELOADED
from simulation.world.world import World
from tidegate import wiring
from tidegate.core.audit import Listed
from tidegate.core.backfill import BackfillFinding, BackfillScope
from tidegate.core.routes import Route
from tidegate.flows.backfill import Backfill, Surveyings, send_missing, survey
from tidegate.settings.fixed import SENT_RATE

MOST_BACKFILLS = 12
"""How many of a route may follow each other at the end, and find something, until one finds nothing to do."""
MOST_TRIES = 60
"""How many may follow each other, with those that found nothing out: the job that reads a lineage may be cancelled."""


def wanted(knobs: Knobs) -> bool:
    """Nobody backfills where a route moves to another table and back: what is in the former is missing in the new."""
    return bool(knobs.backfills) and not knobs.two_versions


def promised(world: World) -> Mapping[str, float]:
    """Since when what is put into each bucket has to be found: whenever it was."""
    return dict.fromkeys(audited(world.knobs).values(), -math.inf) if wanted(world.knobs) else {}


def act(world: World) -> None:
    """Not while the ledger is rebuilt: the runbook says so."""
    if world.rules_enabled:
        world.kernel.spawn("person", lambda: backfill_all(world))


def reload(world: World) -> None:
    """Reload some batches, whatever has become of them, or all that a route takes. Sometimes two people do the same."""
    chance = world.kernel.random
    for _ in range(chance.choice((1, 1, 2))):
        reload_batches(world, 2)
        if world.rules_enabled and chance.random() < 0.5:
            reload_all(world)


def reload_batches(world: World, most: int = 1_000) -> None:
    batches = [pk[2:] for (_, pk, _), _ in world.dynamodb.items.on("b#")]
    for each in world.kernel.random.sample(batches, min(most, len(batches))):
        world.kernel.spawn("person", partial(resending.reload_one_batch, each))


def reload_all(world: World) -> None:
    world.kernel.spawn("person", lambda: backfill_all(world, reloads=True))


def again(world: World) -> bool:
    """Backfill once more, when everything is at rest, the routes whose last one did not end, or found something. False
    if there are none."""
    deployed = wiring.this_deployment().routes.values()
    left = [route for route in deployed if not route.retired and route.name not in world.backfilled_well]
    if not wanted(world.knobs) or not left:
        return False
    if MOST_BACKFILLS in world.backfills_that_found.values():
        world.noticed.append("backfill: each one finds something missing again")
        return False
    if world.backfilled_at_the_end == MOST_TRIES:
        world.noticed.append("backfill: none of them ends")
        return False
    world.backfilled_at_the_end += 1

    def ended(name: str, process: Process) -> None:
        if not process.failed and process.answer:
            world.backfills_that_found[name] += 1
        elif not process.failed:
            world.backfilled_well.add(name)

    for route in left:
        world.kernel.spawn("person", partial(_backfill, world, route), partial(ended, route.name))
        world.kernel.run(lambda: not world.kernel.busy, world.kernel.now + 12 * HOUR)
        if route.name not in world.backfilled_well:
            # what it sent must be at rest before the next route's, which may be of the same table
            return True
    return False


def backfill_all(world: World, *, reloads: bool = False) -> None:
    """`tidegate audit` of every bucket, and `tidegate resend` of each object that it advises to."""
    for route in wiring.this_deployment().routes.values():
        if not route.retired:
            _backfill(world, route, reloads=reloads)


def _backfill(world: World, route: Route, *, reloads: bool = False) -> int:
    """How many uploads it sent, and objects it resent."""
    deployed, run = wiring.this_deployment(), wiring.new_id()
    ports = deployed.ports(f"backfill-{run}")
    let_go: set[tuple[str, str]] = set()

    def tell(listed: Listed, finding: BackfillFinding) -> None:
        if finding is BackfillFinding.LET_GO:
            let_go.add((listed.upload.bucket, listed.upload.key))

    scope = BackfillScope(route, route.prefix, 0, ports.clock(), versions=not reloads, reloads=reloads)
    asked = Backfill(run, deployed.settings.audit_limits(), tell=tell)
    kept = Surveyings()
    try:
        found = survey(scope, asked, kept, ports)
        pace = wiring.paced(SENT_RATE)
        counts = send_missing(scope, asked, found, kept, ports, pace=pace)
    finally:
        kept.close()
    world.happened[RELOADED if reloads else BACKFILLED] += counts.sent
    resent = [resending.resend_one_object(*place).sent for place in sorted(let_go)]
    return counts.sent + sum(resent)
