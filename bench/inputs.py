"""Inputs of the benches, made from fixed seeds: uploads, notifications and files, and what their rows add up to."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from tidegate.core.uploads import Upload

BUCKET = "landing"
ROUTE = "events"
DAY = "2026/11/21"
SETTINGS = f"""
[[route]]
name = "{ROUTE}"
bucket = "{BUCKET}"
prefix = "{ROUTE}/"
suffix = ".json"
table = "lake.raw.{ROUTE}"
schema = "id bigint, cents int, text string"
format = "json"
"""


def make_uploads(count: int, *, size: int = 2_000, seed: int = 7) -> list[Upload]:
    """Uploads of a bucket with versions, with keys, version ids and sequencers as long as S3's."""
    random = Random(seed)
    return [
        Upload(
            BUCKET,
            f"{ROUTE}/{DAY}/part-{number:07}.json",
            f"{random.getrandbits(188):032x}"[:32],
            size,
            f"{0x0065F0000000000000 + number:018X}",
        )
        for number in range(count)
    ]


def notification(upload: Upload) -> str:
    """S3's notification of one upload, as it comes in a message of the buffer."""
    described = {
        "key": upload.key,
        "size": upload.size,
        "eTag": "9bb58f26192e4ba00f01e2e7b136bbd8",
        "versionId": upload.version_id or upload.version,
        "sequencer": upload.sequencer,
    }
    record: dict[str, Any] = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-east-1",
        "eventTime": "2026-11-21T10:21:00.123Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "AWS:AIDAINPONIXQXHT3IKHL2"},
        "requestParameters": {"sourceIPAddress": "205.255.255.255"},
        "responseElements": {
            "x-amz-request-id": "D82B88E5F771F645",
            "x-amz-id-2": "vlR7PnpV2Ce81l0PRw6jlUpck7Jo5ZsQjryTjKlc5aLWGVHPZLj5NeC6qMa0emYBDXOo6QBU0Wo=",
        },
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "landing",
            "bucket": {
                "name": upload.bucket,
                "ownerIdentity": {"principalId": "A3NL1KOZZKExample"},
                "arn": f"arn:aws:s3:::{upload.bucket}",
            },
            "object": described,
        },
    }
    return json.dumps({"Records": [record]})


@dataclass(frozen=True, slots=True)
class Sums:
    """What the rows of a table add up to: their number, and the sums of the numeric columns and of the lengths of the
    texts. A row that is missing, repeated, or in the wrong column changes one of them."""

    rows: int
    ids: int
    cents: int
    letters: int
