"""The verb `backfill`: send what is in a bucket and not in the table, and is outside the ledger's memory."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, printed, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import (
    SINCE_WHEN,
    WHEN,
    DeploymentOption,
    JsonOption,
    YesOption,
    check_route,
    confirm,
    span,
)
from tidegate.core.audit import Listed
from tidegate.core.backfill import FINAL, SENT, BackfillCounts, BackfillFinding, BackfillScope, Survey, routes_under
from tidegate.core.lineage import SCHEME, checked_prefix
from tidegate.core.quantities import counted
from tidegate.flows.backfill import Backfill, Surveyings, send_missing, survey
from tidegate.settings.fixed import SENT_RATE
from tidegate.wiring import Deployment

SHOWN = 20
"""How many uploads are printed that a person has to look at, and with --dry-run of those that would be sent."""
QUIET = 10
"""Seconds between two lines of progress."""


@dataclass
class Backfilled:
    """What was found, by route; and the first uploads that a person may want to look at."""

    dry_run: bool
    surveys: dict[str, Survey] = field(default_factory=dict)
    counts: dict[str, BackfillCounts] = field(default_factory=dict)
    first: list[tuple[Listed, BackfillFinding]] = field(default_factory=list)

    def tell(self, listed: Listed, finding: BackfillFinding) -> None:
        shown = finding not in FINAL and (finding not in SENT or self.dry_run)
        if shown and len(self.first) < SHOWN:
            self.first.append((listed, finding))

    @property
    def is_finding(self) -> bool:
        """Whether a person has to act."""
        left = {*BackfillFinding} - FINAL - (frozenset() if self.dry_run else SENT)
        return any(each.found[found] for each in self.counts.values() for found in left)


def place_of(uri: str) -> tuple[str, str]:
    """Bucket and prefix. Raises BadParameter."""
    try:
        bucket, _, prefix = checked_prefix(uri).removeprefix(SCHEME).partition("/")
    except ValueError as error:
        raise typer.BadParameter(f"{error}; the prefix is taken as it is, not URL-encoded") from None
    if not bucket:
        raise typer.BadParameter("name what is to be backfilled: s3://BUCKET/PREFIX")
    return bucket, prefix


def scopes_of(
    bucket: str, prefix: str, named: str | None, since: int, until: int, *, versions: bool, deployed: Deployment
) -> list[BackfillScope]:
    """One scope for each route under the prefix, of what came between two moments (epoch seconds). Raises
    BadParameter."""
    configured = deployed.settings.core_routes()
    routes = [each for each in configured if not each.retired]
    names = {each.name for each in routes}
    check_route(named, names, retired={each.name for each in configured} - names)
    found = [each for each in routes_under(bucket, prefix, routes) if named in (None, each[0].name)]
    if not found:
        there = "; ".join(f"{each.name} takes s3://{each.bucket}/{each.prefix}" for each in routes)
        who = f"route {named} does not take" if named else "no route takes"
        raise typer.BadParameter(f"{who} s3://{bucket}/{prefix}: {there}")
    return [BackfillScope(route, each, since, until, versions) for route, each in found]


def backfill(
    uri: Annotated[str, typer.Argument(metavar="s3://BUCKET/PREFIX", help="Where to look, not URL-encoded.")],
    route: Annotated[
        str | None, typer.Option("--route", metavar="ROUTE", help="Default: each route under the prefix.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar=WHEN, help=f"Only what was uploaded at or after: {SINCE_WHEN}."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar=WHEN, help="Only what was uploaded at or before this.")
    ] = None,
    versions: Annotated[
        bool, typer.Option("--all-versions", help="Also versions that were overwritten. Default: current ones only.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compare, count and print. Send nothing.")] = False,
    folder: DeploymentOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a bucket with the table itself, and send what is missing there.

    That is what was in the bucket before the deployment, is older than the ledger remembers, is in another table that
    the route had before, or was deleted from this one. It may be repeated and interrupted: an upload lands once in a
    table. Ends with 1 if something is left for a person, or if --dry-run found something to send.
    """
    bucket, prefix = place_of(uri)
    now = wiring.clock()
    begin, end = span(since, until, now)
    deployed = deployment.find(folder)
    scopes = scopes_of(
        bucket, prefix, route, begin or 0, now if end is None else end, versions=versions, deployed=deployed
    )
    run = wiring.new_id()
    say = _quietly()
    ports = replace(
        deployed.ports(f"backfill-{run}"), lineage=deployed.lineage(lambda text: printed.echo(f"  {text}", err=True))
    )
    done = Backfilled(dry_run)
    asked = Backfill(run, deployed.settings.audit_limits(), say, done.tell, dry_run)
    rate = SENT_RATE
    kept = {each.route.name: Surveyings() for each in scopes}
    try:
        for each in scopes:
            done.surveys[each.route.name] = survey(each, asked, kept[each.route.name], ports)
        _announce(scopes, done.surveys, rate)
        if not (yes or dry_run):
            confirm("Go on?")
        for each in scopes:
            name = each.route.name
            done.counts[name] = send_missing(
                each, asked, done.surveys[name], kept[name], ports, pace=wiring.paced(rate)
            )
    finally:
        for spooled in kept.values():
            spooled.close()
    if as_json:
        printed.echo(
            json_output.dumps(
                json_output.backfilled(scopes, done.surveys, done.counts, done.first, rate, dry_run=dry_run)
            )
        )
    else:
        render.backfilled(done.counts, done.first, dry_run=dry_run)
    if done.is_finding:
        raise typer.Exit(int(Exit.FINDING))


def _announce(scopes: list[BackfillScope], surveys: dict[str, Survey], rate: int) -> None:
    for scope in scopes:
        found, route = surveys[scope.route.name], scope.route
        dollars = found.dollars(route.limits, rate)
        elsewhere = (
            f", and {counted(found.elsewhere, 'upload')} of {render.size(found.elsewhere_size)} in another table"
            if found.elsewhere
            else ""
        )
        printed.echo(
            f"route {route.name}, {scope.uri}, table {route.dataset.table}: {counted(found.listed, 'version')} listed,"
            f" {counted(found.objects, 'upload')} of {render.size(found.size)} without a claim{elsewhere}. Those"
            f" that the table lacks are sent, {rate} a second at most. If it lacks all of them, that costs about"
            f" ${dollars:.2f} and {counted(found.jobs(route.limits, rate) + 1, 'job')} or more.",
            err=True,
        )
    printed.echo(
        "What was deleted from this table on purpose lands again, and so does what is in another table only.",
        err=True,
    )


def _quietly() -> Callable[[str], None]:
    last = wiring.clock()

    def say(text: str) -> None:
        nonlocal last
        if wiring.clock() - last >= QUIET:
            last = wiring.clock()
            printed.echo(f"  {text}", err=True)

    return say
