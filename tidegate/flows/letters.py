"""Resend of dead letters: move each back to its queue, unless it can never succeed.

    step                       if it dies right after it          if somebody else does the same
    1 receive some letters     they are visible again later       each letter is received by one of them
    2 judge each               nothing has happened               only reads
    3 send it to its queue     it is in both queues: decision 1   the same
                               refuses what it brings twice
    4 delete the dead letter   done                               the other delete finds nothing

A letter that stays in a FIFO queue would hide those behind it in its group, until it is visible again. So it is sent to
the end of its own queue, marked with this run, and deleted. A letter with the mark of this run is passed over. What was
received and stays is shown again at the end, so that the next run finds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegate.core.letters import LetterJudgement

SHOWN = 20
"""How many of the letters that stay are returned. All are counted."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter. `handle` is for this delivery of it. `reason` is why it was set aside, "" if it died by itself.
    `judged_in` is the run that left it where it is, if any."""

    id: str
    handle: str
    body: str
    reason: str = ""
    judged_in: str = ""


class LetterBox(Protocol):
    """A queue of dead letters, and the queue that they came from."""

    def receive(self) -> Sequence[Letter]:
        """Some letters, hidden from other receivers for a quarter of an hour; none if there are no more."""
        ...

    def move_back(self, letter: Letter, group: str) -> None:
        """Send it to the queue that it came from, in this message group; then delete it here."""
        ...

    def leave(self, letter: Letter, run: str) -> bool:
        """Leave it here, in the way of no other, marked as judged in this run. True if this delivery stays hidden."""
        ...

    def show(self, letter: Letter) -> None:
        """Let others receive it at once."""
        ...


@dataclass
class LettersMoved:
    """`kept` letters can never succeed. `shown` are the first of these, each with the reason."""

    moved: int = 0
    kept: int = 0
    shown: list[tuple[str, str]] = field(default_factory=list)


def move_back_letters(
    box: LetterBox, judge: Callable[[str], LetterJudgement], *, run: str, dry_run: bool
) -> LettersMoved:
    """Judge every letter once. With `dry_run` all of them stay, and `moved` counts those that would be moved."""
    done, seen = LettersMoved(), set[str]()
    hidden: list[Letter] = []
    while letters := box.receive():
        for letter in letters:
            if letter.judged_in == run or letter.id in seen:
                hidden.append(letter)
                continue
            seen.add(letter.id)
            judgement = judge(letter.body)
            if judgement.why:
                done.kept += 1
                if len(done.shown) < SHOWN:
                    done.shown.append((letter.body, judgement.why))
            else:
                done.moved += 1
            if not judgement.why and not dry_run:
                box.move_back(letter, judgement.group)
            elif box.leave(letter, run):
                hidden.append(letter)
    for letter in hidden:
        box.show(letter)
    return done
