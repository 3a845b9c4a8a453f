"""The Iceberg catalogs: Spark's properties for each, and the permissions of the job's role.

glue       the account's Glue catalog; the tables' files are in a bucket of the stack's
s3tables   a table bucket, by way of Glue, where it is a catalog of its own; S3 Tables keeps the files
rest       any other REST catalog, with or without a credential

The catalog's class is named, not its type: EMR's Iceberg was seen to build a GlueCatalog for `type=rest`
(docs/adr/0027-catalogs-by-rest.md).
"""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.buckets import Buckets, WorkBucket
from infra.permissions import allow
from tidegate.environment import CREDENTIAL_SECRET
from tidegate.settings import Settings
from tidegate.settings.scale import glue_names

GLUE = "org.apache.iceberg.aws.glue.GlueCatalog"
REST = "org.apache.iceberg.rest.RESTCatalog"
MANY_ROUTES = "Of many routes: the tables of the databases that they write."
FEDERATED = "s3tablescatalog"
"""Under this catalog of Glue each table bucket of the account is a catalog, once it is integrated with AWS analytics
services (https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-integrating-aws.html)."""
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
"""In a catalog of IAM's, a role needs the actions of Glue and of S3 Tables both
(https://docs.aws.amazon.com/glue/latest/dg/s3tables-catalog-prerequisites.html)."""


class GlueCatalog:
    """Glue's tables, and their files in the warehouse bucket. Only Iceberg decides which of them to delete."""

    def __init__(self, settings: Settings, warehouse: s3.IBucket) -> None:
        self._settings = settings
        self._warehouse = warehouse

    @property
    def properties(self) -> dict[str, str]:
        return _spark(self._settings, {"catalog-impl": GLUE, "warehouse": self._warehouse.s3_url_for_object()})

    def grant_use(self, role: iam.Role) -> None:
        grant_files(role, self._warehouse.bucket_arn)
        stack = cdk.Stack.of(role)
        allow(
            role,
            GLUE_ACTIONS,
            *(
                stack.format_arn(service="glue", resource=name)
                for name in ("catalog", *glue_names(self._settings.routes))
            ),
            wildcard=MANY_ROUTES,
        )


class TableBucket:
    """A table bucket of S3 Tables, as a catalog in Glue. A job without subnets reaches Glue, and not S3 Tables' own
    endpoint."""

    def __init__(self, settings: Settings, work: WorkBucket) -> None:
        self._settings = settings
        self._arn = str(settings.catalog.arn)
        self._work = work

    @property
    def properties(self) -> dict[str, str]:
        region, account, bucket = self._parts
        return _spark(
            self._settings,
            {
                "catalog-impl": GLUE,
                "glue.id": f"{account}:{FEDERATED}/{bucket}",
                "client.region": region,
                # GlueCatalog wants one, and nothing was seen there: S3 Tables decides where the files of a table are
                "warehouse": self._work.bucket.s3_url_for_object("warehouse"),
            },
        )

    @property
    def _parts(self) -> tuple[str, str, str]:
        """Region, account and name of the table bucket."""
        _, _, _, region, account, resource = self._arn.split(":")
        return region, account, resource.removeprefix("bucket/")

    def grant_use(self, role: iam.Role) -> None:
        region, account, bucket = self._parts
        names = [each.replace("/", "/{}/", 1) for each in glue_names(self._settings.routes)]
        grant_federated(role, bucket, GLUE_ACTIONS, names, region=region, account=account, wildcard=MANY_ROUTES)
        allow(role, TABLE_BUCKET_ACTIONS, self._arn)
        allow(
            role,
            TABLE_ACTIONS,
            f"{self._arn}/table/*",
            wildcard="S3 Tables names a table by an id that it makes; the table bucket is for these tables.",
        )


class RestCatalog:
    """Any REST catalog. A warehouse in S3 is written by the job itself, unless the catalog hands out credentials."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def properties(self) -> dict[str, str]:
        catalog = self._settings.catalog
        named = {"catalog-impl": REST, "uri": catalog.uri, "warehouse": catalog.warehouse}
        properties = _spark(self._settings, {name: value for name, value in named.items() if value})
        # the job reads the secret itself
        secret = {f"{CREDENTIAL_SECRET}{catalog.name}": catalog.credential_secret} if catalog.credential_secret else {}
        return properties | secret

    def grant_use(self, role: iam.Role) -> None:
        catalog = self._settings.catalog
        if catalog.credential_secret:
            allow(role, ["secretsmanager:GetSecretValue"], catalog.credential_secret)
        scheme, _, location = (catalog.warehouse or "").partition("://")
        if scheme == "s3":
            bucket, _, prefix = location.partition("/")
            folder = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
            grant_files(role, f"arn:{cdk.Stack.of(role).partition}:s3:::{bucket}", folder)


Catalog = GlueCatalog | TableBucket | RestCatalog
"""Each has Spark's `properties` of it, and lets a role use it."""


def make_catalog(scope: Construct, settings: Settings, buckets: Buckets, work: WorkBucket) -> Catalog:
    """The catalog of the settings. Only Glue's needs a bucket, which is created in `scope`."""
    match settings.catalog.type:
        case "glue":
            return GlueCatalog(settings, buckets.make(Construct(scope, "Warehouse"), "Bucket"))
        case "s3tables":
            return TableBucket(settings, work)
        case "rest":
            return RestCatalog(settings)


def grant_files(role: iam.Role, bucket_arn: str, folder: str = "") -> None:
    """Let `role` write and delete the tables' files."""
    allow(
        role,
        ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
        f"{bucket_arn}/{folder}*",
        wildcard="Iceberg names the tables' files, and the warehouse is for nothing else.",
    )
    allow(role, ["s3:ListBucket"], bucket_arn)


def grant_federated(
    role: iam.Role,
    bucket: str,
    actions: Sequence[str],
    names: Sequence[str],
    *,
    region: str = cdk.Aws.REGION,
    account: str = cdk.Aws.ACCOUNT_ID,
    wildcard: str = "",
) -> None:
    """Let `role` do `actions` of Glue on what a table bucket holds, by its catalog in Glue. `names` are databases and
    tables, with {} for the catalog. Glue resolves such a catalog from the root down, and hands out credentials for its
    files through Lake Formation, even where IAM alone decides (docs/adr/0027-catalogs-by-rest.md)."""
    stack = cdk.Stack.of(role)
    within = f"{FEDERATED}/{bucket}"

    def arn(name: str) -> str:
        return stack.format_arn(service="glue", region=region, account=account, resource=name)

    catalogs = [arn("catalog"), arn(f"catalog/{FEDERATED}"), arn(f"catalog/{within}")]
    allow(role, ["glue:GetCatalog"], *catalogs)
    allow(role, actions, *catalogs, *(arn(each.format(within)) for each in names), wildcard=wildcard)
    allow(
        role,
        ["lakeformation:GetDataAccess"],
        "*",
        wildcard="Lake Formation hands out credentials, and its action takes no resource.",
    )


def _spark(settings: Settings, properties: dict[str, str]) -> dict[str, str]:
    name = f"spark.sql.catalog.{settings.catalog.name}"
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        **{f"{name}.{key}": value for key, value in properties.items()},
    }
