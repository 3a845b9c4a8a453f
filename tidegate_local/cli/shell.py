"""Spark's own shells on the tables of a deployment, or of this machine."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.cli.asking import lakes
from tidegate.cli.asking.properties import Caller, caller, of_spark
from tidegate.environment import CATALOG_URI, LEDGER, STACK_DIR
from tidegate.settings import Catalog, SettingsError, load
from tidegate.wiring import settings_file
from tidegate_local import stack, toolchain
from tidegate_local.cli.warehouse import warehouse
from tidegate_local.emr.submit import DRIVER_MEMORY, Machine, local_settings
from tidegate_local.environment import environment_without_a_stack, process_environment
from tidegate_local.errors import LocalError


@dataclass(frozen=True, slots=True)
class Session:
    """How a shell is started: Spark's settings, its jars, and the variables that are laid over an environment."""

    settings: Mapping[str, str]
    jars: tuple[Path, ...]
    environment: Mapping[str, str]


def shell(folder: Path | None, *, python: bool) -> int:
    """Run the shell until it ends; its exit code. Raises Expected or SettingsError."""
    with tempfile.TemporaryDirectory(prefix="tidegate-shell-") as scratch:
        session = _session(folder, Path(scratch))
        return _run(session, Path(scratch), python=python)


def _session(folder: Path | None, scratch: Path) -> Session:
    if folder is None and not os.environ.get(CATALOG_URI) and os.environ.get(LEDGER):
        settings = load(settings_file(os.environ))
        return of_deployment(settings.catalog, caller(), os.environ)
    if folder is None and os.environ.get(CATALOG_URI):
        there = Path(os.environ[CATALOG_URI].removeprefix(lakes.SQLITE)).parent.parent
    else:
        there = (folder or STACK_DIR).resolve()
    return of_this_machine(there, scratch)


def of_this_machine(folder: Path, scratch: Path) -> Session:
    """A session on the warehouse in `folder`; with the stack's buckets too, if it runs. Raises LocalError."""
    names = (lakes.of_this_machine(warehouse(folder)).catalog,)
    try:
        reached = stack.describe(folder)
    except LocalError:
        reached = environment_without_a_stack(folder, os.environ)
    machine = Machine(folder, names, {})
    return Session(
        {**local_settings(machine, scratch), "spark.sql.defaultCatalog": names[0]},
        tuple(toolchain.jars()),
        process_environment(os.environ, reached),
    )


def of_deployment(catalog: Catalog, who: Caller, ambient: Mapping[str, str]) -> Session:
    """A session on the catalog of a deployment, which calls AWS as `who`. Raises SettingsError if a credential of the
    catalog is missing, or ToolMissing."""
    credential = ambient.get(lakes.credential_variable(catalog), "")
    if catalog.credential_secret and not credential:
        raise SettingsError(lakes.credential_advice(catalog))
    given = {
        "AWS_ACCESS_KEY_ID": who.access_key,
        "AWS_SECRET_ACCESS_KEY": who.secret_key,
        "AWS_SESSION_TOKEN": who.token,
        "AWS_REGION": who.region,
    }
    # a token of another login would be sent along
    kept = {name: value for name, value in ambient.items() if name not in ("AWS_SESSION_TOKEN", "AWS_PROFILE")}
    return Session(
        {
            **of_spark(catalog, credential),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.defaultCatalog": catalog.name,
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
        },
        (*toolchain.jars(), *toolchain.aws_jars()),
        {**kept, **{name: value for name, value in given.items() if value}},
    )


def command(session: Session, scratch: Path, *, python: bool) -> list[str]:
    """The words that start a shell. The settings go into a file that only its owner reads: one may be a credential, and
    any process of the machine sees the words."""
    file = scratch / "spark.properties"
    settings = {
        **session.settings,
        # Spark's own catalog is Hive's by default, which would make a database in the folder of whoever asks
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.log.level": "ERROR",
    }
    file.touch(mode=0o600)
    file.write_text("".join(f"{key} {_escaped(value)}\n" for key, value in settings.items()), encoding="utf-8")
    name = "pyspark" if python else "spark-sql"
    return [
        str(toolchain.spark_submit().with_name(name)),
        *("--master", "local[*]", "--driver-memory", DRIVER_MEMORY),
        *("--jars", ",".join(map(str, session.jars))),
        *("--properties-file", str(file)),
    ]


def _escaped(value: str) -> str:
    """A value as a file of Java's properties has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _run(session: Session, scratch: Path, *, python: bool) -> int:
    environment = {**session.environment, **toolchain.spark_environment()}
    if python and not sys.stdin.isatty():
        # PySpark makes its session when Python starts to talk to somebody, which it does not to a pipe unless told
        environment["PYSPARK_DRIVER_PYTHON_OPTS"] = "-i"
    words = command(session, scratch, python=python)
    # Ctrl-C ends a query, which the shell sees to, and not this process
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        return subprocess.run(words, env=environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
