"""One deployment in one world: the buckets, the queues, the functions, the jobs, and how all of that behaves."""

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from infra.limits import DISPATCH, INTAKE, SETTLE_TIMEOUT, Source
from tests.sim import driver, foreign, people, product, restored, seen
from tests.sim.configs import configured
from tests.sim.dynamodb import DynamoDb
from tests.sim.emr import Emr, JobRun
from tests.sim.faults import At, Kind, Plan
from tests.sim.kernel import START, Kernel
from tests.sim.knobs import PLAIN, Knobs
from tests.sim.lambdas import EventSource, Function
from tests.sim.landing import Landing
from tests.sim.network import Network
from tests.sim.s3 import S3, Bucket, Version
from tests.sim.sns import Sns
from tests.sim.sqs import Queue, Sqs
from tests.sim.table import Catalog, Stored
from tidegate.core import notices
from tidegate.flows import settle as settling

CONFIG = configured()

SCHEDULE = 60.0
HOUR = 3_600.0
DAY = 24 * HOUR
PATIENCE = 12 * HOUR
"""How long after its last fault a world may take to come to rest: five deliveries of a notice take one hour, three
attempts of a batch with half an hour of silence each another two."""


@dataclass(frozen=True)
class Registered:
    """One upload of a batch's manifest."""

    notice: str
    bucket: str
    key: str
    version: str
    sequencer: str


@dataclass
class World(Landing):
    """Build it, say what is uploaded, `run` it."""

    seed: int = 0
    plan: Plan = field(default_factory=At)
    knobs: Knobs = PLAIN
    lasts: float = 0.0
    """For how long (seconds) there are uploads; patience begins after that."""

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
        self.sqs = Sqs(kernel)
        self.sns = Sns(kernel)
        self.emr = Emr(kernel, driver.drive, self._job_ended)
        self.happened: Counter[str] = Counter()
        """What is worth to have been seen, and how often it was (see `seen`)."""
        self.catalog = Catalog(self.happened)
        self.network = Network(
            kernel,
            {
                "dynamodb": self._asked_of_dynamodb,
                "s3": self.s3.answer,
                "sns": lambda operation, asked: seen.asked_of_sns(
                    self.happened, asked, self.sns.answer(operation, asked)
                ),
                "sqs": self.sqs.answer,
                "emr-serverless": self.emr.answer,
            },
            self.plan,
        )
        self.network.situation = self._situation
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
        self.acts = 0
        """What a person on call had to do, once everything else was quiet."""
        self.committed: dict[str, tuple[str, int]] = {}
        self.ended: dict[str, Mapping[str, Any]] = {}
        """The last that was seen of each batch that has ended: the ledger forgets it one day."""
        self._last_seen: tuple[int, int, int] = (0, 0, 0)
        self._looks_in_vain = 0
        self.most_running: Counter[str] = Counter()
        """How many batches of each route were submitted at once, at most."""
        self._manifests: dict[str, list[Registered]] = {}
        self.decided: dict[str, bool] = {}
        """Batches that a person decided about, and whether they said that it is in the table."""
        self.fenced_from: dict[str, int] = {}
        """Batches that a person has given up, and an attempt from which on nothing but a fence may be published."""
        self.noticed: list[str] = []
        """Broken promises that were seen under way."""
        self._ticking = False
        self.rules_enabled = True
        """Whether EventBridge tells settle of anything."""
        self.started = self.kernel.now
        self.forgotten_from = math.inf
        """From when on (epoch seconds) a restored ledger has forgotten everything."""
        self.intake.on_invoke = self.dispatch.on_invoke = self.wake_schedule
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
        self.dynamodb.behind = lambda: knobs.behind
        self.dynamodb.holds_back = sometimes(knobs.held_back)
        self.dynamodb.page = knobs.page
        self.s3.page = knobs.page or self.s3.page
        self.sns.refuses = sometimes(knobs.refused_notices)
        self.s3.conflicts = sometimes(knobs.conflicts)
        self.emr.forgets_tokens = sometimes(knobs.forgotten_tokens)
        self.dynamodb.forgets_tokens = sometimes(knobs.forgotten_tokens)()
        twin, cancelled = sometimes(knobs.twins), sometimes(knobs.cancelled)
        self.emr.twin_after = lambda: chance.choice((0.01, 1.0, 300.0)) if twin() else None
        self.emr.cancelled_after = lambda: chance.choice((10.0, 45.3, 60.0, 200.0)) if cancelled() else None
        self.emr.outlives = lambda: knobs.outlived
        self.emr.forgets = sometimes(knobs.forgotten_runs)
        if knobs.skew != PLAIN.skew:
            for runs in (self.intake, self.dispatch, self.settle, self.emr):
                runs.skew = one_of(knobs.skew)
        meddlers = [foreign.commit_one] * knobs.foreign
        meddlers += [people.give_up] * knobs.aborts + [people.meddle] * knobs.resumes
        for meddler in meddlers:
            self.kernel.after(self._some_time(), lambda meddler=meddler: meddler(self))
        self.buffer.receives = self.notices.receives = knobs.receives
        if knobs.horizon:
            # the person on call comes at the end of it, and a dead letter lives for two weeks
            for letters in (self.dead_letters, self.notices_dead_letters):
                letters.on_message = lambda: self.kernel.after(DAY, lambda: people.move_back(self) and None)
        if knobs.away:
            self.kernel.most_events *= 4  # each visit of the person on call takes days of looks
        if knobs.two_versions:
            self._deploy_slowly()
        if knobs.bundled:
            self.bundled = one_of((0.0, 0.5, 3.0))
        if knobs.suspended:
            begin = self._some_time()
            for after, suspended in ((0.0, True), (900.0, False)):
                self.kernel.after(begin + after, lambda suspended=suspended: self._suspend(suspended))
        if knobs.closed_bucket:
            self.s3.closed["closed"] = knobs.closed_bucket
            self.kernel.after(chance.choice((600.0, 3 * HOUR)), self.s3.closed.clear)
        cut, cuts = sometimes(knobs.cut), iter(range(MOST_CUTS))
        self.emr.on_driver = lambda run: self._cut() if cut() and next(cuts, None) is not None else None
        if knobs.restored:
            restored.restore(self, self._some_time() + knobs.restored, knobs.restored)

    def _cut(self) -> None:
        """Somebody expires all history below a snapshot of their own, while a driver is at work."""
        chance = self.kernel.random
        moment = chance.choice((0.0, 0.05, 0.3, 2.0, 20.0))
        self.kernel.after(moment, lambda: foreign.commit(self, foreign.cut))
        if self.knobs.cut_undone:
            self.kernel.after(moment + chance.choice((300.0, 3 * HOUR)), lambda: foreign.commit(self, foreign.remember))

    def _suspend(self, suspended: bool) -> None:
        self.s3.buckets["landing"].suspended = suspended

    def _some_time(self) -> float:
        """When something happens that nobody expects: most happens while the first batches are under way."""
        chance = self.kernel.random
        return chance.choice((chance.uniform(0, 130), chance.uniform(60, 400), chance.uniform(0, 4_000)))

    def _deploy_slowly(self) -> None:
        """Another configuration, and the old one again: for a while some functions have the one and some the other."""
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

    def _job_ended(self, run: JobRun) -> None:
        struck = self.network.platform("emr state event")
        event = {
            "detail-type": "EMR Serverless Job Run State Change",
            "source": "aws.emr-serverless",
            "detail": {"jobRunId": run.id, "applicationId": "app", "state": run.state},
        }
        for number in range({Kind.DROP: 0, Kind.TWICE: 2}.get(struck, 1) if struck else 1):
            self.kernel.after(1.0 + 30.0 * number, lambda: self._tell_settle(event))

    def _tell_settle(self, event: Mapping[str, Any]) -> None:
        if self.rules_enabled:
            self.settle.invoke_asynchronously(event)

    def wake_schedule(self) -> None:
        """The schedule looks once a minute. While nothing is under way a look finds nothing, and is not simulated."""
        if not self._ticking:
            self._ticking = True
            self.kernel.after(SCHEDULE - (self.kernel.now - START) % SCHEDULE, self._tick, background=True)

    def _tick(self) -> None:
        self._ticking = False
        if self.unfinished or self.buffer.messages or self.notices.messages:
            self.wake_schedule()
        if self.knobs.missed_looks and self.kernel.random.random() < self.knobs.missed_looks:
            return
        for (_, pk, _), item in self.dynamodb.items.on("b#"):
            if item["state"] in ("COMMITTED", "ABANDONED"):
                self.committed.setdefault(pk, (item["state"], item["snapshot"]))
                self.ended[pk[2:]] = item
        if self.knobs.expiry_at_once:
            self.dynamodb.expire()
        if self.unfinished and self._worth_a_look():
            self._tell_settle(LOOK)

    def _worth_a_look(self) -> bool:
        """The schedule may come late: of the looks that find nothing to do only the first ones are all taken."""
        seen = (
            self.dynamodb.writes,
            len(self.s3.buckets["work"].current),
            sum(run.running for run in self.emr.runs.values()),
        )
        self._looks_in_vain = self._looks_in_vain + 1 if seen == self._last_seen else 0
        self._last_seen = seen
        often = 5 if self._looks_in_vain < 50 else 60
        return self._looks_in_vain < 5 or self._looks_in_vain % often == 0

    # ---- what can be seen from outside

    def _asked_of_dynamodb(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        answered = seen.asked_of_dynamodb(self.happened, operation, asked, self.dynamodb.answer)
        if operation == "TransactWriteItems":
            for (_, pk, _), route in self.dynamodb.items.on("r#"):
                self.most_running[pk[2:]] = max(self.most_running[pk[2:]], len(route.get("running", ())))
        return answered

    def _situation(self, batch: str) -> tuple[str, str]:
        """(state of the batch, state of its last job), as the ledger and EMR have it now."""
        item = self.dynamodb.items.get(("ledger", f"b#{batch}", "batch"))
        if item is None:
            return "-", "-"
        state = item["state"] + (" halted" if item.get("halted") else "") + (" fencing" if item.get("fencing") else "")
        runs = [run for run in self.emr.runs.values() if run.batch == batch]
        return state, runs[-1].state if runs else "-"

    def failure_of(self, batch: str) -> Mapping[str, Any]:
        """What the batch's current attempt left as the reason why it gave up; empty if it left none."""
        item = self.dynamodb.items["ledger", f"b#{batch}", "batch"]
        found = self.s3.buckets["work"].current.get(f"batches/{batch}/failures/{item['attempt']}.json")
        told: Mapping[str, Any] = json.loads(found.body) if found else {}
        return told

    def published(self) -> Iterator[tuple[str, str, Stored]]:
        """(batch, table, snapshot) of all that was published, by what nobody can forget: the line of main, expired or
        not, oldest first. A fence has no files."""
        for table in self.catalog.tables:
            for stored in self.catalog.ancestry(table):
                if batch := stored.snapshot.summary.get("published-wap-id"):
                    yield batch, table, stored

    def staged_with_rows(self, batch: str) -> int | None:
        """As what the batch's rows were staged; None if no rows of it are in a table."""
        for each, _, stored in self.published():
            if each == batch and stored.files:
                return int(stored.snapshot.summary["source-snapshot-id"])
        return None

    def could_say(self, batch: str) -> bool:
        """Whether the history of the batch's table reaches a floor of the batch, and has all the time."""
        table = self.catalog.tables.get(self.dynamodb.items["ledger", f"b#{batch}", "batch"].get("table", ""))
        if table is None or table.snapshots.keys() & table.gone.keys():
            return False
        heads = {json.loads(body)["head"] for _, body in self.left_in(f"batches/{batch}/floor")}
        return any(each.id in heads or each.parent in heads for each in table.ancestors())

    def manifest_of(self, batch: str) -> list[Registered]:
        """The uploads that a sealed batch is made of, by the parts that its manifest lists."""
        if batch not in self._manifests:
            left = dict(self.left_in(f"batches/{batch}/"))
            found = []
            for name in json.loads(left[f"batches/{batch}/sealed.json"])["parts"]:
                header, *lines = left[f"batches/{batch}/{name}"].decode().splitlines()
                about = json.loads(header)
                for key, version, _, sequencer in map(json.loads, lines):
                    found.append(Registered(about["notice"], about["bucket"], key, version, sequencer))
            self._manifests[batch] = found
        return self._manifests[batch]

    def landed_at(self, put: Version) -> float | None:
        """When the rows of an upload came into a table; None if they are not there."""
        place = (put.bucket, put.key, put.sequencer)
        for batch, _, stored in self.published():
            registered = self.manifest_of(batch) if stored.files else []
            if any((each.bucket, each.key, each.sequencer) == place for each in registered):
                return self.catalog.came_at[stored.snapshot.id]
        return None

    def left_in(self, folder: str) -> Iterator[tuple[str, bytes]]:
        """(name, body) of what lies in the work bucket under this folder, unpacked."""
        for name, version in sorted(self.s3.buckets["work"].current.items()):
            if name.startswith(folder):
                yield name, gzip.decompress(version.body) if name.endswith(".gz") else version.body

    # ---- running

    @property
    def errors(self) -> list[BaseException]:
        """What the functions raised."""
        return [error for function in (self.intake, self.dispatch, self.settle) for error in function.errors]

    @property
    def unfinished(self) -> bool:
        """Whether a batch is under way. An open one that nothing joined may stay so for ever."""
        return any(True for _ in self._unfinished())

    def _unfinished(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(batch, item) of what is under way."""
        for (_, pk, _), item in self.dynamodb.items.on("b#"):
            if item["state"] in ("SEALED", "SUBMITTED") or (item["state"] == "OPEN" and item.get("notices")):
                yield pk[2:], item

    @property
    def pending(self) -> list[str]:
        """What is unfinished, in words."""
        batches = [
            f"batch {batch} of route {item['route']} is {item['state']}"
            + (f" and halted ({item['halted'][:150]})" if item.get("halted") else "")
            for batch, item in self._unfinished()
        ]
        queues = (self.buffer, self.notices)
        return batches + [f"{len(queue.messages)} messages in {queue.name}" for queue in queues if queue.messages]

    @property
    def at_rest(self) -> bool:
        return not self.kernel.busy and not self.unfinished and not self.buffer.messages and not self.notices.messages

    @property
    def waits_for_a_person(self) -> bool:
        """Whether a batch has halted, and nothing else is going on, or nothing has for hours."""
        busy = self.kernel.busy or self.buffer.messages or self.notices.messages
        patience = LOOKS_IN_VAIN * (8 if self.knobs.away else 1)
        if self._looks_in_vain < patience and (busy or self.knobs.away):
            return False
        return bool(people.halted(self) or people.to_recover(self))

    def run(self) -> bool:
        """Until everything is at rest; False if it does not come to rest in time (liveness is lost)."""
        with (
            product.inhabited(self.kernel, self.network, "" if self.knobs == PLAIN else configured(self.knobs)),
            driver.CATALOG.belonging(self.network, self.catalog),
            _limits(self.knobs),
        ):
            return self._run()

    def _run(self) -> bool:
        self.wake_schedule()
        # whoever comes once a day may have to come a second time
        patience = PATIENCE + (3 * DAY if self.knobs.away or self.knobs.horizon else 0)
        deadline = START + self.lasts + patience
        quiet = False
        for _ in range(MOST_VISITS):
            self.kernel.run(lambda: self.at_rest or self.waits_for_a_person, deadline)
            quiet = self.at_rest
            acts = people.attend(self)
            self.acts += acts
            self._looks_in_vain = 0
            if not acts:
                break
            # the next looks of the schedule do what was asked for
            self.kernel.run(lambda: False, self.kernel.now + 2 * SCHEDULE)
            deadline = max(self.kernel.now, START + self.lasts) + patience
        quiet = quiet and self._stays_at_rest()
        self.kernel.note("at rest" if quiet else "NOT AT REST")
        seen.in_the_end(self.happened, (item for _, item in self.dynamodb.items.on("b#")))
        return quiet

    def _stays_at_rest(self) -> bool:
        """Whether a few more looks of the schedule come to one that changes nothing: the first ones may still note what
        was deployed."""
        for _ in range(5):
            writes = self.dynamodb.writes
            self._tell_settle(LOOK)
            self.kernel.run(lambda: not self.kernel.busy, self.kernel.now + PATIENCE)
            if self.at_rest and self.dynamodb.writes == writes:
                return True
        return False


LOOKS_IN_VAIN = 6 * 60
"""After so many a person is called, whatever is still to come."""
LOOK = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
MOST_CUTS = 4
MOST_VISITS = 20
"""How often the person on call comes: after each visit everything that can go on by itself does."""


@contextmanager
def _limits(knobs: Knobs) -> Iterator[None]:
    """What the product does in large portions is done in small ones, so that there are several of them."""
    with ExitStack() as stack:
        if knobs.small:
            stack.enter_context(patch.object(settling, "ENDINGS_PER_WRITE", 1))
            stack.enter_context(patch.object(settling, "ENDINGS_PER_LOOK", 1))
            for packs in (notices.pack, notices.pack_entries):
                stack.enter_context(patch.dict(packs.__kwdefaults__, max_bytes=350))
        yield
