"""The verb `audit`: compare buckets with the ledger now, and send what is lost."""

from dataclasses import dataclass, field, replace
from typing import Annotated

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, printed, render
from tidegate.cli.exits import Exit
from tidegate.cli.json_output import iso
from tidegate.cli.options import WHEN, DeploymentOption, JsonOption, RouteOption, check_route, span
from tidegate.core.audit import LISTING, AuditCounts, AuditFinding, Listed, Window, is_large, watch_of
from tidegate.core.errors import TidegateError
from tidegate.core.quantities import duration
from tidegate.core.routes import Route
from tidegate.flows.audit import Look, audit_window
from tidegate.flows.ports import Ports
from tidegate.settings import Settings
from tidegate.settings.fixed import SENT_RATE

SHOWN = 20
"""How many lost uploads are printed."""


@dataclass
class Audited:
    """What was found, by route; and the first lost uploads."""

    window: Window
    dry_run: bool
    counts: dict[str, AuditCounts] = field(default_factory=dict)
    until: dict[str, int] = field(default_factory=dict)
    """Where the source of a route knows less than the window has: until when (epoch seconds) it was compared."""
    first: list[tuple[Listed, AuditFinding]] = field(default_factory=list)

    def tell(self, listed: Listed, finding: AuditFinding) -> None:
        if len(self.first) < SHOWN:
            self.first.append((listed, finding))

    @property
    def total(self) -> AuditCounts:
        return sum(self.counts.values(), AuditCounts())


def window_of(since: int | None, until: int | None, settings: Settings, now: int) -> Window:
    """The window between two moments (epoch seconds). Where one is not given, the settings decide. Raises
    BadParameter."""
    limits = settings.audit_limits()
    oldest = limits.max_age if since is None else now - since
    youngest = limits.min_age if until is None else now - until
    if oldest > limits.horizon:
        raise typer.BadParameter(
            f"an audit looks back {duration(limits.horizon)} at most: the ledger may have forgotten what is older"
        )
    if oldest <= youngest:
        raise typer.BadParameter(
            "--since must be longer ago than --until"
            if until is not None
            else f"--since must be longer ago than {duration(limits.min_age)}: what is younger may still be on its way"
        )
    return Window(now - oldest, now - youngest, youngest, limits.horizon)


def _routes(named: str | None, settings: Settings) -> list[Route]:
    routes = settings.core_routes()
    there = {route.name: route for route in routes if not route.retired}
    check_route(named, there, retired={route.name for route in routes} - there.keys())
    return list(there.values()) if named is None else [there[named]]


def _source(route: Route, by_job: bool | None, settings: Settings, ports: Ports) -> str:
    """Where a job finds the uploads; empty if no job is needed. By itself a job does what it does on schedule, too."""
    if by_job is False:
        return ""
    if by_job or route.audit_from != LISTING:
        return route.audit_from
    return LISTING if is_large(watch_of(route.place, ports.ledger.audits()), settings.audit_limits()) else ""


def audit(
    route: RouteOption = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar=WHEN, help="The oldest uploads to look at: 30d, 2026-11-21. Default: 30d."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar=WHEN, help="The youngest uploads to look at: 12h, 2026-11-21. Default: 12h."),
    ] = None,
    by_job: Annotated[
        bool | None,
        typer.Option(
            "--job/--no-job",
            help="Let a Spark job compare, for a bucket of millions. Default: as `audit_from` of the route says.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count and print. Send nothing.")] = False,
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the buckets with the ledger, and send the uploads that S3 never announced. Ends with 1 if there were any.

    It looks at every upload in the window, also at those from before the route was there: they are sent too. Try
    --dry-run first.
    """
    now = wiring.clock()
    begin, end = span(since, until, now)
    if end is not None and end > now:
        raise typer.BadParameter("--until is in the future")
    deployed = deployment.find(folder)
    found = Audited(window_of(begin, end, deployed.settings, now), dry_run)
    routes = _routes(route, deployed.settings)
    run = f"by-hand-{wiring.new_id()}"
    ports = deployed.ports(run)
    look = Look(run, found.window, found.tell, dry_run)
    pace = wiring.paced(SENT_RATE)
    failed: TidegateError | None = None
    for each in routes:
        try:
            source = _source(each, by_job, deployed.settings, ports)
            if not source:
                found.counts[each.name] = audit_window(each, look, ports, pace=pace)
                continue
            jobs = deployed.screening(lambda text: printed.echo(f"  {text}", err=True))
            own = replace(look, id=f"by-hand-{wiring.new_id()}")
            screening = jobs.screen(own.id, each, source, found.window)
            if screening.until < found.window.until:
                remark = f"the source knows nothing that is younger than {iso(screening.until)}: use --no-job for that"
                printed.echo(f"  route {each.name}: {remark}", err=True)
                found.until[each.name] = screening.until
                own = replace(own, window=replace(found.window, until=screening.until))
            counts = audit_window(each, own, ports, pace=pace, screening=screening)
            found.counts[each.name] = counts
            for text in filter(None, (*screening.remarks, screening.remark_on(counts))):
                printed.echo(f"  route {each.name}: {text}", err=True)
        except TidegateError as error:
            # what was found of the other routes is worth printing
            failed = failed or error
            if len(routes) > 1:
                printed.echo(f"  route {each.name}: {error}", err=True)
    if failed and not found.counts:
        raise failed
    if as_json:
        told = json_output.audited(found.window, found.counts, found.until, found.first, dry_run=dry_run)
        typer.echo(json_output.dumps(told))
    else:
        render.audited(found.counts, found.first, dry_run=dry_run)
    if failed:
        raise failed
    if found.total.sent:
        raise typer.Exit(int(Exit.FINDING))
