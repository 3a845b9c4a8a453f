"""The simulated DynamoDB answers as DynamoDB Local does, and where moto is right, as moto does."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from simulation.world.differences import LOCAL, MOTO, SIMULATED
from simulation.world.dynamodb import DynamoDb
from simulation.world.kernel import Kernel
from tests.conformance.backends import code_of, expect_differences, moto, simulated
from tests.support.dynamodb_local import running
from tests.support.ledgers import create_table

TABLE = "ledger"
NOW = 1_800_000_000
ABSENT = "attribute_not_exists(#pk) OR #expires_at <= :now"
NOBODY = {"Code": "None"}

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize


def item(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _serialize(value) for name, value in values.items()}


def plain(found: dict[str, Any]) -> dict[str, Any]:
    return {name: _deserialize(value) for name, value in found.items()}


# ---- the backends


@dataclass(frozen=True)
class Backend:
    """A table. Every test has partition keys of its own in it, which begin with `prefix`."""

    name: str
    client: Any
    prefix: str

    def key(self, pk: str, sk: str = "x") -> dict[str, Any]:
        return item({"pk": self.prefix + pk, "sk": sk})

    def put(self, values: dict[str, Any], condition: str = "", parameters: dict[str, Any] | None = None, **more: Any):
        pk, sk = values.get("pk", "a"), values.get("sk", "x")
        request = conditional(condition, parameters or {})
        return self.client.put_item(TableName=TABLE, Item=item(values) | self.key(pk, sk), **request, **more)

    def update(self, pk: str, expression: str, parameters: dict[str, Any] | None = None, condition: str = "", **more):
        request = conditional(condition, parameters or {}, expression)
        return self.client.update_item(TableName=TABLE, Key=self.key(pk), **request, **more)

    def transact(self, *actions: dict[str, Any], **more: Any) -> Any:
        return self.client.transact_write_items(TransactItems=list(actions), **more)

    def get(self, pk: str, sk: str = "x") -> dict[str, Any] | None:
        """Without its keys, which every backend is trusted with."""
        answer = self.client.get_item(TableName=TABLE, Key=self.key(pk, sk), ConsistentRead=True)
        if "Item" not in answer:
            return None
        return {name: value for name, value in plain(answer["Item"]).items() if name not in ("pk", "sk")}

    def holds(self, condition: str, parameters: dict[str, Any], pk: str = "a") -> bool:
        """Whether the condition holds for the item."""
        return self.hold([(pk, condition)], parameters) == [True]

    def hold(self, checks: Sequence[tuple[str, str]], parameters: dict[str, Any]) -> list[bool]:
        """Whether each condition holds for the item that it comes with; one item, one condition."""
        actions = [
            {"ConditionCheck": {"TableName": TABLE, "Key": self.key(pk), **conditional(condition, parameters)}}
            for pk, condition in checks
        ]
        try:
            self.transact(*actions)
            return [True] * len(checks)
        except ClientError as error:
            reasons = reasons_of(error)
        assert {code for code, _ in reasons} <= {"None", "ConditionalCheckFailed"}, reasons
        return [code == "None" for code, _ in reasons]


def conditional(condition: str, parameters: dict[str, Any], update: str = "") -> dict[str, Any]:
    """As the ledger writes it: every attribute as a name, every value as a parameter, and none that is not used."""
    text = f"{update} {condition}"
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    request: dict[str, Any] = {}
    if condition:
        request["ConditionExpression"] = condition
    if update:
        request["UpdateExpression"] = update
    if names := {word: word[1:] for word in words if word.startswith("#")}:
        request["ExpressionAttributeNames"] = names
    if values := {word: _serialize(parameters[word]) for word in words if word.startswith(":")}:
        request["ExpressionAttributeValues"] = values
    return request


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Any]]:
    """One table in each of them, for all the tests here."""
    service = DynamoDb(Kernel(0))
    with (
        simulated("dynamodb", service.answer) as in_memory,
        moto("dynamodb") as in_moto,
        running() as local,
    ):
        clients = {SIMULATED: in_memory, MOTO: in_moto, LOCAL: local.client()}
        for name in (MOTO, LOCAL):
            create_table(clients[name], TABLE)
        yield clients


_prefixes = (f"{number}#" for number in itertools.count())


@pytest.fixture(params=[SIMULATED, MOTO, LOCAL])
def dynamodb(request: pytest.FixtureRequest, clients: dict[str, Any]) -> Backend:
    expect_differences(request, request.param)
    return Backend(request.param, clients[request.param], next(_prefixes))


# ---- conditions on one item


def test_what_is_absent_or_expired_can_be_put(dynamodb: Backend) -> None:
    dynamodb.put({"expires_at": NOW + 10, "notice": "n1"}, ABSENT, {":now": NOW})
    assert dynamodb.get("a") == {"expires_at": NOW + 10, "notice": "n1"}
    dynamodb.put({"expires_at": NOW + 99, "notice": "n2"}, ABSENT, {":now": NOW + 10})
    assert dynamodb.get("a") == {"expires_at": NOW + 99, "notice": "n2"}


def test_a_refused_put_answers_with_the_item_that_stands_there(dynamodb: Backend) -> None:
    dynamodb.put({"expires_at": NOW + 10, "notice": "n1"})
    with pytest.raises(ClientError) as refused:
        dynamodb.put({"notice": "n2"}, ABSENT, {":now": NOW}, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert plain(refused.value.response["Item"]) == {
        "pk": f"{dynamodb.prefix}a",
        "sk": "x",
        "expires_at": NOW + 10,
        "notice": "n1",
    }
    assert dynamodb.get("a") == {"expires_at": NOW + 10, "notice": "n1"}


def test_a_refused_put_that_did_not_ask_gets_no_item(dynamodb: Backend) -> None:
    dynamodb.put({"n": 1})
    with pytest.raises(ClientError) as refused:
        dynamodb.put({"n": 2}, "attribute_not_exists(#pk)")
    assert "Item" not in refused.value.response


def test_a_put_refused_for_want_of_an_item_answers_with_none(dynamodb: Backend) -> None:
    with pytest.raises(ClientError) as refused:
        dynamodb.put({"n": 2}, "#notice = :owner", {":owner": "n1"}, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert not refused.value.response.get("Item")
    assert dynamodb.get("a") is None


def test_a_put_replaces_the_whole_item(dynamodb: Backend) -> None:
    dynamodb.put({"one": 1, "two": 2})
    dynamodb.put({"two": 3})
    assert dynamodb.get("a") == {"two": 3}


def test_an_update_without_a_condition_makes_the_item(dynamodb: Backend) -> None:
    dynamodb.update("a", "ADD #n :one", {":one": 1})
    assert dynamodb.get("a") == {"n": 1}


def test_an_update_answers_with_the_item_after_it_if_asked(dynamodb: Backend) -> None:
    dynamodb.put({"n": 1, "m": 2})
    answer = dynamodb.update("a", "SET #n = :n REMOVE #m", {":n": 3}, ReturnValues="ALL_NEW")
    assert plain(answer["Attributes"]) == {"pk": f"{dynamodb.prefix}a", "sk": "x", "n": 3}
    assert "Attributes" not in dynamodb.update("a", "SET #n = :n", {":n": 4})


def test_a_refused_update_makes_no_item(dynamodb: Backend) -> None:
    refused = code_of(lambda: dynamodb.update("a", "SET #job = :j", {":j": "j", ":s": "S"}, "#state = :s"))
    assert refused == "ConditionalCheckFailedException"
    assert dynamodb.get("a") is None


def test_a_delete_needs_no_item(dynamodb: Backend) -> None:
    dynamodb.put({"n": 1})
    for _ in range(2):
        dynamodb.client.delete_item(TableName=TABLE, Key=dynamodb.key("a"))
        assert dynamodb.get("a") is None


def test_a_delete_keeps_to_its_condition(dynamodb: Backend) -> None:
    dynamodb.put({"n": 1})
    request = {"TableName": TABLE, "Key": dynamodb.key("a"), **conditional("#n = :n", {":n": 2})}
    assert code_of(lambda: dynamodb.client.delete_item(**request)) == "ConditionalCheckFailedException"
    assert dynamodb.get("a") == {"n": 1}


# ---- inserts, many in a request


def inserts(dynamodb: Backend, *items: dict[str, Any]) -> list[str]:
    """The code of each statement's error, empty for success."""
    statements = []
    for each in items:
        whole = item({"pk": dynamodb.prefix + each["pk"], "sk": "x", **{k: v for k, v in each.items() if k != "pk"}})
        fields = ", ".join(f"'{name}': ?" for name in whole)
        text = f'INSERT INTO "{TABLE}" VALUE {{{fields}}}'
        statements.append({"Statement": text, "Parameters": list(whole.values())})
    answer = dynamodb.client.batch_execute_statement(Statements=statements)
    return [each.get("Error", {}).get("Code", "") for each in answer["Responses"]]


def test_an_insert_puts_the_item(dynamodb: Backend) -> None:
    values = {"text": "a", "empty": "", "number": 1, "yes": True, "members": {"a", "b"}, "sums": {"rows": 1}}
    assert inserts(dynamodb, {"pk": "a", **values}) == [""]
    assert dynamodb.get("a") == values


def test_an_insert_changes_nothing_that_is_there(dynamodb: Backend) -> None:
    dynamodb.put({"expires_at": NOW, "notice": "n1"})
    assert inserts(dynamodb, {"pk": "a", "notice": "n2"}, {"pk": "b", "notice": "n2"}) == ["DuplicateItem", ""]
    assert dynamodb.get("a") == {"expires_at": NOW, "notice": "n1"}
    assert dynamodb.get("b") == {"notice": "n2"}


def test_an_item_may_be_inserted_once_in_a_request(dynamodb: Backend) -> None:
    twice = ({"pk": "a", "n": 1}, {"pk": "b"}, {"pk": "a", "n": 2})
    # DynamoDB Local has carried some out by then, so a refused request tells nothing of what is there
    assert code_of(lambda: inserts(dynamodb, *twice)) == "ValidationException"


def test_a_request_has_25_inserts_at_most(dynamodb: Backend) -> None:
    assert inserts(dynamodb, *({"pk": f"a{number}"} for number in range(25))) == [""] * 25
    too_many = [{"pk": f"b{number}"} for number in range(26)]
    assert code_of(lambda: inserts(dynamodb, *too_many)) == "ValidationException"


POWERTOOLS = (
    "attribute_not_exists(#sk) OR #expires_at < :now"
    " OR (#status = :inprogress AND attribute_exists(#in_progress) AND #in_progress < :millis)"
)


@pytest.mark.parametrize(
    ("there", "put"),
    [
        (None, True),
        ({"expires_at": NOW + 1, "status": "COMPLETED"}, False),
        ({"expires_at": NOW, "status": "COMPLETED"}, False),
        ({"expires_at": NOW - 1, "status": "COMPLETED"}, True),
        ({"expires_at": NOW + 1, "status": "INPROGRESS", "in_progress": NOW * 1000 + 1}, False),
        ({"expires_at": NOW + 1, "status": "INPROGRESS", "in_progress": NOW * 1000 - 1}, True),
        ({"expires_at": NOW + 1, "status": "INPROGRESS"}, False),
        ({"expires_at": NOW + 1, "status": "COMPLETED", "in_progress": NOW * 1000 - 1}, False),
    ],
)
def test_powertools_may_begin(dynamodb: Backend, there: dict[str, Any] | None, put: bool) -> None:
    if there is not None:
        dynamodb.put(there)
    values = {":now": NOW, ":millis": NOW * 1000, ":inprogress": "INPROGRESS"}
    refused = code_of(lambda: dynamodb.put({"status": "INPROGRESS"}, POWERTOOLS, values))
    assert refused == ("" if put else "ConditionalCheckFailedException")


THERE = {
    "number": 5,
    "text": "b",
    "set": {"one", "two"},
    "list": ["one", 2],
    "map": {"committed": 3},
    "yes": True,
    "nothing": None,
    "empty": "",
}


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ("#number = :v", 5, True),
        ("#number <> :v", 5, False),
        ("#number < :v", 6, True),
        ("#number <= :v", 5, True),
        ("#number > :v", 5, False),
        ("#number >= :v", 6, False),
        ("#text < :v", "c", True),
        ("#text = :v", "B", False),
        ("#set = :v", {"two", "one"}, True),
        ("#set = :v", {"one"}, False),
        ("#list = :v", ["one", 2], True),
        ("#map = :v", {"committed": 3}, True),
        ("#yes = :v", True, True),
        ("#nothing = :v", None, True),
        ("#empty = :v", "", True),
        # of two types
        ("#number = :v", "5", False),
        ("#number <> :v", "5", True),
        # an attribute that is not there
        ("#missing = :v", 5, False),
        ("#missing <> :v", 5, True),
        ("#missing < :v", 5, False),
        ("#missing >= :v", 5, False),
        ("NOT #missing = :v", 5, True),
        ("NOT #missing < :v", 5, True),
        ("attribute_exists(#missing)", None, False),
        ("attribute_not_exists(#missing)", None, True),
        ("attribute_exists(#nothing)", None, True),
        ("attribute_exists(#empty)", None, True),
        # size
        ("size(#set) < :v", 3, True),
        ("size(#set) < :v", 2, False),
        ("size(#text) = :v", 1, True),
        ("size(#list) = :v", 2, True),
        ("size(#map) = :v", 1, True),
        ("size(#empty) = :v", 0, True),
        ("attribute_not_exists(#missing) OR size(#missing) < :v", 0, True),
        # contains
        ("contains(#set, :v)", "one", True),
        ("contains(#set, :v)", "on", False),
        ("contains(#set, :v)", 1, False),
        ("contains(#text, :v)", "b", True),
        ("contains(#list, :v)", 2, True),
        ("contains(#list, :v)", "2", False),
        ("contains(#missing, :v)", "one", False),
        ("contains(#number, :v)", "5", False),
        # AND before OR, NOT before AND
        ("#number = :v OR #number = :v AND #missing = :v", 5, True),
        ("(#number = :v OR #number = :v) AND #missing = :v", 5, False),
        ("NOT #number = :v OR #number = :v", 5, True),
        ("NOT (#number = :v OR #number = :v)", 5, False),
        ("NOT #missing = :v AND #number = :v", 5, True),
    ],
)
def test_a_condition_holds(dynamodb: Backend, condition: str, value: Any, expected: bool) -> None:
    dynamodb.put(THERE)
    assert dynamodb.holds(condition, {":v": value}) is expected


@pytest.mark.parametrize("condition", ["size(#missing) < :v", "size(#missing) = :v", "size(#missing) >= :v"])
def test_what_is_not_there_has_no_size(dynamodb: Backend, condition: str) -> None:
    dynamodb.put(THERE)
    assert not dynamodb.holds(condition, {":v": 0})


@pytest.mark.parametrize("condition", ["#number < :v", "#number >= :v"])
def test_a_number_is_neither_before_nor_after_a_text(dynamodb: Backend, condition: str) -> None:
    dynamodb.put(THERE)
    assert not dynamodb.holds(condition, {":v": "6"})


def test_true_is_not_one(dynamodb: Backend) -> None:
    dynamodb.put(THERE)
    assert not dynamodb.holds("#yes = :v", {":v": 1})


def test_parentheses_may_not_be_doubled(dynamodb: Backend) -> None:
    dynamodb.put(THERE)
    code = code_of(lambda: dynamodb.put({}, "((#number = :v))", {":v": 5}))
    assert code == "ValidationException"


def test_an_attribute_is_not_compared_with_itself(dynamodb: Backend) -> None:
    dynamodb.put(THERE)
    assert code_of(lambda: dynamodb.put({}, "#number = #number")) == "ValidationException"


# ---- updates


@pytest.mark.parametrize(
    ("before", "update", "parameters", "after"),
    [
        ({}, "ADD #n :v", {":v": 2}, {"n": 2}),
        ({"n": 3}, "ADD #n :v", {":v": -5}, {"n": -2}),
        ({}, "ADD #s :v", {":v": {"a"}}, {"s": {"a"}}),
        ({"s": {"a"}}, "ADD #s :v", {":v": {"a", "b"}}, {"s": {"a", "b"}}),
        ({"s": {"a", "b"}}, "DELETE #s :v", {":v": {"b", "c"}}, {"s": {"a"}}),
        ({"s": {"a"}, "n": 1}, "DELETE #s :v", {":v": {"a"}}, {"n": 1}),
        ({"n": 1}, "DELETE #s :v", {":v": {"a"}}, {"n": 1}),
        ({"n": 1, "m": 2}, "REMOVE #n, #gone", {}, {"m": 2}),
        ({"n": 1}, "SET #n = :v, #m = #n", {":v": 9}, {"n": 9, "m": 1}),
        ({"n": 1}, "SET #n = #n + :v", {":v": 9}, {"n": 10}),
        ({"n": 1}, "SET #n = if_not_exists(#n, :v), #m = if_not_exists(#m, :v)", {":v": 9}, {"n": 1, "m": 9}),
        (
            {"n": 1},
            "SET #tally = :v",
            {":v": {"committed": 3, "rows": 0}},
            {"n": 1, "tally": {"committed": 3, "rows": 0}},
        ),
        (
            {"running": {"b1"}, "sealed": {"b2"}, "jobs": 4},
            "ADD #running :b, #jobs :one DELETE #sealed :b",
            {":b": {"b2"}, ":one": 1},
            {"running": {"b1", "b2"}, "jobs": 5},
        ),
        (
            {"open_batch": "b1"},
            "REMOVE #open_batch ADD #sealed :b",
            {":b": {"b1"}},
            {"sealed": {"b1"}},
        ),
        (
            {"job_run": "j", "halted": "h", "attempt": 1},
            "SET #attempt = :v, #fencing = :f REMOVE #job_run, #halted",
            {":v": 2, ":f": True},
            {"attempt": 2, "fencing": True},
        ),
    ],
)
def test_an_update_leaves(
    dynamodb: Backend, before: dict[str, Any], update: str, parameters: dict[str, Any], after: dict[str, Any]
) -> None:
    dynamodb.put(before)
    dynamodb.update("a", update, parameters)
    assert dynamodb.get("a") == after


def test_an_expression_may_not_leave_values_unused(dynamodb: Backend) -> None:
    request = {"ExpressionAttributeValues": item({":v": 1, ":unused": 2}), "ExpressionAttributeNames": {"#n": "n"}}
    update = {"TableName": TABLE, "Key": dynamodb.key("a"), "UpdateExpression": "SET #n = :v", **request}
    assert code_of(lambda: dynamodb.client.update_item(**update)) == "ValidationException"


def test_an_expression_may_not_leave_names_unused(dynamodb: Backend) -> None:
    request = {"ExpressionAttributeValues": item({":v": 1}), "ExpressionAttributeNames": {"#n": "n", "#unused": "u"}}
    update = {"TableName": TABLE, "Key": dynamodb.key("a"), "UpdateExpression": "SET #n = :v", **request}
    assert code_of(lambda: dynamodb.client.update_item(**update)) == "ValidationException"


def test_an_expression_may_not_name_a_reserved_word(dynamodb: Backend) -> None:
    request = {"ExpressionAttributeValues": item({":v": 1})}
    update = {"TableName": TABLE, "Key": dynamodb.key("a"), "UpdateExpression": "SET state = :v", **request}
    assert code_of(lambda: dynamodb.client.update_item(**update)) == "ValidationException"


def test_an_update_may_not_write_a_key(dynamodb: Backend) -> None:
    assert code_of(lambda: dynamodb.update("a", "SET #pk = :v", {":v": "b"})) == "ValidationException"


def test_adding_text_is_refused(dynamodb: Backend) -> None:
    assert code_of(lambda: dynamodb.update("a", "ADD #n :v", {":v": "text"})) == "ValidationException"


def test_adding_a_number_to_a_text_is_refused(dynamodb: Backend) -> None:
    dynamodb.put({"n": "text"})
    assert code_of(lambda: dynamodb.update("a", "ADD #n :v", {":v": 1})) == "ValidationException"


def test_setting_from_what_is_not_there_is_refused(dynamodb: Backend) -> None:
    assert code_of(lambda: dynamodb.update("a", "SET #n = #m", {})) == "ValidationException"


# ---- transactions


def put_of(backend: Backend, pk: str, values: dict[str, Any], condition: str = "", **parameters: Any) -> dict[str, Any]:
    given_values = {f":{name}": value for name, value in parameters.items()}
    return {"Put": {"TableName": TABLE, "Item": item(values) | backend.key(pk), **conditional(condition, given_values)}}


def update_of(backend: Backend, pk: str, update: str, condition: str = "", **parameters: Any) -> dict[str, Any]:
    given_values = {f":{name}": value for name, value in parameters.items()}
    return {"Update": {"TableName": TABLE, "Key": backend.key(pk), **conditional(condition, given_values, update)}}


def asking_old(action: dict[str, Any]) -> dict[str, Any]:
    ((kind, request),) = action.items()
    return {kind: {**request, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}


def reasons_of(error: ClientError) -> list[Any]:
    """(code, the item that stood in the way) by action."""
    assert error.response["Error"]["Code"] == "TransactionCanceledException", error
    return [
        (reason.get("Code"), plain(reason["Item"]) if reason.get("Item") else None)
        for reason in error.response["CancellationReasons"]
    ]


def test_a_transaction_does_all(dynamodb: Backend) -> None:
    dynamodb.put({"pk": "b", "state": "OPEN", "notices": 1})
    dynamodb.transact(
        put_of(dynamodb, "n", {"batch": "b"}, ABSENT, now=NOW),
        update_of(dynamodb, "b", "ADD #notices :one", "#state = :open", one=1, open="OPEN"),
        {"Delete": {"TableName": TABLE, "Key": dynamodb.key("gone")}},
    )
    assert (dynamodb.get("n"), dynamodb.get("b")) == ({"batch": "b"}, {"state": "OPEN", "notices": 2})


def test_a_transaction_does_nothing_and_says_of_each_action_why(dynamodb: Backend) -> None:
    dynamodb.put({"pk": "b", "state": "SEALED"})
    actions = (
        put_of(dynamodb, "n", {"batch": "b"}, ABSENT, now=NOW),
        update_of(dynamodb, "b", "ADD #notices :one", "#state = :open", one=1, open="OPEN"),
        update_of(dynamodb, "r", "SET #open_batch = :b", "attribute_not_exists(#open_batch)", b="b"),
        update_of(dynamodb, "q", "SET #n = :n", "#n = :n", n=1),
    )
    with pytest.raises(ClientError) as refused:
        dynamodb.transact(*map(asking_old, actions))
    there = {"pk": f"{dynamodb.prefix}b", "sk": "x", "state": "SEALED"}
    expected = [("None", None), ("ConditionalCheckFailed", there), ("None", None), ("ConditionalCheckFailed", None)]
    assert reasons_of(refused.value) == expected
    assert [dynamodb.get(pk) for pk in ("n", "b", "r", "q")] == [None, {"state": "SEALED"}, None, None]


def test_a_transaction_that_did_not_ask_gets_no_item(dynamodb: Backend) -> None:
    dynamodb.put({"pk": "b", "state": "SEALED"})
    with pytest.raises(ClientError) as refused:
        dynamodb.transact(update_of(dynamodb, "b", "SET #n = :n", "#state = :open", n=1, open="OPEN"))
    assert reasons_of(refused.value) == [("ConditionalCheckFailed", None)]


def test_a_transaction_checks_what_it_does_not_write(dynamodb: Backend) -> None:
    dynamodb.put({"pk": "b", "state": "SEALED"})
    check = {"TableName": TABLE, "Key": dynamodb.key("b"), **conditional("#state = :open", {":open": "OPEN"})}
    with pytest.raises(ClientError) as refused:
        dynamodb.transact(put_of(dynamodb, "n", {"n": 1}), {"ConditionCheck": check})
    assert reasons_of(refused.value) == [("None", None), ("ConditionalCheckFailed", None)]
    assert dynamodb.get("n") is None


def test_a_transaction_takes_an_item_once(dynamodb: Backend) -> None:
    actions = (put_of(dynamodb, "n", {"n": 1}), update_of(dynamodb, "n", "SET #n = :n", n=2))
    assert code_of(lambda: dynamodb.transact(*actions)) == "ValidationException"
    assert dynamodb.get("n") is None


def test_a_transaction_has_at_most_a_hundred_actions(dynamodb: Backend) -> None:
    actions = [put_of(dynamodb, f"n{number}", {"n": number}) for number in range(101)]
    assert code_of(lambda: dynamodb.transact(*actions)) == "ValidationException"
    dynamodb.transact(*actions[:100])
    assert (dynamodb.get("n0"), dynamodb.get("n99"), dynamodb.get("n100")) == ({"n": 0}, {"n": 99}, None)


def test_a_transaction_with_the_same_token_is_done_once(dynamodb: Backend) -> None:
    action = update_of(dynamodb, "b", "ADD #n :one", one=1)
    for _ in range(2):
        dynamodb.transact(action, ClientRequestToken=f"token-{dynamodb.prefix}")
    assert dynamodb.get("b") == {"n": 1}
    dynamodb.transact(action, ClientRequestToken=f"other-{dynamodb.prefix}")
    assert dynamodb.get("b") == {"n": 2}


def test_a_token_of_a_refused_transaction_is_free(dynamodb: Backend) -> None:
    action = update_of(dynamodb, "b", "SET #n = :n", "attribute_exists(#pk)", n=2)
    token = {"ClientRequestToken": f"refused-{dynamodb.prefix}"}
    assert code_of(lambda: dynamodb.transact(action, **token)) == "TransactionCanceledException"
    dynamodb.put({"pk": "b", "n": 1})
    dynamodb.transact(action, **token)
    assert dynamodb.get("b") == {"n": 2}


def test_a_token_stands_for_one_content(dynamodb: Backend) -> None:
    token = {"ClientRequestToken": f"content-{dynamodb.prefix}"}
    dynamodb.transact(put_of(dynamodb, "n", {"n": 1}), **token)
    code = code_of(lambda: dynamodb.transact(put_of(dynamodb, "n", {"n": 2}), **token))
    assert (code, dynamodb.get("n")) == ("IdempotentParameterMismatchException", {"n": 1})


# ---- reading


def test_a_query_has_the_items_of_one_partition_in_order(dynamodb: Backend) -> None:
    order = ["B", "a", "ab", "b", "é", "日", "😀"]
    for sk in reversed(order):
        dynamodb.put({"sk": sk})
    dynamodb.put({"pk": "other", "sk": "a"})
    pages = dynamodb.client.get_paginator("query").paginate(
        TableName=TABLE,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues=item({":pk": f"{dynamodb.prefix}a"}),
        ConsistentRead=True,
    )
    assert [plain(found)["sk"] for page in pages for found in page["Items"]] == order


def test_a_query_with_a_limit_reads_so_many_and_says_where_to_go_on(dynamodb: Backend) -> None:
    for sk in "abc":
        dynamodb.put({"sk": sk})
    asked = {
        "TableName": TABLE,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": item({":pk": f"{dynamodb.prefix}a"}),
        "ConsistentRead": True,
        "Limit": 2,
    }
    first = dynamodb.client.query(**asked)
    assert [plain(found)["sk"] for found in first["Items"]] == ["a", "b"]
    rest = dynamodb.client.query(**asked, ExclusiveStartKey=first["LastEvaluatedKey"])
    assert [plain(found)["sk"] for found in rest["Items"]] == ["c"]
    assert "LastEvaluatedKey" not in rest


def test_a_query_of_nothing_is_empty(dynamodb: Backend) -> None:
    answer = dynamodb.client.query(
        TableName=TABLE,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues=item({":pk": f"{dynamodb.prefix}nobody"}),
    )
    assert (answer["Items"], answer["Count"]) == ([], 0)


def batch_get(backend: Backend, pks: Sequence[str]) -> Any:
    request = {TABLE: {"Keys": [backend.key(pk) for pk in pks], "ConsistentRead": True}}
    return backend.client.batch_get_item(RequestItems=request)


def test_many_are_read_at_once_and_who_is_not_there_is_left_out(dynamodb: Backend) -> None:
    for pk in ("a", "b"):
        dynamodb.put({"pk": pk, "n": pk})
    answer = batch_get(dynamodb, ["a", "missing", "b"])
    assert sorted(plain(found)["n"] for found in answer["Responses"][TABLE]) == ["a", "b"]
    assert not answer.get("UnprocessedKeys")


def test_a_key_is_read_once_at_most(dynamodb: Backend) -> None:
    assert code_of(lambda: batch_get(dynamodb, ["a", "a"])) == "ValidationException"


def test_a_hundred_keys_are_read_at_most(dynamodb: Backend) -> None:
    assert code_of(lambda: batch_get(dynamodb, [f"k{number}" for number in range(101)])) == "ValidationException"


# ---- anything

UNSHRUNK = settings(phases=[Phase.explicit, Phase.generate], max_examples=25)
"""A failure names the operation that differs; making the example smaller would take minutes. One example is up to a
dozen operations, or 25 conditions."""

PARAMETERS: dict[str, Any] = {
    ":zero": 0,
    ":one": 1,
    ":two": 2,
    ":now": NOW,
    ":millis": NOW * 1000,
    ":p": "p",
    ":q": "q",
    ":just_p": {"p"},
    ":both": {"p", "q"},
    ":yes": True,
    ":open": "OPEN",
    ":sealed": "SEALED",
    ":submitted": "SUBMITTED",
    ":inprogress": "INPROGRESS",
}

PATHS = ("#number", "#text", "#set", "#flag", "#missing", "#pk")
SCALARS = (":zero", ":one", ":two", ":p", ":q", ":yes")


def spaced(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(" ".join)


def one_of(*texts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(texts)


ATOMS = (
    spaced(one_of(*PATHS), one_of("=", "<>"), one_of(*SCALARS, ":just_p", ":both"))
    | spaced(one_of(*PATHS), one_of("<", "<=", ">", ">="), one_of(":zero", ":one", ":two", ":p", ":q"))
    | one_of(*(f"attribute_{name}({path})" for name in ("exists", "not_exists") for path in PATHS))
    | spaced(
        one_of(*(f"size({path})" for path in ("#set", "#text", "#missing"))),
        one_of("=", "<>", "<", "<=", ">", ">="),
        one_of(":zero", ":one", ":two"),
    )
    | one_of(*(f"contains({path}, {value})" for path in PATHS for value in (":p", ":q")))
)


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    words = one_of("AND", "OR")
    # parentheses that change nothing are refused by DynamoDB
    return spaced(inner, words, inner) | st.builds(
        lambda one, word, two, negated: f"{'NOT ' if negated else ''}({one} {word} {two}) {word} {two}",
        ATOMS,
        words,
        ATOMS,
        st.booleans(),
    )


CONDITIONS = st.recursive(ATOMS | ATOMS.map(lambda atom: f"NOT {atom}"), joined, max_leaves=5)
ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "number": st.sampled_from([0, 1, 2]),
        "text": st.sampled_from(["", "p", "q", "pq"]),
        "set": st.sampled_from([{"p"}, {"q"}, {"p", "q"}]),
        "flag": st.booleans(),
    },
)


@UNSHRUNK
@given(attributes=ATTRIBUTES, conditions=st.lists(CONDITIONS, min_size=15, max_size=25))
def test_any_condition_holds_where_it_does_in_dynamodb_local(
    clients: dict[str, Any], attributes: dict[str, Any], conditions: list[str]
) -> None:
    prefix = next(_prefixes)
    # an item of its own for each condition, so that one transaction tries all
    checks = [(f"k{number}", condition) for number, condition in enumerate(conditions)]
    found = {}
    for name in (SIMULATED, LOCAL):
        backend = Backend(name, clients[name], prefix)
        backend.transact(*(put_of(backend, pk, attributes) for pk, _ in checks))
        found[name] = dict(zip(conditions, backend.hold(checks, PARAMETERS), strict=True))
    assert found[SIMULATED] == found[LOCAL]


@dataclass(frozen=True)
class Operation:
    """`writes` are (kind, key, item or update, condition); more than one are a transaction. `asks` for the old item."""

    writes: tuple[tuple[str, str, Any, str], ...]
    asks: bool
    transaction: bool


PKS = ("a", "b", "c")
LEDGER_CONDITIONS = one_of(
    "",
    ABSENT,
    POWERTOOLS,
    "attribute_not_exists(#pk)",
    "attribute_not_exists(#open_batch)",
    "attribute_not_exists(#running) OR size(#running) < :one",
    "attribute_not_exists(#running) OR size(#running) < :two",
    "contains(#running, :p)",
    "#notice = :p",
    "#open_batch = :p",
    "#state = :open",
    "#state = :open AND #notices > :zero",
    "#state = :sealed AND #attempt = :zero",
    "#state = :submitted AND attribute_not_exists(#halted) AND #attempt = :one",
    "#state = :submitted AND #attempt = :one AND attribute_exists(#halted)",
)
LEDGER_UPDATES = one_of(
    "ADD #objects :two, #notices :one",
    "ADD #refused :one",
    "ADD #running :just_p, #jobs :one DELETE #sealed :just_p",
    "ADD #notified :two, #committed_batches :one DELETE #running :just_p",
    "ADD #sealed :both",
    "DELETE #running :both",
    "REMOVE #open_batch ADD #sealed :just_p",
    "SET #open_batch = :p",
    "SET #state = :sealed, #sealed_at = :now",
    "SET #state = :submitted, #attempt = :one, #submitted_at = :now REMOVE #job_run",
    "SET #attempt = :two, #fencing = :yes REMOVE #job_run, #halted",
    "SET #halted = :q",
    "SET #outcome = :p, #error = :q",
    "SET #response_data = :p, #expires_at = :now, #status = :q",
)
LEDGER_ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "expires_at": st.sampled_from([NOW - 1, NOW, NOW + 1]),
        "notice": one_of("p", "q"),
        "open_batch": one_of("p", "q"),
        "state": one_of("OPEN", "SEALED", "SUBMITTED"),
        "attempt": st.sampled_from([0, 1]),
        "notices": st.sampled_from([0, 1]),
        "halted": st.just("why"),
        "running": st.sampled_from([{"p"}, {"q"}, {"p", "q"}]),
        "sealed": st.sampled_from([{"p"}, {"p", "q"}]),
        "status": one_of("INPROGRESS", "COMPLETED"),
        "in_progress": st.sampled_from([NOW * 1000 - 1, NOW * 1000]),
    },
)
WRITES = (
    st.tuples(st.just("Put"), one_of(*PKS), LEDGER_ITEMS, LEDGER_CONDITIONS)
    | st.tuples(st.just("Update"), one_of(*PKS), LEDGER_UPDATES, LEDGER_CONDITIONS)
    | st.tuples(st.just("Delete"), one_of(*PKS), st.none(), LEDGER_CONDITIONS)
)
OPERATIONS = st.builds(lambda write, asks: Operation((write,), asks, False), WRITES, st.booleans()) | st.builds(
    lambda writes, asks: Operation(tuple(writes), asks, True),
    st.lists(WRITES, min_size=1, max_size=3, unique_by=lambda write: write[1]),
    st.booleans(),
)


def request_of(backend: Backend, write: tuple[str, str, Any, str], asks: bool) -> dict[str, Any]:
    kind, pk, what, condition = write
    request: dict[str, Any] = {"TableName": TABLE}
    if kind == "Put":
        request |= {"Item": item(what) | backend.key(pk), **conditional(condition, PARAMETERS)}
    else:
        update = what if kind == "Update" else ""
        request |= {"Key": backend.key(pk), **conditional(condition, PARAMETERS, update)}
    return request | ({"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if asks else {})


def perform(backend: Backend, operation: Operation) -> Any:
    """What the caller gets to see of it."""
    try:
        if operation.transaction:
            writes = [{write[0]: request_of(backend, write, operation.asks)} for write in operation.writes]
            backend.transact(*writes)
        else:
            (write,) = operation.writes
            call = {"Put": "put_item", "Update": "update_item", "Delete": "delete_item"}[write[0]]
            getattr(backend.client, call)(**request_of(backend, write, operation.asks))
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "TransactionCanceledException":
            return reasons_of(error)
        return code, plain(error.response.get("Item", {}))
    return "done"


@pytest.mark.parametrize("name", [SIMULATED, MOTO])
@UNSHRUNK
@given(operations=st.lists(OPERATIONS, min_size=3, max_size=12))
def test_any_sequence_of_the_ledgers_writes_ends_as_in_dynamodb_local(
    clients: dict[str, Any], name: str, operations: list[Operation]
) -> None:
    prefix = next(_prefixes)
    tried, reference = (Backend(each, clients[each], prefix) for each in (name, LOCAL))
    if name == MOTO:  # which copies the whole table for each transaction
        tried.client.delete_table(TableName=TABLE)
        create_table(tried.client, TABLE)
    for operation in operations:
        assert perform(tried, operation) == perform(reference, operation), operation
    assert [tried.get(pk) for pk in PKS] == [reference.get(pk) for pk in PKS]
