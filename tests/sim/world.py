"""One deployment in one world: the buckets, the queues, the functions, the jobs, and a person who looks after them."""

from dataclasses import dataclass, field
from typing import Any

from infra.limits import DISPATCH, INTAKE, SETTLE_TIMEOUT, Source
from tests.sim import driver, product
from tests.sim.dynamodb import DynamoDb
from tests.sim.emr import Emr, JobRun
from tests.sim.faults import At, Kind, Plan
from tests.sim.kernel import START, Kernel
from tests.sim.lambdas import EventSource, Function
from tests.sim.landing import Landing
from tests.sim.network import Network
from tests.sim.s3 import S3, Bucket
from tests.sim.sns import Sns
from tests.sim.sqs import Queue, Sqs
from tests.sim.table import Catalog

CONFIG = """
[[route]]
name = "events"
bucket = "landing"
prefix = "events/"
suffix = ".json"
format = "json"
table = "lake.sim.events"
schema = "id bigint"

[[route]]
name = "plain"
bucket = "plain"
versioned = false
format = "json"
table = "lake.sim.plain"
schema = "id bigint"
"""

SCHEDULE = 60.0
HOUR = 3_600.0
PATIENCE = 12 * HOUR
"""How long after its last fault a world may take to come to rest: five deliveries of a notice take one hour, three
attempts of a batch with half an hour of silence each another two."""


@dataclass
class World(Landing):
    """Build it, say what is uploaded, `run` it. `chance` makes latencies, delays and job times vary by the seed."""

    seed: int = 0
    plan: Plan = field(default_factory=At)
    chance: bool = False
    lasts: float = 0.0
    """For how long (seconds) there are uploads; patience begins after that."""

    def __post_init__(self) -> None:
        self.kernel = kernel = Kernel(self.seed)
        self.s3 = S3(kernel)
        self.s3.buckets = {"landing": Bucket(versioned=True), "plain": Bucket(versioned=False), "work": Bucket(False)}
        self.dynamodb = DynamoDb(kernel)
        self.sqs = Sqs(kernel)
        self.sns = Sns(kernel)
        self.emr = Emr(kernel, driver.drive, self._job_ended)
        self.catalog = Catalog()
        self.network = Network(
            kernel,
            {
                "dynamodb": lambda operation, asked: self.dynamodb.answer(operation, asked),
                "s3": self.s3.answer,
                "sns": self.sns.answer,
                "sqs": self.sqs.answer,
                "emr-serverless": self.emr.answer,
            },
            self.plan,
        )
        self.dead_letters = self.sqs.add(Queue(kernel, "dead-letters"))
        self.buffer = self._queue("buffer", INTAKE, self.dead_letters)
        self.notices_dead_letters = self.sqs.add(Queue(kernel, "notices-dead-letters.fifo"))
        self.notices = self._queue("notices.fifo", DISPATCH, self.notices_dead_letters)
        from lambdas.dispatch.app import handler as dispatch
        from lambdas.intake.app import handler as intake
        from lambdas.settle.app import handler as settle

        self.intake = Function(kernel, "intake", intake, INTAKE.timeout)
        self.dispatch = Function(kernel, "dispatch", dispatch, DISPATCH.timeout)
        self.settle = Function(kernel, "settle", settle, SETTLE_TIMEOUT)
        self.from_buffer = EventSource(
            self.network, self.buffer, self.intake, batch_size=INTAKE.batch_size, window=INTAKE.window
        )
        self.from_notices = EventSource(self.network, self.notices, self.dispatch, batch_size=DISPATCH.batch_size)
        self.sns.subscribers.append(self.notices)
        self.sns.on_delivery = lambda: self.from_notices.wake(0.0)
        self._open()
        self.moved_back = 0
        self.resumed = 0
        self.committed: dict[str, tuple[str, int]] = {}
        self.expires_at_once = False
        """Whether TTL deletes what has expired within a minute; else it never does."""
        self._last_seen: tuple[int, int, int] = (0, 0, 0)
        self._looks_in_vain = 0
        if self.chance:
            self._by_chance()

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

    def _by_chance(self) -> None:
        random = self.kernel.random
        self.network.latency = lambda: random.choice((0.002, 0.005, 0.02, 0.2))
        self.sns.delay = lambda: random.choice((0.02, 0.1, 3.0))
        self.emr.startup = lambda: random.choice((20.0, 45.0, 90.0))
        self.emr.forgets_tokens = lambda: random.random() < 0.3
        self.emr.twin_after = lambda: random.choice((0.01, 1.0, 300.0)) if random.random() < 0.15 else None
        self.dynamodb.forgets_tokens = random.random() < 0.3
        self.expires_at_once = random.random() < 0.5

    # ---- what happens outside

    def _tell(self, body: str, times: int) -> None:
        for _ in range(times):
            self.buffer.send(body)
        self.from_buffer.wake()

    def _job_ended(self, run: JobRun) -> None:
        struck = self.network.platform("emr state event")
        event = {
            "detail-type": "EMR Serverless Job Run State Change",
            "source": "aws.emr-serverless",
            "detail": {"jobRunId": run.id, "applicationId": "app", "state": run.state},
        }
        for number in range({Kind.DROP: 0, Kind.TWICE: 2}.get(struck, 1) if struck else 1):
            self.kernel.after(1.0 + 30.0 * number, lambda: self.settle.invoke_asynchronously(event))

    def _tick(self) -> None:
        self.kernel.after(SCHEDULE, self._tick, background=True)
        if self.chance and self.kernel.random.random() < 0.05:
            return
        if self.expires_at_once:
            self.dynamodb.expire()
        if self.unfinished and self._worth_a_look():
            self.settle.invoke_asynchronously({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}})
        for (_, pk, _), item in self.dynamodb.items.on("b#"):
            if item["state"] in ("COMMITTED", "ABANDONED"):
                self.committed.setdefault(pk, (item["state"], item["snapshot"]))

    def _worth_a_look(self) -> bool:
        """The schedule may come late: after five looks that found nothing to do only every fifth one is taken."""
        seen = (
            self.dynamodb.writes,
            len(self.s3.buckets["work"].current),
            sum(run.running for run in self.emr.runs.values()),
        )
        self._looks_in_vain = self._looks_in_vain + 1 if seen == self._last_seen else 0
        self._last_seen = seen
        return self._looks_in_vain < 5 or self._looks_in_vain % 5 == 0

    # ---- the person on call

    def _attend(self) -> None:
        """What the runbook says: move dead letters back, resume what halted. Only once everything else is done."""
        for letters, queue, source in (
            (self.dead_letters, self.buffer, self.from_buffer),
            (self.notices_dead_letters, self.notices, self.from_notices),
        ):
            for message in list(letters.messages.values()):
                if "reason" in message.attributes:
                    continue
                del letters.messages[message.id]
                self.moved_back += 1
                queue.send(message.body, group=message.group, deduplication=f"back-{self.moved_back}")
                source.wake(0.0)
        for (_, pk, _), item in self.dynamodb.items.on("b#"):
            if item.get("halted") and item["state"] == "SUBMITTED":
                self.resumed += 1
                self.kernel.spawn("person", lambda batch=pk[2:]: _resume(batch))

    # ---- running

    @property
    def errors(self) -> list[BaseException]:
        """What the functions raised."""
        return [error for function in (self.intake, self.dispatch, self.settle) for error in function.errors]

    @property
    def unfinished(self) -> bool:
        """Whether a batch is under way. An open one that nothing joined may stay so for ever."""
        return any(
            item["state"] in ("SEALED", "SUBMITTED") or (item["state"] == "OPEN" and item.get("notices"))
            for _, item in self.dynamodb.items.on("b#")
        )

    @property
    def at_rest(self) -> bool:
        return not self.kernel.busy and not self.unfinished and not self.buffer.messages and not self.notices.messages

    @property
    def waits_for_a_person(self) -> bool:
        """Whether a batch has halted, and nothing else is going on: the schedule would look at it in vain for hours."""
        return not (self.kernel.busy or self.buffer.messages or self.notices.messages) and any(
            item.get("halted") and item["state"] == "SUBMITTED" for _, item in self.dynamodb.items.on("b#")
        )

    def run(self) -> bool:
        """Until everything is at rest; False if it does not come to rest in time (liveness is lost)."""
        with (
            product.inhabited(self.kernel, self.network),
            driver.CATALOG.belonging(self.network, self.catalog),
        ):
            return self._run()

    def _run(self) -> bool:
        self.kernel.after(SCHEDULE, self._tick, background=True)
        deadline = START + self.lasts + PATIENCE
        quiet = False
        for _ in range(4):
            self.kernel.run(lambda: self.at_rest or self.waits_for_a_person, deadline)
            quiet = self.at_rest
            before = self.moved_back + self.resumed
            self._attend()
            if self.moved_back + self.resumed == before:
                break
            deadline = self.kernel.now + PATIENCE
        self.kernel.note("at rest" if quiet else "NOT AT REST")
        return quiet


def _resume(batch: str) -> Any:
    from tidegate import wiring
    from tidegate.flows.resume import resume

    return resume(batch, ledger=wiring.application().ledger())
