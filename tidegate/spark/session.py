"""The Spark session of a job: with Iceberg, and with the credential of its catalog."""

from collections.abc import Iterator
from contextlib import suppress

import boto3
from pyspark.sql import SparkSession

from tidegate.aws.errors import asking
from tidegate.core.errors import Retryable
from tidegate.environment import CREDENTIAL_SECRET

CATALOGS = "spark.sql.catalog."
EXTENSIONS = "spark.sql.extensions"


def open_session(name: str) -> SparkSession:
    """A session that is ready for tables. Raises as `prepare`."""
    spark = SparkSession.builder.appName(name).getOrCreate()
    prepare(spark)
    return spark


def warm_up(spark: SparkSession) -> None:
    """Have the JVM load what a first batch needs. What fails here fails again with that batch, and is told then."""
    with suppress(Exception):
        prepare(spark)
        spark.sql("SELECT 1").collect()
        for catalog in _catalogs(spark):
            spark.sql(f"SHOW NAMESPACES IN {catalog}").collect()


def _catalogs(spark: SparkSession) -> Iterator[str]:
    for key, _ in spark.sparkContext.getConf().getAll():
        if key.startswith(CATALOGS) and "." not in (name := key.removeprefix(CATALOGS)):
            yield name


def prepare(spark: SparkSession) -> None:
    """Raises Retryable without Iceberg, and Retryable or OutcomeUnknown if a secret cannot be read."""
    require_classes(spark)
    give_credentials(spark)


def require_classes(spark: SparkSession) -> None:
    """Raises Retryable if the properties name a class of Iceberg that Spark cannot load. Without this Spark would log a
    warning about the extensions, go on, and fail at the first use of a catalog."""
    for name in named_classes(dict(spark.sparkContext.getConf().getAll())):
        if location(spark, name) is None:
            raise Retryable(
                f"Iceberg is missing: class {name} is not on the class path of Spark {spark.version}, where EMR's image"
                " should have it. `tidegate doctor --aws --job` reports what the image has"
            )


def named_classes(properties: dict[str, str]) -> Iterator[str]:
    """The classes that the properties of the extensions and the catalogs name."""
    yield from (each.strip() for each in properties.get(EXTENSIONS, "").split(",") if each.strip())
    for key, value in sorted(properties.items()):
        catalog, _, rest = key.removeprefix(CATALOGS).partition(".")
        if key.startswith(CATALOGS) and catalog and rest in ("", "catalog-impl", "io-impl"):
            yield value


def location(spark: SparkSession, name: str) -> str | None:
    """The jar or folder that Spark loads a class from; None if it finds none, "" if it does not say."""
    jvm = spark._jvm
    assert jvm is not None
    try:
        found = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader().loadClass(name)
    except Exception:
        return None
    source = found.getProtectionDomain().getCodeSource()
    return str(source.getLocation()) if source else ""


def give_credentials(spark: SparkSession) -> None:
    """Read the secrets that are the credentials of catalogs, and give them to this session alone: they are in no
    property of the job."""
    for key, arn in spark.sparkContext.getConf().getAll():
        if key.startswith(CREDENTIAL_SECRET):
            with asking(f"read the secret {arn}"):
                secret = boto3.client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"]
            # Spark writes the changed properties of a session into its event log, and leaves out what this matches
            spark.conf.set("spark.sql.redaction.options.regex", "(?i)url|credential")
            spark.conf.set(f"{CATALOGS}{key.removeprefix(CREDENTIAL_SECRET)}.credential", secret)
