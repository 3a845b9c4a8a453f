"""The stack: the parts of the path, and who may do what to which."""

from contextlib import nullcontext
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import bundling, limits
from infra.buckets import Warehouse, Work
from infra.buffer import Buffer
from infra.bus import Bus
from infra.emr import Emr
from infra.functions import Function
from infra.landing import Landing
from infra.ledger import Ledger
from tidegate.settings import DAY, Settings


class TidegateStack(cdk.Stack):
    """One deployment of Tidegate.

    `sources` is the checkout, `config` the file that `settings` came from: the functions read it again.
    With `local` nothing is installed for other machines: for a stack that runs in this one's Python.
    """

    def __init__(
        self, scope: Construct, settings: Settings, *, sources: Path, config: Path, local: bool = False
    ) -> None:
        limits.check(settings)
        super().__init__(
            scope,
            settings.deployment.name,
            description="Tidegate: S3 uploads become Iceberg rows exactly once",
            # a rule that asks the account for its bootstrap version can only be answered by AWS
            synthesizer=cdk.DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        retention = settings.retention
        buffer = Buffer(self, "Buffer", source=limits.INTAKE, retention=retention)
        bus = Bus(self, "Bus", source=limits.DISPATCH, retention=retention)
        ledger = Ledger(self, "Ledger")
        work = Work(self, "Work")
        warehouse = Warehouse(self, "Warehouse")
        landing = Landing(
            self,
            "Landing",
            routes=settings.routes,
            buffer=buffer,
            # nobody reads a version that the ledger has forgotten
            keep_versions=cdk.Duration.days(-(-retention.claims // DAY)),
        )
        with nullcontext() if local else bundling.spark(sources) as modules:
            emr = Emr(
                self,
                "Emr",
                entry_script=sources / "tidegate" / "spark" / "entry.py",
                modules=modules,
                settings=settings,
                landing=landing,
                work=work,
                warehouse=warehouse,
            )

        values = {
            "Ledger": ledger.table.table_name,
            "Topic": bus.topic.topic_arn,
            "Buffer": buffer.queue.queue_url,
            "DeadLetters": buffer.dead_letters.queue_url,
            "Notices": bus.queue.queue_url,
            "NoticesDeadLetters": bus.dead_letters.queue_url,
            "Work": work.bucket.bucket_name,
            "Application": emr.application_id,
            "JobRole": emr.job_role.role_arn,
            "EntryPoint": emr.entry_point.s3_object_url,
            "SparkParameters": emr.spark_parameters,
        }
        with bundling.functions(sources, config, dependencies=not local) as folder:
            self._functions(
                {"TIDEGATE_DEPLOYMENT": settings.deployment.name}
                | {f"TIDEGATE_{_snake(name)}": value for name, value in values.items()},
                lambda_.Code.from_asset(str(folder)),
                buffer=buffer,
                bus=bus,
                ledger=ledger,
                work=work,
                emr=emr,
                landing=landing,
            )
        outputs = Construct(self, "Outputs")
        for name, value in values.items():
            cdk.CfnOutput(outputs, name, value=value).override_logical_id(name)

    def _functions(
        self,
        environment: dict[str, str],
        code: lambda_.Code,
        *,
        buffer: Buffer,
        bus: Bus,
        ledger: Ledger,
        work: Work,
        emr: Emr,
        landing: Landing,
    ) -> None:
        def function(name: str, timeout: int) -> Function:
            return Function(self, name.capitalize(), name=name, code=code, timeout=timeout, environment=environment)

        intake = function("intake", limits.INTAKE.timeout)
        intake.feed_from(buffer.queue, limits.INTAKE)
        buffer.grant_set_aside(intake.role)
        bus.grant_publish(intake.role)
        landing.notify_after(intake)

        dispatch = function("dispatch", limits.DISPATCH.timeout)
        dispatch.feed_from(bus.queue, limits.DISPATCH)
        bus.grant_set_aside(dispatch.role)
        bus.grant_publish(dispatch.role)

        settle = function("settle", limits.SETTLE_TIMEOUT)
        settle.invoke_every(limits.SETTLE_EVERY)
        settle.invoke_on(emr.job_ended)

        for each in (dispatch, settle):
            ledger.grant_use(each.role)
            work.grant_use(each.role)
            emr.grant_run(each.role)


def _snake(name: str) -> str:
    """`NoticesDeadLetters` as NOTICES_DEAD_LETTERS."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in name).lstrip("_").upper()
