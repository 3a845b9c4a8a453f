"""EMR Serverless: the application that runs ingest, and the role it runs under."""

from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_emrserverless as emrserverless
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.buckets import AUDITS, LINEAGE, WorkBucket
from infra.catalogs import Catalog
from infra.encryption import Encryption
from infra.landing import LandingBuckets
from infra.ledger import LedgerTable
from infra.permissions import allow
from infra.sizing import IDLE_MINUTES, capacity, concurrent_jobs, spark_workers
from tidegate.environment import ARCHIVES
from tidegate.settings import MINUTE, LimitSettings, Settings
from tidegate.settings.fixed import QUEUE_TIMEOUT

RELEASE = "emr-spark-8.1.0"
"""Spark 4.1.1, Iceberg 1.11.0; supported until September 2029."""
FIRST_RELEASE = "emr-spark-8.1.0"
PRINCIPAL = "emr-serverless.amazonaws.com"
RUNS = "The runs of this application, whose ids EMR makes."
WITHOUT_RESULT = ("FAILED", "CANCELLED")

PYTHONPATH = "./package:./modules"
"""The folders of the unpacked archives, in the working folder of each executor (`tidegate/spark/entry.py`)."""


class EmrApplication(Construct):
    """An application that starts by itself for a job, and stops by itself when it is idle.

    EMR refuses to change a started application, and a busy one is always started. So its configuration has only what
    stays the same: nothing of the routes, of the catalog, or of Spark. Each job gets these with its start:
    `entry_point`, `spark_parameters`. Another release is another application
    (docs/adr/0033-an-application-stays-as-it-is.md).

    No jar is named. The images of 8.x have Iceberg on Spark's own class path, and not where the User Guide says
    (docs/adr/0019-dependencies-travel-with-each-job.md).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        entry_script: Path,
        archives: Mapping[str, Path],
        settings: Settings,
        landing: LandingBuckets,
        work: WorkBucket,
        ledger: LedgerTable,
        catalog: Catalog,
        encryption: Encryption,
    ) -> None:
        """`archives` are the folders of what the entry script imports, by the names of `tidegate.environment.ARCHIVES`;
        none for a Spark that has all of it already."""
        super().__init__(scope, id)
        self.entry_point = assets.Asset(self, "EntryPoint", path=str(entry_script))
        packed = {
            name: assets.Asset(self, f"Archive-{name}", path=str(folder)) for name, folder in sorted(archives.items())
        }
        properties = {
            # no Hive catalog beside Iceberg's, so no permissions for one
            "spark.sql.catalogImplementation": "in-memory",
            **catalog.properties,
            **(_image(settings.limits, packed) if packed else {}),
        }
        self.spark_parameters = " ".join(f"--conf {name}={value}" for name, value in properties.items())
        self.application = self._application(settings, encryption)
        self.application_id = self.application.attr_application_id
        self.job_role = self._role()
        self._grant_job(settings, landing, work, ledger, catalog, encryption)
        # this version's, and those of the versions that jobs which queue or run were started with
        for file, kind in [(self.entry_point, "py"), *((each, "zip") for each in packed.values())]:
            allow(
                self.job_role,
                ["s3:GetObject"],
                file.bucket.arn_for_objects(file.s3_object_key),
                file.bucket.arn_for_objects(f"*.{kind}"),
                wildcard="The script and the modules of earlier deployments, by whose jobs they are still read: the"
                " CDK calls them by the hash of what is in them.",
            )

    def _application(self, settings: Settings, encryption: Encryption) -> emrserverless.CfnApplication:
        most = capacity(settings.limits)
        return emrserverless.CfnApplication(
            self,
            # the application of the first release has no release in its id
            "Application" if RELEASE == FIRST_RELEASE else f"Application-{RELEASE}",
            name=settings.deployment.name,
            type="SPARK",
            release_label=RELEASE,
            architecture="ARM64",
            auto_start_configuration=emrserverless.CfnApplication.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=emrserverless.CfnApplication.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=IDLE_MINUTES
            ),
            maximum_capacity=emrserverless.CfnApplication.MaximumAllowedResourcesProperty(
                cpu=f"{most.vcpu} vCPU",
                memory=f"{most.memory} GB",
                disk=f"{most.disk} GB",
            ),
            # a job that finds no capacity waits instead of failing
            scheduler_configuration=emrserverless.CfnApplication.SchedulerConfigurationProperty(
                max_concurrent_runs=concurrent_jobs(settings.limits),
                queue_timeout_minutes=QUEUE_TIMEOUT // MINUTE,
            ),
            # EMR keeps the logs of jobs for 30 days, as the functions' are, and asks nothing for it
            # (https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/logging.html)
            monitoring_configuration=emrserverless.CfnApplication.MonitoringConfigurationProperty(
                managed_persistence_monitoring_configuration=(
                    emrserverless.CfnApplication.ManagedPersistenceMonitoringConfigurationProperty(
                        enabled=True, encryption_key_arn=encryption.key.key_arn if encryption.key else None
                    )
                )
            ),
            network_configuration=(
                emrserverless.CfnApplication.NetworkConfigurationProperty(
                    subnet_ids=[*settings.network.subnets], security_group_ids=[*settings.network.security_groups]
                )
                if settings.network.subnets
                else None
            ),
        )

    def _role(self) -> iam.Role:
        return iam.Role(
            self,
            "JobRole",
            assumed_by=iam.ServicePrincipal(
                PRINCIPAL,
                conditions={
                    "ArnEquals": {"aws:SourceArn": self.application.attr_arn},
                    "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
                },
            ),
        )

    def _grant_job(
        self,
        settings: Settings,
        landing: LandingBuckets,
        work: WorkBucket,
        ledger: LedgerTable,
        catalog: Catalog,
        encryption: Encryption,
    ) -> None:
        """What every job may do."""
        landing.grant_read(self.job_role)
        work.grant_use(self.job_role)
        work.grant_same_bytes(self.job_role)
        # what it reads of a table's lineage
        work.grant(self.job_role, LINEAGE, "s3:PutObject")
        # an audit's job compares uploads with the ledger, and changes nothing there
        work.grant(self.job_role, AUDITS, "s3:PutObject")
        ledger.grant_read(self.job_role)
        ledger.grant_take(self.job_role)
        encryption.grant_table(self.job_role)
        landing.grant_inventories(self.job_role)
        work.grant_maintenance(self.job_role)
        catalog.grant_use(self.job_role)
        encryption.grant_messages(self.job_role)

    def grant_start(self, role: iam.Role) -> None:
        """Start jobs of this application under the job role."""
        allow(role, ["emr-serverless:StartJobRun"], self.application.attr_arn)
        # a job is tagged at its start
        allow(role, ["emr-serverless:TagResource"], self._runs, wildcard=RUNS)
        allow(
            role,
            ["iam:PassRole"],
            self.job_role.role_arn,
            conditions={"StringEquals": {"iam:PassedToService": PRINCIPAL}},
        )

    def grant_ask(self, role: iam.Role) -> None:
        """Read the state of this application's jobs."""
        allow(role, ["emr-serverless:GetJobRun"], self._runs, wildcard=RUNS)

    @property
    def _runs(self) -> str:
        return f"{self.application.attr_arn}/jobruns/*"

    @property
    def job_ended(self) -> events.EventPattern:
        """The events of this application's jobs that have ended, but for those whose receipts tell of it."""
        return events.EventPattern(
            source=["aws.emr-serverless"],
            detail_type=["EMR Serverless Job Run State Change"],
            detail={"applicationId": [self.application_id], "state": [*WITHOUT_RESULT]},
        )


def _image(limits: LimitSettings, archives: Mapping[str, assets.Asset]) -> dict[str, str]:
    """How Spark finds its modules on EMR's image, and its workers. No interpreter is named: the entry script looks
    which one the image has."""
    region = {
        # boto3 reads the first only, other SDKs the second
        # (https://boto3.amazonaws.com/v1/documentation/api/latest/guide/configuration.html)
        "AWS_DEFAULT_REGION": cdk.Aws.REGION,
        "AWS_REGION": cdk.Aws.REGION,
    }
    driver = {**region, ARCHIVES: ",".join(f"{name}={each.s3_object_url}" for name, each in archives.items())}
    executor = {**region, "PYTHONPATH": PYTHONPATH}
    return {
        **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in driver.items()},
        **{f"spark.executorEnv.{name}": value for name, value in executor.items()},
        **spark_workers(limits),
    }
