"""What became of an upload, judged from its claim, its batch and the batch's outcomes."""

from dataclasses import replace

import pytest

from tests.support.ledgers import START
from tidegate.core.batches import Batch, State
from tidegate.core.claims import Claim
from tidegate.core.file_states import FILE_STATES, PENDING, FileState, may_hold, outcome_of, state_in_batch
from tidegate.core.outcomes import ABANDONED, DROPPED, Outcome, Tally
from tidegate.core.receipts import Ending
from tidegate.core.spans import Spans, spans

CLAIM = Claim("v1", "n1", START, START + 100)
TALLY = Tally(committed=2, quarantined=1, rows=9)
BATCH = Batch("01A", "flights", State.COMMITTED, START, objects=3, tally=TALLY)
ENDING = Ending("n1", "landing", "a", "v1", Outcome.QUARANTINED, "the whole error")


def in_state(state: State, **more: object) -> Batch:
    return replace(BATCH, state=state, tally=Tally(), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claim", "batch", "outcome"),
    [
        (CLAIM, BATCH, "committed"),
        (CLAIM, in_state(State.SUBMITTED), PENDING),
        (CLAIM, None, PENDING),
        (replace(CLAIM, outcome=ABANDONED), in_state(State.ABANDONED), PENDING),
        (replace(CLAIM, outcome=DROPPED), in_state(State.ABANDONED), DROPPED),
        (replace(CLAIM, outcome="vanished"), BATCH, "vanished"),
    ],
)
def test_the_outcome_of_a_claim(claim: Claim, batch: Batch | None, outcome: str):
    assert outcome_of(claim, batch) == outcome
    assert outcome in FILE_STATES


@pytest.mark.parametrize(
    ("claim", "batch", "ending", "state"),
    [
        (CLAIM, BATCH, None, FileState("committed")),
        (
            replace(CLAIM, outcome="quarantined", error="the whole"),
            BATCH,
            ENDING,
            FileState("quarantined", ENDING.error),
        ),
        (replace(CLAIM, outcome="quarantined", error="the whole"), BATCH, None, FileState("quarantined", "the whole")),
        (replace(CLAIM, outcome=DROPPED, error="why"), BATCH, ENDING, FileState(DROPPED, "why")),
        (None, BATCH, ENDING, FileState("quarantined", ENDING.error)),
        (None, BATCH, None, FileState("committed")),
        (None, in_state(State.SUBMITTED), None, FileState(PENDING)),
        (CLAIM, in_state(State.SUBMITTED, halted="no column"), None, FileState(PENDING, "no column")),
        (replace(CLAIM, outcome=DROPPED), in_state(State.ABANDONED), None, FileState(DROPPED)),
        (replace(CLAIM, notice="n2"), BATCH, ENDING, None),
        (replace(CLAIM, notice="n2"), BATCH, None, None),
    ],
)
def test_the_state_of_an_upload_in_a_batch(
    claim: Claim | None, batch: Batch, ending: Ending | None, state: FileState | None
):
    assert state_in_batch("n1", claim, batch, ending) == state


@pytest.mark.parametrize(
    ("batch", "states"),
    [
        (BATCH, {"", "committed", "quarantined", DROPPED}),
        (in_state(State.OPEN), {"", PENDING}),
        (in_state(State.SUBMITTED), {"", PENDING}),
        (in_state(State.ABANDONED), {"", PENDING, DROPPED}),
        (in_state(State.OPEN, objects=0), set()),
    ],
)
def test_what_the_header_of_a_batch_rules_out(batch: Batch, states: set[str]):
    assert {each for each in ("", *FILE_STATES) if may_hold(batch, each)} == states


# ---- how long a batch took

OPEN = Batch("01A", "flights", State.OPEN, START)
SEALED = replace(OPEN, state=State.SEALED, sealed_at=START + 60)
SUBMITTED = replace(SEALED, state=State.SUBMITTED, submitted_at=START + 90)
ENDED = replace(SUBMITTED, state=State.COMMITTED, ended_at=START + 200)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (OPEN, Spans(300)),
        (SEALED, Spans(60, 240)),
        (SUBMITTED, Spans(60, 30, 210)),
        (ENDED, Spans(60, 30, 110)),
        (replace(ENDED, submitted_at=START + 50), Spans(60, 0, 150)),
    ],
)
def test_spans(batch: Batch, expected: Spans):
    assert spans(batch, START + 300) == expected
