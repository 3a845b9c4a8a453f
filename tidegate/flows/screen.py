"""Screen: compare uploads with the ledger, and name the suspects. It changes nothing.

A job does this for a part of a bucket (`tidegate.spark.screening`); the audit judges the suspects again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from tidegate.core.audit import (
    SENT,
    AuditCounts,
    AuditFinding,
    AuditLimits,
    Listed,
    Window,
    count_findings,
    judge_listed,
)
from tidegate.core.uploads import Upload
from tidegate.flows.ledger import Ledger

PAGE = 1_000
"""Uploads that are compared together: the claims of these are read in ten requests."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The finding on an upload, and the notice in its claim; empty without a claim."""

    finding: AuditFinding
    notice: str = ""


def judge_page(
    within: Sequence[Listed], limits: Window | AuditLimits, ledger: Ledger, now: int
) -> Mapping[Listed, Judged]:
    """What the ledger says of these uploads: their claims, the notices of these, and the notices' batches are read. Of
    `limits` only `min_age` and `horizon` count."""
    claims = ledger.claims_on(each.upload for each in within)
    owners = ledger.notices({claim.notice for claim in claims.values() if not claim.outcome})
    batches = ledger.batches({owner.batch for owner in owners.values() if owner.batch})
    found: dict[Listed, Judged] = {}
    for each in within:
        claim = claims.get(each.upload.identity)
        owner = owners.get(claim.notice) if claim else None
        batch = batches.get(owner.batch) if owner else None
        finding = judge_listed(each, claim, owner, batch, now=now, min_age=limits.min_age, horizon=limits.horizon)
        found[each] = Judged(finding, claim.notice if claim else "")
    return found


@dataclass(frozen=True, slots=True)
class Screened:
    """Some uploads that were compared: the counts of all but the suspects, and these."""

    counts: AuditCounts
    suspects: tuple[Upload, ...]
    compared: int


def screen(listed: Iterable[Listed], window: Window, ledger: Ledger) -> Iterator[Screened]:
    """Compare uploads that the route takes, page by page. The ledger is read after the bucket was, as an audit does."""
    rest = iter(listed)
    while page := list(islice(rest, PAGE)):
        now = ledger.clock()
        within = [each for each in page if window.has(each, now)]
        found = judge_page(within, window, ledger, now)
        suspects = tuple(each.upload for each, judged in found.items() if judged.finding in SENT)
        others = [judged.finding for judged in found.values() if judged.finding not in SENT]
        yield Screened(count_findings(len(page) - len(suspects), others), suspects, len(within))
