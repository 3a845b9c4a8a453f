"""Notices that arrive once more, around `claims` after the first time and long after: out of the topic's archive, or
because a person moves dead letters back again and again (rule 13)."""

import itertools
from functools import partial
from typing import Any

from simulation.world.world import World

DAY = 86_400.0
AFTER = (59.9 * DAY, 60.02 * DAY, 61.6 * DAY, 75.0 * DAY)
"""Before and after a claim expires, and after the notice's own record has expired, too."""


def begin(world: World) -> None:
    """From now on each notice that arrives may do so again, `replayed` of them each time."""
    send, chance, share = world.notices.send, world.kernel.random, world.knobs.replayed
    numbers = itertools.count(1)
    world.lasts = max(world.lasts, AFTER[-1] + 5 * DAY)

    def arrive(body: str, options: dict[str, Any]) -> None:
        send(body, **options)
        world.from_notices.wake(0.0)

    def sent(body: str, **options: Any) -> bool:
        if not options.get("deduplication", "").startswith("replayed-"):
            for after in AFTER:
                if chance.random() < share and world.kernel.now + after < world.started + world.lasts:
                    again = {**options, "deduplication": f"replayed-{next(numbers)}"}
                    world.kernel.after(after, partial(arrive, body, again))
        return send(body, **options)

    world.notices.send = sent  # type: ignore[method-assign]
