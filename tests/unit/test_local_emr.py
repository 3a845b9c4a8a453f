"""How a job of EMR Serverless becomes a spark-submit on this machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from tidegate_local.emr.runs import Application, JobRun
from tidegate_local.emr.submit import (
    Machine,
    command,
    driver_environment,
    keep_meaningful,
    last_words,
    parse_parameters,
)
from tidegate_local.endpoint import RefusedRequest


def job(parameters="", settings=None, application=None):
    submit = {
        "entryPoint": "s3://b/e.py",
        "entryPointArguments": ["ingest", "--batch=1"],
        "sparkSubmitParameters": parameters,
    }
    owner = Application("a", "n", "emr-spark-8.1.0", "ARM64", application or {}, "t", 0.0)
    return JobRun("r", owner, "t", "n", "role", {"sparkSubmit": submit}, settings or {}, {}, 60, 0.0)


def settings_of(words):
    pairs = [words[at + 1] for at, word in enumerate(words) if word == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


MACHINE = Machine(
    Path("/a dir"),
    ("lake",),
    {},
    spark_submit=("/spark/bin/spark-submit",),
    jars=(Path("/jars/a.jar"), Path("/jars/b.jar")),
)


def test_the_command_ends_with_the_script_and_its_arguments():
    words = command(job(), MACHINE, Path("/job/e.py"))
    assert words[0] == "/spark/bin/spark-submit"
    assert words[-3:] == ["/job/e.py", "ingest", "--batch=1"]
    assert words[words.index("--master") + 1] == "local[2]"
    assert words[words.index("--jars") + 1] == "/jars/a.jar,/jars/b.jar"


def test_the_machine_has_a_word_in_the_options_of_a_jobs_jvm():
    own = '"-XX:SharedArchiveFile=/a dir/classes.jsa"'
    settings = settings_of(command(job(), replace(MACHINE, java_options=own), Path("/e.py")))
    assert own in settings["spark.driver.extraJavaOptions"]
    assert '"-Djava.io.tmpdir=/a dir/jobs/r/tmp"' in settings["spark.driver.extraJavaOptions"]


def test_the_catalog_is_a_sqlite_file_of_the_stack_whatever_the_job_says():
    glue = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "glue",
        "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "spark.hadoop.hive.metastore.client.factory.class": "x",
    }
    settings = settings_of(command(job(settings=glue, application=glue), MACHINE, Path("/e.py")))
    assert settings["spark.sql.catalog.lake.type"] == "jdbc"
    assert settings["spark.sql.catalog.lake.uri"].startswith("jdbc:sqlite:/a dir/warehouse/catalog.db?busy_timeout=")
    assert settings["spark.sql.catalog.lake.warehouse"] == "file:///a dir/warehouse"
    assert "spark.sql.catalog.lake.io-impl" not in settings
    assert not any("hive" in name for name in settings)


def test_a_job_overrides_its_application_and_this_machine_overrides_both():
    words = command(
        job(
            "--conf spark.x=job --conf spark.driver.host=elsewhere",
            settings={"spark.x": "run", "spark.y": "run"},
            application={"spark.x": "application", "spark.y": "application", "spark.z": "application"},
        ),
        MACHINE,
        Path("/e.py"),
    )
    settings = settings_of(words)
    assert [settings[f"spark.{name}"] for name in "xyz"] == ["job", "run", "application"]
    assert settings["spark.driver.host"] == "127.0.0.1"


def test_what_only_means_something_on_emr_is_left_out():
    assert keep_meaningful(
        {
            "spark.executor.memory": "8g",
            "spark.executor.cores": "4",
            "spark.dynamicAllocation.enabled": "true",
            "spark.archives": "s3://b/env.tar.gz#environment",
            "spark.emr-serverless.driverEnv.PYSPARK_PYTHON": "./environment/bin/python",
            "spark.executorEnv.PYSPARK_PYTHON": "./environment/bin/python",
            "spark.jars": "/usr/share/aws/iceberg/lib/iceberg.jar",
            "spark.executor.heartbeatInterval": "20s",
            "spark.sql.catalogImplementation": "in-memory",
        }
    ) == {"spark.executor.heartbeatInterval": "20s", "spark.sql.catalogImplementation": "in-memory"}


def test_the_drivers_variables_are_passed_on_but_not_its_interpreter():
    prefix = "spark.emr-serverless.driverEnv."
    assert driver_environment({f"{prefix}A": "1", f"{prefix}PYSPARK_PYTHON": "x", "spark.executorEnv.B": "2"}) == {
        "A": "1"
    }


def test_parameters_are_read_as_a_shell_would():
    assert parse_parameters("""--conf spark.a="b c" --conf=spark.d=e=f""") == {"spark.a": "b c", "spark.d": "e=f"}


@pytest.mark.parametrize("parameters", ["--class org.Main", "--name x", "stray"])
def test_an_unknown_parameter_is_refused(parameters):
    with pytest.raises(RefusedRequest) as refusal:
        parse_parameters(parameters)
    assert refusal.value.code == "ValidationException"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            'Traceback (most recent call last):\n  File "x"\nValueError: no such batch\n26/11/21 10:00:00 INFO S: x\n',
            "ValueError: no such batch",
        ),
        ("a.b.PublishException: lost\n", "a.b.PublishException: lost"),
        ("26/11/21 10:00:00 INFO A: x\nOut of memory\n26/11/21 10:00:00 INFO B: y\n", "Out of memory"),
        ("26/11/21 10:00:00 INFO A: x\n", ""),
        ("", ""),
        ("2026-11-22 19:03:07,049 botocore.configprovider INFO Found endpoint for s3 via: environment_global.", ""),
        ("Killed\nWARNING: Using incubator modules: jdk.incubator.vector", "Killed"),
    ],
)
def test_last_words(tmp_path, log, words):
    (tmp_path / "log").write_text(log)
    assert last_words(tmp_path / "log") == words


def test_no_log_has_no_last_words(tmp_path):
    assert last_words(tmp_path / "log") == ""


# --- from state to state ---


def test_a_run_that_goes_well_is_told_state_by_state():
    submitted = job()
    running = submitted.moved("SCHEDULED", 5.0).moved("RUNNING", 6.0)
    done = running.moved("SUCCESS", 16.5)
    assert [each.is_active for each in (submitted, running, done)] == [True, True, False]
    report = done.report()
    assert (report["startedAt"], report["endedAt"]) == (6.0, 16.5)
    assert "endedAt" not in running.report()
    told = done.change(running.state)
    assert (told["state"], told["previousState"], told["updatedAt"]) == ("SUCCESS", "RUNNING", "1970-01-01T00:00:16Z")
    assert "previousState" not in submitted.change("")


def test_a_run_that_was_cancelled_ends_so_however_its_process_ends():
    cancelling = job().moved("RUNNING", 1.0).moved("CANCELLING", 2.0, "cancelled on request")
    assert cancelling.is_active
    for state in ("SUCCESS", "FAILED"):
        end = cancelling.moved(state, 3.0, "killed")
        assert (end.state, end.details, end.ended_at) == ("CANCELLED", "cancelled on request", 3.0)
