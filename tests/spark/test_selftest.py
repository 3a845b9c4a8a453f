"""The self-test's steps on a real Spark: what they find when all is well, and that each can fail."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession

from tests.spark.world import WORK
from tidegate.aws.work import S3Work
from tidegate.core.errors import Retryable
from tidegate.core.manifests import batch_folder
from tidegate.spark import selftest, session

pytestmark = pytest.mark.spark

TABLE = "lake.selftests.flights"
DENIED = "AccessDeniedException: User: job is not authorized to perform: glue:GetTable on resource: tidegate_selftest_x"


@pytest.fixture
def own(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    return selftest.beside(TABLE, f"selftest-{request.node.name}")


@pytest.fixture
def folder(s3_endpoint: str, request: pytest.FixtureRequest) -> str:
    return batch_folder(f"selftest-{request.node.name}")


def tables(spark: SparkSession) -> list[str]:
    return [row.tableName for row in spark.sql("SHOW TABLES IN lake.selftests").collect()]


def test_rows_are_staged_out_of_sight_and_nothing_stays(spark: SparkSession, own: str):
    assert own.startswith("lake.selftests.tidegate_selftest_test_rows")
    state, said = selftest.own_table(spark, own)
    assert (state, said) == ("ok", f"100 rows were staged in {own}, out of main's sight; the table is dropped again")
    assert tables(spark) == []


def test_rows_that_reach_main_are_a_failure(spark: SparkSession, own: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selftest, "BRANCH", "main")
    monkeypatch.setattr(spark, "sql", without_branches(spark.sql))
    state, said = selftest.own_table(spark, own)
    assert (state, said) == ("failed", f"of 100 rows 100 are staged in {own}; 100 are in main, where none may be")
    assert tables(spark) == []


def without_branches(sql: Any) -> Any:
    """SQL, but for the creation of a branch: `main` is there already."""
    return lambda text: None if "CREATE BRANCH" in text else sql(text)


def test_a_role_that_may_not_drop_creates_nothing(spark: SparkSession, own: str, monkeypatch: pytest.MonkeyPatch):
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.selftests")

    def denied(*_: Any) -> None:
        raise RuntimeError(DENIED)

    monkeypatch.setattr(selftest, "_drop", denied)
    state, said = selftest.own_table(spark, own)
    assert state == "skipped"
    assert said.startswith(f"not allowed: {own} was not created, because it could not be dropped (")
    assert "glue:GetTable" in said
    assert tables(spark) == []


def test_in_s3_tables_nothing_is_created(spark: SparkSession, own: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selftest, "_drop", lambda *_: pytest.fail("it was about to be created"))
    name = "spark.sql.catalog.lake.glue.id"
    spark.conf.set(name, "123456789012:s3tablescatalog/tables")
    try:
        state, said = selftest.own_table(spark, own)
    finally:
        spark.conf.unset(name)
    assert (state, said.startswith(f"not allowed: {own} was not created")) == ("skipped", True)


def test_a_catalog_that_is_out_of_reach_is_no_lack_of_permission(
    spark: SparkSession, own: str, monkeypatch: pytest.MonkeyPatch
):
    def unreachable(*_: Any) -> None:
        raise RuntimeError("UnknownHostException: glue.us-east-1.amazonaws.com")

    monkeypatch.setattr(selftest, "_drop", unreachable)
    state, said = selftest.own_table(spark, own)
    assert state == "failed"
    assert "UnknownHostException" in said


@pytest.mark.parametrize("refusal", [DENIED, ""], ids=["denied", "without_effect"])
def test_a_table_that_cannot_be_dropped_in_the_end_is_told(
    spark: SparkSession, own: str, monkeypatch: pytest.MonkeyPatch, refusal: str
):
    drop, calls = selftest._drop, []

    def second_fails(*arguments: Any) -> bool:
        calls.append(arguments)
        if len(calls) == 1:
            return drop(*arguments)
        if refusal:
            raise RuntimeError(refusal)
        return False

    monkeypatch.setattr(selftest, "_drop", second_fails)
    state, said = selftest.own_table(spark, own)
    assert state == "failed"
    assert f"{own} was created and is left behind: drop it by hand" in said
    assert tables(spark) == [own.rpartition(".")[2]]
    drop(spark, own)


def test_it_says_which_iceberg_there_is_and_from_which_jar(spark: SparkSession, tmp_path: Path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "iceberg-spark-runtime-4.1_2.13-1.11.0-amzn-0.jar").touch()
    found: dict[str, Any] = {"version": spark.version}
    state, said = selftest.iceberg(spark, found, tmp_path)
    assert state == "ok"
    assert re.fullmatch(r"Iceberg 1\.\d+\.\d+ from file:\S+iceberg\S+\.jar, in Spark 4\.\S+, Java \d\S+", said), said
    assert [Path(each).name for each in found["image_jars"]] == ["iceberg-spark-runtime-4.1_2.13-1.11.0-amzn-0.jar"]
    assert found["class_path"], "Spark was started with the jar"


def test_without_iceberg_it_says_in_one_sentence_what_is_missing(spark: SparkSession, tmp_path: Path):
    """As an image would that has it elsewhere."""
    missing = "org.apache.iceberg.spark.extensions.NotThere"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "named_classes", lambda properties: [missing])
        with pytest.raises(Retryable) as refused:
            session.prepare(spark)
        state, said = selftest.iceberg(spark, {"version": spark.version}, tmp_path)
    assert str(refused.value).startswith(f"Iceberg is missing: class {missing} is not on the class path of Spark 4.")
    assert "`tidegate doctor --aws --job`" in str(refused.value)
    assert (state, said.startswith(f"{refused.value}. Of Iceberg there is: ")) == ("failed", True)


def test_a_build_without_a_class_that_is_called_is_a_failure(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selftest, "CLASSES", (*selftest.CLASSES, "org.apache.iceberg.NotThere"))
    state, said = selftest.iceberg(spark, {"version": spark.version})
    assert (state, "lacks org.apache.iceberg.NotThere: " in said) == ("failed", True)


def test_every_class_that_the_session_names_is_found(spark: SparkSession):
    named = [*session.named_classes(dict(spark.sparkContext.getConf().getAll()))]
    assert "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions" in named
    assert "org.apache.iceberg.spark.SparkCatalog" in named
    session.require_classes(spark)


def test_a_catalog_of_another_class_than_the_configured_one_is_a_failure(spark: SparkSession):
    """EMR's Iceberg was seen to build a GlueCatalog for another one."""
    built = "org.apache.iceberg.jdbc.JdbcCatalog"
    assert selftest.catalog(spark, "lake") == ("ok", f"catalog lake is a {built}")
    spark.conf.set("spark.sql.catalog.lake.catalog-impl", "org.apache.iceberg.rest.RESTCatalog")
    try:
        state, said = selftest.catalog(spark, "lake")
    finally:
        spark.conf.unset("spark.sql.catalog.lake.catalog-impl")
    assert (state, built in said, "RESTCatalog is configured" in said) == ("failed", True, True)


def test_a_credential_is_read_from_its_secret_and_is_in_no_property_of_the_job(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    asked = []

    class Secrets:
        def get_secret_value(self, **parameters: str) -> dict[str, str]:
            asked.append(parameters)
            return {"SecretString": "id:hush"}

    told = [("spark.tidegate.credential-secret.other", "arn:of:the:secret")]
    monkeypatch.setattr(boto3, "client", lambda service: Secrets())
    monkeypatch.setattr(type(spark.sparkContext), "getConf", lambda self: SimpleNamespace(getAll=lambda: told))
    try:
        session.give_credentials(spark)
        assert spark.conf.get("spark.sql.catalog.other.credential") == "id:hush"
    finally:
        spark.conf.unset("spark.sql.catalog.other.credential")
        spark.conf.unset("spark.sql.redaction.options.regex")
    assert asked == [{"SecretId": "arn:of:the:secret"}]


def test_a_setting_that_has_spark_write_is_named_with_its_table(spark: SparkSession):
    tables = [f"lake.selftests.{name}" for name in ("plain", "ordered", "tuned", "absent")]
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.selftests")
    for each in tables[:3]:
        spark.sql(f"CREATE TABLE {each} (id bigint) USING iceberg")
    try:
        spark.sql(f"ALTER TABLE {tables[1]} WRITE ORDERED BY id")
        state, said = selftest.data_files(spark, [*tables, tables[0]])
        assert (state, said) == (
            "ok",
            "the tasks write those of 2 tables; Spark, which takes longer, those of lake.selftests.ordered (the table"
            " has a sort order)",
        )
        spark.sql(f"ALTER TABLE {tables[2]} SET TBLPROPERTIES ('write.parquet.row-group-size-bytes' = '1000000')")
        state, said = selftest.data_files(spark, tables)
        assert state == "slow"
        assert (
            "those of lake.selftests.tuned (write.parquet.row-group-size-bytes is set), lake.selftests.ordered" in said
        )
    finally:
        for each in tables[:3]:
            spark.sql(f"DROP TABLE {each} PURGE")


def test_the_routes_table_is_only_looked_at(spark: SparkSession):
    assert selftest.look_up(spark, TABLE) == ("ok", f"{TABLE} does not exist yet; the first batch creates it")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.selftests")
    spark.sql(f"CREATE TABLE {TABLE} (id bigint) USING iceberg")
    try:
        assert selftest.look_up(spark, TABLE) == ("ok", f"{TABLE} is there, empty")
        spark.sql(f"INSERT INTO {TABLE} VALUES (1)")
        head = spark.sql(f"SELECT snapshot_id FROM {TABLE}.snapshots").collect()[0][0]
        assert selftest.look_up(spark, TABLE) == ("ok", f"{TABLE} is there, at snapshot {head}")
    finally:
        spark.sql(f"DROP TABLE {TABLE} PURGE")


def test_what_executors_say_is_kept_once_for_each_python(spark: SparkSession):
    report: dict[str, Any] = {}
    state, said = selftest.executors(spark, report)
    assert state == "ok", said
    assert said.startswith(f"{2 * spark.sparkContext.defaultParallelism} tasks answered")
    mine = selftest.facts()
    assert {each["interpreter"] for each in report["executors"]} == {mine["interpreter"]}
    assert {each["modules"]["pyarrow"] for each in report["executors"]} == {mine["modules"]["pyarrow"]}
    assert sum(each["tasks"] for each in report["executors"]) == 2 * spark.sparkContext.defaultParallelism


def test_an_executor_reads_as_uploads_are_read(spark: SparkSession, folder: str):
    client = boto3.client("s3")
    work = S3Work(client, WORK)
    assert selftest.use_work_bucket(work, folder) == ("ok", f"written, read and listed under {folder}")
    read = selftest.read_there(spark, client, WORK, "", folder)
    assert read == ("ok", f"an executor read s3://{WORK}/{folder}probe.txt")
    work.put(folder + selftest.PROBE, b"of another hand\n")
    state, said = selftest.read_there(spark, client, WORK, "", folder)
    assert (state, "of another hand" in said) == ("failed", True)


def test_a_work_bucket_without_conditional_writes_is_a_failure(folder: str, monkeypatch: pytest.MonkeyPatch):
    def overwrite(work: S3Work, name: str, body: bytes) -> bool:
        work.put(name, body)
        return True

    monkeypatch.setattr(S3Work, "put_if_absent", overwrite)
    state, said = selftest.use_work_bucket(S3Work(boto3.client("s3"), WORK), folder)
    assert state == "failed"
    assert "a conditional write overwrote" in said


def test_a_module_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selftest, "MODULES", ("pyarrow", "no_such_module"))
    process = json.loads(json.dumps(selftest.facts()))
    state, said = selftest.imported([process])
    assert state == "failed"
    assert f"no_such_module on {process['host']}: ModuleNotFoundError" in said
    assert "pyarrow" not in said
