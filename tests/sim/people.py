"""The people of a world: who is on call and does what the runbook says, and who asks for things at bad moments.

Whatever they do, they do as the command line does it: through the product's flows, in a process that may be struck.
"""

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.sim import restored
from tests.sim.seen import DECIDED, HALTED, MOVED_BACK
from tidegate import wiring
from tidegate.flows.abort import abort
from tidegate.flows.decide import Decided, Decision, decide_published, decide_unpublished
from tidegate.flows.resume import Resumed, resume

if TYPE_CHECKING:
    from tests.sim.world import World


def attend(world: "World") -> int:
    """Do what the runbook says: decide what the table cannot say any more, resume what has halted, recover what a
    restored ledger has forgotten, move dead letters back. How many acts that took."""
    return _look_after_halted(world) + _recover_again(world) + move_back(world)


def move_back(world: "World") -> int:
    """`aws sqs start-message-move-task`, but for what was set aside with a reason: that can never succeed."""
    moved = 0
    routes = {json.loads(each.body)["route"] for each in world.notices_dead_letters.messages.values()}
    if world.forgotten_from < math.inf and routes - {"events", "plain", "closed"}:
        restored.add_routes(world, routes)
    for letters, queue, source in (
        (world.dead_letters, world.buffer, world.from_buffer),
        (world.notices_dead_letters, world.notices, world.from_notices),
    ):
        for message in list(letters.messages.values()):
            if "reason" in message.attributes:
                continue
            del letters.messages[message.id]
            moved += 1
            world.happened[MOVED_BACK] += 1
            back = f"back-{world.happened[MOVED_BACK]}"
            queue.send(message.body, group=message.group, deduplication=back)
            source.wake(0.0)
    return moved


def _look_after_halted(world: "World") -> int:
    acts = 0
    for batch in halted(world):
        acts += 1
        told = world.failure_of(batch)
        if told.get("undecided"):
            world.happened[DECIDED] += 1
            if world.could_say(batch):
                world.noticed.append(f"people: one has to decide about {batch}, whose floor the history reaches")
            world.decided[batch] = world.staged_with_rows(batch) is not None
            _spawn(world, lambda batch=batch: _decide(world, batch))
        else:
            world.happened[HALTED] += 1
            _resume(world, batch)
    return acts


def _recover_again(world: "World") -> int:
    """Whoever was frozen all the time may have written into the restored ledger what belongs to the other one."""
    if not to_recover(world):
        return 0
    restored.recover_once_more(world)
    return 1


def halted(world: "World") -> list[str]:
    """Batches that nothing more is started for."""
    return [pk[2:] for pk, item in _halted(world) if item["state"] == "SUBMITTED"]


def to_recover(world: "World") -> list[str]:
    """Batches that are halted with the advice to recover the ledger."""
    return [pk[2:] for pk, item in _halted(world) if "ledger recover" in item["halted"] and item["state"] == "SEALED"]


def _halted(world: "World") -> list[tuple[str, Any]]:
    return [(pk, item) for (_, pk, _), item in world.dynamodb.items.on("b#") if item.get("halted")]


# ---- at bad moments


def give_up(world: "World") -> None:
    """Give up whatever is there: batches that cannot be given up say so."""
    world.happened["somebody asked to give up"] += 1
    for (_, pk, _), item in world.dynamodb.items.on("b#"):
        if item["state"] == "SUBMITTED":
            world.happened["a batch was given up"] += 1
        _spawn(world, lambda batch=pk[2:]: give_up_one(world, batch))


def give_up_one(world: "World", batch: str) -> Resumed:
    ended = abort(batch, ledger=wiring.application().ledger())
    if ended is Resumed.DONE:
        item = world.dynamodb.items["ledger", f"b#{batch}", "batch"]
        world.fenced_from.setdefault(batch, item["attempt"])
    return ended


def meddle(world: "World") -> None:
    """Resume what has halted, decide what nobody has asked, and move dead letters back, without waiting for anything to
    be quiet."""
    for batch in halted(world):
        if not world.failure_of(batch).get("undecided"):
            world.happened["a batch was resumed in the middle of it"] += 1
            _resume(world, batch)
    decide_unasked(world)
    move_back(world)


def decide_unasked(world: "World") -> None:
    """Whatever is under way."""
    for (_, pk, _), item in world.dynamodb.items.on("b#"):
        if item["state"] == "SUBMITTED":
            _spawn(world, lambda batch=pk[2:]: _decide_unasked(world, batch))


def _resume(world: "World", batch: str) -> None:
    _spawn(world, lambda: resume(batch, ledger=wiring.application().ledger()))


def _decide(world: "World", batch: str) -> Decision:
    """What a query for the batch's rows says, which only a person can think of. What was staged is named only if
    somebody asks for it."""
    application, staged = wiring.application(), world.staged_with_rows(batch)
    ledger, work = application.ledger(), application.work()
    if staged is None:
        return decide_unpublished(batch, ledger=ledger, work=work)
    decision = decide_published(batch, None, ledger=ledger, work=work)
    if decision.ended is Decided.WHICH:
        decision = decide_published(batch, staged, ledger=ledger, work=work)
    return decision


def _decide_unasked(world: "World", batch: str) -> None:
    """A decision is taken only about a batch whose last attempt has asked for one."""
    asked = world.failure_of(batch).get("undecided")
    if asked or _decide(world, batch).ended is not Decided.DONE:
        return
    item = world.dynamodb.items["ledger", f"b#{batch}", "batch"]
    if not world.failure_of(batch).get("undecided"):
        world.noticed.append(f"people: one could decide about {batch} in attempt {item['attempt']}, unasked")


def _spawn(world: "World", act: Callable[[], Any]) -> None:
    world.kernel.spawn("person", act)
