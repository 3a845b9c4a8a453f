"""`tidegate cost`: what it prints, what it takes, how it ends. Nothing is asked of anybody."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.test_cli import agree, documented, shape
from tests.unit.test_settings import GOOD
from tidegate.cli import main
from tidegate.cli.exits import Exit
from tidegate.cost.bill import DailyTraffic, Gathering, bill
from tidegate.cost.prices import PRICES
from tidegate.settings import parse

EVERY = ("--per-day", "117123", "--size", "47KB")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["cost", *arguments], catch_exceptions=False, env={"COLUMNS": "120"})


def printed(*arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == Exit.OK
    return " ".join(done.stdout.split())


def document(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def test_the_document_is_what_the_page_shows():
    assert agree(shape(document(*EVERY)), shape(documented("cost")))


def test_every_line_of_the_bill_is_printed_with_its_price_and_they_add_up():
    text, found = printed(*EVERY), document(*EVERY)["tidegate"]
    assert [line["name"] for line in found["lines"]] == list(PRICES)
    for line in found["lines"]:
        assert f"{line['name']} {line['quantity']:,.0f} {PRICES[line['name']]} {line['dollars']:,.2f}" in text
    assert f"together {found['dollars']:,.2f}" in text
    assert sum(line["dollars"] for line in found["lines"]) == pytest.approx(found["dollars"], abs=0.1)


def test_the_floor_and_the_usual_pipelines_stand_beside_it():
    text, found = printed(*EVERY), document(*EVERY)
    for each in (found["tidegate"], found["floor"], *found["usual"]):
        assert f"{each['title']} {each['jobs']:,} {each['dollars']:,.2f}" in text


def test_one_knee_is_marked_where_longer_waits_save_little():
    waits = document(*EVERY)["waits"]
    assert [each["knee"] for each in waits].count(True) == 1
    assert printed(*EVERY).count("longer waits save little") == 1


def test_a_route_brings_its_own_limits_and_the_option_counts_more(tmp_path: Path):
    config = tmp_path / "tidegate.toml"
    config.write_text(GOOD)
    limits = parse(GOOD).core_routes()[0].limits
    of_route = (*EVERY, "--route", "flights", "--config", str(config))
    for asked, wait in ((of_route, limits.max_wait), ((*of_route, "--max-wait", "1h"), 3_600)):
        gathering = Gathering(wait, limits.target_objects, limits.target_bytes)
        assert document(*asked)["tidegate"]["jobs"] == round(bill(DailyTraffic(117_123, 47_000), gathering).jobs)
    assert document(*of_route)["tidegate"] != document(*EVERY)["tidegate"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--per-day", "5", "--size", "many"), "'many' is not a size"),
        (("--per-day", "5", "--size", "1KB", "--max-wait", "soon"), "'soon' is not a time"),
        (("--per-day", "5", "--size", "1KB", "--max-wait", "5"), "--max-wait: '5' is not a time"),
        (("--per-day", "5", "--size", "0B"), "--size: '0B' is not a size"),
        (("--per-day", "5", "--size", "47"), "--size: '47' has no unit: say 47KB"),
        (("--per-day", "5", "--size", "1KB", "--config", "x.toml"), "--config goes with --route"),
        (("--per-day", "5", "--size", "1e400B"), "--size: '1e400B' is not a size"),
        (("--per-day", "5", "--size", "2000000TB"), "--size: '2000000TB' is not a size"),
        (("--per-day", "0", "--size", "1KB"), "--per-day: 0 is not a number of uploads"),
        (("--per-day", "-5", "--size", "1KB"), "--per-day: -5 is not a number of uploads"),
        (("--per-day", "inf", "--size", "1KB"), "--per-day: inf is not a number of uploads"),
        (("--per-day", "nan", "--size", "1KB", "--json"), "--per-day: nan is not a number of uploads"),
        (("--size", "1KB"), "--per-day"),
    ],
)
def test_what_cannot_be_understood_is_told(arguments: tuple[str, ...], why: str):
    done = run(*arguments)
    assert done.exit_code == Exit.USAGE
    assert why in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(("per_day", "size"), [("1", "1B"), ("1e12", "1PB"), ("1", "1PB"), ("1e12", "1B")])
def test_the_least_and_the_most_that_is_taken_has_a_bill(per_day: str, size: str):
    text = json.dumps(document("--per-day", per_day, "--size", size))
    assert "NaN" not in text
    assert "Infinity" not in text


def test_a_route_that_is_not_there_is_told(tmp_path: Path):
    config = tmp_path / "tidegate.toml"
    config.write_text(GOOD)
    done = run(*EVERY, "--route", "fligths", "--config", str(config))
    assert done.exit_code == Exit.USAGE
    assert "there is no route 'fligths'" in " ".join(done.stderr.replace("│", " ").split())
