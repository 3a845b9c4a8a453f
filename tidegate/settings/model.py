"""The whole of `tidegate.toml`, and what its sections say of each other."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Self

from pydantic import Field, model_validator

from tidegate.core.audit import AuditLimits
from tidegate.core.maintenance import MaintainLimits
from tidegate.core.routes import Route
from tidegate.settings import fixed
from tidegate.settings.catalog import USUAL_NAME, LakeCatalog
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
from tidegate.settings.values import MINUTE
from tidegate.settings.words import misplaced


class Settings(Section):
    """The whole of `tidegate.toml`."""

    deployment: DeploymentSettings = Field(DeploymentSettings(), description="The deployment.")
    security: SecuritySettings = Field(SecuritySettings(), description="Encryption and access logs.")
    network: NetworkSettings = Field(NetworkSettings(), description="Where Spark's workers run.")
    limits: LimitSettings = Field(LimitSettings(), description="The share of the account's quotas.")
    catalog_section: CatalogSettings = Field(CatalogSettings(), alias="catalog", description="The Iceberg catalog.")
    retention: RetentionSettings = Field(RetentionSettings(), description="How long claims are kept.")
    operations: OperationsSettings = Field(OperationsSettings(), description="Who receives alarms.")
    audit: AuditSettings = Field(AuditSettings(), description="The search for uploads that S3 never announced.")
    announce: AnnounceSettings = Field(AnnounceSettings(), description="Events that tell others of committed batches.")
    maintain: MaintainSettings = Field(MaintainSettings(), description="What keeps the tables small.")
    routes: tuple[RouteSettings, ...] = Field((), alias="route", description="The routes, one or more.")

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
        if route.table.partition(".")[0] != self.catalog.name:
            return (
                f"table {route.table} is not in the catalog {self.catalog.name!r} of route {self.routes[0].name!r}: a"
                " deployment writes to one catalog"
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
        for position, route in enumerate(self.routes):
            if route.maintain and self.catalog.type == "s3tables":
                raise misplaced(
                    "S3 Tables maintains its tables itself: leave this out, and set the retention there",
                    *("route", position, "maintain"),
                )
        return self

    @model_validator(mode="after")
    def _a_job_reaches_what_it_needs(self) -> Self:
        """(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/considerations.html)"""
        if self.catalog.type == "rest" and not self.network.subnets:
            raise misplaced(
                "a job without subnets reaches only S3, Glue, Lake Formation, CloudWatch Logs, KMS, STS, DynamoDB and"
                " Secrets Manager, and no REST catalog. Give `subnets` and `security_groups` in [network], with a way"
                f" to {self.catalog.uri}",
                *("catalog", "uri"),
            )
        return self

    @model_validator(mode="after")
    def _uploads_are_not_among_the_files_of_tables(self) -> Self:
        """To Iceberg's orphan removal, an upload in a table's folder is a file that no snapshot names."""
        scheme, _, place = (self.catalog.warehouse or "").partition("://")
        # to a REST catalog a warehouse may be a name of its own
        bucket, _, folder = place.partition("/") if scheme == "s3" else ("", "", "")
        folder = folder.rstrip("/") + "/" if folder.strip("/") else ""
        maintained = any(route.maintain for route in self.routes)
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

    @property
    def catalog(self) -> LakeCatalog:
        """The name is that of the routes' tables; a table bucket has an ARN, and a warehouse of its own."""
        of, said = self.catalog_section.type, self.catalog_section
        return LakeCatalog(
            name=next((route.table.partition(".")[0] for route in self.routes), USUAL_NAME),
            type=of,
            arn=said.warehouse if of == "s3tables" else None,
            uri=said.uri,
            warehouse=said.warehouse if of == "rest" else None,
            credential_secret=said.credential_secret,
        )

    @property
    def concurrency(self) -> int:
        """How many invocations of intake, and of dispatch, run at a time: each lane of a route uses one."""
        return max(fixed.CONCURRENCY, *(route.lanes for route in self.routes), 0)

    @property
    def job_timeout(self) -> int:
        """Seconds, whole minutes, that a job may run: in proportion to the largest file, if that is very large."""
        largest = max((int(route.max_object_bytes) for route in self.routes), default=0)
        needed = fixed.JOB_TIMEOUT * largest // fixed.USUAL_FILE
        return min(max(fixed.JOB_TIMEOUT, needed), fixed.LONGEST_JOB) // MINUTE * MINUTE

    def maintained_tables(self) -> tuple[str, ...]:
        """The tables that a job maintains, in order of their names."""
        by_default = self.catalog.type == "glue"
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

    @property
    def stay(self) -> int:
        """Seconds for which a worker waits for a batch (`core.workers.ALWAYS`: one is always there)."""
        return self.limits.stay if "stay" in self.limits.model_fields_set else fixed.STAY

    def maintain_limits(self) -> MaintainLimits:
        """The section [maintain] as `tidegate.core` has it."""
        return replace(
            fixed.MAINTENANCE,
            keep_for=self.maintain.keep_snapshots_for,
            # a table takes a while once it is begun
            begin_for=self.job_timeout // 2,
        )

    def core_routes(self) -> tuple[Route, ...]:
        return tuple(each.route() for each in self.routes)

    def audit_limits(self) -> AuditLimits:
        """The section [audit] as `tidegate.core` has it."""
        return AuditLimits(fixed.MIN_AGE, fixed.MAX_AGE, self.audit.every, fixed.LOOK_BACK, fixed.JOB_ABOVE)
