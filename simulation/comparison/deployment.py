"""A small deployment in the simulated AWS: two landing buckets, a queue that S3 notifies, functions that read it.

Every scheme but Tidegate runs in one of these. It has the same buckets, queues, SDK, network and faults as Tidegate's
world, and a person who moves dead letters back when everything else is at rest.
"""

from collections.abc import Callable
from typing import Any

from simulation.world import product
from simulation.world.dynamodb import DynamoDb
from simulation.world.faults import Plan
from simulation.world.kernel import START, Kernel
from simulation.world.lambdas import EventSource, SimulatedFunction
from simulation.world.landing import Landing
from simulation.world.network import Network
from simulation.world.s3 import S3, Bucket
from simulation.world.sns import Sns
from simulation.world.sqs import Queue, Sqs
from simulation.world.table import ModelCatalog

TIMEOUT = 60.0
VISIBILITY = 6 * TIMEOUT
"""As AWS advises: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
RECEIVES = 5
DAY = 86_400.0
PATIENCE = 4 * DAY
CONCURRENCY = 4

LambdaHandler = Callable[[Any, Any], Any]


class WatchedQueue(Queue):
    """A queue whose event source polls after every message, however the message came in."""

    on_send: Callable[[], None] = staticmethod(lambda: None)

    def send(self, body: str, *, group: str = "", deduplication: str = "", attributes: Any = None) -> bool:
        taken = super().send(body, group=group, deduplication=deduplication, attributes=attributes)
        self.on_send()
        return taken


class SchemeDeployment(Landing):
    """Create it, deploy a scheme, set what is uploaded, and `run` it."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.kernel = kernel = Kernel(seed)
        self.s3 = S3(kernel)
        self.s3.buckets = {"landing": Bucket(versioned=True), "plain": Bucket(versioned=False)}
        self.dynamodb = DynamoDb(kernel)
        self.sqs = Sqs(kernel)
        self.sns = Sns(kernel)
        self.catalog = ModelCatalog()
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

    def queue(self, name: str) -> WatchedQueue:
        suffix = ".fifo" if name.endswith(".fifo") else ""
        letters = self.sqs.add(Queue(self.kernel, f"{name.removesuffix('.fifo')}-dead-letters{suffix}"))
        made = WatchedQueue(self.kernel, name, visibility=VISIBILITY, receives=RECEIVES, dead_letters=letters)
        self.sqs.add(made)
        self._queues.append(made)
        return made

    def feed(self, queue: WatchedQueue, name: str, handler: LambdaHandler) -> None:
        """A function that gets one message of the queue in each invocation."""
        function = SimulatedFunction(self.kernel, name, handler, TIMEOUT)
        source = EventSource(self.network, queue, function, batch_size=1, concurrency=CONCURRENCY)
        queue.on_send = lambda: source.wake(0.0)

    def daily(self, name: str, handler: LambdaHandler, days: int) -> None:
        """A function that a schedule calls once a day, for so many days."""
        function = SimulatedFunction(self.kernel, name, handler, TIMEOUT)
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
        """Run until everything is at rest; False if that takes too long."""
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
