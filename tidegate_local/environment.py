"""The environment that makes boto3, obstore and the product talk to this machine instead of AWS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from tidegate.environment import CATALOG_URI, WAREHOUSE

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_emr_serverless import EMRServerlessClient
    from types_boto3_events import EventBridgeClient
    from types_boto3_s3 import S3Client
    from types_boto3_sns import SNSClient
    from types_boto3_sqs import SQSClient

REGION = "us-east-1"
ACCOUNT = "123456789012"  # moto's

# Services that somebody may want another emulator for; what we serve ourselves is not among them.
_REPLACEABLE = ("S3", "SQS", "SNS", "DYNAMODB")

# What would lead a process to a real account, or past the endpoints below.
_FORBIDDEN = re.compile(
    r"AWS_(PROFILE|DEFAULT_PROFILE|SESSION_TOKEN|SECURITY_TOKEN|ROLE_ARN|ROLE_SESSION_NAME|WEB_IDENTITY_TOKEN_FILE|"
    r"CONTAINER_.*|IGNORE_CONFIGURED_ENDPOINT_URLS|ENDPOINT_URL.*|ACCOUNT_ID.*|CA_BUNDLE|USE_.*_ENDPOINT)"
    r"|TIDEGATE_.*"  # of another stack
)


def local_environment(
    folder: Path, *, services: str, jobs: str, events: str, ambient: Mapping[str, str]
) -> dict[str, str]:
    """The variables for a stack in `folder`, given the URLs of its endpoints.

    `AWS_ENDPOINT_URL_S3`, `_SQS`, `_SNS` and `_DYNAMODB` in `ambient` replace the emulated service by another one. S3's
    notifications and SNS's deliveries stay inside one emulator, so these three move together.
    """
    chosen = {name: ambient[name] for service in _REPLACEABLE if ambient.get(name := f"AWS_ENDPOINT_URL_{service}")}
    return {
        "AWS_ENDPOINT_URL": services,
        "AWS_ENDPOINT_URL_EMR_SERVERLESS": jobs,
        "AWS_ENDPOINT_URL_EVENTBRIDGE": events,
        **chosen,
        **_no_account(),
        "AWS_ALLOW_HTTP": "true",  # obstore refuses http:// without it
        "NO_PROXY": _without_proxy(ambient),
        **warehouse_environment(folder),
    }


def warehouse_environment(folder: Path) -> dict[str, str]:
    """Where any Iceberg client finds the tables; true whether or not the stack runs."""
    return {
        CATALOG_URI: f"sqlite:///{folder / 'warehouse' / 'catalog.db'}",
        WAREHOUSE: f"file://{folder / 'warehouse'}",
    }


NOBODY = "http://127.0.0.1:1"
"""An address at which nothing answers, and nothing can: the port is a reserved one."""


def environment_without_a_stack(folder: Path, ambient: Mapping[str, str]) -> dict[str, str]:
    """The variables for a shell while no stack runs in `folder`: the tables, if it has any, and no other resource.

    The credentials and the address that leads nowhere stay. Without them, the next call of the shell would go to the
    account of a profile, and what was meant for the stack would be uploaded there.
    """
    tables = warehouse_environment(folder) if has_warehouse(folder) else {}
    return {**_no_account(), "AWS_ENDPOINT_URL": NOBODY, "NO_PROXY": _without_proxy(ambient), **tables}


def has_warehouse(folder: Path) -> bool:
    """Whether a stack was ever started in `folder`. The warehouse outlives it."""
    return (folder / "warehouse").is_dir()


def _no_account() -> dict[str, str]:
    """A region and credentials that no account has."""
    return {
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }


def process_environment(ambient: Mapping[str, str], local: Mapping[str, str]) -> dict[str, str]:
    """`ambient` without anything that could lead to a real account, and with `local` laid over it."""
    kept = {name: value for name, value in ambient.items() if not _FORBIDDEN.fullmatch(name)}
    return {
        **kept,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONUNBUFFERED": "1",
        **local,
    }


@overload
def client(service: Literal["dynamodb"], environment: Mapping[str, str], **options: Any) -> DynamoDBClient: ...
@overload
def client(
    service: Literal["emr-serverless"], environment: Mapping[str, str], **options: Any
) -> EMRServerlessClient: ...
@overload
def client(service: Literal["events"], environment: Mapping[str, str], **options: Any) -> EventBridgeClient: ...
@overload
def client(service: Literal["s3"], environment: Mapping[str, str], **options: Any) -> S3Client: ...
@overload
def client(service: Literal["sns"], environment: Mapping[str, str], **options: Any) -> SNSClient: ...
@overload
def client(service: Literal["sqs"], environment: Mapping[str, str], **options: Any) -> SQSClient: ...
def client(service: Any, environment: Mapping[str, str], **options: Any) -> Any:
    """A boto3 client that talks to what `environment` names, whatever this process's own environment says."""
    import boto3
    from botocore.config import Config

    name = "AWS_ENDPOINT_URL_" + {"events": "EVENTBRIDGE"}.get(service, service.replace("-", "_").upper())
    return boto3.client(
        service,
        endpoint_url=environment.get(name, environment["AWS_ENDPOINT_URL"]),
        region_name=environment["AWS_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"mode": "standard", "total_max_attempts": 3}, proxies={}, **options),
    )


def _without_proxy(ambient: Mapping[str, str]) -> str:
    hosts = [host for host in ambient.get("NO_PROXY", ambient.get("no_proxy", "")).split(",") if host]
    return ",".join(dict.fromkeys([*hosts, "127.0.0.1", "localhost"]))
