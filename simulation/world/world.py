"""One deployment in one world: the buckets, the queues, the functions, the jobs, and their behaviour.

Who acts in it is above it: `simulation.world.course` has them act, and runs it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.sizing import AUDIT_TIMEOUT, DISPATCH, INTAKE, SETTLE_TIMEOUT, Source
from simulation.world import consumer, driver, seen
from simulation.world.configs import configured
from simulation.world.diary import TakenOver
from simulation.world.dynamodb import DynamoDb, TableKey
from simulation.world.emr import Emr, SimulatedJobRun
from simulation.world.eventbridge import SimulatedBus
from simulation.world.expressions import StoredItem
from simulation.world.faults import At, Plan
from simulation.world.kernel import START, Kernel
from simulation.world.knobs import PLAIN, Knobs
from simulation.world.lambdas import EventSource, SimulatedFunction
from simulation.world.landing import STRANGE
from simulation.world.network import Network
from simulation.world.observed import Observed
from simulation.world.s3 import S3, Bucket
from simulation.world.sent import sent_notice
from simulation.world.sns import Sns
from simulation.world.sqs import Queue, Sqs
from simulation.world.table import ModelCatalog
from tidegate.core.records import WHOLE

CONFIG = configured()
SCHEDULE = 60.0
LOOK = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}


@dataclass
class World(Observed):
    """Create it, `begin` what happens meanwhile, set what is uploaded, and `run` it (`simulation.world.course`)."""

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
        self.catalog = ModelCatalog(self.happened)
        self.network = Network(
            kernel,
            {
                "dynamodb": self._asked_of_dynamodb,
                "s3": self.s3.answer,
                "sns": self._asked_of_sns,
                "sqs": self.sqs.answer,
                "emr-serverless": self.emr.answer,
                "events": lambda operation, asked: self.eventbridge.answer(operation, asked),
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
        self.s3.on_written = self._written
        self.s3.marks = lambda: self.knobs.replaces and self.knobs.removes
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
        self.every_look = False
        """Whether the runs of the schedule that find nothing to do all run. Who counts requests needs them."""
        self.looks_in_vain = 0
        """How many runs of the schedule have found nothing to do, one after the other."""
        self._last_seen: tuple[int, int, int] = (0, 0, 0)
        self._ticking = False
        self.started = self.kernel.now
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
        self.buffer.receives = self.notices.receives = knobs.receives
        if knobs.away:
            self.kernel.most_events *= 12  # a visit of the person on call takes days of looks
        if knobs.bundled:
            self.bundled = one_of((0.0, 0.5, 3.0))
        if knobs.strange:
            kinds = [f"{where} {what}" for where in ("before", "after") for what in STRANGE]
            self.strange = lambda: chance.choice(kinds) if chance.random() < knobs.strange else ""

    # ---- what happens outside

    def _tell(self, body: str, times: int) -> None:
        for _ in range(times):
            self.buffer.send(body)
        self.from_buffer.wake()

    def _job_ended(self, run: SimulatedJobRun) -> None:
        event = {
            "detail-type": "EMR Serverless Job Run State Change",
            "source": "aws.emr-serverless",
            "detail": {"jobRunId": run.id, "applicationId": "app", "state": run.state},
        }
        for number in range(self.network.arrivals("emr state event") if run.state != "SUCCESS" else 0):
            self.kernel.after(1.0 + 30.0 * number, lambda: self.tell_settle(event))

    def _written(self, bucket: str, key: str) -> None:
        """S3's events of receipts invoke settle."""
        if bucket == "work" and key.endswith("/receipt.json"):
            event = {"source": "aws.s3", "detail-type": "Object Created", "detail": {"object": {"key": key}}}
            for number in range(self.network.arrivals("s3 receipt event")):
                self.kernel.after(0.5 + 30.0 * number, lambda: self.tell_settle(event))

    def tell_settle(self, event: Mapping[str, Any]) -> None:
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
            self.tell_settle(LOOK)

    def _worth_a_look(self) -> bool:
        """Thin the runs of the schedule: of those that find nothing to do, only the first ones all run."""
        seen = (
            self.dynamodb.writes,
            len(self.s3.buckets["work"].current),
            sum(run.running for run in self.emr.runs.values()),
        )
        self.looks_in_vain = self.looks_in_vain + 1 if seen == self._last_seen else 0
        self._last_seen = seen
        often = 5 if self.looks_in_vain < 50 else 60
        return self.every_look or self.looks_in_vain < 5 or self.looks_in_vain % often == 0

    # ---- what the product asks of AWS

    def _asked_of_sns(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        told = [entry["Message"] for entry in asked["PublishBatchRequestEntries"]]
        self.sent_notices += [sent_notice(self.dynamodb, self.kernel.now, each) for each in told]
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
            if self.rebuilt_at > self.whole_at and (pk, sk, after["notice"]) in self.taken_over:
                self.taken_back.add((pk, sk, before["notice"]))
            else:
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

    # ---- whether it is at rest

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
