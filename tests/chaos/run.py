"""The play: traffic, a killer and an operator for some minutes; then quiet, until all has ended; then the judge."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyiceberg.exceptions import NoSuchTableError

from tests.chaos.fates import Kind
from tests.chaos.killer import Killer
from tests.chaos.oracle import judge, publications
from tests.chaos.processes import with_variable
from tests.chaos.report import report
from tests.chaos.runbook import Operator
from tests.chaos.schedules import Schedules
from tests.chaos.traffic import CONFIG, ROUTES, TABLES, WAITS, Traffic
from tests.e2e.conftest import LocalStack
from tidegate_local import stack as local_stack
from tidegate_local.demo.check import Finding
from tidegate_local.environment import client
from tidegate_local.guard import session_members
from tidegate_local.hurry import HURRY

PATIENCE = 20
"""Seconds after which the messages of a killed function come again; 12 minutes on AWS."""
JOBS_STRUCK = 2
MORE_SECONDS = 60.0
"""A run goes on until so many jobs were struck, but not for so much longer: a slow machine starts few."""
LOOK_EVERY = 3.0
AUDIT_EVERY = 12.0
ROUND_EVERY = 6.0
"""Seconds between two looks of settle, two of the audit, and two rounds of the operator."""
MENDED_AFTER = 0.6
"""The share of the storm after which the operator may mend the settings."""
QUIET_SECONDS = 2_400.0
"""Once nothing is killed any more, everything that has not ended after so long is taken to hang. It takes two or three
jobs, one after the other, of 15 s each on an idle machine; 80 s each have been seen on a crowded one."""
STALLED_SECONDS = 900.0
"""Without any change meanwhile it is given up earlier: the longest silence is a job."""
GONE_SECONDS = 300.0
LATE = 12
"""Notifications delivered once more when everything is committed."""

Tell = Callable[[str], None]


def chaos(folder: Path, *, minutes: float, seed: int, tell: Tell) -> list[Finding]:
    """Run it all in `folder`, which must not hold a stack; what was found. The stack is stopped in any case."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "tidegate.toml"
    config.write_text(CONFIG)
    tell(f"seed {seed}; the stack is in {folder}")
    with patch.dict(os.environ, {HURRY: json.dumps(WAITS)}):
        running = local_stack.detach(config, folder / "local", on_progress=lambda step: None, patience=PATIENCE)
    stack = LocalStack(folder / "local", dict(running.environment))
    killer = Killer(stack.folder, running.pid, seed, tell)
    traffic = Traffic(
        s3=client("s3", stack.environment),
        sqs=client("sqs", stack.environment),
        buffer=stack.environment["TIDEGATE_BUFFER"],
        seed=seed,
    )
    operator = Operator(stack, config, running.pid, seed, tell)
    schedules = Schedules(stack)
    schedules.settle()
    # from now on it watches the buckets
    schedules.audit()
    play = Play(traffic, killer, operator, schedules)
    try:
        findings = list(_perform(stack, play, minutes, tell))
    finally:
        killer.stop()
        traffic.stop()
        local_stack.down(folder / "local")
    # a variable that every process of this stack has, and no other process
    mark = "TIDEGATE_CATALOG_URI"
    findings.append(
        _none_left("after the stack no process of it is left", lambda: with_variable(mark, stack.environment[mark]))
    )
    for finding in findings:
        tell(f"{'holds ' if finding.holds else 'BROKEN'}  {finding.what}: {finding.seen}")
    return findings


@dataclass
class Play:
    """Everybody who acts."""

    traffic: Traffic
    killer: Killer
    operator: Operator
    schedules: Schedules
    _looked: float = 0.0
    _audited: float = 0.0
    _acted: float = 0.0

    def go_on(self) -> None:
        """Whatever is due by now: the schedules, and the operator's next round."""
        if time.monotonic() - self._looked > LOOK_EVERY:
            self.schedules.settle()
            self._looked = time.monotonic()
        if time.monotonic() - self._audited > AUDIT_EVERY:
            self.schedules.audit()
            self._audited = time.monotonic()
        if time.monotonic() - self._acted > ROUND_EVERY:
            self.operator.round()
            self._acted = time.monotonic()


def _perform(stack: LocalStack, play: Play, minutes: float, tell: Tell) -> Iterator[Finding]:
    traffic, killer, operator, schedules = play.traffic, play.killer, play.operator, play.schedules
    _storm(play, minutes * 60)
    tell(
        f"quiet: {len(traffic.puts)} uploads, {len(traffic.dropped)} of them not announced, {traffic.oversized} too"
        f" large; {traffic.repeats} notifications repeated, {len(killer.strikes)} strikes"
    )

    began = time.monotonic()
    settled, status = _wait(stack, play, QUIET_SECONDS)
    yield Finding("once nothing is killed everything ends", settled, f"after {time.monotonic() - began:.0f} s of quiet")
    if settled:
        yield _deliver_again(stack, play, status)
    killer.stop()
    _raise_what_failed(traffic, killer)
    yield Finding(
        "no batch halts when nothing is killed",
        not operator.halted_again,
        "; ".join(operator.halted_again) or f"{operator.typed['resume']} resumed that were killed too often",
    )
    yield Finding(
        "every command ends as the runbook tells",
        not operator.surprises,
        "; ".join(operator.surprises[:3]) or f"{operator.typed.total()} commands",
    )
    letters = operator.dead_letters()
    yield Finding(
        "what is no notification is among the dead letters, and nothing else is",
        set(letters) == set(traffic.garbage),
        f"{len(traffic.garbage)} sent, {len(set(letters))} there",
    )
    status = stack.printed_statuses()
    landed: set[tuple[str, str]] = set()
    for route in ROUTES:
        (found,) = (each for each in status["routes"] if each["route"] == route)
        rows = stack.rows(TABLES[route])
        landed |= {(row["_source_uri"], row["_source_version"]) for row in rows}
        yield from judge(route, traffic.of(route), traffic.overwritten, rows, found)
    missed = [put for put in traffic.dropped if (put.upload.uri, put.upload.version) not in landed]
    yield Finding(
        "the audit found every upload that was not announced",
        not missed and bool(traffic.dropped),
        f"{len(traffic.dropped) - len(missed)} of {len(traffic.dropped)}",
    )
    published = _publications(stack)
    batches = {batch for batch, _ in published}
    yield Finding(
        "every batch is one snapshot",
        len(batches) == published.total(),
        f"{len(batches)} batches, {published.total()} snapshots",
    )
    yield _none_left(
        "no process of an ended job is left",
        lambda: [pid for job in killer.jobs for pid in session_members(job.guard.pid)],
    )
    yield Finding("something was killed", bool(killer.strikes), f"{len(killer.strikes)} strikes")
    lost = sum(strike.kind is Kind.FUNCTION and strike.back is None for strike in killer.strikes)
    yield Finding("every function that was killed came back", not lost, f"{lost} did not")
    for line in report(killer.strikes, killer.jobs, set(published)):
        tell(line)
    tell("the operator typed, of which were killed:")
    for verb, count in sorted(operator.typed.items()):
        tell(f"  {count:3}  {operator.killed[verb]:2}  tidegate {verb}")
    tell(f"  of {len(operator.given_up)} batches that he gave up: {dict(Counter(operator.given_up.values()))}")
    tell(
        f"{schedules.audits} audits ended, {schedules.lost['audit']} and {schedules.lost['settle']} of settle's did not"
    )


def _storm(play: Play, seconds: float) -> None:
    """Uploads and strikes; when it returns both have ended."""
    traffic, killer = play.traffic, play.killer
    traffic.start()
    killer.start()
    began = time.monotonic()
    end = began + seconds
    while not (traffic.error or killer.error):
        now = time.monotonic()
        if now >= end and (killer.jobs_struck() >= JOBS_STRUCK or now >= end + MORE_SECONDS):
            break
        play.operator.may_mend = now >= began + MENDED_AFTER * seconds
        play.go_on()
        time.sleep(0.2)
    play.operator.may_mend = True
    killer.calm()
    traffic.stop()
    _raise_what_failed(traffic, killer)
    play.operator.calm = True


def _raise_what_failed(traffic: Traffic, killer: Killer) -> None:
    if error := traffic.error or killer.error:
        raise error


def _wait(stack: LocalStack, play: Play, seconds: float) -> tuple[bool, dict[str, Any]]:
    """Go on until nothing is pending anywhere; False if that is not so after `seconds`, or nothing moves."""
    traffic, operator = play.traffic, play.operator
    changed = time.monotonic()
    deadline = changed + seconds
    last: object = None
    expected = {route: len(traffic.of(route)) for route in ROUTES}
    while True:
        queued = operator.queued()  # before the ledger: what leaves the queue later is in the ledger by then
        status = stack.statuses()
        ended = all(
            route["uploads"]["notified"] >= expected[route["route"]]
            and not route["uploads"]["pending"]
            and not route["uploads"]["quarantined"]
            and not route["unfinished"]
            for route in status["routes"]
        )
        if ended and not queued and operator.done:
            return True, status
        now = time.monotonic()
        if (queued, status) != last:
            last, changed = (queued, status), now
        if now > deadline or now - changed > STALLED_SECONDS or operator.halted_again:
            return False, status
        play.go_on()
        time.sleep(0.5)


def _deliver_again(stack: LocalStack, play: Play, before: dict[str, Any]) -> Finding:
    """Notifications that come again when everything is in the table."""
    sample = play.traffic.sample(LATE)
    play.traffic.repeat(sample)
    settled, now = _wait(stack, play, STALLED_SECONDS)
    refused, jobs = (_sum(now, name) - _sum(before, name) for name in ("duplicates_refused", "jobs"))
    return Finding(
        f"{len(sample)} notifications that come again afterwards are refused and start no job",
        settled and refused == len(sample) and not jobs,
        f"{refused} refused, {jobs} jobs",
    )


def _sum(status: dict[str, Any], name: str) -> int:
    return sum(route[name] for route in status["routes"])


def _publications(stack: LocalStack) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for table in TABLES.values():
        try:
            found += publications(stack.catalog.load_table(table))
        except NoSuchTableError:  # then rows are missing, too
            continue
    return found


def _none_left(what: str, look: Callable[[], list[int]]) -> Finding:
    """The processes that `look` finds are given a moment to end."""
    deadline = time.monotonic() + GONE_SECONDS
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return Finding(what, not left, f"processes {left}" if left else "none")
