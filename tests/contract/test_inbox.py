"""The inbox, on moto and on DynamoDB Local: the effect of an event is written once, whatever gets lost."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.contract.conftest import TABLES, table_on
from tests.support.faults import answered
from tests.support.ledgers import Table, racing
from tidegate import inbox as inboxes
from tidegate.inbox import RETENTION, Inbox, InboxBusy, InboxFull

KEY = {"pk": {"S": "total"}, "sk": {"S": "all"}}
ITEM = {"pk": "item", "sk": "all"}


@dataclass
class Totals:
    """A table with a total that `add` adds to, and an inbox in the same table."""

    table: Table
    retention: int = RETENTION

    @property
    def inbox(self) -> Inbox:
        return Inbox(
            self.table.client,
            self.table.name,
            "totals",
            sort="sk",
            retention=self.retention,
            clock=self.table.clock,
        )

    def add(self, event: str, rows: int = 10, **more: Any) -> bool:
        return self.inbox.once(event, [self.update(rows, **more)])

    def update(self, rows: int, **more: Any) -> Any:
        return {
            "Update": {
                "TableName": self.table.name,
                "Key": KEY,
                "UpdateExpression": "ADD #rows :rows",
                "ExpressionAttributeNames": {"#rows": "rows"},
                "ExpressionAttributeValues": {":rows": {"N": str(rows)}},
                **more,
            }
        }

    def add_in(self, event: str, rows: int = 10) -> bool:
        return self.inbox.once_in(ITEM, event, lambda item: {**item, "rows": item.get("rows", 0) + rows})

    @property
    def rows(self) -> int:
        return self._rows(KEY)

    @property
    def rows_in(self) -> int:
        return self._rows({name: {"S": value} for name, value in ITEM.items()})

    def _rows(self, key: Any) -> int:
        item = self.table.client.get_item(TableName=self.table.name, Key=key, ConsistentRead=True).get("Item")
        return int(item["rows"]["N"]) if item else 0


@pytest.fixture(params=TABLES)
def totals(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Totals]:
    monkeypatch.setattr(inboxes.random, "uniform", lambda low, high: 0.001)
    with table_on(request.param, request) as made:
        yield Totals(made)


def losing(totals: Totals, monkeypatch: pytest.MonkeyPatch, operation: str, *, repeats: bool) -> None:
    """The answer to the next call is lost. The SDK repeats it, or gives up."""
    real = getattr(totals.table.client, operation)

    def lose(**asked: Any) -> Any:
        monkeypatch.setattr(totals.table.client, operation, real)
        real(**asked)
        if repeats:
            return real(**asked)
        raise ReadTimeoutError(endpoint_url="https://dynamodb")

    monkeypatch.setattr(totals.table.client, operation, lose)


# ---- a transaction


def test_an_event_that_comes_again_changes_nothing(totals: Totals):
    assert [totals.add(event) for event in ("a", "b", "a", "a", "b")] == [True, True, False, False, False]
    assert totals.rows == 20


@pytest.mark.parametrize("repeats", [True, False], ids=["repeated by the SDK", "given up"])
def test_a_write_whose_answer_is_lost_is_neither_lost_nor_doubled(
    totals: Totals, monkeypatch: pytest.MonkeyPatch, repeats: bool
):
    losing(totals, monkeypatch, "transact_write_items", repeats=repeats)
    if repeats:
        # it finds its own record: the effect is there all the same
        totals.add("a")
    else:
        with pytest.raises(ReadTimeoutError):
            totals.add("a")
    assert totals.rows == 10
    assert not totals.add("a")
    assert totals.rows == 10


def test_of_many_deliveries_at_once_one_counts(totals: Totals):
    done = racing(*[lambda: totals.add("a")] * 6)
    assert done.count(True) <= 1
    assert totals.rows == 10


def test_different_events_at_once_all_count(totals: Totals):
    done = racing(*(lambda event=event: _patiently(lambda: totals.add(event)) for event in "abcd"))
    assert done == [True] * 4
    assert totals.rows == 40


def _patiently(call: Any) -> Any:
    """As Lambda delivers what was given back."""
    for _ in range(50):
        try:
            return call()
        except (ClientError, InboxBusy):
            continue
    raise AssertionError("it never went through")


def test_a_condition_of_the_callers_is_the_callers(totals: Totals):
    at_least = {
        "ConditionExpression": "#rows >= :least",
        "ExpressionAttributeValues": {":rows": {"N": "1"}, ":least": {"N": "10"}},
    }
    with pytest.raises(ClientError) as raised:
        totals.add("a", **at_least)
    reasons = raised.value.response["CancellationReasons"]
    assert [each["Code"] for each in reasons] == ["None", "ConditionalCheckFailed"]
    # it is not remembered, so it can be handled later
    assert totals.add("b")
    assert totals.add("a", **at_least)
    assert totals.rows == 11


def test_a_lost_answer_is_no_condition_that_failed(totals: Totals, monkeypatch: pytest.MonkeyPatch):
    first = {"ConditionExpression": "attribute_not_exists(#rows)"}
    losing(totals, monkeypatch, "transact_write_items", repeats=True)
    assert not totals.add("a", **first)
    assert totals.rows == 10
    # and if DynamoDB names the caller's condition alone
    body = {
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "CancellationReasons": [{"Code": "None"}, {"Code": "ConditionalCheckFailed"}],
    }
    with answered(totals.table.client, "TransactWriteItems", 400, body):
        assert not totals.add("a", **first)
        with pytest.raises(ClientError):
            totals.add("b", **first)


@pytest.mark.parametrize("codes", [["None", "TransactionConflict"], ["ThrottlingError", "None"]])
def test_what_passes_by_itself_is_tried_again(totals: Totals, codes: list[str]):
    body = {
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "CancellationReasons": [{"Code": code} for code in codes],
    }
    with answered(totals.table.client, "TransactWriteItems", 400, body, times=2) as fault:
        assert totals.add("a")
    assert len(fault.struck) == 2
    with answered(totals.table.client, "TransactWriteItems", 400, body) as fault, pytest.raises(ClientError):
        totals.add("b")
    assert len(fault.struck) == inboxes.TRIES
    assert totals.rows == 10


def test_what_does_not_pass_is_raised_at_once(totals: Totals):
    body = {"__type": "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "message": "not you"}
    with answered(totals.table.client, "TransactWriteItems", 400, body) as fault, pytest.raises(ClientError):
        totals.add("a")
    assert len(fault.struck) == 1


def test_an_event_is_remembered_for_the_retention_and_not_a_second_longer(totals: Totals):
    totals.retention = 100
    assert totals.add("a")
    totals.table.clock.advance(99)
    assert not totals.add("a")
    # the record is still there, because DynamoDB deletes late
    totals.table.clock.advance(1)
    assert totals.add("a")
    totals.table.clock.advance(99)
    assert not totals.add("a")
    assert totals.rows == 20


def test_consumers_with_one_table_do_not_know_of_each_other(totals: Totals):
    totals.add("a")
    other = Inbox(totals.table.client, totals.table.name, "other", sort="sk", clock=totals.table.clock)
    assert other.once("a", [totals.update(1)])
    assert totals.rows == 11


# ---- one item


def test_an_item_remembers_its_events_itself(totals: Totals):
    assert [totals.add_in(event) for event in ("a", "b", "a", "a", "b")] == [True, True, False, False, False]
    assert totals.rows_in == 20


@pytest.mark.parametrize("repeats", [True, False], ids=["repeated by the SDK", "given up"])
def test_an_item_whose_writing_was_not_answered_is_changed_once(
    totals: Totals, monkeypatch: pytest.MonkeyPatch, repeats: bool
):
    totals.add_in("before")
    losing(totals, monkeypatch, "put_item", repeats=repeats)
    if repeats:
        assert not totals.add_in("a")
    else:
        with pytest.raises(ReadTimeoutError):
            totals.add_in("a")
    assert not totals.add_in("a")
    assert totals.rows_in == 20


def test_events_that_race_for_an_item_all_count_once(totals: Totals):
    racing(*(lambda event=event: _patiently(lambda: totals.add_in(event)) for event in "abcabc"))
    assert totals.rows_in == 30


def test_an_item_that_was_there_before_is_taken_over_as_it_is(totals: Totals):
    typed = {"pk": {"S": "item"}, "sk": {"S": "all"}, "rows": {"N": "5"}, "name": {"S": "x"}}
    totals.table.client.put_item(TableName=totals.table.name, Item=typed)
    seen: list[dict[str, Any]] = []

    def change(item: dict[str, Any]) -> dict[str, Any]:
        seen.append(item)
        return {**item, "rows": item["rows"] + 1}

    assert totals.inbox.once_in(ITEM, "a", change)
    assert totals.inbox.once_in(ITEM, "b", change)
    # what the inbox keeps there is the inbox's
    assert seen == [{**ITEM, "rows": 5, "name": "x"}, {**ITEM, "rows": 6, "name": "x"}]
    assert totals.rows_in == 7


def test_an_item_forgets_after_the_retention_and_refuses_to_forget_earlier(
    totals: Totals, monkeypatch: pytest.MonkeyPatch
):
    totals.retention = 100
    monkeypatch.setattr(inboxes, "MOST_REMEMBERED", 2)
    assert totals.add_in("a")
    totals.table.clock.advance(50)
    assert totals.add_in("b")
    with pytest.raises(InboxFull, match=f"item .* of table {totals.table.name} remembers 2 events .* c was not"):
        totals.add_in("c")
    assert not totals.add_in("a")
    totals.table.clock.advance(50)
    assert totals.add_in("c")
    assert not totals.add_in("b")
    totals.table.clock.advance(50)
    # forgotten, as the retention says
    assert totals.add_in("a")
    assert totals.rows_in == 40


def test_an_item_that_others_always_change_is_given_up_and_not_written(totals: Totals):
    inbox, rows = totals.inbox, iter(range(100))

    def meanwhile(item: dict[str, Any]) -> dict[str, Any]:
        totals.inbox.once_in(ITEM, f"other-{next(rows)}", lambda there: {**there, "rows": 1})
        return {**item, "rows": 1_000}

    with pytest.raises(InboxBusy, match="8 times: event a was not handled"):
        inbox.once_in(ITEM, "a", meanwhile)
    assert totals.rows_in == 1
