"""What is remembered of a run: by the people in it, and for the checker."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulation.world.sent import SentNotice

UploadIdentity = tuple[str, str, str]
"""Bucket, key, version."""


@dataclass(frozen=True)
class ManifestUpload:
    """One upload of a batch's manifest."""

    notice: str
    bucket: str
    key: str
    version: str
    sequencer: str
    reloads: bool = False


@dataclass(frozen=True)
class TakenOver:
    """A live claim that another notice took over, `at` which moment. `owner` is the notice that had it, `known` whether
    the ledger still had the owner's record then."""

    owner: str
    known: bool
    at: float


@dataclass
class Answers:
    """What was answered, in plain terms."""

    failed: str = ""
    files: list[tuple[UploadIdentity, str, str, int | None]] = field(default_factory=list)
    """(upload, batch, state, rows), in the order of the pages."""
    of_state: dict[str, list[tuple[UploadIdentity, str]]] = field(default_factory=dict)
    """(upload, batch) of the files in each state, as one asks for these only."""
    batches: list[str] = field(default_factory=list)
    traced: list[tuple[UploadIdentity, str, int | None]] = field(default_factory=list)
    """(upload, state, rows)."""
    kept: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    """(bucket, key, versions) of an object that has landed several times, in the order of which S3 is said to have
    spoken: the last one stays, by the statement that `trace` prints."""
    quarantined: list[tuple[UploadIdentity, str]] = field(default_factory=list)
    status: dict[str, dict[str, Any]] = field(default_factory=dict)
    needs: list[tuple[str, str, str, int]] = field(default_factory=list)
    """(kind, route, batch, count)."""
    differences: list[tuple[str, str]] = field(default_factory=list)
    """(difference, batch)."""
    asked_at: float = 0.0


@dataclass(kw_only=True)
class Diary:
    """The fields of a world that no service of AWS has."""

    happened: Counter[str] = field(default_factory=Counter)
    """The count of each state in `seen`."""
    noticed: list[str] = field(default_factory=list)
    """Promises that were broken during the run."""

    # ---- what the product said, and has forgotten or overwritten since

    sent: list[Mapping[str, Any]] = field(default_factory=list)
    """The detail of each event that EventBridge accepted."""
    sent_notices: list[SentNotice] = field(default_factory=list)
    """Every notice that was published, or tried to."""
    committed: dict[str, tuple[str, int]] = field(default_factory=dict)
    ended: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The last record of each ended batch, because the ledger forgets it one day."""
    manifests: dict[str, list[ManifestUpload]] = field(default_factory=dict)
    """Those that were read, by batch."""
    most_running: Counter[str] = field(default_factory=Counter)
    """The most batches of each route that were submitted at once, without those that a person gave up."""
    taken_over: dict[tuple[str, str, str], TakenOver] = field(default_factory=dict)
    """By (pk, sk, new owner) of the claim."""
    taken_back: set[tuple[str, str, str]] = field(default_factory=set)
    """By (pk, sk, owner): the claims that owners lost, while a ledger was rebuilt, to one that had had them before."""
    corrected: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """The claims on uploads in quarantine that were given up, because a later version had landed, and when."""
    dropped: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """When each upload was dropped, by (pk, sk, notice) of its claim."""

    # ---- what people did

    acts: int = 0
    """The acts of the person on call."""
    decided: dict[str, bool] = field(default_factory=dict)
    """The batches that a person decided about, and whether as published."""
    fenced_from: dict[str, int] = field(default_factory=dict)
    """The batches that a person gave up, and the attempt from which on only a fence may be published."""
    sent_again: set[Any] = field(default_factory=set)
    """The batches that the person on call has resent, and the keys of the claims that are released."""
    asked_for: set[tuple[str, str]] = field(default_factory=set)
    """(bucket, key) of the objects that a person resends when S3 hands them out again: these have to land."""
    wished: dict[str, str] = field(default_factory=dict)
    """What becomes of the uploads of batches: the last that a person has said."""
    granted: dict[str, str] = field(default_factory=dict)
    """What the command has said yes to, last, for each batch in `wished`."""
    answered: set[str] = field(default_factory=set)
    """The batches in `wished` of which the command has said that it is noted, or is too late."""
    perhaps_noted: set[str] = field(default_factory=set)
    """The batches in `wished` of which a request ended without an answer, or was overtaken."""
    asked: bool = True
    """A person asks in the end. Where requests are counted, nobody does."""
    answers: Answers | None = None
    """What a person was told who asked when everything was at rest."""

    # ---- audits and backfills

    audited: bool = False
    """Whether the schedule audits the buckets."""
    audited_at_the_end: int = 0
    audits_over: set[tuple[str, float]] = field(default_factory=set)
    """Routes whose audit found nothing any more, each with the time of the last upload by then."""
    backfilled_at_the_end: int = 0
    backfills_that_found: Counter[str] = field(default_factory=Counter)
    """Of each route, at the end."""
    backfilled_well: set[str] = field(default_factory=set)
    """The routes of which the last backfill ended and found nothing to do."""

    # ---- what is deployed, and what was lost

    deployments: tuple[tuple[float, tuple[str, ...]], ...] = ()
    """When (seconds) which configurations were deployed."""
    sets_aside: bool = False
    """The routes set rows aside that do not fit."""
    rules_enabled: bool = True
    """Whether EventBridge sends events to settle."""
    only_rows: set[str] = field(default_factory=set)
    """The batches of which only rows tell, because the work bucket was lost."""
    forgotten_from: float = math.inf
    """From when on (epoch seconds) a rebuilt ledger has forgotten what only a ledger knows."""
    rebuilt_at: float = -math.inf
    """When (epoch seconds) there was an empty ledger, to be rebuilt."""
    whole_at: float = -math.inf
    """When (epoch seconds) it was rebuilt."""
