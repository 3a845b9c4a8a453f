"""What `trace` prints for people: of each version first the answer, then how it got there, the ids last."""

import shlex
from collections.abc import Sequence

from tidegate.cli.render_status import next_step
from tidegate.cli.render_unknown import of_batch
from tidegate.cli.terminal import Text, console, say
from tidegate.core.file_states import PENDING
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.core.quantities import counted
from tidegate.core.times import iso
from tidegate.flows.needs import NextStep
from tidegate.flows.trace import Trace, landed_beside

OUTCOME_STYLE = {
    Outcome.COMMITTED.value: "green",
    Outcome.QUARANTINED.value: "red",
    Outcome.SUPERSEDED.value: "yellow",
    Outcome.VANISHED.value: "yellow",
    Outcome.PRESENT.value: "green",
    DROPPED: "yellow",
    PENDING: "cyan",
}
INDENT = 15


def trace(uri: str, traces: Sequence[Trace], *, replaces: bool = False) -> None:
    """`replaces`: the route that takes the key today does."""
    out = console()
    out.print(Text(uri, "bold"), soft_wrap=True)
    for several in landed_beside(uri, traces):
        say(out, several.told, style="bold yellow", indent=4)
        if replaces:
            again = f"tidegate resend {shlex.quote(uri)} --reload"
            next_step(out, NextStep("the route replaces by now: to keep only the newest", again))
        else:
            next_step(out, NextStep(several.why, several.delete))
    for each in traces:
        out.print()
        label, colon, rest = each.answer.partition(":" if ":" in each.answer.split(" ", 1)[0] else " ")
        say(out, label + colon, rest, style=OUTCOME_STYLE[each.outcome], indent=4)
        for step in each.next_steps(uri):
            next_step(out, step)
        for name, value in _steps(each):
            say(out, f"  {name:<12} ", value, style="dim", indent=INDENT)


def _steps(each: Trace) -> list[tuple[str, str]]:
    """How the version got there: when, and by what."""
    steps = [("version", each.claim.version), ("claimed", iso(each.claim.claimed_at))]
    if each.notice is not None:
        what = "void" if each.notice.void else "registered in its batch"
        steps.append(("notice", f"{what} at {iso(each.notice.decided_at)}"))
    if each.where:
        steps.append(("where", each.where))
    batch = each.batch
    if batch is not None:
        ended = f" at {iso(batch.ended_at)}" if batch.ended_at else ""
        attempt = f", attempt {batch.attempt}" if batch.attempt else ""
        steps.append(("batch", f"{batch.state}{ended}, {counted(batch.objects, 'upload')}{attempt}"))
        if batch.unknown:
            # the ledger counts the files that have a name, and does not say which
            which = "" if batch.objects == 1 else "some files of the batch have names that are "
            steps.append(("columns", which + of_batch(batch.unknown)))
    ids = [("notice", each.claim.notice)]
    if batch is not None:
        ids.append(("batch", batch.id))
        if batch.attempt:
            # a worker may have made it before anybody asked which one
            ids.append(("job run", batch.job_run or ("not on record" if ended else "not on record yet")))
        if batch.snapshot:
            ids.append(("snapshot", str(batch.snapshot)))
    return [*steps, *((f"{name} id" if name != "job run" else name, value) for name, value in ids)]
