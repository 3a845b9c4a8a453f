"""One deployment in one world: the buckets, the queues, the functions, the jobs, and their behaviour."""

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from infra.sizing import AUDIT_TIMEOUT, DISPATCH, INTAKE, SETTLE_TIMEOUT, Source
from simulation.world import (
    asking,
    audits,
    backfills,
    consumer,
    driver,
    foreign,
    people,
    product,
    rebuilt,
    replayed,
    resending,
    seen,
)
from simulation.world.configs import configured, pace
from simulation.world.dynamodb import DynamoDb, TableKey
from simulation.world.emr import Emr, SimulatedJobRun
from simulation.world.eventbridge import SimulatedBus
from simulation.world.expressions import StoredItem
from simulation.world.faults import At, Kind, Plan
from simulation.world.kernel import START, Kernel
from simulation.world.knobs import PLAIN, Knobs
from simulation.world.lambdas import EventSource, SimulatedFunction
from simulation.world.landing import STRANGE, Landing
from simulation.world.network import Network
from simulation.world.s3 import S3, Bucket, Version
from simulation.world.sent import SentNotice, sent_notice
from simulation.world.sns import Sns
from simulation.world.sqs import Queue, Sqs
from simulation.world.table import ModelCatalog, Stored
from tidegate.core import notices, transitions
from tidegate.core.records import WHOLE
from tidegate.flows import (
    backfill,
    batch_list,
    files,
    hand_off,
    quarantine,
    quarantine_age,
    reconcile,
    resend,
    screen,
    wishes,
)
from tidegate.flows import settle as settling
from tidegate.schedule import DECIDED_SOURCE
from tidegate.stores import inserts

CONFIG = configured()
REJECTED = "__rejected"
"""The end of the name of a table of rejected rows, as docs/formats.md has it."""

SCHEDULE = 60.0
HOUR = 3_600.0
DAY = 24 * HOUR
PATIENCE = 12 * HOUR
"""How long after its last fault a world may take to come to rest: five deliveries of a notice take one hour, five
attempts of a batch with half an hour of silence each, and the waits between them, another three."""


@dataclass(frozen=True)
class ManifestUpload:
    """One upload of a batch's manifest."""

    notice: str
    bucket: str
    key: str
    version: str
    sequencer: str


@dataclass(frozen=True)
class TakenOver:
    """A live claim that another notice took over, `at` which moment. `owner` is the notice that had it, `known` whether
    the ledger still had the owner's record then."""

    owner: str
    known: bool
    at: float


@dataclass
class World(Landing):
    """Create it, set what is uploaded, and `run` it."""

    seed: int = 0
    plan: Plan = field(default_factory=At)
    knobs: Knobs = PLAIN
    lasts: float = 0.0
    """How long there are uploads, in seconds; the time to come to rest counts from then."""

    def __post_init__(self) -> None:
        self.kernel = kernel = Kernel(self.seed)
        self.s3 = S3(kernel)
        self.s3.buckets = {
            "landing": Bucket(versioned=True),
            "plain": Bucket(versioned=False),
            "closed": Bucket(versioned=False),
            "work": Bucket(versioned=False),
        }
        self.dynamodb = DynamoDb(kernel)
        # functions ran before the first upload, and the first of them has written this
        self.dynamodb.items["ledger", *WHOLE] = {"pk": WHOLE.pk, "sk": WHOLE.sk, "v": 1, "since": int(START)}
        self.dynamodb.on_replaced = self._replaced
        self.totals = DynamoDb(kernel)
        """The tables of a consumer, which no restore of the ledger touches."""
        self.sqs = Sqs(kernel)
        self.sns = Sns(kernel)
        self.emr = Emr(kernel, driver.drive, self._job_ended)
        self.happened: Counter[str] = Counter()
        """The count of each state in `seen`."""
        self.catalog = ModelCatalog(self.happened)
        self.network = Network(
            kernel,
            {
                "dynamodb": self._asked_of_dynamodb,
                "s3": self.s3.answer,
                "sns": self._asked_of_sns,
                "sqs": self.sqs.answer,
                "emr-serverless": self.emr.answer,
                "events": self._asked_of_events,
            },
            self.plan,
        )
        self.network.situation = self._situation
        self.dead_letters = self.sqs.add(Queue(kernel, "dead-letters"))
        self.buffer = self._queue("buffer", INTAKE, self.dead_letters)
        self.notices_dead_letters = self.sqs.add(Queue(kernel, "notices-dead-letters.fifo"))
        self.notices = self._queue("notices.fifo", DISPATCH, self.notices_dead_letters)
        self.events = self.sqs.add(Queue(kernel, "events"))
        self.eventbridge = SimulatedBus(kernel, self.events, self._deliver_event)
        self.eventbridge.on_sent = self._event_sent
        self.sent: list[Mapping[str, Any]] = []
        """The detail of each event that EventBridge accepted."""
        from lambdas.audit.app import handler as audit
        from lambdas.dispatch.app import handler as dispatch
        from lambdas.intake.app import handler as intake
        from lambdas.settle.app import handler as settle

        self.intake = SimulatedFunction(kernel, "intake", intake, INTAKE.timeout)
        self.dispatch = SimulatedFunction(kernel, "dispatch", dispatch, DISPATCH.timeout)
        self.settle = SimulatedFunction(kernel, "settle", settle, SETTLE_TIMEOUT)
        self.audit = SimulatedFunction(kernel, "audit", audit, AUDIT_TIMEOUT)
        self.consumer = SimulatedFunction(kernel, "consumer", consumer.handler, 20.0)
        self.from_events = EventSource(self.network, self.events, self.consumer, batch_size=10)
        self.from_buffer = EventSource(
            self.network, self.buffer, self.intake, batch_size=INTAKE.batch_size, window=INTAKE.window
        )
        self.from_notices = EventSource(self.network, self.notices, self.dispatch, batch_size=DISPATCH.batch_size)
        self.sns.subscribers.append(self.notices)
        self.sns.on_delivery = lambda: self.from_notices.wake(0.0)
        self._open()
        self.acts = 0
        """The acts of the person on call."""
        self.audited = False
        """Whether the schedule audits the buckets."""
        self.deployments: tuple[tuple[float, tuple[str, ...]], ...] = ()
        """When (seconds) which configurations were deployed."""
        self.audited_at_the_end = 0
        self.audits_over: set[tuple[str, float]] = set()
        """Routes whose audit found nothing any more, each with the time of the last upload by then."""
        self.backfilled_at_the_end = 0
        self.backfills_that_found: Counter[str] = Counter()
        """Of each route, at the end."""
        self.backfilled_well: set[str] = set()
        """The routes of which the last backfill ended and found nothing to do."""
        """Whether a backfill at the end has found nothing to do."""
        self.committed: dict[str, tuple[str, int]] = {}
        self.ended: dict[str, Mapping[str, Any]] = {}
        """The last record of each ended batch, because the ledger forgets it one day."""
        self.every_look = False
        """Whether the runs of the schedule that find nothing to do all run. Who counts requests needs them."""
        self._last_seen: tuple[int, int, int] = (0, 0, 0)
        self._looks_in_vain = 0
        self.most_running: Counter[str] = Counter()
        """The most batches of each route that were submitted at once, without those that a person gave up."""
        self._manifests: dict[str, list[ManifestUpload]] = {}
        self.only_rows: set[str] = set()
        """The batches of which only rows tell, because the work bucket was lost."""
        self.decided: dict[str, bool] = {}
        """The batches that a person decided about, and whether as published."""
        self.sets_aside = False
        """The routes set rows aside that do not fit."""
        self.fenced_from: dict[str, int] = {}
        """The batches that a person gave up, and the attempt from which on only a fence may be published."""
        self.taken_over: dict[tuple[str, str, str], TakenOver] = {}
        """By (pk, sk, new owner) of the claim."""
        self.sent_again: set[Any] = set()
        """The batches that the person on call has resent, and the keys of the claims that are released."""
        self.wished: dict[str, str] = {}
        """What becomes of the uploads of batches: the last that a person has said."""
        self.corrected: dict[tuple[str, str, str], float] = {}
        """The claims on uploads in quarantine that were given up, because a later version had landed, and when."""
        self.granted: dict[str, str] = {}
        """What the command has said yes to, last, for each batch in `wished`."""
        self.answered: set[str] = set()
        """The batches in `wished` of which the command has said that it is noted, or is too late."""
        self.perhaps_noted: set[str] = set()
        """The batches in `wished` of which a request ended without an answer, or was overtaken."""
        self.dropped: dict[tuple[str, str, str], float] = {}
        """When each upload was dropped, by (pk, sk, notice) of its claim."""
        self.asked_for: set[tuple[str, str]] = set()
        """(bucket, key) of the objects that a person resends when S3 hands them out again: these have to land."""
        self.answers: asking.Answers | None = None
        self.asked = True
        """A person asks in the end. Where requests are counted, nobody does."""
        """What a person was told who asked when everything was at rest."""
        self.sent_notices: list[SentNotice] = []
        """Every notice that was published, or tried to."""
        self.noticed: list[str] = []
        """Promises that were broken during the run."""
        self._ticking = False
        self.rules_enabled = True
        """Whether EventBridge sends events to settle."""
        self.started = self.kernel.now
        self.forgotten_from = math.inf
        """From when on (epoch seconds) a rebuilt ledger has forgotten what only a ledger knows."""
        self.rebuilt_at = -math.inf
        """When (epoch seconds) there was an empty ledger, to be rebuilt."""
        self.whole_at = -math.inf
        """When (epoch seconds) it was rebuilt."""
        for function in (self.intake, self.dispatch, self.audit):
            function.on_invoke = self.wake_schedule
        self._turn(self.knobs)

    def _queue(self, name: str, source: Source, dead_letters: Queue) -> Queue:
        return self.sqs.add(
            Queue(
                self.kernel,
                name,
                visibility=source.visibility,
                receives=source.receives,
                dead_letters=dead_letters,
                retention=4 * 86_400,
            )
        )

    def _turn(self, knobs: Knobs) -> None:
        chance = self.kernel.random

        def one_of(values: tuple[float, ...]) -> Callable[[], float]:
            return (lambda: chance.choice(values)) if len(values) > 1 else lambda: values[0]

        def sometimes(share: float) -> Callable[[], bool]:
            return (lambda: chance.random() < share) if share else lambda: False

        self.network.latency = one_of(knobs.latency)
        self.sns.delay = one_of(knobs.delivery)
        self.emr.startup = one_of(knobs.startup)
        if knobs.unordered:
            self.notices.fifo = self.sns.ordered = False
            self.from_notices.concurrency = 4
        if knobs.lanes > 1:
            self.from_notices.concurrency = 4
        self.dynamodb.behind = lambda: knobs.behind
        self.dynamodb.holds_back = sometimes(knobs.held_back)
        fails = sometimes(knobs.failed_inserts)
        codes = ("ThrottlingError", "InternalServerError", "TransactionConflict")
        self.dynamodb.fails = lambda: (chance.choice(codes), chance.random() < 0.5) if fails() else ("", True)
        self.dynamodb.page = knobs.page
        self.s3.page = knobs.page or self.s3.page
        self.sns.refuses = sometimes(knobs.refused_notices)
        if knobs.announced:
            self.eventbridge.refuses = sometimes(knobs.refused_notices)
            self.eventbridge.delay = one_of(knobs.delivery)
        self.s3.conflicts = sometimes(knobs.conflicts)
        self.emr.forgets_tokens = sometimes(knobs.forgotten_tokens)
        self.dynamodb.forgets_tokens = sometimes(knobs.forgotten_tokens)()
        twin, cancelled = sometimes(knobs.twins), sometimes(knobs.cancelled)
        self.emr.twin_after = lambda: chance.choice((0.01, 1.0, 300.0)) if twin() else None
        self.emr.cancelled_after = lambda: chance.choice((10.0, 45.3, 60.0, 200.0)) if cancelled() else None
        self.emr.outlives = lambda: knobs.outlived
        self.emr.forgets = sometimes(knobs.forgotten_runs)
        if knobs.skew != PLAIN.skew:
            for runs in (self.intake, self.dispatch, self.settle, self.audit, self.emr):
                runs.skew = one_of(knobs.skew)
        meddlers = [foreign.commit_one] * knobs.foreign
        meddlers += [people.give_up] * knobs.aborts + [people.meddle] * knobs.resumes
        meddlers += [resending.meddle] * knobs.releases + [people.wish] * knobs.drops
        for meddler in meddlers:
            self.kernel.after(self._some_time(), lambda meddler=meddler: meddler(self))
        self.buffer.receives = self.notices.receives = knobs.receives
        if knobs.horizon:
            # the person on call comes at the end of it, and a dead letter lives for two weeks
            for letters in (self.dead_letters, self.notices_dead_letters):
                letters.on_message = lambda: self.kernel.after(DAY, lambda: people.move_back(self) and None)
            if knobs.resends or knobs.releases:
                # before the ledger forgets what ended without a row; the run waits for these visits
                self.lasts = max(self.lasts, 2 * knobs.horizon)
                for day in range(1, int(2 * knobs.horizon / DAY) + 1):
                    self.kernel.after(day * DAY, lambda: resending.look_after(self) and None)
        if knobs.replayed and knobs.horizon > DAY:
            replayed.begin(self)
        if knobs.away:
            self.kernel.most_events *= 12  # a visit of the person on call takes days of looks
        if knobs.two_versions:
            self._deploy_slowly()
        if knobs.bundled:
            self.bundled = one_of((0.0, 0.5, 3.0))
        if knobs.strange:
            kinds = [f"{where} {what}" for where in ("before", "after") for what in STRANGE]
            self.strange = lambda: chance.choice(kinds) if chance.random() < knobs.strange else ""
        if knobs.suspended:
            begin = self._some_time()
            for after, suspended in ((0.0, True), (900.0, False)):
                self.kernel.after(begin + after, lambda suspended=suspended: self._suspend(suspended))
        if knobs.closed_bucket:
            self.s3.closed["closed"] = knobs.closed_bucket
            self.kernel.after(chance.choice((600.0, 3 * HOUR)), self.s3.closed.clear)
        cut, cuts = sometimes(knobs.cut), iter(range(MOST_CUTS))
        self.emr.on_driver = lambda run: self._cut() if cut() and next(cuts, None) is not None else None
        if knobs.lost:
            rebuilt.lose(
                self,
                self._some_time() + knobs.lost,
                switched_off=(off := chance.random() < 0.5),
                waits=0.0 if off else chance.choice((0.0, 900.0, 9_000.0)),
                then=lambda: people.ask_again(self),
            )
        if knobs.audit:
            audits.begin(self)
            for _ in range(knobs.audits):
                self.kernel.after(self._some_time(), lambda: people.audit(self))
        if backfills.wanted(knobs):
            for _ in range(knobs.backfills):
                self.kernel.after(self._some_time(), lambda: backfills.act(self))

    def _cut(self) -> None:
        """While a driver works, somebody adds a snapshot and expires all history below it."""
        chance = self.kernel.random
        moment = chance.choice((0.0, 0.05, 0.3, 2.0, 20.0))
        self.kernel.after(moment, lambda: foreign.commit(self, foreign.cut))
        if self.knobs.cut_undone:
            self.kernel.after(moment + chance.choice((300.0, 3 * HOUR)), lambda: foreign.commit(self, foreign.remember))

    def _suspend(self, suspended: bool) -> None:
        self.s3.buckets["landing"].suspended = suspended

    def _some_time(self) -> float:
        """The time of an unexpected act: most happen while the first batches are under way."""
        chance = self.kernel.random
        return chance.choice((chance.uniform(0, 130), chance.uniform(60, 400), chance.uniform(0, 4_000)))

    def _deploy_slowly(self) -> None:
        """Deploy another configuration, and later the old one. For a while functions have either of the two."""
        old = configured(self.knobs)
        renamed = old.replace('name = "events"', 'name = "things"')
        new = self.kernel.random.choice(
            (
                old.replace('format = "json"', 'format = "json"\nmax_object_bytes = 1000000'),
                old.replace('table = "lake.sim.events"', 'table = "lake.sim.later"'),
                renamed,
                # its predecessor stays to finish what it has gathered
                configured(self.knobs, retired=("events",)).replace('name = "events"', 'name = "things"', 1),
            )
        )
        begin = self._some_time()
        for after, versions in ((0.0, (old, new)), (200.0, (new,)), (700.0, (new, old)), (900.0, (old,))):
            self.kernel.after(begin + after, lambda versions=versions: product.deploy(*versions))
            # the schedule looks though nothing is under way: it notes what is deployed
            for minute in (1, 2, 3):
                look = begin + after + minute * SCHEDULE
                self.kernel.after(look, lambda: self._tell_settle(LOOK))

    # ---- what happens outside

    def _tell(self, body: str, times: int) -> None:
        for _ in range(times):
            self.buffer.send(body)
        self.from_buffer.wake()

    def _job_ended(self, run: SimulatedJobRun) -> None:
        struck = self.network.platform("emr state event")
        event = {
            "detail-type": "EMR Serverless Job Run State Change",
            "source": "aws.emr-serverless",
            "detail": {"jobRunId": run.id, "applicationId": "app", "state": run.state},
        }
        for number in range({Kind.DROP: 0, Kind.TWICE: 2}.get(struck, 1) if struck else 1):
            self.kernel.after(1.0 + 30.0 * number, lambda: self._tell_settle(event))

    def _asked_of_events(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The account's default bus has two rules: a job's event invokes settle, any other goes to the consumer."""
        event = asked["Entries"][0]
        if event["Source"] != DECIDED_SOURCE:
            return self.eventbridge.answer(operation, asked)
        struck = self.network.platform("batch decided event")
        for number in range({Kind.DROP: 0, Kind.TWICE: 2}.get(struck, 1) if struck else 1):
            told = {
                "source": event["Source"],
                "detail-type": event["DetailType"],
                "detail": json.loads(event["Detail"]),
            }
            self.kernel.after(0.5 + 30.0 * number, lambda told=told: self._tell_settle(told))
        return {"Entries": [{"EventId": "e"}], "FailedEntryCount": 0}

    def _tell_settle(self, event: Mapping[str, Any]) -> None:
        if self.rules_enabled:
            self.settle.invoke_asynchronously(event)

    def _event_sent(self, detail: Mapping[str, Any]) -> None:
        self.sent.append(detail)
        if self.staged_with_rows(detail["batch"]) is None:
            self.noticed.append(f"announced: batch {detail['batch']} was announced before its rows were in a table")
        item = self.dynamodb.items.get(("ledger", f"b#{detail['batch']}", "batch"), {})
        if item.get("state") != "COMMITTED" and self.forgotten_from == math.inf:
            self.noticed.append(f"announced: batch {detail['batch']} was announced as {item.get('state')}")

    def _deliver_event(self, body: str) -> None:
        self.events.send(body)
        self.from_events.wake(0.0)

    @property
    def to_announce(self) -> bool:
        """Whether something is in the outbox, in a world whose deployment announces."""
        return self.knobs.announced and any(True for _ in self.dynamodb.items.on("ou"))

    def wake_schedule(self) -> None:
        """The schedule runs once a minute. While nothing is under way, its runs would do nothing and are not
        simulated."""
        if not self._ticking:
            self._ticking = True
            self.kernel.after(SCHEDULE - (self.kernel.now - START) % SCHEDULE, self._tick, background=True)

    def _tick(self) -> None:
        self._ticking = False
        if self.unfinished or self.to_announce or self.buffer.messages or self.notices.messages:
            self.wake_schedule()
        if self.knobs.missed_looks and self.kernel.random.random() < self.knobs.missed_looks:
            return
        for (_, pk, _), item in self.dynamodb.items.on("b#"):
            if item["state"] in ("COMMITTED", "ABANDONED"):
                self.committed.setdefault(pk, (item["state"], item["snapshot"]))
                self.ended[pk[2:]] = item
        if self.knobs.expiry_at_once:
            self.dynamodb.expire()
        if (self.unfinished or self.to_announce) and self._worth_a_look():
            self._tell_settle(LOOK)

    def _worth_a_look(self) -> bool:
        """Thin the runs of the schedule: of those that find nothing to do, only the first ones all run."""
        seen = (
            self.dynamodb.writes,
            len(self.s3.buckets["work"].current),
            sum(run.running for run in self.emr.runs.values()),
        )
        self._looks_in_vain = self._looks_in_vain + 1 if seen == self._last_seen else 0
        self._last_seen = seen
        often = 5 if self._looks_in_vain < 50 else 60
        return self.every_look or self._looks_in_vain < 5 or self._looks_in_vain % often == 0

    # ---- what can be seen from outside

    def _asked_of_sns(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        self.sent_notices += [sent_notice(self, entry["Message"]) for entry in asked["PublishBatchRequestEntries"]]
        return seen.asked_of_sns(self.happened, asked, self.sns.answer(operation, asked))

    def _asked_of_dynamodb(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        if consumer.TABLE in str(asked.get("TransactItems", asked.get("TableName"))):
            return self.totals.answer(operation, asked)
        answered = seen.asked_of_dynamodb(self.happened, operation, asked, self.dynamodb.answer)
        if operation == "TransactWriteItems":
            for (_, pk, _), route in self.dynamodb.items.on("r#"):
                slots = [each for each in route.get("running", ()) if not self._needs_no_slot(each)]
                self.most_running[pk[2:]] = max(self.most_running[pk[2:]], len(slots))
        return answered

    def _needs_no_slot(self, batch: str) -> bool:
        """A person gives up a batch without a free slot, and resumes one that stepped aside."""
        item = self.dynamodb.items.get(("ledger", f"b#{batch}", "batch"), {})
        return bool(item.get("fencing") or item.get("aside_at"))

    def _replaced(self, key: TableKey, before: StoredItem, after: StoredItem) -> None:
        _, pk, sk = key
        if after.get("wish"):
            self.wake_schedule()  # the batch may have ended, and nothing else be under way
        if both := {*after.get("running", ())} & {*after.get("aside", ())}:
            self.noticed.append(f"slots: route {pk[2:]} has {sorted(both)} in a slot and aside")
        if not pk.startswith("o#"):
            return
        now = self.kernel.now
        if after.get("outcome") == "dropped" and before.get("outcome") == "quarantined":
            self.corrected[pk, sk, after["notice"]] = now
        elif after.get("outcome") == "dropped" != before.get("outcome"):
            if (place := (pk, sk, after["notice"])) in self.dropped:
                self.noticed.append(f"people: the upload of claim {place} was dropped twice")
            self.dropped[place] = now
            self.happened[seen.DROPPED] += 1
        if before["notice"] == after["notice"]:
            return
        if before.get("expires_at", math.inf) > now:
            owner = self.dynamodb.items.get(("ledger", f"n#{before['notice']}", "notice"), {})
            known = owner.get("expires_at", -math.inf) > now
            self.taken_over[pk, sk, after["notice"]] = TakenOver(before["notice"], known, now)
            self.happened[seen.TAKEN_OVER] += 1

    def _situation(self, batch: str) -> tuple[str, str]:
        """(state of the batch, state of its last job), as the ledger and EMR have it now."""
        item = self.dynamodb.items.get(("ledger", f"b#{batch}", "batch"))
        if item is None:
            return "-", "-"
        state = item["state"] + (" halted" if item.get("halted") else "") + (" fencing" if item.get("fencing") else "")
        runs = [run for run in self.emr.runs.values() if run.batch == batch]
        if not runs and (shared := self.emr.runs.get(str(item.get("job_run")))):
            runs.append(shared)
        return state, runs[-1].state if runs else "-"

    def failure_of(self, batch: str) -> Mapping[str, Any]:
        """The reason why the batch's current attempt gave up; empty if there is none."""
        item = self.dynamodb.items["ledger", f"b#{batch}", "batch"]
        found = self.s3.buckets["work"].current.get(f"batches/{batch}/failures/{item['attempt']}.json")
        told: Mapping[str, Any] = json.loads(found.body) if found else {}
        return told

    def published(self) -> Iterator[tuple[str, str, Stored]]:
        """(batch, table, snapshot) of all published batches, from the whole ancestry of main, expired or not, oldest
        first. A fence has no files. What was published of their rejected rows is left out."""
        for table in self.catalog.tables:
            if table.endswith(REJECTED):
                continue
            for stored in self.catalog.ancestry(table):
                if batch := stored.snapshot.summary.get("published-wap-id"):
                    yield batch, table, stored

    def fenced(self) -> set[str]:
        """The batches whose fence is in a table, or was: somebody may have rolled it back past it."""
        return {
            str(stored.snapshot.summary["published-wap-id"])
            for table in self.catalog.tables.values()
            for stored in (*table.snapshots.values(), *table.gone.values())
            if stored.snapshot.summary.get("published-wap-id") and not stored.files
        }

    def published_rejected(self, batch: str) -> list[Stored]:
        """The snapshots of tables of rejected rows that published this batch's."""
        tables = (name for name in self.catalog.tables if name.endswith(REJECTED))
        line = (stored for name in tables for stored in self.catalog.ancestry(name))
        return [stored for stored in line if stored.snapshot.summary.get("published-wap-id") == batch]

    def staged_with_rows(self, batch: str) -> int | None:
        """The staged snapshot of the batch's rows; None if none of its rows are in a table."""
        for each, _, stored in self.published():
            if each == batch and stored.files:
                return int(stored.snapshot.summary["source-snapshot-id"])
        return None

    def could_say(self, batch: str) -> bool:
        """Whether the history of the batch's table has always reached a floor of the batch."""
        table = self.catalog.tables.get(self.dynamodb.items["ledger", f"b#{batch}", "batch"].get("table", ""))
        if table is None or table.snapshots.keys() & table.gone.keys():
            return False
        heads = {json.loads(body)["head"] for _, body in self.left_in(f"batches/{batch}/floor")}
        return any(each.id in heads or each.parent in heads for each in table.ancestors())

    def manifest_of(self, batch: str) -> list[ManifestUpload]:
        """The uploads of a sealed batch, from the parts in its manifest."""
        if batch not in self._manifests:
            left = dict(self.left_in(f"batches/{batch}/"))
            found = []
            for name in json.loads(left[f"batches/{batch}/sealed.json"])["parts"]:
                header, *lines = left[f"batches/{batch}/{name}"].decode().splitlines()
                about = json.loads(header)
                for key, version, _, sequencer in map(json.loads, lines):
                    found.append(ManifestUpload(about["notice"], about["bucket"], key, version, sequencer))
            self._manifests[batch] = found
        return self._manifests[batch]

    def puts_of(self, each: ManifestUpload) -> list[Version]:
        """The puts that an upload of a manifest may be. A listing has no sequencers: without one it may be any put of
        the same bytes."""
        there = [put for put in self.history if (put.bucket, put.key) == (each.bucket, each.key)]
        if each.sequencer:
            return [put for put in there if put.sequencer == each.sequencer]
        return [put for put in there if each.version in (put.version_id, f"etag:{put.etag}")]

    def landed_at(self, put: Version) -> float | None:
        """The time when the rows of an upload came into a table; None if they are not there."""
        for batch, _, stored in self.published():
            registered = self.manifest_of(batch) if stored.files else []
            if any(put in self.puts_of(each) for each in registered):
                return self.catalog.came_at[stored.snapshot.id]
        return None

    def left_in(self, folder: str) -> Iterator[tuple[str, bytes]]:
        """(name, body) of the objects in this folder of the work bucket, decompressed."""
        for name, version in sorted(self.s3.buckets["work"].current.items()):
            if name.startswith(folder):
                yield name, gzip.decompress(version.body) if name.endswith(".gz") else version.body

    def lose_work(self) -> None:
        """Whatever is in the work bucket is gone. What batches have published is in the tables."""
        self.only_rows |= {batch for batch, _, stored in self.published() if stored.files}
        self.s3.buckets["work"].current.clear()
        self.s3.buckets["work"].versions.clear()
        self.ended.clear()
        self.committed.clear()  # their snapshots are not on record any more
        self._manifests.clear()

    # ---- running

    @property
    def errors(self) -> list[BaseException]:
        """The errors that the functions raised."""
        return [
            error for function in (self.intake, self.dispatch, self.settle, self.audit) for error in function.errors
        ]

    @property
    def unfinished(self) -> bool:
        """Whether a batch is under way. An empty open batch is not."""
        return any(True for _ in self._unfinished())

    def _unfinished(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(batch, item) of what is under way."""
        for (_, pk, _), item in self.dynamodb.items.on("b#"):
            under_way = item["state"] in ("SEALED", "SUBMITTED") or (item["state"] == "OPEN" and item.get("notices"))
            if under_way or item.get("wish"):
                yield pk[2:], item

    @property
    def pending(self) -> list[str]:
        """A description of what is unfinished."""
        batches = [
            f"batch {batch} of route {item['route']} is {item['state']}"
            + (f" and halted ({item['halted'][:150]})" if item.get("halted") else "")
            for batch, item in self._unfinished()
        ]
        queues = (self.buffer, self.notices, self.events)
        batches += ["announcements"] * self.to_announce
        return batches + [f"{len(queue.messages)} messages in {queue.name}" for queue in queues if queue.messages]

    @property
    def at_rest(self) -> bool:
        messages = self.buffer.messages or self.notices.messages or self.events.messages
        return not (self.kernel.busy or self.unfinished or messages or self.to_announce)

    @property
    def waits_for_a_person(self) -> bool:
        """Whether a batch has halted and nothing else is under way, or nothing has changed for hours."""
        busy = self.kernel.busy or self.buffer.messages or self.notices.messages
        patience = LOOKS_IN_VAIN * (8 if self.knobs.away else 1)
        if self._looks_in_vain < patience and (busy or self.knobs.away):
            return False
        return bool(people.halted(self))

    def run(self) -> bool:
        """Run until everything is at rest; False if that takes too long (liveness is lost)."""
        with (
            product.inhabited(self.kernel, self.network, "" if self.knobs == PLAIN else configured(self.knobs)),
            driver.CATALOG.belonging(self.network, self.catalog),
            _limits(self.knobs),
            pace(self.knobs),
        ):
            rests = self._run()
            self.deployments = product.HERE.deployments
            return rests

    def _run(self) -> bool:
        self.wake_schedule()
        # a person who comes once a day may have to come a second time
        patience = PATIENCE + (3 * DAY if self.knobs.away or self.knobs.horizon else 0)
        deadline = START + self.lasts + patience
        quiet = False
        for _ in range(MOST_VISITS):
            self.kernel.run(lambda: self.at_rest or self.waits_for_a_person, deadline)
            quiet = self.at_rest
            acts = people.attend(self)
            self.acts += acts
            self._looks_in_vain = 0
            if not acts and not (quiet and (audits.again(self) or backfills.again(self))):
                break
            # the next runs of the schedule do what the person requested
            self.kernel.run(lambda: False, self.kernel.now + 2 * SCHEDULE)
            deadline = max(self.kernel.now, START + self.lasts) + patience
        quiet = quiet and self._stays_at_rest()
        if quiet and self.asked and self.seed % 2 == 0:  # it costs a tenth of a run
            asking.ask(self)
        self.kernel.note("at rest" if quiet else "NOT AT REST")
        seen.in_the_end(self.happened, (item for _, item in self.dynamodb.items.on("b#")))
        return quiet

    def _stays_at_rest(self) -> bool:
        """Whether one of a few further runs of the schedule changes nothing. The first ones may still record what was
        deployed."""
        for _ in range(MOST_LOOKS):
            writes = self.dynamodb.writes
            self._tell_settle(LOOK)
            self.kernel.run(lambda: not self.kernel.busy, self.kernel.now + PATIENCE)
            if self.at_rest and self.dynamodb.writes == writes:
                return True
        return False


LOOKS_IN_VAIN = 6 * 60
"""After so many runs of the schedule without a change a person is called."""
LOOK = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
SMALL = {
    settling: ("ENDINGS_PER_WRITE", "ENDINGS_PER_LOOK"),
    wishes: ("UPLOADS_PER_LOOK",),
    transitions: ("MOST_DROPPED",),
    resend: ("AT_ONCE",),
    backfill: ("AT_ONCE",),
    quarantine: ("CLAIMS_AT_ONCE",),
    quarantine_age: ("BATCHES_PER_LOOK",),
    hand_off: ("TOGETHER",),
    reconcile: ("HEADERS",),
    screen: ("PAGE",),
    files: ("TOGETHER",),
    batch_list: ("TOGETHER",),
}
"""The product's portions that a small world makes one."""
MOST_LOOKS = 15
"""How many runs of the schedule may change something when nothing is under way: each takes a portion."""
MOST_CUTS = 4
MOST_VISITS = 20
"""How many times the person on call comes. After each time everything goes on as far as it can by itself."""


@contextmanager
def _limits(knobs: Knobs) -> Iterator[None]:
    """Make the product's portions small, so that there are several of them."""
    with ExitStack() as stack:
        if knobs.small:
            for module, names in SMALL.items():
                for name in names:
                    stack.enter_context(patch.object(module, name, 1))
            for packs in (notices.pack, notices.pack_entries):
                stack.enter_context(patch.dict(packs.__kwdefaults__, max_bytes=350))
        if knobs.inserted:
            for name, value in (("FEW", 0), ("PROBE", 1), ("WAVE", 2), ("INSERTS", 2)):
                stack.enter_context(patch.object(inserts, name, value))
        yield
