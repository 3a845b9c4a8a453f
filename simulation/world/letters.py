"""A person moves dead letters back as `tidegate resend dead-letters` does: with the product's flow, on the queues of
the world. Only SQS's own requests are left out."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulation.world.sqs import Queue
from simulation.world.world import World
from tidegate import wiring
from tidegate.core.letters import judge_notice, judge_notification
from tidegate.flows.letters import Letter, LettersMoved, move_back_letters

HIDDEN = 900.0
"""Seconds for which a letter that was received is hidden from others."""


@dataclass
class ModelLetters:
    """`flows.letters.LetterBox` on two queues."""

    letters: Queue
    queue: Queue

    def receive(self) -> Sequence[Letter]:
        self.letters.visibility = HIDDEN
        return [
            Letter(each.id, each.id, each.body, _text(each.attributes, "reason"), _text(each.attributes, "judged"))
            for each in self.letters.receive(10)
        ]

    def move_back(self, letter: Letter, group: str) -> None:
        self._send(self.queue, letter, group, {})
        del self.letters.messages[letter.handle]

    def leave(self, letter: Letter, run: str) -> bool:
        if not self.letters.fifo:
            return True
        self._send(self.letters, letter, "judged", {"judged": run, "reason": letter.reason})
        del self.letters.messages[letter.handle]
        return False

    def show(self, letter: Letter) -> None:
        self.letters.messages[letter.handle].visible_at = self.letters.kernel.now

    def _send(self, queue: Queue, letter: Letter, group: str, texts: dict[str, str]) -> None:
        attributes = {name: {"StringValue": text} for name, text in texts.items() if text}
        queue.send(letter.body, group=group, deduplication=uuid.uuid4().hex, attributes=attributes)


def _text(attributes: Any, name: str) -> str:
    return str(attributes.get(name, {}).get("StringValue", ""))


def resend_all(world: World) -> list[LettersMoved]:
    """Of both queues, in a process."""
    deployed = wiring.this_deployment()
    ports = deployed.ports()
    known = {name: route.lanes for name, route in {**ports.ledger.known_routes(), **deployed.routes}.items()}
    forgotten, run = ports.ledger.may_have_forgotten, ports.new_id()
    done = [
        move_back_letters(
            ModelLetters(world.dead_letters, world.buffer),
            lambda body: judge_notification(body, list(deployed.routes.values()), forgotten),
            run=run,
            dry_run=False,
        ),
        move_back_letters(
            ModelLetters(world.notices_dead_letters, world.notices),
            lambda body: judge_notice(body, known, forgotten),
            run=run,
            dry_run=False,
        ),
    ]
    world.from_buffer.wake(0.0)
    world.from_notices.wake(0.0)
    return done
