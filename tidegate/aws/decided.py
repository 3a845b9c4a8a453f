"""The event by which a job tells settling that a batch is decided, on the account's default bus."""

import json
import logging
from typing import TYPE_CHECKING

from tidegate.schedule import DECIDED_SOURCE, DECIDED_TYPE

if TYPE_CHECKING:
    from types_boto3_events import EventBridgeClient

log = logging.getLogger("tidegate")


def tell_decided(client: "EventBridgeClient", work: str, batch_id: str) -> None:
    """Tell it, and go on if that fails: settling looks for receipts every minute anyway. `client` should give up
    soon."""
    try:
        detail = json.dumps({"work": work, "batch": batch_id})
        client.put_events(Entries=[{"Source": DECIDED_SOURCE, "DetailType": DECIDED_TYPE, "Detail": detail}])
    except Exception as error:
        log.warning("settling was not told that batch %s is decided: %s", batch_id, error)
