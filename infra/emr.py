"""EMR Serverless: the application that runs ingest, and the role it runs under."""

from collections.abc import Iterable
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_emrserverless as emrserverless
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.buckets import Warehouse, Work
from infra.bundling import PYTHON
from infra.landing import Landing
from infra.limits import IDLE_MINUTES
from tidegate.settings import RouteSettings, Settings

RELEASE = "emr-spark-8.1.0"
"""Spark 4.1.1, Iceberg 1.11.0; supported until September 2029."""
PRINCIPAL = "emr-serverless.amazonaws.com"
ENDED = ("SUCCESS", "FAILED", "CANCELLED")

GLUE_ACTIONS = (
    "glue:CreateDatabase",
    "glue:CreateTable",
    "glue:GetDatabase",
    "glue:GetTable",
    "glue:UpdateTable",
)

ICEBERG = "/usr/share/aws/iceberg/lib/iceberg-spark3-runtime.jar"
"""On every image, whatever Spark it has
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/using-iceberg.html)."""

MODULES = "modules"
"""The folder, beside where each of Spark's processes starts, that the archive of modules is unpacked into."""

WORKERS = {
    "spark.driver.cores": "2",
    "spark.driver.memory": "4g",
    "spark.driver.memoryOverhead": "4g",
    "spark.executor.cores": "4",
    "spark.executor.memory": "6g",
    "spark.executor.memoryOverhead": "10g",
    "spark.dynamicAllocation.initialExecutors": "1",
}
"""Python holds the manifest and the decoded files, and Python lives in the overhead. EMR's own defaults would
start 16 vCPU for every job, which is all that a new account may use
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html)."""


class Emr(Construct):
    """Starts by itself when a job comes and stops by itself when none does.

    EMR refuses to change an application that is started, and a busy one always is. So its configuration holds
    what stays, and each job is given what comes with the code's version: `entry_point`, `spark_parameters`.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        entry_script: Path,
        modules: Path | None,
        settings: Settings,
        landing: Landing,
        work: Work,
        warehouse: Warehouse,
    ) -> None:
        """`modules` is the folder of what the entry script imports; None for a Spark that has all of it."""
        super().__init__(scope, id)
        self.entry_point = assets.Asset(self, "EntryPoint", path=str(entry_script))
        archive = assets.Asset(self, "Modules", path=str(modules)) if modules else None
        # no Hive catalog beside Iceberg's, so no permissions for one
        parameters = ["spark.sql.catalogImplementation=in-memory"]
        if archive:
            parameters.append(f"spark.archives={archive.s3_object_url}#{MODULES}")
        self.spark_parameters = " ".join(f"--conf {each}" for each in parameters)
        self._application = emrserverless.CfnApplication(
            self,
            "Application",
            name=settings.deployment.name,
            type="Spark",
            release_label=RELEASE,
            architecture="ARM64",
            auto_start_configuration=emrserverless.CfnApplication.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=emrserverless.CfnApplication.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=IDLE_MINUTES
            ),
            runtime_configuration=[
                emrserverless.CfnApplication.ConfigurationObjectProperty(
                    classification="spark-defaults",
                    properties=_catalog(settings.catalog.name, warehouse) | (_image() if archive else {}),
                )
            ],
        )
        self.application_id = self._application.attr_application_id
        self.job_role = iam.Role(
            self,
            "JobRole",
            assumed_by=iam.ServicePrincipal(
                PRINCIPAL,
                conditions={
                    "ArnEquals": {"aws:SourceArn": self._application.attr_arn},
                    "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
                },
            ),
        )
        landing.grant_read(self.job_role)
        work.grant_use(self.job_role)
        warehouse.grant_use(self.job_role)
        files = [self.entry_point, archive] if archive else [self.entry_point]
        iam.Grant.add_to_principal(
            grantee=self.job_role,
            actions=["s3:GetObject"],
            resource_arns=[each.bucket.arn_for_objects(each.s3_object_key) for each in files],
        )
        iam.Grant.add_to_principal(
            grantee=self.job_role,
            actions=[*GLUE_ACTIONS],
            resource_arns=_glue_arns(cdk.Stack.of(self), settings.routes),
        )

    def grant_run(self, grantee: iam.IGrantable) -> None:
        """Start jobs of this application under the job role, and ask how they are."""
        arn = self._application.attr_arn
        start = ["emr-serverless:StartJobRun"]
        iam.Grant.add_to_principal(grantee=grantee, actions=start, resource_arns=[arn])
        iam.Grant.add_to_principal(
            grantee=grantee,
            # a job is tagged as it starts
            actions=["emr-serverless:GetJobRun", "emr-serverless:TagResource"],
            resource_arns=[f"{arn}/jobruns/*"],
        )
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["iam:PassRole"],
            resource_arns=[self.job_role.role_arn],
            conditions={"StringEquals": {"iam:PassedToService": PRINCIPAL}},
        )

    @property
    def job_ended(self) -> events.EventPattern:
        """The events of this application's jobs that will not change any more."""
        return events.EventPattern(
            source=["aws.emr-serverless"],
            detail_type=["EMR Serverless Job Run State Change"],
            detail={"applicationId": [self.application_id], "state": [*ENDED]},
        )


def _catalog(catalog: str, warehouse: Warehouse) -> dict[str, str]:
    """The Iceberg catalog, as Spark knows it."""
    name = f"spark.sql.catalog.{catalog}"
    return {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.type": "glue",
        f"{name}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        f"{name}.warehouse": warehouse.bucket.s3_url_for_object(),
    }


def _image() -> dict[str, str]:
    """How Spark finds Python, its modules and Iceberg on EMR's image."""
    environment = {
        "AWS_REGION": cdk.Aws.REGION,
        "PYSPARK_PYTHON": f"python{PYTHON}",
        "PYTHONPATH": f"./{MODULES}",
    }
    return {
        "spark.jars": ICEBERG,
        "spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON": f"python{PYTHON}",
        **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in environment.items()},
        **{f"spark.executorEnv.{name}": value for name, value in environment.items()},
        **WORKERS,
    }


def _glue_arns(stack: cdk.Stack, routes: Iterable[RouteSettings]) -> list[str]:
    """The Glue catalog, and the databases and tables that the routes name as catalog.database.table."""
    names = {"catalog"}
    for route in routes:
        _, database, table = route.table.split(".")
        names |= {f"database/{database}", f"table/{database}/{table}"}
    return [stack.format_arn(service="glue", resource=name) for name in sorted(names)]
