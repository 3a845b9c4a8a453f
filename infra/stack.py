"""The stack: the parts of the path, and the permissions between them."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import bundling, sizing
from infra.alarms import Alarms
from infra.buckets import Buckets, WorkBucket
from infra.buffer import Buffer
from infra.catalogs import make_catalog
from infra.custom_resources import bound_logs
from infra.dashboard import Dashboard
from infra.emr import EmrApplication
from infra.encryption import Encryption
from infra.functions import LambdaFunction, Reach
from infra.guards import Guards, after
from infra.landing import LandingBuckets
from infra.ledger import LedgerTable
from infra.measures import Parts
from infra.permissions import grant_announce
from infra.roster import ROSTER, Event, FeedQueue, May
from infra.topic import NoticeTopic
from tidegate.environment import variables
from tidegate.settings import DAY, Settings


class TidegateStack(cdk.Stack):
    """One deployment of Tidegate.

    `sources` is the checkout, `config` the file of `settings`, which the functions read again. With `local` the bundles
    are for a stack that runs in this machine's Python. With `importing` the stack has only the resources that outlive a
    stack, and no references to others, because `cdk import` needs that.
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
        super().__init__(
            scope,
            settings.deployment.name,
            description="Tidegate: S3 uploads become Iceberg rows exactly once",
            # a rule that asks the account for its bootstrap version can only be answered by AWS
            synthesizer=cdk.DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        dev = settings.deployment.dev
        encryption = Encryption(
            self,
            "Encryption",
            security=settings.security,
            bucket_owners=[route.bucket_owner for route in settings.routes if route.bucket_owner],
            table_bucket=settings.catalog.arn,
            dev=dev,
        )
        if importing:
            self._import(settings, encryption)
            return
        guards = Guards(self, "Guards", key=encryption.key)
        path = self._path(settings, sources, encryption, guards, local=local)
        functions = self._functions(settings, sources, config, path, dependencies=not local)
        path.landing.notify_after(functions["intake"])
        self._watch(settings, path, functions)
        bound_logs(self, encryption.key)
        starters = (functions[row.name].triggers for row in ROSTER if May.START_JOBS in row.may)
        guards.application(path.emr.application, chain.from_iterable(starters))
        if names := guards.names(route.bucket for route in settings.routes if not route.existing):
            after(names, self)
        outputs = Construct(self, "Outputs")
        for name, value in path.values.items():
            cdk.CfnOutput(outputs, name, value=value).override_logical_id(name)

    def _path(
        self, settings: Settings, sources: Path, encryption: Encryption, guards: Guards, *, local: bool
    ) -> "_Path":
        dev = settings.deployment.dev
        buckets = Buckets(encryption, settings.security.access_logs, dev)
        intake = sizing.intake(settings)
        buffer = Buffer(self, "Buffer", source=intake, encryption=encryption)
        # the id is the construct's first name, with which logical ids of deployed stacks begin
        notices = NoticeTopic(
            self,
            "Bus",
            source=sizing.DISPATCH,
            archive_days=sizing.archive_days(settings.retention),
            encryption=encryption,
            guards=guards,
            dev=dev,
        )
        ledger = LedgerTable(self, "Ledger", encryption=encryption, guards=guards, dev=dev)
        work = WorkBucket(self, "Work", buckets=buckets)
        catalog = make_catalog(self, settings, buckets, work)
        landing = LandingBuckets(
            self,
            "Landing",
            routes=settings.routes,
            buffer=buffer,
            buckets=buckets,
            keep_versions=_keep_versions(settings),
            local=local,
        )
        no_archives: AbstractContextManager[dict[str, Path]] = nullcontext({})
        with no_archives if local else bundling.spark(sources) as archives:
            emr = EmrApplication(
                self,
                "Emr",
                entry_script=sources / "tidegate" / "spark" / "entry.py",
                archives=archives,
                settings=settings,
                landing=landing,
                work=work,
                ledger=ledger,
                catalog=catalog,
                encryption=encryption,
            )
        return _Path(intake, buffer, notices, ledger, work, landing, emr, encryption)

    def _functions(
        self, settings: Settings, sources: Path, config: Path, path: "_Path", *, dependencies: bool
    ) -> dict[str, LambdaFunction]:
        environment, reach = variables(settings.deployment.name, path.values), path.reach(settings)
        with bundling.functions(sources, config, dependencies=dependencies) as folder:
            code = lambda_.Code.from_asset(str(folder))
            return {
                row.name: LambdaFunction(
                    self,
                    row.construct,
                    row=row,
                    code=code,
                    environment=environment,
                    settings=settings,
                    reach=reach,
                    log_key=path.encryption.key,
                )
                for row in ROSTER
            }

    def _watch(self, settings: Settings, path: "_Path", functions: Mapping[str, LambdaFunction]) -> None:
        """Alarms and a dashboard. They only read: nothing in the path depends on them."""
        parts = Parts(
            deployment=settings.deployment.name,
            buffer=path.buffer.queue,
            intake=path.intake,
            buffer_dead_letters=path.buffer.dead_letters,
            notices=path.notices.queue,
            notices_dead_letters=path.notices.dead_letters,
            functions={name: each.function for name, each in functions.items()},
            application_id=path.emr.application_id,
        )
        operations = Construct(self, "Operations")
        alarms = Alarms(
            operations,
            "Alarms",
            parts=parts,
            # a retired route expects no uploads
            expected={
                route.name: route.expect_every for route in settings.routes if route.expect_every and not route.retired
            },
            announces=bool(settings.announce.bus),
            emails=settings.operations.emails,
            key=path.encryption.key,
        )
        Dashboard(operations, "Dashboard", parts=parts, alarms=alarms.all)

    def _import(self, settings: Settings, encryption: Encryption) -> None:
        """The same constructs under the same names, but no notifications, because there is no buffer yet."""
        buckets = Buckets(encryption, settings.security.access_logs, settings.deployment.dev)
        LedgerTable(self, "Ledger", encryption=encryption, guards=None, dev=settings.deployment.dev)
        make_catalog(self, settings, buckets, WorkBucket(self, "Work", buckets=buckets))
        LandingBuckets(
            self,
            "Landing",
            routes=[route.model_copy(update={"retired": True}) for route in settings.routes],
            buffer=None,
            buckets=buckets,
            keep_versions=_keep_versions(settings),
        )


def _keep_versions(settings: Settings) -> cdk.Duration:
    """No version is read any more once its claim has expired."""
    return cdk.Duration.days(-(-settings.retention.claims // DAY))


@dataclass(frozen=True)
class _Path:
    """What an upload passes."""

    intake: sizing.Source
    buffer: Buffer
    notices: NoticeTopic
    ledger: LedgerTable
    work: WorkBucket
    landing: LandingBuckets
    emr: EmrApplication
    encryption: Encryption

    @property
    def values(self) -> dict[str, str]:
        """The stack's outputs, by name."""
        return {
            "Account": cdk.Aws.ACCOUNT_ID,
            "Ledger": self.ledger.table.table_name,
            "Topic": self.notices.topic.topic_arn,
            "Buffer": self.buffer.queue.queue_url,
            "DeadLetters": self.buffer.dead_letters.queue_url,
            "Notices": self.notices.queue.queue_url,
            "NoticesDeadLetters": self.notices.dead_letters.queue_url,
            "Work": self.work.bucket.bucket_name,
            "Application": self.emr.application_id,
            "JobRole": self.emr.job_role.role_arn,
            "EntryPoint": self.emr.entry_point.s3_object_url,
            "SparkParameters": self.emr.spark_parameters,
        }

    def reach(self, settings: Settings) -> Reach:
        """What each function is fed with, and how it is allowed what it may."""
        return Reach(
            queues={
                FeedQueue.BUFFER: (self.buffer.queue, self.intake),
                FeedQueue.NOTICES: (self.notices.queue, sizing.DISPATCH),
            },
            events={Event.JOB_ENDED: self.emr.job_ended, Event.BATCH_DECIDED: self.work.batch_decided},
            all_may=[self.encryption.grant_messages],
            grants={
                May.SET_NOTIFICATIONS_ASIDE: [self.buffer.grant_set_aside],
                May.SET_NOTICES_ASIDE: [self.notices.grant_set_aside],
                May.PUBLISH_NOTICES: [self.notices.grant_publish],
                May.USE_LEDGER: [self.ledger.grant_use, self.encryption.grant_table],
                May.CLAIM_UPLOADS: [self.ledger.grant_claim],
                May.QUERY_LEDGER: [self.ledger.grant_list, self.encryption.grant_table],
                May.USE_WORK: [self.work.grant_use],
                May.START_JOBS: [self.emr.grant_start],
                May.ASK_FOR_JOBS: [self.emr.grant_ask],
                May.LIST_UPLOADS: [self.landing.grant_list],
                May.CHANGE_LEDGER: [self.ledger.grant_change, self.encryption.grant_table],
                May.READ_SCREENINGS: [self.work.grant_read_screenings],
                May.READ_LEDGER: [self.ledger.grant_get, self.encryption.grant_table],
                May.READ_FLOORS: [self.work.grant_read_floors],
                May.ASK_FOR_MAINTENANCE: [self.work.grant_maintenance],
                May.ANNOUNCE: [self.ledger.grant_take_out, partial(grant_announce, bus=settings.announce.bus)]
                if settings.announce.bus
                else [],
            },
        )
