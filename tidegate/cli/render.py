"""What the verbs print for people. Nothing here decides anything or makes a call."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tidegate.cli.checks import Check, CheckState
from tidegate.cli.json_output import iso
from tidegate.cli.printed import runnable
from tidegate.cli.render_status import conservation as conservation
from tidegate.cli.terminal import console as console
from tidegate.cli.terminal import duration as duration
from tidegate.cli.terminal import error as error
from tidegate.cli.terminal import progress as progress
from tidegate.cli.terminal import size as size
from tidegate.cli.terminal import warning as warning
from tidegate.core.audit import AuditCounts, AuditFinding, Listed
from tidegate.core.backfill import BackfillCounts, BackfillFinding
from tidegate.core.maintenance import CompleteMaintenance
from tidegate.core.reconcile import TableDifference
from tidegate.core.routes import Route
from tidegate.flows.letters import LettersMoved
from tidegate.flows.missing import Missing
from tidegate.flows.quarantine import Quarantined
from tidegate.flows.rebuild import Rebuilt
from tidegate.flows.reconcile import Reconciled, TableFinding
from tidegate.flows.recover import Recovered
from tidegate.flows.wishes import Droppable

_STATE_STYLE = {CheckState.OK: "green", CheckState.WARN: "yellow", CheckState.FAIL: "bold red"}


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
        out.print(Text(f"    {runnable(found.advice)}", "dim"), soft_wrap=True)
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
        line = f"{each.upload}, of {iso(each.modified)}: {runnable(BACKFILL_ADVICE[finding])}"
        out.print(Text.assemble((f"{finding.value}: ", "bold red"), line), soft_wrap=True)
    if not dry_run and (sent := sum(each.missing for each in counts.values())):
        out.print(runnable(f"{sent} uploads are on their way: `tidegate status` shows how they end"), soft_wrap=True)


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
                Text(f"{'':{6 + width}}{runnable(check.advice)}", "dim" if check.state is CheckState.OK else "bold"),
                soft_wrap=True,
            )
