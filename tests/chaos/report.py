"""What was killed, how often, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set

from tests.chaos.fates import Kind
from tests.chaos.killer import Job, Strike

Publication = tuple[str, int]
"""A batch, and the attempt that published it."""


def report(strikes: Sequence[Strike], jobs: Sequence[Job], published: Set[Publication]) -> Iterator[str]:
    yield "killed:"
    for (kind, manner), count in sorted(Counter((strike.kind, strike.manner) for strike in strikes).items()):
        yield f"  {count:3}  {kind}, {manner}"
    yield f"  {sum(strike.cut_off for strike in strikes)} invocations were cut off"
    if backs := [strike.back - strike.at for strike in strikes if strike.back is not None]:
        yield f"  functions were back after {min(backs):.1f} to {max(backs):.1f} s"
    yield f"of {len(jobs)} jobs:"
    for strike in strikes:
        if strike.kind is not Kind.FUNCTION:
            end = what_became(strike, jobs, published)
            of = f"the job for batch {strike.victim}, attempt {strike.attempt}"
            yield f"  {of} ({strike.kind}, {strike.manner}): {end}"


def what_became(strike: Strike, jobs: Sequence[Job], published: Set[Publication]) -> str:
    """How the batch ended of which an attempt was struck."""
    by = next((attempt for batch, attempt in published if batch == strike.victim), None)
    last = max(job.attempt for job in jobs if job.batch == strike.victim)
    if by is None:
        return "not published"
    if by < strike.attempt:
        return f"attempt {by} had published"
    if by > strike.attempt:
        return f"published by attempt {by}"
    return f"it had published; attempt {last} found that out" if last > by else "it had published, and left its receipt"
