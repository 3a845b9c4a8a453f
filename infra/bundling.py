"""What Lambda and Spark are given to run, put together by this machine's Python: no Docker, no Lambda image.

    functions   tidegate/  lambdas/  tidegate.toml  dependencies, unless the stack is for this machine
    spark       tidegate/  dependencies

It happens before CDK sees it, as a folder like any other: CDK's own bundling would do the same behind a
Docker image that nobody pulls, and wrap every error in a JavaScript one.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PYTHON = "3.13"


@dataclass(frozen=True, slots=True)
class Target:
    """The machine that a bundle is for: how uv is told to choose wheels."""

    flags: tuple[str, ...]


AWS = Target(("--python-version", PYTHON, "--python-platform", "aarch64-manylinux_2_28"))
"""Lambda's python3.13 and EMR's images run on Amazon Linux 2023, whose glibc is 2.34."""
THIS_MACHINE = Target(("--python", sys.executable))
"""For running a bundle, built the same way, where there is no Arm and perhaps another Python."""


class BundlingError(Exception):
    """The code could not be put together; the text says which step failed and what it printed."""


@contextmanager
def functions(sources: Path, config: Path, *, dependencies: bool, target: Target = AWS) -> Iterator[Path]:
    """A folder with the functions' code from the checkout `sources`, configured by `config`; gone afterwards.

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
def spark(sources: Path, *, target: Target = AWS) -> Iterator[Path]:
    """A folder with what ingest imports, but for PySpark, which EMR's images have; gone afterwards.

    Raises BundlingError.
    """
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        root = Path(folder)
        _copy(root, sources, "tidegate")
        _install(root, sources, target, "--extra", "spark")
        yield root


def _copy(root: Path, sources: Path, *packages: str) -> None:
    compiled = shutil.ignore_patterns("__pycache__", "*.pyc")
    for package in packages:
        shutil.copytree(sources / package, root / package, ignore=compiled)


def _install(root: Path, sources: Path, target: Target, *extras: str) -> None:
    """Install what pyproject.toml asks for, at the versions and hashes of requirements.txt: wheels only."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config"),
        *("--target", str(root)),
        *(*target.flags, "--only-binary", ":all:"),
        *("--requirements", str(sources / "pyproject.toml"), *extras),
        *("--constraints", str(sources / "requirements.txt"), "--verify-hashes"),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise BundlingError(f"`{' '.join(command)}` failed:\n{done.stdout.strip()}")
    # start scripts name this machine's Python, and nothing calls them there
    shutil.rmtree(root / "bin", ignore_errors=True)
    (root / ".lock").unlink(missing_ok=True)
