"""`tidegate audit s3://BUCKET/PREFIX`: what is in a bucket and not in the table, beyond the ledger's memory, too."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import typer

from tidegate import wiring
from tidegate.cli import json_output, printed, render
from tidegate.cli.options import check_route, confirm
from tidegate.core.audit import Listed
from tidegate.core.backfill import FINAL, SENT, BackfillCounts, BackfillFinding, BackfillScope, Survey, routes_under
from tidegate.core.lineage import SCHEME, checked_prefix
from tidegate.core.quantities import counted
from tidegate.flows.backfill import Backfill, Surveyings, send_missing, survey
from tidegate.settings.fixed import SENT_RATE
from tidegate.wiring import Deployment

SHOWN = 20
"""How many uploads are printed that a person has to look at, and without --send of those that would be sent."""
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
        # what is expected leaves room for the rest
        if shown and len(self.first) < (SHOWN // 2 if finding is BackfillFinding.RELOADED else SHOWN):
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
    return bucket, prefix


@dataclass(frozen=True, slots=True)
class AskedPrefix:
    """What a person asks of a prefix. `since` and `until` are epoch seconds; without `send` nothing is changed."""

    bucket: str
    prefix: str
    route: str | None
    since: int
    until: int
    versions: bool
    send: bool
    yes: bool
    reloads: bool = False
    whole: bool = False


def scopes_of(asked: AskedPrefix, deployed: Deployment) -> list[BackfillScope]:
    """One scope for each route under the prefix. Raises BadParameter."""
    configured = deployed.settings.core_routes()
    routes = [each for each in configured if not each.retired]
    names = {each.name for each in routes}
    check_route(asked.route, names, retired={each.name for each in configured} - names)
    under = routes_under(asked.bucket, asked.prefix, routes)
    found = [each for each in under if asked.route in (None, each[0].name)]
    if not found:
        there = "; ".join(f"{each.name} takes s3://{each.bucket}/{each.prefix}" for each in routes)
        who = f"route {asked.route} does not take" if asked.route else "no route takes"
        raise typer.BadParameter(f"{who} s3://{asked.bucket}/{asked.prefix}: {there}")
    span, how = (asked.since, asked.until), (asked.versions, asked.reloads, asked.whole)
    return [BackfillScope(route, each, *span, *how) for route, each in found]


def compare_with_table(asked: AskedPrefix, deployed: Deployment, *, as_json: bool) -> bool:
    """Print what the table lacks of the prefix, and send it if that is asked. Whether something is left: for a person,
    or to send. Raises BadParameter if no route takes what is there."""
    scopes = scopes_of(asked, deployed)
    run = wiring.new_id()
    say = _quietly()
    ports = replace(
        deployed.ports(f"backfill-{run}"), lineage=deployed.lineage(lambda text: printed.echo(f"  {text}", err=True))
    )
    dry_run = not asked.send
    done = Backfilled(dry_run)
    look = Backfill(run, deployed.settings.audit_limits(), say, done.tell, dry_run)
    rate = SENT_RATE
    kept = {each.route.name: Surveyings() for each in scopes}
    try:
        for each in scopes:
            done.surveys[each.route.name] = survey(each, look, kept[each.route.name], ports)
        if asked.reloads and not any(each.objects for each in done.surveys.values()):
            found = f"s3://{asked.bucket}/{asked.prefix} has no upload of that time that a route takes"
            render.error(f"{found}, so nothing is sent. A prefix is taken as it is: `*` is a character")
            return True
        _announce(scopes, done.surveys, rate, reloads=asked.reloads)
        if asked.send and not asked.yes:
            confirm("Go on?")
        for each in scopes:
            name = each.route.name
            done.counts[name] = send_missing(each, look, done.surveys[name], kept[name], ports, pace=wiring.paced(rate))
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
        render.backfilled(done.counts, done.first, dry_run=dry_run, reloads=asked.reloads)
    return done.is_finding


def _announce(scopes: list[BackfillScope], surveys: dict[str, Survey], rate: int, *, reloads: bool) -> None:
    for scope in scopes:
        found, route = surveys[scope.route.name], scope.route
        dollars = found.dollars(route.limits, rate)
        elsewhere = (
            f", and {counted(found.elsewhere, 'upload')} of {render.size(found.elsewhere_size)} in another table"
            if found.elsewhere
            else ""
        )
        uploads = f"{counted(found.objects, 'upload')} of {render.size(found.size)}"
        costs = f"about ${dollars:.2f} and {counted(found.jobs(route.limits, rate) + 1, 'job')} or more."
        what = (
            f"{uploads}. To load all of them again costs {costs}"
            if reloads
            else f"{uploads} without a claim{elsewhere}. Those that the table lacks are sent, {rate} a second at most."
            f" If it lacks all of them, that costs {costs}"
        )
        printed.echo(
            f"route {route.name}, {scope.uri}, table {route.dataset.table}: {counted(found.listed, 'version')} listed,"
            f" {what}",
            err=True,
        )
    replaced = "The rows of each are replaced, in one commit with those that it gives today. " if reloads else ""
    if deletions := sum(each.deletions for each in surveys.values()):
        replaced += (
            f"{counted(deletions, 'deletion is', 'deletions are')} among them: the rows of a deleted object leave. "
        )
    printed.echo(
        f"{replaced}What was deleted from this table on purpose lands again, and so does what is in another table"
        " only.",
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
