"""The uploads of a seed, and when S3 notifies of them. They are drawn before the run, so that they are the same for
every scheme.

Every upload is well-formed, nothing is deleted, and no content comes twice, so that only exactly once is compared. Keys
are overwritten, in a bucket with versions and in one without.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from simulation.world.s3 import Version

FIRST = (0.2, 1.0, 5.0, 70.0, 700.0, 7_200.0)
"""Seconds from an upload to its first notification."""

AGAIN = (0.062, 1.0, 15.0, 70.0, 700.0, 9_000.0, 22_162.0)
"""Seconds between two notifications of one upload. The shortest and the longest are the ones that were measured:
https://www.hydrogen18.com/blog/aws-s3-event-notifications-probably-once.html"""


class Shore(Protocol):
    """Where uploads land: a world that some scheme is deployed in."""

    history: list[Version]
    announce: Callable[[Version], list[float]]

    def upload(self, key: str, body: bytes, *, bucket: str, after: float) -> None: ...


@dataclass(frozen=True)
class ScheduledUpload:
    at: float
    bucket: str
    key: str
    body: bytes
    announced: tuple[float, ...]


@dataclass(frozen=True)
class Announcing:
    """How often S3 notifies of an upload: the weights of never, once, twice and three times."""

    never: int = 0
    once: int = 1
    twice: int = 0
    thrice: int = 0
    late: bool = False

    def draw(self, chance: random.Random) -> tuple[float, ...]:
        times = chance.choices((0, 1, 2, 3), (self.never, self.once, self.twice, self.thrice))[0]
        first = chance.choice(FIRST)
        repeats = [chance.choice(AGAIN) for _ in range(2)]
        start = first if self.late else 1.0
        return (start, *(start + gap for gap in repeats))[:times]


def schedule(seed: int, announcing: Announcing) -> list[ScheduledUpload]:
    chance = random.Random(f"schedule-{seed}")
    found = []
    for number in range(chance.randrange(3, 8)):
        bucket = chance.choice(("landing", "landing", "plain"))
        key = ("events/" if bucket == "landing" else "") + chance.choice("abcd") + ".json"
        lines = chance.randrange(2, 4)
        body = b"".join(b'{"id": %d}\n' % (10 * number + line) for line in range(lines))
        found.append(
            ScheduledUpload(chance.choice((0.0, 3.0, 30.0, 200.0, 1_000.0)), bucket, key, body, announcing.draw(chance))
        )
    # puts happen in this order, which is how the world tells which of them it is asked about
    return sorted(found, key=lambda upload: upload.at)


def lasts(uploads: list[ScheduledUpload]) -> float:
    """Seconds until S3's last notification."""
    return max(upload.at + max(upload.announced, default=0.0) for upload in uploads)


def take_place(uploads: list[ScheduledUpload], world: Shore) -> None:
    for upload in uploads:
        world.upload(upload.key, upload.body, bucket=upload.bucket, after=upload.at)
    world.announce = lambda version: list(uploads[len(world.history) - 1].announced)
