"""The EventBridge bus to which batches are announced."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.aws.errors import asking
from tidegate.core.announcements import DETAIL_TYPE, SOURCE, Announcement

if TYPE_CHECKING:
    from types_boto3_events import EventBridgeClient
    from types_boto3_events.type_defs import PutEventsRequestEntryTypeDef


DEFAULT = "default"
"""The bus that each account has."""


class EventBridge:
    """`flows.ports.EventBus` on a bus of this account, by its name. `client` should give up soon: settling waits
    for it.

    EventBridge takes events for a bus that does not exist, and drops them (PutEvents reports no failure; see
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-putevents.html). So the bus is looked up before the
    first event is sent. The default bus cannot be deleted, and is not looked up.
    """

    def __init__(self, client: "EventBridgeClient", bus: str, deployment: str) -> None:
        self._client = client
        self._bus = bus
        self._deployment = deployment
        self._there = bus == DEFAULT

    def send(self, announcements: Sequence[Announcement]) -> Mapping[str, str]:
        entries: list[PutEventsRequestEntryTypeDef] = [
            {
                "Source": SOURCE,
                "DetailType": DETAIL_TYPE,
                "Detail": json.dumps(each.detail(self._deployment)),
                "EventBusName": self._bus,
            }
            for each in announcements
        ]
        if not self._there:
            with asking(f"look up bus {self._bus}"):
                self._client.describe_event_bus(Name=self._bus)
            self._there = True
        with asking(f"send {len(entries)} events to bus {self._bus}"):
            answer = self._client.put_events(Entries=entries)
        # in the order of the request; an entry that was not taken has a code instead of an id
        return {
            each.id: f"bus {self._bus} answered {told.get('ErrorCode', 'nothing')}: {told.get('ErrorMessage', '')}"
            for each, told in zip(announcements, answer["Entries"], strict=True)
            if not told.get("EventId")
        }
