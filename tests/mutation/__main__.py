"""python -m tests.mutation [MODULE...]: which changes of the code does no test notice?

Exit code 1 if one is not in equivalent.toml. An interrupted run goes on where it stopped, unless a file has changed.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from tests.mutation.equivalent import Equivalent, load
from tests.mutation.parts import PARTS, ROOT, Part
from tidegate.core.items import Requirement

FOLDER = ROOT / "build" / "mutation"
COPIED = ("tidegate", "tidegate_local", "tests", "lambdas", "infra", "pyproject.toml", "tidegate.example.toml")
"""What mutmut copies from the folder that it runs in. It looks there for all it needs."""


def main(modules: Sequence[str]) -> int:
    known = {module for part in PARTS for module in part.modules}
    if unknown := set(modules) - known:
        print(f"not among the modules that are mutated: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    listed = load()
    left = 0
    for part in PARTS:
        only = [module for module in part.modules if module in modules]
        if only or not modules:
            left += report(run(part, only, listed), listed)
    return 1 if left else 0


def run(part: Part, only: Sequence[str], listed: Sequence[Equivalent]) -> list[dict[str, Any]]:
    """What became of each mutant of `only`, or of the whole part."""
    folder = FOLDER / part.name
    prepare(folder)
    request = {
        "modules": part.modules,
        "only": only,
        "tests": part.tests,
        "listed": [asdict(each) for each in listed],
        "requirements": [each.__name__ for each in get_args(Requirement)],
    }
    command = [sys.executable, str(Path(__file__).with_name("run.py"))]
    subprocess.run(command, cwd=folder, input=json.dumps(request), text=True, check=True)
    verdicts: list[dict[str, Any]] = json.loads((folder / "verdicts.json").read_text())
    return verdicts


def prepare(folder: Path) -> None:
    """Forgets what was found about other code or other tests."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(ROOT / name, folder))
    seal, now = folder / "digest", digest(ROOT / name for name in COPIED)
    if not seal.exists() or seal.read_text() != now:
        shutil.rmtree(folder / "mutants", ignore_errors=True)
        seal.write_text(now)


def digest(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found.update(f"{file}\0".encode() + file.read_bytes())
    return found.hexdigest()


def report(verdicts: Iterable[dict[str, Any]], listed: Sequence[Equivalent]) -> int:
    """Prints the sums by module, and each survivor that is not listed; answers how many those are."""
    counts: dict[str, Counter[str]] = {}
    left = 0
    for verdict in verdicts:
        count = counts.setdefault(verdict["module"], Counter())
        if "was" not in verdict:
            count["killed"] += 1
        elif any(each.covers(verdict["function"], verdict["was"], verdict["becomes"]) for each in listed):
            count["equivalent"] += 1
        else:
            count["left"] += 1
            left += 1
            print(f"{verdict['function']} ({verdict['status']})\n  - {verdict['was']}\n  + {verdict['becomes']}")
    for module, count in counts.items():
        print(
            f"{module}: {count.total()} mutants, {count['killed']} killed, {count['equivalent']} equivalent,"
            f" {count['left']} left"
        )
    return left


if __name__ == "__main__":
    sys.exit(main([module for word in sys.argv[1:] for module in word.split()]))
