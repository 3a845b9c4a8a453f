"""The whole of `tidegate.toml`, and what its sections say of each other."""

from collections.abc import Mapping, Sequence, Set
from typing import Self

from pydantic import Field, model_validator

from tidegate.core.audit import AuditLimits
from tidegate.core.maintenance import MaintainLimits
from tidegate.core.routes import Route
from tidegate.settings.routes import RouteSettings
from tidegate.settings.scale import too_large
from tidegate.settings.sections import (
    AnnounceSettings,
    AuditSettings,
    CatalogSettings,
    DeploymentSettings,
    LimitSettings,
    MaintainSettings,
    NetworkSettings,
    OperationsSettings,
    RetentionSettings,
    Section,
    SecuritySettings,
)
from tidegate.settings.values import HOUR
from tidegate.settings.words import misplaced

LINGER = 10
"""Seconds for which a job in subnets waits for a further batch, unless the settings say otherwise."""


class Settings(Section):
    """The whole of `tidegate.toml`."""

    deployment: DeploymentSettings = Field(DeploymentSettings(), description="The deployment.")
    security: SecuritySettings = Field(SecuritySettings(), description="Encryption and access logs.")
    network: NetworkSettings = Field(NetworkSettings(), description="Where Spark's workers run.")
    limits: LimitSettings = Field(LimitSettings(), description="The share of the account's quotas.")
    catalog: CatalogSettings = Field(CatalogSettings(), description="The Iceberg catalog.")
    retention: RetentionSettings = Field(RetentionSettings(), description="How long messages and claims are kept.")
    operations: OperationsSettings = Field(OperationsSettings(), description="Who receives alarms.")
    audit: AuditSettings = Field(AuditSettings(), description="The search for uploads that S3 never announced.")
    announce: AnnounceSettings = Field(AnnounceSettings(), description="Events that tell others of committed batches.")
    maintain: MaintainSettings = Field(MaintainSettings(), description="What keeps the tables small.")
    routes: tuple[RouteSettings, ...] = Field((), alias="route", description="The routes, one or more.")

    @model_validator(mode="after")
    def _an_audit_within_the_horizon(self) -> Self:
        look_back = self.retention.look_back
        if "max_age" in self.audit.model_fields_set and self.audit.max_age > look_back:
            raise misplaced(
                f"this must not be longer than `look_back` in [retention], {look_back // HOUR}h: otherwise an audit"
                " takes an upload that the ledger has forgotten for a lost one, and its rows are in the table twice",
                *("audit", "max_age"),
            )
        if "every" in self.audit.model_fields_set and self.audit.every + self.audit.min_age > look_back:
            raise misplaced(
                f"`every` and `min_age` together must not be longer than `look_back` in [retention],"
                f" {look_back // HOUR}h: otherwise some uploads are never looked at",
                *("audit", "every"),
            )
        given = self.audit.model_fields_set & {"min_age", "max_age"}
        if given and self.audit.min_age >= min(self.audit.max_age, look_back):
            raise misplaced("`min_age` must be shorter than `max_age` and `look_back`", "audit", min(given))
        return self

    @model_validator(mode="after")
    def _routes_do_not_collide(self) -> Self:
        if not self.routes:
            raise ValueError("there is no [[route]]: a route states which uploads become rows of which table")
        names: set[str] = set()
        of_bucket: dict[str, list[RouteSettings]] = {}
        core = {id(each): each.route() for each in self.routes}
        for position, route in enumerate(self.routes):
            earlier = of_bucket.setdefault(route.bucket, [])
            if complaint := self._collision(route, names, earlier, core):
                raise misplaced(complaint, "route", position)
            names.add(route.name)
            earlier.append(route)
        return self

    def _collision(
        self, route: RouteSettings, names: Set[str], earlier: Sequence[RouteSettings], core: Mapping[int, Route]
    ) -> str:
        """What is wrong between a route and those before it: `earlier` are those of its bucket."""
        catalog, _, table = route.table.partition(".")
        if catalog != self.catalog.name:
            return (
                f"table {route.table} is not in the catalog {self.catalog.name!r}: call it"
                f" {self.catalog.name}.{table}, or change [catalog] name"
            )
        if route.name in names:
            return f"two routes are named {route.name!r}: names must differ"
        for other in earlier:
            if core[id(route)].overlaps(core[id(other)]):
                return (
                    f"routes {other.name!r} and {route.name!r} overlap: a key of bucket {route.bucket} could belong"
                    " to both, and its rows would land twice. Choose prefixes or suffixes that exclude each other"
                )
            if route.existing != other.existing:
                return f"routes {other.name!r} and {route.name!r} disagree whether bucket {route.bucket} exists already"
            if route.versioned != other.versioned:
                return f"routes {other.name!r} and {route.name!r} disagree whether bucket {route.bucket} is versioned"
            if route.source != other.source:
                return f"routes {other.name!r} and {route.name!r} disagree on the `source` of bucket {route.bucket}"
            if route.bucket_owner != other.bucket_owner:
                return f"routes {other.name!r} and {route.name!r} disagree on the `bucket_owner` of {route.bucket}"
        return ""

    @model_validator(mode="after")
    def _not_more_than_a_deployment_takes(self) -> Self:
        # a table bucket is a catalog of its own in Glue
        bucket = (self.catalog.arn or "").rpartition("/")[2]
        in_glue = {"glue": "", "s3tables": f"s3tablescatalog/{bucket}/", "rest": None}[self.catalog.type]
        if found := too_large(self.routes, in_glue=in_glue):
            complaint, position = found
            raise misplaced(complaint, "route", position)
        return self

    @model_validator(mode="after")
    def _nobody_maintains_what_maintains_itself(self) -> Self:
        complaint = "S3 Tables maintains its tables itself: leave this out, and set the retention there"
        if self.catalog.type == "s3tables":
            if self.maintain.enabled:
                raise misplaced(complaint, "maintain", "enabled")
            for position, route in enumerate(self.routes):
                if route.maintain:
                    raise misplaced(complaint, "route", position, "maintain")
        return self

    @model_validator(mode="after")
    def _a_job_reaches_what_it_needs(self) -> Self:
        """(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/considerations.html)"""
        if self.network.subnets:
            return self
        reached = (
            "a job without subnets reaches only S3, Glue, Lake Formation, CloudWatch Logs, KMS, STS, DynamoDB and"
            " Secrets Manager"
        )
        if self.catalog.type == "rest":
            raise misplaced(
                f"{reached}, and no REST catalog. Give `subnets` and `security_groups` in [network], with a way to"
                f" {self.catalog.uri}",
                *("catalog", "type"),
            )
        if self.limits.linger:
            raise misplaced(
                f"{reached}. It cannot tell settling over EventBridge that its batch is decided, and would wait for"
                " nothing. Leave this out, or give `subnets` and `security_groups` in [network]",
                *("limits", "linger"),
            )
        return self

    @model_validator(mode="after")
    def _uploads_are_not_among_the_files_of_tables(self) -> Self:
        """To Iceberg's orphan removal, an upload in a table's folder is a file that no snapshot names."""
        scheme, _, place = (self.catalog.warehouse or "").partition("://")
        # to a REST catalog a warehouse may be a name of its own
        bucket, _, folder = place.partition("/") if scheme == "s3" else ("", "", "")
        folder = folder.rstrip("/") + "/" if folder.strip("/") else ""
        maintained = self.maintain.enabled or any(route.maintain for route in self.routes)
        for position, route in enumerate(self.routes):
            meets = route.prefix.startswith(folder) or folder.startswith(route.prefix)
            if maintained and route.bucket == bucket and meets:
                raise misplaced(
                    f"uploads of route {route.name!r} would land in the warehouse {self.catalog.warehouse}, and"
                    " maintenance could delete them as orphan files of a table before their rows are in it. Choose"
                    " another bucket, or a prefix outside the warehouse",
                    *("route", position, "prefix"),
                )
        return self

    @model_validator(mode="after")
    def _an_invocation_for_each_lane(self) -> Self:
        most = self.limits.dispatch_concurrency
        for position, route in enumerate(self.routes):
            if route.lanes > most:
                raise misplaced(
                    f"route {route.name!r} has {route.lanes} lanes, and `dispatch_concurrency` in [limits] is {most}:"
                    f" each lane needs an invocation of its own. Give the route {most} lanes at most, or raise"
                    f" `dispatch_concurrency` to {route.lanes}",
                    *("route", position, "lanes"),
                )
        return self

    @property
    def linger(self) -> int:
        """Seconds for which a job waits for a further batch; 0 if it takes none."""
        if self.limits.linger is not None:
            return self.limits.linger
        return LINGER if self.network.subnets else 0

    def maintained_tables(self) -> tuple[str, ...]:
        """The tables that a job maintains, in order of their names."""
        by_default = self.catalog.type == "glue" if self.maintain.enabled is None else self.maintain.enabled
        wanted: dict[str, bool] = {}
        for route in self.routes:
            said = by_default if route.maintain is None else route.maintain
            for table in route.tables:
                wanted[table] = wanted.get(table, True) and said
        return tuple(sorted(table for table, each in wanted.items() if each))

    def tables_asked_for(self) -> tuple[str, ...]:
        """Those of them that are maintained whoever created them, in order of their names."""
        said = {table for route in self.routes if route.maintain for table in route.tables}
        return tuple(table for table in self.maintained_tables() if table in said)

    def maintain_limits(self) -> MaintainLimits:
        """The section [maintain] as `tidegate.core` has it."""
        return MaintainLimits(
            keep_for=self.maintain.keep_snapshots_for,
            keep_last=self.maintain.keep_snapshots,
            orphans_after=self.maintain.orphans_after,
            compact_bytes=int(self.maintain.compact_bytes),
            # a table takes a while once it is begun
            begin_for=self.limits.job_timeout // 2,
        )

    def core_routes(self) -> tuple[Route, ...]:
        return tuple(each.route() for each in self.routes)

    def audit_limits(self) -> AuditLimits:
        """The section [audit] as `tidegate.core` has it. Defaults give way to a shorter horizon."""
        horizon = self.retention.look_back
        max_age = min(self.audit.max_age, horizon)
        return AuditLimits(min(self.audit.min_age, max_age), max_age, self.audit.every, horizon, self.audit.job_above)
