"""The Iceberg catalogs: Spark's properties for each, and the permissions of the job's role.

glue       the account's Glue catalog; the tables' files are in a bucket of the stack's
s3tables   a table bucket, by its Iceberg REST endpoint; S3 Tables keeps the files
rest       any other REST catalog, with or without a credential
"""

from typing import Protocol

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.buckets import Buckets, Warehouse
from infra.permissions import allow
from tidegate.settings import Settings

GLUE_ACTIONS = (
    "glue:CreateDatabase",
    "glue:CreateTable",
    "glue:GetDatabase",
    "glue:GetTable",
    "glue:UpdateTable",
)
TABLE_BUCKET_ACTIONS = (
    "s3tables:CreateNamespace",
    # a table that does not exist yet has no permissions of its own, only those of the bucket
    "s3tables:CreateTable",
    "s3tables:GetNamespace",
    "s3tables:GetTableBucket",
)
TABLE_ACTIONS = (
    "s3tables:GetTable",
    "s3tables:GetTableData",
    "s3tables:GetTableMetadataLocation",
    "s3tables:PutTableData",
    "s3tables:UpdateTableMetadataLocation",
)
"""The actions that authorize a job's operations on the REST endpoint
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-integrating-open-source.html)."""


class Catalog(Protocol):
    """A catalog for the job."""

    @property
    def properties(self) -> dict[str, str]:
        """Spark's properties of the catalog."""
        ...

    def grant_use(self, role: iam.Role) -> None: ...


def make_catalog(scope: Construct, settings: Settings, buckets: Buckets) -> Catalog:
    """The catalog of the settings. Only Glue's needs a bucket, which is created in `scope`."""
    match settings.catalog.type:
        case "glue":
            return GlueCatalog(settings, Warehouse(scope, "Warehouse", buckets=buckets))
        case "s3tables":
            return TableBucket(settings)
        case "rest":
            return RestCatalog(scope, settings)


class GlueCatalog:
    """Glue's tables, and their files in the warehouse bucket."""

    def __init__(self, settings: Settings, warehouse: Warehouse) -> None:
        self._settings = settings
        self._warehouse = warehouse

    @property
    def properties(self) -> dict[str, str]:
        return _spark(self._settings, {"type": "glue", "warehouse": self._warehouse.bucket.s3_url_for_object()})

    def grant_use(self, role: iam.Role) -> None:
        self._warehouse.grant_use(role)
        names = {"catalog"}
        for route in self._settings.routes:
            _, database, table = route.table.split(".")
            names |= {f"database/{database}", f"table/{database}/{table}"}
        stack = cdk.Stack.of(role)
        allow(role, GLUE_ACTIONS, *(stack.format_arn(service="glue", resource=name) for name in sorted(names)))


class TableBucket:
    """A table bucket of S3 Tables, by its REST endpoint, for which Spark's Iceberg needs no other jar."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._arn = str(settings.catalog.arn)

    @property
    def properties(self) -> dict[str, str]:
        region = self._arn.split(":")[3]
        return _spark(
            self._settings,
            {
                "type": "rest",
                "uri": f"https://s3tables.{region}.{cdk.Aws.URL_SUFFIX}/iceberg",
                "warehouse": self._arn,
                "rest.sigv4-enabled": "true",
                "rest.signing-name": "s3tables",
                "rest.signing-region": region,
                # the endpoint has no such operation
                "rest-metrics-reporting-enabled": "false",
            },
        )

    def grant_use(self, role: iam.Role) -> None:
        allow(role, TABLE_BUCKET_ACTIONS, self._arn)
        allow(
            role,
            TABLE_ACTIONS,
            f"{self._arn}/table/*",
            wildcard="S3 Tables names a table by an id that it makes; the table bucket is for these tables.",
        )


class RestCatalog:
    """Any REST catalog. A warehouse in S3 is written by the job itself, unless the catalog hands out credentials."""

    def __init__(self, scope: Construct, settings: Settings) -> None:
        self._settings = settings
        self._partition = cdk.Stack.of(scope).partition

    @property
    def properties(self) -> dict[str, str]:
        catalog = self._settings.catalog
        named = {
            "type": "rest",
            "uri": catalog.uri,
            "warehouse": catalog.warehouse,
            # EMR replaces this by the secret's text when a job starts; it finds a secret by its name
            # (https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/secrets-manager.html)
            "credential": catalog.credential_secret and f"EMR.secret@{_name_of(catalog.credential_secret)}",
        }
        return _spark(self._settings, {name: value for name, value in named.items() if value})

    def grant_use(self, role: iam.Role) -> None:
        catalog = self._settings.catalog
        if catalog.credential_secret:
            allow(role, ["secretsmanager:GetSecretValue"], catalog.credential_secret)
        scheme, _, location = (catalog.warehouse or "").partition("://")
        if scheme == "s3":
            bucket, _, prefix = location.partition("/")
            arn = f"arn:{self._partition}:s3:::{bucket}"
            folder = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
            allow(
                role,
                ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
                f"{arn}/{folder}*",
                wildcard="Iceberg names the tables' files, below the warehouse that the settings name.",
            )
            allow(role, ["s3:ListBucket"], arn)


def _name_of(secret: str) -> str:
    """The name in a secret's ARN, which Secrets Manager ends with a dash and six characters of its own
    (https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html)."""
    return secret.rpartition(":secret:")[2][:-7]


def _spark(settings: Settings, properties: dict[str, str]) -> dict[str, str]:
    name = f"spark.sql.catalog.{settings.catalog.name}"
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        **{f"{name}.{key}": value for key, value in properties.items()},
    }
