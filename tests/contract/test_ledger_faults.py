"""What a ledger asks for, what it makes of answers that say no, or not now, and what it says about them."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contract.conftest import TABLES, Opening, opening_of, table_on
from tests.support.build import BUCKET, notice, part_of, route, upload
from tests.support.faults import answered
from tests.support.ledgers import Table
from tidegate.core.announcements import Announcement
from tidegate.core.audit import AuditRun
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.manifests import OwnedUpload
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import Outcome, Tally
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.records import Leftover, RouteRecord, audit_key
from tidegate.core.routes import Place
from tidegate.core.uploads import Upload
from tidegate.core.workers import Offer, Worker
from tidegate.flows.ledger import Ledger, Registration
from tidegate.stores.dynamodb import TRIES

ROUTE = "flights"
ID = "0" * 40
EVENT = Announcement("01B", ROUTE, "lake.air.flights", 77, Tally(committed=1), 5)
ABANDONED = Batch("01B", ROUTE, State.ABANDONED, 1)
PLACE = Place("landing", "flights/", ".json")
RUN = AuditRun(PLACE, "01R", started_at=5, since=1, until=4, watched_since=1)
AUDIT = audit_key(PLACE, 1)


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    with table_on(request.param, request) as made:
        yield made


@pytest.fixture
def opening(table: Table) -> Opening:
    return opening_of(table)


@pytest.fixture
def ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"01B{next(numbers):05}"


def receipt(batch_id: str) -> Receipt:
    return Receipt(batch_id, 77, 76, False, Tally(committed=1))


def submitted(ledger: Ledger, ids: Callable[[], str]) -> str:
    of = notice("a")
    ledger.claim(of)
    batch = ledger.open_batch(ROUTE, ids)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    assert ledger.seal(batch.id, ROUTE)
    assert ledger.begin_attempt(batch.id, ROUTE, 1, 1)
    return batch.id


CALLS: dict[str, Callable[[Ledger], Any]] = {
    "notice": lambda ledger: ledger.notice("0" * 40),
    "notices": lambda ledger: ledger.notices(["0" * 40]),
    "claims": lambda ledger: ledger.claims(BUCKET, "a"),
    "claim": lambda ledger: ledger.claim(notice("a", "b")),
    "open_batch": lambda ledger: ledger.open_batch(ROUTE, lambda: "01B"),
    "register": lambda ledger: ledger.register(notice("a"), "01B", part_of(notice("a"))),
    "void": lambda ledger: ledger.void("0" * 40, ROUTE),
    "refuse": lambda ledger: ledger.refuse(ROUTE, 1),
    "batch": lambda ledger: ledger.batch("01B"),
    "route": lambda ledger: ledger.route(ROUTE),
    "known_routes": lambda ledger: ledger.known_routes(),
    "known_route": lambda ledger: ledger.known_route(ROUTE),
    "remember_route": lambda ledger: ledger.remember_route(route(ROUTE)),
    "note_manifest": lambda ledger: ledger.note_manifest("01B", "digest"),
    "fix_dataset": lambda ledger: ledger.fix_dataset("01B", 1, "{}"),
    "seal": lambda ledger: ledger.seal("01B", ROUTE),
    "begin_attempt": lambda ledger: ledger.begin_attempt("01B", ROUTE, 1, 1),
    "record_job": lambda ledger: ledger.record_job("01B", 1, "job"),
    "pool": lambda ledger: ledger.pool(),
    "offer_of": lambda ledger: ledger.offer_of("01B"),
    "worker": lambda ledger: ledger.worker("w"),
    "offer": lambda ledger: ledger.offer(Offer("01B", "code", "", small=True, submitted_at=1)),
    "take": lambda ledger: ledger.take("01B", "w"),
    "withdraw": lambda ledger: ledger.withdraw("01B"),
    "note_started": lambda ledger: ledger.note_started(Worker("w", "code", "job", started_at=5, until=10)),
    "note_alive": lambda ledger: ledger.note_alive(Worker("w", "code", until=10, seen_at=6)),
    "leave": lambda ledger: ledger.leave("w"),
    "record_endings": lambda ledger: ledger.record_endings([Ending("0" * 40, BUCKET, "a", "v1", Outcome.VANISHED, "")]),
    "note_endings": lambda ledger: ledger.note_endings("01B", 1),
    "commit": lambda ledger: ledger.commit("01B", ROUTE, receipt("01B")),
    "halt": lambda ledger: ledger.halt("01B", 1, "reason"),
    "step_aside": lambda ledger: ledger.step_aside("01B", ROUTE, 1),
    "resume": lambda ledger: ledger.resume("01B", ROUTE, 2, False),
    "pause": lambda ledger: ledger.pause(ROUTE),
    "unpause": lambda ledger: ledger.unpause(ROUTE),
    "give_up": lambda ledger: ledger.give_up("01B", ROUTE),
    "wish": lambda ledger: ledger.wish(ABANDONED, Wish.DROP),
    "note_wish": lambda ledger: ledger.note_wish("01B", Wish.DROP, 1),
    "end_wish": lambda ledger: ledger.end_wish("01B", ROUTE, Wish.DROP),
    "forget_wish": lambda ledger: ledger.forget_wish("01B", ROUTE, there=True),
    "drop": lambda ledger: ledger.drop("01B", ROUTE, [OwnedUpload("0" * 40, upload("a"))]),
    "note_removed": lambda ledger: ledger.note_removed("01B"),
    "batches": lambda ledger: ledger.batches(["01B"]),
    "audits": lambda ledger: ledger.audits(),
    "audit": lambda ledger: ledger.audit(PLACE),
    "begin_watch": lambda ledger: ledger.begin_watch(RUN),
    "end_watch": lambda ledger: ledger.end_watch(RUN, 5, 9),
    "resume_watch": lambda ledger: ledger.resume_watch(replace(RUN, left_at=5)),
    "begin_audit": lambda ledger: ledger.begin_audit(RUN, RUN),
    "note_audit": lambda ledger: ledger.note_audit(RUN),
    "note_screening": lambda ledger: ledger.note_screening(replace(RUN, job="00job")),
    "give_up_audit": lambda ledger: ledger.give_up_audit(replace(RUN, job="00job")),
    "leftovers": lambda ledger: ledger.leftovers(ROUTE),
    "note_emptied": lambda ledger: ledger.note_emptied(Leftover(ROUTE, "01B", 5, quarantined=1)),
    "note_oldest": lambda ledger: ledger.note_oldest(RouteRecord(ROUTE), 5, 0),
    "outbox": lambda ledger: ledger.outbox(10),
    "note_announced": lambda ledger: ledger.note_announced([EVENT]),
}


# ---- what is asked


@pytest.mark.parametrize(
    "read",
    [
        "notice",
        "notices",
        "claims",
        "batch",
        "route",
        "known_routes",
        "known_route",
        "batches",
        "audit",
        "leftovers",
        "outbox",
        "drop",
    ],
)
def test_what_a_decision_follows_is_read_consistently(ledger: Ledger, table: Table, read: str):
    """A read that may be old would let a repeat pass for new, or a batch that has ended for open."""
    asked: list[dict[str, Any]] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        asked.append(params)

    table.client.meta.events.register("provide-client-params.dynamodb", note)
    try:
        CALLS[read](ledger)
    finally:
        table.client.meta.events.unregister("provide-client-params.dynamodb", note)
    assert asked
    for request in asked:
        inner = request.get("RequestItems", {}).values()
        assert all(each["ConsistentRead"] is True for each in (inner or [request]))


# ---- what a person reads

VOID = NoticeRecord(ID, ROUTE, "", "", 0, 0, 0)
SEALED = Batch("01B", ROUTE, State.SEALED, 1)
TOLD: list[tuple[Callable[[Ledger], Any], str, tuple[str, ...]]] = [
    (CALLS["notice"], "GetItem", ("read", ID)),
    (CALLS["notices"], "BatchGetItem", ("read notices",)),
    (CALLS["claims"], "Query", ("claims", f"s3://{BUCKET}/a")),
    (lambda ledger: ledger.claims_on([upload("a")]), "BatchGetItem", ("read claims",)),
    (CALLS["claim"], "PutItem", ("claim", f"s3://{BUCKET}/")),
    (CALLS["open_batch"], "TransactWriteItems", ("open", "01B")),
    (CALLS["register"], "TransactWriteItems", ("register", notice("a").id, "01B")),
    (CALLS["void"], "PutItem", ("void", ID)),
    (CALLS["refuse"], "UpdateItem", ("count", ROUTE)),
    (CALLS["batch"], "GetItem", ("read", "01B")),
    (CALLS["route"], "GetItem", ("read", ROUTE)),
    (CALLS["known_routes"], "Query", ("read", "routes")),
    (CALLS["known_route"], "GetItem", ("read", "routes")),
    (CALLS["remember_route"], "UpdateItem", ("remember", ROUTE)),
    (CALLS["note_manifest"], "UpdateItem", ("manifest", "01B")),
    (CALLS["fix_dataset"], "UpdateItem", ("reads", "01B", "attempt 1")),
    (CALLS["seal"], "TransactWriteItems", ("seal", "01B")),
    (CALLS["begin_attempt"], "TransactWriteItems", ("attempt 1", "01B")),
    (CALLS["record_job"], "UpdateItem", ("record job", "01B")),
    (CALLS["record_endings"], "UpdateItem", ("record", f"s3://{BUCKET}/a", "vanished")),
    (CALLS["note_endings"], "UpdateItem", ("endings", "01B")),
    (CALLS["halt"], "UpdateItem", ("halt", "01B")),
    (CALLS["step_aside"], "TransactWriteItems", ("step aside", "01B")),
    (CALLS["resume"], "TransactWriteItems", ("attempt 2", "01B")),
    (CALLS["pause"], "UpdateItem", ("pause", ROUTE)),
    (CALLS["unpause"], "UpdateItem", ("pause", ROUTE)),
    (CALLS["give_up"], "TransactWriteItems", ("give up", "01B")),
    (CALLS["wish"], "TransactWriteItems", ("uploads", "01B")),
    (CALLS["note_wish"], "UpdateItem", ("drop", "01B", "1 parts")),
    (CALLS["end_wish"], "TransactWriteItems", ("drop", "01B")),
    (CALLS["forget_wish"], "TransactWriteItems", ("forget", "01B")),
    (CALLS["note_removed"], "UpdateItem", ("note that", "01B")),
    (CALLS["batches"], "BatchGetItem", ("read batches",)),
    (CALLS["audits"], "Query", ("read", "places")),
    (CALLS["audit"], "GetItem", ("read", AUDIT.pk)),
    (CALLS["begin_watch"], "PutItem", ("begin to watch", str(PLACE))),
    (CALLS["end_watch"], "UpdateItem", ("no route takes", str(PLACE))),
    (CALLS["resume_watch"], "UpdateItem", ("watch", str(PLACE), "on")),
    (CALLS["begin_audit"], "UpdateItem", ("begin audit", "01R", str(PLACE))),
    (CALLS["note_audit"], "UpdateItem", ("page 0", "01R")),
    (CALLS["note_screening"], "UpdateItem", ("job 00job", "01R")),
    (CALLS["give_up_audit"], "UpdateItem", ("give up audit", "01R")),
    (CALLS["leftovers"], "Query", ("leftovers", ROUTE)),
    (CALLS["note_emptied"], "UpdateItem", ("note", "batch 01B", "quarantine")),
    (CALLS["note_oldest"], "UpdateItem", ("note", ROUTE, "quarantine")),
    (CALLS["outbox"], "Query", ("read the outbox",)),
    (CALLS["note_announced"], "DeleteItem", ("note", "batch 01B was announced")),
    (lambda ledger: ledger.is_whole(), "GetItem", ("read ledger",)),
    (lambda ledger: ledger.end_rebuild(), "PutItem", ("the ledger is whole",)),
    (lambda ledger: ledger.begin_rebuild(), "PutItem", ("the ledger is being rebuilt",)),
    (lambda ledger: ledger.index_notices([VOID]), "PutItem", ("notice", ID)),
    (lambda ledger: ledger.index_over("n", upload("a"), None, owner="o"), "UpdateItem", ("owner of", "a")),
    (lambda ledger: ledger.index_batch(SEALED, None, {}), "TransactWriteItems", ("batch", "01B")),
]


@pytest.mark.parametrize(("call", "operation", "words"), TOLD, ids=[" ".join(words) for _, _, words in TOLD])
def test_whoever_meets_trouble_is_told_what_could_not_be_done_and_to_what(
    table: Table, call: Callable[[Ledger], Any], operation: str, words: Sequence[str]
):
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "not you"}
    with answered(table.client, operation, 400, denied), pytest.raises(Retryable) as raised:
        call(table.ledger())
    said = str(raised.value)
    assert all(word in said for word in (*words, "could not", f"in ledger {table.name}", "not you")), said


def test_whoever_commits_in_vain_is_told_which_batch(ledger: Ledger, table: Table, ids: Callable[[], str]):
    batch_id = submitted(ledger, ids)
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "not you"}
    with (
        answered(table.client, "TransactWriteItems", 400, denied),
        pytest.raises(Retryable, match=f"could not settle batch {batch_id} in ledger {table.name}"),
    ):
        ledger.commit(batch_id, ROUTE, receipt(batch_id))


def test_whoever_tells_a_claim_in_vain_that_its_upload_came_again_is_told_which(ledger: Ledger, table: Table):
    first, again = (notice(Upload(BUCKET, "a", "etag:0", 1, sequencer)) for sequencer in ("01", "02"))
    ledger.claim(first)
    denied = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "not you"}
    with (
        answered(table.client, "UpdateItem", 400, denied),
        pytest.raises(Retryable, match=rf"could not note that s3://{BUCKET}/a .* came again in ledger {table.name}"),
    ):
        ledger.claim(again)


# ---- conflicts, and answers that are half an answer


def cancelled(*codes: str) -> dict[str, Any]:
    reasons = [{"Code": code} for code in codes]
    return {"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "CancellationReasons": reasons}


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the ledger would have waited after each conflict (seconds); here it does not."""
    taken: list[float] = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=taken.append))
    return taken


CONFLICTS = pytest.mark.parametrize(
    "codes",
    [("None", "TransactionConflict"), ("TransactionConflict", "None"), ("ThrottlingError", "None"), ()],
    ids=lambda codes: "+".join(codes) or "no reason",
)


@CONFLICTS
@pytest.mark.parametrize("name", ["register", "seal", "begin_attempt", "step_aside", "resume", "give_up", "open_batch"])
def test_a_transaction_that_is_cancelled_again_and_again_is_given_back_after_some_patience(
    table: Table, naps: list[float], codes: tuple[str, ...], name: str
):
    with (
        answered(table.client, "TransactWriteItems", 400, cancelled(*codes)) as fault,
        pytest.raises(Retryable, match=f"could not .* in ledger {table.name}: {', '.join(codes) or 'no reason'}"),
    ):
        CALLS[name](table.ledger())
    assert len(fault.struck) == len(naps) + 1 > 3
    assert sum(naps) < 6


@CONFLICTS
def test_a_transaction_that_was_cancelled_once_goes_through(
    ledger: Ledger, table: Table, ids: Callable[[], str], naps: list[float], codes: tuple[str, ...]
):
    batch_id = submitted(ledger, ids)
    with answered(table.client, "TransactWriteItems", 400, cancelled(*codes), times=1) as fault:
        assert ledger.commit(batch_id, ROUTE, receipt(batch_id))
    assert len(fault.struck) == len(naps) == 1
    assert ledger.route(ROUTE).committed_batches == 1


@pytest.mark.parametrize("times", [1, 100], ids=["once", "always"])
def test_an_update_that_meets_a_transaction_waits_for_its_turn(
    ledger: Ledger, table: Table, naps: list[float], times: int
):
    conflict = {"__type": "com.amazonaws.dynamodb.v20120810#TransactionConflictException", "message": "busy"}
    with answered(table.client, "UpdateItem", 400, conflict, times=times):
        if times == 1:
            ledger.refuse(ROUTE, 3)
        else:
            with pytest.raises(Retryable, match="TransactionConflictException"):
                ledger.refuse(ROUTE, 3)
    assert ledger.route(ROUTE).refused == (3 if times == 1 else 0)
    assert naps


def test_an_answer_with_too_few_reasons_leaves_the_outcome_unknown(table: Table):
    body = cancelled("ConditionalCheckFailed")
    with (
        answered(table.client, "TransactWriteItems", 400, body),
        pytest.raises(OutcomeUnknown, match=f"could not seal batch 01B in ledger {table.name}: unreadable answer"),
    ):
        CALLS["seal"](table.ledger())


def test_notices_that_dynamodb_left_over_are_asked_for_again(ledger: Ledger, table: Table):
    of = [notice(f"key{number}") for number in range(3)]
    for each in of:
        ledger.void(each.id, ROUTE)
    keys = [{"pk": {"S": f"n#{each.id}"}, "sk": {"S": "notice"}} for each in of]
    nothing_yet = {"Responses": {}, "UnprocessedKeys": {table.name: {"Keys": keys, "ConsistentRead": True}}}
    with answered(table.client, "BatchGetItem", 200, nothing_yet, times=2) as fault:
        found = ledger.notices(each.id for each in of)
    assert set(found) == {each.id for each in of}
    assert len(fault.struck) == 2


def test_a_table_that_leaves_every_key_over_is_given_up_after_some_pauses(table: Table, naps: list[float]):
    keys = [{"pk": {"S": f"n#{ID}"}, "sk": {"S": "notice"}}]
    nothing_yet = {"Responses": {}, "UnprocessedKeys": {table.name: {"Keys": keys, "ConsistentRead": True}}}
    with (
        answered(table.client, "BatchGetItem", 200, nothing_yet, times=100) as fault,
        pytest.raises(Retryable, match=f"could not read notices in ledger {table.name}: it left over all 1 keys"),
    ):
        table.ledger().notices([ID])
    assert len(fault.struck) == TRIES
    assert len(naps) == TRIES - 1
