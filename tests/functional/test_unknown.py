"""The names that files have beyond the schema, from the job to whoever looks at the route."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import play_fencing, play_publishing
from tests.support.small_sink import SmallSink, committed
from tests.support.world import World, route
from tidegate.cli import json_output
from tidegate.cli.render_unknown import of_route as told_of_route
from tidegate.core.manifests import OwnedUpload, batch_folder, outcomes_name
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.receipts import decode_outcomes, decode_receipt
from tidegate.core.records import RouteRecord
from tidegate.core.unknown import MORE, UnknownNames
from tidegate.flows.abort import abort
from tidegate.flows.needs import needs
from tidegate.flows.overview import Overview
from tidegate.flows.publish import Attempt, run
from tidegate.flows.status import UNKNOWN_FOR, RouteStatus, status, still_lacked
from tidegate.metrics import Metric
from tidegate.ui.notes import notes

NAMES = UnknownNames(2, {"coupon": 2, "customer.vip": 1})


def of_route(world: World) -> RouteStatus:
    (found,) = status([world.flights], world.ports)
    return found


def body(world: World, batch_id: str, name: str) -> bytes:
    found = world.work.get(batch_folder(batch_id) + name)
    assert found is not None, name
    return found


def test_what_a_job_reads_is_told_of_its_route(world: World, tmp_path: Path):
    batch = world.submitted()

    def read(item: OwnedUpload) -> tuple[Read, list[Any]]:
        if item.upload.key.endswith("0.json"):
            return Read(Outcome.QUARANTINED, error="no JSON", unknown=("of what did not land",)), []
        return Read(Outcome.COMMITTED, 1, unknown=("coupon",)), committed(item)[1]

    sink = SmallSink(tmp_path / "table.db", batch.id, read)
    assert run(Attempt(sink, world.work, batch.id, 1, digest=world.batch(batch.id).manifest), "ingest") == 0
    receipt = decode_receipt(body(world, batch.id, "receipt.json"))
    assert receipt.unknown == UnknownNames(2, {"coupon": 2})
    outcomes = decode_outcomes(world.work.get(outcomes_name(batch_folder(batch.id), receipt.staged)) or b"")
    assert outcomes.unknown.examples == {"coupon": "s3://landing/flights/0000-00001.json"}
    assert world.settle() == []
    assert world.batch(batch.id).unknown == of_route(world).unknown == {"coupon": 2}
    assert world.count.of(Metric.UNKNOWN_COLUMNS, "flights") == 2


def test_a_route_has_the_names_of_the_last_committed_batch_that_has_some(world: World):
    others = UnknownNames(1, {"b": 1, MORE: 1})
    for number, (names, told) in enumerate(
        [(NAMES, NAMES), (others, others), (UnknownNames(), others), (NAMES, NAMES)]
    ):
        batch = world.submitted(prefix=f"flights/{number}-")
        play_publishing(world.work, batch.id, unknown=names)
        assert world.settle() == []
        assert world.batch(batch.id).unknown == names.names
        assert of_route(world).unknown == told.names
    batch = world.submitted(prefix="flights/abandoned-")
    abort(batch.id, world.ports)
    world.settle()
    play_fencing(world.work, batch.id)
    world.settle()
    assert of_route(world).unknown == NAMES.names


def test_names_are_told_for_a_day_after_the_last_file_that_had_them(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, unknown=NAMES)
    world.settle()
    world.clock.advance(UNKNOWN_FOR - 1)
    assert of_route(world).unknown == NAMES.names
    world.clock.advance(1)
    assert of_route(world).unknown == {}


@pytest.mark.parametrize(
    ("schema", "options", "left"),
    [
        ("id int", (), ["coupon", "customer.vip", "lines[].colour", MORE]),
        ("id int, coupon string, customer struct<vip:boolean>", (), ["lines[].colour", MORE]),
        ("coupon int, customer struct<vip:boolean>, lines array<struct<colour:string>>", (), []),
        ("coupon int, customer struct<vip:boolean>, lines map<string,struct<colour:string>>", (), []),
        ("id int", (("unknown", "ignore"),), []),
        ("id int", (("unknown", "refuse"),), []),
    ],
)
def test_names_that_the_schema_has_by_now_or_that_nobody_wants_are_told_no_more(
    schema: str, options: tuple[tuple[str, str], ...], left: list[str]
):
    record = RouteRecord(
        "flights", unknown={"coupon": 2, "customer.vip": 1, "lines[].colour": 1, MORE: 1}, unknown_at=100
    )
    today = route("flights")
    today = replace(today, dataset=replace(today.dataset, schema=schema, options=options))
    assert list(still_lacked(record, today, 200)) == left
    assert list(still_lacked(replace(record, unknown_at=0), today, 10**9)) == left


def test_it_is_a_note_and_needs_nobody(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id, unknown=NAMES)
    world.settle()
    found = of_route(world)
    assert needs([found]) == []
    told = told_of_route("flights", found.unknown)
    assert told == (
        "files of route flights have columns that the schema lacks: coupon (2 uploads), customer.vip (1 upload)"
    )
    assert any(told in note for note in notes(Overview((found,)), world.clock()))
    document = json.loads(json_output.dumps(json_output.status("t", Overview((found,)))))
    assert document["routes"][0]["unknown"] == [
        {"name": "coupon", "uploads": 2},
        {"name": "customer.vip", "uploads": 1},
    ]


def test_most_routes_pay_for_no_metric(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id)
    world.settle()
    assert (Metric.UNKNOWN_COLUMNS, "flights") not in world.count.values
