"""The benches run, find right rows, and fail on wrong ones; the page has what they found. No time is asserted."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as command
from bench import page, record
from bench.cases import ALONE, CASES, growth, intake
from bench.findings import BarChart, BenchFindings, BenchLimit, BenchTable, WrongAnswer, decode_findings, time_to
from bench.measure import Rounds, Timed, take_turns
from bench.picture import draw
from bench.shortened import shortened

TABLE = BenchTable("t", ("", "s"), [("one", "1.0")], "a note")
FOUND = BenchFindings((TABLE,), (BarChart("c", "A chart", "s", [("g", [("a & b", 1.0), ("c", 2.0)])]),))
QUICK = ("claims", "intake", "growth", "requests")
OF_SPARK = ("exactly_once", "shapes", "corrections", "year")
"""Some of those that start Spark. `make bench` runs the others too, and checks the rows of each."""


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.spark) for name in OF_SPARK)])
def test_a_bench_finds_something_in_seconds(name: str):
    # in a process of its own, as `make bench` does it: clients keep their endpoints, and a session its catalog
    done = command._in_a_process(name, small=True, seconds=1_800)
    assert not isinstance(done, str), done
    found = decode_findings(record.parsed(done.stdout))
    assert found.tables
    assert all(len(row) == len(table.head) for table in found.tables for row in table.rows)
    assert decode_findings(json.loads(found.encode())).text == found.text


def test_a_wrong_answer_fails_the_bench(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "_pack", lambda uploads: [])
    with pytest.raises(WrongAnswer, match="pack gave 0 of 1000 uploads"):
        intake.run(small=True)


def test_peers_take_turns_and_each_answer_is_checked():
    order: list[str] = []
    peers = {name: (lambda name=name: order.append(name) or name) for name in "abc"}
    checked: list[tuple[str, Any]] = []
    found = take_turns(peers, 2, lambda peer, answer: checked.append((peer, answer)))
    assert order == [*"abc", *"cba"]
    assert checked == [(name, name) for name in order]
    assert {len(runs) for runs in found.runs.values()} == {2}


def test_a_ratio_is_the_median_of_the_pairs_so_a_slow_minute_does_not_count():
    slow_minute = Rounds({"a": [Timed(2, 1), Timed(20, 1), Timed(2, 1)], "b": [Timed(1, 1), Timed(10, 1), Timed(4, 1)]})
    assert slow_minute.ratio("a", "b") == 2
    assert slow_minute.more("a", "b") == 1


def test_a_limit_holds_or_says_that_it_does_not():
    assert BenchLimit("x", 1, 1, "s").holds
    assert "DOES NOT HOLD" in str(BenchLimit("x", 2, 1, "s"))


def test_a_limit_is_printed_as_people_write_it():
    assert str(BenchLimit("x", 737.4, 1_000, "MB")) == "x: 737 MB, at most 1,000: holds"
    assert str(BenchLimit("x", 1.0701, 1.25, "")) == "x: 1.07, at most 1.25: holds"
    assert str(BenchLimit("x", 0, 1.25, "")) == "x: 0, at most 1.25: holds"


def test_exponents_take_short_times_for_the_least_that_says_something():
    before, after, later = (growth.Grown(count, s, 0, 0, 0) for count, s in ((10, 0.001), (100, 0.004), (1_000, 0.05)))
    assert growth.exponent(before, after) == 0
    assert growth.exponent(after, later) == pytest.approx(1)


def test_a_result_takes_the_place_of_the_last_one_and_others_stay(tmp_path: Path):
    path = tmp_path / "latest.json"
    record.keep("claims", FOUND, 1, path)
    record.keep("intake", FOUND, 1, path)
    record.keep("claims", BenchFindings((TABLE, TABLE)), 1, path)
    there = record.read(path)
    assert [len(there[name]["tables"]) for name in ("claims", "intake")] == [2, 1]
    assert {"date", "processor", "versions", "text"} <= there["claims"].keys()


def test_an_interrupted_write_leaves_the_last_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "latest.json"
    record.keep("claims", FOUND, 1, path)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        record.keep("claims", BenchFindings(), 1, path)
    assert len(record.read(path)["claims"]["tables"]) == 1


def test_one_bench_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    asked = []

    def process(name: str, **_: Any) -> str:
        asked.append(name)
        return "failed with code 1"

    monkeypatch.setattr(command, "_in_a_process", process)
    assert command.main(["--small"]) == 1
    assert asked == [name for name in CASES if name not in ALONE]
    assert "bench latency: failed with code 1" in capsys.readouterr().err


def test_a_bench_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        command.main(["claim"])
    assert "there is no bench 'claim'" in capsys.readouterr().err


def test_a_chart_is_svg_whatever_its_labels():
    drawn = draw(FOUND.charts[0])
    assert "a &amp; b" in drawn
    assert drawn.count("<rect") == 3


# ---- the page


def test_the_page_is_what_the_last_results_say():
    text, last = page.PAGE.read_text(), record.read()
    assert page.rendered(text, last) == text, "run `python -m bench --page`"
    for name, drawn in page.charts(last).items():
        assert page.PAGE.with_name(name).read_text() == drawn, "run `python -m bench --page`"


def test_the_page_has_a_place_for_every_bench_in_the_order_of_its_prose():
    assert set(re.findall(r"<!-- bench: (\w+) -->", page.PAGE.read_text())) == CASES.keys()


def test_a_section_is_replaced_and_what_has_no_result_stays():
    before = "<!-- bench: claims -->\nold\n<!-- end -->\n<!-- bench: intake -->\nkept\n<!-- end -->\n"
    machine = {**record.machine(), "date": "2026-11-23"}
    after = page.rendered(before, {"claims": {**machine, **asdict(FOUND)}})
    assert "old" not in after
    assert "| one | 1.0 |" in after
    assert "kept" in after


def machine(**other: str) -> dict[str, Any]:
    return {**record.machine(), "date": "2026-11-23", **other, **asdict(FOUND)}


def test_the_page_says_once_when_all_of_it_was_measured_and_else_of_each():
    before = "<!-- measured -->\n<!-- end -->\n"
    assert "on 2026-11-23 on" in page.rendered(before, {"claims": machine(), "intake": machine()})
    later = page.rendered(before, {"claims": machine(), "year": machine(date="2027-01-01"), "intake": machine()})
    assert [line.rpartition(": ")[2] for line in later.splitlines()[1:3]] == ["claims, intake", "year"]


def test_the_page_tells_how_many_limits_hold_and_which_do_not():
    limits = (BenchLimit("x", 1, 1, "s"), BenchLimit("y", 2, 1, "s"))
    said = page.section(machine() | asdict(BenchFindings(limits=limits)))
    assert said == "Limits: 1 of 2 hold.\n- y: 2 s, at most 1: DOES NOT HOLD"


def test_peers_stand_side_by_side_on_the_page():
    head = ("files", "", "seconds", "files a second", "MB a second", "time, to Tidegate")
    rows = [("a", "Tidegate", "1", "2", "3", "1.00"), ("a", "peer", "4", "5", "6", "4.00")]
    rows += [("b", "Tidegate", "7", "8", "9", "1.00")]
    (table,) = shortened([BenchTable("small_files", head, rows, "Medians.")], {time_to("a", "peer"), "another"})
    assert table.head == ("files", "Tidegate", "MB a second", "peer")
    assert table.rows == [("a", "1", "3", "**4 (4.00)**"), ("b", "7", "9", "")]


def test_a_limit_that_a_cell_shows_is_not_listed():
    rows = [("a", "Tidegate", "1", "2", "3", "1.00"), ("a", "peer", "4", "5", "6", "4.00")]
    table = BenchTable("shapes", ("files", "", "seconds", "files a second", "MB a second", "time"), rows)
    limits = (BenchLimit(time_to("a", "peer"), 2, 1, ""), BenchLimit("rows", 2, 1, ""))
    said = page.section(asdict(BenchFindings((table,), (), limits)))
    assert said.endswith("Limits: 0 of 2 hold. Those in bold do not.\n- rows: 2, at most 1: DOES NOT HOLD")
    assert "**4 (4.00)**" in said


def test_the_page_has_the_first_size_and_the_last_and_the_days_of_all_rates_in_one_table():
    sizes = BenchTable("growth", ("what", "uploads"), [("x", "1"), ("x", "2"), ("x", "3"), ("y", "1")])
    head = ("day", "calls of the JVM", "files")
    days = [BenchTable(f"year, a batch every {name}", head, [(day, "35", "9") for day in "1237"]) for name in "mh"]
    grown, year, other = shortened([sizes, *days, TABLE])[0], *shortened([*days, TABLE])[::-1]
    assert grown.rows == [["x", "1"], ["x", "3"], ["y", "1"]]
    assert other is TABLE
    assert year.head == ["a batch every", "day", "files"]
    assert year.rows == [[name, day, "9"] for name in "mh" for day in "17"]
