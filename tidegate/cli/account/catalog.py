"""Judgements about Lake Formation: whether it lets the job role make databases and tables in Glue.

Where Lake Formation decides, IAM's permissions are not enough. It leaves the decision to IAM as long as the group
IAM_ALLOWED_PRINCIPALS has its permissions, as in a new account
(https://docs.aws.amazon.com/lake-formation/latest/dg/change-settings.html).
"""

import json

from tidegate.cli.account.ask import Absent, Answer, Found, cannot_tell, fails
from tidegate.cli.checks import Check, CheckState

ANYBODY = "IAM_ALLOWED_PRINCIPALS"


def defaults(settings: Answer, role: str) -> Check:
    """Whether databases and tables that are made now are left to IAM. `role` is the job role's ARN, if there is one."""
    line = "lake formation"
    if not isinstance(settings, Found):
        return cannot_tell(line, "whether it decides about new tables", settings)
    found = settings.body["DataLakeSettings"]
    strict = [
        what
        for what, name in (
            ("databases", "CreateDatabaseDefaultPermissions"),
            ("tables", "CreateTableDefaultPermissions"),
        )
        if not any(each["Principal"]["DataLakePrincipalIdentifier"] == ANYBODY for each in found.get(name) or ())
    ]
    if not strict:
        return Check(line, CheckState.OK, "leaves new databases and tables to IAM")
    return Check(
        line,
        CheckState.WARN,
        f"decides about new {' and '.join(strict)}, whatever IAM allows",
        f"have its administrator let the job role make databases: {grant(role, 'CREATE_DATABASE', {'Catalog': {}})}",
    )


def database(name: str, there: Answer, granted: Answer, role: str) -> Check | None:
    """Whether the job role may make tables in a database that exists; None if the job makes the database itself.

    `granted` is the answer of ListPermissions for the database.
    """
    line = f"database {name}"
    if isinstance(there, Absent):
        return None
    if not isinstance(there, Found):
        return cannot_tell(line, "whether it exists", there)
    if not isinstance(granted, Found):
        return cannot_tell(line, "whether Lake Formation lets the job role make tables in it", granted)
    may = {
        each["Principal"]["DataLakePrincipalIdentifier"]
        for each in granted.body.get("PrincipalResourcePermissions", ())
        if {"ALL", "CREATE_TABLE"} & {*each["Permissions"]}
    }
    if ANYBODY in may:
        return Check(line, CheckState.OK, "Lake Formation leaves it to IAM")
    if role and role in may:
        return Check(line, CheckState.OK, "Lake Formation lets the job role make tables in it")
    advice = f"have its administrator grant it: {grant(role, 'CREATE_TABLE DESCRIBE', {'Database': {'Name': name}})}"
    if not role:
        finding = "Lake Formation does not leave it to IAM; the job role, once it exists, will need a grant"
        return Check(line, CheckState.WARN, finding, advice)
    return fails(line, "Lake Formation does not let the job role make tables in it", advice)


def federated(bucket: str, region: str, here: str, found: Answer) -> Check:
    """Whether Glue has a table bucket as a catalog, by which jobs reach its tables. `region` is the
    bucket's, and `here` the deployment's."""
    line = f"table bucket {bucket}"
    if region != here:
        return fails(line, f"is in {region}, and jobs in {here} reach only {here}", f"choose a table bucket of {here}")
    match found:
        case Found(body):
            if any(
                each["Principal"]["DataLakePrincipalIdentifier"] == ANYBODY
                for each in body["Catalog"].get("CreateTableDefaultPermissions") or ()
            ):
                return Check(line, CheckState.OK, "is a catalog in Glue, whose new tables are left to IAM")
            return Check(
                line,
                CheckState.WARN,
                "is a catalog in Glue, and Lake Formation decides about its tables, whatever IAM allows",
                "have its administrator let the job role use the catalog, its databases and its tables",
            )
        case Absent():
            return fails(
                line,
                "is no catalog in Glue: no job could reach it",
                "integrate it with AWS analytics services:"
                " https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-integrating-aws.html",
            )
    return cannot_tell(line, "whether it is a catalog in Glue", found)


def grant(role: str, permissions: str, resource: dict[str, object]) -> str:
    """The command that gives `permissions` on `resource` to the job role."""
    return (
        f"aws lakeformation grant-permissions --principal DataLakePrincipalIdentifier={role or 'JOB_ROLE_ARN'}"
        f" --permissions {permissions} --resource '{json.dumps(resource)}'"
    )
