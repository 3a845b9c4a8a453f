"""A small deployment in the simulated AWS: two landing buckets, a queue that S3 notifies, functions that read it.

Every scheme but Tidegate runs in one of these. It gives them what Tidegate's world gives Tidegate: the same buckets,
queues, SDK, network and faults, and a person who moves dead letters back once everything else is quiet.
"""

from collections.abc import Callable
from typing import Any

from tests.sim import product
from tests.sim.dynamodb import DynamoDb
from tests.sim.faults import Plan
from tests.sim.kernel import START, Kernel
from tests.sim.lambdas import EventSource, Function
from tests.sim.landing import Landing
from tests.sim.network import Network
from tests.sim.s3 import S3, Bucket
from tests.sim.sns import Sns
from tests.sim.sqs import Queue, Sqs
from tests.sim.table import Catalog

TIMEOUT = 60.0
VISIBILITY = 6 * TIMEOUT
"""As AWS advises: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
RECEIVES = 5
DAY = 86_400.0
PATIENCE = 4 * DAY
CONCURRENCY = 4

Handler = Callable[[Any, Any], Any]


class Watched(Queue):
    """A queue whose event source notices every message, however it got in."""

    on_send: Callable[[], None] = staticmethod(lambda: None)

    def send(self, body: str, *, group: str = "", deduplication: str = "", attributes: Any = None) -> bool:
        taken = super().send(body, group=group, deduplication=deduplication, attributes=attributes)
        self.on_send()
        return taken


class Deployment(Landing):
    """Build it, deploy a scheme, say what is uploaded, `run` it."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.kernel = kernel = Kernel(seed)
        self.s3 = S3(kernel)
        self.s3.buckets = {"landing": Bucket(versioned=True), "plain": Bucket(versioned=False)}
        self.dynamodb = DynamoDb(kernel)
        self.sqs = Sqs(kernel)
        self.sns = Sns(kernel)
        self.catalog = Catalog()
        self.network = Network(
            kernel,
            {
                "dynamodb": lambda operation, asked: self.dynamodb.answer(operation, asked),
                "s3": self.s3.answer,
                "sns": self.sns.answer,
                "sqs": self.sqs.answer,
            },
            plan,
        )
        self.network.latency = lambda: kernel.random.choice((0.002, 0.005, 0.02, 0.2))
        self.sns.delay = lambda: kernel.random.choice((0.02, 0.1, 3.0))
        self.dynamodb.forgets_tokens = kernel.random.random() < 0.3
        self._queues: list[Queue] = []
        self.notifications = self.queue("notifications")
        self._open()
        self._moved_back = 0

    # ---- what a scheme deploys

    def queue(self, name: str) -> Watched:
        suffix = ".fifo" if name.endswith(".fifo") else ""
        letters = self.sqs.add(Queue(self.kernel, f"{name.removesuffix('.fifo')}-dead-letters{suffix}"))
        made = Watched(self.kernel, name, visibility=VISIBILITY, receives=RECEIVES, dead_letters=letters)
        self.sqs.add(made)
        self._queues.append(made)
        return made

    def feed(self, queue: Watched, name: str, handler: Handler) -> None:
        """A function that gets the queue's messages one by one."""
        function = Function(self.kernel, name, handler, TIMEOUT)
        source = EventSource(self.network, queue, function, batch_size=1, concurrency=CONCURRENCY)
        queue.on_send = lambda: source.wake(0.0)

    def daily(self, name: str, handler: Handler, days: int) -> None:
        """A function that a schedule calls once a day, for so many days."""
        function = Function(self.kernel, name, handler, TIMEOUT)
        for day in range(1, days + 1):
            self.kernel.after(day * DAY, lambda: function.invoke_asynchronously({}))

    # ---- what happens outside

    def _tell(self, body: str, times: int) -> None:
        for _ in range(times):
            self.notifications.send(body)

    # ---- running

    @property
    def at_rest(self) -> bool:
        return not self.kernel.busy and not any(queue.messages for queue in self._queues)

    def run(self) -> bool:
        """Until everything is at rest; False if it does not come to rest in time."""
        with product.inhabited(self.kernel, self.network):
            quiet = False
            for _ in range(4):
                quiet = self.kernel.run(lambda: self.at_rest, max(START, self.kernel.now) + PATIENCE)
                before = self._moved_back
                self._attend()
                if self._moved_back == before:
                    break
            self.kernel.note("at rest" if quiet else "NOT AT REST")
            return quiet

    def _attend(self) -> None:
        for queue in self._queues:
            assert queue.dead_letters is not None
            for message in list(queue.dead_letters.messages.values()):
                del queue.dead_letters.messages[message.id]
                self._moved_back += 1
                queue.send(message.body, group=message.group, deduplication=f"back-{self._moved_back}")
