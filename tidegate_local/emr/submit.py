"""A job run as a `spark-submit` of this machine: its command, its environment, its end."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate_local.emr.runs import JobRun
from tidegate_local.endpoint import RefusedRequest
from tidegate_local.environment import client
from tidegate_local.guard import GRACE
from tidegate_local.processes import Child, python_module, spawn

TASKS = 2
"""Tasks that one job runs at once: the N of Spark's `local[N]`."""
DRIVER_MEMORY = "2g"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A local job lives for seconds: the better compiler would cost more than it gives (12 s instead of 14 for the least
job on two cores)."""
SMALL = {"spark.sql.shuffle.partitions": str(2 * TASKS)}
"""Defaults for a small machine, unless the job says otherwise."""
# how long SQLite waits for another driver's commit before it says that the catalog is locked
SQLITE_BUSY_MS = 60_000

MEANINGLESS = {
    r"spark\.archives": "Python and its packages are this machine's",
    r"spark\.(driver|executor)\.(cores|memory|memoryOverhead|instances)": "the size of a job is this machine's",
    r"spark\.(driver|executor)\.extraJavaOptions": "they tune EMR's JVM",
    r"spark\.dynamicAllocation\..*": "there is one executor here, the driver itself",
    r"spark\.emr-serverless\..*": "it is EMR Serverless' own; a driver's environment variables are passed on",
    r"spark\.executorEnv\.PYSPARK_PYTHON": "Python is this machine's",
    r"spark\.hadoop\.(fs\.s3.*|hive\..*)": "it configures EMR's file system and metastore",
    r"spark\.jars": "the jars are those of this machine's toolchain",
    r"spark\.master|spark\.submit\..*": "this machine decides where a job runs",
    r"spark\.sql\.catalog\..*": "the catalog is a SQLite file here",
    r"spark\.tidegate\.credential-secret\..*": "the catalog is a SQLite file here",
    r"spark\.sql\.extensions": "it names what the toolchain's jars hold",
}
"""Settings that only mean something on EMR, and why they are left out here."""

_EXCEPTION = r"(?!\d)[\w.]*(Error|Exception|Exit|Interrupt|Rejected|Lost|Unknown|Retryable)\b(: .*)?$"
_CHATTER = (
    r"\d\d/\d\d/\d\d [\d:]+ (INFO|WARN)|\d{4}-\d\d-\d\d [\d:,]+ [\w.]+ (DEBUG|INFO|WARNING) |WARNING: Using incubator"
)
"""What Spark, Python's logging and the JVM say of a job that goes well."""
_DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."
_INTERPRETER = frozenset({"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME", "SPARK_HOME", "PATH"})


@dataclass(frozen=True, slots=True)
class Machine:
    """Where jobs run: the stack's folder, the Spark to run, the catalogs to offer, the environment to give."""

    folder: Path
    catalogs: tuple[str, ...]
    environment: Mapping[str, str]
    spark: Mapping[str, str] = field(default_factory=dict)
    spark_submit: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()
    java_options: str = ""
    """Further options of a job's JVM, quoted as for a shell."""
    scratch_name: str = "tmp"
    """Another one for each process of the endpoint: a driver of an earlier one may still be ending."""

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def job_folder(self, run: str) -> Path:
        return self.folder / "jobs" / run

    def scratch(self, run: str) -> Path:
        """Where a job's temporary files are, as long as it runs."""
        return self.job_folder(run) / self.scratch_name


def command(run: JobRun, machine: Machine, script: Path) -> list[str]:
    """The `spark-submit` that runs a job here: the application's settings, then the job's, then this machine's."""
    submit = run.driver["sparkSubmit"]
    settings = keep_meaningful({**SMALL, **settings_of(run)})
    settings.update(local_settings(machine, machine.scratch(run.id)))
    return [
        *machine.spark_submit,
        *("--master", f"local[{TASKS}]", "--driver-memory", DRIVER_MEMORY),
        *("--jars", ",".join(str(jar) for jar in machine.jars)),
        *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        str(script),
        *submit.get("entryPointArguments", []),
    ]


def settings_of(run: JobRun) -> dict[str, str]:
    """What is said for this job: by its application, by its request, by its parameters. The last word counts."""
    own = parse_parameters(run.driver["sparkSubmit"].get("sparkSubmitParameters", ""))
    return {**run.application.settings, **run.settings, **own}


def local_settings(machine: Machine, scratch: Path) -> dict[str, str]:
    """What this machine has in place of EMR's: one SQLite catalog, and nothing that listens outside it."""
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f'{JAVA_OPTIONS} {machine.java_options} "-Djava.io.tmpdir={scratch}"',
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "spark-warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name in machine.catalogs:
        catalog = f"spark.sql.catalog.{name}"
        settings |= {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{machine.warehouse / 'catalog.db'}?busy_timeout={SQLITE_BUSY_MS}",
            f"{catalog}.warehouse": f"file://{machine.warehouse}",
            # without it Iceberg refuses to look up a name that may be a view's
            f"{catalog}.jdbc.schema-version": "V1",
            f"{catalog}.cache-enabled": "false",
        }
    return settings


def parse_parameters(parameters: str) -> dict[str, str]:
    """The settings in `sparkSubmitParameters`. Raises RefusedRequest for anything else, which no job of ours has."""
    settings: dict[str, str] = {}
    words = iter(shlex.split(parameters))
    for word in words:
        name, equals, inline = word.partition("=")
        if name != "--conf":
            raise RefusedRequest(
                400, "ValidationException", f"sparkSubmitParameters: {word!r} is not known on this machine"
            )
        key, _, value = (inline if equals else next(words, "")).partition("=")
        settings[key] = value
    return settings


def keep_meaningful(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value for key, value in settings.items() if not any(re.fullmatch(pattern, key) for pattern in MEANINGLESS)
    }


def driver_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The variables that EMR would give the driver, except those that choose an interpreter."""
    named = {
        key.removeprefix(_DRIVER_ENVIRONMENT): value
        for key, value in settings.items()
        if key.startswith(_DRIVER_ENVIRONMENT)
    }
    return {name: value for name, value in named.items() if name not in _INTERPRETER}


def last_words(*logs: Path) -> str:
    """The line of the logs that says best why a job failed: the last exception's, else the last that is no INFO."""
    lines: list[str] = []
    for log in logs:
        with contextlib.suppress(FileNotFoundError):
            lines += log.read_text(encoding="utf-8", errors="replace").splitlines()[-400:]
    exceptions = [line for line in lines if re.match(_EXCEPTION, line)]
    others = [line.strip() for line in lines if line.strip() and not re.match(_CHATTER, line)]
    return next(reversed(exceptions or others), "")[:1000]


def download(run: JobRun, machine: Machine) -> Path:
    """Put the run's script into its folder."""
    bucket, _, key = run.driver["sparkSubmit"]["entryPoint"].removeprefix("s3://").partition("/")
    script = machine.job_folder(run.id) / Path(key).name
    script.write_bytes(client("s3", machine.environment).get_object(Bucket=bucket, Key=key)["Body"].read())
    return script


def begin(run: JobRun, machine: Machine, words: list[str]) -> Child:
    """Start a command as the process of a run, under a guard that takes all of it down."""
    folder = machine.job_folder(run.id)
    return spawn(
        f"job {run.id}",
        python_module("tidegate_local.guard", *words),
        log=folder / "stdout.log",
        errors_log=folder / "stderr.log",
        environment={
            **machine.environment,
            **driver_environment(settings_of(run)),
            **machine.spark,
            "TMPDIR": str(machine.scratch(run.id)),
        },
        folder=folder,
    )


def wait(process: Child, run: JobRun, folder: Path) -> tuple[str, str]:
    """Wait for the end of a run's process, or end it once its time is over; the state it ends in, and why."""
    try:
        process.process.wait(run.timeout_minutes * 60)
    except subprocess.TimeoutExpired:
        process.stop(GRACE + 2)
        return "FAILED", f"the job ran longer than its {run.timeout_minutes} minutes"
    code = process.process.returncode
    process.kill()
    if code == 0:
        return "SUCCESS", ""
    # spark-submit writes both streams of a Python driver to its own stdout, and its own complaints to stderr
    words = last_words(folder / "stderr.log", folder / "stdout.log")
    return "FAILED", f"{words or 'the driver said nothing'} (exit code {code}; logs in {folder})"
