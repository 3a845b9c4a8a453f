"""What the verbs print for people. Nothing here decides anything or makes a call."""

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.cli.checks import Check, CheckState
from tidegate.cli.json_output import iso
from tidegate.core.audit import AuditCounts, AuditFinding, Listed
from tidegate.core.backfill import BackfillCounts, BackfillFinding
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.maintenance import CompleteMaintenance
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.core.outlook import is_delayed, outlook
from tidegate.core.reconcile import TableDifference
from tidegate.core.routes import Route
from tidegate.flows.announce import Unannounced
from tidegate.flows.letters import LettersMoved
from tidegate.flows.missing import Missing
from tidegate.flows.quarantine import Quarantined
from tidegate.flows.rebuild import Rebuilt
from tidegate.flows.reconcile import Reconciled, TableFinding
from tidegate.flows.recover import Recovered
from tidegate.flows.status import RouteStatus
from tidegate.flows.trace import PENDING, Trace
from tidegate.flows.wishes import Droppable

WIDTH_WITHOUT_TERMINAL = 140
"""Characters; a pipe has no width, and rich's 80 would break every row."""

_OUTCOME_STYLE = {
    Outcome.COMMITTED: "green",
    Outcome.QUARANTINED: "red",
    Outcome.SUPERSEDED: "yellow",
    Outcome.VANISHED: "yellow",
    DROPPED: "yellow",
    PENDING: "cyan",
}
_STATE_STYLE = {CheckState.OK: "green", CheckState.WARN: "yellow", CheckState.FAIL: "bold red"}


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    fixed = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(stderr=stderr, width=WIDTH_WITHOUT_TERMINAL if fixed else None, highlight=False)


def error(text: str, advice: str = "") -> None:
    out = console(stderr=True)
    out.print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)
    if advice:
        out.print(Text(advice, style="dim"), soft_wrap=True)


def warning(text: str) -> None:
    """To stderr, as it is: it may be of several lines."""
    console(stderr=True).print(Text(text, "yellow"), soft_wrap=True)


def progress(text: str) -> None:
    """How far a long verb is."""
    console(stderr=True).print(Text(text, style="dim"), soft_wrap=True)


# --- status ---


ROUTES_ABREAST = 4
"""Routes in one table; more would not fit an ordinary terminal."""


NOTHING_WAITS = Unannounced()


def status(
    statuses: Sequence[RouteStatus],
    waiting: Unannounced = NOTHING_WAITS,
    hosts: Mapping[str, str] = MappingProxyType({}),
    *,
    now: int,
) -> None:
    """`hosts`: in whose job each batch rides (see `flows.status.hosts_of`)."""
    out = console()
    for start in range(0, len(statuses), ROUTES_ABREAST):
        out.print(conservation(statuses[start : start + ROUTES_ABREAST]))
    unfinished = [batch for each in statuses for batch in each.unfinished]
    if unfinished:
        out.print(_unfinished(unfinished, hosts, now))
    for each in statuses:
        for batch in each.unfinished:
            if is_delayed(batch, now=now):
                what = f"batch {batch.id} of route {batch.route}: {outlook(batch, each.route.limits)}"
                out.print(Text.assemble(("delayed: ", "bold yellow"), what), soft_wrap=True)
        for batch in each.halted:
            since = f", aside since {iso(batch.aside_at)}" if batch.id in each.aside else ""
            what = f"batch {batch.id} of route {batch.route} after attempt {batch.attempt}{since}: {batch.halted}"
            out.print(Text.assemble(("halted: ", "bold red"), what), soft_wrap=True)
            out.print(f"  {_way_out(batch)}", soft_wrap=True)
        for batch in each.unfinished:
            if batch.fencing:
                left = "" if batch.wish else ". Its uploads stay pending until they are redriven or dropped"
                what = f"batch {batch.id} of route {batch.route}: attempt {batch.attempt} gives it up{left}"
                out.print(Text.assemble(("being fenced: ", "bold yellow"), what), soft_wrap=True)
        for batch in each.wishes:
            if batch.wish:
                what = f"batch {batch.id} of route {batch.route}: {_wished(batch, batch.wish)}"
                out.print(Text.assemble(("wish: ", "bold yellow"), what), soft_wrap=True)
        if each.quarantined_since:
            what = (
                f"{each.uploads.ended.quarantined} uploads of route {each.route.name}, the oldest for"
                f" {duration(now - each.quarantined_since)}, since {iso(each.quarantined_since)}"
            )
            out.print(Text.assemble(("quarantined: ", "bold yellow"), what), soft_wrap=True)
            verb = f"--route {each.route.name}"
            then = f"when the cause is removed: tidegate quarantine release {verb}"
            out.print(f"  why: tidegate quarantine ls {verb}; {then}", soft_wrap=True)
        if not each.configured:
            what = (
                f"route {each.route.name} is not in the configuration any more. Its unfinished batches go on by its"
                " last settings. If the job may no longer read its files or write its table, put the route back with"
                " `retired = true`"
            )
            out.print(Text.assemble(("not configured: ", "bold yellow"), what), soft_wrap=True)
        if not each.uploads.holds:
            out.print(Text.assemble(("the sums do not hold: ", "bold red"), sums(each)), soft_wrap=True)
    if waiting.batches:
        what = (
            f"{'more than ' if waiting.more else ''}{waiting.batches} committed batches wait to be announced, since"
            f" {iso(waiting.since)}"
        )
        out.print(Text.assemble(("not announced: ", "bold yellow"), what), soft_wrap=True)


DONE_AS_WISHED = {Wish.DROP: "dropped", Wish.REDRIVE: "sent again"}


def _wished(batch: Batch, wish: Wish) -> str:
    """What becomes of its uploads, and how far that is."""
    if batch.state is not State.ABANDONED:
        return f"once it is abandoned, its {batch.objects} uploads are {DONE_AS_WISHED[wish]}"
    parts = f", {batch.wished_parts} of its parts are done" if batch.wished_parts else ""
    return f"it is abandoned, and its {batch.objects} uploads are being {DONE_AS_WISHED[wish]}{parts}"


def _way_out(batch: Batch) -> str:
    """What a person does once the cause of the halt is removed."""
    if batch.state is State.SEALED:
        return "when the cause is removed, it goes on by itself"
    if "A person has to decide" in batch.halted:
        return f"see: tidegate decide --help; then: tidegate decide {batch.id} --not-published, or --published"
    return f"when the cause is removed: tidegate resume {batch.id}"


def conservation(statuses: Sequence[RouteStatus]) -> Table:
    """The sum of the uploads, a column for each route; below it what the sum does not count."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for each in statuses:
        table.add_column(each.route.name, justify="right", overflow="fold")
    ended = [each.uploads.ended for each in statuses]
    table.add_row("uploads notified", *(str(each.uploads.notified) for each in statuses))
    for sign, name in zip("=+++", Outcome, strict=True):
        table.add_row(f"  {sign} {name}", *(str(getattr(tally, name)) for tally in ended))
    table.add_row(f"  + {DROPPED}", *(str(each.uploads.dropped) for each in statuses))
    table.add_row(f"  + {PENDING}", *(str(each.uploads.pending) for each in statuses))
    table.add_row("  the sum", *(_holds(each) for each in statuses), end_section=True)
    table.add_row("rows committed", *(str(tally.rows) for tally in ended))
    table.add_row("duplicates refused", *(str(each.refused) for each in statuses))
    table.add_row("attempts begun", *(str(each.jobs) for each in statuses))
    table.add_row("batches", *(_batches(each) for each in statuses))
    if any(each.paused for each in statuses):
        table.add_row("paused since", *(iso(each.paused) or "" for each in statuses))
    return table


def _holds(each: RouteStatus) -> Text:
    return Text("holds", "green") if each.uploads.holds else Text("DOES NOT HOLD", "bold red")


def _batches(each: RouteStatus) -> str:
    """How many batches in which state, those that have ended last: "1 open, 2 committed"."""
    unfinished = Counter("halted" if batch.halted else batch.state.lower() for batch in each.unfinished)
    counts = {**unfinished, "committed": each.committed_batches, "abandoned": each.abandoned_batches}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "none"


def sums(each: RouteStatus) -> str:
    """The conservation of one route as an equation."""
    ended = each.uploads.ended
    return (
        f"{each.uploads.notified} notified, but {ended.committed} committed + {ended.quarantined} quarantined"
        f" + {ended.superseded} superseded + {ended.vanished} vanished + {each.uploads.dropped} dropped"
        f" + {each.uploads.pending} pending = {ended.uploads + each.uploads.dropped + each.uploads.pending}"
        f" (route {each.route.name})"
    )


def _unfinished(batches: Iterable[Batch], hosts: Mapping[str, str], now: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="unfinished batches", title_justify="left")
    table.add_column("batch", no_wrap=True)
    table.add_column("route")
    table.add_column("state")
    for name in ("attempt", "objects", "bytes", "age"):
        table.add_column(name, justify="right")
    table.add_column("job run", overflow="fold")
    for batch in batches:
        table.add_row(
            batch.id,
            batch.route,
            _state(batch),
            str(batch.attempt or ""),
            str(batch.objects),
            size(batch.bytes),
            duration(now - batch.opened_at),
            batch.job_run + _host(hosts.get(batch.id)),
        )
    return table


def _host(batch_id: str | None) -> str:
    """In whose job a batch rides; None if it has a job of its own."""
    if batch_id is None:
        return ""
    return f", rides in the job of {batch_id}" if batch_id else ", rides in the job of another batch"


def _state(batch: Batch) -> Text:
    if batch.halted:
        return Text("HALTED", "bold red")
    return Text("being fenced", "yellow") if batch.fencing else Text(batch.state.value)


# --- trace ---


def trace(uri: str, traces: Sequence[Trace]) -> None:
    out = console()
    out.print(Text(uri, "bold"), soft_wrap=True)
    for each in traces:
        out.print(Text.assemble("\n", (each.outcome, _OUTCOME_STYLE[each.outcome]), f"  {each.claim.version}"))
        for name, value in _steps(each):
            out.print(Text.assemble((f"  {name:<9}", "dim"), value), soft_wrap=True)


def _steps(each: Trace) -> list[tuple[str, str]]:
    """The steps of one version so far: (what, detail)."""
    steps = [("claimed", f"{iso(each.claim.claimed_at)} by notice {each.claim.notice}")]
    if each.notice is not None:
        what = "void" if each.notice.void else f"registered in batch {each.notice.batch}"
        steps.append(("notice", f"{what} at {iso(each.notice.decided_at)}"))
    if each.batch is not None:
        batch = each.batch
        ended = f" at {iso(batch.ended_at)}" if batch.ended_at else ""
        steps.append(("batch", f"{batch.state}{ended}, {batch.objects} uploads"))
        if batch.attempt:
            run = f", job run {batch.job_run}" if batch.job_run else ", its job is not on record yet"
            steps.append(("attempt", f"{batch.attempt}{run}"))
        if batch.snapshot:
            steps.append(("snapshot", str(batch.snapshot)))
    steps.append(("outcome", each.explanation))
    return steps


# --- routes ---


def routes(config: Path, routes: Iterable[Route], maintained: Collection[str]) -> None:
    """`maintained` are the tables that a job maintains."""
    out = console()
    out.print(Text(f"{config}", "dim"), soft_wrap=True)
    for route in routes:
        dataset, limits = route.dataset, route.limits
        retired = " (retired: it takes no new uploads and finishes what it has)" if route.retired else ""
        out.print(Text.assemble("\n", (route.name, "bold"), retired), soft_wrap=True)
        for name, value in (
            ("uploads", f"s3://{route.bucket}/{route.prefix}*{route.suffix}, read as {dataset.format}"),
            ("table", f"{dataset.table}, {'maintained' if dataset.table in maintained else 'not maintained'}"),
            ("partitions", ", ".join(dataset.partition_by) or "none"),
            (
                "hand-off",
                f"after {duration(limits.max_wait)}, {size(limits.target_bytes)}, {limits.target_objects} objects",
            ),
            (
                "jobs",
                f"{limits.in_flight} at once, {limits.attempts} attempts at a batch,"
                f" the second after {duration(limits.retry_wait)}; a halted one steps aside after"
                f" {duration(limits.step_aside)}",
            ),
            ("audit", f"by {route.audit_from}"),
            ("lanes", str(route.lanes)),
        ):
            out.print(Text.assemble((f"  {name:<11}", "dim"), value), soft_wrap=True)


# --- ledger recover ---


def _counts(out: Console, *counted: tuple[str, int]) -> None:
    for what, count in counted:
        out.print(f"  {what:<58}{count:>9}", soft_wrap=True)


def recovered(done: Recovered, *, dry_run: bool) -> None:
    out = console()
    if dry_run:
        out.print(Text("nothing was written; without --dry-run this would be", "bold"))
    _counts(
        out,
        ("batches looked at", done.batches),
        ("claims put back", done.claims),
        ("notices registered again", done.notices),
        ("notices withdrawn from an open batch", done.withdrawn),
        ("batches sealed again", done.sealed),
        ("batches that have a receipt, to be settled", done.submitted),
        ("uploads sent again", done.sent),
    )
    for clash in done.clashes:
        advice = f"When {clash.other} has ended, or its notice is registered, recover again"
        text = (
            f"{clash.uploads} uploads are in the manifest of batch {clash.batch} and belong to {clash.other} as well,"
            f" for example {clash.example}: they may land twice. {advice}; docs/operations.md has the steps"
        )
        out.print(Text.assemble(("clash: ", "bold red"), text), soft_wrap=True)
    for name, batches in sorted(done.unknown_routes.items()):
        text = f"neither tidegate.toml nor the ledger has route {name}, of these batches: {', '.join(batches)}"
        out.print(Text.assemble(("unknown route: ", "bold red"), text), soft_wrap=True)
    for trouble in done.troubles:
        out.print(Text.assemble(("trouble: ", "bold red"), trouble), soft_wrap=True)


def rebuilt(done: Rebuilt, *, dry_run: bool) -> None:
    recovered(done.recovered, dry_run=dry_run)
    out = console()
    _counts(
        out,
        ("uploads that have rows, in all tables", sum(done.landed.values())),
        ("  of these, landed before the ledger's memory", done.before),
        ("  of these, written by other tools", done.strangers),
        ("batches written into the work bucket from their rows", done.written),
        ("  uploads of these", done.uploads),
        ("batches recorded as ended", done.ended),
    )


# --- reconcile ---


def reconciled(done: Reconciled) -> None:
    out = console()
    _counts(
        out,
        ("committed batches compared", done.committed),
        ("rows that were committed in them", done.rows),
        ("rows that the tables hold, of all batches", sum(held.rows for held in done.tables.values())),
        ("batches with rows that settling has not recorded yet", done.pending),
        ("batches with rows that the ledger has forgotten", done.forgotten),
        ("uploads that other tools wrote", done.strangers),
        ("abandoned batches whose fences were looked for", done.abandoned),
    )
    if done.unread:
        unread = f"the fences of {done.unread} abandoned batches were not looked for: deploy this version first"
        out.print(Text(unread, "yellow"), soft_wrap=True)
    for found in done.findings:
        out.print(Text.assemble((f"{found.difference.value}: ", "bold red"), _difference(found)), soft_wrap=True)
        out.print(Text(f"    {found.advice}", "dim"), soft_wrap=True)
    if done.holds:
        out.print("the tables hold what the ledger has committed")


def maintained(done: CompleteMaintenance, *, dry_run: bool) -> None:
    out = console()
    would = "would be " if dry_run else ""
    for each in done.tables:
        out.print(Text(f"table {each.table}", "bold"), soft_wrap=True)
        _counts(
            out,
            ("small files", each.small),
            ("of these, files that were rewritten", each.compacted),
            ("into so many", each.compacted_into),
            ("bytes of these", each.compacted_bytes),
            ("manifests that were rewritten", each.manifests),
            ("snapshots", each.snapshots),
            (f"of these, {would}expired", each.expired),
            ("files that were deleted with them", each.deleted),
            (f"orphan files that {would or 'were '}deleted", each.orphans),
        )
        for remark in each.remarks:
            out.print(Text(f"    {remark}", "dim"), soft_wrap=True)
        if each.trouble:
            out.print(Text(f"    not finished: {each.trouble}", "bold red"), soft_wrap=True)


def _difference(found: TableFinding) -> str:
    if found.difference is TableDifference.TWICE:
        return (
            f"table {found.name_of_table} holds {found.table.uploads} uploads in batch {found.batch} and in batch"
            f" {found.other}, for example {found.example}"
        )
    if found.difference is TableDifference.NOT_FENCED:
        return (
            f"batch {found.batch} is abandoned, and its fence is not in the history of table {found.name_of_table}: the"
            " table was rolled back past it"
        )
    return (
        f"batch {found.batch}: table {found.name_of_table} holds {found.table.rows} rows of {found.table.uploads}"
        f" uploads, the ledger has committed {found.ledger.rows} of {found.ledger.uploads}"
    )


def lacking(batch: str, lacks: Missing) -> str:
    """What the folder of a batch lacks, in half a sentence."""
    example = lacks.files[0] if len(lacks.files) == 1 else f"{lacks.files[0]}, ..."
    return f"the work bucket lacks {len(lacks.files)} files of batch {batch} with {lacks.uploads} uploads ({example})"


# --- quarantine ---


def quarantine(found: Sequence[Quarantined], *, more: bool) -> None:
    out = console()
    for each in found:
        line = Text.assemble((f"{iso(each.ended_at)}  ", "dim"), f"s3://{each.bucket}/{each.key}")
        out.print(line, soft_wrap=True)
        out.print(Text.assemble("    ", (each.error.splitlines()[0] if each.error else "", "red")), soft_wrap=True)
    if more:
        out.print(Text(f"the first {len(found)}; --limit 0 lists all", "bold"))
    elif not found:
        out.print("nothing is in quarantine, or nothing of what was asked for")


def letters(name: str, done: LettersMoved, *, dry_run: bool) -> None:
    out = console()
    moved = "would be moved back" if dry_run else "moved back"
    out.print(f"dead letters of {name}: {done.moved} {moved}, {done.kept} can never succeed", soft_wrap=True)
    for body, why in done.shown:
        out.print(Text.assemble("    ", (why, "red")), soft_wrap=True)
        out.print(Text(f"        {body[:200]}", "dim"), soft_wrap=True)
    if done.kept > len(done.shown):
        out.print(f"    and {done.kept - len(done.shown)} more")


def in_quarantine(each: Quarantined) -> None:
    out = console()
    for name, value in (
        ("object", f"s3://{each.bucket}/{each.key}"),
        ("version", each.version),
        ("route", each.route),
        ("batch", f"{each.batch}, attempt {each.attempt}, settled {iso(each.ended_at)}"),
        ("notice", each.notice),
        ("error", each.error),
        ("where", each.where or "not known"),
    ):
        out.print(Text.assemble((f"{name:<10}", "bold"), value), soft_wrap=True)


def droppable(found: Droppable | None) -> None:
    """What a drop finds, and what it leaves."""
    out = console()
    if found is None:
        out.print("its manifest or a part is missing in the work bucket: nobody can say what is there to drop")
        return
    if not found.here:
        out.print(f"none of its {found.uploads} uploads is there to drop", soft_wrap=True)
    else:
        out.print(f"{found.here} of its {found.uploads} uploads are there to drop", soft_wrap=True)
    if found.dropped:
        out.print(f"  {found.dropped} are dropped already", soft_wrap=True)
    if found.elsewhere:
        out.print(f"  {found.elsewhere} are not dropped: they landed, or belong to another notice", soft_wrap=True)
    if found.forgotten:
        what = f"  {found.forgotten} are not dropped: the ledger has forgotten their claims, and they stay pending"
        out.print(what, soft_wrap=True)


# --- audit ---


def audited(counts: Mapping[str, AuditCounts], first: Sequence[tuple[Listed, AuditFinding]], *, dry_run: bool) -> None:
    out = console()
    if dry_run:
        out.print(Text("nothing was sent; without --dry-run what is lost or stale would be", "bold"))
    for name, found in counts.items():
        out.print(f"route {name}", soft_wrap=True)
        for what, count in found.as_dict().items():
            out.print(f"  {what:<14}{count:>9}", soft_wrap=True)
    sent = sum(found.sent for found in counts.values())
    for each, finding in first:
        line = f"{each.upload}, of {iso(each.modified)}"
        out.print(Text.assemble((f"{finding.value}: ", "bold red"), line), soft_wrap=True)
    if sent > len(first):
        out.print(f"and {sent - len(first)} more", soft_wrap=True)


BACKFILL_ADVICE = {
    BackfillFinding.MISSING: "it would be sent",
    BackfillFinding.COMMITTED: "the ledger says that it is in the table: see `tidegate trace`",
    BackfillFinding.QUARANTINED: "`tidegate quarantine release` reads it again",
    BackfillFinding.ABANDONED: "`tidegate redrive` sends it again",
    BackfillFinding.LET_GO: "`tidegate redrive` sends it again, or an audit",
    BackfillFinding.FORGOTTEN: "its claim outlived its batch's record: see `tidegate trace`",
}


def backfilled(
    counts: Mapping[str, BackfillCounts], first: Sequence[tuple[Listed, BackfillFinding]], *, dry_run: bool
) -> None:
    out = console()
    if dry_run:
        out.print(Text("nothing was sent; without --dry-run what is missing would be", "bold"))
    for name, found in counts.items():
        out.print(f"route {name}", soft_wrap=True)
        for what, count in found.as_dict().items():
            out.print(f"  {what:<14}{count:>9}", soft_wrap=True)
    for each, finding in first:
        line = f"{each.upload}, of {iso(each.modified)}: {BACKFILL_ADVICE[finding]}"
        out.print(Text.assemble((f"{finding.value}: ", "bold red"), line), soft_wrap=True)
    if not dry_run and (sent := sum(each.missing for each in counts.values())):
        out.print(f"{sent} uploads are on their way: `tidegate status` shows how they end", soft_wrap=True)


# --- doctor ---


def doctor(checks: Sequence[Check]) -> None:
    out = console()
    width = max([22, *(len(check.name) + 2 for check in checks)])
    for check in checks:
        line = Text.assemble(
            (f"{check.state:<4}", _STATE_STYLE[check.state]), f"  {check.name:<{width}}{check.finding}"
        )
        out.print(line, soft_wrap=True)
        if check.advice:
            out.print(
                Text(f"{'':{6 + width}}{check.advice}", "dim" if check.state is CheckState.OK else "bold"),
                soft_wrap=True,
            )


# --- quantities ---


def size(count: int) -> str:
    """Bytes in powers of ten, with the units of `tidegate.toml`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(seconds: int) -> str:
    """Seconds as "45s", "12m", "3h" or "2d 4h"; never negative, since two clocks may differ."""
    seconds = max(0, seconds)
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 2 * 3600:
        return f"{seconds // 60}m"
    if seconds < 48 * 3600:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d {seconds % 86400 // 3600}h"
