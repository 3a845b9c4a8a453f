"""A name is of one thing: no class of the product, and no alias of a type, is called like another one."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("tidegate", "tidegate_local", "infra", "lambdas", "simulation", "bench")

TWICE = {
    "Refused": "the guard's code is part of every template: to rename a class in it would change deployed stacks",
}
"""What is defined twice, and why."""


def named(source: str) -> Iterator[str]:
    """The classes that a module defines, nested ones too, and the aliases of types at its top."""
    module = ast.parse(source)
    yield from (node.name for node in ast.walk(module) if isinstance(node, ast.ClassDef))
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                # CamelCase is a type's; constants are in capitals
                if re.match(r"_?[A-Z]\w*[a-z]", name):
                    yield name


def repeated(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Each name that more than one place defines, with the places."""
    places = defaultdict(list)
    for place, source in sources.items():
        for name in named(source):
            places[name].append(place)
    return {name: where for name, where in places.items() if len(where) > 1}


def test_no_two_classes_share_a_name() -> None:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    found = repeated({str(file.relative_to(ROOT)): file.read_text() for file in files})
    assert {name: where for name, where in found.items() if name not in TWICE} == {}
    assert TWICE.keys() <= found.keys(), "an exception that nothing needs any more"


def test_the_check_can_fail() -> None:
    module = "LIMIT = 1\nKey = tuple[str, str]\nclass Outer:\n    class Inner: ...\n"
    assert repeated({"a.py": module, "b.py": "LIMIT = 2\nclass Key: ..."}) == {"Key": ["a.py", "b.py"]}
    assert repeated({"a.py": module, "b.py": "class Inner: ..."}) == {"Inner": ["a.py", "b.py"]}
    assert repeated({"a.py": module}) == {}
