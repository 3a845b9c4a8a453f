"""What is particular to a ledger on DynamoDB: what a claim costs, what errors become, and answers that get lost.

All of it on DynamoDB Local.
"""

import itertools
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.contract.conftest import Opening, opening_of
from tests.contract.test_ledger_faults import CALLS, receipt, submitted
from tests.support.build import BUCKET, notice, part_of, upload, uploads
from tests.support.dynamodb_local import DynamoDbLocal
from tests.support.faults import answered, lost_answers
from tests.support.ledgers import SettableClock, Table
from tidegate.core.batches import State
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import Ending
from tidegate.core.uploads import Upload, object_hash
from tidegate.flows.ledger import Ledger, Registration

ROUTE = "flights"


@pytest.fixture
def table(local_table: Callable[[], AbstractContextManager[Table]]) -> Iterator[Table]:
    with local_table() as made:
        yield made


@pytest.fixture
def opening(table: Table) -> Opening:
    return opening_of(table)


@pytest.fixture
def ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"01B{next(numbers):05}"


# ---- the price of a claim


def write_units(table: Table, item: dict[str, Any]) -> float:
    """What DynamoDB charges to write this item."""
    answer = table.client.put_item(TableName=table.name, Item=item, ReturnConsumedCapacity="TOTAL")
    units: float = answer["ConsumedCapacity"]["CapacityUnits"]
    return units


@pytest.mark.parametrize("key", ["k" * 1024, "😀" * 256, "k"], ids=["longest", "widest", "shortest"])
@pytest.mark.parametrize("version", ["etag:" + "0" * 32 + "-10000", "v" * 100], ids=["etag", "version id"])
def test_a_claim_costs_one_write_unit(ledger: Ledger, table: Table, key: str, version: str):
    ledger.claim(notice(Upload(BUCKET, key, version, 10, sequencer="0055AED6DCD90281E5")))
    (item,) = table.items()
    assert write_units(table, item) == 1.0
    assert len(str(item).encode()) < 1024  # and that with all of the types and quotes around it


@pytest.mark.parametrize(
    "error",
    ["e" * 300, "e" * 100_000, "é" * 300, "第三行不是JSON。" * 50, "😀" * 300],
    ids=["300 characters", "100000 characters", "accents", "Chinese", "emoji"],
)
def test_a_claim_with_an_error_still_costs_one_write_unit(ledger: Ledger, table: Table, error: str):
    of = notice(upload("k" * 1024, "v" * 100))
    ledger.claim(of)
    ledger.record_endings([Ending(of.id, BUCKET, "k" * 1024, "v" * 100, Outcome.QUARANTINED, error)])
    (claim,) = ledger.claims(BUCKET, "k" * 1024)
    assert claim.error
    assert error.startswith(claim.error)
    (item,) = table.items()
    assert write_units(table, item) == 1.0


def test_a_claim_is_one_request_and_its_refusal_needs_no_read(ledger: Ledger, table: Table):
    asked: list[str] = []

    def note(event_name: str, **_: Any) -> None:
        asked.append(event_name.rpartition(".")[2])

    table.client.meta.events.register("before-send.dynamodb", note)
    try:
        ledger.claim(notice("a"))
        ledger.claim(notice("a"))
        ledger.claim(notice("a", origin="other"))
    finally:
        table.client.meta.events.unregister("before-send.dynamodb", note)
    assert asked == ["PutItem"] * 3


def test_records_are_found_where_the_documentation_says(ledger: Ledger, table: Table, ids: Callable[[], str]):
    of = notice("a")
    ledger.claim(of)
    batch = ledger.open_batch(ROUTE, ids)
    ledger.register(of, batch.id, part_of(of))
    assert {(item["pk"]["S"], item["sk"]["S"]) for item in table.items()} == {
        (f"o#{object_hash(BUCKET, 'a')}", "v1"),
        (f"n#{of.id}", "notice"),
        (f"b#{batch.id}", "batch"),
        (f"r#{ROUTE}", "route"),
    }


# ---- errors


every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@pytest.fixture(scope="module")
def impatient_client(dynamodb_local: DynamoDbLocal) -> Any:
    """One that does not try again, so that a test need not wait for it."""
    return dynamodb_local.client(retries={"total_max_attempts": 1})


@pytest.fixture(scope="module")
def stopped_client() -> Any:
    """One whose endpoint nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        # bound but not listening: the port stays taken, and connections are refused
        yield DynamoDbLocal(f"http://127.0.0.1:{port}").client(retries={"total_max_attempts": 1}, connect_timeout=1)


@every_call
def test_no_answer_means_that_the_outcome_is_unknown(call: Callable[[Ledger], Any], stopped_client: Any):
    stopped = Table(stopped_client, "ledger", SettableClock())
    with pytest.raises(OutcomeUnknown, match="ledger") as error:
        call(stopped.ledger())
    assert "could not" in str(error.value)


@every_call
def test_an_answer_that_says_no_may_be_tried_again(call: Callable[[Ledger], Any], impatient_client: Any):
    missing = Table(impatient_client, "no-such-table", SettableClock())
    with pytest.raises(Retryable, match=r"no-such-table.*ResourceNotFoundException"):
        call(missing.ledger())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "ProvisionedThroughputExceededException", Retryable),
        (400, "ThrottlingException", Retryable),
        (400, "AccessDeniedException", Retryable),
        (400, "TransactionInProgressException", Retryable),
        (500, "InternalServerError", OutcomeUnknown),
        (503, "ServiceUnavailable", OutcomeUnknown),
    ],
)
@pytest.mark.parametrize("name", ["claim", "void", "route", "refuse", "open_batch"])
def test_what_each_error_of_dynamodb_becomes(
    table: Table, impatient_client: Any, status: int, code: str, kind: type[Exception], name: str
):
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "as told"}
    ledger = table.ledger(impatient_client)
    operations = ("PutItem", "GetItem", "UpdateItem")
    with (
        answered(impatient_client, operations[0], status, body),
        answered(impatient_client, operations[1], status, body),
        answered(impatient_client, operations[2], status, body),
        pytest.raises(kind, match=f"{code}: as told"),
    ):
        CALLS[name](ledger)


def test_of_a_claim_cut_short_every_upload_can_be_claimed_again(ledger: Ledger, impatient_client: Any, table: Table):
    of = notice(*uploads(40))
    body = {"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "half way"}
    cut_short = table.ledger(impatient_client)
    with (
        answered(impatient_client, "BatchExecuteStatement", 500, body, times=1),
        answered(impatient_client, "PutItem", 500, body, times=5),
        pytest.raises(OutcomeUnknown),
    ):
        cut_short.claim(of)
    assert ledger.claim(of).owned == tuple(entry.upload for entry in of.entries)


# ---- answers that get lost: DynamoDB has done it, the SDK does not know and asks again


def test_a_claim_whose_answer_was_lost_is_mine(ledger: Ledger, table: Table):
    of = notice(*uploads(20))
    with lost_answers(table.client, "BatchExecuteStatement", times=20) as fault:
        claimed = ledger.claim(of)
    assert len(fault.struck) == 1
    assert claimed.refused == ()
    assert len(claimed.owned) == 20


def test_a_takeover_whose_answer_was_lost_is_mine(ledger: Ledger, table: Table):
    first = notice("a")
    ledger.claim(first)
    ledger.void(first.id, ROUTE)
    taker = notice("a", origin="audit:1", takes_from=first.id)
    # its first put is refused with the old claim; the second, conditional on the owner, is the one that gets lost
    with lost_answers(table.client, "PutItem", containing="#notice = :notice") as fault:
        assert ledger.claim(taker).owned == (upload("a"),)
    assert fault.struck


def test_a_registration_whose_answer_was_lost_is_registered(ledger: Ledger, table: Table, ids: Callable[[], str]):
    of = notice("a", "b")
    batch = ledger.open_batch(ROUTE, ids)
    with lost_answers(table.client, "TransactWriteItems") as fault:
        assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    assert fault.struck
    assert (ledger.batch(batch.id).notices, ledger.batch(batch.id).objects) == (1, 2)


def test_a_registration_whose_answer_was_lost_and_whose_token_is_forgotten_is_registered(
    ledger: Ledger, table: Table, ids: Callable[[], str]
):
    # DynamoDB honours a request token for ten minutes only: after that the item itself must tell
    of = notice("a", "b")
    batch = ledger.open_batch(ROUTE, ids)
    with lost_answers(table.client, "TransactWriteItems", token_forgotten=True) as fault:
        assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    assert fault.struck
    assert (ledger.batch(batch.id).notices, ledger.batch(batch.id).objects) == (1, 2)


@pytest.mark.parametrize("token_forgotten", [False, True], ids=["token known", "token forgotten"])
def test_a_batch_whose_opening_got_no_answer_is_the_open_one(
    ledger: Ledger, table: Table, ids: Callable[[], str], token_forgotten: bool
):
    with lost_answers(table.client, "TransactWriteItems", token_forgotten=token_forgotten):
        batch = ledger.open_batch(ROUTE, ids)
    assert ledger.route(ROUTE).unfinished == (batch.id,)
    assert ledger.batch(batch.id) == batch


def test_a_voiding_whose_answer_was_lost_is_done(ledger: Ledger, table: Table):
    with lost_answers(table.client, "PutItem"):
        assert ledger.void("0" * 40, ROUTE)
    assert ledger.notice("0" * 40).void


def test_the_life_of_a_batch_goes_on_when_each_answer_is_lost_once(
    ledger: Ledger, table: Table, ids: Callable[[], str]
):
    of = notice("a")
    ledger.claim(of)
    batch_id = ledger.open_batch(ROUTE, ids).id
    ledger.register(of, batch_id, part_of(of))
    steps: list[tuple[str, Callable[[], bool]]] = [
        ("seal", lambda: ledger.seal(batch_id, ROUTE)),
        ("begin", lambda: ledger.begin_attempt(batch_id, ROUTE, 1, 1)),
        ("begin again", lambda: ledger.begin_attempt(batch_id, ROUTE, 2, 1)),
        ("commit", lambda: ledger.commit(batch_id, ROUTE, receipt(batch_id))),
    ]
    for name, step in steps:
        with lost_answers(table.client, "TransactWriteItems") as fault:
            assert step(), name
        assert fault.struck, name
    record = ledger.route(ROUTE)
    assert (record.unfinished, record.jobs, record.committed_batches, record.tally.committed) == ((), 2, 1, 1)


def test_a_step_whose_answer_and_token_are_lost_was_taken_once_even_if_it_says_no(
    ledger: Ledger, table: Table, ids: Callable[[], str]
):
    # "somebody else did it" is then said of oneself: whoever looks next goes on from the state that is on record
    of = notice("a")
    ledger.claim(of)
    batch_id = ledger.open_batch(ROUTE, ids).id
    ledger.register(of, batch_id, part_of(of))
    for step in (
        lambda: ledger.seal(batch_id, ROUTE),
        lambda: ledger.begin_attempt(batch_id, ROUTE, 1, 1),
        lambda: ledger.commit(batch_id, ROUTE, receipt(batch_id)),
    ):
        with lost_answers(table.client, "TransactWriteItems", token_forgotten=True):
            step()
    record = ledger.route(ROUTE)
    assert (record.unfinished, record.jobs, record.committed_batches, record.tally.committed) == ((), 1, 1, 1)
    assert ledger.batch(batch_id).state is State.COMMITTED


def test_a_job_run_is_on_record_though_the_answer_was_lost(ledger: Ledger, table: Table, ids: Callable[[], str]):
    batch_id = submitted(ledger, ids)
    with lost_answers(table.client, "UpdateItem") as fault:
        ledger.record_job(batch_id, 1, "job-1")
    assert fault.struck
    assert ledger.batch(batch_id).job_run == "job-1"


def test_endings_are_on_record_though_the_answers_were_lost(ledger: Ledger, table: Table):
    of = notice("a")
    ledger.claim(of)
    with lost_answers(table.client, "UpdateItem"):
        ledger.record_endings([Ending(of.id, BUCKET, "a", "v1", Outcome.VANISHED, "")])
    assert ledger.claims(BUCKET, "a")[0].outcome == "vanished"
