"""Counts what the product asks AWS for: for each upload, notice, batch and idle minute. `tidegate cost` adds that up.

    python -m bench.counting            counts, and prints tidegate/cost/counted.py as it should be
    python -m bench.counting --write    writes it

The real functions and the real driver run in the simulated AWS (`simulation.world`), where every call is counted at the
services. Plays differ in one thing each, so that differences are the counts: batches of one upload; with 10 uploads
more in the same notice; with 10 notices more; with 10 minutes more to gather; and with a worker that stays, and stays a
minute more.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from simulation.comparison.traffic import Calls, Counts, Replayed, Traffic, replay, simulation
from simulation.world import product
from simulation.world.world import LOOK, World
from tidegate.cost import counted
from tidegate.cost.requests import RequestCounts

MODULE = Path(counted.__file__)
MORE = 10
APART = 600
"""Seconds from a batch to the next one: its job has ended by then."""
STAY = 20
"""Seconds for which the worker of a batch stays."""
BETWEEN_NOTICES = 4
"""Seconds: longer than Lambda's window, so that each upload gets an invocation of its own."""
DIGITS = 2


class PlainTraffic(Traffic):
    """Uploads that S3 notifies of once."""

    @property
    def ends(self) -> float:
        return self.at[-1] + 1.0


@dataclass(frozen=True, slots=True)
class CountedParts:
    """By the name of the constant in `tidegate.cost.counted`."""

    PER_UPLOAD: RequestCounts
    PER_NOTICE: RequestCounts
    PER_BATCH: RequestCounts
    OPEN_MINUTE: RequestCounts
    WORKER_MINUTE: RequestCounts
    IDLE_MINUTE: RequestCounts


def plain(at: Sequence[float]) -> PlainTraffic:
    return PlainTraffic(sorted(at), {}, frozenset())


def count(batches: int = 12) -> CountedParts:
    """The counts are means over so many batches."""
    one = _asked([apart(number) for number in range(batches)])
    short, long = (_asked([apart(number) for number in range(batches)], stay=f"{stay}s") for stay in (STAY, STAY + 60))
    worker = (long - short) * (1 / batches)
    uploads = _asked([apart(number) for number in range(batches) for _ in range(1 + MORE)])
    notices = _asked([apart(number) + each * BETWEEN_NOTICES for number in range(batches) for each in range(1 + MORE)])
    minute = idle_minute()
    gathers = _asked([apart(3 * number) for number in range(batches)], f"{(1 + MORE) * 60}s")
    waits = (gathers - _asked([apart(3 * number) for number in range(batches)])) * (1 / (batches * MORE))
    upload = (uploads - one) * (1 / (batches * MORE))
    notice = (notices - one) * (1 / (batches * MORE)) - upload
    batch = one * (1 / batches) - upload - notice
    batch -= minute * (batch.invocations - 1)
    # a worker makes it
    batch += (short - one) * (1 / batches) - worker * (STAY / 60)
    return CountedParts(*(_rounded(each) for each in (upload, notice, batch, waits - minute, worker, minute)))


def apart(number: int) -> float:
    return float(number * APART)


def idle_minute(looks: int = 10) -> RequestCounts:
    """The mean of so many looks at a deployment in which nothing happens."""
    counts, calls = Counts(), Calls()
    with simulation():
        world = World(lasts=1.0)
        world.asked = False
        world.network.calls = calls  # type: ignore[assignment]
        counts.watch(world)
        for number in range(looks + 1):
            if number == 1:  # the first one notes what is deployed
                before = _looked(counts, calls)
            world.settle.invoke_asynchronously(LOOK)
            with product.inhabited(world.kernel, world.network):
                world.kernel.run(lambda: not world.settle.running, world.kernel.now + 60)
        if world.settle.errors:
            raise world.settle.errors[0]
        return (_looked(counts, calls) - before) * (1 / looks)


def _looked(counts: Counts, calls: Calls) -> RequestCounts:
    return RequestCounts(
        write_units=counts.write_units,
        read_units=counts.read_units,
        invocations=counts.invocations["settle"],
        calls=calls.of_the_sdk().total(),
    )


def _asked(at: Sequence[float], max_wait: str = "60s", stay: str = "0s") -> RequestCounts:
    with simulation(max_wait, stay):
        run = replay(plain(at))
    if run.problems:
        raise AssertionError(f"the play came out wrong: {run.problems}")
    return asked_by(run)


def asked_by(run: Replayed) -> RequestCounts:
    """What a run asked of AWS."""
    used, calls = run.used, run.used.calls
    return RequestCounts(
        write_units=used.write_units,
        read_units=used.read_units,
        s3_puts=calls.get("s3.PutObject", 0) + calls.get("s3.ListObjectsV2", 0),
        s3_gets=calls.get("s3.GetObject", 0),
        sqs_standard=used.notifications + used.buffer_polls,
        sqs_fifo=used.notices_polls,
        sns_fifo=used.notices,
        invocations=used.invocations,
        calls=sum(calls.values()) - calls.get("s3.GetObject", 0),
        starts=calls.get("emr-serverless.StartJobRun", 0),
    )


def _rounded(found: RequestCounts) -> RequestCounts:
    # -0.0 is 0.0
    return RequestCounts(*(round(getattr(found, each.name), DIGITS) + 0.0 for each in fields(found)))


def module(found: CountedParts) -> str:
    """The source of `tidegate.cost.counted`."""
    lines = [
        '"""What Tidegate asks AWS for, counted at the services while the real code ran: `python -m bench.counting',
        '--write` writes this file, and tests/simulation/test_counting.py counts again."""',
        "",
        "from tidegate.cost.requests import RequestCounts",
        "",
    ]
    for part in fields(found):
        value: RequestCounts = getattr(found, part.name)
        lines.append(f"{part.name} = RequestCounts(")
        lines += [
            f"    {each.name}={getattr(value, each.name)}," for each in fields(value) if getattr(value, each.name)
        ]
        lines.append(")")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    written = module(count())
    if "--write" in sys.argv[1:]:
        MODULE.write_text(written)
    print(written)
