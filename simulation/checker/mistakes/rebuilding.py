"""Mistakes with a ledger that is lost as a whole."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from simulation.checker.planting import Bug, replaced
from simulation.world.restored import switch

REBUILD = "tidegate.flows.rebuild"
LATE = 1_500.0
"""Seconds of traffic before the ledger is rebuilt: enough to publish a batch."""


def _nothing(real: Any) -> Any:
    return lambda run, *_: None


def _from_rows_only(real: Any) -> Any:
    """Only batches that are written from rows would be there, and the work bucket knows every one of these."""

    def recover(ports: Any, *, whole: Any, **named: Any) -> Any:
        return real(ports, **{**named, "oldest": "~"}, whole=replace(whole, also=()))

    return recover


def _manifest_first(real: Any) -> Any:
    def write_rest(run: Any, batch_id: str, table: str, batch: Any) -> None:
        real(run, batch_id, table, replace(batch, parts=set(sorted(batch.parts)[:-1])))

    return write_rest


def _traffic_first(real: Any) -> Any:
    def before_rebuilding(world: Any, go_on: Callable[[], None]) -> None:
        switch(world, True)
        world.kernel.after(LATE, go_on)

    return before_rebuilding


BUGS = (
    Bug(
        "rebuilt without the work bucket",
        "Rebuilding claims what only rows tell of, and nothing that the work bucket knows.",
        (replaced(f"{REBUILD}:recover", _from_rows_only),),
        "lost_with_everything_landed",
    ),
    Bug(
        "what gathers is lost with the ledger",
        "Rebuilding recovers nothing from the work bucket: what was gathered and not published never lands.",
        (replaced(f"{REBUILD}:recover", _from_rows_only),),
        "lost_while_it_gathers",
    ),
    Bug(
        "rebuilt without the rows",
        "Rebuilding does not read the tables, and the work bucket is lost.",
        (replaced(f"{REBUILD}:_Rebuilding.read", _nothing),),
        "lost_with_its_work_bucket",
    ),
    Bug(
        "a part is left out of the manifest",
        "A batch that is written from its rows lists all of its parts but one.",
        (replaced(f"{REBUILD}:_Rebuilding._write_rest", _manifest_first),),
        "lost_with_its_work_bucket",
    ),
    Bug(
        "traffic before the rebuild",
        "The writers are enabled while the ledger is empty, and it is rebuilt later.",
        (replaced("simulation.world.rebuilt:before_rebuilding", _traffic_first),),
        "lost_with_everything_landed",
    ),
)

HARMLESS = (
    Bug(
        "decided batches are left to settling",
        "Settling ends them, a minute later.",
        (replaced(f"{REBUILD}:_Rebuilding.end", _nothing),),
        "lost_with_everything_landed",
    ),
)
