"""What a person asks of a batch: another attempt, a fence, and what becomes of its uploads."""

from collections.abc import Mapping

from tidegate.core.batches import Batch, State, Wish
from tidegate.core.items import Has, Is, Item, Lacks, Requirement, Transition, Update, Write
from tidegate.core.records import batch_key, route_key
from tidegate.core.transitions.batches import OF_THE_LAST_ATTEMPT
from tidegate.core.transitions.common import single, under_way


def resume(
    batch_id: str, route: str, attempt: int, *, fencing: bool, floors: int, now: int, wish: Wish | None = None
) -> Transition:
    """Begin `attempt` of a halted batch. A fence needs no halt: the table decides between it and a running job.

    It needs no free slot. A batch that stepped aside is in work again beside those that went past it, and their number
    may exceed `in_flight` until one of them ends. A batch that is in its slot stays there.

    A fence may come with a `wish`. Without one, an earlier wish stays.
    """
    begun = Update(
        sets={"attempt": attempt, "submitted_at": now, "fencing": fencing, "floors": floors, **of_wish(wish, now)},
        removes=(*OF_THE_LAST_ATTEMPT, *(("wish_skips",) if wish else ())),
    )
    back = Update(
        adds={"jobs": 1}, joins={"running": batch_id, **listed_wish(batch_id, wish)}, leaves={"aside": batch_id}
    )
    halted = () if fencing else (Has("halted"),)
    requires = (Is("state", State.SUBMITTED.value), Is("attempt", attempt - 1), *halted)
    return Transition(
        f"begin attempt {attempt} of batch {batch_id} on request",
        (
            Write(batch_key(batch_id), begun, requires),
            Write(route_key(route), back),
        ),
    )


def give_up(batch_id: str, route: str, *, now: int, wish: Wish | None = None) -> Transition:
    """SEALED to SUBMITTED(1), to fence the batch instead of publishing it. Beside `begin_attempt`, one of the two is
    refused: attempt 1 is either a fence or not. `wish` as in `resume`.

    It needs no free slot. A person gives up what waits behind a halted batch, too, and that batch may have the
    slot."""
    begun = Update(
        sets={"state": State.SUBMITTED.value, "attempt": 1, "submitted_at": now, "fencing": True, **of_wish(wish, now)},
        removes=OF_THE_LAST_ATTEMPT,
    )
    taken = Update(
        adds={"jobs": 1}, joins={"running": batch_id, **listed_wish(batch_id, wish)}, leaves={"sealed": batch_id}
    )
    return Transition(
        f"give up batch {batch_id}",
        (
            Write(batch_key(batch_id), begun, (Is("state", State.SEALED.value), Is("attempt", 0))),
            Write(route_key(route), taken),
        ),
    )


def of_wish(wish: Wish | None, now: int) -> Item:
    return {"wish": wish.value, "wished_at": now, "wished_parts": 0} if wish else {}


def listed_wish(batch_id: str, wish: Wish | None) -> Mapping[str, str]:
    return {"wished": batch_id} if wish else {}


def wish(batch: Batch, wish: Wish, *, skips: bool = False, now: int) -> Transition:
    """Record what a person wants done with the uploads of a batch that is abandoned, or is being fenced. A later wish
    replaces an earlier one, and begins with the first part. `skips` as in `Batch`. If the fence halts meanwhile, this
    is refused: somebody has to begin another one."""
    goes_on = () if batch.halted or skips else (Lacks("halted"),)
    still: tuple[Requirement, ...] = (
        (Is("state", State.ABANDONED.value),)
        if batch.state is State.ABANDONED
        else (*under_way(batch.attempt), *goes_on)
    )
    change = (
        Update(sets={**of_wish(wish, now), "wish_skips": 1})
        if skips
        else Update(sets=of_wish(wish, now), removes=("wish_skips",))
    )
    return Transition(
        f"note what becomes of the uploads of batch {batch.id}",
        (
            Write(batch_key(batch.id), change, still),
            Write(route_key(batch.route), Update(joins=listed_wish(batch.id, wish))),
        ),
    )


def _same_wish(wish: Wish, skips: bool) -> tuple[Requirement, ...]:
    return (Is("wish", wish.value), Has("wish_skips") if skips else Lacks("wish_skips"))


def note_wish(batch_id: str, wish: Wish, parts: int, *, skips: bool = False) -> Transition:
    change = Update(sets={"wished_parts": parts})
    return single(
        f"note that the wish to {wish} batch {batch_id} is carried out for {parts} parts",
        Write(batch_key(batch_id), change, _same_wish(wish, skips)),
    )


def end_wish(batch_id: str, route: str, wish: Wish, *, skips: bool = False) -> Transition:
    """If another wish was noted meanwhile, this is refused, and the route still lists the batch."""
    return Transition(
        f"note that the wish to {wish} batch {batch_id} is carried out",
        (
            Write(
                batch_key(batch_id),
                Update(removes=("wish", "wished_at", "wished_parts", "wish_skips")),
                _same_wish(wish, skips),
            ),
            Write(route_key(route), Update(leaves={"wished": batch_id})),
        ),
    )


def forget_wish(batch_id: str, route: str, *, there: bool) -> Transition:
    """The route lists a wish that its batch does not have: the batch's record was put right, or (`there` is false) has
    expired. Then nobody can note a wish for it."""
    none = Write(batch_key(batch_id), Update(removes=("wish",)), (Has("state"), Lacks("wish")))
    listed = Write(route_key(route), Update(leaves={"wished": batch_id}))
    return Transition(f"forget the wish for batch {batch_id}", (none, listed) if there else (listed,))
