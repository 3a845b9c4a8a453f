"""Every planted mistake is found, and none is found where there is none: the oracle is neither blind nor jumpy.

What plants them is tested, too: it reaches everybody, and leaves nothing behind.
"""

import copy
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from simulation.checker import bugs, planting
from simulation.checker.bugs import BUGS, HARMLESS, UNSEEN
from simulation.checker.explore import Case, Result, run, seeds, simulation
from simulation.checker.extra_scenarios import EXTRA
from simulation.checker.mistakes.expiring import PAIRED
from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import (
    Bug,
    answered,
    but,
    case_of,
    hurried,
    planted,
    replaced,
    rewired,
    rewritten,
    show,
)
from simulation.checker.scenarios import PLAIN
from tidegate import wiring
from tidegate.core import manifests, uploads
from tidegate.core.uploads import is_later
from tidegate.spark import job

SEEDS = 8


@pytest.fixture(scope="module", autouse=True)
def product_at_hand() -> Iterator[None]:
    """What this module has imported of the product is replaced, too."""
    with simulation(), patch.object(planting, "REACH", (*planting.REACH, __name__)):
        yield


@pytest.fixture
def hurry() -> Iterator[None]:
    with hurried():
        yield


def called(bug: Bug) -> str:
    return bug.name.replace(" ", "-")


def test_every_mistake_finds_the_place_where_it_is_planted() -> None:
    """Whoever renames a function learns it here, before the hour in which they are planted."""
    for bug in (*BUGS, *HARMLESS, *UNSEEN, *PAIRED):
        with planted(bug):
            pass


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("bug", BUGS, ids=called)
def test_a_planted_mistake_breaks_a_promise_in_a_run_that_is_good_without_it(bug: Bug) -> None:
    shown, without = show(bug)
    assert shown.judgement.broken, f"{shown.case} does not show it"
    assert not without.judgement.broken, f"{without.case} is bad without the mistake: {without.judgement.broken}"


@cache
def untouched(case: Case) -> Result:
    return run(case)


@pytest.mark.parametrize("bug", HARMLESS, ids=called)
def test_what_only_saves_money_can_be_taken_away(bug: Bug) -> None:
    missed = False
    with planted(bug):
        its_own = case_of(bug)
    for case in (*map(Case, PLAIN), *seeds(0, SEEDS), its_own):
        with planted(bug):
            result = run(case)
        assert result.good, f"{case}: {result.judgement.broken}"
        missed = missed or result.digest != untouched(case).digest
    assert missed, "every run is the same without it: nothing was taken away"


@pytest.mark.parametrize("bug", UNSEEN, ids=called)
def test_a_mistake_that_no_run_shows_can_be_planted(bug: Bug) -> None:
    with planted(bug):
        assert run(Case("core")).good, "it can be seen: it belongs among the bugs"


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("scenario", EXTRA)
def test_the_product_gets_through_each_accident(scenario: str) -> None:
    assert run(Case(scenario)).judgement.broken == []


@pytest.mark.parametrize("bug", UNSEEN, ids=called)
def test_a_mistake_that_no_run_shows_says_why(bug: Bug) -> None:
    assert bug.because


def test_every_mistake_has_a_name_of_its_own() -> None:
    names = [bug.name for bug in (*BUGS, *HARMLESS, *UNSEEN)]
    assert sorted(set(names)) == sorted(names)


def test_the_list_has_every_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert bugs.main(["--list"]) == 0
    listed = [line.split(" | ")[0].removeprefix("| ") for line in capsys.readouterr().out.splitlines()]
    assert {bug.name for bug in (*BUGS, *HARMLESS, *UNSEEN)} <= set(listed)


# ---- a function is replaced

IS_LATER = "tidegate.core.uploads:is_later"


def always(answer: Any) -> Any:
    return lambda real: lambda *arguments: answer


def test_a_replacement_reaches_whoever_has_imported_the_function() -> None:
    before = is_later
    with replaced(IS_LATER, always(True))():
        assert uploads.is_later is is_later is not before
        assert is_later("", "")
    assert uploads.is_later is is_later is before


def test_a_replacement_is_made_of_the_real_one() -> None:
    with replaced(IS_LATER, lambda real: lambda one, other: not real(one, other))():
        assert is_later("1", "2")
        assert not is_later("2", "1")


def test_a_replacement_may_be_confined_to_one_module() -> None:
    before = is_later
    with replaced(IS_LATER, always(True), within="tidegate.core.uploads")():
        assert uploads.is_later is not before
        assert is_later is before
    assert uploads.is_later is before


def test_a_replacement_is_gone_after_an_error() -> None:
    before = is_later
    with pytest.raises(ZeroDivisionError), replaced(IS_LATER, always(True))():
        raise ZeroDivisionError
    assert uploads.is_later is is_later is before


def test_what_is_imported_for_the_first_time_meanwhile_keeps_nothing() -> None:
    before, late = is_later, ModuleType("simulation.imported_late")
    try:
        with replaced(IS_LATER, always(True))():
            sys.modules[late.__name__] = late
            late.is_later = is_later  # type: ignore[attr-defined]
        assert late.is_later is before
    finally:
        del sys.modules[late.__name__]


def test_a_function_that_others_use_is_nobodys_replacement() -> None:
    before, other = is_later, uploads.version_of
    with replaced(IS_LATER, lambda real: other)():
        pass
    assert (uploads.is_later, uploads.version_of) == (before, other)


def test_one_function_may_be_replaced_twice() -> None:
    before = is_later
    with (
        replaced(IS_LATER, always(3))(),
        replaced(IS_LATER, lambda real: lambda *sequencers: real(*sequencers) + 1)(),
    ):
        assert is_later("", "") == 4
    assert uploads.is_later is is_later is before


def test_methods_that_are_inherited_and_properties_are_replaced() -> None:
    # what runs in the simulation inherits from it
    owner: Any = job.Attempt.__mro__[-2]
    look = owner.look
    sealed = manifests.Sealed("b", "r", (), 0, 0)
    digest = sealed.digest
    with (
        replaced("tidegate.flows.publish:Attempt.look", always("looked"))(),
        replaced("tidegate.core.manifests:Sealed.digest", lambda real: lambda self: real(self)[::-1])(),
    ):
        assert owner.look is not look
        assert sealed.digest == digest[::-1]
    assert owner.look is look
    assert sealed.digest == digest


@pytest.mark.parametrize(
    "where",
    [
        "tidegate.core.nowhere:judge",
        "tidegate.core.claims:nothing",
        "tidegate.core.claims:Claim.nothing",
        "tidegate.core.manifests:VERSION",
        "tidegate.core.claims:Claim",
    ],
)
def test_what_is_no_function_of_the_product_cannot_be_replaced(where: str) -> None:
    with pytest.raises(LookupError, match=where), planted(Bug("-", "-", (replaced(where, always(None)),))):
        pass


def test_a_port_may_have_other_methods() -> None:
    port = but("text", upper=lambda: "no text")
    assert (port.upper(), port.title()) == ("no text", "Text")


# ---- a call of AWS is changed


def asked(service: str, operation: str, parameters: dict[str, Any]) -> Any:
    return wiring._client(service)._make_api_call(operation, parameters)


def echo(service: str, operation: str) -> Any:
    """Whoever asks is answered with what was asked."""
    return answered(service, operation, lambda ask: lambda parameters: parameters)()


def test_a_rewired_call_is_another_one_and_the_caller_does_not_see_it() -> None:
    def change(parameters: dict[str, Any]) -> dict[str, Any]:
        parameters["Item"]["pk"]["S"] = "changed"
        return parameters

    mine = {"Item": {"pk": {"S": "mine"}}}
    with echo("dynamodb", "PutItem"), rewired("dynamodb", "PutItem", change)():
        assert asked("dynamodb", "PutItem", mine) == {"Item": {"pk": {"S": "changed"}}}
    assert mine == {"Item": {"pk": {"S": "mine"}}}


def test_a_call_may_be_answered_as_if_it_was_done() -> None:
    with echo("dynamodb", "PutItem"), rewired("dynamodb", "PutItem", lambda parameters: None)():
        assert asked("dynamodb", "PutItem", {"Item": {}}) == {}


def test_an_answer_may_be_changed() -> None:
    with echo("s3", "GetObject"), answered("s3", "GetObject", lambda ask: lambda given: [ask(given)])():
        assert asked("s3", "GetObject", {"Key": "k"}) == [{"Key": "k"}]


def test_other_operations_and_other_clients_are_left_alone() -> None:
    with (
        echo("dynamodb", "PutItem"),
        echo("dynamodb", "GetItem"),
        echo("s3", "PutObject"),
        rewired("dynamodb", "PutItem", lambda parameters: None)(),
    ):
        assert asked("dynamodb", "GetItem", {"Key": {}}) == {"Key": {}}
        assert asked("s3", "PutObject", {"Key": "k"}) == {"Key": "k"}


def test_a_client_is_as_it_was_when_a_planting_ends() -> None:
    client = wiring._client("dynamodb")
    before = client._make_api_call
    with echo("dynamodb", "PutItem"):
        below = client._make_api_call
        with pytest.raises(ZeroDivisionError), rewired("dynamodb", "PutItem", lambda parameters: None)():
            raise ZeroDivisionError
        assert client._make_api_call is below
    assert client._make_api_call is before


@pytest.mark.parametrize(("service", "operation"), [("dynamodb", "PutEverything"), ("kinesis", "PutRecord")])
def test_what_no_client_can_be_asked_cannot_be_rewired(service: str, operation: str) -> None:
    with pytest.raises(LookupError, match=f"{service}.*"), rewired(service, operation, lambda parameters: None)():
        pass


# ---- what a write means

ADDED = {"TableName": "ledger", "Key": {"pk": {"S": "b#1"}, "sk": {"S": "batch"}}}
REGISTERING = {
    **ADDED,
    "UpdateExpression": "ADD #n :objects, #notices :one",
    "ConditionExpression": "#state = :open",
    "ExpressionAttributeNames": {"#n": "objects", "#notices": "notices", "#state": "state"},
    "ExpressionAttributeValues": {":objects": {"N": "3"}, ":one": {"N": "1"}, ":open": {"S": "OPEN"}},
}


def test_a_write_is_changed_alone_and_in_a_transaction() -> None:
    there = {"Put": {"Item": {"pk": {"S": "n#1"}}, "ConditionExpression": "attribute_not_exists(pk)"}}
    with (
        echo("dynamodb", "UpdateItem"),
        echo("dynamodb", "TransactWriteItems"),
        rewritten("b#", lambda write: write.unconditional())(),
    ):
        assert "ConditionExpression" not in asked("dynamodb", "UpdateItem", REGISTERING)
        sent = asked("dynamodb", "TransactWriteItems", {"TransactItems": [there, {"Update": REGISTERING}]})
    assert sent["TransactItems"][0] == there
    assert "ConditionExpression" not in sent["TransactItems"][1]["Update"]


def test_a_write_says_what_it_does() -> None:
    write = WriteRequest(copy.deepcopy(REGISTERING))
    assert write.pk == "b#1"
    assert (write.adds("notices"), write.adds("objects"), write.adds("bytes")) == (True, True, False)
    assert (write.sets("notices"), write.removes("notices")) == (False, False)
    assert (write.value("objects"), write.value("state")) == (3, None)
    assert (write.asks("state"), write.asks("notices")) == (True, False)
    assert WriteRequest({"Item": {"pk": {"S": "o#1"}, "notice": {"S": "n"}}}).value("notice") == "n"


def test_what_a_write_leaves_is_named_nowhere() -> None:
    write = WriteRequest(copy.deepcopy(REGISTERING))
    write.leaves("objects")
    write.unconditional()
    assert write.request == {
        **ADDED,
        "UpdateExpression": "ADD #notices :one",
        "ExpressionAttributeNames": {"#notices": "notices"},
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }


def test_a_write_may_give_another_value() -> None:
    write = WriteRequest({**ADDED, "UpdateExpression": "SET #a = :a, #b = :b REMOVE #c"})
    write.request["ExpressionAttributeNames"] = {"#a": "a", "#b": "b", "#c": "c"}
    write.request["ExpressionAttributeValues"] = {":a": {"N": "1"}, ":b": {"N": "2"}}
    write.gives("a", "x")
    assert (write.value("a"), write.value("b"), write.removes("c")) == ("x", 2, True)
    write = WriteRequest(copy.deepcopy(REGISTERING))
    write.counts("objects", 7)
    assert (write.value("objects"), write.value("notices")) == (7, 1)
    put = WriteRequest({"Item": {"pk": {"S": "o#1"}, "a": {"N": "1"}}})
    put.gives("a", "x")
    assert put.value("a") == "x"


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("#a = :a", None),
        ("#a = :a AND #b = :b", "#b = :b"),
        ("attribute_not_exists(#b) OR #a <= :a", "attribute_not_exists ( #b )"),
        ("(#b = :b OR #b = :c) AND attribute_exists(#a)", "(#b = :b OR #b = :c)"),
        ("size(#a) < :a AND (attribute_not_exists(#a) OR #b = :b)", "(#b = :b)"),
        ("contains(#b, :a)", "contains ( #b , :a )"),
    ],
)
def test_a_condition_forgets_an_attribute(condition: str, left: str | None) -> None:
    write = WriteRequest(
        {**ADDED, "ConditionExpression": condition, "ExpressionAttributeNames": {"#a": "a", "#b": "b"}}
    )
    write.forgets("a")
    assert write.request.get("ConditionExpression") == left


def test_a_condition_compares_with_another_number() -> None:
    write = WriteRequest(copy.deepcopy(REGISTERING))
    write.request["ConditionExpression"] = "attribute_not_exists(#n) OR #n <= :objects"
    write.compares("objects", 1_000)
    assert write.request["ExpressionAttributeValues"][":objects"] == {"N": "3000"}
