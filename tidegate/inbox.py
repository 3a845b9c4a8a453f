"""An inbox: handle each event once, by writing its effect and the memory of it to DynamoDB in one atomic write.

For the consumers of Tidegate's events (docs/consumers.md), and of any queue whose messages have an id that stays the
same when they come again. It needs boto3 and nothing else of Tidegate, so the file may be copied.

    inbox = Inbox(boto3.client("dynamodb"), "totals", "rows-per-table")
    inbox.once(event_id, [{"Update": {...}}])                   a transaction: any items, in any tables
    inbox.once_in(key, event_id, lambda item: {**item, ...})    one item, which remembers its last events itself

Both return True if this call has written, and False if the event was remembered already. **Both mean "done"**: the
effect is in the table, once, and the event may be acknowledged. Everything else is an exception, and means "not known
to be done": give the event back, and it comes again. Whatever the process did before, the next call with the same id
is right.

    line of `once`                    if it dies right after it                if a twin runs beside it
    1. one transaction: the effect,   done. The event comes again, and the     one transaction is applied; the other is
       and a record of the event,     record refuses it: False                 refused by the record: False, or by a
       if there is no live one                                                 conflict: it is tried again
    2. return                         as above

    line of `once_in`                 if it dies right after it                if a twin runs beside it
    1. read the item and its version  nothing has happened                     both read the same
    2. remembered? return False       as above                                 as above
    3. put the changed item, if its   done: the item remembers the event       one put is applied; the other is refused,
       version is still that one                                               and begins again at 1

If an answer is lost, the SDK repeats the request. The first one may have been applied: then the second finds the record
that the first has written. That is no repeat of the event, but the answer is the same, False, because all that counts
is the same: the effect is there once. So do nothing that depends on which of the two it was.

How long an event is remembered: `retention`, 60 days if nothing else is said. After that it counts as new, whether or
not DynamoDB has deleted the record: `expires_at` is compared. It must be longer than an event can travel. EventBridge
tries for 24 hours unless the target says otherwise
(https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-retry-policy.html), a queue and its dead letters keep
a message for 14 days each. An archive of EventBridge replays events of any age: do not replay into a consumer what is
older than its retention.

What this does that Powertools' idempotency does not: Powertools (3.37.0) writes that an event is in progress, then
runs your function, then writes that it is complete. Your function's effect is a write of its own. If the process dies
between that and the last write, the effect is there and the record says "in progress". Once that has expired, the
function runs again. Here effect and memory are one write: there is no moment between the two. In return the effect has
to be a write to DynamoDB. For any other effect (a mail, a call of another service) neither can do it; there, make the
effect itself repeatable.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

DAY = 24 * 60 * 60
RETENTION = 60 * DAY
MOST_REMEMBERED = 4_000
"""How many events one item remembers, at most. 4,000 ids of Tidegate's are 220 KB, and an item holds 400 KB."""
TRIES = 8
"""How often a write is tried that others got in the way of: for two seconds or so."""
EVENTS, VERSION = "inbox_events", "inbox_version"
"""The attributes in which `once_in` keeps its memory."""

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize
_PASSING = {"None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
"""Reasons for which DynamoDB cancels a transaction that pass by themselves."""
_REFUSED = "ConditionalCheckFailed"


class InboxFull(Exception):
    """The item of `once_in` remembers as many events as it can, and none of them may be forgotten yet. Nothing was
    written. Use `once`, or a shorter retention."""


class InboxBusy(Exception):
    """Others changed the item each time before this call could. Nothing was written by it. Give the event back."""


class Inbox:
    """One consumer's memory of the events that it has handled.

    `client` is boto3's low-level client of DynamoDB. `table` holds the records. Its partition key `partition`, and its
    sort key `sort` if it has one, are strings. Turn on TTL for the attribute `expires_at`, or the records stay.
    `consumer` tells it from other consumers that keep their records in the same table. `retention` is in seconds.
    `clock` returns epoch seconds.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        consumer: str,
        *,
        partition: str = "pk",
        sort: str = "",
        retention: int = RETENTION,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._table = table
        self._consumer = consumer
        self._partition = partition
        self._sort = sort
        self._retention = retention
        self._clock = clock

    def once(self, event_id: str, writes: "Sequence[TransactWriteItemTypeDef]") -> bool:
        """Apply the writes, unless this event was handled. True if they were applied now.

        `writes` are up to 99 of TransactWriteItems' (`Put`, `Update`, `Delete`, `ConditionCheck`), each of an item of
        its own. They may have conditions. If one of these fails, nothing is written, the event is not remembered, and
        ClientError is raised with the code TransactionCanceledException. The first of its CancellationReasons is the
        inbox's. Every other ClientError or BotoCoreError is raised as it is, after retries of what passes by itself.
        """
        now = int(self._clock())
        remembered = self._record(event_id, now)
        for left in reversed(range(TRIES)):
            try:
                # boto3 adds a token, by which DynamoDB recognises the SDK's own repeats for 10 minutes
                self._client.transact_write_items(TransactItems=[remembered, *writes])
                return True
            except ClientError as error:
                codes = _codes(error)
                if codes[:1] == [_REFUSED]:
                    return False
                # DynamoDB need not name every condition that failed: after a lost answer the effect that is there may
                # be all that it names
                if _REFUSED in codes and self._remembers(event_id, now):
                    return False
                if not left or not codes or not set(codes) <= _PASSING:
                    raise
            _wait(TRIES - left)
        raise AssertionError("the last try returns or raises")

    def once_in(
        self,
        key: Mapping[str, Any],
        event_id: str,
        change: Callable[[dict[str, Any]], Mapping[str, Any]],
        *,
        table: str = "",
    ) -> bool:
        """Change one item, unless it remembers this event. True if it was changed now.

        `key` and the items are in Python's values, as boto3's resources have them; numbers that were read are Decimal.
        `change` gets the item, or just the key if there is none, and returns the item as it should be. It may be called
        several times, so it must have no effect of its own. Nothing else may write the item. `table` is the inbox's
        unless another is named.

        The item grows with what it remembers, and each event costs a write of the whole item: this is for few events,
        or a short retention. Raises InboxFull before it would forget too early, InboxBusy if others were always faster,
        and ClientError or BotoCoreError.
        """
        name = table or self._table
        typed = {each: _serialize(value) for each, value in key.items()}
        for tried in range(1, TRIES + 1):
            now = int(self._clock())
            answer = self._client.get_item(TableName=name, Key=typed, ConsistentRead=True)
            item = {each: _deserialize(value) for each, value in answer.get("Item", typed).items()}
            version, events = item.pop(VERSION, None), item.pop(EVENTS, {})
            live = {each: expires_at for each, expires_at in events.items() if expires_at > now}
            if event_id in live:
                return False
            if len(live) >= MOST_REMEMBERED:
                raise InboxFull(
                    f"item {dict(key)} of table {name} remembers {len(live)} events of the last {self._retention}"
                    f" seconds, and {MOST_REMEMBERED} are the most: event {event_id} was not handled"
                )
            after = {
                **change(dict(item)),
                **key,
                VERSION: int(version or 0) + 1,
                EVENTS: {**live, event_id: now + self._retention},
            }
            if self._put_if_still(name, after, version, next(iter(key)), there="Item" in answer):
                return True
            _wait(tried)
        raise InboxBusy(
            f"item {dict(key)} of table {name} was changed by others {TRIES} times: event {event_id} was not handled"
        )

    def _put_if_still(self, table: str, item: Mapping[str, Any], version: Any, partition: str, *, there: bool) -> bool:
        """Whether the item had this version. None: it had none yet, or there was no item."""
        condition, values = "#version = :version", {":version": _serialize(version)}
        names = {"#version": VERSION}
        if version is None:
            names["#partition"] = partition
            exists = "attribute_exists" if there else "attribute_not_exists"
            condition, values = f"{exists}(#partition) AND attribute_not_exists(#version)", {}
        try:
            asked: dict[str, Any] = {"ExpressionAttributeValues": values} if values else {}
            self._client.put_item(
                TableName=table,
                Item={name: _serialize(value) for name, value in item.items()},
                ConditionExpression=condition,
                ExpressionAttributeNames=names,
                **asked,
            )
        except ClientError as error:
            if _code(error) not in ("ConditionalCheckFailedException", "TransactionConflictException"):
                raise
            return False
        return True

    def _key(self, event_id: str) -> dict[str, Any]:
        key = {self._partition: {"S": f"inbox#{self._consumer}#{event_id}"}}
        return {**key, self._sort: {"S": "inbox"}} if self._sort else key

    def _record(self, event_id: str, now: int) -> "TransactWriteItemTypeDef":
        """Remembers the event, if it is not remembered. An expired record counts as absent."""
        return {
            "Put": {
                "TableName": self._table,
                "Item": {**self._key(event_id), "expires_at": {"N": str(now + self._retention)}},
                "ConditionExpression": "attribute_not_exists(#pk) OR #expires_at <= :now",
                "ExpressionAttributeNames": {"#pk": self._partition, "#expires_at": "expires_at"},
                "ExpressionAttributeValues": {":now": {"N": str(now)}},
            }
        }

    def _remembers(self, event_id: str, now: int) -> bool:
        answer = self._client.get_item(TableName=self._table, Key=self._key(event_id), ConsistentRead=True)
        return "Item" in answer and int(answer["Item"]["expires_at"]["N"]) > now


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _codes(error: ClientError) -> list[str]:
    """Why each write of a transaction did not happen; empty if the transaction was not cancelled."""
    if _code(error) != "TransactionCanceledException":
        return []
    reasons: list[Any] = error.response.get("CancellationReasons", [])
    return [str(reason.get("Code", "None")) for reason in reasons]


def _wait(tried: int) -> None:
    """Longer after each try, and for some random time, so that twins do not meet again."""
    time.sleep(random.uniform(0.01, 0.02 * 2 ** min(tried, 5)))
