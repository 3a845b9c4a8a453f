"""`tidegate resend --reload`: what has landed is loaded again, and its rows are replaced."""

from collections.abc import Sequence
from dataclasses import replace

import typer

from tidegate import wiring
from tidegate.cli import render, terminal
from tidegate.cli.audit_table import AskedPrefix, compare_with_table, place_of
from tidegate.cli.options import confirm
from tidegate.cli.selecting import LETTERS, QUARANTINE, refuse_misspelt
from tidegate.core.batches import State
from tidegate.core.manifests import batch_folder
from tidegate.core.quantities import counted
from tidegate.flows.resend import Resent, reload_batch
from tidegate.flows.send import Unsent
from tidegate.wiring import Deployment


def load_again(
    what: Sequence[str],
    route: str | None,
    since: int | None,
    until: int | None,
    deployed: Deployment,
    *,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Whether something of `what` is left for a person. `since` and `until` are epoch seconds. Raises BadParameter."""
    for each in what:
        refuse_misspelt(each, [LETTERS, QUARANTINE])
        if "/" in each and not each.startswith("s3:"):
            raise typer.BadParameter(f"{each} is no batch: a prefix is s3://BUCKET/PREFIX")
    if {LETTERS, QUARANTINE} & {*what}:
        raise typer.BadParameter("--reload goes with batches and s3://BUCKET/PREFIX: what it loads again has landed")
    places = {each: place_of(each) for each in what if each.startswith("s3:")}
    batches = [each for each in dict.fromkeys(what) if each not in places]
    if batches and (route or since or until):
        raise typer.BadParameter("--route, --since and --until go with s3://BUCKET/PREFIX, and not with a batch")
    for each in batches:
        _require_batch(each, deployed)
    left = False
    for bucket, prefix in places.values():
        now = wiring.clock()
        span, whole = (since or 0, now if until is None else until), since is None and until is None
        asked = AskedPrefix(bucket, prefix, route, *span, False, not dry_run, yes, reloads=True, whole=whole)
        left |= compare_with_table(asked, deployed, as_json=False)
    if batches and not (dry_run or yes):
        confirm(f"Replace the rows of {counted(len(batches), 'batch', 'batches')} by what the files give today?")
    for each in batches:
        left |= _batch(each, deployed, dry_run=dry_run)
    return left


def _require_batch(word: str, deployed: Deployment) -> None:
    ports = deployed.ports(f"resend-{wiring.new_id()}")
    if ports.ledger.batch(word) or ports.work.get(batch_folder(word) + "sealed.json"):
        return
    route = next((each for each in deployed.routes.values() if word in (each.name, each.dataset.table)), None)
    instead = f"s3://{route.bucket}/{route.prefix}" if route else "`tidegate files --batches` lists them"
    raise typer.BadParameter(f"there is no batch {word}: {'reload ' if route else ''}{instead}")


def _batch(batch_id: str, deployed: Deployment, *, dry_run: bool) -> bool:
    ports = deployed.ports(f"resend-{wiring.new_id()}")
    if dry_run:
        ports = replace(ports, topic=Unsent(), measure=lambda *_: None)
    batch = ports.ledger.batch(batch_id)
    if batch is not None and batch.state is not State.COMMITTED:
        render.error(f"batch {batch_id} is {batch.state}, and has no rows to replace: see `tidegate resend --help`")
        return True
    done = reload_batch(batch_id, ports, run=ports.new_id(), configured=deployed.routes)
    if done.ended in (Resent.NO_SUCH_BATCH, Resent.MISSING):
        render.error(
            f"what batch {batch_id} had is not in the work bucket: is that its id? Reload s3://BUCKET/PREFIX instead"
        )
        return True
    if done.ended is Resent.OTHER_TABLE:
        there = f"in table {batch.table}" if batch is not None else "in another table"
        render.error(
            f"the rows of batch {batch_id} are {there}, and its route writes to another one by now: they would stay"
            " there. `tidegate audit s3://BUCKET/PREFIX --send` loads the files into the table of today, too"
        )
        return True
    if done.ended is Resent.ASK_THE_TABLE:
        render.error(
            f"batch {batch_id} landed when its route replaced rows, so later versions may have taken the place of its"
            " own. Only the table knows: `tidegate resend s3://BUCKET/PREFIX --reload` looks there"
        )
        return True
    waits = f"; {counted(done.elsewhere, 'upload has', 'uploads have')} not ended elsewhere" if done.elsewhere else ""
    ends = "would be loaded again" if dry_run else f"on the way: `tidegate status` shows how they end{render.KEPT}"
    terminal.tell(f"{counted(done.sent, 'upload')} of batch {batch_id} {ends}{waits}")
    return not done.sent
