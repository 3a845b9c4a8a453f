"""The files that a job writes to the work bucket: outcomes, a receipt, or the reason why it gave up."""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass
from itertools import groupby
from typing import Any

from tidegate.core.manifests import OwnedUpload, Sealed
from tidegate.core.outcomes import ABANDONED, Outcome, Tally
from tidegate.core.publication import Floor
from tidegate.core.replacing import HeldRows
from tidegate.core.unknown import NO_NAMES, UnknownNames, from_header
from tidegate.core.versions import check_version

VERSION = 1


@dataclass(frozen=True, slots=True)
class Ending:
    """How one upload ended, if it was not committed. `notice` is its owner in the batch that reports the ending.

    `outcome` is one of `Outcome`, or `core.outcomes.ABANDONED`. `where` is where in the file the error is: a line,
    cut (`formats.places`), or the row group or the block; empty if that is not known. It is the customer's data: it is
    in the file of outcomes only, and in no claim, log or metric.
    """

    notice: str
    bucket: str
    key: str
    version: str
    outcome: str
    error: str
    where: str = ""

    def as_dict(self) -> dict[str, str]:
        """Without what is not known: versions before `where` wrote the same."""
        return {name: value for name, value in asdict(self).items() if value or name != "where"}


def given_up(of: OwnedUpload) -> Ending:
    """The ending of an upload whose batch is fenced."""
    return Ending(of.notice, of.upload.bucket, of.upload.key, of.upload.version, ABANDONED, "")


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """The rows of a batch that do not fit, staged in a table of their own, which has this uuid: `staged` is the
    snapshot, `rows` how many they are. `reading` tells how the files were read (`core.routes.reading_of`)."""

    table: str
    table_uuid: str
    staged: int
    rows: int
    reading: str = ""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of one staged snapshot. They are written under its id before it is published.

    Attempts may differ (an object vanishes between them), so only the outcomes of the published snapshot count.
    A fence (`fence` is true) has none. `manifest` is the digest of the parts that were read.

    `rows` is how many rows each upload brought: a tuple for each part of the manifest, in its order, with a number for
    each upload of the part, in the part's order; 0 for an upload that was not committed. Nothing is decided by it. It
    is empty if nobody wrote it: a ledger that was rebuilt does not know it.

    `rejected` are the rows that do not fit, which land when these outcomes count (`flows.rejected`); `rejected_rows` is
    how many each upload has, in the form of `rows`.

    `unknown` is what the committed uploads have that the route's schema lacks. Nothing is decided by it, either; nor by
    `slowly`, which is the setting of the table that had Spark write the rows, where the tasks would have been faster.

    `replaced` are the rows of earlier versions that leave the table when these outcomes count. `deleted` are the
    objects (URIs) whose deletion is among the uploads, `emptied` those of which a version without rows landed.
    """

    staged: int
    fence: bool
    tally: Tally
    endings: tuple[Ending, ...] = ()
    manifest: str = ""
    rows: tuple[tuple[int, ...], ...] = ()
    rejected: RejectedRows | None = None
    rejected_rows: tuple[tuple[int, ...], ...] = ()
    unknown: UnknownNames = NO_NAMES
    slowly: str = ""
    replaced: tuple[HeldRows, ...] = ()
    deleted: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()

    def encode(self) -> bytes:
        rows: dict[str, Any] = {"rows": self.rows} if self.rows else {}
        if self.rejected:
            rows |= {"rejected": asdict(self.rejected), "rejected_rows": self.rejected_rows}
        header = {
            "v": VERSION,
            "staged": self.staged,
            "fence": self.fence,
            "tally": self.tally.as_dict(),
            "manifest": self.manifest,
            **rows,
            **self.unknown.as_header(),
            **({"slowly": self.slowly} if self.slowly else {}),
            **({"replaced": [astuple(each) for each in self.replaced]} if self.replaced else {}),
            **({"deleted": self.deleted} if self.deleted else {}),
            **({"emptied": self.emptied} if self.emptied else {}),
        }
        lines = [json.dumps(header), *(json.dumps(ending.as_dict()) for ending in self.endings)]
        return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def decode_outcomes(body: bytes) -> Outcomes:
    """Raises Rejected, like all decoders here, if newer code wrote it."""
    about, lines = _outcome_lines(body)
    endings = tuple(map(_decode_ending, lines))
    return Outcomes(
        about["staged"],
        about["fence"],
        Tally.from_dict(about["tally"]),
        endings,
        about.get("manifest", ""),
        tuple(map(tuple, about.get("rows", ()))),
        RejectedRows(**about["rejected"]) if "rejected" in about else None,
        tuple(map(tuple, about.get("rejected_rows", ()))),
        from_header(about),
        about.get("slowly", ""),
        tuple(HeldRows(*each) for each in about.get("replaced", ())),
        tuple(about.get("deleted", ())),
        tuple(about.get("emptied", ())),
    )


def decode_endings(body: bytes, start: int, size: int) -> Iterator[tuple[int, list[Ending]]]:
    """The endings in a file of outcomes from the `start`-th on, `size` at a time, each time with the number of those up
    to there. What is not asked for is not decoded. Raises as `decode_outcomes` does."""
    _, lines = _outcome_lines(body)
    for begin in range(start, len(lines), size):
        portion = lines[begin : begin + size]
        yield begin + len(portion), list(map(_decode_ending, portion))


def _outcome_lines(body: bytes) -> tuple[dict[str, Any], list[str]]:
    header, *lines = gzip.decompress(body).decode().splitlines()
    return _load(header, "a file of outcomes"), lines


def _decode_ending(line: str) -> Ending:
    fields = json.loads(line)
    return Ending(
        fields["notice"],
        fields["bucket"],
        fields["key"],
        fields["version"],
        Outcome(fields["outcome"]),
        fields["error"],
        fields.get("where", ""),
    )


@dataclass(frozen=True, slots=True)
class Receipt:
    """The table's decision about a batch. Each driver that finds the batch decided writes it, as does `decide`.

    `manifest` is the digest of the parts whose rows were published, `unknown` what they have that the route's schema
    lacks, and `slowly` why Spark wrote them, all from the outcomes of the staged snapshot.
    """

    batch: str
    snapshot: int
    staged: int
    fence: bool
    tally: Tally
    manifest: str = ""
    unknown: UnknownNames = NO_NAMES
    slowly: str = ""

    @staticmethod
    def of(outcomes: Outcomes, batch: str, snapshot: int) -> "Receipt":
        """The receipt of a batch whose staged snapshot with these outcomes is published as `snapshot`."""
        return Receipt(
            batch,
            snapshot,
            outcomes.staged,
            outcomes.fence,
            outcomes.tally,
            outcomes.manifest,
            outcomes.unknown.brief(),
            outcomes.slowly,
        )

    def encode(self) -> bytes:
        told = {**asdict(self), "tally": self.tally.as_dict()}
        del told["unknown"]
        if not self.slowly:
            del told["slowly"]
        return json.dumps({"v": VERSION, **told, **self.unknown.as_counts()}, indent=1).encode()


def decode_receipt(body: bytes) -> Receipt:
    data = _load(body, "receipt.json")
    return Receipt(
        data["batch"],
        data["snapshot"],
        data["staged"],
        data["fence"],
        Tally.from_dict(data["tally"]),
        data.get("manifest", ""),
        from_header(data),
        data.get("slowly", ""),
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt gave up. `hopeless`: another attempt would fail alike, and a person must act. `undecided`: the
    person must decide whether the batch is in the table; or, if `rejected`, whether its rejected rows are in theirs.
    `died`: a process that read files died, or lacked memory. `staged` is what the batch was published from, if that is
    known."""

    attempt: int
    reason: str
    hopeless: bool
    undecided: bool = False
    died: bool = False
    rejected: bool = False
    staged: int = 0

    def encode(self) -> bytes:
        return json.dumps({"v": VERSION, **asdict(self)}, indent=1).encode()


def decode_failure(body: bytes) -> Failure:
    data = _load(body, "the report of a failed attempt")
    del data["v"]
    return Failure(**data)


DEATHS = 2
"""So many attempts that died may have had another cause than a file: a machine, a cancelled job."""


def reads_carefully(earlier: Iterable[Failure | None], *, last: bool) -> bool:
    """Whether an attempt must read its files one by one, each in a process of its own (`tidegate.reading.careful`).

    `earlier` are the reports of the attempts before. A driver that died left none, so None counts as a death. The
    `last` attempt that follows by itself does not wait for a second death.
    """
    deaths = sum(failure is None or failure.died for failure in earlier)
    return deaths >= (1 if last else DEATHS)


def encode_floor(floor: Floor) -> bytes:
    return json.dumps({"v": VERSION, **asdict(floor)}).encode()


def decode_floor(body: bytes) -> Floor:
    data = _load(body, "floor.json")
    return Floor(data["table_uuid"], data["head"])


def _load(text: str | bytes, what: str) -> Any:
    data = json.loads(text)
    check_version(data["v"], what, VERSION)
    return data


def rows_by_part(rows: Iterable[tuple[str, int]]) -> tuple[tuple[int, ...], ...]:
    """`Outcomes.rows` of the uploads of a manifest in its order: each with its notice, and its number of rows. A notice
    has one part in a batch, so the uploads of a notice that follow each other are a part."""
    parts = groupby(rows, key=lambda each: each[0])
    return tuple(tuple(count for _, count in part) for _, part in parts)


def rows_in_parts(sealed: Sealed, outcomes: Outcomes) -> dict[str, tuple[int, ...]]:
    """The numbers of rows by part, in the order of its uploads. Empty if nobody wrote them, or for another manifest."""
    return _in_parts(sealed, outcomes, outcomes.rows)


def rejected_in_parts(sealed: Sealed, outcomes: Outcomes) -> dict[str, tuple[int, ...]]:
    """The numbers of rejected rows, as `rows_in_parts`. Empty also if there are none."""
    return _in_parts(sealed, outcomes, outcomes.rejected_rows)


def _in_parts(sealed: Sealed, outcomes: Outcomes, counts: tuple[tuple[int, ...], ...]) -> dict[str, tuple[int, ...]]:
    known = outcomes.manifest == sealed.digest and len(counts) == len(sealed.parts)
    return dict(zip(sealed.parts, counts, strict=True)) if known else {}


def tally_of(outcomes: Iterable[Outcome], rows: int, rejected: int = 0, replaced: int = 0, left_out: int = 0) -> Tally:
    counts = dict.fromkeys(Outcome, 0)
    for outcome in outcomes:
        counts[outcome] += 1
    of_rows = {"rows": rows, "rejected": rejected, "replaced": replaced, "left_out": left_out}
    return Tally(**{outcome.value: count for outcome, count in counts.items()}, **of_rows)
