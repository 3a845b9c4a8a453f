"""What the verbs print for people. Nothing here decides or asks anything."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tidegate.cli.doctor import Check, State
from tidegate.cli.json_output import iso
from tidegate.core.batches import Batch
from tidegate.core.outcomes import Outcome
from tidegate.core.routes import Route
from tidegate.flows.status import RouteStatus
from tidegate.flows.trace import PENDING, Trace

WIDTH_WITHOUT_TERMINAL = 140
"""Characters; a pipe has no width, and rich's 80 would break every row."""

_OUTCOME_STYLE = {
    Outcome.COMMITTED: "green",
    Outcome.QUARANTINED: "red",
    Outcome.SUPERSEDED: "yellow",
    Outcome.VANISHED: "yellow",
    PENDING: "cyan",
}
_STATE_STYLE = {State.OK: "green", State.WARN: "yellow", State.FAIL: "bold red"}


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    fixed = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(stderr=stderr, width=WIDTH_WITHOUT_TERMINAL if fixed else None, highlight=False)


def error(text: str, advice: str = "") -> None:
    out = console(stderr=True)
    out.print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)
    if advice:
        out.print(Text(advice, style="dim"), soft_wrap=True)


# --- status ---


def status(statuses: Sequence[RouteStatus], *, now: int) -> None:
    out = console()
    out.print(conservation(statuses))
    unfinished = [batch for each in statuses for batch in each.unfinished]
    if unfinished:
        out.print(_unfinished(unfinished, now))
    for each in statuses:
        for batch in each.halted:
            out.print(
                Text.assemble(
                    ("halted: ", "bold red"),
                    f"batch {batch.id} of route {batch.route} after attempt {batch.attempt}: {batch.halted}",
                ),
                soft_wrap=True,
            )
        if not each.uploads.holds:
            out.print(Text.assemble(("the sums do not hold: ", "bold red"), sums(each)), soft_wrap=True)


def conservation(statuses: Iterable[RouteStatus]) -> Table:
    """uploads notified = committed + quarantined + superseded + vanished + pending, a line for each route."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("route")
    for name in (
        "notified",
        "= committed",
        "+ quarantined",
        "+ superseded",
        "+ vanished",
        "+ pending",
        "",
        "rows",
        "duplicates refused",
        "jobs",
        "batches",
    ):
        table.add_column(name, justify="right")
    for each in statuses:
        ended = each.uploads.ended
        sums_hold = Text("holds", "green") if each.uploads.holds else Text("DOES NOT HOLD", "bold red")
        numbers = (
            *(each.uploads.notified, ended.committed, ended.quarantined, ended.superseded, ended.vanished),
            each.uploads.pending,
        )
        table.add_row(
            each.route.name,
            *map(str, numbers),
            sums_hold,
            *map(str, (ended.rows, each.refused, each.jobs, each.committed_batches + len(each.unfinished))),
        )
    return table


def sums(each: RouteStatus) -> str:
    """The conservation of one route as an equation."""
    ended = each.uploads.ended
    return (
        f"{each.uploads.notified} notified, but {ended.committed} committed + {ended.quarantined} quarantined"
        f" + {ended.superseded} superseded + {ended.vanished} vanished + {each.uploads.pending} pending"
        f" = {ended.uploads + each.uploads.pending} (route {each.route.name})"
    )


def _unfinished(batches: Iterable[Batch], now: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="batches under way", title_justify="left")
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
            Text("HALTED", "bold red") if batch.halted else Text(batch.state.value),
            str(batch.attempt or ""),
            str(batch.objects),
            size(batch.bytes),
            duration(now - batch.opened_at),
            batch.job_run,
        )
    return table


# --- trace ---


def trace(uri: str, traces: Sequence[Trace]) -> None:
    out = console()
    out.print(Text(uri, "bold"), soft_wrap=True)
    for each in traces:
        out.print(Text.assemble("\n", (each.outcome, _OUTCOME_STYLE[each.outcome]), f"  {each.claim.version}"))
        for name, value in _steps(each):
            out.print(Text.assemble((f"  {name:<9}", "dim"), value), soft_wrap=True)


def _steps(each: Trace) -> list[tuple[str, str]]:
    """The way of one version, as far as it got: (what, detail)."""
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


def routes(config: Path, routes: Iterable[Route]) -> None:
    out = console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=str(config), title_justify="left")
    table.add_column("route")
    table.add_column("uploads", overflow="fold")
    table.add_column("as")
    table.add_column("into table", overflow="fold")
    table.add_column("partitioned by", overflow="fold")
    for name in ("waits", "batch of", "jobs at once", "attempts"):
        table.add_column(name, justify="right")
    for route in routes:
        limits = route.limits
        table.add_row(
            route.name,
            escape(f"s3://{route.bucket}/{route.prefix}*{route.suffix}"),
            route.dataset.format,
            route.dataset.table,
            ", ".join(route.dataset.partition_by) or "-",
            duration(limits.max_wait),
            f"{size(limits.target_bytes)} or {limits.target_objects}",
            str(limits.in_flight),
            str(limits.attempts),
        )
    out.print(table)


# --- doctor ---


def doctor(checks: Iterable[Check]) -> None:
    out = console()
    for check in checks:
        line = Text.assemble((f"{check.state:<4}", _STATE_STYLE[check.state]), f"  {check.name:<22}{check.finding}")
        out.print(line, soft_wrap=True)
        if check.advice:
            out.print(Text(f"{'':28}{check.advice}", "dim" if check.state is State.OK else "bold"), soft_wrap=True)


# --- local ---

EMPTY_SERVICES = (
    "The tables in this folder are from an earlier run; the emulated S3, queues and ledger start empty. A file that was"
    " uploaded then and is uploaded again now is in the table a second time: the ledger that remembered it is gone."
    " Delete {warehouse} to start over, or use another --dir."
)


def stack_ready(
    folder: Path, environment: Mapping[str, str], *, existing_warehouse: bool, notes: Iterable[str], detached: bool
) -> None:
    out = console()
    out.print(Text.assemble(("The stack is up", "bold green"), f" in {folder}"), soft_wrap=True)
    for name, value in (
        ("endpoint", environment["AWS_ENDPOINT_URL"]),
        ("warehouse", environment["TIDEGATE_WAREHOUSE"]),
        ("shell", f'eval "$(tidegate local env --dir {folder})"'),
        ("stop", f"tidegate local down --dir {folder}" if detached else "Ctrl-C"),
    ):
        out.print(Text.assemble((f"  {name:<10}", "dim"), value), soft_wrap=True)
    for note in notes:
        out.print(Text(f"  note: {note}", "dim"), soft_wrap=True)
    if existing_warehouse:
        warehouse = folder / "warehouse"
        out.print(
            Text.assemble(("warning: ", "bold yellow"), EMPTY_SERVICES.format(warehouse=warehouse)), soft_wrap=True
        )


# --- quantities ---


def size(count: int) -> str:
    """Bytes as people say them, in powers of ten, as `tidegate.toml` writes them."""
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
