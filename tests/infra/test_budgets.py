"""The bundles stay small, and a cold start imports little (docs/adr/0024-bundles-within-budgets.md): without a clock.

Sizes are unpacked bytes, in megabytes of 10^6. Imports are counted in modules. Each handler is imported in a fresh
process, from a bundle for this machine, because the one for AWS cannot be; what an empty handler needs is subtracted.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import bundling
from infra.roster import ROSTER
from tests.infra.bundles import packed
from tidegate.metrics import NAMESPACE

ROOT = Path(__file__).parents[2]
PROVIDED = frozenset({"boto3", "botocore", "s3transfer", "jmespath", "urllib3", "dateutil", "python_dateutil", "six"})
"""The packages, by the names of their folders, that Lambda's Python runtime has in some version
(https://docs.aws.amazon.com/lambda/latest/dg/lambda-python.html). The bundle has them too, at the tested one."""
FUNCTIONS_MB = 15
"""Beyond what the runtime provides. Lambda's own limit is 250 MB in total."""
SPARK_MB = 240
"""For each Python. EMR Serverless documents no limit for an archive. Each worker unpacks one of them to its disk of 20
GB, or more for a price (https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html), before it
works."""
MODULES = {"intake": 610, "dispatch": 665}
OTHERS = 585
"""How many modules a cold start may import: today's number and about a twentieth more. Powertools' batch processor
brings asyncio, 30 modules, to dispatch."""
PACKAGES = frozenset(
    {
        *("annotated_types", "aws_lambda_powertools", "lambdas", "pydantic", "pydantic_core", "tenacity", "tidegate"),
        *("typing_extensions", "typing_inspection", "ulid", *PROVIDED - {"python_dateutil"}),
    }
)
"""Those of the bundle that a cold start may import from."""


@pytest.fixture(scope="module")
def here() -> Iterator[Path]:
    """The functions as AWS gets them, but for this machine, so that they can be imported."""
    bundle = bundling.functions(ROOT, ROOT / "tidegate.example.toml", dependencies=True, target=bundling.THIS_MACHINE)
    yield from packed(bundle)


def megabytes(*paths: Path) -> float:
    files = (each for path in paths for each in ([path] if path.is_file() else path.rglob("*")))
    return sum(each.stat().st_size for each in files if each.is_file()) / 1_000_000


def package(path: Path) -> str:
    """`boto3` for its folder and for boto3-1.44.5.dist-info, `six` for six.py."""
    return path.name.partition("-")[0].removesuffix(".py")


def loaded(code: str, path: Path) -> set[str]:
    """The names of all modules in a fresh Python that has run `code`, with only `path` and the standard library."""
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ} | {
        "PYTHONPATH": str(path),
        "LAMBDA_TASK_ROOT": str(path),
        "AWS_REGION": "us-east-1",
        "POWERTOOLS_SERVICE_NAME": "budgets",
        "POWERTOOLS_METRICS_NAMESPACE": NAMESPACE,
    }
    command = [sys.executable, "-S", "-B", "-c", f"{code}\nimport sys\nprint(*sys.modules, sep='\\n')"]
    done = subprocess.run(command, env=environment, cwd=path, stdout=subprocess.PIPE, text=True, check=True)
    return set(done.stdout.split("\n")) - {""}


def test_the_functions_bring_little_that_lambda_does_not_have(functions: Path) -> None:
    own = [each for each in functions.iterdir() if package(each) not in PROVIDED]
    assert 1 < megabytes(*own) <= FUNCTIONS_MB


def test_what_lambda_has_is_in_the_bundle_at_the_tested_version(functions: Path) -> None:
    for name in PROVIDED - {"python_dateutil"}:
        assert (functions / name).is_dir() or (functions / f"{name}.py").is_file(), name


def test_the_spark_archives_are_quickly_unpacked(spark: dict[str, Path]) -> None:
    pythons = spark.keys() - {bundling.PACKAGE}
    assert pythons == {*bundling.PYTHONS}
    for python in pythons:
        assert 100 < megabytes(spark[bundling.PACKAGE], spark[python]) <= SPARK_MB, python


@pytest.mark.parametrize("handler", [row.name for row in ROSTER])
def test_a_cold_start_imports_nothing_heavy(here: Path, tmp_path: Path, handler: str) -> None:
    (tmp_path / "app.py").write_text("def handler(event, context):\n    return None\n")
    modules = loaded(f"import lambdas.{handler}.app", here) - loaded("import app", tmp_path)
    theirs = {package(each) for each in here.iterdir()}
    assert {name.partition(".")[0] for name in modules} & theirs <= PACKAGES
    allowed = MODULES.get(handler, OTHERS)
    assert 0.8 * allowed < len(modules) <= allowed, "a wide budget lets much join unseen"
    assert not list(here.rglob("*.pyc")), "measuring leaves something behind"
