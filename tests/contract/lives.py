"""What batches and uploads go through, for the contract of the ledger. It is asked of the ledger and nothing else.

On moto it is quick to run everywhere; DynamoDB Local is what proves the races."""

import itertools
from collections.abc import Callable
from dataclasses import replace

from tests.support.build import BUCKET, ETAG, notice, part_of
from tidegate.core.claims import CountedAs
from tidegate.core.manifests import OwnedUpload
from tidegate.core.notices import Notice
from tidegate.core.outcomes import ABANDONED, DROPPED, NO_TALLY, Outcome, Tally
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.uploads import Upload
from tidegate.flows.ledger import Ledger, Registration
from tidegate.flows.store import NewId

ROUTE = "flights"


Another = Callable[[], Ledger]


def ids() -> NewId:
    """Batch ids that sort by age, as ULIDs do."""
    numbers = itertools.count(1)
    return lambda: f"01B{next(numbers):05}"


def join(ledger: Ledger, of: Notice, batch_id: str) -> Notice:
    """The notice, having claimed everything and registered."""
    assert not ledger.claim(of).refused
    assert ledger.register(of, batch_id, part_of(of)) is Registration.REGISTERED
    return of


def submitted(ledger: Ledger, batch_id: str, *, attempts: int = 1) -> None:
    assert ledger.seal(batch_id, ROUTE)
    for attempt in range(1, attempts + 1):
        assert ledger.begin_attempt(batch_id, ROUTE, attempt, in_flight=10)


def receipt(batch_id: str, *, fence: bool = False, tally: Tally = NO_TALLY) -> Receipt:
    return Receipt(batch_id, snapshot=77, staged=76, fence=fence, tally=tally)


def abandoned(ledger: Ledger, batch_id: str) -> None:
    submitted(ledger, batch_id)
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=True))


def owner(ledger: Ledger, of: Upload) -> str:
    """The notice that owns the upload."""
    (claim,) = (claim for claim in ledger.claims(of.bucket, of.key) if claim.version == of.version)
    return claim.notice


def let_go_by_voiding(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    assert ledger.void(of.id, ROUTE)


def let_go_by_abandoning(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    batch = ledger.open_batch(ROUTE, new_id)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    abandoned(ledger, batch.id)


def end_all(ledger: Ledger, of: Notice, new_id: NewId, outcome: Outcome) -> None:
    batch = ledger.open_batch(ROUTE, new_id)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    submitted(ledger, batch.id)
    ledger.record_endings(endings_of(of, outcome))
    assert ledger.commit(batch.id, ROUTE, receipt(batch.id, tally=Tally(quarantined=len(of.entries))))


def endings_of(of: Notice, outcome: Outcome) -> list[Ending]:
    """All uploads of the notice ended so."""
    found = (entry.upload for entry in of.entries)
    return [Ending(of.id, each.bucket, each.key, each.version, outcome, "as told") for each in found]


def let_go_by_quarantining(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    end_all(ledger, of, new_id, Outcome.QUARANTINED)


def let_go_by_finding_it_gone(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    end_all(ledger, of, new_id, Outcome.VANISHED)


def let_go_by_finding_it_overwritten(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    end_all(ledger, of, new_id, Outcome.SUPERSEDED)


def given_up(ledger: Ledger, of: Notice, new_id: NewId) -> str:
    """The notice's batch is abandoned, and its claims say so."""
    batch = ledger.open_batch(ROUTE, new_id)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    submitted(ledger, batch.id)
    ledger.record_endings(abandoned_endings(of))
    assert ledger.commit(batch.id, ROUTE, receipt(batch.id, fence=True))
    return batch.id


def abandoned_endings(of: Notice) -> list[Ending]:
    return [replace(each, outcome=ABANDONED, error="") for each in endings_of(of, Outcome.VANISHED)]


def owned_by(of: Notice) -> list[OwnedUpload]:
    return [OwnedUpload(of.id, entry.upload) for entry in of.entries]


def let_go_by_dropping(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    batch = given_up(ledger, of, new_id)
    assert ledger.drop(batch, ROUTE, owned_by(of)) == len(of.entries)


def keep_undecided(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    pass


def keep_in_an_open_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    ledger.register(of, ledger.open_batch(ROUTE, new_id).id, part_of(of))


def keep_in_a_sealed_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_an_open_batch(ledger, of, new_id)
    assert ledger.seal(ledger.route(ROUTE).open_batch, ROUTE)


def keep_in_a_submitted_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_an_open_batch(ledger, of, new_id)
    submitted(ledger, ledger.route(ROUTE).open_batch)


def keep_in_a_halted_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_a_submitted_batch(ledger, of, new_id)
    ledger.halt(ledger.route(ROUTE).running[0], 1, "out of attempts")


def keep_in_a_batch_that_stepped_aside(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_a_halted_batch(ledger, of, new_id)
    assert ledger.step_aside(ledger.route(ROUTE).running[0], ROUTE, 1)


def keep_in_a_batch_being_fenced(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_a_halted_batch(ledger, of, new_id)
    assert ledger.resume(ledger.route(ROUTE).running[0], ROUTE, 2, fencing=True)


def keep_in_a_committed_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_a_submitted_batch(ledger, of, new_id)
    batch_id = ledger.route(ROUTE).running[0]
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=Tally(committed=len(of.entries))))


LETS_GO = [
    let_go_by_voiding,
    let_go_by_abandoning,
    let_go_by_quarantining,
    let_go_by_finding_it_gone,
    let_go_by_finding_it_overwritten,
    let_go_by_dropping,
]


KEEPS = [
    keep_undecided,
    keep_in_an_open_batch,
    keep_in_a_sealed_batch,
    keep_in_a_submitted_batch,
    keep_in_a_halted_batch,
    keep_in_a_batch_that_stepped_aside,
    keep_in_a_batch_being_fenced,
    keep_in_a_committed_batch,
]


Fate = Callable[[Ledger, Notice, NewId], None]


def written(sequencer: str, key: str = "a") -> Upload:
    """An upload to an unversioned bucket: its bytes name it, its sequencer says when."""
    return Upload(BUCKET, key, f"etag:{ETAG}", 10, sequencer)


AS_COUNTED = {
    let_go_by_dropping: CountedAs(ROUTE, DROPPED),
    let_go_by_voiding: None,
    let_go_by_abandoning: CountedAs(ROUTE, ABANDONED),
    let_go_by_quarantining: CountedAs(ROUTE, "quarantined"),
    let_go_by_finding_it_gone: CountedAs(ROUTE, "vanished"),
    let_go_by_finding_it_overwritten: CountedAs(ROUTE, "superseded"),
}


def sealed_batches(ledger: Ledger, new_id: NewId, count: int) -> list[str]:
    found = []
    for _ in range(count):
        batch = ledger.open_batch(ROUTE, new_id)
        join(ledger, notice(f"of {batch.id}"), batch.id)
        assert ledger.seal(batch.id, ROUTE)
        found.append(batch.id)
    return found


def halted_batch(ledger: Ledger, new_id: NewId) -> str:
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.record_job(batch_id, 1, "job-1")
    ledger.halt(batch_id, 1, "the table is gone")
    return batch_id


def goes_on_by_itself(ledger: Ledger, batch_id: str) -> bool:
    return ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)


def is_given_up(ledger: Ledger, batch_id: str) -> bool:
    return ledger.give_up(batch_id, ROUTE)


def is_resumed(ledger: Ledger, batch_id: str) -> bool:
    return ledger.resume(batch_id, ROUTE, 2, fencing=False)


def is_published(ledger: Ledger, batch_id: str) -> bool:
    return ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=Tally(committed=1)))


def aside(ledger: Ledger, new_id: NewId) -> str:
    batch_id = halted_batch(ledger, new_id)
    assert ledger.step_aside(batch_id, ROUTE, 1)
    return batch_id


ONE = Tally(committed=1)


def join_new(ledger: Ledger, new_id: NewId) -> str:
    batch = ledger.open_batch(ROUTE, new_id)
    join(ledger, notice("a"), batch.id)
    return batch.id


def ends_with(ledger: Ledger, new_id: NewId, name: str, tally: Tally) -> str:
    """A batch of one upload that is committed, and ends so."""
    batch = ledger.open_batch(ROUTE, new_id)
    join(ledger, notice(name), batch.id)
    submitted(ledger, batch.id)
    assert ledger.commit(batch.id, ROUTE, receipt(batch.id, tally=tally))
    return batch.id
