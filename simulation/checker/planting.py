"""Plants mistakes in the product, and names the runs that show them.

The product's source stays as it is. A function is replaced by one that wraps it (`replaced`), or a request to AWS or
its answer is changed (`rewired`, `answered`, `rewritten`). If the function or the operation no longer exists, planting
fails: a mistake that cannot be planted checks nothing.

A call is named by its site and its count there, not by its number in the run, so that other parts of the product may
change.
"""

import copy
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch

from simulation.checker.explore import Case, Result, after, run, seeds
from simulation.checker.extra_scenarios import EXTRA
from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.scenarios import CHANCE, PLAIN
from simulation.world import course
from simulation.world.faults import Kind
from simulation.world.kernel import Kernel
from simulation.world.product import SERVICES

Planting = Callable[[], AbstractContextManager[None]]
"""The product with one change, as long as the context lasts."""
Call = Callable[[dict[str, Any]], Any]
"""A call of one operation, from its parameters to its answer, as in boto3's clients."""


@dataclass(frozen=True)
class Strike:
    """A fault at the `nth` call (from 1) of a site whose name begins so."""

    site: str
    kind: Kind
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.site}{'' if self.nth == 1 else f' #{self.nth}'}: {self.kind}"


@dataclass(frozen=True)
class Bug:
    """`mistake` is the description. The run that shows it is a scenario with strikes, or a seed. A harmless mistake has
    a run that it changes. A mistake that no run shows has a reason (`because`)."""

    name: str
    mistake: str
    plantings: tuple[Planting, ...]
    scenario: str = "core"
    strikes: tuple[Strike, ...] = ()
    seed: int | None = None
    because: str = ""

    @property
    def how(self) -> str:
        if self.seed is not None:
            return f"seed {self.seed}"
        return "; ".join(map(str, self.strikes)) or "no fault"


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The product with this mistake. Raises LookupError if the product no longer has the place for it."""
    with ExitStack() as stack:
        for planting in bug.plantings:
            stack.enter_context(planting())
        yield


# ---- a function is replaced

REACH = ("tidegate", "lambdas", "simulation")
"""The packages whose modules and classes get the replacement, also where the function was imported by name."""


def replaced(where: str, make: Callable[[Any], Any], *, within: str = "") -> Planting:
    """`make` gets the function or method at `where` (module:path) and returns its replacement: everywhere, or in the
    module `within` only. For a property it gets and returns the function that reads it.

    The replacement must call the function that `make` got: the imported name is the replacement itself by then.
    """

    @contextmanager
    def planting() -> Iterator[None]:
        there = _found(where)
        instead = _instead_of(there, where, make)
        _exchange(there, instead, within)
        try:
            yield
        finally:
            # everywhere: a module that was first imported meanwhile knows nothing else
            _exchange(instead, there)

    return planting


def _found(where: str) -> Any:
    module, _, path = where.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"there is no {where}: {error}") from error
    return found


def _instead_of(there: Any, where: str, make: Callable[[Any], Any]) -> Any:
    if isinstance(there, property):
        return property(_anew(there.fget, make))
    if isinstance(there, (staticmethod, classmethod)):
        return type(there)(_anew(there.__func__, make))
    if not callable(there) or isinstance(there, type):
        raise LookupError(f"{where} is not a function")
    return _anew(there, make)


def _anew(real: Any, make: Callable[[Any], Any]) -> Callable[..., Any]:
    """A new function object around the result of `make`, so that undoing finds it."""
    made = make(real)

    @functools.wraps(real)
    def instead(*arguments: Any, **named: Any) -> Any:
        return made(*arguments, **named)

    return instead


def _exchange(there: Any, instead: Any, within: str = "") -> None:
    for owner in _owners(within):
        for name, value in list(vars(owner).items()):
            if value is there:
                setattr(owner, name, instead)


def _owners(within: str) -> list[ModuleType | type]:
    """The modules in `REACH`, their classes, and the base classes of these."""
    names = [name for name in list(sys.modules) if _reached(name) and within in ("", name)]
    modules = [sys.modules[name] for name in names]
    classes = [
        ancestor
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        for ancestor in value.__mro__
        if _reached(ancestor.__module__)
    ]
    return [*modules, *dict.fromkeys(classes)]


def _reached(module: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in REACH)


def but(port: Any, **instead: Any) -> Any:
    """A port (a ledger, a work bucket) with these methods in place of its own."""

    class But:
        def __getattr__(self, name: str) -> Any:
            return instead[name] if name in instead else getattr(port, name)

    return But()


# ---- a call of AWS is changed


def answered(service: str, operation: str, make: Callable[[Call], Call]) -> Planting:
    """`make` gets the function that calls this operation and returns its replacement. That may change the answer, catch
    or raise an error, or call twice. Only within `simulation()`."""

    @contextmanager
    def planting() -> Iterator[None]:
        client = _client(service, operation)
        before: Callable[[str, dict[str, Any]], Any] = client._make_api_call
        mine = vars(client).get("_make_api_call")
        instead = make(lambda parameters: before(operation, parameters))

        def call(name: str, parameters: dict[str, Any]) -> Any:
            # a copy: what the product has asked for is the product's
            return instead(copy.deepcopy(parameters)) if name == operation else before(name, parameters)

        client._make_api_call = call
        try:
            yield
        finally:
            if mine is None:
                del client._make_api_call
            else:
                client._make_api_call = mine

    return planting


def rewired(service: str, operation: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Planting:
    """`change` gets the parameters of a call and returns those to send; None sends nothing, and the answer is that of a
    successful call. Only within `simulation()`."""

    def make(ask: Call) -> Call:
        def call(parameters: dict[str, Any]) -> Any:
            changed = change(parameters)
            return {} if changed is None else ask(changed)

        return call

    return answered(service, operation, make)


def rewritten(pk: str, change: Callable[[WriteRequest], None]) -> Planting:
    """Changes each conditional write to an item whose key begins with `pk`, alone or in a transaction. Only within
    `simulation()`."""

    def changed(request: dict[str, Any]) -> None:
        write = WriteRequest(request)
        if write.pk.startswith(pk):
            change(write)

    def alone(parameters: dict[str, Any]) -> dict[str, Any]:
        changed(parameters)
        return parameters

    def together(parameters: dict[str, Any]) -> dict[str, Any]:
        for action in parameters["TransactItems"]:
            for request in action.values():
                changed(request)
        return parameters

    @contextmanager
    def planting() -> Iterator[None]:
        with ExitStack() as stack:
            for operation in ("PutItem", "UpdateItem", "DeleteItem"):
                stack.enter_context(rewired("dynamodb", operation, alone)())
            stack.enter_context(rewired("dynamodb", "TransactWriteItems", together)())
            yield

    return planting


def _client(service: str, operation: str) -> Any:
    from tidegate import wiring

    if service not in SERVICES:
        raise LookupError(f"nobody is a client of {service}")
    client = wiring._client(service)
    if operation not in client.meta.service_model.operation_names:
        raise LookupError(f"{service} has no operation {operation}")
    return client


# ---- showing

PATIENCE = 4_000.0
"""Seconds. A good run takes less, and a stuck world is given up sooner."""
WORLDS_PATIENCE = course.PATIENCE
MOST_EVENTS = 10_000
WORLDS_EVENTS = (Kernel.__init__.__kwdefaults__ or {})["most_events"]


@contextmanager
def hurried() -> Iterator[None]:
    """Within it a world is given up when it has been stuck for `PATIENCE`. Only within `simulation()`."""
    defaults = Kernel.__init__.__kwdefaults__
    with patch.object(course, "PATIENCE", PATIENCE), patch.dict(defaults, most_events=MOST_EVENTS):
        yield


def _run(case: Case) -> Result:
    """Repeats a run that may have been given up too soon, with a world's own patience."""
    result = run(case)
    if not any(promise.startswith("liveness") for promise in result.judgement.broken):
        return result
    defaults = Kernel.__init__.__kwdefaults__
    with patch.object(course, "PATIENCE", WORLDS_PATIENCE), patch.dict(defaults, most_events=WORLDS_EVENTS):
        return run(case)


def case_of(bug: Bug) -> Case:
    """The run that shows the bug, with its calls by number. Only within `simulation()`, with the bug planted."""
    if bug.seed is not None:
        return Case(bug.scenario, seed=bug.seed)
    case = Case(bug.scenario)
    for strike in bug.strikes:
        case = Case(bug.scenario, (*case.faults, (_number(run(case), strike), strike.kind)))
    return case


def _number(result: Result, strike: Strike) -> int:
    there = [number for number, (site, _) in enumerate(result.calls) if site.startswith(strike.site)]
    last = result.case.faults[-1][0] if result.case.faults else -1
    if len(there) < strike.nth or there[strike.nth - 1] <= last:
        raise LookupError(f"{result.case} has no call ({strike}) after its last fault; such calls: {there}")
    return there[strike.nth - 1]


def show(bug: Bug) -> tuple[Result, Result]:
    """The same run with the bug, and without it. Only within `simulation()`."""
    with planted(bug):
        case = case_of(bug)
        shown = _run(case)
    return shown, _run(case)


def find(bug: Bug, scenarios: Sequence[str] = (), *, seeds_tried: int = 150) -> str | None:
    """A description of the cheapest run that shows the bug and is good without it: no fault, one, or a seed; None if
    there is none. Only within `simulation()`. It may take an hour, and less with `scenarios`."""
    seeded = [case for scenario in scenarios or (CHANCE,) for case in seeds(0, seeds_tried, scenario)]
    scenarios = scenarios or (*PLAIN, *EXTRA)
    plain = [Case(scenario) for scenario in scenarios if scenario != CHANCE]
    return (
        _first_shown(bug, plain)
        or next((found for case in plain if (found := _first_shown(bug, _singles(bug, case)))), None)
        or _first_shown(bug, seeded)
    )


def _singles(bug: Bug, case: Case) -> list[Case]:
    with planted(bug):
        return after(run(case))


def _first_shown(bug: Bug, cases: list[Case]) -> str | None:
    for case in cases:
        with planted(bug):
            result = _run(case)
        if not result.good and _run(case).good:
            sites = [site for site, _ in result.calls]
            where = [
                f"{sites[number]} #{sites[: number + 1].count(sites[number])} {kind}" for number, kind in case.faults
            ]
            return f"{case} {where}: {result.judgement.broken[0]}"
    return None
