"""Mistakes with a ledger that is lost, and rebuilt."""

from dataclasses import replace
from typing import Any

from simulation.checker.planting import Bug, replaced
from tidegate.flows.from_rows import FromRows

REBUILD = "tidegate.flows.rebuild"
RUN = f"{REBUILD}:_Rebuilding"


def _nothing(real: Any) -> Any:
    return lambda run, *_: None


def _no_rows(real: Any) -> Any:
    return lambda ports, **_: FromRows()


def _manifest_first(real: Any) -> Any:
    def write_rest(run: Any, batch_id: str, table: str, batch: Any) -> None:
        real(run, batch_id, table, replace(batch, parts=set(sorted(batch.parts)[:-1])))

    return write_rest


def _counted_twice(real: Any) -> Any:
    return lambda run, batch_id, files: {}


def _nobody_takes_over(real: Any) -> Any:
    def strays(run: Any, batch_id: str, uploads: Any) -> Any:
        return (each for each in real(run, batch_id, uploads) if not each.takes_from)

    return strays


def _of_now(real: Any) -> Any:
    return lambda route, entries, ports, *, origin, at: real(route, entries, ports, origin=origin)


BUGS = (
    Bug(
        "rebuilt without claims",
        "Rebuilding claims nothing of what the manifests list.",
        (replaced(f"{RUN}.claims", _nothing),),
        "lost_with_everything_landed",
    ),
    Bug(
        "rebuilt without its batches",
        "Rebuilding claims what the manifests list, and writes no record of their batches.",
        (replaced(f"{RUN}.record", _nothing),),
        "lost_with_its_job",
    ),
    Bug(
        "what gathers is lost with the ledger",
        "Rebuilding sends nothing again: what was gathered and not sealed never lands.",
        (replaced(f"{RUN}.send", _nothing),),
        "lost_while_it_gathers",
    ),
    Bug(
        "what came again is lost with the ledger",
        "Rebuilding sends again what nobody owns, and not what had been taken over from an ended batch.",
        (replaced(f"{RUN}._strays", _nobody_takes_over),),
        "lost_with_what_came_again",
    ),
    Bug(
        "what rebuilding sends is of now",
        "Rebuilding dates what it sends by the command, and not by the batch that it was in.",
        (replaced("tidegate.flows.send:send", _of_now, within=REBUILD),),
        "lost_with_what_came_again",
    ),
    Bug(
        "rebuilt without the rows",
        "Rebuilding does not read the tables, and the work bucket is lost.",
        (replaced(f"{REBUILD}:write_from_rows", _no_rows),),
        "lost_with_its_work_bucket",
    ),
    Bug(
        "a part is left out of the manifest",
        "A batch that is written from its rows lists all of its parts but one.",
        (replaced("tidegate.flows.from_rows:_ReadingRows._write_rest", _manifest_first),),
        "lost_with_its_work_bucket",
    ),
    Bug(
        "a rebuilt ledger counts twice",
        "A rebuilt route counts an upload in each batch that lists it.",
        (replaced(f"{RUN}._owned_elsewhere", _counted_twice),),
        "lost_with_what_came_back",
    ),
    Bug(
        "work goes on without a ledger",
        "Functions read and write a table that was made anew, before it is rebuilt.",
        (replaced("tidegate.stores.guarded:GuardedStore._look", _nothing),),
        "lost_and_nobody_switches_off",
    ),
)
