"""The people of a world: the person on call, who follows the runbook, and people who act at bad moments.

They act as the command line does: through the product's flows, in a process that faults may strike.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any

from simulation.world import letters as letters_flow
from simulation.world import rebuilt, resending
from simulation.world.kernel import Process
from simulation.world.seen import DECIDED, HALTED, MOVED_BACK
from simulation.world.world import World
from tidegate import wiring
from tidegate.core.audit import Window
from tidegate.core.batches import Wish
from tidegate.flows.abort import Aborted, abort
from tidegate.flows.audit import Look, audit_window
from tidegate.flows.decide import Decided, Decision, decide_published, decide_unpublished
from tidegate.flows.resume import resume
from tidegate.settings.fixed import SENT_RATE

IN_VAIN = 3_600
"""Seconds within which settling reads a receipt, whatever strikes it."""
ADVISED = re.compile("`tidegate resend (.+?)`")
UNFINISHED = ("OPEN", "SEALED", "SUBMITTED")


def attend(world: World) -> int:
    """Follow the runbook: decide what the table cannot say, resume halted batches, move dead
    letters back, send again what ended without a row. Returns the number of acts."""
    acts = _look_after_halted(world) + move_back(world) + resending.look_after(world)
    return acts + ask_again(world)


def move_back(world: World) -> int:
    """`aws sqs start-message-move-task`, without the messages that were set aside with a reason: they can never
    succeed. Where messages have strange records, `tidegate resend dead-letters`, which judges each; not in a
    world of months, where each is moved on its own day."""
    boxes = (world.dead_letters, world.notices_dead_letters)
    if world.knobs.strange and not world.knobs.horizon and world.forgotten_from == math.inf:
        waiting = sum("reason" not in each.attributes for box in boxes for each in box.messages.values())
        if waiting:
            world.happened[MOVED_BACK] += waiting
            _spawn(world, lambda: letters_flow.resend_all(world))
        return waiting
    moved = 0
    dead = [each for each in world.notices_dead_letters.messages.values() if "reason" not in each.attributes]
    routes = {json.loads(each.body)["route"] for each in dead}
    if world.forgotten_from < math.inf and routes - {"events", "plain", "closed"}:
        rebuilt.add_routes(world, routes)
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


def _look_after_halted(world: World) -> int:
    acts = 0
    for batch in halted(world):
        acts += 1
        receipt = world.s3.buckets["work"].current.get(f"batches/{batch}/receipt.json")
        if receipt and receipt.at < world.kernel.now - IN_VAIN and world.forgotten_from == math.inf:
            world.noticed.append(f"people: batch {batch} is halted, and its receipt waits since {receipt.at}")
        told = world.failure_of(batch)
        if told.get("undecided"):
            world.happened[DECIDED] += 1
            if world.could_say(batch):
                world.noticed.append(f"people: one has to decide about {batch}, whose floor the history reaches")
            world.decided[batch] = world.staged_with_rows(batch) is not None
            _spawn(world, lambda batch=batch: _decide(world, batch))
        else:
            world.happened[HALTED] += 1
            _spawn(world, lambda batch=batch, told=told: _as_advised(batch, str(told.get("reason", ""))))
    return acts


def halted(world: World) -> list[str]:
    """The halted batches that are SUBMITTED."""
    return [pk[2:] for pk, item in _halted(world) if item["state"] == "SUBMITTED"]


def _halted(world: World) -> list[tuple[str, Any]]:
    return [(pk, item) for (_, pk, _), item in world.dynamodb.items.on("b#") if item.get("halted")]


# ---- at bad moments


def give_up(world: World) -> None:
    """Give up every batch, whatever its state. The product refuses those that have ended, or are empty."""
    world.happened["somebody asked to give up"] += 1
    for (_, pk, _), item in world.dynamodb.items.on("b#"):
        if item["state"] in UNFINISHED:
            world.happened[f"a batch was given up that was {item['state'].lower()}"] += 1
        _spawn(world, lambda batch=pk[2:]: give_up_one(world, batch))


def give_up_one(world: World, batch: str, wish: Wish | None = None) -> Aborted:
    ended = abort(batch, wiring.this_deployment().ports(), wish)
    if ended is Aborted.FENCING:
        item = world.dynamodb.items["ledger", f"b#{batch}", "batch"]
        world.fenced_from.setdefault(batch, item["attempt"])
    if wish and ended is Aborted.WISHED:
        item = world.dynamodb.items["ledger", f"b#{batch}", "batch"]
        # it may halt just after the wish was noted: that is told as any halt is
        if item["state"] == "SUBMITTED" and item.get("halted") and item["halted_at"] < item["wished_at"]:
            world.noticed.append(f"people: the wish for batch {batch} is noted, and it stays halted")
    return ended


def wish(world: World) -> None:
    """Give up some batches, whatever their state, and say what becomes of their uploads. The same person asks again
    until there is an answer."""
    chance = world.kernel.random
    batches = [pk[2:] for (_, pk, _), _ in world.dynamodb.items.on("b#")]
    for batch in chance.sample(batches, min(2, len(batches))):
        wish_for(world, batch, chance.choice((Wish.DROP, Wish.DROP, Wish.RESEND)).value)


def drop_one(world: World, batch: str) -> None:
    """`tidegate abort BATCH --drop`."""
    wish_for(world, batch, Wish.DROP.value)


def drop_without_missing(world: World, batch: str) -> None:
    """`tidegate abort BATCH --drop --skip-missing`."""
    _spawn(world, lambda: abort(batch, wiring.this_deployment().ports(), Wish.DROP, skip_missing=True))


def resend_one_at_once(world: World, batch: str) -> None:
    """`tidegate abort BATCH --resend`."""
    wish_for(world, batch, Wish.RESEND.value)


def wish_for(world: World, batch: str, what: str) -> None:
    world.wished[batch] = what
    _ask_for(world, batch)


def _ask_for(world: World, batch: str) -> None:
    what, ledger = world.wished[batch], world.rebuilt_at

    def ended(process: Process) -> None:
        if process.failed or process.answer is Aborted.MOVED_ON:
            # without an answer, or with a refusal of its own second try, it may have been noted
            world.perhaps_noted.add(batch)
            rebuilt.add_routes(world, re.findall(r"no settings of its route ([\w-]+),", str(process.error)))
            return
        if world.wished.get(batch, what) != what:
            return
        if process.answer in (Aborted.FENCING, Aborted.WISHED, Aborted.COMMITTED):
            # somebody may have asked the same at the same time, and have been told that it cannot be given up yet
            world.granted[batch] = world.wished[batch] = what
            world.answered.add(batch)
        elif batch in world.granted:
            # what was promised before stands: this answer may be months late, of a ledger that has forgotten the batch
            world.wished[batch] = world.granted[batch]
            if world.rebuilt_at == ledger:
                world.answered.add(batch)
        elif batch in world.perhaps_noted and process.answer is Aborted.NO_SUCH_BATCH:
            # the ledger has forgotten the batch by now, and what became of an earlier request nobody knows
            world.answered.add(batch)
        else:
            world.wished.pop(batch, None)  # there is nothing to give up, or it cannot be given up now

    def ask() -> Aborted:
        return give_up_one(world, batch, Wish(what))

    world.answered.discard(batch)
    world.kernel.spawn("person", ask, ended)


def ask_again(world: World) -> int:
    """For the wishes that got no answer, or that a rebuilt ledger has forgotten."""
    unanswered = [batch for batch in world.wished if batch not in world.answered]
    for batch in unanswered:
        _ask_for(world, batch)
    return len(unanswered)


def meddle(world: World) -> None:
    """Resume halted batches, decide unasked, and move dead letters back, while other work goes on."""
    for batch in halted(world):
        if not world.failure_of(batch).get("undecided"):
            world.happened["a batch was resumed in the middle of it"] += 1
            resume_one(world, batch)
    decide_unasked(world)
    move_back(world)


def decide_unasked(world: World) -> None:
    """The unfinished batches."""
    for (_, pk, _), item in world.dynamodb.items.on("b#"):
        if item["state"] == "SUBMITTED":
            _spawn(world, lambda batch=pk[2:]: _decide_unasked(world, batch))


def audit(world: World, since: float = 0.0) -> None:
    """Audit the buckets by hand, with the settings' limits, as `tidegate audit` does, or what was put `since` (epoch
    seconds). Not while the ledger is rebuilt: the runbook says so."""
    if world.rules_enabled:
        _spawn(world, lambda: _audited(int(since)))


def _audited(since: int) -> None:
    deployment = wiring.this_deployment()
    run = f"by-hand-{wiring.new_id()}"
    limits, ports = deployment.settings.audit_limits(), deployment.ports(run)
    now = ports.clock()
    since, until = max(since, now - limits.max_age), now - limits.min_age
    look = Look(run, Window(since, until, limits.min_age, limits.horizon))
    for route in deployment.routes.values():
        if not route.retired:
            audit_window(route, look, ports, pace=wiring.paced(SENT_RATE))


def resume_one(world: World, batch: str) -> None:
    _spawn(world, lambda: resume(batch, wiring.this_deployment().ports()))


def _as_advised(batch: str, reason: str) -> None:
    """Send the batches again that the reason of a halt names, and then resume."""
    for other in ADVISED.findall(reason):
        resending.resend_one_batch(other)
    resume(batch, wiring.this_deployment().ports())


def _decide(world: World, batch: str) -> Decision:
    """The answer to a person's query for the batch's rows. The staged snapshot is given only if it is required."""
    ports, staged = wiring.this_deployment().ports(), world.staged_with_rows(batch)
    if staged is None:
        return decide_unpublished(batch, ports)
    decision = decide_published(batch, None, ports)
    if decision.ended is Decided.WHICH:
        decision = decide_published(batch, staged, ports)
    if decision.ended is Decided.REJECTED:
        decision = decide_published(batch, staged, ports, rejected_done=True)
    return decision


def _decide_unasked(world: World, batch: str) -> None:
    """The product accepts a decision only for a batch whose last attempt asked for one."""
    asked = world.failure_of(batch).get("undecided")
    if asked or _decide(world, batch).ended is not Decided.DONE:
        return
    item = world.dynamodb.items["ledger", f"b#{batch}", "batch"]
    if not world.failure_of(batch).get("undecided"):
        world.noticed.append(f"people: one could decide about {batch} in attempt {item['attempt']}, unasked")


def _spawn(world: World, act: Callable[[], Any]) -> None:
    world.kernel.spawn("person", act)
