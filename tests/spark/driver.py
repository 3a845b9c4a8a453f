"""A driver in a process of its own, that can be told where to die.

usage: python -m tests.spark.driver WAREHOUSE BATCH ATTEMPT DATASET_JSON DIE_BEFORE [GATE]

DIE_BEFORE names a method of `Attempt`: when it would be called, the whole process group, Spark's JVM with it, gets
SIGKILL. `-` dies nowhere. Of several batches (with commas) that is the last one's method: the others are made before it
in this process, as by a worker. With GATE (a folder) the driver stops before publishing until the folder holds a file
`open`.
"""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.spark.world import World, session
from tests.support.patience import eventually
from tidegate.core.routes import decode_dataset
from tidegate.flows.publish import Attempt, run


def dying(method: str) -> Any:
    def die(*_: Any) -> None:
        os.killpg(os.getpgid(0), signal.SIGKILL)

    return die


def gated(gate: Path, publish: Any) -> Any:
    def wait(self: Attempt, *arguments: Any) -> Any:
        (gate / f"waiting-{os.getpid()}").touch()
        eventually((gate / "open").exists, waiting_for="the gate to open", every=0.005)
        return publish(self, *arguments)

    return wait


def main() -> int:
    warehouse, batches, attempt, dataset, die_before, *gate = sys.argv[1:]
    *earlier, batch = batches.split(",")
    world = World(decode_dataset(dataset), session(Path(warehouse)))

    def attempt_at(each: str) -> Attempt:
        made = world.attempt(each, int(attempt), f"{each}-{os.getpid()}")
        # a worker's driver reads small batches itself
        made.sink = replace(made.sink, reads=bool(earlier))  # type: ignore[type-var]
        return made

    for each in earlier:
        assert run(attempt_at(each), "ingest") == 0
    if die_before != "-":
        assert hasattr(Attempt, die_before)
        setattr(Attempt, die_before, dying(die_before))
    if gate:
        Attempt.publish = gated(Path(gate[0]), Attempt.publish)  # type: ignore[method-assign]
    return run(attempt_at(batch), "ingest")


if __name__ == "__main__":
    sys.exit(main())
