"""Short constructors of uploads, notices, routes and S3's notifications."""

import json
from typing import Any
from urllib.parse import quote_plus

from tidegate.core.batches import BatchLimits
from tidegate.core.manifests import Part, make_part
from tidegate.core.notices import ORIGIN_S3, Entry, Notice, make_notice
from tidegate.core.routes import Dataset, Route
from tidegate.core.uploads import Upload

BUCKET = "landing"
ETAG = "9bb58f26192e4ba00f01e2e7b136bbd8"


def upload(key: str = "flights/a.json", version: str = "v1", size: int = 10, bucket: str = BUCKET) -> Upload:
    return Upload(bucket, key, version, size)


def uploads(count: int, prefix: str = "flights/", size: int = 10) -> list[Upload]:
    return [upload(f"{prefix}{number:05}.json", size=size) for number in range(count)]


def notice(*of: Upload | str, route: str = "flights", origin: str = ORIGIN_S3, takes_from: str = "") -> Notice:
    """A notice of these uploads, or keys; `takes_from` names the owner that all of them are to be taken from."""
    found = [each if isinstance(each, Upload) else upload(each) for each in of]
    return make_notice(route, found[0].bucket, origin, [Entry(each, takes_from) for each in found])


def part_of(of: Notice, owned: list[Upload] | None = None) -> Part:
    return make_part(of.id, of.bucket, [entry.upload for entry in of.entries] if owned is None else owned)


def route(
    name: str = "flights",
    bucket: str = BUCKET,
    prefix: str | None = None,
    suffix: str = ".json",
    **limits: int,
) -> Route:
    dataset = Dataset(table=f"lake.raw.{name}", schema="id bigint", format="json")
    return Route(name, bucket, f"{name}/" if prefix is None else prefix, suffix, dataset, BatchLimits(**limits))


def s3_record(
    key: str,
    *,
    bucket: str = BUCKET,
    event: str = "ObjectCreated:Put",
    etag: str | None = ETAG,
    version_id: str | None = None,
    size: int | None = 10,
) -> dict[str, Any]:
    """One record as S3 writes it: the key form-encoded once, absent fields left out."""
    described = {"eTag": etag, "versionId": version_id, "size": size, "sequencer": "0055AED6DCD90281E5"}
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-east-1",
        "eventTime": "1970-01-01T00:00:00.000Z",
        "eventName": event,
        "userIdentity": {"principalId": "AWS:AIDAINPONIXQXHT3IKHL2"},
        "requestParameters": {"sourceIPAddress": "205.255.255.255"},
        "responseElements": {"x-amz-request-id": "D82B88E5F771F645", "x-amz-id-2": "vlR7PnpV2Ce81l0PRw6jlUpck7Jo5ZsQ"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "landing",
            "bucket": {
                "name": bucket,
                "ownerIdentity": {"principalId": "A3NL1KOZZKExample"},
                "arn": f"arn:aws:s3:::{bucket}",
            },
            "object": {
                "key": quote_plus(key, safe="/", encoding="utf-8"),
                **{name: value for name, value in described.items() if value is not None},
            },
        },
    }


def s3_message(*records: Any) -> str:
    """The body of a message in the buffer queue."""
    return json.dumps({"Records": list(records)})


def eventbridge_event(
    key: str,
    *,
    bucket: str = BUCKET,
    kind: str = "Object Created",
    etag: str | None = ETAG,
    version_id: str | None = None,
) -> dict[str, Any]:
    """The event as EventBridge delivers it: the key as it is, names with dashes."""
    described = {"key": key, "size": 10, "etag": etag, "version-id": version_id, "sequencer": "00617F08299329D189"}
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": kind,
        "source": "aws.s3",
        "account": "123456789012",
        "time": "1970-01-01T00:00:00Z",
        "region": "us-east-1",
        "resources": [f"arn:aws:s3:::{bucket}"],
        "detail": {
            "version": "0",
            "bucket": {"name": bucket},
            "object": {name: value for name, value in described.items() if value is not None},
            "request-id": "N4N7GDK58NMKJ12R",
            "requester": "123456789012",
            "source-ip-address": "1.2.3.4",
            "reason": "PutObject",
        },
    }
