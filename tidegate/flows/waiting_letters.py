"""How many dead letters wait for a person. None of them is read."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LettersWaiting:
    """About how many dead letters wait: notifications, and notices."""

    notifications: int = 0
    notices: int = 0

    @property
    def together(self) -> int:
        return self.notifications + self.notices


class CountsLetters(Protocol):
    """A queue of dead letters, as far as it counts them."""

    def count(self) -> int:
        """About how many there are, those among them that are hidden from receivers."""
        ...


def waiting_letters(notifications: CountsLetters, notices: CountsLetters) -> LettersWaiting:
    """One request for each of the two queues."""
    return LettersWaiting(notifications.count(), notices.count())
