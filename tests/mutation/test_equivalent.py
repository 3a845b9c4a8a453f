"""The list of mutants that no test can notice: each entry names code that is there, and says why. Nothing is run."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.equivalent import Equivalent, load
from tests.mutation.parts import PARTS, ROOT

LISTED = load()


def functions(module: str) -> dict[str, str]:
    """The source of each function of the module by its full name, every line without its indentation."""
    source = (ROOT / module).read_text()
    lines = source.splitlines()  # ast.get_source_segment would split them again for each function
    inside: list[tuple[str, ast.stmt]] = [("", each) for each in ast.parse(source).body]
    inside += [(f"{of.name}.", each) for _, of in inside if isinstance(of, ast.ClassDef) for each in of.body]
    name = module.removesuffix(".py").replace("/", ".")
    return {
        f"{name}.{of}{each.name}": " ".join(line.strip() for line in lines[each.lineno - 1 : each.end_lineno])
        for of, each in inside
        if isinstance(each, ast.FunctionDef)
    }


SOURCES = {name: text for part in PARTS for module in part.modules for name, text in functions(module).items()}


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: f"{entry.function}: {entry.was}")
def test_each_entry_names_a_function_and_lines_that_are_there(entry: Equivalent):
    assert entry.function in SOURCES
    assert entry.was in SOURCES[entry.function]


@pytest.mark.parametrize("entry", LISTED, ids=lambda entry: f"{entry.function}: {entry.was}")
def test_each_entry_gives_its_reason_in_a_sentence(entry: Equivalent):
    assert len(entry.reason.split()) >= 4
    assert entry.reason.endswith(".")


def test_nothing_is_listed_twice():
    found = Counter((entry.function, entry.was, change) for entry in LISTED for change in entry.becomes or ("",))
    assert [each for each, times in found.items() if times > 1] == []


def test_an_entry_covers_its_own_changes_only():
    entry = Equivalent("a.b.c", "x = 1", ("x = 2", "x = None"), "Nobody reads it at all.")
    assert entry.covers("a.b.c", "x = 1", "x = None")
    assert not entry.covers("a.b.c", "x = 1", "x = 3")
    assert not entry.covers("a.b.d", "x = 1", "x = 2")
    assert Equivalent("a.b.c", "x = 1", (), "Nobody reads it at all.").covers("a.b.c", "x = 1", "x = 3")


def test_every_module_of_core_and_the_flows_is_mutated_and_every_test_is_there():
    modules = [module for part in PARTS for module in part.modules]
    assert len(modules) == len(set(modules))
    assert {"tidegate/core/claims.py", "tidegate/flows/settle.py", "tidegate/stores/dynamodb.py"} <= set(modules)
    assert all(Path(ROOT / path).is_file() for part in PARTS for path in (*part.modules, *part.tests))


def test_whoever_runs_the_mutants_imports_nothing_of_the_product():
    """It would be there before the mutants are, and the tests would run on it."""
    tree = ast.parse((ROOT / "tests/mutation/run.py").read_text())
    imported = {each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    imported |= {name.name for each in ast.walk(tree) if isinstance(each, ast.Import) for name in each.names}
    assert {name.partition(".")[0] for name in imported} & {"tidegate", "tidegate_local", "tests"} == set()
