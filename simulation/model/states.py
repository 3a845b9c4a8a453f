"""From which states the set-ups of the model begin."""

from collections.abc import Callable, Mapping
from typing import Any

from simulation.model import actors as act
from simulation.model.actors import (
    BATCH,
    BEFORE,
    BEHIND,
    EMPTY,
    FOURTH,
    LATER,
    LIMITS,
    REJECTED,
    ROUTE,
    SECOND,
    TABLE,
    B,
)
from simulation.model.explore import Actor, Cell, Cells, run
from tidegate.core.audit import first_run
from tidegate.core.batches import Wish
from tidegate.core.manifests import Sealed, batch_folder, decode_sealed, make_part
from tidegate.core.notices import Notice
from tidegate.core.outcomes import Outcome, Tally
from tidegate.core.receipts import Ending, Outcomes, Receipt
from tidegate.core.records import batch_key
from tidegate.flows.seal import seal

Begins = Callable[[], Cells]


def after(begins: Begins, *actors: Actor) -> Begins:
    """The state that these actors leave, one after the other."""

    def left() -> Cells:
        cells = begins()
        run(cells, *actors)
        return cells

    return left


def with_cells(begins: Begins, change: Callable[[Cells], Mapping[Cell, Any]]) -> Begins:
    """The state with some cells that no flow writes."""

    def left() -> Cells:
        cells = begins()
        return {**cells, **change(cells)}

    return left


def with_tables(begins: Begins, *tables: Cell) -> Begins:
    return with_cells(begins, lambda _: dict.fromkeys(tables, (EMPTY.ancestors, ())))


def with_receipt(
    begins: Begins, batch: str, driver: int, tally: Tally, *endings: Ending, fence: bool = False
) -> Begins:
    """The batch's job has left a receipt; the one that wrote it came after the driver that had staged."""

    def left_behind(cells: Cells) -> Mapping[Cell, Any]:
        folder = batch_folder(batch)
        digest = decode_sealed(cells["object", folder + "sealed.json"]).digest
        receipt = Receipt(batch, driver + 1, driver, fence, tally, "" if fence else digest)
        return {
            ("object", f"{folder}outcomes/{driver}.jsonl.gz"): Outcomes(driver, fence, tally, endings, digest).encode(),
            ("object", folder + "receipt.json"): receipt.encode(),
        }

    return with_cells(begins, left_behind)


def broken_file(of: Notice, key: str) -> Ending:
    return Ending(of.id, "bucket", key, "etag:1", Outcome.QUARANTINED, "no JSON")


handed_off = after(dict, act.delivery("d", SECOND), act.sealing("s"), act.handing_off("h"))
"""A notice of `b` was registered, and its batch handed off."""
published = with_receipt(handed_off, BATCH, 7, Tally(committed=1, rows=1))
failed = with_receipt(handed_off, BATCH, 7, Tally(quarantined=1), broken_file(SECOND, "b"))
fenced = with_receipt(handed_off, BATCH, 7, Tally(), fence=True)
"""The same, and its job has left a receipt."""
landed, quarantined, abandoned = (after(each, act.settling("q", BATCH)) for each in (published, failed, fenced))
"""And it is recorded."""
came_back = with_receipt(
    after(
        quarantined,
        *(
            act.resending("k", B),
            act.delivery_of_sent("t"),
            act.delivery("u", FOURTH),
            act.sealing("s"),
            act.handing_off("h"),
        ),
    ),
    *(LATER, 9, Tally(committed=1, quarantined=1, rows=1), broken_file(FOURTH, "c")),
)
"""The upload was resent, and its new batch is published. It has another upload, which did not land. Nobody has looked
at what is in quarantine."""
to_be_dropped = after(abandoned, act.aborting("w", BATCH, Wish.DROP))
"""A person has given the upload up."""


def _without_wish(cells: Cells) -> Mapping[Cell, Any]:
    cell: Cell = ("item", *batch_key(BATCH))
    return {cell: {name: each for name, each in cells[cell].items() if name != "wish"}}


listed_in_vain = with_cells(to_be_dropped, _without_wish)
"""The same, and the batch's record was put right meanwhile: it has lost the wish."""
halted_before_another = after(
    published,
    Actor("k", lambda ports: ports.ledger.halt(BATCH, 1, "no reason")),
    act.delivery("c", FOURTH),
    Actor("s", lambda ports: seal(ROUTE, BEHIND, ports)),
)
"""A batch is halted, and a zombie has published it all the same. Another one waits for its slot."""
with_table = with_tables(handed_off, TABLE)
"""The job has not begun."""
with_both_tables = with_tables(handed_off, TABLE, REJECTED)
"""The same, and the table of rejected rows is there."""
claimed = after(dict, Actor("x", lambda ports: ports.ledger.claim(SECOND)))
"""Somebody has claimed `b` for a notice, and died."""
FIRST_RUN = first_run(ROUTE.place, None, LIMITS, run_id="first", now=BEFORE)
BEGINNING = Actor("b", lambda ports: ports.ledger.begin_watch(FIRST_RUN))
watched = after(dict, BEGINNING)
"""The route's place is watched."""
claimed_and_watched = after(claimed, BEGINNING)
"""The message of the claim is gone, and an earlier audit of the bucket has ended."""
joined = after(dict, act.delivery("x", SECOND))
"""A notice has joined a batch."""
joined_with_table = with_tables(joined, TABLE)


def _reloaded(cells: Cells) -> Mapping[Cell, Any]:
    part = make_part(act.RELOADED.id, "bucket", [act.B], again=True, reloads=True)
    folder = batch_folder(LATER)
    sealed = Sealed(LATER, "r", (part.name,), part.objects, part.size)
    return {("object", folder + part.name): part.body, ("object", folder + "sealed.json"): sealed.encode()}


reloaded = with_cells(after(with_table, act.driver("z", 5, BATCH)), _reloaded)
"""`b` is in the table, and the job of a batch that reloads it has not begun."""


def _corrected(cells: Cells) -> Mapping[Cell, Any]:
    part = make_part(act.notice(act.CORRECTED).id, "bucket", [act.CORRECTED])
    folder = batch_folder(LATER)
    sealed = Sealed(LATER, "r", (part.name,), part.objects, part.size)
    return {("object", folder + part.name): part.body, ("object", folder + "sealed.json"): sealed.encode()}


corrected = with_cells(with_table, _corrected)
"""The jobs of two batches have not begun, one with `b`, and one with a later version of it."""
