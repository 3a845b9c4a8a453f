"""A screening: the part of an audit that a job does, where a bucket is too large for one function to list.

A job compares a bucket with the ledger, many uploads at a time, and names the *suspects*: the uploads that it takes for
lost. It sends nothing and voids nothing. The audit looks at each suspect again, in the bucket itself and in the ledger,
and judges (`tidegate.flows.audit`). So a job that is late, runs twice, or has read an old inventory can name a suspect
too many, and nothing worse.

    audits/<run>/<driver>/<number>.jsonl.gz   some suspects, in the bucket's order
    audits/<run>/failure.json                 why a driver gave up, for people
    audits/<run>/complete.json                which driver's files count, and what it found

EMR may run two drivers for one job. So each writes to a folder of its own, and `complete.json` is written once, by the
first that has written everything.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from tidegate.core.audit import AuditCounts, Window
from tidegate.core.uploads import Upload
from tidegate.core.versions import check_version

VERSION = 1
PART_SUSPECTS = 50_000
"""How many suspects one file has at most: whoever reads it has it in memory."""


@dataclass(frozen=True, slots=True)
class ScreeningRequest:
    """What a job is to compare: the uploads that a route takes, within the window, with the ledger.

    `ledger` is the table's name, and `claims` how long it keeps a claim (seconds). `rate` is how many uploads all tasks
    together compare in a second, at most: each costs a read of the ledger, which the live traffic needs too. `removes`:
    deletions are uploads, too.
    """

    bucket: str
    prefix: str
    suffix: str
    owner: str
    source: str
    window: Window
    ledger: str
    claims: int
    rate: int
    removes: bool = False

    def encode(self) -> str:
        return json.dumps({"v": VERSION, **asdict(self)}, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def decode_request(text: str) -> ScreeningRequest:
    """Raises Rejected if newer code wrote it."""
    given = json.loads(text)
    check_version(given.pop("v"), "the request for a screening", VERSION)
    return ScreeningRequest(**{**given, "window": Window(**given["window"])})


@dataclass(frozen=True, slots=True)
class SuspectsPart:
    """One file of suspects, and the keys of its first and its last."""

    name: str
    first: str
    last: str
    suspects: int


@dataclass(frozen=True, slots=True)
class CompleteScreening:
    """What a complete screening has found. `parts` are files in `folder`, in the order of their keys. `counts` has
    every upload that was compared, and no suspect. `until` (epoch seconds): the source knows nothing that is younger.
    `remarks` are for people."""

    folder: str
    parts: tuple[SuspectsPart, ...]
    counts: AuditCounts
    until: int
    remarks: tuple[str, ...] = ()

    @property
    def suspects(self) -> int:
        return sum(part.suspects for part in self.parts)

    def rest(self, looked_at: AuditCounts) -> AuditCounts:
        """What is to be added to the counts of all suspects' pages at their end. A suspect that the bucket does not
        have (any more) is gone."""
        # code that knows nothing of suspects may have gone on with the run, and counted more
        gone = max(0, self.suspects - looked_at.listed)
        return self.counts + AuditCounts(listed=gone, gone=gone)

    def remark_on(self, done: AuditCounts) -> str:
        """What to say of the counts at the end; empty if they are plausible."""
        if not self.suspects or done.gone < self.suspects:
            return ""
        return (
            f"the bucket has none of the {self.suspects} uploads that the job took for lost: does the source name the"
            " same bucket, with version ids as S3's listing has them?"
        )

    def encode(self) -> bytes:
        return json.dumps({"v": VERSION, **asdict(self)}, indent=1).encode()


def decode_screening(body: bytes) -> CompleteScreening:
    """Raises Rejected if newer code wrote it."""
    data = json.loads(body)
    check_version(data.pop("v"), "complete.json of a screening", VERSION)
    return CompleteScreening(
        folder=data["folder"],
        parts=tuple(SuspectsPart(**each) for each in data["parts"]),
        counts=AuditCounts.from_dict(data["counts"]),
        until=data["until"],
        remarks=tuple(data["remarks"]),
    )


def screening_folder(run: str) -> str:
    return f"audits/{run}/"


def screening_failure(run: str) -> str:
    return f"{screening_folder(run)}failure.json"


@dataclass(frozen=True, slots=True, order=True)
class Suspect:
    """The key and version of an upload. In order by the key; the version's place does not matter."""

    key: str
    version: str


def encode_suspects(suspects: Iterable[Upload]) -> bytes:
    lines = (json.dumps([each.key, each.version]) for each in suspects)
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def decode_suspects(body: bytes) -> Iterator[Suspect]:
    for line in gzip.decompress(body).splitlines():
        yield Suspect(*json.loads(line))
