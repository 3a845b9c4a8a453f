"""One oracle for every scheme. It compares the uploads and S3's notifications with the rows at rest, and nothing
else."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from simulation.checker.books import named
from simulation.world.s3 import S3, Version
from simulation.world.table import Row


@dataclass(frozen=True)
class TrialVerdict:
    """Uploads of one schedule. Those never notified count in `unheard`, and in `absent` if their rows are not there.
    One that could not be read all the time (overwritten in a bucket without versions) is never lost or absent. An
    upload whose rows are there more than once is repeated, also if only an audit has found it."""

    heard: int
    repeated: int
    lost: int
    unheard: int
    absent: int
    broken: tuple[str, ...] = ()
    """Other errors: the schedule did not come to rest, or there are rows of no upload."""


def judge(
    history: list[Version], notified: Mapping[int, int], s3: S3, rows: Iterable[Row], rests: bool
) -> TrialVerdict:
    there: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for uri, version_id, number in rows:
        there[uri, version_id][number] += 1
    broken = [] if rests else ["it did not come to rest"]
    known = [named(version) for version in history]
    assert len(set(known)) == len(known), "two uploads that nobody could tell apart"
    broken += [f"rows of {foreign}, which nobody uploaded" for foreign in sorted(set(there) - set(known))]
    counts = Counter[str]()
    for version in history:
        found = there[named(version)]
        missing = set(found) != set(range(version.body.count(b"\n"))) and _always_readable(version, s3)
        heard = bool(notified.get(version.number))
        counts["heard" if heard else "unheard"] += 1
        counts["repeated"] += any(times > 1 for times in found.values())
        counts["lost" if heard else "absent"] += missing
    return TrialVerdict(
        counts["heard"], counts["repeated"], counts["lost"], counts["unheard"], counts["absent"], tuple(broken)
    )


def _always_readable(version: Version, s3: S3) -> bool:
    return bool(version.version_id) or s3.buckets[version.bucket].current.get(version.key) is version
