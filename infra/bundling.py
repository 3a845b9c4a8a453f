"""The bundles of code for Lambda and Spark, built by this machine's Python, without Docker.

    functions   tidegate/  lambdas/  tidegate.toml  dependencies, unless the stack is for this machine
    spark       tidegate/  and, apart, the dependencies for each Python that EMR's image may have

tidegate/cli/ and tidegate/ui/ are in neither.

CDK receives the finished folder. Its own bundling would name a Docker image that is never pulled, and wrap every error
in a JavaScript one.

uv takes only wheels whose names fit the target, and only those that requirements.txt locks. A test looks at the native
files in them.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PYTHON = "3.13"
"""Lambda's."""
PYTHONS = ("3.11", "3.12", "3.13")
"""Those that EMR's image may have. For emr-spark-8.1.0 the Release Guide lists 3.11 and 3.13, and the notes of EMR
Serverless announce 3.12. A job fetches the dependencies for the one that it runs in."""
PACKAGE = "package"
"""The name of the archive of our own code."""

NOT_RUN = (
    "**/tests",
    # what C++ is compiled against, and second names of libraries, which only a compiler looks for
    *("pyarrow/include", "pyarrow/src", "pyarrow/libarrow*.so", "pyarrow/libarrow*.so.*.*"),
    # a job reads S3 by obstore, and speaks to no Flight server
    *("pyarrow/*_flight*", "pyarrow/*_s3*"),
)
"""What the dependencies of a job hold and no job runs. Arrow's library for Substrait stays: the others load it."""
SERVICES = frozenset({"dynamodb", "s3", "secretsmanager", "sso", "sso-oidc", "sts"})
"""The services that a job calls, by botocore's names, and those that credentials come from."""

Target = tuple[str, ...]
"""The machine that a bundle is for: the arguments with which uv chooses wheels."""


def aws(python: str, processor: str = "arm64") -> Target:
    """That Python on Lambda or EMR, on a processor by Lambda's name: both run on Amazon Linux 2023, whose glibc is
    2.34."""
    platform = {"arm64": "aarch64", "x86_64": "x86_64"}[processor]
    return ("--python-version", python, "--python-platform", f"{platform}-manylinux_2_28")


AMAZON_LINUX = {processor: aws(PYTHON, processor) for processor in ("arm64", "x86_64")}
"""The targets of the functions, by Lambda's names of the processors."""
AWS = AMAZON_LINUX["arm64"]
"""What is deployed: functions and jobs run on Arm."""
THIS_MACHINE: Target = ("--python", sys.executable)
"""For a bundle that is built in the same way, but runs on this machine's processor and Python."""


class BundlingError(Exception):
    """A bundle could not be built. The text has the step that failed, and its output."""


@contextmanager
def functions(sources: Path, config: Path, *, dependencies: bool, target: Target = AWS) -> Iterator[Path]:
    """A folder with the functions' code from the checkout `sources`, configured by `config`. It is deleted at the end.

    The same sources, configuration and lock give the same files. Raises BundlingError.
    """
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        root = Path(folder)
        _copy(root, sources, "tidegate", "lambdas")
        shutil.copyfile(config, root / "tidegate.toml")
        if dependencies:
            _install(root, sources, target)
        yield root


@contextmanager
def spark(sources: Path, *, targets: Mapping[str, Target] | None = None) -> Iterator[dict[str, Path]]:
    """The folders with the imports of ingest, except PySpark, which EMR's images have: our own code as `package`, and
    the dependencies for each Python under its version. `targets` are by default those of AWS. They are deleted at the
    end.

    Raises BundlingError.
    """
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        package = Path(folder, PACKAGE)
        _copy(package, sources, "tidegate")
        made = {PACKAGE: package}
        for python, target in (targets or {each: aws(each) for each in PYTHONS}).items():
            made[python] = Path(folder, python)
            made[python].mkdir()
            _install(made[python], sources, target, "--extra", "spark")
            leave_out(made[python])
        yield made


def leave_out(root: Path) -> None:
    """Delete what no job runs from the installed dependencies: half of what every worker would fetch and unpack."""
    for pattern in NOT_RUN:
        for path in sorted(root.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (root / "botocore" / "data").glob("*/"):
        if path.name not in SERVICES:
            shutil.rmtree(path)


def _copy(root: Path, sources: Path, *packages: str) -> None:
    # the command line and the page are for a person's machine, and their libraries are in no bundle
    left_out = shutil.ignore_patterns("__pycache__", "*.pyc", "cli", "ui")
    for package in packages:
        shutil.copytree(sources / package, root / package, ignore=left_out)


def _install(root: Path, sources: Path, target: Target, *extras: str) -> None:
    """Install the dependencies of pyproject.toml, at the versions and hashes of requirements.txt: wheels only."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config"),
        *("--target", str(root)),
        *(*target, "--only-binary", ":all:"),
        *("--requirements", str(sources / "pyproject.toml"), *extras),
        *("--constraints", str(sources / "requirements.txt"), "--verify-hashes"),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise BundlingError(f"`{' '.join(command)}` failed:\n{done.stdout.strip()}")
    # start scripts name this machine's Python, and nothing calls them in AWS
    shutil.rmtree(root / "bin", ignore_errors=True)
    (root / ".lock").unlink(missing_ok=True)
