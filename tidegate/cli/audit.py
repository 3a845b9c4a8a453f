"""The verb `audit`: compare buckets, ledger and tables with each other; and send what is lost, if that is asked."""

from dataclasses import dataclass, field, replace
from typing import Annotated

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, printed, render
from tidegate.cli.audit_table import AskedPrefix, compare_with_table, place_of
from tidegate.cli.exits import Exit
from tidegate.cli.json_output import iso
from tidegate.cli.options import WHEN, DeploymentOption, JsonOption, RouteOption, YesOption, check_route, span
from tidegate.core.audit import LISTING, AuditCounts, AuditFinding, Listed, Window, is_large, watch_of
from tidegate.core.batches import oldest_remembered
from tidegate.core.errors import TidegateError
from tidegate.core.quantities import duration
from tidegate.core.routes import Route
from tidegate.flows.audit import Look, audit_window
from tidegate.flows.ports import Ports
from tidegate.flows.reconcile import reconcile
from tidegate.settings import Settings
from tidegate.settings.fixed import SENT_RATE
from tidegate.wiring import Deployment

SHOWN = 20
"""How many lost uploads are printed."""


@dataclass
class Audited:
    """What was found, by route; and the first lost uploads."""

    window: Window
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


UriArgument = Annotated[
    str,
    typer.Argument(
        metavar="s3://BUCKET/PREFIX", help="Compare what is here with the table itself.", show_default=False
    ),
]
TablesOption = Annotated[bool, typer.Option("--tables", help="Compare the ledger with the tables, batch by batch.")]
SendOption = Annotated[bool, typer.Option("--send", help="Send what is lost, or what the table lacks.")]
WindowBeginOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar=WHEN,
        help="Only what was put at or after: 30d, 2026-11-21. Default: 30d ago; of a prefix, all.",
    ),
]
WindowEndOption = Annotated[
    str | None,
    typer.Option(
        "--until", metavar=WHEN, help="Only what was put at or before: 12h. Default: 12h ago; of a prefix, all."
    ),
]
ByJobOption = Annotated[
    bool | None,
    typer.Option(
        "--job/--no-job",
        help="Let a Spark job compare, for a bucket of millions. Default: as `audit_from` of the route says.",
    ),
]
VersionsOption = Annotated[
    bool, typer.Option("--all-versions", help="Of a prefix: also versions that were overwritten.")
]


def audit(
    uri: UriArgument = "",
    tables: TablesOption = False,
    send: SendOption = False,
    route: RouteOption = None,
    since: WindowBeginOption = None,
    until: WindowEndOption = None,
    by_job: ByJobOption = None,
    versions: VersionsOption = False,
    folder: DeploymentOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the buckets with the ledger: which uploads has S3 never announced? Nothing is changed without --send.

    It looks at every upload in the window, also at those from before the route was there. A deployment does this on
    its own, as `[audit]` says.

    With s3://BUCKET/PREFIX it compares what is there, of any age, with the table itself. So it finds what was in the
    bucket before the deployment, is older than the ledger remembers, is in another table that the route had before, or
    was deleted from this one. With --tables it compares what the ledger has committed with what the tables hold.

    It may be repeated and interrupted: an upload lands once in a table. Ends with 1 if something is left: to send, or
    for a person.
    """
    if uri and tables:
        raise typer.BadParameter("give s3://BUCKET/PREFIX or --tables, not both")
    if tables and (send or since or until or by_job is not None):
        raise typer.BadParameter("--tables goes with none of --send, --since, --until and --job")
    if versions and not uri:
        raise typer.BadParameter("--all-versions goes with s3://BUCKET/PREFIX")
    if uri and by_job is not None:
        raise typer.BadParameter("--job and --no-job go without s3://BUCKET/PREFIX")
    place = place_of(uri) if uri else None
    now = wiring.clock()
    begin, end = span(since, until, now)
    if end is not None and end > now:
        raise typer.BadParameter("--until is in the future")
    deployed = deployment.find(folder)
    if tables:
        left = _compare_tables(route, deployed, as_json=as_json)
    elif place:
        asked = AskedPrefix(*place, route, begin or 0, now if end is None else end, versions, send, yes)
        left = compare_with_table(asked, deployed, as_json=as_json)
    else:
        window = window_of(begin, end, deployed.settings, now)
        left = _compare_buckets(window, route, by_job, deployed, send=send, as_json=as_json)
    if left:
        raise typer.Exit(int(Exit.FINDING))


def _compare_buckets(
    window: Window, route: str | None, by_job: bool | None, deployed: Deployment, *, send: bool, as_json: bool
) -> bool:
    """Whether lost uploads were found, and not sent."""
    found = Audited(window)
    routes = _routes(route, deployed.settings)
    run = f"by-hand-{wiring.new_id()}"
    ports = deployed.ports(run)
    look = Look(run, window, found.tell, not send)
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
            screening = jobs.screen(own.id, each, source, window)
            if screening.until < window.until:
                remark = f"the source knows nothing that is younger than {iso(screening.until)}: use --no-job for that"
                printed.echo(f"  route {each.name}: {remark}", err=True)
                found.until[each.name] = screening.until
                own = replace(own, window=replace(window, until=screening.until))
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
        told = json_output.audited(window, found.counts, found.until, found.first, dry_run=not send)
        typer.echo(json_output.dumps(told))
    else:
        render.audited(found.counts, found.first, dry_run=not send)
    if failed:
        raise failed
    return bool(found.total.sent) and not send


def _compare_tables(route: str | None, deployed: Deployment, *, as_json: bool) -> bool:
    """Whether the tables hold something else than the ledger has committed. A job runs for each table."""
    ports = replace(deployed.ports(), lineage=deployed.lineage(render.progress))
    check_route(route, deployment.known_names(deployed.routes, ports))
    oldest = wiring.smallest_id(max(0, oldest_remembered(wiring.clock(), deployed.settings.retention.claims)))
    done = reconcile(
        ports, configured=deployed.routes, oldest=oldest, made_at=wiring.made_at, route=route, tell=render.progress
    )
    if as_json:
        typer.echo(json_output.dumps(json_output.document(done, holds=done.holds)))
    else:
        render.reconciled(done)
    return not done.holds
