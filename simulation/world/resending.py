"""People who send uploads again: the person on call, by the runbook, and others, at bad moments.

They act as the command line does: through the product's flows, in a process that faults may strike.
"""

import uuid
from collections.abc import Callable
from itertools import chain
from typing import Any

from simulation.world.kernel import Process
from simulation.world.seen import RELEASED, RESENDN
from simulation.world.sent import claims_pk
from simulation.world.world import World
from tidegate import wiring
from tidegate.flows.quarantine import EVERYTHING, quarantined
from tidegate.flows.resend import Resend, Resent, release, reload_batch, resend_batch, resend_object

ENDED_WELL = frozenset({Resent.SENT, Resent.NOTHING_LEFT, Resent.NO_SUCH_BATCH})
"""After these there is no reason to run the command again. A batch is forgotten months after it has ended."""


def look_after(world: World) -> int:
    """Resend what is abandoned, and release what was quarantined because S3 refused it, once S3 hands it out. A
    command that was interrupted is run again at the next visit. Returns the number of acts."""
    acts = 0
    for batch in abandoned(world) if world.knobs.resends else ():
        acts += 1
        _send_again(world, RESENDN, {batch}, lambda batch=batch: resend_one_batch(batch))
    if world.knobs.releases and (there := readable_again(world)):
        acts += 1
        _send_again(world, RELEASED, there, release_all)
    return acts


def abandoned(world: World) -> list[str]:
    """The abandoned batches that nobody has resent yet, without those of which a person says more."""
    ended = (pk[2:] for (_, pk, _), item in world.dynamodb.items.on("b#") if item["state"] == "ABANDONED")
    return [batch for batch in ended if batch not in world.sent_again | world.wished.keys()]


def readable_again(world: World) -> set[tuple[str, str]]:
    """The keys of the claims on uploads that S3 refused and now hands out, which a batch that has ended quarantined,
    and that nobody has released since."""
    found = set()
    items = world.dynamodb.items
    for bucket, key in world.refused - world.s3.refused.keys():
        pk = claims_pk(bucket, key)
        for claim in (item for (_, each, _), item in items.on("o#") if each == pk):
            place = (pk, claim["sk"])
            if claim.get("outcome") != "quarantined" or place in world.sent_again:
                continue
            owner = items.get(("ledger", f"n#{claim['notice']}", "notice"), {})
            batch = items.get(("ledger", f"b#{owner.get('batch')}", "batch"), {})
            if batch.get("state") == "COMMITTED" and claim["expires_at"] > world.kernel.now:
                found.add(place)
    return found


def meddle(world: World) -> None:
    """Release what is in quarantine, and resend batches and objects, whatever has become of them. Sometimes two people
    do the same at once."""
    chance = world.kernel.random
    batches = [pk[2:] for (_, pk, _), _ in world.dynamodb.items.on("b#")]
    places = sorted({(each.bucket, each.key) for each in world.history})
    acts: list[Callable[[], Resend]] = [release_all]
    acts += [lambda batch=batch: resend_one_batch(batch) for batch in chance.sample(batches, min(2, len(batches)))]
    acts += [lambda place=place: resend_one_object(*place) for place in chance.sample(places, min(2, len(places)))]
    for act in acts:
        for _ in range(chance.choice((1, 1, 2))):
            world.kernel.spawn("person", act)


def _send_again(world: World, what: str, these: set[Any], act: Callable[[], Resend]) -> None:
    def ended(process: Process) -> None:
        if not process.failed and process.answer.ended in ENDED_WELL:
            world.sent_again |= these
            world.happened[what] += process.answer.ended is Resent.SENT

    world.kernel.spawn("person", act, ended)


# ---- the commands, with the same flows


def release_all() -> Resend:
    """`tidegate resend quarantine` of every route."""
    deployed = wiring.this_deployment()
    ports = deployed.ports(f"release-{uuid.uuid4().hex}")
    names = sorted({*deployed.routes, *ports.ledger.known_routes()})
    found = chain.from_iterable(quarantined(name, EVERYTHING, ports) for name in names)
    return release(found, ports, run=ports.new_id(), configured=deployed.routes)


def resend_one_batch(batch: str) -> Resend:
    """`tidegate resend BATCH`."""
    deployed = wiring.this_deployment()
    ports = deployed.ports(f"resend-{uuid.uuid4().hex}")
    return resend_batch(batch, ports, run=ports.new_id(), fencer=deployed.fencer(lambda said: None))


def reload_one_batch(batch: str) -> Resend:
    """`tidegate resend BATCH --reload`."""
    deployed = wiring.this_deployment()
    ports = deployed.ports(f"resend-{uuid.uuid4().hex}")
    return reload_batch(batch, ports, run=ports.new_id(), configured=deployed.routes)


def resend_one_object(bucket: str, key: str) -> Resend:
    """`tidegate resend s3://BUCKET/KEY`."""
    deployed = wiring.this_deployment()
    ports = deployed.ports(f"resend-{uuid.uuid4().hex}")
    return resend_object(bucket, key, ports, run=ports.new_id(), configured=deployed.routes)
