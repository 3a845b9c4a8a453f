"""The judge: what was uploaded against what PyIceberg reads in the tables and what `tidegate status` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from tests.chaos.traffic import Put
from tidegate_local.demo.check import Finding, compare

Identity = tuple[str, str, str]


def judge(
    route: str,
    puts: Sequence[Put],
    overwritten: Set[Identity],
    rows: Iterable[Mapping[str, Any]],
    status: Mapping[str, Any],
) -> Iterator[Finding]:
    """One route: every uploaded version's rows exactly once, no other row, and sums that say so.

    An `overwritten` upload may have gone unread: it had no version of its own, or it was in quarantine when a later
    version landed. Then none of its rows is there, and the ledger says so of exactly that many.
    """
    found = [(row["_source_uri"], row["_source_version"], row["id"]) for row in rows]
    landed = {(uri, version) for uri, version, _ in found}
    gone = [
        put for put in puts if put.upload.identity in overwritten and (put.upload.uri, put.upload.version) not in landed
    ]
    lost = {put.upload.identity for put in gone}
    expected = Counter(
        (put.upload.uri, put.upload.version, each)
        for put in puts
        if put.upload.identity not in lost
        for each in put.ids
    )
    for finding in compare(found, expected):
        yield Finding(f"{route}: {finding.what}", finding.holds, finding.seen)
    uploads = status["uploads"]
    yield Finding(
        f"{route}: every one of the {len(puts)} uploads was notified, and counted once",
        uploads["notified"] == len(puts),
        f"{uploads['notified']} notified",
    )
    shown = ("committed", "superseded", "dropped", "quarantined", "vanished", "pending")
    yield Finding(
        f"{route}: all have ended, and the sums hold",
        bool(uploads["holds"])
        and uploads["committed"] == len(puts) - len(gone)
        and uploads["superseded"] + uploads["dropped"] == len(gone)
        and not any(uploads[name] for name in ("quarantined", "vanished", "pending")),
        ", ".join(f"{uploads[name]} {name}" for name in shown),
    )
    yield Finding(
        f"{route}: the ledger counts as many rows as PyIceberg",
        status["rows"] == len(found),
        f"{status['rows']} and {len(found)}",
    )


def publications(table: Any) -> Counter[tuple[str, int]]:
    """How often each batch was published in the history of `table` (PyIceberg's), and by which attempt."""
    snapshots = {each.snapshot_id: each for each in table.snapshots()}
    found: Counter[tuple[str, int]] = Counter()
    at = table.current_snapshot()
    while at is not None:
        # a table that was empty begins with a snapshot of nobody's
        if "tidegate.begun" not in at.summary.additional_properties:
            found[(at.summary.get("tidegate.batch") or "?", int(at.summary.get("tidegate.attempt") or 0))] += 1
        at = snapshots.get(at.parent_snapshot_id)
    return found
