"""How a mistake is planted in the product, and how the run that shows it is named.

A bug is a few words of the product's source exchanged for others, as a tired colleague would. If the words are not
there any more, planting fails: a bug that cannot be planted checks nothing.

Calls are named by where they are made and how often before, not by number, so that the product may change around them.
"""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any
from unittest.mock import patch

from tests.sim import world
from tests.sim.explore import Case, Result, after, run, seeds
from tests.sim.extra_scenarios import EXTRA
from tests.sim.faults import Kind
from tests.sim.kernel import Kernel
from tests.sim.scenarios import PLAIN


@dataclass(frozen=True)
class Edit:
    """In the function or method `where` (module:path), `was` becomes `now`."""

    where: str
    was: str
    now: str


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
    """`mistake` in one sentence, and the run that shows it: a scenario with strikes, or with a seed."""

    name: str
    mistake: str
    edits: tuple[Edit, ...]
    scenario: str = "core"
    strikes: tuple[Strike, ...] = ()
    seed: int | None = None

    @property
    def how(self) -> str:
        if self.seed is not None:
            return f"seed {self.seed}"
        return "; ".join(map(str, self.strikes)) or "no fault"


# ---- planting


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The product with this mistake in it. Raises LookupError if the mistake does not fit the product any more."""
    sources: dict[str, str] = {}
    for edit in bug.edits:
        source = sources.get(edit.where) or textwrap.dedent(inspect.getsource(_function(edit.where)))
        if source.count(edit.was) != 1:
            raise LookupError(f"bug {bug.name}: {edit.was!r} is {source.count(edit.was)} times in {edit.where}")
        sources[edit.where] = source.replace(edit.was, edit.now)
    undo: list[tuple[FunctionType, CodeType]] = []
    try:
        for where, source in sources.items():
            function = _function(where)
            undo.append((function, function.__code__))
            # not the name but the code behind it: whoever has imported the function has the mistake, too
            function.__code__ = _compiled(bug, function, source)
        yield
    finally:
        for function, code in undo:
            function.__code__ = code


def _function(where: str) -> FunctionType:
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    found = inspect.unwrap(found)
    assert isinstance(found, FunctionType), f"{where} is not a function"
    return found


def _compiled(bug: Bug, function: FunctionType, source: str) -> CodeType:
    tree = ast.parse(source)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    module = compile(tree, f"<bug: {bug.name}>", "exec")
    (code,) = (each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == function.__name__)
    return code


# ---- showing

PATIENCE = 4_000.0
"""Seconds. Whatever these runs do takes less, while they are well; a world that is stuck is given up sooner."""
MOST_EVENTS = 10_000


@contextmanager
def hurried() -> Iterator[None]:
    """Within it a world is given up when it has been stuck for `PATIENCE`. Only within `simulation()`."""
    defaults = Kernel.__init__.__kwdefaults__
    with patch.object(world, "PATIENCE", PATIENCE), patch.dict(defaults, most_events=MOST_EVENTS):
        yield


def case_of(bug: Bug) -> Case:
    """The run that shows the bug, its calls by number. Only within `simulation()`, and with the bug planted."""
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
        shown = run(case)
    return shown, run(case)


def find(bug: Bug, *, seeds_tried: int = 150) -> str | None:
    """The cheapest run that shows the bug and is good without it, in words: no fault, one, or a seed; None if there is
    none. Only within `simulation()`. Takes minutes if the bug is hard to find."""
    scenarios = (*PLAIN, *EXTRA)
    plain = [Case(scenario) for scenario in scenarios]
    return (
        _first_shown(bug, plain)
        or next((found for case in plain if (found := _first_shown(bug, _singles(bug, case)))), None)
        or _first_shown(bug, seeds(0, seeds_tried))
    )


def _singles(bug: Bug, case: Case) -> list[Case]:
    with planted(bug):
        return after(run(case))


def _first_shown(bug: Bug, cases: list[Case]) -> str | None:
    for case in cases:
        with planted(bug):
            result = run(case)
        if not result.good and run(case).good:
            sites = [site for site, _ in result.calls]
            where = [
                f"{sites[number]} #{sites[: number + 1].count(sites[number])} {kind}" for number, kind in case.faults
            ]
            return f"{case} {where}: {result.judgement.broken[0]}"
    return None
