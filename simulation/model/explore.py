"""Exhausts the interleavings of a few actors that share a store, a work bucket, a topic and a table.

An actor is a flow of the product, run as it is. Each call of a port is one step. Between two steps any other actor
may take any number of its own, or the actor may stop for good: that is a crash. An actor has no state but what it
was answered so far, because a flow is deterministic. So an actor is replayed from its answers up to its next call, once
for all states in which it was answered that, and two states are the same if everything that is shared is, and every
actor was answered the same.

`apply_each` is as many steps as it has transitions: on DynamoDB, each of them happens at a time of its own. An actor
takes them in their order, or in the opposite one; of two, these are all orders.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias

from tidegate.core.announcements import Announcement
from tidegate.core.errors import TidegateError
from tidegate.core.items import Applied, Key, Refused, Transition
from tidegate.core.notices import Notice
from tidegate.core.records import route_key
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import JobReport, Ports
from tidegate.stores.memory import MemoryStore

NOW = 1_800_000_000
RETENTION = 60 * 24 * 60 * 60
Cell: TypeAlias = tuple[str, ...]
Cells: TypeAlias = dict[Cell, Any]
"""What is shared: items, objects, notices that were sent, jobs that were started, and the table."""


class Paused(BaseException):
    """The actor has taken its step. No flow may catch it."""


class NotYet(BaseException):
    """What the actor waits for has not happened."""


@dataclass(frozen=True)
class Actor:
    """`run` is given the ports. `name` tells it from the others, and begins the ids of the batches that it opens.
    `backwards` is one whose independent writes come about in the opposite order. `announces`: its deployment has a
    bus."""

    name: str
    run: Callable[[Ports], object]
    backwards: bool = False
    announces: bool = False


@dataclass
class Shared:
    """The ports, on cells. Every method is one step of whoever calls it."""

    cells: Cells

    # ---- the store

    def get(self, key: Key) -> Any:
        return self.cells.get(("item", *key))

    def query(self, pk: str, what: str, most: int) -> Any:
        return [self.cells[cell] for cell in sorted(self.cells) if cell[:2] == ("item", pk)][: most or None]

    def apply(self, transition: Transition) -> Applied | Refused:
        store = MemoryStore({Key(*cell[1:]): item for cell, item in self.cells.items() if cell[0] == "item"})
        done = store.apply(transition)
        for write in transition.writes:
            self.cells.pop(("item", *write.key), None)
        self.cells.update({("item", *key): item for key, item in store.items.items()})
        return done

    # ---- the work bucket

    def read(self, name: str) -> bytes | None:
        body: bytes | None = self.cells.get(("object", name))
        return body

    def put(self, name: str, body: bytes) -> None:
        self.cells["object", name] = body

    def put_if_absent(self, name: str, body: bytes) -> bool:
        if ("object", name) in self.cells:
            return False
        self.cells["object", name] = body
        return True

    def names(self, prefix: str) -> list[str]:
        return [cell[1] for cell in sorted(self.cells) if cell[0] == "object" and cell[1].startswith(prefix)]

    # ---- the topic and the jobs

    def publish(self, notices: Sequence[Notice]) -> frozenset[str]:
        self.cells.update({("sent", notice.id): notice for notice in notices})
        return frozenset(notice.id for notice in notices)

    def send(self, announcements: Sequence[Announcement]) -> Mapping[str, str]:
        for each in announcements:
            name = "event", each.id
            self.cells[name] = self.cells.get(name, 0) + 1
        return {}

    def start(self, batch: str, attempt: int, fencing: bool) -> str:
        self.cells["job", batch, str(attempt)] = fencing
        return f"{batch}/{attempt}"

    # ---- for the actors of the model

    def the_sent(self, number: int) -> Notice:
        """One of the notices that the topic has, in any order that stays."""
        found = sorted(cell for cell in self.cells if cell[0] == "sent")
        if len(found) <= number:
            raise NotYet
        notice: Notice = self.cells[found[number]]
        return notice

    def cell(self, cell: Cell) -> Any:
        return self.cells.get(cell)

    def change(self, cell: Cell, change: Callable[[Any], Any]) -> Any:
        """Change a cell at once, as a table's commit does; what it was."""
        before = self.cells.get(cell)
        self.cells[cell] = change(before)
        return before


@dataclass(frozen=True)
class PortCall:
    """A call of a port: an actor's next step."""

    method: str
    arguments: tuple[Any, ...]


class _Caller:
    """Replays what an actor was answered, and pauses it at the call after that."""

    def __init__(self, answers: Sequence[Any]) -> None:
        self._answers = iter(answers)
        self.asked: PortCall | None = None

    def __call__(self, method: str, *arguments: Any) -> Any:
        for answer in self._answers:
            return answer
        # a flow that goes on after its pause may make no call: the first one counts
        self.asked = self.asked or PortCall(method, arguments)
        raise Paused


@dataclass
class _Steps:
    """A port: each call is a step."""

    _call: Any


@dataclass
class _StoreOfSteps(_Steps):
    _backwards: bool

    def get(self, key: Key) -> Any:
        return self._call("get", key)

    def get_many(self, keys: Sequence[Key], what: str) -> Any:
        # not one reading of all of them: DynamoDB reads each at a time of its own
        found = {key: self._call("get", key) for key in keys}
        return {key: item for key, item in found.items() if item is not None}

    def query(self, pk: str, what: str, most: int = 0) -> Any:
        return self._call("query", pk, what, most)

    def apply(self, transition: Transition) -> Any:
        if all(write.key == route_key("r") and not write.requires for write in transition.writes):
            return Applied()  # a statistic, which no decision reads
        return self._call("apply", transition)

    def apply_each(self, transitions: Sequence[Transition]) -> Any:
        if self._backwards:
            return [self.apply(each) for each in reversed(transitions)][::-1]
        return [self.apply(each) for each in transitions]


class _Work(_Steps):
    def get(self, name: str) -> Any:
        return self._call("read", name)

    def put(self, name: str, body: bytes) -> None:
        self._call("put", name, body)

    def put_if_absent(self, name: str, body: bytes) -> Any:
        return self._call("put_if_absent", name, body)

    def names(self, prefix: str) -> Any:
        return iter(self._call("names", prefix))

    def folders(self, prefix: str, first: str) -> Iterator[str]:
        raise NotImplementedError


class _Topic(_Steps):
    def publish(self, notices: Sequence[Notice]) -> Any:
        return self._call("publish", notices)


class _Jobs(_Steps):
    code = ""

    def start(self, batch: Any, dataset: Any, *, owner: str, last: bool) -> Any:
        return self._call("start", batch.id, batch.attempt, batch.fencing)

    def report(self, job_run: str) -> JobReport:
        raise NotImplementedError


class _ModelBus(_Steps):
    def send(self, announcements: Sequence[Announcement]) -> Any:
        return self._call("send", announcements)


class _Nobody:
    def set_aside(self, body: str, reason: str) -> None:
        raise NotImplementedError

    def page(self, bucket: str, prefix: str, after: Any, owner: str) -> Any:
        raise NotImplementedError

    def landed(self, table: str, prefix: str = "") -> Any:
        raise NotImplementedError


def ports(call: Any, actor: Actor) -> Ports:
    """The ports of one actor of the model; `call` makes its steps."""
    numbers = iter(range(1, 100))
    return Ports(
        ledger=Ledger(_StoreOfSteps(call, actor.backwards), lambda: NOW, RETENTION),
        work=_Work(call),
        topic=_Topic(call),
        jobs=_Jobs(call),
        dead_letters=_Nobody(),
        notices_dead_letters=_Nobody(),
        measure=lambda metric, value, route="": None,
        clock=lambda: NOW,
        new_id=lambda: f"B-{actor.name}{next(numbers)}",
        listing=_Nobody(),
        bus=_ModelBus(call) if actor.announces else None,
        lineage=_Nobody(),
    )


def calls(ports: Ports) -> Any:
    """What makes the steps of these ports: for actors that are no flows."""
    return ports.topic._call  # type: ignore[attr-defined]


# ---- states


class End(Enum):
    """How an actor has ended. What it was given is acknowledged, or given back: then it is delivered again."""

    DONE = auto()  # and not acknowledged yet: that is a step of its own
    ACKNOWLEDGED = auto()
    GIVEN_BACK = auto()


@dataclass(frozen=True)
class Moment:
    """`answers` by actor, or how it has ended."""

    cells: Mapping[Cell, Any]
    answers: tuple[tuple[Any, ...] | End, ...]


@dataclass
class _Numbers:
    """Equal values get equal numbers, so that states are compared by numbers."""

    by_value: dict[Any, int] = field(default_factory=dict)
    by_identity: dict[int, tuple[Any, int]] = field(default_factory=dict)

    def of(self, value: Any) -> int:
        known = self.by_identity.get(id(value))
        if known and known[0] is value:
            return known[1]
        number = self.by_value.setdefault(_hashable(value), len(self.by_value))
        self.by_identity[id(value)] = (value, number)
        return number

    def key(self, state: Moment) -> Any:
        cells = frozenset((cell, self.of(value)) for cell, value in state.cells.items())
        return cells, tuple(each if isinstance(each, End) else tuple(map(self.of, each)) for each in state.answers)


def _hashable(value: Any) -> Any:
    if isinstance(value, Applied):
        return "applied", _hashable(value.item)
    if isinstance(value, Refused):
        return "refused", _hashable(value.there)
    if isinstance(value, Mapping):
        return tuple(sorted((name, _hashable(each)) for name, each in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_hashable, value))
    if isinstance(value, frozenset):
        return tuple(sorted(map(repr, value)))
    return value


@dataclass(frozen=True)
class Broken:
    """A state that must not be, and how it comes about: the actor that took each step."""

    what: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what}, after {' '.join(self.steps)}"


@dataclass
class Explored:
    states: int = 0
    shared: int = 0
    """Different contents of what is shared, with who has acknowledged."""
    broken: Broken | None = None
    complete: bool = True


def explore(
    begins: Cells,
    actors: Sequence[Actor],
    *,
    safe: Callable[[Mapping[Cell, Any]], str],
    ends_well: Callable[[Cells, frozenset[str]], str] = lambda cells, acknowledged: "",
    at_most: int = 1_000_000,
) -> Explored:
    """Visit every state that can be reached, the nearest first. `safe` names what is wrong with a state; `ends_well`
    what is wrong once all faults stop and fresh actors run one after the other. `ends_well` is given cells of its
    own, and the names of the actors that have acknowledged."""
    numbers = _Numbers()
    each_step = _Actors(actors, numbers)
    first = Moment(begins, ((),) * len(actors))
    came: dict[Any, tuple[Any, str]] = {(key := numbers.key(first)): (None, "")}
    seen_shared: set[Any] = set()
    judged: set[Any] = set()
    queue = deque([(first, key)])
    found = Explored()
    while queue:
        state, key = queue.popleft()
        found.states += 1
        wrong = ""
        if key[0] not in judged:
            judged.add(key[0])
            wrong = safe(state.cells)
        acknowledged = frozenset(
            actor.name for actor, answers in zip(actors, state.answers, strict=True) if answers is End.ACKNOWLEDGED
        )
        if not wrong and (key[0], acknowledged) not in seen_shared:
            seen_shared.add((key[0], acknowledged))
            wrong = ends_well(dict(state.cells), acknowledged)
        if wrong:
            found.broken = Broken(wrong, _steps(came, key))
            break
        if len(came) > at_most:
            found.complete = False
            break
        for position, actor in enumerate(actors):
            after = each_step.step(state, position)
            if after is not None and (reached := numbers.key(after)) not in came:
                came[reached] = (key, actor.name)
                queue.append((after, reached))
    found.shared = len(seen_shared)
    return found


class _Actors:
    """The actors, and what each of them does after each sequence of answers that it was given: equal ones once."""

    def __init__(self, actors: Sequence[Actor], numbers: _Numbers) -> None:
        self._actors = actors
        self._numbers = numbers
        self._known: dict[tuple[int, ...], PortCall | End] = {}

    def step(self, state: Moment, position: int) -> Moment | None:
        """One step of one actor; None if it has ended, or waits."""
        answers = state.answers[position]
        if answers is End.DONE:
            return _with(state, position, End.ACKNOWLEDGED, state.cells)
        if isinstance(answers, End):
            return None
        todo = self._next(position, answers)
        if isinstance(todo, End):
            # it ends without a call: there is nothing that could come between
            return _with(state, position, End.ACKNOWLEDGED if todo is End.DONE else todo, state.cells)
        shared = Shared(dict(state.cells))
        try:
            answered = (*answers, getattr(shared, todo.method)(*todo.arguments))
        except NotYet:
            return None
        after = self._next(position, answered)
        return _with(state, position, after if isinstance(after, End) else answered, shared.cells)

    def _next(self, position: int, answers: tuple[Any, ...]) -> PortCall | End:
        """What an actor does once it was answered this: its next call, or how it ends."""
        key = (position, *map(self._numbers.of, answers))
        if key not in self._known:
            self._known[key] = _replayed(self._actors[position], answers)
        return self._known[key]


def _replayed(actor: Actor, answers: Sequence[Any]) -> PortCall | End:
    call = _Caller(answers)
    try:
        actor.run(ports(call, actor))
    except Paused:
        assert call.asked is not None
        return call.asked
    except TidegateError:
        return End.GIVEN_BACK
    return End.DONE


def _with(state: Moment, position: int, after: tuple[Any, ...] | End, cells: Mapping[Cell, Any]) -> Moment:
    return Moment(cells, (*state.answers[:position], after, *state.answers[position + 1 :]))


def run(cells: Cells, *actors: Actor) -> None:
    """Run each actor to its end, one after the other. It may raise what a flow raises."""
    shared = Shared(cells)
    for actor in actors:
        actor.run(ports(lambda method, *arguments: getattr(shared, method)(*arguments), actor))


def _steps(came: Mapping[Any, tuple[Any, str]], key: Any) -> tuple[str, ...]:
    steps = []
    while key is not None:
        key, name = came[key]
        steps.append(name)
    return tuple(reversed([name for name in steps if name]))
