"""A function whose process is killed in the middle, and what the next delivery of the same event makes of it.

The process dies by SIGKILL while a request of its own is under way: either the request never arrives, or it takes
effect and its answer is lost. Lambda then delivers the same messages again, to another process.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.rie.conftest import Deployed, event, failures
from tests.rie.gate import Gate
from tests.support.fakes import play_publishing
from tests.support.patience import HANGING
from tests.support.rie import Failed
from tidegate.core.batches import State
from tidegate_local.environment import client


@contextmanager
def killed(stack: Deployed, function: str, name: str, gate: Gate, *words: str, after: bool) -> Iterator[None]:
    """Invoke the function and kill its process at the request with these words. Within the block the request is still
    under way, as far as the service can tell."""
    ends: list[str] = []

    def invoke() -> None:
        try:
            ends.append(f"answered {stack.invoke(function, event(name))}")
        except Failed:
            ends.append("failed")

    emulator = stack.emulators[function]
    with gate.holding(*words, after=after) as hold:
        invocation = threading.Thread(target=invoke)
        invocation.start()
        assert hold.reached.wait(HANGING), f"{function} never asked for {words}: {emulator.written()[-2000:]}"
        (process,) = emulator.processes()
        emulator.kill()
        invocation.join(HANGING)
        assert ends == ["failed"], "an invocation whose process is killed does not end"
        assert process not in emulator.processes()
        yield


def kinds(stack: Deployed) -> dict[str, int]:
    """How many items of each kind the ledger holds, by the letter that its keys begin with."""
    found: dict[str, int] = {}
    for item in stack.items():
        letter = item["pk"]["S"].partition("#")[0]
        found[letter] = found.get(letter, 0) + 1
    return found


def let_the_time_of_the_dead_be_over(stack: Deployed) -> None:
    """Powertools lets nobody else start a job until the time is over that the dead function had left (2 minutes)."""
    dynamodb = client("dynamodb", stack.local)
    for item in stack.items():
        if item.get("status") == {"S": "INPROGRESS"}:
            dynamodb.update_item(
                TableName=stack.output("Ledger"),
                Key={"pk": item["pk"], "sk": item["sk"]},
                UpdateExpression="SET in_progress_expires_at = :past",
                ExpressionAttributeValues={":past": {"N": "1"}},
            )


def all_is_there_once(stack: Deployed, starts: int = 1) -> None:
    """Of the event with two groups: 5 uploads in 4 notices, in one batch for each of two routes, both offered to the
    worker that was started for one of them. `starts`: for how many batches one was asked for."""
    assert stack.invoke("settle", event("settle_schedule")) == {"troubles": 0}
    weather, flights = stack.running("weather"), stack.running("flights")
    assert (weather.objects, weather.notices, flights.objects, flights.notices) == (2, 2, 3, 2)
    assert kinds(stack) == {"o": 5, "n": 4, "b": 2, "r": 2, "h": starts, "work": 3, "routes": 2, "ledger": 1}
    (own,) = (batch for batch in (weather, flights) if batch.job_run)
    assert stack.jobs.runs[own.job_run].token.startswith(f"{own.id}-1-")


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "with the answer lost"])
@pytest.mark.parametrize("request_of", ["a claim", "a part", "a registration"])
def test_a_dispatch_that_is_killed_leaves_one_registration_of_each_notice(
    stack: Deployed, request_of: str, after: bool
):
    words = {
        "a claim": ("DynamoDB_20120810.PutItem", "attribute_not_exists", '"o#'),
        "a part": ("PUT ", "/parts/"),
        "a registration": ("DynamoDB_20120810.TransactWriteItems", '"n#'),
    }[request_of]
    with killed(stack, "dispatch", "dispatch_two_groups", stack.services, *words, after=after):
        registered = kinds(stack).get("n", 0)
        assert registered == (1 if request_of == "a registration" and after else 0)
    assert failures(stack.invoke("dispatch", event("dispatch_two_groups"))) == []
    all_is_there_once(stack)
    assert len(stack.started()) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "with the answer lost"])
def test_a_dispatch_that_is_killed_while_it_starts_a_job_leaves_one_job_of_each_batch(stack: Deployed, after: bool):
    """A worker that nobody knows to have started takes what is offered beside the one that is known."""
    with killed(stack, "dispatch", "dispatch_two_groups", stack.emr, "POST", "/jobruns", after=after):
        assert len(stack.started()) == (1 if after else 0)
    # nobody knows whether the dead function is dead: until its time is over nobody starts the job in its place
    assert failures(stack.invoke("dispatch", event("dispatch_two_groups"))) == []
    assert stack.running("weather").job_run == ""
    assert len(stack.started()) == (1 if after else 0)
    let_the_time_of_the_dead_be_over(stack)
    all_is_there_once(stack, starts=2)
    assert len(stack.started()) == len(set(stack.started())) == (2 if after else 1)


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "with the answer lost"])
def test_an_intake_that_is_killed_while_it_publishes_leaves_one_registration(stack: Deployed, after: bool):
    with killed(stack, "intake", "intake_s3", stack.services, "Action=PublishBatch", after=after):
        pass
    assert failures(stack.invoke("intake", event("intake_s3"))) == []
    assert stack.deliver("dispatch") == []
    assert (stack.open_batch("flights").objects, stack.open_batch("weather").objects) == (1, 1)
    assert kinds(stack) == {"o": 2, "n": 2, "b": 2, "r": 2, "routes": 2, "ledger": 1}


@pytest.mark.parametrize("after", [False, True], ids=["before it arrives", "with the answer lost"])
def test_a_settle_that_is_killed_while_it_records_a_commit_leaves_it_counted_once(stack: Deployed, after: bool):
    stack.invoke("dispatch", event("dispatch_two_groups"))
    weather = stack.running("weather")
    play_publishing(stack.work, weather.id, rows=5)
    stack.end_job(weather.job_run)
    words = ("DynamoDB_20120810.TransactWriteItems", weather.id, State.COMMITTED.value)
    with killed(stack, "settle", "settle_job_state_change", stack.services, *words, after=after):
        assert stack.batch(weather.id).state is (State.COMMITTED if after else State.SUBMITTED)
    assert stack.invoke("settle", event("settle_job_state_change")) == {"troubles": 0}
    record = stack.ledger.route("weather")
    assert stack.batch(weather.id).state is State.COMMITTED
    assert (record.running, record.tally.committed, record.tally.rows) == ((), 2, 10)
