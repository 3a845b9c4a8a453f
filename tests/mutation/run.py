"""Runs mutmut on one part, as a process of its own, and writes down what it found.

    python run.py <request.json    in the folder that the mutants are to be put into

mutmut is told here what its configuration cannot tell it. It is pinned, because this reaches into it. Nothing of the
product is imported here: the tests would then run on that, and not on the mutants.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import libcst as cst
import pytest
from _pytest.config import _prepareconfig
from mutmut import __main__ as mutmut
from mutmut.configuration import config
from mutmut.mutation import file_mutation, mutators
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import change_cwd
from mutmut.workers.isolation import ForkRunner, MutantResult, run_in_fork

VERDICTS = "verdicts.json"
KILLERS = Path.cwd() / "killers.txt"
"""Each function's tests that have killed a mutant of it, in the order in which they did."""
SKIPPED = 34
"""What mutmut calls a mutant with this exit code."""


def main(
    modules: Sequence[str],
    only: Sequence[str],
    tests: Sequence[str],
    listed: Sequence[dict[str, Any]],
    requirements: Sequence[str],
) -> None:
    """Test the mutants of `only` (all that were not tested yet, if it is empty) of `modules` with `tests`.

    Not those that are `listed`, by the fields of `Equivalent`. `requirements` are the words that say what a transition
    requires of an item.
    """
    operators = cast(list[Any], mutators.mutation_operators)
    operators[operators.index((cst.BaseString, mutators.operator_string))] = (cst.BaseString, _strings)
    operators.append((cst.Tuple, partial(_requirements, words=frozenset(requirements))))
    with_properties()
    with_tests_collected_once()
    without_the_listed(listed)
    config().only_mutate = list(modules)
    config().pytest_add_cli_args_test_selection = list(tests)
    mutmut._run([f"{name(module)}.*" for module in only], max_children=1)
    found = [verdict for module in only or modules for verdict in verdicts(module)]
    Path(VERDICTS).write_text(json.dumps(found, indent=1))


def with_properties() -> None:
    """mutmut leaves alone what is decorated. A property is changed as any method: its copies go undecorated."""
    skips, arrange = (
        file_mutation.MutationVisitor._skip_node_and_children,
        file_mutation.function_trampoline_arrangement,
    )

    def skip(visitor: file_mutation.MutationVisitor, node: cst.CSTNode) -> bool:
        return not _is_property(node) and skips(visitor, node)

    def arranged(function: cst.FunctionDef, mutants: Any, class_name: str | None) -> Any:
        if not _is_property(function):
            return arrange(function, mutants, class_name)
        empty, (called, *copies), assigned, names = arrange(function.with_changes(decorators=()), mutants, class_name)
        trampoline = cst.ensure_type(called, cst.FunctionDef)
        decorated = trampoline.with_changes(decorators=(*function.decorators, *trampoline.decorators))
        return empty, (decorated, *copies), assigned, names

    file_mutation.MutationVisitor._skip_node_and_children = skip  # type: ignore[assignment, method-assign]
    file_mutation.function_trampoline_arrangement = arranged


def with_tests_collected_once() -> None:
    """mutmut has pytest collect the tests for each mutant anew, which takes longer than most tests. Here they are
    collected before the first one is made, and each mutant's process runs those of its function."""
    collected: list[Collected] = []

    def run_clean_tests(runner: ForkRunner, tests: Iterable[str]) -> int:
        collected.append(Collected())
        return run_in_fork(collected[0].run, list(tests) or collected[0].names())

    def run_tests(runner: PytestRunner, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        if mutant_name is None:
            return alone(runner, mutant_name=None, tests=tests)
        return collected[0].run(telling(function_of(mutant_name), tests), function_of(mutant_name))

    alone = PytestRunner.run_tests
    ForkRunner.run_clean_tests = run_clean_tests  # type: ignore[assignment, method-assign]
    PytestRunner.run_tests = run_tests  # type: ignore[assignment, method-assign]


class Collected:
    """All tests, ready to run: what pytest does in `pytest.main` up to the first of them."""

    def __init__(self) -> None:
        arguments = ["--rootdir=.", "--tb=native", "--quiet", "--capture=no", *config().pytest_add_cli_args]
        with change_cwd("mutants"):
            found = _prepareconfig([*arguments, *config().pytest_add_cli_args_test_selection])
            found._do_configure()
            self._session = pytest.Session.from_config(found)
            found.hook.pytest_sessionstart(session=self._session)
            found.hook.pytest_collection(session=self._session)
        self._items = {item.nodeid: item for item in self._session.items}

    def names(self) -> list[str]:
        return list(self._items)

    def run(self, tests: Sequence[str], function: str = "") -> int:
        """In a process of its own: 1 as soon as one of these fails, which is noted for `function`, else 0."""
        items = [self._items[test] for test in tests]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with change_cwd("mutants"):
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._session.testsfailed:
                    with KILLERS.open("a") as noted:
                        noted.write(f"{function}\t{item.nodeid}\n")
                    return 1
        return 0


def telling(function: str, tests: Iterable[str]) -> list[str]:
    """The tests of a function, and those first that have killed a mutant of it, the last one first. Of the others, one
    that reaches few functions says most about each."""
    pairs = [line.split("\t") for line in KILLERS.read_text().splitlines()] if KILLERS.exists() else []
    killed = {test: number for number, (of, test) in enumerate(pairs, start=1) if of == function}
    reached = Counter(test for found in state().tests_by_mangled_function_name.values() for test in found)
    took = state().duration_by_test
    return sorted(tests, key=lambda test: (-killed.get(test, 0), reached[test], took[test]))


def without_the_listed(listed: Sequence[dict[str, Any]]) -> None:
    """What no test can notice would meet every test that reaches it. It is not run."""
    submit = ForkRunner.submit

    def submitted(runner: ForkRunner, mutant: str, tests: list[str], limit: int, estimate: float) -> None:
        entries = [each for each in listed if each["function"] == function_of(mutant)]
        was, becomes = change(get_diff_for_mutant(mutant)) if entries else ("", "")
        if any(each["was"] == was and becomes in (each["becomes"] or [becomes]) for each in entries):
            runner._no_tests_results.append(MutantResult(mutant, SKIPPED, 0.0))
        else:
            submit(runner, mutant, tests, limit, estimate)

    ForkRunner.submit = submitted  # type: ignore[assignment, method-assign]


def _is_property(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.FunctionDef) and [
        decorator.decorator.value for decorator in node.decorators if isinstance(decorator.decorator, cst.Name)
    ] == ["property"]


def _strings(node: cst.BaseString) -> Iterator[cst.BaseString]:
    """One change of a text is enough, and none of a sentence: tests assert what it must say by its words."""
    if isinstance(node, cst.SimpleString) and not _is_sentence(node.raw_value):
        yield from list(mutators.operator_string(node))[:1]


def _requirements(node: cst.Tuple, words: frozenset[str]) -> Iterator[cst.Tuple]:
    """A transition that requires less: without each of its requirements in turn."""
    if not all(_calls(each.value, words) for each in node.elements):
        return
    for number in range(len(node.elements)):
        left = [*node.elements[:number], *node.elements[number + 1 :]]
        yield node.with_changes(elements=[each.with_changes(comma=cst.Comma()) for each in left])


def _calls(value: cst.BaseExpression, names: frozenset[str]) -> bool:
    return isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value in names


def _is_sentence(text: str) -> bool:
    return " " in text.strip()


def name(module: str) -> str:
    """As it is imported."""
    return module.removesuffix(".py").replace("/", ".")


def verdicts(module: str) -> Iterator[dict[str, str]]:
    data = SourceFileMutationData(path=Path(module))
    data.load()
    for mutant, exit_code in data.exit_code_by_key.items():
        status = status_by_exit_code[exit_code]
        killed = status in ("killed", "timeout")
        yield {
            "mutant": mutant,
            "module": module,
            "function": function_of(mutant),
            "status": status,
            **({} if killed else dict(zip(("was", "becomes"), change(get_diff_for_mutant(mutant)), strict=True))),
        }


def function_of(mutant: str) -> str:
    """`a.b.x_f__mutmut_1` is of `a.b.f`, `a.b.xǁCǁf__mutmut_1` of `a.b.C.f`."""
    path, _, mangled = mutant.rpartition("__mutmut_")[0].rpartition(".")
    return f"{path}.{mangled.removeprefix('xǁ').removeprefix('x_').replace('ǁ', '.')}"


def change(diff: str) -> tuple[str, str]:
    """What a line was and what it becomes, without the indentation; of several lines, joined by blanks."""
    lines = diff.splitlines()[2:]
    return _joined(lines, "-"), _joined(lines, "+")


def _joined(lines: Sequence[str], mark: str) -> str:
    return " ".join(line[1:].strip() for line in lines if line.startswith(mark))


if __name__ == "__main__":
    main(**json.loads(sys.stdin.read()))
