"""Tables of DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from tidegate_local.environment import ACCOUNT, REGION
from tidegate_local.loader.loading import Created, Loading, Properties, creates, taken

if TYPE_CHECKING:
    from types_boto3_dynamodb.type_defs import TimeToLiveSpecificationTypeDef


@creates("AWS::DynamoDB::Table")
def table(loading: Loading, logical: str, properties: Properties) -> Created:
    name = properties.pop("TableName", None) or loading.generated_name(logical, limit=255)
    time_to_live = properties.pop("TimeToLiveSpecification", None)
    definition = taken(
        properties,
        *("AttributeDefinitions", "KeySchema", "BillingMode", "ProvisionedThroughput"),
        *("GlobalSecondaryIndexes", "LocalSecondaryIndexes", "StreamSpecification"),
    )
    try:
        loading.dynamodb.create_table(TableName=name, **definition)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceInUseException":
            raise
    loading.dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    if time_to_live:
        expire(loading, name, time_to_live)
    return Created(name, {"Arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"})


def expire(loading: Loading, table: str, specification: TimeToLiveSpecificationTypeDef) -> None:
    """Nothing depends on it: the product compares `expires_at` itself, so an emulator may refuse."""
    try:
        present = loading.dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        if present.get("TimeToLiveStatus") != "ENABLED":
            loading.dynamodb.update_time_to_live(TableName=table, TimeToLiveSpecification=specification)
    except ClientError as error:
        loading.notes.append(f"table {table}: the emulator refused to expire items ({error}); they stay")
