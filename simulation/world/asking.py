"""A person asks all there is to ask, when everything is at rest: status, files, batches, trace, quarantine, reconcile.

The questions are the product's flows, as the command line calls them, a few answers to a page. No fault strikes them,
and the trace leaves them out. Rows are read from the model at once, and not by a job: that is what backfills do.
`simulation.checker.told` compares the answers with what happened.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from simulation.world.diary import Answers
from simulation.world.table import Metadata, rows_with_batches
from simulation.world.world import World
from tidegate import wiring
from tidegate.core.batches import oldest_remembered
from tidegate.core.landed_versions import several_landed
from tidegate.core.lineage import Landed
from tidegate.core.publication import History
from tidegate.flows.batch_list import Wanted, batches_within
from tidegate.flows.files import WantedFiles, files_within
from tidegate.flows.needs import needs
from tidegate.flows.ports import Ports
from tidegate.flows.quarantine import EVERYTHING, quarantined
from tidegate.flows.reconcile import reconcile
from tidegate.flows.status import everything
from tidegate.flows.trace import trace
from tidegate.flows.waiting_letters import LettersWaiting

OUTCOMES = ("committed", "quarantined", "superseded", "vanished", "present")
A_PAGE = 2
"""Answers. A page of one never shows that the next one begins in the wrong place."""


def ask(world: World) -> None:
    """Only when everything is at rest."""
    answers = world.answers = Answers(asked_at=world.kernel.now)
    network = world.network
    network.unobserved = True
    latency, network.latency = network.latency, lambda: 0.0
    person = world.kernel.spawn("person", lambda: _all(world, answers))
    # nobody else acts meanwhile: what they do would not be what was asked about
    while not person.ended:
        world.kernel.step()
    network.unobserved, network.latency = False, latency
    if person.failed:
        answers.failed = repr(person.error)


def _files(ports: Ports, wanted: WantedFiles) -> Iterator[Any]:
    """Page by page."""
    after = None
    while True:
        page = files_within(ports, wiring.BATCH_IDS, wanted, after=after, limit=A_PAGE)
        yield from page.files
        if (after := page.after) is None:
            return


def _all(world: World, answers: Answers) -> None:
    deployed = wiring.this_deployment()
    ports = replace(deployed.ports("asking"), lineage=_ModelLineage(world))
    for each in _files(ports, WantedFiles()):
        answers.files.append((each.upload.identity, each.batch.id, each.state.outcome, each.rows))
    for state in {state for _, _, state, _ in answers.files}:
        wanted = WantedFiles(outcome=state)
        answers.of_state[state] = [(each.upload.identity, each.batch.id) for each in _files(ports, wanted)]
    after = ""
    while True:
        batches = batches_within(ports, wiring.BATCH_IDS, Wanted(), after=after, limit=A_PAGE)
        answers.batches += [each.batch.id for each in batches.batches]
        if not (after := batches.after):
            break
    for bucket, key in sorted({(put.bucket, put.key) for put in world.history}):
        traces = trace(bucket, key, ports)
        for told in traces:
            answers.traced.append(((bucket, key, told.claim.version), told.outcome, told.rows))
        for several in several_landed("", [(told.claim, told.batch) for told in traces]):
            if several.ordered:
                answers.kept.append((bucket, key, several.versions))
    for name in sorted({*deployed.routes, *ports.ledger.known_routes()}):
        for each in quarantined(name, EVERYTHING, ports):
            answers.quarantined.append(((each.bucket, each.key, each.version), each.batch))
    statuses = everything(deployed.routes, ports)
    for of in statuses:
        answers.status[of.route.name] = {
            "notified": of.uploads.notified,
            "pending": of.uploads.pending,
            "dropped": of.uploads.dropped,
            **{name: getattr(of.uploads.ended, name) for name in OUTCOMES},
            "holds": of.uploads.holds,
            "in_quarantine": of.in_quarantine,
            "waiting": of.waiting_for_resend,
            "committed_batches": of.committed_batches,
            "abandoned_batches": of.abandoned_batches,
        }
    letters = LettersWaiting(len(world.dead_letters.messages), len(world.notices_dead_letters.messages))
    answers.needs = [(each.kind.value, each.route, each.batch, each.count) for each in needs(statuses, letters)]
    oldest = wiring.smallest_id(max(0, oldest_remembered(ports.clock(), deployed.settings.retention.claims)))
    done = reconcile(ports, configured=deployed.routes, oldest=oldest, made_at=wiring.made_at)
    answers.differences = [(each.difference.value, each.batch) for each in done.findings]


@dataclass
class _ModelLineage:
    """`flows.ports.Lineage` of the model."""

    world: World

    def landed(self, table: str, prefix: str = "") -> Iterator[Landed]:
        return landed(self.world, self.world.catalog.tables.get(table))

    def with_history(self, table: str, prefix: str = "") -> tuple[History, Iterator[Landed]]:
        metadata = self.world.catalog.tables.get(table)
        if metadata is None:
            return History("", ()), iter(())
        return History(metadata.uuid, tuple(each.plain for each in metadata.ancestors())), landed(self.world, metadata)


def landed(world: World, metadata: Metadata | None) -> Iterator[Landed]:
    counted: Counter[tuple[str, str, str, str]] = Counter()
    for row, batch in rows_with_batches(metadata, world.catalog.files) if metadata else ():
        bucket, _, key = str(row[0]).removeprefix("s3://").partition("/")
        counted[bucket, key, row[1], batch or ""] += 1
    return (Landed(*place, rows) for place, rows in sorted(counted.items()))
