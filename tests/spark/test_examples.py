"""The examples: their configuration is right, and each of their files lands, with every row."""

import dataclasses
import runpy
import uuid
from decimal import Decimal
from pathlib import Path

import pytest

from tests.spark.world import World
from tidegate.core.uploads import Upload
from tidegate.flows.publish import run
from tidegate.settings import check

SHOP = Path(__file__).parents[2] / "examples" / "shop"
CHECKED = check((SHOP / "tidegate.toml").read_text())
MADE = runpy.run_path(str(SHOP / "files.py"))
FILES: dict[str, bytes] = dict(MADE["files"]())
ROWS = {"orders": 3 * MADE["ORDERS"], "customers": MADE["CUSTOMERS"], "clicks": 2 * MADE["CLICKS"]}


def test_nothing_is_wrong_with_them_and_each_file_has_a_route() -> None:
    assert CHECKED.mistakes == ()
    assert CHECKED.settings is not None
    routes = CHECKED.settings.core_routes()
    assert {route.name for route in routes} == set(ROWS)
    for key in FILES:
        assert [route.takes(Upload(route.bucket, key, "", 1)) for route in routes].count(True) == 1


@pytest.mark.parametrize("name", ROWS)
def test_every_file_of_the_route_lands_whole(world: World, batch: str, name: str) -> None:
    assert CHECKED.settings is not None
    (route,) = (each for each in CHECKED.settings.core_routes() if each.name == name)
    world.dataset = dataclasses.replace(route.dataset, table=f"lake.tests.t{uuid.uuid4().hex[:12]}")
    uploads = world.put({key: body for key, body in FILES.items() if key.startswith(f"{name}/")})
    world.seal(batch, uploads)
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)
    assert world.outcomes(batch).endings == ()
    rows = world.rows()
    assert len(rows) == ROWS[name]
    if name == "orders":
        assert all(row.total == sum((line["count"] * line.price for line in row.lines), Decimal(0)) for row in rows)
    if name == "customers":
        assert rows[0].remarks == 'rings twice;\nsays "hello"'
