"""The demo's own decisions: its configuration, when it has settled, when it gives up, and what it concludes."""

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.support.build import route
from tidegate.core.batches import Batch, State
from tidegate.core.errors import OutcomeUnknown
from tidegate.core.outcomes import Conservation, Tally
from tidegate.core.uploads import Upload
from tidegate.flows.status import RouteStatus
from tidegate.settings import SettingsError, load
from tidegate_local.cli.narrator import TerminalNarrator, progress_bars, progress_text
from tidegate_local.demo import mischief, run
from tidegate_local.demo.check import Finding
from tidegate_local.demo.config import demo_config, write_config
from tidegate_local.demo.progress import Progress
from tidegate_local.demo.run import Stage, Stalled
from tidegate_local.errors import LocalError

ROOT = Path(__file__).parents[2]
PLAN = mischief.plan([f"flights/{number}.json" for number in range(100)], 13)
BATCH = Batch("b", "flights", State.SUBMITTED, 1, objects=5)


def status(notified: int = 0, ended: Tally | None = None, pending: int = 0, **changes: Any) -> RouteStatus:
    base = RouteStatus(route(), Conservation(notified, ended or Tally(), pending), 0, 0, (), 0, 0)
    return replace(base, **changes)


class Silent:
    """A narrator that keeps what it was told."""

    def __init__(self) -> None:
        self.reports: list[Progress] = []

    def progress(self, progress: Progress) -> None:
        self.reports.append(progress)


class FakeStage(Stage):
    """A stage whose ledger and queues answer as written, the last answer for ever."""

    def __init__(self, *answers: tuple[int, RouteStatus]) -> None:
        super().__init__(Silent(), Path("demo"), PLAN, route(), None, None, None)  # type: ignore[arg-type]
        self.answers = list(answers)

    def queued(self) -> int:
        return self.answers[0][0]

    def status(self) -> RouteStatus:
        return self.answers.pop(0)[1] if len(self.answers) > 1 else self.answers[0][1]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second of the demo's waiting takes no time."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(
        run, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep, strftime=lambda _: "demo-x")
    )
    return


# --- the configuration ---


def test_the_demo_waits_less_and_keeps_no_versions_and_changes_nothing_else(tmp_path: Path):
    file, found = write_config(ROOT / "tidegate.example.toml", tmp_path / "demo")
    ours, theirs = load(file), load(ROOT / "tidegate.example.toml")
    assert found.limits.max_wait == 5
    assert not any(each.versioned for each in ours.routes)
    for mine, other in zip(ours.routes, theirs.routes, strict=True):
        same = other.model_copy(
            update={"versioned": False, "batch": other.batch.model_copy(update={"max_wait": mine.batch.max_wait})}
        )
        assert mine == same


def test_a_route_that_says_versioned_already_is_overruled():
    text = '[[route]]  # the first\nname = "a"\nversioned = true\n[route.batch]\nmax_wait = "60s" # slow\n'
    assert demo_config(text) == (
        '[[route]]  # the first\nversioned = false\nname = "a"\n[route.batch]\nmax_wait = "5s" # slow\n'
    )


def test_a_folder_that_was_used_is_refused(tmp_path: Path):
    with pytest.raises(LocalError, match="fresh folder"):
        write_config(ROOT / "tidegate.example.toml", tmp_path)


def test_a_configuration_without_the_flights_is_refused(tmp_path: Path):
    config = tmp_path / "tidegate.toml"
    config.write_text((ROOT / "tidegate.example.toml").read_text().replace("tailnum string,", ""))
    with pytest.raises(SettingsError, match="no route takes gzipped JSON of flights"):
        write_config(config, tmp_path / "demo")


def test_mistakes_are_told_by_the_name_of_the_users_own_file(tmp_path: Path):
    config = tmp_path / "mine.toml"
    config.write_text("[deployment]\nnames = 1\n")
    with pytest.raises(SettingsError, match=r"mine\.toml"):
        write_config(config, tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


# --- waiting ---


def settled() -> RouteStatus:
    return status(PLAN.uploads, PLAN.expected)


def test_it_waits_for_the_ledger_and_for_the_queues():
    stage = FakeStage(
        (3, status()),
        (2, status(PLAN.uploads, pending=PLAN.uploads, unfinished=(BATCH,))),
        (1, settled()),
        (0, settled()),
    )
    assert run.wait_until(stage, lambda now: run.is_settled(now, PLAN), "all is done") == settled()
    assert stage.answers == [(0, settled())]


def test_a_halted_batch_ends_the_waiting_with_its_reason():
    halted = status(5, pending=5, unfinished=(replace(BATCH, halted="no such column"),))
    with pytest.raises(Stalled, match=r"batch b halted: no such column.*demo/jobs"):
        run.wait_until(FakeStage((0, halted)), lambda now: False, "all is done")


def test_a_standstill_is_told_with_what_is_missing_and_the_logs():
    stuck = status(7, Tally(committed=2), 5, unfinished=(BATCH,))
    with pytest.raises(
        Stalled, match=r"nothing has changed for 150 s.*7 of 101.*5 pending, 4 messages.*SUBMITTED.*demo/logs"
    ):
        run.wait_until(FakeStage((4, stuck)), lambda now: False, "all is done")


def test_slow_progress_is_no_standstill():
    steps = [(0, status(number, pending=number)) for number in range(1, 500)]
    done = FakeStage(*steps, (0, settled()))
    assert run.wait_until(done, lambda now: run.is_settled(now, PLAN), "all is done") == settled()


def test_a_stack_that_broke_ends_the_waiting():
    stage = FakeStage((0, status()))
    stage.broken.append(LocalError("services ended with code 1"))
    with pytest.raises(Stalled, match="services ended with code 1"):
        run.wait_until(stage, lambda now: False, "all is done")


def test_services_that_do_not_answer_end_the_waiting():
    stage = FakeStage((0, status()))

    def refuse() -> RouteStatus:
        raise OutcomeUnknown("could not connect")

    stage.status = refuse  # type: ignore[method-assign]
    with pytest.raises(Stalled, match=r"could not connect.*demo/logs"):
        run.wait_until(stage, lambda now: False, "all is done")


# --- uploading ---


class FakeS3:
    """Keeps what was done in order; ETags are numbers."""

    def __init__(self, fail_on: str = "") -> None:
        self.calls: list[tuple[str, str]] = []
        self.fail_on = fail_on
        self._lock = threading.Lock()

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> dict[str, str]:  # noqa: N803
        if Key == self.fail_on:
            raise OSError("the disk is full")
        with self._lock:
            self.calls.append(("put", Key))
            return {"ETag": f'"{len(self.calls)}"'}

    def delete_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803
        self.calls.append(("delete", Key))


def stage_to_upload(monkeypatch: pytest.MonkeyPatch, s3: FakeS3) -> tuple[FakeStage, list[str]]:
    stage = FakeStage((0, status()))
    stage.s3 = s3
    sent: list[str] = []
    monkeypatch.setattr(stage, "send", sent.append)
    return stage, sent


def hours() -> dict[str, Any]:
    return {key: SimpleNamespace(body=b"x" * 30, flights=({"dep_time": 1},)) for key in PLAN.keys}


def test_what_changes_before_it_is_read_changes_before_anything_else_is_put(monkeypatch: pytest.MonkeyPatch):
    s3 = FakeS3()
    stage, sent = stage_to_upload(monkeypatch, s3)
    run.upload_all(stage, hours())
    assert s3.calls[:4] == [
        ("put", PLAN.overwritten),
        ("put", PLAN.overwritten),
        ("put", PLAN.deleted),
        ("delete", PLAN.deleted),
    ]
    assert sorted(key for call, key in s3.calls if call == "put") == sorted([*PLAN.keys, PLAN.overwritten])
    assert stage.uploads[PLAN.overwritten].version == "etag:2"
    assert len(sent) == 1 + len(PLAN.at_once) + 2 * len(PLAN.three_times)


def test_an_upload_that_fails_ends_the_demo_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    stage, _ = stage_to_upload(monkeypatch, FakeS3(fail_on=PLAN.corrupt))
    with pytest.raises(Stalled, match="an upload failed: OSError: the disk is full"):
        run.upload_all(stage, hours())


# --- the checks ---


def examined(monkeypatch: pytest.MonkeyPatch, before: RouteStatus, after: RouteStatus) -> dict[str, bool]:
    """Which checks of the ledger hold; those of the table and the queue have tests of their own."""
    stage = FakeStage((0, after))
    monkeypatch.setattr(run, "trace_finding", lambda stage, key, outcomes: Finding(key, True, ""))
    monkeypatch.setattr(run, "garbage_finding", lambda stage: Finding("garbage", True, ""))
    monkeypatch.setattr(run, "examine_table", lambda stage, flights, counted: iter(()))
    return {finding.what: finding.holds for finding in run.examine(stage, before, after, None)}


REFUSED = "the notifications repeated after the commit were refused, each of them"


def test_what_was_predicted_passes(monkeypatch: pytest.MonkeyPatch):
    after = replace(settled(), refused=len(PLAN.late))
    assert all(examined(monkeypatch, settled(), after).values())


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        ({"refused": 0}, {REFUSED}),
        ({"jobs": 1}, {"they began no attempt"}),
        (
            {"uploads": Conservation(PLAN.uploads, PLAN.expected + Tally(committed=1), 0)},
            {
                "committed: as many as planned",
                "notified = committed + quarantined + superseded + vanished + present + pending",
            },
        ),
        (
            {"uploads": Conservation(PLAN.uploads + 1, PLAN.expected + Tally(committed=1), 0)},
            {"committed: as many as planned", "every upload has been notified, and counted once"},
        ),
    ],
)
def test_what_was_not_predicted_fails(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], fails: set[str]):
    after = replace(settled(), **{"refused": len(PLAN.late), **change})
    assert {what for what, holds in examined(monkeypatch, settled(), after).items() if not holds} == fails


@pytest.mark.parametrize(
    ("bodies", "holds"),
    [([mischief.GARBAGE], True), ([], False), ([mischief.GARBAGE, "another"], False), (["another"], False)],
)
def test_the_garbage_must_be_set_aside_and_nothing_else(bodies: list[str], holds: bool):
    stage = FakeStage((0, status()))
    stage.application = SimpleNamespace(resources=SimpleNamespace(dead_letters="url"))  # type: ignore[assignment]
    stage.sqs = SimpleNamespace(receive_message=lambda **_: {"Messages": [{"Body": body} for body in bodies]})
    assert run.garbage_finding(stage).holds is holds


@pytest.mark.parametrize(
    ("outcomes", "holds"),
    [
        ({"etag:1": "superseded", "etag:2": "committed"}, True),
        ({"etag:1": "committed", "etag:2": "superseded"}, False),
        ({"etag:1": "committed", "etag:2": "committed"}, False),
        ({"etag:2": "committed"}, False),
    ],
)
def test_of_an_overwritten_object_the_newer_version_must_be_the_one_that_landed(
    monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, str], holds: bool
):
    stage = FakeStage((0, status()))
    stage.application = SimpleNamespace(ports=lambda: None)  # type: ignore[assignment]
    stage.uploads["k"] = Upload("landing", "k", "etag:2", 1)
    traces = [
        SimpleNamespace(outcome=outcome, claim=SimpleNamespace(version=version, error=""))
        for version, outcome in outcomes.items()
    ]
    monkeypatch.setattr(run, "trace", lambda *_, **__: traces)
    assert run.trace_finding(stage, "k", ["committed", "superseded"]).holds is holds


# --- the story ---


def test_progress_is_one_line_of_numbers():
    running = status(10, Tally(committed=3, rows=40), 7, unfinished=(BATCH,), jobs=2, refused=1)
    assert progress_text(Progress(12, 100, 101, running)) == (
        "uploaded 12/100 | notified 10/101 | gathering 2 | in Spark 5 | ended 3 | rows 40 | refused 1 | jobs 2"
    )


def test_on_a_terminal_progress_is_a_few_lines_that_fit():
    running = status(1010, Tally(committed=1003, rows=40_000), 7, unfinished=(BATCH,), jobs=2, refused=1)
    console = Console(width=80, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(progress_bars(Progress(1990, 2000, 2001, running), "  1:05"))
    lines = captured.get().splitlines()
    assert len(lines) == 5
    assert "1990/2000" in lines[0]
    assert "1010/2001" in lines[1]
    assert "1003/2001" in lines[2]
    assert "gathering 2, in Spark 5, rows 40000" in lines[3]


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]):
    with TerminalNarrator() as narrator:
        narrator.chapter("Upload")
        for number in range(50):
            narrator.progress(Progress(number, 100, 101, status()))
        narrator.finding(Finding("all is well", True, "really"))
        narrator.finding(Finding("nothing is amiss", False, "but"))
    printed = capsys.readouterr().out
    assert printed.count("uploaded") == 1
    assert "ok    all is well  (really)" in printed
    assert "FAIL  nothing is amiss  (but)" in printed
    assert "\x1b" not in printed
