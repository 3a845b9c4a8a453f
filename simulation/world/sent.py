"""What the product publishes, as the world stands at that moment: for the checks of a notice's time and fields."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulation.world.dynamodb import DynamoDb


@dataclass(frozen=True)
class SentUpload:
    """One upload of a notice. `owner` is the live claim's notice then, and `owned` what that claim said of it."""

    key: str
    version: str
    size: int
    sequencer: str
    takes_from: str
    owned: Mapping[str, Any]
    part: str
    """The name of the part that its owner has registered; empty if there is none."""


@dataclass(frozen=True)
class SentNotice:
    """`when` it was published, `at` which time it says that it is of (epoch seconds)."""

    when: float
    id: str
    at: int
    origin: str
    route: str
    bucket: str
    uploads: tuple[SentUpload, ...]


def claims_pk(bucket: str, key: str) -> str:
    """The partition of the ledger with the claims on an object's versions."""
    return "o#" + hashlib.sha256(f"{bucket}\0{key}".encode()).hexdigest()[:40]


def sent_notice(ledger: DynamoDb, now: float, body: str) -> SentNotice:
    message = json.loads(body)
    uploads = tuple(_upload(ledger, now, message["bucket"], *fields) for fields in message["uploads"])
    about = (message["id"], message.get("at", 0), message["origin"], message["route"], message["bucket"])
    return SentNotice(now, *about, uploads)


def _upload(
    ledger: DynamoDb, now: float, bucket: str, key: str, version: str, size: int, sequencer: str, takes_from: str = ""
) -> SentUpload:
    items = ledger.items
    claim = items.get(("ledger", claims_pk(bucket, key), version), {}) if takes_from else {}
    owner = items.get(("ledger", f"n#{takes_from}", "notice"), {}) if takes_from else {}
    owned = dict(claim) if claim.get("notice") == takes_from and claim["expires_at"] > now else {}
    part = f"batches/{owner['batch']}/{owner['part']}" if owner.get("batch") else ""
    return SentUpload(key, version, size, sequencer, takes_from, owned, part)
