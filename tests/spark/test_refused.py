"""One object that S3 will not hand to the job ends by itself; what S3 refuses of everything ends nothing."""

import json
from typing import Any

import pytest
from moto.s3.exceptions import InvalidRequest, S3AccessDeniedError
from moto.s3.responses import S3Response

from tests.spark.world import World
from tidegate.core.outcomes import Outcome
from tidegate.flows.publish import Attempt, run

pytestmark = pytest.mark.spark

FOREIGN, SSE_C = "in/foreign-kms.json", "in/sse-c.json"


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """S3 refuses to hand out objects whose keys contain one of these."""
    words: set[str] = set()
    real = S3Response.get_object

    def get_object(self: Any) -> Any:
        if self.bucket_name == "landing" and any(word in self.path for word in words):
            if "sse-c" in self.path:
                # an object under the uploader's own key: 400, whoever asks
                raise InvalidRequest("The object was stored using a form of Server Side Encryption.")
            raise S3AccessDeniedError()
        return real(self)

    monkeypatch.setattr(S3Response, "get_object", get_object)
    return words


def attempt(world: World, batch: str, number: int, *, last: bool) -> Attempt:
    made = world.attempt(batch, number)
    made.last = last
    return made


def files(count: int) -> dict[str, bytes]:
    return {f"in/{number}.json": json.dumps({"id": number}).encode() for number in range(count)}


@pytest.mark.parametrize("key", [FOREIGN, SSE_C])
def test_one_that_is_refused_among_others_is_quarantined_by_the_last_attempt(
    world: World, batch: str, refusing: set[str], key: str
) -> None:
    world.seal(batch, world.put({**files(4), key: b'{"id": 99}'}))
    refusing |= {"foreign-kms", "sse-c"}
    assert run(attempt(world, batch, 1, last=False), "ingest") == 1
    failure = world.failure(batch, 1)
    assert not failure.hopeless
    assert f"1 uploads were refused by S3, e.g. s3://landing/{key}" in failure.reason
    assert world.receipt(batch) is None
    assert run(attempt(world, batch, 2, last=True), "ingest") == 0
    (ending,) = world.outcomes(batch).endings
    assert (ending.key, ending.outcome) == (key, Outcome.QUARANTINED)
    assert ("InvalidRequest" if key == SSE_C else "AccessDenied") in ending.error
    assert world.ids() == [0, 1, 2, 3]


def test_one_that_is_readable_again_lands(world: World, batch: str, refusing: set[str]) -> None:
    world.seal(batch, world.put({**files(2), FOREIGN: b'{"id": 99}'}))
    refusing.add("foreign-kms")
    assert run(attempt(world, batch, 1, last=False), "ingest") == 1
    refusing.clear()
    assert run(attempt(world, batch, 2, last=True), "ingest") == 0
    assert world.ids() == [0, 1, 99]


def test_one_that_is_alone_in_its_batch_is_judged_by_its_neighbours_in_the_bucket(
    world: World, batch: str, refusing: set[str]
) -> None:
    world.put(files(2))
    world.seal(batch, world.put({FOREIGN: b'{"id": 99}'}))
    refusing.add("foreign-kms")
    assert run(attempt(world, batch, 1, last=True), "ingest") == 0
    (ending,) = world.outcomes(batch).endings
    assert ending.outcome is Outcome.QUARANTINED


def test_where_nothing_can_be_read_nothing_ends(world: World, batch: str, refusing: set[str]) -> None:
    world.seal(batch, world.put(files(3)))
    refusing.add("/")
    assert run(attempt(world, batch, 1, last=True), "ingest") == 1
    failure = world.failure(batch, 1)
    assert "look at the job role's permissions" in failure.reason
    assert world.receipt(batch) is None
    refusing.clear()
    assert run(attempt(world, batch, 2, last=True), "ingest") == 0
    assert world.ids() == [0, 1, 2]
