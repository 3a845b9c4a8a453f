"""What the verbs print for people. Nothing here decides anything or makes a call."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from tidegate.cli import json_output
from tidegate.cli.checks import Check, CheckState
from tidegate.cli.json_output import iso
from tidegate.cli.printed import in_prose, named
from tidegate.cli.render_status import conservation as conservation
from tidegate.cli.terminal import Text
from tidegate.cli.terminal import console as console
from tidegate.cli.terminal import counted as counted
from tidegate.cli.terminal import duration as duration
from tidegate.cli.terminal import error as error
from tidegate.cli.terminal import progress as progress
from tidegate.cli.terminal import size as size
from tidegate.cli.terminal import warning as warning
from tidegate.core.audit import AuditCounts, AuditFinding, Listed
from tidegate.core.backfill import SENT, BackfillCounts, BackfillFinding
from tidegate.core.maintenance import CompleteMaintenance
from tidegate.core.reconcile import TableDifference
from tidegate.flows.letters import LettersMoved
from tidegate.flows.missing import Missing
from tidegate.flows.quarantine import Quarantined
from tidegate.flows.rebuild import Rebuilt
from tidegate.flows.reconcile import Reconciled, TableFinding
from tidegate.flows.wishes import Droppable

_STATE_STYLE = {CheckState.OK: "green", CheckState.WARN: "yellow", CheckState.FAIL: "bold red"}


# --- ledger rebuild ---


def numbers(out: Console, document: Mapping[str, Any], indent: str = "  ") -> None:
    """The numbers of a JSON document, each with its name."""
    for name, value in document.items():
        match value:
            case bool():
                continue
            case int():
                out.print(f"{indent}{name.replace('_', ' '):<36}{value:>9,}", soft_wrap=True)
            case dict():
                out.print(f"{indent}{name.replace('_', ' ')}", soft_wrap=True)
                numbers(out, value, indent + "  ")


def rebuilt(done: Rebuilt, *, dry_run: bool) -> None:
    out = console()
    if dry_run:
        out.print(Text("nothing was written; without --dry-run this would be", "bold"))
    out.print(f"  {'uploads that have rows, in all tables':<36}{sum(done.rows.landed.values()):>9,}", soft_wrap=True)
    numbers(out, json_output.document(done))
    for each in done.twice:
        text = (
            f"{counted(each.uploads, 'upload', 'uploads')} of batch {each.other}, for example {each.example}: batch"
            f" {each.batch} has them in the same table, and they belong to that now. `tidegate audit --tables` tells if"
            " their rows are there twice"
        )
        out.print(Text.assemble(("loaded once more: ", "bold"), text), soft_wrap=True)
    for trouble in done.troubles:
        out.print(Text.assemble(("trouble: ", "bold red"), trouble), soft_wrap=True)
    if done.unknown_routes:
        text = (
            f"{', '.join(sorted(done.unknown_routes))}: their batches have ended, and nobody sees what they have in"
            " quarantine. Add each to tidegate.toml with `retired = true` and deploy"
        )
        out.print(Text.assemble(("routes that tidegate.toml lacks: ", "bold"), text), soft_wrap=True)
    if done.troubles:
        out.print(Text("the ledger is not whole, and nothing runs: see to the above, and run this again", "bold red"))


# --- audit --tables ---


def reconciled(done: Reconciled) -> None:
    out = console()
    numbers(out, json_output.document(done))
    for table, held in sorted(done.tables.items()):
        several = done.several.get(table, 0)
        out.print(f"table {table}: {counted(held.rows, 'row')} of {counted(held.uploads, 'upload')}", soft_wrap=True)
        if several:
            out.print(f"    in several versions: {counted(several, 'object')}", soft_wrap=True)
    if done.example:
        advice = in_prose("`tidegate trace` prints the statement that removes the older rows, as far back as `claims`")
        out.print(Text(f"in several versions, for example {named(done.example)}: {advice}", "dim"), soft_wrap=True)
    for found in done.findings:
        out.print(Text.assemble((f"{found.difference.value}: ", "bold red"), _difference(found)), soft_wrap=True)
        out.print(Text(f"    {in_prose(found.advice)}", "dim"), soft_wrap=True)
    if done.holds:
        out.print("the tables hold what the ledger has committed")


def maintained(done: CompleteMaintenance, *, dry_run: bool) -> None:
    out = console()
    if dry_run:
        out.print(Text("nothing was changed; without --dry-run this would be", "bold"))
    for each in done.tables:
        out.print(Text(f"table {each.table}", "bold"), soft_wrap=True)
        numbers(out, json_output.document(each))
        for remark in each.remarks:
            out.print(Text(f"    {remark}", "dim"), soft_wrap=True)
        if each.trouble:
            out.print(Text(f"    not finished: {each.trouble}", "bold red"), soft_wrap=True)


def _difference(found: TableFinding) -> str:
    if found.difference is TableDifference.TWICE:
        return (
            f"table {found.name_of_table} holds {counted(found.table.uploads, 'upload')} in batch {found.batch} and in"
            f" batch {found.other}, for example {found.example}"
        )
    if found.difference is TableDifference.NOT_FENCED:
        landed = "has landed, and its uploads may land with others, and neither it nor its fence is"
        how = landed if found.landed else "is abandoned, and its fence is not"
        return (
            f"batch {found.batch} {how} in the history of table {found.name_of_table}: the table was rolled back past"
            " it"
        )
    return (
        f"batch {found.batch}: table {found.name_of_table} holds {counted(found.table.rows, 'row')} of"
        f" {counted(found.table.uploads, 'upload')}, the ledger has committed {found.ledger.rows} of"
        f" {found.ledger.uploads}"
    )


def lacking(batch: str, lacks: Missing) -> str:
    """What the folder of a batch lacks, in half a sentence."""
    example = lacks.files[0] if len(lacks.files) == 1 else f"{lacks.files[0]}, ..."
    files, uploads = counted(len(lacks.files), "file"), counted(lacks.uploads, "upload")
    return f"the work bucket lacks {files} of batch {batch} with {uploads} ({example})"


# --- quarantine ---


QUARANTINE_SHOWN = 100
"""How many uploads in quarantine are printed."""


def quarantine(found: Sequence[Quarantined], count: str) -> None:
    """The first of what is in quarantine; `count` says how many there are."""
    out = console()
    for each in found[:QUARANTINE_SHOWN]:
        line = Text.assemble((f"{iso(each.ended_at)}  ", "dim"), f"s3://{each.bucket}/{each.key}")
        out.print(line, soft_wrap=True)
        out.print(Text.assemble("    ", (each.error.splitlines()[0] if each.error else "", "red")), soft_wrap=True)
    if len(found) > QUARANTINE_SHOWN:
        out.print(Text(f"the first {QUARANTINE_SHOWN} of {count}", "bold"))


def letters(name: str, done: LettersMoved, *, dry_run: bool) -> None:
    out = console()
    moved = "would be moved back" if dry_run else "moved back"
    out.print(f"dead letters of {name}: {done.moved} {moved}, {done.kept} can never succeed", soft_wrap=True)
    for body, why in done.shown:
        out.print(Text.assemble("    ", (why, "red")), soft_wrap=True)
        out.print(Text(f"        {body[:200]}", "dim"), soft_wrap=True)
    if done.kept > len(done.shown):
        out.print(f"    and {done.kept - len(done.shown)} more")


def droppable(found: Droppable | None) -> None:
    """What a drop finds, and what it leaves."""
    out = console()
    if found is None:
        out.print("its manifest or a part is missing in the work bucket: nobody can say what is there to drop")
        return
    out.print(f"{found.here or 'none'} of its {counted(found.uploads, 'upload')} can be dropped", soft_wrap=True)
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
        out.print(Text("nothing was sent; with --send what is lost or stale is", "bold"))
    for name, found in counts.items():
        out.print(f"route {name}", soft_wrap=True)
        numbers(out, found.as_dict())
    sent = sum(found.sent for found in counts.values())
    for each, finding in first:
        line = f"{each.upload}, of {iso(each.modified)}{': a deletion' if each.deletion else ''}"
        out.print(Text.assemble((f"{finding.value}: ", "bold red"), line), soft_wrap=True)
    if sent > len(first):
        out.print(f"and {sent - len(first):,} more", soft_wrap=True)


BACKFILL_ADVICE = {
    BackfillFinding.MISSING: "it would be sent",
    BackfillFinding.ELSEWHERE: "it is in another table, and would be sent into this one, too",
    BackfillFinding.REMOVED: "its rows are gone from this table (deleted, or rolled back), and it would be sent again",
    BackfillFinding.DELETED: "a deletion: it would be sent, and the rows of its object leave the table",
    BackfillFinding.RELOADED: "what it gives today would replace its rows",
    BackfillFinding.COMMITTED: (
        "it has landed, and the table was rolled back past it: `tidegate resend` of its batch, which `tidegate trace`"
        " names, brings it back"
    ),
    BackfillFinding.QUARANTINED: "`tidegate resend quarantine` reads it again",
    BackfillFinding.ABANDONED: "`tidegate resend` sends it again",
    BackfillFinding.LET_GO: "`tidegate resend` sends it again, or an audit",
    BackfillFinding.FORGOTTEN: "its claim outlived its batch's record: see `tidegate trace`",
    BackfillFinding.GONE: "it was not listed (deleted, expired or archived): its rows stay as they are",
}


KEPT = ", and `tidegate files --state present` which keep their rows because they cannot be read today"
"""Of what was sent to be loaded again."""


def backfilled(
    counts: Mapping[str, BackfillCounts],
    first: Sequence[tuple[Listed, BackfillFinding]],
    *,
    dry_run: bool,
    reloads: bool = False,
) -> None:
    out = console()
    if dry_run:
        how = "this was a rehearsal" if reloads else "with --send what the table lacks is"
        out.print(Text(f"nothing was sent; {how}", "bold"))
    for name, found in counts.items():
        out.print(f"route {name}", soft_wrap=True)
        numbers(out, found.as_dict())
    for each, finding in first:
        of = f", of {iso(each.modified)}" if each.modified else ""
        advice = BACKFILL_ADVICE[BackfillFinding.DELETED if each.deletion and finding in SENT else finding]
        line = f"{each.upload}{of}: {in_prose(advice)}"
        out.print(Text.assemble((f"{finding.value}: ", "bold red"), line), soft_wrap=True)
    listed = {*BACKFILL_ADVICE} if dry_run else {*BACKFILL_ADVICE} - SENT
    if left := sum(each.found[finding] for each in counts.values() for finding in listed) - len(first):
        out.print(f"and {left:,} more", soft_wrap=True)
    if not dry_run and (sent := sum(each.sent for each in counts.values())):
        out.print(
            in_prose(
                f"{counted(sent, 'upload is on its way', 'uploads are on their way')}:"
                f" `tidegate status` shows how they end{KEPT if reloads else ''}"
            ),
            soft_wrap=True,
        )


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
                Text(f"{'':{6 + width}}{in_prose(check.advice)}", "dim" if check.state is CheckState.OK else "bold"),
                soft_wrap=True,
            )
