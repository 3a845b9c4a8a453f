"""Budgets for the sizes of the bundles, and for the imports of a cold start.

    python -m infra.budgets    builds both bundles for AWS into build/, measures, and fails if a budget is exceeded

- Sizes are unpacked bytes, in megabytes of 10^6.
- Imports are counted in modules, by package, and timed in milliseconds of processor time. Each is imported in a fresh
  process, and what an empty handler needs is subtracted. A bundle for this machine is imported, because the one for AWS
  cannot be.
- A count is the same on every machine, so tests assert it. The time is not, so only this command judges it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra import bundling
from infra.roster import ROSTER, STANDARD_LIBRARY
from tidegate.metrics import NAMESPACE
from tidegate.settings import EXAMPLE_FILE

RUNS = 4
"""The fastest of several runs counts, because disturbances only make a process slower."""

PROVIDED = frozenset({"boto3", "botocore", "s3transfer", "jmespath", "urllib3", "dateutil", "python_dateutil", "six"})
"""The packages, by the names of their folders, that Lambda's Python runtime has in some version
(https://docs.aws.amazon.com/lambda/latest/dg/lambda-python.html). The bundle has them too, at the tested one."""

FUNCTIONS_MB = 15
"""Beyond what the runtime provides. Lambda's own limit is 250 MB in total."""
SPARK_MB = 240
"""For each Python. EMR Serverless documents no limit for an archive. Each worker unpacks one of them to its disk of 20
GB, or more for a price (https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html), before it
works."""
IMPORT_MS = 400
"""From bytecode, without the time to compile. It grows with the imports."""
SOURCE_IMPORT_MS = 1_000
"""From source, as in Lambda: the bundle has no bytecode, and `/var/task` cannot be written to, so every cold start
compiles all that it imports. botocore alone takes 390 ms of this (docs/adr/0024-bundles-within-budgets.md)."""

_ALL_IMPORT = {
    "annotated_types": 3,
    "boto3": 35,
    "botocore": 85,
    "dateutil": 15,
    "jmespath": 12,
    "lambdas": 5,
    "pydantic": 50,
    "pydantic_core": 5,
    "s3transfer": 18,
    "six": 3,
    "tenacity": 15,
    "tidegate": 75,
    "typing_extensions": 1,
    "typing_inspection": 5,
    "ulid": 5,
    "urllib3": 35,
}
MODULES: Mapping[str, Mapping[str, int]] = {row.name: {**_ALL_IMPORT, **row.imports} for row in ROSTER}
"""By handler and package, the modules that a cold start may import: today's number and about a tenth more. A package
that is not named may not be imported."""

_YARDSTICK = 'compile("x = [a.b(c, d=1) for a in e if a]\\n" * 1_000, "yardstick", "exec")'
_YARDSTICK_MS = 62.0
"""What `_YARDSTICK` takes on the machine that the import budgets were set on."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A budget, and what was measured against it, in the same unit."""

    name: str
    measured: float
    allowed: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.measured <= self.allowed

    def __str__(self) -> str:
        verdict = "" if self.holds else "   TOO MUCH"
        return f"{self.name:<48}{self.measured:>8.1f} of {self.allowed:>7.1f} {self.unit}{verdict}"


def functions_size(bundle: Path) -> Reading:
    """The size of the functions' bundle beyond Lambda's runtime."""
    own = [each for each in bundle.iterdir() if _package(each) not in PROVIDED]
    return Reading("functions, beyond Lambda's runtime", _megabytes(*own), FUNCTIONS_MB, "MB")


def spark_sizes(archives: Mapping[str, Path]) -> Iterator[Reading]:
    """The size of what each worker of a job unpacks, by the Python that it runs."""
    for python in sorted(archives.keys() - {bundling.PACKAGE}):
        size = _megabytes(archives[bundling.PACKAGE], archives[python])
        yield Reading(f"Spark modules for Python {python}, unpacked", size, SPARK_MB, "MB")


def modules(bundle: Path) -> Iterator[Reading]:
    """For each handler in a bundle for this machine: the number of modules of each package that its import loads."""
    theirs = {each.name.partition(".")[0] for each in bundle.iterdir()}
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        idle = _loaded("import app", _empty_handler(Path(folder)))
        for handler, allowed in MODULES.items():
            names = (name.partition(".")[0] for name in _loaded(f"import lambdas.{handler}.app", bundle) - idle)
            counts = Counter(name if name in theirs else STANDARD_LIBRARY for name in names)
            for package, count in sorted(counts.items()):
                yield Reading(f"{handler} imports of {package}", count, allowed.get(package, 0), "modules")


def imports(bundle: Path) -> Iterator[Reading]:
    """The time to import each handler from a bundle for this machine, from bytecode and from source."""
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        empty = _empty_handler(Path(folder))
        for means, allowed, cache in (
            ("bytecode", IMPORT_MS, Path(folder, "bytecode")),
            ("source", SOURCE_IMPORT_MS, None),
        ):
            for name in MODULES:
                runs = [
                    (
                        _processor_ms(f"import lambdas.{name}.app", bundle, cache),
                        _processor_ms("import app", empty, cache),
                        _processor_ms(_YARDSTICK, empty, cache),
                    )
                    for _ in range(RUNS)
                ]
                full, idle, yardstick = map(min, zip(*runs, strict=True))
                # the budgets grow on a slower or busier machine, so that only the imports count
                pace = max(1.0, yardstick / _YARDSTICK_MS)
                yield Reading(f"cold import of {name}, from {means}", full - idle, allowed * pace, "ms")


def _empty_handler(folder: Path) -> Path:
    """A folder in `folder` with a module `app`, whose handler needs nothing."""
    empty = folder / "empty"
    empty.mkdir()
    Path(empty, "app.py").write_text("def handler(event, context):\n    return None\n")
    return empty


def _loaded(code: str, path: Path) -> set[str]:
    """The names of all modules in a fresh Python that has run `code`. Raises CalledProcessError if `code` fails."""
    return set(_printed(f"{code}\nimport sys\nprint(*sys.modules, sep='\\n')", path, None).split("\n")) - {""}


def _processor_ms(code: str, path: Path, cache: Path | None) -> float:
    """The processor time of a fresh Python that has run `code`. Raises CalledProcessError if `code` fails."""
    return 1_000 * float(_printed(f"{code}\nimport time\nprint(time.process_time())", path, cache))


def _printed(code: str, path: Path, cache: Path | None) -> str:
    """What a fresh Python prints that has only `path` and the standard library; bytecode goes to `cache`.

    Without `cache` it neither finds nor writes any for `path`. Raises CalledProcessError if `code` fails.
    """
    flags = ["-S"] if cache else ["-S", "-B"]
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ} | {
        "PYTHONPATH": str(path),
        "LAMBDA_TASK_ROOT": str(path),
        "AWS_REGION": "us-east-1",
        "POWERTOOLS_SERVICE_NAME": "budgets",
        "POWERTOOLS_METRICS_NAMESPACE": NAMESPACE,
    }
    if cache:
        environment["PYTHONPYCACHEPREFIX"] = str(cache)
    command = [sys.executable, *flags, "-c", code]
    return subprocess.run(command, env=environment, cwd=path, stdout=subprocess.PIPE, text=True, check=True).stdout


def _package(path: Path) -> str:
    """`boto3` for its folder and for boto3-1.44.5.dist-info, `six` for six.py."""
    return path.name.partition("-")[0].removesuffix(".py")


def _megabytes(*paths: Path) -> float:
    files = (each for path in paths for each in ([path] if path.is_file() else path.rglob("*")))
    return sum(each.stat().st_size for each in files if each.is_file()) / 1_000_000


def build(sources: Path, into: Path) -> Iterator[Reading]:
    """Both bundles for AWS, in the folders `functions` and `spark` of `into`; raises BundlingError.

    Of the fifty counts of modules, only those over budget are returned.
    """
    config = sources / EXAMPLE_FILE
    with bundling.functions(sources, config, dependencies=True) as folder:
        yield functions_size(_keep(folder, into / "functions"))
    with bundling.spark(sources) as archives:
        yield from spark_sizes({name: _keep(folder, into / "spark" / name) for name, folder in archives.items()})
    with bundling.functions(sources, config, dependencies=True, target=bundling.THIS_MACHINE) as folder:
        yield from (reading for reading in modules(folder) if not reading.holds)
        yield from imports(folder)


def _keep(folder: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    return target


def main() -> int:
    """1 if a budget is exceeded or a bundle cannot be built."""
    sources = Path(__file__).resolve().parents[1]
    held = True
    try:
        for reading in build(sources, sources / "build"):
            print(reading, flush=True)
            held = held and reading.holds
    except bundling.BundlingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
