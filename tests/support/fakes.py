"""A topic, dead letters and a job service in memory, for what moto cannot do or a test must control."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.core.announcements import Announcement
from tidegate.core.audit import AuditCounts, Listed, Marker, Window
from tidegate.core.batches import Batch, JobState
from tidegate.core.errors import Retryable
from tidegate.core.lineage import (
    CompleteLineage,
    Landed,
    checked_prefix,
    encode_history,
    encode_landed,
    history_name,
    lineage_folder,
)
from tidegate.core.manifests import OwnedUpload, batch_folder, decode_part, decode_sealed, outcomes_name
from tidegate.core.notices import Notice
from tidegate.core.outcomes import NO_TALLY, ROWS_OF, Outcome
from tidegate.core.publication import History
from tidegate.core.receipts import Ending, Failure, Outcomes, Receipt, decode_outcomes, rows_by_part, tally_of
from tidegate.core.replacing import HeldRows
from tidegate.core.routes import Dataset, Route
from tidegate.core.screening import CompleteScreening, SuspectsPart, encode_suspects, screening_folder
from tidegate.core.unknown import NO_NAMES, UnknownNames
from tidegate.core.uploads import Upload
from tidegate.flows.ports import JobReport, ListedPage, Ports, Work
from tidegate.metrics import Metric

NO_COUNTS = AuditCounts()


@dataclass
class Counts:
    """What was counted, by metric and route."""

    values: Counter[tuple[Metric, str]] = field(default_factory=Counter)

    def __call__(self, metric: Metric, value: int, route: str = "") -> None:
        assert metric.value.dimensions("tidegate", route), "as the functions' own would refuse it"
        self.values[metric, route] += value

    def __getitem__(self, metric: Metric) -> int:
        """The count over all routes."""
        return sum(value for (counted, _), value in self.values.items() if counted is metric)

    def of(self, metric: Metric, route: str) -> int:
        return self.values[metric, route]


@dataclass
class MemoryTopic:
    """Accepts the notices that the test sets; `broken` raises instead."""

    accepts: Callable[[Notice], bool] = lambda notice: True
    broken: bool = False
    published: list[Notice] = field(default_factory=list)

    def publish(self, notices: Sequence[Notice]) -> frozenset[str]:
        if self.broken:
            raise Retryable("the topic is not to be reached")
        accepted = [notice for notice in notices if self.accepts(notice)]
        self.published += accepted
        return frozenset(notice.id for notice in accepted)

    @property
    def keys(self) -> list[str]:
        return sorted(entry.upload.key for notice in self.published for entry in notice.entries)


@dataclass
class MemoryEventBus:
    """Takes the announcements that the test sets; `broken` raises instead."""

    refuses: Callable[[Announcement], bool] = lambda announcement: False
    broken: bool = False
    calls: int = 0
    sent: list[Announcement] = field(default_factory=list)

    def send(self, announcements: Sequence[Announcement]) -> Mapping[str, str]:
        assert 1 <= len(announcements) <= 10
        self.calls += 1
        if self.broken:
            raise Retryable("the bus is not to be reached")
        refused = {each.id: "InternalFailure" for each in announcements if self.refuses(each)}
        self.sent += [each for each in announcements if each.id not in refused]
        return refused


@dataclass
class MemoryDeadLetters:
    letters: list[tuple[str, str]] = field(default_factory=list)
    refuses: Callable[[str], bool] = lambda body: False

    def set_aside(self, body: str, reason: str) -> None:
        if self.refuses(body):
            raise Retryable("the dead-letter queue is not to be reached")
        self.letters.append((body, reason))


@dataclass
class CountedLetters:
    """A queue of dead letters that only counts them, or refuses to."""

    there: int = 0
    trouble: Exception | None = None
    asked: int = 0

    def count(self) -> int:
        self.asked += 1
        if self.trouble:
            raise self.trouble
        return self.there


def no_letters() -> tuple[CountedLetters, CountedLetters]:
    return CountedLetters(), CountedLetters()


@dataclass
class MemoryWork:
    """A work bucket in memory, for histories that run many times."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def get(self, name: str) -> bytes | None:
        return self.objects.get(name)

    def put(self, name: str, body: bytes) -> None:
        self.objects[name] = body

    def put_if_absent(self, name: str, body: bytes) -> bool:
        if name in self.objects:
            return False
        self.objects[name] = body
        return True

    def names(self, prefix: str) -> Iterator[str]:
        return iter(sorted(name for name in self.objects if name.startswith(prefix)))

    def folders(self, prefix: str, first: str) -> Iterator[str]:
        inside = (name.removeprefix(prefix) for name in self.names(prefix))
        found = {name.split("/")[0] for name in inside if "/" in name}
        return iter(sorted(each for each in found if each >= first))


@dataclass
class MemoryListing:
    """Landing buckets in memory: every version that is there, in the order in which S3 lists them."""

    there: dict[Upload, int] = field(default_factory=dict)
    """When each was modified, in epoch seconds."""
    size: int = 1_000
    asked: list[tuple[str, str, Marker, str]] = field(default_factory=list)

    def page(self, bucket: str, prefix: str, after: Marker, owner: str) -> ListedPage:
        self.asked.append((bucket, prefix, after, owner))
        found = [
            Listed(each, modified)
            for each, modified in sorted(self.there.items(), key=lambda item: item[0].identity)
            if each.bucket == bucket
            and each.key.startswith(prefix)
            and (each.key, each.version) > (after.key, after.version)
        ]
        page = found[: self.size]
        more = len(found) > self.size
        return ListedPage(tuple(page), Marker(page[-1].upload.key, page[-1].upload.version) if more else None)


NO_HISTORY = History("", ())
"""Of a table that is not there."""


@dataclass
class MemoryLineage:
    """The rows of tables in memory: what each table holds."""

    tables: dict[str, list[Landed]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    histories: dict[str, History] = field(default_factory=dict)

    def with_history(self, table: str, prefix: str = "") -> tuple[History, Iterator[Landed]]:
        return self.histories.get(table, NO_HISTORY), self.landed(table, prefix)

    def landed(self, table: str, prefix: str = "") -> Iterator[Landed]:
        self.asked.append((table, prefix))
        begin = checked_prefix(prefix)
        found = [each for each in self.tables.get(table, ()) if f"s3://{each.bucket}/{each.key}".startswith(begin)]
        return iter(sorted(found, key=lambda each: each.place))

    def add(self, table: str, uploads: Iterable[Upload], batch: str = "01B00001", rows: int = 1) -> None:
        there = self.tables.setdefault(table, [])
        there += [Landed(each.bucket, each.key, each.version, batch, rows) for each in uploads]


@dataclass
class MemoryJobs:
    """A job service that recognises a client token, and runs nothing: tests play the jobs."""

    runs: dict[str, JobReport] = field(default_factory=dict)
    started: list[tuple[str, int, bool]] = field(default_factory=list)
    """(batch, attempt, fencing) of every run, in order."""
    told: list[tuple[Dataset, str, bool]] = field(default_factory=list)
    """(dataset, owner, last) of every request, in order."""
    _by_token: dict[tuple[str, int], str] = field(default_factory=dict)
    code: str = ""
    """What jobs run, if there are workers."""
    takes_for: int = 3_600
    stay: int = 10
    busy: bool = False
    """Whether another process is starting it right now."""

    def start(self, batch: Batch, dataset: Dataset, *, owner: str, last: bool) -> str | None:
        if self.busy:
            return None
        self.told.append((dataset, owner, last))
        token = (batch.id, batch.attempt)
        if token not in self._by_token:
            run = f"{batch.id}/{batch.attempt}"
            self._by_token[token] = run
            self.runs[run] = JobReport(JobState.ACTIVE)
            self.started.append((*token, batch.fencing))
        return self._by_token[token]

    def start_worker(self, worker: str) -> str:
        if worker not in self.runs:
            self.runs[worker] = JobReport(JobState.ACTIVE)
            self.started.append((worker, 1, False))
        return worker

    def report(self, job_run: str) -> JobReport:
        return self.runs[job_run]

    def end(self, batch_id: str, attempt: int, details: str = "") -> None:
        run = f"{batch_id}/{attempt}"
        assert self.runs[run].state is JobState.ACTIVE
        self.runs[run] = JobReport(JobState.ENDED, details)


def uploads_of(work: Work, batch_id: str) -> list[OwnedUpload]:
    """What a job reads: the uploads of a sealed batch."""
    folder = batch_folder(batch_id)
    manifest = work.get(folder + "sealed.json")
    assert manifest is not None
    found = []
    for name in decode_sealed(manifest).parts:
        part = work.get(folder + name)
        assert part is not None
        found += decode_part(part)
    return found


def play_publishing(
    work: Work,
    batch_id: str,
    ends: Mapping[str, tuple[Outcome, str]] | None = None,
    *,
    rows: int = 1,
    snapshot: int = 77,
    receipt: bool = True,
    manifest: str | None = None,
    unknown: UnknownNames = NO_NAMES,
    rejected: int = 0,
) -> Receipt:
    """Write what a job writes that published the batch. `ends` are the keys that were not plain success. `manifest` is
    the digest that the job got; None for that of the existing manifest."""
    if manifest is None:
        body = work.get(batch_folder(batch_id) + "sealed.json")
        manifest = decode_sealed(body).digest if body else ""
    endings, outcomes, counts = [], [], []
    for item in uploads_of(work, batch_id):
        outcome, error = (ends or {}).get(item.upload.key, (Outcome.COMMITTED, ""))
        outcomes.append(outcome)
        counts.append((item.notice, rows if outcome is Outcome.COMMITTED else 0))
        if outcome is not Outcome.COMMITTED:
            found = item.upload
            endings.append(Ending(item.notice, found.bucket, found.key, found.version, outcome, error))
    tally = tally_of(outcomes, rows * outcomes.count(Outcome.COMMITTED), rejected)
    by_part = rows_by_part(counts)
    staged = Outcomes(
        snapshot - 1,
        fence=False,
        tally=tally,
        endings=tuple(endings),
        manifest=manifest,
        rows=by_part,
        unknown=unknown,
    )
    work.put(f"{batch_folder(batch_id)}outcomes/{staged.staged}.jsonl.gz", staged.encode())
    written = Receipt.of(staged, batch_id, snapshot)
    if receipt:
        work.put(batch_folder(batch_id) + "receipt.json", written.encode())
    return written


def play_present(work: Work, batch_id: str, rows: Iterable[Landed]) -> dict[str, tuple[Outcome, str]]:
    """How those of its uploads end that came again and have `rows` in its table, as `play_publishing` takes it."""
    there = {each.identity: f"{ROWS_OF}{each.batch}" for each in rows}
    came_again = (item.upload for item in uploads_of(work, batch_id) if item.again)
    return {each.key: (Outcome.PRESENT, there[each.identity]) for each in came_again if each.identity in there}


def play_fencing(work: Work, batch_id: str, snapshot: int = 88) -> None:
    """Write what a job writes that fenced the batch."""
    written = Receipt(batch_id, snapshot, snapshot, True, NO_TALLY)
    work.put(batch_folder(batch_id) + "receipt.json", written.encode())


def play_giving_up(
    work: Work, batch_id: str, attempt: int, reason: str, *, hopeless: bool, undecided: bool = False
) -> None:
    """Write what an attempt writes that could not publish the batch."""
    failure = Failure(attempt, reason, hopeless, undecided)
    work.put(f"{batch_folder(batch_id)}failures/{attempt}.json", failure.encode())


def play_lineage(
    work: Work, run: str, found: Sequence[Landed], table: str, prefix: str = "", history: History = NO_HISTORY
) -> None:
    """Write what a job writes that has read a table: its history, two files at most, and that it is complete."""
    folder, middle = lineage_folder(run), (len(found) + 1) // 2
    halves = {"000000-000000.jsonl.gz": found[:middle], "000001-000000.jsonl.gz": found[middle:]}
    parts = {name: half for name, half in halves.items() if half}
    for name, half in parts.items():
        work.put(f"{folder}driver/{name}", encode_landed(half))
    rows = sum(each.rows for each in found)
    work.put(history_name(f"{folder}driver/"), encode_history(history))
    complete = CompleteLineage(table, prefix, 7, "driver", tuple(parts), len(found), rows)
    work.put(folder + "complete.json", complete.encode())


def play_screening(
    work: Work,
    run: str,
    suspects: Sequence[Upload],
    *,
    counts: AuditCounts = NO_COUNTS,
    until: int = 2**40,
    part_size: int = 50_000,
) -> None:
    """Write what a job writes that has screened a bucket: its suspects, sorted by key, and that it is complete."""
    folder, parts = screening_folder(run), []
    for start in range(0, len(suspects), part_size):
        part = suspects[start : start + part_size]
        name = f"{start:06}-0-000000.jsonl.gz"
        work.put(f"{folder}driver/{name}", encode_suspects(part))
        parts.append(SuspectsPart(name, part[0].key, part[-1].key, len(part)))
    work.put(folder + "complete.json", CompleteScreening("driver", tuple(parts), counts, until).encode())


@dataclass
class MemoryScreens:
    """Starts jobs that screen buckets, in `jobs`; tests play them."""

    jobs: MemoryJobs
    started: list[tuple[str, str, Window]] = field(default_factory=list)
    """(run, source, window) of every job, in order."""

    def start(self, run: str, route: Route, source: str, window: Window) -> str:
        job = f"job-{run}"
        if job not in self.jobs.runs:
            self.jobs.runs[job] = JobReport(JobState.ACTIVE)
            self.started.append((run, source, window))
        return job

    def log_of(self, job_run: str) -> str:
        return f"Its log is in jobs/{job_run}/"


MORTAL = ("ledger", "work", "jobs", "topic", "listing", "lineage", "bus")
"""The ports whose calls count as a process's steps."""


class Died(BaseException):
    """The process died. No flow may catch this."""


@dataclass
class Life:
    """The number of calls to ports that a process makes, and whether it dies before or after the effect of the last
    one."""

    calls: int | None = None
    after: bool = False
    made: int = 0
    last: str = ""
    names: list[str] = field(default_factory=list)
    before: Callable[[], Any] | None = None
    """Done before the last call, instead of dying."""

    def wrap(self, port: Any) -> Any:
        return _Mortal(port, self)

    def over(self, ports: Ports) -> Ports:
        """The ports of a process that may die."""
        mortal = {name: self.wrap(getattr(ports, name)) for name in MORTAL if getattr(ports, name) is not None}
        return replace(ports, **mortal)


class _Mortal:
    def __init__(self, port: Any, life: Life) -> None:
        self._port = port
        self._life = life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        life = self._life
        if not callable(found):
            return found  # a setting; to read it is no step

        def call(*arguments: Any, **named: Any) -> Any:
            life.made += 1
            life.last = name
            life.names.append(name)
            dies = life.made == life.calls and life.before is None
            if life.made == life.calls and life.before is not None:
                life.before()
            if dies and not life.after:
                raise Died(name)
            answer = found(*arguments, **named)
            if name in ("names", "folders"):
                answer = iter(list(answer))
            if dies:
                raise Died(name)
            return answer

        return call


def every_death(calls: int) -> list[Life]:
    """Every way to die for a process with so many calls: before each of them (which is after the one before), and after
    the last."""
    return [*(Life(call) for call in range(1, calls + 1)), Life(calls, after=True)]


def takes(work, batch: str, gone: list[HeldRows], snapshot: int = 77, *, deleted: bool = False) -> None:
    """Rewrite what `play_publishing` wrote: these rows left the table for the batch, or because their objects were
    deleted."""
    name = outcomes_name(batch_folder(batch), snapshot - 1)
    outcomes = decode_outcomes(work.get(name))
    tally = replace(outcomes.tally, replaced=sum(each.rows for each in gone))
    uris = tuple({each.uri for each in gone}) if deleted else ()
    outcomes = replace(outcomes, tally=tally, replaced=tuple(gone), deleted=uris)
    work.put(name, outcomes.encode())
    work.put(batch_folder(batch) + "receipt.json", Receipt.of(outcomes, batch, snapshot).encode())
