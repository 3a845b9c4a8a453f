"""The checks of what others have to allow: the key, the catalog and the subnets."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.cli.account.ask import Absent, Answer, Examined, Found, cannot_tell, fails, fine, warns
from tidegate.cli.checks import Check

ANYBODY = "IAM_ALLOWED_PRINCIPALS"

# --- the key ---

USERS = ("s3", "sns", "events", "cloudwatch", "emr-serverless", "logs.REGION")
"""The services that use a key in their own name. docs/configuration.md has the statements."""


def key(here: Examined) -> Iterator[Check]:
    """Whether the policy of a key that the owner made names every service that uses it."""
    arn = here.settings.security.own_key
    if arn is None:
        return
    line = "key"
    answer = here.account.ask("kms", "get_key_policy", KeyId=arn, PolicyName="default")
    if isinstance(answer, Absent):
        yield fails(line, f"{arn} does not exist", "correct `encryption`")
        return
    if not isinstance(answer, Found):
        yield cannot_tell(line, "whether its policy lets the services use it", answer)
        return
    named = set(_services(json.loads(answer.body["Policy"])))
    wanted = {f"{each.replace('REGION', here.region)}.amazonaws.com" for each in USERS}
    if missing := sorted(wanted - named):
        finding = f"its policy does not let {', '.join(missing)} use it: their messages would not arrive"
        yield fails(line, finding, "docs/configuration.md, `The policy of a key of your own`, has the statements")
    else:
        yield fine(line, "its policy names every service that uses it")


def _services(policy: Mapping[str, Any]) -> Iterator[str]:
    """The services that a policy allows something."""
    for each in policy.get("Statement", ()):
        principal = each.get("Principal")
        if each.get("Effect") == "Allow" and isinstance(principal, dict):
            service = principal.get("Service", ())
            yield from [service] if isinstance(service, str) else service


# --- the catalog ---


def catalog(here: Examined) -> Iterator[Check]:
    """Whether Lake Formation lets the job role make databases and tables, and the catalog of a table bucket is there.

    Where Lake Formation decides, IAM's permissions are not enough. It leaves the decision to IAM as long as the group
    IAM_ALLOWED_PRINCIPALS has its permissions, as in a new account
    (https://docs.aws.amazon.com/lake-formation/latest/dg/change-settings.html).
    """
    match here.settings.catalog.type:
        case "glue":
            yield defaults(here.account.ask("lakeformation", "get_data_lake_settings"), here.role)
            for name in sorted({route.table.split(".")[1] for route in here.settings.routes}):
                there = here.account.ask("glue", "get_database", Name=name)
                if not isinstance(there, Absent):  # else the job makes it
                    yield database(name, there, _granted(name, here) if isinstance(there, Found) else there, here.role)
        case "s3tables":
            _, _, _, region, owner, name = str(here.settings.catalog.arn).split(":")
            bucket = name.removeprefix("bucket/")
            found = here.account.ask("glue", "get_catalog", CatalogId=f"{owner}:s3tablescatalog/{bucket}")
            yield federated(bucket, region, here.region, found)


def defaults(settings: Answer, role: str) -> Check:
    """Whether databases and tables that are made now are left to IAM."""
    line = "lake formation"
    if not isinstance(settings, Found):
        return cannot_tell(line, "whether it decides about new tables", settings)
    found = settings.body["DataLakeSettings"]
    kinds = {"databases": "CreateDatabaseDefaultPermissions", "tables": "CreateTableDefaultPermissions"}
    strict = [what for what, name in kinds.items() if ANYBODY not in _principals(found.get(name))]
    if not strict:
        return fine(line, "leaves new databases and tables to IAM")
    return warns(
        line,
        f"decides about new {' and '.join(strict)}, whatever IAM allows",
        f"have its administrator let the job role make databases: {grant(role, 'CREATE_DATABASE', {'Catalog': {}})}",
    )


def database(name: str, there: Answer, granted: Answer, role: str) -> Check:
    """Whether the job role may make tables in a database. `granted` is the answer of ListPermissions for it."""
    line = f"database {name}"
    if not isinstance(there, Found):
        return cannot_tell(line, "whether it exists", there)
    if not isinstance(granted, Found):
        return cannot_tell(line, "whether Lake Formation lets the job role make tables in it", granted)
    enough = (
        each
        for each in granted.body.get("PrincipalResourcePermissions", ())
        if {"ALL", "CREATE_TABLE"} & {*each["Permissions"]}
    )
    may = _principals(enough)
    if ANYBODY in may:
        return fine(line, "Lake Formation leaves it to IAM")
    if role and role in may:
        return fine(line, "Lake Formation lets the job role make tables in it")
    advice = f"have its administrator grant it: {grant(role, 'CREATE_TABLE DESCRIBE', {'Database': {'Name': name}})}"
    if not role:
        finding = "Lake Formation does not leave it to IAM; the job role, once it exists, will need a grant"
        return warns(line, finding, advice)
    return fails(line, "Lake Formation does not let the job role make tables in it", advice)


def _granted(name: str, here: Examined) -> Answer:
    """Everything that Lake Formation grants on a database; boto3 has no paginator for it."""
    found: list[Any] = []
    more: dict[str, str] = {}
    while True:
        answer = here.account.ask("lakeformation", "list_permissions", Resource={"Database": {"Name": name}}, **more)
        if not isinstance(answer, Found):
            return answer
        found += answer.body.get("PrincipalResourcePermissions", ())
        if not answer.body.get("NextToken"):
            return Found({"PrincipalResourcePermissions": found})
        more = {"NextToken": answer.body["NextToken"]}


def _principals(permissions: Any) -> set[str]:
    return {each["Principal"]["DataLakePrincipalIdentifier"] for each in permissions or ()}


def federated(bucket: str, region: str, here: str, found: Answer) -> Check:
    """Whether Glue has a table bucket as a catalog, by which jobs reach its tables. `region` is the
    bucket's, and `here` the deployment's."""
    line = f"table bucket {bucket}"
    if region != here:
        return fails(line, f"is in {region}, and jobs in {here} reach only {here}", f"choose a table bucket of {here}")
    match found:
        case Found(body):
            if ANYBODY in _principals(body["Catalog"].get("CreateTableDefaultPermissions")):
                return fine(line, "is a catalog in Glue, whose new tables are left to IAM")
            return warns(
                line,
                "is a catalog in Glue, and Lake Formation decides about its tables, whatever IAM allows",
                "have its administrator let the job role use the catalog, its databases and its tables",
            )
        case Absent():
            how = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-integrating-aws.html"
            advice = f"integrate it with AWS analytics services: {how}"
            return fails(line, "is no catalog in Glue: no job could reach it", advice)
    return cannot_tell(line, "whether it is a catalog in Glue", found)


def grant(role: str, permissions: str, resource: dict[str, object]) -> str:
    """The command that gives `permissions` on `resource` to the job role."""
    return (
        f"aws lakeformation grant-permissions --principal DataLakePrincipalIdentifier={role or 'JOB_ROLE_ARN'}"
        f" --permissions {permissions} --resource '{json.dumps(resource)}'"
    )


# --- the subnets ---


def subnets(here: Examined) -> Iterator[Check]:
    """Whether the workers' subnets are there, belong together and are private. A worker has no public address, so the
    route of a public subnet leads it nowhere."""
    wanted = here.settings.network.subnets
    if not wanted:
        return
    line = "subnets"
    answer = here.account.ask("ec2", "describe_subnets", SubnetIds=[*wanted])
    found = answer.body["Subnets"] if isinstance(answer, Found) else []
    if isinstance(answer, Absent | Found) and len(found) < len(wanted):
        yield fails(line, f"not all of {', '.join(wanted)} exist in {here.region}", "correct `subnets`")
        return
    if not isinstance(answer, Found):
        yield cannot_tell(line, "whether they exist", answer)
        return
    networks = {each["VpcId"] for each in found}
    of_network = [{"Name": "vpc-id", "Values": sorted(networks)}]
    tables = here.account.ask("ec2", "describe_route_tables", Filters=of_network)
    zones = {each["AvailabilityZone"] for each in found}
    if len(networks) > 1:
        yield fails(line, f"they are in several networks: {', '.join(sorted(networks))}", "choose those of one")
    elif not isinstance(tables, Found):
        yield cannot_tell(line, "whether they are private", tables)
    elif public := [each for each in wanted if _is_public(each, tables.body["RouteTables"])]:
        finding = f"{', '.join(public)} is public: its route leads to an internet gateway, and a worker has no address"
        yield fails(line, finding, "choose private subnets with endpoints or a NAT gateway")
    elif len(zones) < 2:
        yield warns(line, f"all are in {zones.pop()}: a job waits if that has no workers", "add one of another zone")
    else:
        yield fine(line, f"private, in {', '.join(sorted(zones))}")


def _is_public(subnet: str, tables: Sequence[Mapping[str, Any]]) -> bool:
    """By its own route table, else by the main one of its network."""
    links = [(each, link) for each in tables for link in each.get("Associations", ())]
    own = [each for each, link in links if link.get("SubnetId") == subnet]
    ruling = own or [each for each, link in links if link.get("Main")]
    return any(route.get("GatewayId", "").startswith("igw-") for each in ruling for route in each.get("Routes", ()))
