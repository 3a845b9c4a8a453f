"""People who backfill the buckets: at bad moments, and the person on call when everything is at rest.

They act as the command line does: through the product's flows, in a process that faults may strike. The lineage is read
by a job as it is; only Spark's part of it reads the model of a table (`simulation.world.driver`).
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from simulation.world import redriving
from simulation.world.audits import HOUR, audited
from simulation.world.kernel import Process
from simulation.world.knobs import Knobs
from simulation.world.seen import BACKFILLED
from tidegate import wiring
from tidegate.core.audit import Listed
from tidegate.core.backfill import BackfillFinding, BackfillScope
from tidegate.core.routes import Route
from tidegate.flows.backfill import Backfill, Surveyings, send_missing, survey

if TYPE_CHECKING:
    from simulation.world.world import World

MOST_BACKFILLS = 12
"""How many may follow each other at the end until one finds nothing to do. A fault may end one before its time."""


def wanted(knobs: Knobs) -> bool:
    """Nobody backfills where a route moves to another table and back: what is in the former is missing in the new."""
    return bool(knobs.backfills) and not knobs.two_versions


def promised(world: "World") -> Mapping[str, float]:
    """Since when what is put into each bucket has to be found: whenever it was."""
    return dict.fromkeys(audited(world.knobs).values(), -math.inf) if wanted(world.knobs) else {}


def act(world: "World") -> None:
    """Not while the ledger is restored: the runbook says so."""
    if world.rules_enabled:
        world.kernel.spawn("person", lambda: backfill_all(world))


def again(world: "World") -> bool:
    """Backfill once more, when everything is at rest. False if the last one ended and found nothing to do."""
    if not wanted(world.knobs) or world.backfilled_well:
        return False
    if world.backfilled_at_the_end == MOST_BACKFILLS:
        world.noticed.append("backfill: each one finds something missing again")
        return False
    world.backfilled_at_the_end += 1

    def ended(process: Process) -> None:
        world.backfilled_well = not process.failed and process.answer == 0

    world.kernel.spawn("person", lambda: backfill_all(world), ended)
    world.kernel.run(lambda: not world.kernel.busy, world.kernel.now + 12 * HOUR)
    return not world.backfilled_well


def backfill_all(world: "World") -> int:
    """`tidegate backfill` of every bucket, and `tidegate redrive` of each object that it advises to. How many uploads
    it sent, and objects it redrove."""
    deployed = wiring.this_deployment()
    return sum(_backfill(world, route) for route in deployed.routes.values() if not route.retired)


def _backfill(world: "World", route: Route) -> int:
    deployed, run = wiring.this_deployment(), wiring.new_id()
    ports = deployed.ports(f"backfill-{run}")
    let_go: set[tuple[str, str]] = set()

    def tell(listed: Listed, finding: BackfillFinding) -> None:
        if finding is BackfillFinding.LET_GO:
            let_go.add((listed.upload.bucket, listed.upload.key))

    scope = BackfillScope(route, route.prefix, 0, ports.clock(), versions=True)
    asked = Backfill(run, deployed.settings.audit_limits(), tell=tell)
    kept = Surveyings()
    try:
        found = survey(scope, asked, kept, ports)
        pace = wiring.paced(deployed.settings.audit.rate)
        counts = send_missing(scope, asked, found, kept, ports, pace=pace)
    finally:
        kept.close()
    world.happened[BACKFILLED] += counts.missing
    redriven = [redriving.redrive_one_object(*place).sent for place in sorted(let_go)]
    return counts.missing + sum(redriven)
