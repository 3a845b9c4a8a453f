"""The EMR Serverless endpoint: through boto3, with a stand-in for spark-submit, and once with the real one."""

import json
import os
import signal
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.patience import eventually
from tidegate_local.emr.api import routes
from tidegate_local.emr.service import EmulatedEmr
from tidegate_local.emr.submit import Machine
from tidegate_local.endpoint import Endpoint
from tidegate_local.environment import client, local_environment, process_environment
from tidegate_local.guard import session_members
from tidegate_local.processes import answers, listen, python_module, spawn, url_of

# Runs the script at the end of the options, as spark-submit would; like PySpark's its workers leave the process group.
SUBMIT = """#!{python}
import os, subprocess, sys, time
at = next(i for i, each in enumerate(sys.argv) if each.endswith(".py") and i)
worker = subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(600)"])
open("worker.pid", "w").write(str(worker.pid))
code = subprocess.call([sys.executable, *sys.argv[at:]])
sys.exit(code)
"""

SCRIPT = """
import os, sys, time
verb, *rest = sys.argv[1:]
print("verb", verb, rest, os.environ.get("GIVEN"))
if verb == "wait":
    time.sleep(600)
if verb == "fail":
    raise LookupError("no such batch")
"""


@pytest.fixture(scope="module")
def s3_environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("services")
    with listen() as listener:
        url = url_of(listener)
        local = local_environment(folder, services=url, jobs=url, events=url, ambient={})
        environment = process_environment(os.environ, local)
        services = spawn(
            "services",
            python_module("tidegate_local.services"),
            log=folder / "log",
            environment=environment,
            listener=listener,
        )
        try:
            while not answers(url, timeout=10):
                assert services.is_alive, services.death()
            s3 = client("s3", local)
            s3.create_bucket(Bucket="assets")
            s3.put_object(Bucket="assets", Key="entry.py", Body=SCRIPT.encode())
            yield environment
        finally:
            services.stop(5)


class Emr:
    """An endpoint with one application, and what it announced."""

    def __init__(self, url, folder):
        self.folder = folder
        self.client = boto3.client(
            "emr-serverless",
            endpoint_url=url,
            region_name="us-east-1",
            config=Config(retries={"total_max_attempts": 1}),
        )
        self.application = self.client.create_application(
            name="a",
            releaseLabel="emr-spark-8.1.0",
            type="Spark",
            architecture="ARM64",
            clientToken="t",
            runtimeConfiguration=[
                {
                    "classification": "spark-defaults",
                    "properties": {"spark.x": "1", "spark.emr-serverless.driverEnv.GIVEN": "yes"},
                }
            ],
        )["applicationId"]
        self.announced = []

    def start(self, *arguments, token, **options):
        submit = {"entryPoint": "s3://assets/entry.py", "entryPointArguments": list(arguments)}
        return self.client.start_job_run(
            applicationId=self.application,
            clientToken=token,
            executionRoleArn="arn:aws:iam::123456789012:role/job",
            jobDriver={"sparkSubmit": submit},
            **options,
        )["jobRunId"]

    def get(self, run):
        return self.client.get_job_run(applicationId=self.application, jobRunId=run)["jobRun"]

    def wait(self, run, *states):
        wanted = f"{run} to be {' or '.join(states)}"
        return eventually(lambda: self.get(run), lambda report: report["state"] in states, waiting_for=wanted)

    def cancel(self, run):
        self.client.cancel_job_run(applicationId=self.application, jobRunId=run)

    def log(self, run):
        return (self.folder / "jobs" / run / "stdout.log").read_text()


@contextmanager
def serving(folder, environment, *, slots=2):
    submit = folder / "submit"
    submit.write_text(SUBMIT.format(python=sys.executable))
    submit.chmod(0o755)
    announced = []
    machine = Machine(folder, ("lake",), environment, {}, (str(submit),), (Path("/jars/a.jar"),))
    service = EmulatedEmr(machine, announced.append, slots)
    with listen() as listener:
        endpoint = Endpoint(listener, routes(service))
        thread = threading.Thread(target=endpoint.serve_forever)
        thread.start()
        emr = Emr(url_of(listener), folder)
        emr.announced = announced
        try:
            yield emr
        finally:
            service.stop()
            endpoint.shutdown()
            thread.join()


@pytest.fixture
def emr(tmp_path, s3_environment):
    with serving(tmp_path, s3_environment) as running:
        yield running


def gone(pid_file):
    """Whether the process named in a file ends."""
    pid = int(pid_file.read_text())

    def ended():
        try:
            os.kill(pid, 0)
            return ") Z" in Path(f"/proc/{pid}/stat").read_text() if Path("/proc/self").exists() else False
        except (ProcessLookupError, FileNotFoundError):
            return True

    return eventually(ended, waiting_for=f"process {pid} of {pid_file} to end")


def appears(path):
    eventually(lambda: path.exists() and path.read_text(), waiting_for=f"{path} to appear")
    return path


def test_a_job_runs_its_script_and_succeeds(emr):
    run = emr.start("ingest", "--batch=1", token="b-1", name="flights", tags={"k": "v"})
    report = emr.wait(run, "SUCCESS", "FAILED")
    assert report["state"] == "SUCCESS"
    assert (report["name"], report["tags"], report["releaseLabel"]) == ("flights", {"k": "v"}, "emr-spark-8.1.0")
    assert report["startedAt"] <= report["endedAt"]
    assert "verb ingest ['--batch=1'] yes" in emr.log(run)
    assert gone(emr.folder / "jobs" / run / "worker.pid")  # even what left the process group
    assert not (emr.folder / "jobs" / run / "tmp").exists()
    told = [(each["state"], each.get("previousState")) for each in emr.announced]
    expected = [("SUBMITTED", None), ("SCHEDULED", "SUBMITTED"), ("RUNNING", "SCHEDULED"), ("SUCCESS", "RUNNING")]
    assert told == expected
    assert {(each["jobRunId"], each["applicationId"]) for each in emr.announced} == {(run, emr.application)}


def test_a_failed_job_says_why(emr):
    report = emr.wait(emr.start("fail", token="b-1"), "SUCCESS", "FAILED")
    assert report["state"] == "FAILED"
    assert report["stateDetails"].startswith("LookupError: no such batch (exit code 1")


def test_an_entry_point_that_is_not_there_fails_the_job(emr):
    submit = {"entryPoint": "s3://assets/gone.py"}
    run = emr.client.start_job_run(
        applicationId=emr.application,
        clientToken="t",
        executionRoleArn="arn:aws:iam::1:role/r",
        jobDriver={"sparkSubmit": submit},
    )["jobRunId"]
    assert "NoSuchKey" in emr.wait(run, "FAILED")["stateDetails"]


def test_one_token_is_one_job(emr):
    first = emr.start("ingest", token="b-1")
    assert emr.start("ingest", token="b-1") == first
    emr.wait(first, "SUCCESS")
    assert emr.start("ingest", token="b-1") == first
    assert emr.start("ingest", token="b-2") != first
    runs = emr.client.list_job_runs(applicationId=emr.application)["jobRuns"]
    assert len(runs) == 2


def test_jobs_wait_for_a_slot_and_can_be_cancelled_there(tmp_path, s3_environment):
    with serving(tmp_path, s3_environment, slots=1) as emr:
        first, second, third = (emr.start("wait", token=str(number)) for number in range(3))
        emr.wait(first, "RUNNING")
        assert [emr.get(each)["state"] for each in (second, third)] == ["QUEUED", "QUEUED"]
        emr.cancel(second)
        worker = appears(tmp_path / "jobs" / first / "worker.pid")
        emr.cancel(first)
        assert emr.wait(first, "CANCELLED")["stateDetails"] == "cancelled on request"
        assert gone(worker)
        emr.wait(second, "CANCELLED")
        emr.wait(third, "RUNNING")
        assert not (tmp_path / "jobs" / second / "command.json").exists()
        listed = emr.client.list_job_runs(applicationId=emr.application, states=["CANCELLED"])["jobRuns"]
        assert {each["id"] for each in listed} == {first, second}
        worker = appears(tmp_path / "jobs" / third / "worker.pid")
    assert gone(worker)


def test_what_had_not_ended_is_run_again_as_the_same_run(tmp_path, s3_environment):
    with serving(tmp_path, s3_environment, slots=1) as emr:
        done, failed = emr.start("ingest", token="done"), emr.start("fail", token="failed")
        ended = [emr.wait(run, "SUCCESS", "FAILED") for run in (done, failed)]
        running, queued, given_up = (emr.start("wait", token=each) for each in ("running", "queued", "given-up"))
        emr.wait(running, "RUNNING")
        emr.cancel(given_up)
        emr.wait(given_up, "CANCELLING", "CANCELLED")
        application = emr.application
        worker = appears(tmp_path / "jobs" / running / "worker.pid")
    assert gone(worker)
    worker.unlink()
    with serving(tmp_path, s3_environment, slots=1) as emr:
        assert emr.application == application
        assert [emr.get(run) for run in (done, failed)] == ended
        assert emr.wait(running, "RUNNING")["name"] == ""
        assert emr.wait(given_up, "CANCELLED")["state"] == "CANCELLED"
        appears(tmp_path / "jobs" / running / "worker.pid")
        tokens = ("done", "running", "queued")
        assert [emr.start("ingest", token=each) for each in tokens] == [done, running, queued]
        emr.cancel(running)
        emr.wait(running, "CANCELLED")
        emr.wait(queued, "RUNNING")
        updated = emr.client.update_application(
            applicationId=application,
            clientToken="u",
            releaseLabel="emr-spark-9.0.0",
            runtimeConfiguration=[{"classification": "spark-defaults", "properties": {"spark.x": "2"}}],
        )
        assert updated["application"]["releaseLabel"] == "emr-spark-9.0.0"
    with serving(tmp_path, s3_environment, slots=1) as emr:
        found = emr.client.get_application(applicationId=application)["application"]
        assert found["releaseLabel"] == "emr-spark-9.0.0"
        emr.cancel(queued)
        later = emr.start("ingest", token="later")
        emr.wait(later, "SUCCESS")
        words = json.loads((tmp_path / "jobs" / later / "command.json").read_text())
        assert "spark.x=2" in words


def test_a_job_that_takes_too_long_fails(tmp_path, s3_environment, monkeypatch):
    with serving(tmp_path, s3_environment) as emr:
        run = emr.start("wait", token="1", executionTimeoutMinutes=0)
        assert "longer than its 0 minutes" in emr.wait(run, "FAILED")["stateDetails"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"clientToken": "has space"}, "clientToken"),
        ({"jobDriver": {"hive": {"query": "q"}}}, "entryPoint"),
        ({"jobDriver": {"sparkSubmit": {"entryPoint": "/local.py"}}}, "entryPoint"),
        ({"mode": "STREAMING"}, "batch"),
        ({"retryPolicy": {"maxAttempts": 3}}, "retried"),
    ],
)
def test_what_it_would_have_to_ignore_is_refused(emr, change, complaint):
    asked = {
        "applicationId": emr.application,
        "clientToken": "t",
        "executionRoleArn": "arn:aws:iam::123456789012:role/job",
        "jobDriver": {"sparkSubmit": {"entryPoint": "s3://assets/entry.py"}},
        **change,
    }
    with pytest.raises(emr.client.exceptions.ValidationException, match=complaint):
        emr.client.start_job_run(**asked)
    assert emr.client.list_job_runs(applicationId=emr.application)["jobRuns"] == []


def test_what_does_not_exist_is_not_found(emr):
    with pytest.raises(emr.client.exceptions.ResourceNotFoundException):
        emr.get("00gone")
    with pytest.raises(emr.client.exceptions.ResourceNotFoundException):
        emr.client.get_application(applicationId="00gone")
    with pytest.raises(ClientError, match="not imitated"):
        emr.client.stop_application(applicationId=emr.application)


# --- as a process ---


@contextmanager
def endpoint_process(folder, environment):
    with listen() as listener:
        process = spawn(
            "emr",
            python_module("tidegate_local.emr", "--dir", str(folder), "--catalog", "lake"),
            log=folder / "emr.log",
            environment=environment,
            listener=listener,
        )
        try:
            while not answers(url_of(listener), timeout=10):
                assert process.is_alive, process.death()
            yield Emr(url_of(listener), folder), process
        finally:
            process.stop(15)


ENTRY = """
import os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sql("create namespace if not exists lake.x")
spark.sql("create table lake.x.t (id int) using iceberg")
spark.createDataFrame([(7,)], "id int").writeTo("lake.x.t").append()
print(spark.sparkContext.master, spark.conf.get("spark.sql.session.timeZone"), sys.argv[1:], os.getsid(0))
if "wait" in sys.argv:
    import time
    spark.sparkContext.parallelize([1], 1).map(lambda each: time.sleep(600)).collect()
"""


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are looked for in /proc")
def test_real_spark_writes_a_table_that_pyiceberg_reads_and_dies_with_the_endpoint(tmp_path, s3_environment):
    from pyiceberg.catalog.sql import SqlCatalog

    client("s3", s3_environment).put_object(Bucket="assets", Key="entry.py", Body=ENTRY.encode())
    with endpoint_process(tmp_path, s3_environment) as (emr, process):
        run = emr.start("wait", token="1")
        written = tmp_path / "jobs" / run / "stdout.log"

        def read():
            assert emr.get(run)["state"] in ("SUBMITTED", "PENDING", "SCHEDULED", "RUNNING"), emr.get(run)
            return written.read_text() if written.exists() else ""

        eventually(read, lambda text: "local[2]" in text, waiting_for="the job to write its table")
        (line,) = (each for each in written.read_text().splitlines() if each.startswith("local[2]"))
        _, zone, arguments, session = line.split()
        assert (zone, arguments) == ("UTC", "['wait']")
        catalog = SqlCatalog(
            "lake", uri=f"sqlite:///{tmp_path}/warehouse/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
        )
        assert catalog.load_table("x.t").scan().to_arrow().to_pydict() == {"id": [7]}
        # the guard, Java, the driver, and Spark's daemon and worker
        members = lambda: session_members(int(session))  # noqa: E731
        eventually(members, lambda found: len(found) >= 5, waiting_for="all five processes of the job")
        os.kill(process.process.pid, signal.SIGKILL)
        eventually(members, lambda found: not found, waiting_for="every process of the job to end")


def test_a_page_whose_name_was_made_to_lead_here_starts_no_job(emr):
    url = emr.client.meta.endpoint_url
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(
            urllib.request.Request(f"{url}/applications", headers={"Host": "evil.example"}), timeout=10
        )
    assert refused.value.code == 403
    assert b"evil.example" in refused.value.read()
