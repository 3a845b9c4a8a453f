"""The audit's handler, beside those of dispatch and settle: an upload whose notification was dropped lands once."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import time_machine
from typer.testing import CliRunner

from lambdas.audit.app import handler as audit
from lambdas.dispatch.app import handler as dispatch
from lambdas.settle.app import handler as settle
from tests.functional.test_handlers import (  # noqa: F401
    Context,
    Deployment,
    clients,
    deployment,
    event,
    failures,
    metrics,
)
from tests.support.build import notice, upload
from tests.support.fakes import play_publishing, uploads_of
from tidegate import wiring
from tidegate.cli import deployment as found_by_cli
from tidegate.cli import main
from tidegate.cli.exits import Exit
from tidegate.core.errors import Retryable
from tidegate.core.uploads import Upload, version_of
from tidegate.settings import DAY, HOUR


def put(there: Deployment, key: str) -> Upload:
    """S3 takes the object, and its notification is dropped."""
    with time_machine.travel(there.clock.now, tick=False):
        answer = wiring._client("s3").put_object(Bucket="landing", Key=key, Body=b"{}")
    return upload(key, version_of(None, answer["ETag"]), 2)


def look() -> dict[str, int]:
    return audit(event("settle_schedule"), Context())


def deliver(there: Deployment) -> None:
    """Dispatch gets every notice that waits."""
    record = event("dispatch_two_groups")["Records"][0]
    bodies = there.bodies(there.resources.notices)
    records = [{**record, "messageId": f"message-{at}", "body": body} for at, body in enumerate(bodies)]
    assert failures(dispatch({"Records": records}, Context())) == []


def land(there: Deployment) -> list[str]:
    """The open batch of flights is handed off and published. Returns its keys."""
    there.clock.advance(HOUR)
    settle(event("settle_schedule"), Context())
    (batch_id,) = there.ledger.route("flights").running
    play_publishing(there.work, batch_id)
    settle(event("settle_schedule"), Context())
    return [item.upload.key for item in uploads_of(there.work, batch_id)]


def test_an_upload_that_was_never_announced_lands_once(deployment: Deployment, metrics: Any):  # noqa: F811
    assert look() == {"lost": 0}
    deployment.clock.advance(HOUR)
    lost = put(deployment, "flights/lost.json")
    deployment.clock.advance(2 * DAY)
    metrics()
    assert look() == {"lost": 1}
    assert metrics() == {("UploadsFoundLost", ""): 1}
    deliver(deployment)
    assert land(deployment) == [lost.key]
    deployment.clock.advance(DAY)
    assert look() == {"lost": 0}
    run = deployment.ledger.audit(wiring.this_deployment().routes["flights"].place)
    assert run is not None
    assert (run.counts.listed, run.counts.committed, run.finished_at) == (1, 1, deployment.clock())
    assert deployment.bodies(deployment.resources.notices) == []


def test_a_person_finds_it_sooner(deployment: Deployment, monkeypatch: pytest.MonkeyPatch):  # noqa: F811
    monkeypatch.setattr(found_by_cli, "find", lambda folder: wiring.this_deployment())
    lost = put(deployment, "flights/lost.json")
    deployment.clock.advance(60)

    def by_hand(*more: str) -> Any:
        given = ["audit", "--route", "flights", "--since", "1h", "--until", "30s", *more]
        return CliRunner().invoke(main.app, given, catch_exceptions=False)

    assert by_hand().exit_code == Exit.FINDING
    assert deployment.bodies(deployment.resources.notices) == []
    assert by_hand("--send").exit_code == Exit.OK
    deliver(deployment)
    assert land(deployment) == [lost.key]
    again = CliRunner().invoke(main.app, ["audit", "--since", "2h", "--until", "30s"], catch_exceptions=False)
    assert again.exit_code == Exit.OK


def test_a_bucket_that_cannot_be_listed_stops_no_other_route(deployment: Deployment, monkeypatch: Any):  # noqa: F811
    look()
    deployment.clock.advance(HOUR)
    put(deployment, "weather/lost.json")
    deployment.clock.advance(2 * DAY)
    s3 = wiring._client("s3")

    def refuse(params: dict[str, Any], **_: Any) -> None:
        if params["Prefix"] == "flights/":
            params["Bucket"] = "no-such-bucket"

    s3.meta.events.register("provide-client-params.s3.ListObjectVersions", refuse)
    try:
        with pytest.raises(Retryable, match="list s3://landing/flights/: NoSuchBucket"):
            look()
    finally:
        s3.meta.events.unregister("provide-client-params.s3.ListObjectVersions", refuse)
    assert len(deployment.bodies(deployment.resources.notices)) == 1
    unfinished = deployment.ledger.audit(wiring.this_deployment().routes["flights"].place)
    assert unfinished is not None
    assert not unfinished.finished_at
    look()
    finished = deployment.ledger.audit(wiring.this_deployment().routes["flights"].place)
    assert finished is not None
    assert (finished.id, finished.finished_at > 0) == (unfinished.id, True)


def test_an_invocation_without_time_for_a_page_leaves_it_to_the_next(deployment: Deployment):  # noqa: F811
    class Late(Context):
        def get_remaining_time_in_millis(self) -> int:
            return 31_000

    look()
    deployment.clock.advance(HOUR)
    put(deployment, "flights/lost.json")
    deployment.clock.advance(2 * DAY)
    assert audit(event("settle_schedule"), Late()) == {"lost": 0}
    run = deployment.ledger.audit(wiring.this_deployment().routes["flights"].place)
    assert run is not None
    assert (run.page, run.finished_at) == (0, 0)
    assert look() == {"lost": 1}


@pytest.fixture
def calls(deployment: Deployment) -> Iterator[Counter[str]]:  # noqa: F811
    """How often S3 and DynamoDB are called."""
    made: Counter[str] = Counter()

    def note(model: Any, **_: Any) -> None:
        made[model.name] += 1

    for service in ("s3", "dynamodb"):
        wiring._client(service).meta.events.register(f"provide-client-params.{service}", note)
    yield made
    for service in ("s3", "dynamodb"):
        wiring._client(service).meta.events.unregister(f"provide-client-params.{service}", note)


def test_a_page_costs_one_listing_and_a_read_for_each_hundred_claims(
    deployment: Deployment,  # noqa: F811
    calls: Counter[str],
):
    """The price in docs/adr/0046-audit.md. With the notices and batches of the claims that is all."""
    look()
    deployment.clock.advance(HOUR)
    there = [put(deployment, f"flights/{number:03}.json") for number in range(250)]
    for start in (0, 125):
        deployment.ledger.claim(notice(*there[start : start + 125]))
    deployment.clock.advance(DAY)
    calls.clear()
    look()
    # whether the ledger is whole; how all places are watched; the claims (3) and their notices; of each place the run's
    # begin and its page; two stale notices are void
    assert calls == Counter(
        {"ListObjectVersions": 2, "GetItem": 1, "Query": 1, "BatchGetItem": 3 + 1, "PutItem": 2, "UpdateItem": 2 + 2}
    )


def test_an_invocation_costs_one_query_and_a_write_for_each_place_that_is_new_or_left_or_back(
    deployment: Deployment,  # noqa: F811
    calls: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """And a read of whether the ledger is whole."""
    there = wiring.this_deployment()
    deployment.ledger.end_rebuild()

    def look_with(**prefixes: str) -> Counter[str]:
        settings = [
            each.model_copy(update={"prefix": prefixes[each.name]})
            for each in there.settings.routes
            if each.name in prefixes
        ]
        now = replace(there, settings=there.settings.model_copy(update={"routes": settings}))
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(wiring, "this_deployment", lambda: now)
            look()
        return +calls

    kept, moved = {"flights": "flights/", "weather": "weather/"}, {"flights": "elsewhere/", "weather": "weather/"}
    assert look_with(**kept) == {"GetItem": 1, "Query": 1, "PutItem": 2}
    assert look_with(**kept) == {"GetItem": 1, "Query": 1}, "nothing has changed"
    assert look_with(**moved) == {"GetItem": 1, "Query": 1, "PutItem": 1, "UpdateItem": 1}
    assert look_with(**moved) == {"GetItem": 1, "Query": 1}
    assert look_with(**kept) == {"GetItem": 1, "Query": 1, "UpdateItem": 2}
    assert look_with(**kept) == {"GetItem": 1, "Query": 1}
