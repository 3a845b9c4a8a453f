"""The claims of a notice go 25 in a request, and end as if each was put by itself. On DynamoDB Local."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from infra.sizing import DISPATCH
from tests.support.build import notice, uploads
from tests.support.dynamodb_local import DynamoDbLocal
from tests.support.faults import answer, answered, lost_answers
from tests.support.ledgers import RETENTION, START, Table, racing
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.items import Applied, Has, Item, Key, NeverWritten, Put, Refused, Transition, Update, Vacant, Write
from tidegate.stores.dynamodb import DynamoDbStore
from tidegate.stores.inserts import (
    FEW,
    FIRST_PAUSE,
    INSERTS,
    LONGEST_PAUSE,
    PAUSES,
    PROBE,
    READS,
    WAVE,
    throttles,
)

NOW = 1_000
INSERT, PUT, READ = "BatchExecuteStatement", "PutItem", "BatchGetItem"


@pytest.fixture
def table(local_table: Callable[[], AbstractContextManager[Table]]) -> Iterator[Table]:
    with local_table() as made:
        yield made


@pytest.fixture
def store(table: Table) -> DynamoDbStore:
    return DynamoDbStore(table.client, table.name)


@pytest.fixture(scope="module")
def impatient(dynamodb_local: DynamoDbLocal) -> Any:
    """A client that does not try again."""
    return dynamodb_local.client(retries={"total_max_attempts": 1})


def key(number: int) -> Key:
    return Key(f"o#{number:05}", "v1")


def item(number: int, **attributes: Any) -> Item:
    return {**key(number)._asdict(), **attributes}


def claim(number: int, owner: str = "mine", *, expires_at: int = NOW + 60) -> Transition:
    put = Put({"notice": owner, "expires_at": expires_at})
    return Transition(f"claim {number}", (Write(key(number), put, (Vacant(NOW),)),))


def claims(count: int, owner: str = "mine") -> list[Transition]:
    return [claim(number, owner) for number in range(count)]


def there(number: int, owner: str, *, expires_at: int = NOW + 60) -> Item:
    return item(number, notice=owner, expires_at=expires_at)


@contextmanager
def asked(table: Table) -> Iterator[Counter[str]]:
    """The requests, by operation."""
    found: Counter[str] = Counter()

    def note(event_name: str, **_: Any) -> None:
        found[event_name.rpartition(".")[2]] += 1

    table.client.meta.events.register("before-send.dynamodb", note)
    try:
        yield found
    finally:
        table.client.meta.events.unregister("before-send.dynamodb", note)


# ---- what it costs


@pytest.mark.parametrize("count", [FEW + 1, INSERTS, INSERTS + 1, PROBE + WAVE, PROBE + WAVE + 1, 1_000])
def test_new_claims_need_a_request_for_every_25(store: DynamoDbStore, table: Table, count: int):
    with asked(table) as requests:
        assert store.apply_each(claims(count)) == [Applied(there(number, "mine")) for number in range(count)]
    # a portion of a few is put one by one
    alone = (count - PROBE) % WAVE if count > PROBE and (count - PROBE) % WAVE <= FEW else 0
    assert requests[INSERT] == -(-(count - alone) // INSERTS)
    assert requests[PUT] == alone
    assert requests[READ] == 0


def test_a_few_claims_are_put_one_by_one(store: DynamoDbStore, table: Table):
    with asked(table) as requests:
        store.apply_each(claims(FEW))
        assert store.apply_each(claims(FEW, "other")) == [Refused((there(number, "mine"),)) for number in range(FEW)]
    assert requests == {PUT: 2 * FEW}


def test_of_a_repeated_notice_only_the_first_inserts_are_paid_for(store: DynamoDbStore, table: Table):
    store.apply_each(claims(1_000))
    with asked(table) as requests:
        done = store.apply_each(claims(1_000, "other"))
    assert done == [Refused((there(number, "mine"),)) for number in range(1_000)]
    assert requests == {INSERT: 1, READ: 1 + 4 + 4 + 2}  # of the first 25, and of 400, 400 and 175


def test_what_is_new_behind_repeats_is_inserted(store: DynamoDbStore, table: Table):
    store.apply_each(claims(PROBE + WAVE))
    with asked(table) as requests:
        done = store.apply_each(claims(PROBE + 2 * WAVE, "other"))
    assert [isinstance(each, Applied) for each in done] == [False] * (PROBE + WAVE) + [True] * WAVE
    assert requests == {INSERT: 1 + WAVE // INSERTS, READ: 1 + 2 * WAVE // READS}


# ---- what is there already


def test_each_is_answered_by_itself_and_in_order(store: DynamoDbStore):
    store.apply_each([claim(1, "other"), claim(3, "other", expires_at=NOW), claim(5, "mine"), claim(7, "other")])
    done = store.apply_each(claims(10))
    expected = [Applied(there(number, "mine")) for number in range(10)]
    for number, owner in ((1, "other"), (5, "mine"), (7, "other")):
        expected[number] = Refused((there(number, owner),))
    assert list(done) == expected
    assert store.get(key(3)) == there(3, "mine")


@pytest.mark.parametrize("expired", [1, FEW + 1, 40])
def test_an_expired_claim_is_taken(store: DynamoDbStore, expired: int):
    store.apply_each([claim(number, "other", expires_at=NOW) for number in range(expired)])
    assert store.apply_each(claims(40)) == [Applied(there(number, "mine")) for number in range(40)]
    assert store.get_many([key(number) for number in range(40)], "claims") == {
        key(number): there(number, "mine") for number in range(40)
    }


def test_of_many_at_once_one_owns_each(table: Table):
    stores = {f"n{number}": DynamoDbStore(table.client, table.name) for number in range(4)}
    done = racing(*(lambda owner=owner: stores[owner].apply_each(claims(60, owner)) for owner in stores))
    for number in range(60):
        (owner,) = {each[number].item["notice"] for each in done if isinstance(each[number], Applied)}
        refusals = [each[number] for each in done if isinstance(each[number], Refused)]
        assert refusals == [Refused((there(number, owner),))] * 3


@pytest.mark.parametrize(
    "other",
    [
        Transition("put", (Write(key(99), Put({"n": 1}), (NeverWritten(),)),)),
        Transition("put", (Write(key(99), Put({"n": 1})),)),
        Transition("put", (Write(key(99), Put({"n": 1}), (Vacant(NOW), Has("n"))),)),
        Transition("put", (Write(key(99), Put({"a name": 1}), (Vacant(NOW),)),)),
        Transition("update", (Write(key(99), Update(sets={"n": 1}), (Vacant(NOW),)),)),
        claim(0),
    ],
    ids=["never written", "unconditional", "two conditions", "a name", "update", "a key twice"],
)
def test_other_transitions_are_no_inserts(store: DynamoDbStore, table: Table, other: Transition):
    with asked(table) as requests:
        store.apply_each([*claims(FEW + 1), other])
    assert requests[INSERT] == 0


# ---- when it goes wrong


@contextmanager
def failing(table: Table, code: str, *, carried_out: bool, positions: tuple[int, ...]) -> Iterator[None]:
    """In the first request of inserts, the statements at these positions are answered with `code`, carried out or
    not."""
    struck: list[int] = []

    def strike(event_name: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        if struck or b'"Statements"' not in request.body:
            return None
        struck.append(1)
        statements = json.loads(request.body)["Statements"]
        done = [each for at, each in enumerate(statements) if carried_out or at not in positions]
        answers = iter(table.client.batch_execute_statement(Statements=done)["Responses"])
        error = {"Error": {"Code": code, "Message": code}}
        found: list[Any] = []
        for at in range(len(statements)):
            real = next(answers) if carried_out or at not in positions else {}
            found.append(error if at in positions else real)
        return answer(request.url, 200, {"Responses": found})

    event = f"before-send.dynamodb.{INSERT}"
    table.client.meta.events.register_first(event, strike)
    try:
        yield
        assert struck
    finally:
        table.client.meta.events.unregister(event, strike)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, in seconds, without waiting."""
    found: list[float] = []
    monkeypatch.setattr("tidegate.stores.inserts.sleep", found.append)
    return found


THROTTLES = ["ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"]


def test_what_is_throttled_is_called_as_dynamodb_calls_it(table: Table):
    codes = table.client.meta.service_model.shape_for("BatchStatementErrorCodeEnum").enum
    assert [code for code in codes if throttles(code)] == sorted(THROTTLES, key=codes.index)
    assert throttles("ThrottlingException")
    assert throttles("ProvisionedThroughputExceededException")


@pytest.mark.parametrize("code", THROTTLES)
def test_a_throttled_statement_is_inserted_again_after_a_pause_and_needs_nothing_else(
    store: DynamoDbStore, table: Table, pauses: list[float], code: str
):
    with failing(table, code, carried_out=False, positions=tuple(range(12))), asked(table) as requests:
        done = store.apply_each(claims(30))
    assert done == [Applied(there(number, "mine")) for number in range(30)]
    assert requests == {INSERT: 4}, "25 and 5, one for the strike, and one for the twelve"
    assert len(pauses) == 1
    assert 0 < pauses[0] <= FIRST_PAUSE


def test_throttling_that_lasts_gives_the_notice_back_within_the_time_of_the_function(
    store: DynamoDbStore, table: Table, pauses: list[float]
):
    throttled = {"Error": {"Code": "ThrottlingError", "Message": "too fast"}}
    with (
        answered(table.client, INSERT, 200, {"Responses": [throttled] * INSERTS}) as fault,
        asked(table) as requests,
        pytest.raises(Retryable, match=r"claim 0 in ledger .*: DynamoDB throttles its writes"),
    ):
        store.apply_each(claims(2 * WAVE))
    assert not requests.keys() - {INSERT}, "no other request is sent to a table that has too many"
    waves = -(-(2 * WAVE - PROBE) // WAVE)
    most = (PAUSES + 1) * 1 + waves * (WAVE // INSERTS)
    assert len(fault.struck) <= most, "the first wave is patient, the others are tried once"
    assert len(pauses) == PAUSES
    longest = sum(min(LONGEST_PAUSE, FIRST_PAUSE * 2**number) for number in range(PAUSES))
    assert sum(pauses) <= longest
    assert longest * DISPATCH.batch_size < DISPATCH.timeout, "an invocation gets so many notices"


def test_a_throttled_request_is_sent_again_after_a_pause(table: Table, impatient: Any, pauses: list[float]):
    store = DynamoDbStore(impatient, table.name)
    body = {"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "too fast"}
    with answered(impatient, INSERT, 400, body, times=2), answered(impatient, PUT, 400, body) as puts:
        assert store.apply_each(claims(30)) == [Applied(there(number, "mine")) for number in range(30)]
    assert (len(pauses), puts.struck) == (2, [])


def test_what_was_throttled_and_carried_out_is_found(store: DynamoDbStore, table: Table, pauses: list[float]):
    with failing(table, "ThrottlingError", carried_out=True, positions=(3,)):
        done = store.apply_each(claims(20))
    assert done[3] == Refused((there(3, "mine"),))
    assert all(isinstance(each, Applied) for at, each in enumerate(done) if at != 3)


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("carried_out", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize("positions", [(3,), tuple(range(12))], ids=["one", "twelve"])
@pytest.mark.parametrize("code", ["ThrottlingError", "InternalServerError", "TransactionConflict", "AccessDenied"])
def test_a_statement_that_fails_is_settled(
    store: DynamoDbStore, table: Table, code: str, positions: tuple[int, ...], carried_out: bool
):
    with failing(table, code, carried_out=carried_out, positions=positions):
        done = store.apply_each(claims(20))
    for number, each in enumerate(done):
        # if it was carried out it may look like a refusal: the claim there names the notice (rule 1)
        assert each in (Applied(there(number, "mine")), Refused((there(number, "mine"),)))
        assert store.get(key(number)) == there(number, "mine")
    assert all(isinstance(each, Applied) for at, each in enumerate(done) if at not in positions)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "AccessDeniedException"),
        (400, "ValidationException"),
        (400, "UnknownOperationException"),
        (500, "InternalServerError"),
    ],
)
def test_a_request_that_fails_leaves_it_to_the_puts(table: Table, impatient: Any, status: int, code: str):
    store = DynamoDbStore(impatient, table.name)
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}
    with answered(impatient, INSERT, status, body) as fault:
        done = store.apply_each(claims(30))
    assert fault.struck
    assert done == [Applied(there(number, "mine")) for number in range(30)]


def test_an_answer_of_another_length_tells_nothing(store: DynamoDbStore, table: Table):
    with answered(table.client, INSERT, 200, {"Responses": [{"TableName": table.name}]}):
        done = store.apply_each(claims(30))
    assert done == [Applied(there(number, "mine")) for number in range(30)]


def test_a_role_that_may_not_insert_is_told_of_once(
    store: DynamoDbStore, table: Table, caplog: pytest.LogCaptureFixture
):
    body = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    with answered(table.client, INSERT, 400, body):
        done = store.apply_each(claims(60))
    assert done == [Applied(there(number, "mine")) for number in range(60)]
    (said,) = [each.getMessage() for each in caplog.records if "PartiQLInsert" in each.getMessage()]
    assert table.name in said


def test_if_nothing_can_be_read_the_puts_decide(store: DynamoDbStore, table: Table):
    store.apply_each(claims(30, "other"))
    body = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "no"}
    with answered(table.client, READ, 400, body) as fault:
        done = store.apply_each(claims(30))
    assert fault.struck
    assert done == [Refused((there(number, "other"),)) for number in range(30)]


@pytest.mark.parametrize(("status", "kind"), [(400, Retryable), (500, OutcomeUnknown)])
def test_trouble_is_raised_after_all_were_tried(table: Table, impatient: Any, status: int, kind: type[Exception]):
    store = DynamoDbStore(impatient, table.name)
    body = {"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "no"}
    with (
        answered(impatient, INSERT, status, body, times=1),
        answered(impatient, PUT, status, body, times=1),
        pytest.raises(kind, match="InternalServerError: no"),
    ):
        store.apply_each(claims(60))
    found = store.get_many([key(number) for number in range(60)], "claims")
    assert len(found) == 59


def test_lost_answers_make_no_duplicates(table: Table):
    of = notice(*uploads(60))
    with lost_answers(table.client, INSERT, times=3) as fault:
        claimed = table.ledger().claim(of)
    assert len(fault.struck) == 3
    assert claimed.owned == tuple(entry.upload for entry in of.entries)
    assert claimed.refused == ()
    assert {item["expires_at"]["N"] for item in table.items()} == {str(START + RETENTION)}


def test_an_insert_that_comes_late_changes_nothing(store: DynamoDbStore, table: Table):
    requests: list[Any] = []

    def keep(params: dict[str, Any], **_: Any) -> None:
        requests.append(params["Statements"])

    event = f"provide-client-params.dynamodb.{INSERT}"
    table.client.meta.events.register(event, keep)
    store.apply_each(claims(20))
    table.client.meta.events.unregister(event, keep)
    expired = Transition("expire", (Write(key(3), Put({"notice": "other", "expires_at": NOW}), ()),))
    store.apply(expired)
    for statements in requests:
        table.client.batch_execute_statement(Statements=statements)
    assert store.get(key(3)) == there(3, "other", expires_at=NOW)
    assert store.get(key(4)) == there(4, "mine")
