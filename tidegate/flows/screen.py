"""Screen: compare uploads with the ledger, and name the suspects. It changes nothing.

A job does this for a part of a bucket (`tidegate.spark.screening`); the audit judges the suspects again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from tidegate.core.audit import (
    SENT,
    AuditCounts,
    AuditFinding,
    AuditLimits,
    Listed,
    Marker,
    Window,
    count_findings,
    judge_listed,
)
from tidegate.core.key_ranges import KeyRange, just_before
from tidegate.core.outcomes import Outcome
from tidegate.core.uploads import Upload
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import ListedPage

PAGE = 1_000
"""Uploads that are compared together: the claims of these are read in ten requests."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The finding on an upload, and the notice in its claim; empty without a claim. `table`: where it has landed.
    `same_as` as in `Claim`."""

    finding: AuditFinding
    notice: str = ""
    table: str = ""
    same_as: str = ""


def judge_page(
    within: Sequence[Listed], limits: Window | AuditLimits, ledger: Ledger, now: int
) -> Mapping[Listed, Judged]:
    """What the ledger says of these uploads: their claims, the notices of these, and the notices' batches are read. Of
    `limits` only `min_age` and `horizon` count."""
    claims = ledger.claims_on(each.upload for each in within)
    # of one that has ended without a row nobody asks whose it is
    owners = ledger.owners(claim for claim in claims.values() if claim.outcome in ("", Outcome.PRESENT))
    found: dict[Listed, Judged] = {}
    for each in within:
        claim = claims.get(each.upload.identity)
        owner, batch = owners.get(claim, (None, None)) if claim else (None, None)
        finding = judge_listed(each, claim, owner, batch, now=now, min_age=limits.min_age, horizon=limits.horizon)
        landed = batch.table if batch and finding is AuditFinding.COMMITTED else ""
        found[each] = Judged(finding, claim.notice if claim else "", landed, claim.same_as if claim else "")
    return found


def listed_in(
    keys: KeyRange, page_after: Callable[[Marker], ListedPage], most: int | None, rest: list[KeyRange]
) -> Iterator[Listed]:
    """The uploads of a range of keys, with all their versions, in order. After `most` pages it may stop before a key:
    then what is left of the range is added to `rest`.

    It stops only before the last key of a page that begins with another one. The versions of a key follow each other,
    so all of that key's are in what is left, and none of them was yielded.
    """
    after: Marker | None = Marker(just_before(keys.begin))
    pages = 0
    while after:
        page = page_after(after)
        pages += 1
        last = page.after.key if page.after else ""
        ends = page.after is None or keys.is_after(last)
        left = KeyRange(last, keys.end)
        if not ends and most is not None and pages >= most and page.listed and page.listed[0].upload.key < last:
            yield from (each for each in page.listed if keys.has(each.upload.key) and not left.has(each.upload.key))
            rest.append(left)
            return
        yield from (each for each in page.listed if keys.has(each.upload.key))
        after = None if ends else page.after


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
