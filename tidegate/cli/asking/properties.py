"""How DuckDB and PyIceberg reach the tables of a deployment, by its settings and the credentials of the shell.

The job's own properties are in `infra.catalogs`. A test compares the two, so that a person and the job read the same
tables.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidegate.settings import LakeCatalog, SettingsError


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls AWS: credentials as `boto3` finds them, and the region. `s3` is the address of an S3 that is not AWS's
    own, else empty."""

    region: str
    access_key: str
    secret_key: str
    token: str
    s3: str = ""


def caller() -> Caller:
    """The credentials and the region of the shell. Raises SettingsError if there are none.

    DuckDB and Spark read files by clients of their own, and these do not know every way to log in that boto3 knows. So
    all of them are given what boto3 has found. It is not renewed: a query that runs longer than a session of a role
    fails.
    """
    import boto3

    session = boto3.Session()
    credentials = session.get_credentials()
    if credentials is None:
        raise SettingsError(
            "there are no credentials for AWS: log in, or set AWS_PROFILE. `aws sts get-caller-identity` shows who you"
            " are to AWS"
        )
    if not session.region_name:
        raise SettingsError("the shell has no region: set AWS_DEFAULT_REGION to that of the deployment")
    frozen = credentials.get_frozen_credentials()
    return Caller(
        region=session.region_name,
        access_key=frozen.access_key or "",
        secret_key=frozen.secret_key or "",
        token=frozen.token or "",
        s3=os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "",
    )


def of_pyiceberg(catalog: LakeCatalog, who: Caller) -> dict[str, str]:
    """PyIceberg's properties of a catalog that speaks REST (https://py.iceberg.apache.org/configuration/), without its
    credential."""
    files = {
        "client.region": who.region,
        "client.access-key-id": who.access_key,
        "client.secret-access-key": who.secret_key,
        "client.session-token": who.token,
        "s3.endpoint": who.s3,
    }
    return {name: value for name, value in {**_of_type(catalog), **files}.items() if value}


def keys_of(properties: Mapping[str, str], who: Caller) -> Caller:
    """The keys for the files of a table: those that the catalog hands out with it, else those of the caller."""
    handed = properties.get("s3.access-key-id")
    if not handed or handed == who.access_key:
        return who
    return replace(
        who,
        region=properties.get("s3.region") or properties.get("client.region") or who.region,
        access_key=handed,
        secret_key=properties.get("s3.secret-access-key", ""),
        token=properties.get("s3.session-token", ""),
    )


def _of_type(catalog: LakeCatalog) -> dict[str, str]:
    match catalog.type:
        case "glue":
            return {"type": "glue"}
        case "s3tables":
            partition, _, region = str(catalog.arn).removeprefix("arn:").split(":")[:3]
            suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
            return {
                "type": "rest",
                "uri": f"https://s3tables.{region}.{suffix}/iceberg",
                "warehouse": str(catalog.arn),
                "rest.sigv4-enabled": "true",
                "rest.signing-name": "s3tables",
                "rest.signing-region": region,
                "rest-metrics-reporting-enabled": "false",
            }
        case "rest":
            return {"type": "rest", "uri": str(catalog.uri), "warehouse": catalog.warehouse or ""}
