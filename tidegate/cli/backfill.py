"""The verb `backfill`: send what is in a bucket and not in the table, and is outside the ledger's memory."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, render
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
from tidegate.core.backfill import FINAL, BackfillCounts, BackfillFinding, BackfillScope, Survey, routes_under
from tidegate.core.lineage import SCHEME, checked_prefix
from tidegate.flows.backfill import Backfill, Surveyings, send_missing, survey
from tidegate.wiring import Deployment

SHOWN = 20
"""How many uploads are printed that a person has to look at, and with --dry-run of those that are missing."""
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
        shown = finding not in FINAL and (finding is not BackfillFinding.MISSING or self.dry_run)
        if shown and len(self.first) < SHOWN:
            self.first.append((listed, finding))

    @property
    def missing(self) -> int:
        return sum(each.missing for each in self.counts.values())

    @property
    def is_finding(self) -> bool:
        """Whether a person has to act."""
        final = {*FINAL, BackfillFinding.MISSING}
        left = any(count for each in self.counts.values() for found, count in each.found.items() if found not in final)
        return left or (self.dry_run and self.missing > 0)


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
    """Compare a bucket with the table itself, and send what is missing there: what was in the bucket before the
    deployment, or is older than the ledger remembers.

    It may be repeated and interrupted: an upload lands once. What was deleted from the table on purpose lands again.
    Ends with 1 if something is left for a person, or if --dry-run found something missing.
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
        deployed.ports(f"backfill-{run}"), lineage=deployed.lineage(lambda text: typer.echo(f"  {text}", err=True))
    )
    done = Backfilled(dry_run)
    asked = Backfill(run, deployed.settings.audit_limits(), say, done.tell, dry_run)
    rate = deployed.settings.audit.rate
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
        typer.echo(
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
        typer.echo(
            f"route {route.name}, {scope.uri}, table {route.dataset.table}: {found.listed:,} versions are listed."
            f" {found.objects:,} uploads of {render.size(found.size)} have no claim; those that the table lacks are"
            f" sent, {rate} a second at most. If it lacks all of them, that costs about ${dollars:.2f}"
            f" and {found.jobs(route.limits, rate) + 1} jobs or more.",
            err=True,
        )
    typer.echo(
        "Rows that were deleted from a table on purpose, or are in another table, count as missing: their uploads land"
        " again.",
        err=True,
    )


def _quietly() -> Callable[[str], None]:
    last = wiring.clock()

    def say(text: str) -> None:
        nonlocal last
        if wiring.clock() - last >= QUIET:
            last = wiring.clock()
            typer.echo(f"  {text}", err=True)

    return say
