"""The consumer of docs/consumers.md, as it is printed there: the totals are right, whatever comes twice or dies."""

import importlib.util
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from moto import mock_aws

from tests.support.fakes import Died
from tests.support.ledgers import moto_client
from tidegate.core.announcements import DETAIL_TYPE, SOURCE, Announcement
from tidegate.core.outcomes import Tally
from tidegate_local.events import matches

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "consumers.md").read_text()
EVENTS = [
    Announcement(f"01B{number:05}", "flights", f"lake.air.{'ab'[number % 2]}", number, Tally(rows=10**number), 60)
    for number in range(5)
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    with mock_aws():
        moto_client("dynamodb").create_table(
            TableName="totals",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        monkeypatch.setenv("TOTALS", "totals")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        spec = importlib.util.spec_from_file_location("rows_per_table", DOCS / "rows_per_table.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setattr(module.inbox, "_client", moto_client("dynamodb"))
        yield module


def message(event: Announcement) -> dict[str, Any]:
    return {"body": json.dumps({"source": SOURCE, "detail-type": DETAIL_TYPE, "detail": dict(event.detail("prod"))})}


def totals() -> dict[str, int]:
    items = moto_client("dynamodb").scan(TableName="totals")["Items"]
    return {
        item["pk"]["S"].removeprefix("rows#"): int(item["rows"]["N"])
        for item in items
        if item["pk"]["S"].startswith("rows#")
    }


def expected() -> dict[str, int]:
    counted: Counter[str] = Counter()
    for event in EVENTS:
        counted[event.table] += event.tally.rows
    return dict(counted)


@pytest.mark.parametrize("seed", range(12))
def test_each_event_twice_in_any_order_with_crashes_in_between(
    consumer: ModuleType, monkeypatch: pytest.MonkeyPatch, seed: int
):
    chance = random.Random(seed)
    real = consumer.inbox._client.transact_write_items
    deaths = itertools.cycle(chance.sample(["before", "after", "", ""], 4))

    def mortal(**asked: Any) -> Any:
        dies = next(deaths)
        if dies == "before":
            raise Died
        answer = real(**asked)
        if dies == "after":
            raise Died
        return answer

    monkeypatch.setattr(consumer.inbox._client, "transact_write_items", mortal)
    waiting = [*EVENTS, *EVENTS]
    chance.shuffle(waiting)
    died = 0
    while waiting:
        together = waiting[: chance.choice((1, 2, 3))]
        try:
            consumer.handler({"Records": list(map(message, together))}, None)
        except Died:
            # Lambda has deleted none of them
            died += 1
            chance.shuffle(waiting)
            continue
        del waiting[: len(together)]
    assert died > 1
    assert totals() == expected()


def test_the_page_prints_the_file():
    (source,) = blocks("python")
    assert source == (DOCS / "rows_per_table.py").read_text()


def test_the_page_shows_the_event_as_it_is_and_a_rule_that_matches_it():
    event, rule = map(json.loads, blocks("json"))
    detail = event["detail"]
    of = Announcement(
        detail["batch"],
        detail["route"],
        detail["table"],
        int(detail["snapshot"]),
        Tally(
            **detail["uploads"], rows=detail["rows"], replaced=detail["replaced_rows"], left_out=detail["left_out_rows"]
        ),
        1_795_256_460,
    )
    assert event == {"source": SOURCE, "detail-type": DETAIL_TYPE, "detail": dict(of.detail("tidegate"))}
    assert matches(rule, event)
