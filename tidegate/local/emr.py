"""An EMR Serverless endpoint whose `StartJobRun` runs the real `spark-submit` on this machine.

    python -m tidegate.local.emr --dir DIR

It speaks the REST-JSON of https://docs.aws.amazon.com/emr-serverless/latest/APIReference/ as far as the product uses
it, and refuses what it would have to ignore. A job run is a session of its own with its logs in DIR/jobs/<id>.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import re
import secrets
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.local import toolchain
from tidegate.local.endpoint import Answer, Endpoint, Refusal, Request
from tidegate.local.environment import ACCOUNT, REGION, client
from tidegate.local.guard import GRACE
from tidegate.local.processes import (
    Child,
    follow_lifeline,
    inherited_listener,
    listen,
    python_module,
    spawn,
    url_of,
)

TASKS = 2
"""Tasks that one job runs at once: the N of Spark's `local[N]`."""
CONCURRENT_JOBS = 2
DRIVER_MEMORY = "2g"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A local job lives for seconds: the better compiler would cost more than it gives (12 s instead of 14 for the least
job on two cores)."""
SMALL = {"spark.sql.shuffle.partitions": str(2 * TASKS)}
"""Defaults for a small machine, unless the job says otherwise."""
TOKEN_PATTERN = r"[A-Za-z0-9._-]{1,64}"
ENDED = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
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
    r"spark\.sql\.extensions": "it names what the toolchain's jars hold",
}
"""Settings that only mean something on EMR, and why they are left out here."""

_OPTIONS_WITHOUT_MEANING = frozenset(
    {"--archives", "--driver-cores", "--driver-memory", "--executor-cores", "--executor-memory", "--jars", "--master"}
    | {"--deploy-mode", "--driver-java-options", "--num-executors", "--py-files", "--packages"}
)
_OPTIONS_PASSED_ON = frozenset({"--name"})
_EXCEPTION = r"(?!\d)[\w.]*(Error|Exception|Exit|Interrupt|Rejected|Lost|Unknown|Retryable)\b(: .*)?$"
_CHATTER = r"\d\d/\d\d/\d\d [\d:]+ (INFO|WARN)"
_DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."
_INTERPRETER = frozenset({"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME", "SPARK_HOME", "PATH"})


@dataclass(slots=True)
class Application:
    id: str
    name: str
    release_label: str
    type: str
    architecture: str
    settings: Mapping[str, str]
    token: str
    created_at: float

    @property
    def arn(self) -> str:
        return f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/{self.id}"

    def summary(self) -> dict[str, Any]:
        return {
            "arn": self.arn,
            "name": self.name,
            "releaseLabel": self.release_label,
            "type": self.type,
            "architecture": self.architecture,
            "state": "STARTED",
            "createdAt": self.created_at,
            "updatedAt": self.created_at,
        }


@dataclass(slots=True)
class JobRun:
    """A job run, changed only under the service's lock; times in epoch seconds."""

    id: str
    application: Application
    token: str
    name: str
    role: str
    driver: Mapping[str, Any]
    settings: Mapping[str, str]
    tags: Mapping[str, str]
    timeout_minutes: int
    created_at: float
    state: str = "SUBMITTED"
    details: str = ""
    updated_at: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    process: Child | None = None

    @property
    def arn(self) -> str:
        return f"{self.application.arn}/jobruns/{self.id}"

    def summary(self) -> dict[str, Any]:
        return {
            "applicationId": self.application.id,
            "name": self.name,
            "arn": self.arn,
            "createdBy": self.role,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "executionRole": self.role,
            "state": self.state,
            "stateDetails": self.details,
            "releaseLabel": self.application.release_label,
            "mode": "BATCH",
            "attempt": 1,
        }

    def report(self) -> dict[str, Any]:
        times = {"startedAt": self.started_at, "endedAt": self.ended_at}
        duration = int(self.ended_at - self.started_at) if self.ended_at and self.started_at else 0
        return {
            **self.summary(),
            "jobRunId": self.id,
            "jobDriver": self.driver,
            "tags": self.tags,
            "executionTimeoutMinutes": self.timeout_minutes,
            "totalExecutionDurationSeconds": duration,
            **{name: value for name, value in times.items() if value},
        }


@dataclass(frozen=True, slots=True)
class Machine:
    """Where jobs run: the stack's folder, the Spark to run, the catalogs to offer, the environment to give."""

    folder: Path
    catalogs: tuple[str, ...]
    environment: Mapping[str, str]
    spark: Mapping[str, str] = field(default_factory=dict)
    spark_submit: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def job_folder(self, run: str) -> Path:
        return self.folder / "jobs" / run


def command(run: JobRun, machine: Machine, script: Path) -> list[str]:
    """The `spark-submit` that runs a job here: the application's settings, then the job's, then this machine's."""
    submit = run.driver["sparkSubmit"]
    options, own = parse_parameters(submit.get("sparkSubmitParameters", ""))
    settings = keep_meaningful({**SMALL, **run.application.settings, **run.settings, **own})
    settings.update(local_settings(machine, machine.job_folder(run.id) / "tmp"))
    return [
        *machine.spark_submit,
        *("--master", f"local[{TASKS}]", "--driver-memory", DRIVER_MEMORY),
        *("--jars", ",".join(str(jar) for jar in machine.jars)),
        *options,
        *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        str(script),
        *submit.get("entryPointArguments", []),
    ]


def local_settings(machine: Machine, scratch: Path) -> dict[str, str]:
    """What this machine has in place of EMR's: one SQLite catalog, and nothing that listens outside it."""
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f'{JAVA_OPTIONS} "-Djava.io.tmpdir={scratch}"',
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


def parse_parameters(parameters: str) -> tuple[list[str], dict[str, str]]:
    """`sparkSubmitParameters` as options to pass on and settings. Raises Refusal for what it does not know."""
    options: list[str] = []
    settings: dict[str, str] = {}
    words = iter(shlex.split(parameters))
    for word in words:
        name, equals, inline = word.partition("=")
        if name == "--verbose":
            options.append(name)
            continue
        if name == "--class":
            raise Refusal(400, "ValidationException", "only Python jobs run on this machine, not a --class")
        if name not in {"--conf", "-c"} | _OPTIONS_WITHOUT_MEANING | _OPTIONS_PASSED_ON:
            raise Refusal(400, "ValidationException", f"sparkSubmitParameters: {word!r} is not known on this machine")
        value = inline if equals else next(words, "")
        if name in ("--conf", "-c"):
            key, _, setting = value.partition("=")
            settings[key] = setting
        elif name in _OPTIONS_PASSED_ON:
            options += [name, value]
    return options, settings


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


class Service:
    """The applications and job runs, and the threads that run them."""

    def __init__(self, machine: Machine, publish: Callable[[dict[str, Any]], None], concurrent_jobs: int) -> None:
        self.machine = machine
        self.publish = publish
        self.applications: dict[str, Application] = {}
        self.runs: dict[str, JobRun] = {}
        self.lock = threading.RLock()
        self.stopping = False
        self.slots = concurrent_jobs
        self.executor = ThreadPoolExecutor(concurrent_jobs, thread_name_prefix="job")

    def routes(self) -> list[tuple[str, str, Callable[[Request], Answer]]]:
        return [
            ("POST", "/applications", self.create_application),
            ("GET", "/applications", self.list_applications),
            ("GET", "/applications/{applicationId}", self.get_application),
            ("POST", "/applications/{applicationId}/jobruns", self.start_job_run),
            ("GET", "/applications/{applicationId}/jobruns", self.list_job_runs),
            ("GET", "/applications/{applicationId}/jobruns/{jobRunId}", self.get_job_run),
            ("DELETE", "/applications/{applicationId}/jobruns/{jobRunId}", self.cancel_job_run),
        ]

    # --- applications ---

    def create_application(self, request: Request) -> Answer:
        asked = request.json()
        for name in ("releaseLabel", "type", "clientToken"):
            _demand(bool(asked.get(name)), f"{name} is missing")
        _demand(asked["type"].lower() == "spark", "only Spark applications run on this machine")
        with self.lock:
            application = next(
                (each for each in self.applications.values() if each.token == asked["clientToken"]), None
            ) or Application(
                id="00" + secrets.token_hex(7),
                name=asked.get("name", ""),
                release_label=asked["releaseLabel"],
                type="Spark",
                architecture=asked.get("architecture", "X86_64"),
                settings=_spark_defaults(asked.get("runtimeConfiguration", [])),
                token=asked["clientToken"],
                created_at=time.time(),
            )
            self.applications[application.id] = application
        return Answer({"applicationId": application.id, "name": application.name, "arn": application.arn})

    def list_applications(self, request: Request) -> Answer:
        with self.lock:
            return Answer({"applications": [{"id": each.id, **each.summary()} for each in self.applications.values()]})

    def get_application(self, request: Request) -> Answer:
        application = self._application(request)
        return Answer({"application": {"applicationId": application.id, **application.summary()}})

    def _application(self, request: Request) -> Application:
        if request.path[0] not in self.applications:
            raise Refusal(404, "ResourceNotFoundException", f"Application {request.path[0]} does not exist")
        return self.applications[request.path[0]]

    # --- job runs ---

    def start_job_run(self, request: Request) -> Answer:
        application = self._application(request)
        asked = request.json()
        token = asked.get("clientToken", "")
        _demand(re.fullmatch(TOKEN_PATTERN, token) is not None, f"clientToken {token!r} is not {TOKEN_PATTERN}")
        _demand(bool(asked.get("executionRoleArn")), "executionRoleArn is missing")
        _demand(asked.get("mode", "BATCH") == "BATCH", "only batch jobs run on this machine")
        _demand(asked.get("retryPolicy", {}).get("maxAttempts", 1) == 1, "jobs are not retried on this machine")
        driver = asked.get("jobDriver", {})
        entry_point = driver.get("sparkSubmit", {}).get("entryPoint", "")
        _demand(re.fullmatch(r"s3://[^/]+/.+", entry_point) is not None, f"entryPoint {entry_point!r} is no S3 URI")
        parse_parameters(driver["sparkSubmit"].get("sparkSubmitParameters", ""))
        overrides = asked.get("configurationOverrides", {}).get("applicationConfiguration", [])
        with self.lock:
            for known in self.runs.values():
                if known.token == token and known.application is application:
                    return Answer({"applicationId": application.id, "jobRunId": known.id, "arn": known.arn})
            if self.stopping:
                raise Refusal(500, "InternalServerException", "the endpoint is stopping")
            run = JobRun(
                id="00" + secrets.token_hex(7),
                application=application,
                token=token,
                name=asked.get("name", ""),
                role=asked["executionRoleArn"],
                driver=driver,
                settings=_spark_defaults(overrides),
                tags=asked.get("tags", {}),
                timeout_minutes=int(asked.get("executionTimeoutMinutes", 720)),
                created_at=time.time(),
                updated_at=time.time(),
            )
            self.runs[run.id] = run
            self._announce(run, "")
            active = sum(each.state not in ENDED for each in self.runs.values())
            if active > self.slots:
                self._change(run, "QUEUED")
            self.executor.submit(self._execute, run)
        return Answer({"applicationId": application.id, "jobRunId": run.id, "arn": run.arn})

    def list_job_runs(self, request: Request) -> Answer:
        application = self._application(request)
        states = request.query.get("states", [])
        with self.lock:
            runs = [each for each in self.runs.values() if each.application is application]
        runs.sort(key=lambda each: each.created_at, reverse=True)
        chosen = [each for each in runs if not states or each.state in states]
        limit = int(request.first("maxResults") or 50)
        start = int(request.first("nextToken") or 0)
        page = [{"id": each.id, "type": "Spark", **each.summary()} for each in chosen[start : start + limit]]
        more = {"nextToken": str(start + limit)} if start + limit < len(chosen) else {}
        return Answer({"jobRuns": page, **more})

    def get_job_run(self, request: Request) -> Answer:
        with self.lock:
            return Answer({"jobRun": self._run(request).report()})

    def cancel_job_run(self, request: Request) -> Answer:
        run = self._run(request)
        with self.lock:
            if run.state not in ENDED:
                self._change(run, "CANCELLING", "cancelled on request")
                if run.process is not None:
                    run.process.ask_to_stop()
        return Answer({"applicationId": run.application.id, "jobRunId": run.id})

    def _run(self, request: Request) -> JobRun:
        run = self.runs.get(request.path[1])
        if run is None or run.application is not self._application(request):
            raise Refusal(404, "ResourceNotFoundException", f"JobRun {request.path[1]} does not exist")
        return run

    # --- running them ---

    def _execute(self, run: JobRun) -> None:
        try:
            state, details = self._spark_submit(run)
        except Exception as error:
            state, details = "FAILED", f"{type(error).__name__}: {error}"
        with self.lock:
            if run.state == "CANCELLING":
                state, details = "CANCELLED", run.details
            run.ended_at = time.time()
            run.process = None
            self._change(run, state, details)

    def _spark_submit(self, run: JobRun) -> tuple[str, str]:
        folder = self.machine.job_folder(run.id)
        scratch = folder / "tmp"
        with self.lock:
            if run.state == "CANCELLING" or self.stopping:
                return "CANCELLED", "the endpoint was stopped before the job began"
            self._change(run, "SCHEDULED")
        scratch.mkdir(parents=True)
        try:
            script = self._download(run.driver["sparkSubmit"]["entryPoint"], folder)
            (folder / "command.json").write_text(json.dumps(command(run, self.machine, script), indent=1))
            with self.lock:
                if run.state == "CANCELLING" or self.stopping:
                    return "CANCELLED", "cancelled before the job began"
                run.process = spawn(
                    f"job {run.id}",
                    python_module("tidegate.local.guard", *command(run, self.machine, script)),
                    log=folder / "stdout.log",
                    errors_log=folder / "stderr.log",
                    environment=self._environment(run, scratch),
                    folder=folder,
                )
                run.started_at = time.time()
                self._change(run, "RUNNING")
            process = run.process
            deadline = time.monotonic() + run.timeout_minutes * 60
            while process.is_alive and time.monotonic() < deadline:
                with contextlib.suppress(Exception):
                    process.process.wait(1.0)
            if process.is_alive:
                process.stop(GRACE + 2)
                return "FAILED", f"the job ran longer than its {run.timeout_minutes} minutes"
            code = process.process.returncode
            process.kill()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if code == 0:
            return "SUCCESS", ""
        # spark-submit writes both streams of a Python driver to its own stdout, and its own complaints to stderr
        words = last_words(folder / "stderr.log", folder / "stdout.log")
        return "FAILED", f"{words or 'the driver said nothing'} (exit code {code}; logs in {folder})"

    def _environment(self, run: JobRun, scratch: Path) -> dict[str, str]:
        _, own = parse_parameters(run.driver["sparkSubmit"].get("sparkSubmitParameters", ""))
        settings = {**run.application.settings, **run.settings, **own}
        return {
            **self.machine.environment,
            **driver_environment(settings),
            **self.machine.spark,
            "TMPDIR": str(scratch),
        }

    def _download(self, uri: str, folder: Path) -> Path:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        script = folder / Path(key).name
        script.write_bytes(client("s3", self.machine.environment).get_object(Bucket=bucket, Key=key)["Body"].read())
        return script

    def _change(self, run: JobRun, state: str, details: str = "") -> None:
        previous, run.state = run.state, state
        run.details = details
        run.updated_at = time.time()
        self._announce(run, previous)

    def _announce(self, run: JobRun, previous: str) -> None:
        detail = {
            "jobRunId": run.id,
            "jobRunName": run.name,
            "applicationId": run.application.id,
            "arn": run.arn,
            "releaseLabel": run.application.release_label,
            "state": run.state,
            **({"previousState": previous} if previous else {}),
            "createdBy": run.role,
            "createdAt": _iso(run.created_at),
            "updatedAt": _iso(run.updated_at),
        }
        self.publish(detail)

    def stop(self) -> None:
        """Cancel what runs and wait until it is gone."""
        with self.lock:
            self.stopping = True
            for run in self.runs.values():
                if run.state not in ENDED:
                    self._change(run, "CANCELLING", "the local stack was stopped")
                    if run.process is not None:
                        run.process.ask_to_stop()
        self.executor.shutdown(wait=True)


class Announcer:
    """Tells the event bus what happened, in order; best effort, as on AWS."""

    def __init__(self, events: Any) -> None:
        self.events = events
        self.queue: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def publish(self, detail: dict[str, Any]) -> None:
        _log(f"job run {detail['jobRunId']} is {detail['state']}")
        self.queue.put(detail)

    def _run(self) -> None:
        while True:
            detail = self.queue.get()
            try:
                self.events.put_events(
                    Entries=[
                        {
                            "Source": "aws.emr-serverless",
                            "DetailType": "EMR Serverless Job Run State Change",
                            "Detail": json.dumps(detail),
                            "Resources": [detail["arn"]],
                        }
                    ]
                )
            except Exception as error:
                _log(f"an event was lost: {type(error).__name__}: {error}")


def _demand(condition: bool, message: str) -> None:
    if not condition:
        raise Refusal(400, "ValidationException", message)


def _spark_defaults(configurations: list[Mapping[str, Any]]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for each in configurations:
        _demand(each["classification"] == "spark-defaults", f"{each['classification']} is not known on this machine")
        settings.update(each.get("properties", {}))
    return settings


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _log(message: str) -> None:
    print(f"{_iso(time.time())} {message}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tidegate.local.emr")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--catalog", action="append", default=[], help="an Iceberg catalog that jobs may name")
    parser.add_argument("--concurrent-jobs", type=int, default=CONCURRENT_JOBS)
    arguments = parser.parse_args()
    listener = inherited_listener() or listen()
    follow_lifeline()
    environment = dict(os.environ)
    machine = Machine(
        folder=arguments.dir.resolve(),
        catalogs=tuple(arguments.catalog),
        environment=environment,
        spark=toolchain.spark_environment(),
        spark_submit=(str(toolchain.spark_submit()),),
        jars=tuple(toolchain.jars()),
    )
    machine.warehouse.mkdir(parents=True, exist_ok=True)
    service = Service(machine, Announcer(client("events", environment)).publish, arguments.concurrent_jobs)
    endpoint = Endpoint(listener, service.routes())
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    _log(f"serving {url_of(listener)}")
    stop.wait()
    service.stop()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except toolchain.ToolMissing as missing:
        sys.exit(str(missing))
