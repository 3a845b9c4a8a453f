"""The stack: the parts of the path, and who may do what to which."""

from contextlib import nullcontext
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IConstruct

from infra import bundling, limits
from infra.buckets import Buckets, Work
from infra.buffer import Buffer
from infra.bus import Bus
from infra.catalogs import make_catalog
from infra.custom_resources import bound_logs
from infra.emr import Emr
from infra.encryption import Encryption
from infra.functions import Function
from infra.guards import Guards, after
from infra.landing import Landing
from infra.ledger import Ledger
from infra.measures import Parts, Watched
from infra.operations import Operations
from tidegate.environment import variables
from tidegate.settings import DAY, Settings


class TidegateStack(cdk.Stack):
    """One deployment of Tidegate.

    `sources` is the checkout, `config` the file that `settings` came from: the functions read it again.
    With `local` nothing is installed for other machines: for a stack that runs in this one's Python. When `importing`
    there is nothing in it but what outlives a stack, and no word of anything else, as `cdk import` wants it.
    """

    def __init__(
        self,
        scope: Construct,
        settings: Settings,
        *,
        sources: Path,
        config: Path,
        local: bool = False,
        importing: bool = False,
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
        dev = settings.deployment.dev
        encryption = Encryption(
            self,
            "Encryption",
            security=settings.security,
            bucket_owners=[route.bucket_owner for route in settings.routes if route.bucket_owner],
            dev=dev,
        )
        if importing:
            self._import(settings, encryption)
            return
        guards = Guards(self, "Guards", key=encryption.key)
        buckets = Buckets(encryption, settings.security.access_logs, dev)
        buffer = Buffer(self, "Buffer", source=limits.INTAKE, retention=retention, encryption=encryption)
        bus = Bus(
            self, "Bus", source=limits.DISPATCH, retention=retention, encryption=encryption, guards=guards, dev=dev
        )
        ledger = Ledger(self, "Ledger", encryption=encryption, guards=guards, dev=dev)
        work = Work(self, "Work", buckets=buckets)
        catalog = make_catalog(self, settings, buckets)
        landing = Landing(
            self,
            "Landing",
            routes=settings.routes,
            buffer=buffer,
            buckets=buckets,
            keep_versions=_keep_versions(settings),
            local=local,
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
                catalog=catalog,
                encryption=encryption,
            )

        values = {
            "Account": cdk.Aws.ACCOUNT_ID,
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
        starters: list[IConstruct] = []
        with bundling.functions(sources, config, dependencies=not local) as folder:
            functions = self._functions(
                variables(settings.deployment.name, values),
                lambda_.Code.from_asset(str(folder)),
                buffer=buffer,
                bus=bus,
                ledger=ledger,
                work=work,
                emr=emr,
                landing=landing,
                settings=settings,
                encryption=encryption,
                starters=starters,
            )
        Operations(
            self,
            "Operations",
            parts=Parts(
                deployment=settings.deployment.name,
                buffer=buffer.queue,
                buffer_dead_letters=buffer.dead_letters,
                notices=bus.queue,
                notices_dead_letters=bus.dead_letters,
                functions=functions,
                application_id=emr.application_id,
            ),
            routes=[
                # nothing is expected of a retired route
                Watched(route.name, route.batch.max_wait, None if route.retired else route.expect_every)
                for route in settings.routes
            ],
            emails=settings.operations.emails,
            key=encryption.key,
        )
        bound_logs(self, encryption.key)
        guards.application(emr.application, starters)
        if names := guards.names(route.bucket for route in settings.routes if not route.existing):
            after(names, self)
        outputs = Construct(self, "Outputs")
        for name, value in values.items():
            cdk.CfnOutput(outputs, name, value=value).override_logical_id(name)

    def _import(self, settings: Settings, encryption: Encryption) -> None:
        """The same constructs under the same names. Nothing is announced, because the buffer is not there yet."""
        buckets = Buckets(encryption, settings.security.access_logs, settings.deployment.dev)
        Ledger(self, "Ledger", encryption=encryption, guards=None, dev=settings.deployment.dev)
        Work(self, "Work", buckets=buckets)
        make_catalog(self, settings, buckets)
        Landing(
            self,
            "Landing",
            routes=[route.model_copy(update={"retired": True}) for route in settings.routes],
            buffer=None,
            buckets=buckets,
            keep_versions=_keep_versions(settings),
        )

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
        settings: Settings,
        encryption: Encryption,
        starters: list[IConstruct],
    ) -> dict[str, lambda_.IFunction]:
        allowed = settings.limits

        def function(name: str, timeout: int, concurrency: int) -> Function:
            made = Function(
                self,
                name.capitalize(),
                name=name,
                code=code,
                timeout=timeout,
                environment=environment,
                log_key=encryption.key,
                reserved=concurrency if allowed.reserve_concurrency else None,
            )
            encryption.grant_messages(made.role)
            return made

        intake = function("intake", limits.INTAKE.timeout, allowed.intake_concurrency)
        intake.feed_from(buffer.queue, limits.INTAKE, allowed.intake_concurrency)
        buffer.grant_set_aside(intake.role)
        bus.grant_publish(intake.role)
        landing.notify_after(intake)

        dispatch = function("dispatch", limits.DISPATCH.timeout, allowed.dispatch_concurrency)
        dispatch.feed_from(bus.queue, limits.DISPATCH, allowed.dispatch_concurrency)
        bus.grant_set_aside(dispatch.role)
        bus.grant_publish(dispatch.role)

        settle = function("settle", limits.SETTLE_TIMEOUT, limits.SETTLE_RESERVED)
        settle.invoke_every(limits.SETTLE_EVERY)
        settle.invoke_on(emr.job_ended)
        bus.grant_publish(settle.role)

        for each in (dispatch, settle):
            ledger.grant_use(each.role)
            encryption.grant_table(each.role)
            work.grant_use(each.role)
            emr.grant_start(each.role)
        emr.grant_ask(settle.role)
        ledger.grant_list(settle.role)
        starters += [*dispatch.triggers, *settle.triggers]
        return {"intake": intake.function, "dispatch": dispatch.function, "settle": settle.function}


def _keep_versions(settings: Settings) -> cdk.Duration:
    """Nobody reads a version that the ledger has forgotten."""
    return cdk.Duration.days(-(-settings.retention.claims // DAY))
