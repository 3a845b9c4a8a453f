"""Learns what a request changes of moto's state, writes it, and fills moto at the start.

Versions of objects, messages and items have a row each. What is defined (buckets, queues, topics, subscriptions and
tables, with all that is set of them) is little, and changes seldom: it is one row, written anew after each request that
may have changed it.
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.s3.models import FakeBucket, FakeKey, s3_backends
from moto.s3.utils import _VersionedKeyStore
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends

from tidegate_local.durable.changes import CHANGES, Touched
from tidegate_local.durable.database import Database, Transaction, chunks, stop
from tidegate_local.durable.pickled import dumps, loads
from tidegate_local.environment import ACCOUNT, REGION
from tidegate_local.mends.costs import table_keys
from tidegate_local.mends.patching import patch
from tidegate_local.mends.queues import mailbox, number_from

_ROW = "kept_as"
"""Where a version notes the number of its row."""


class TouchedKeys(_VersionedKeyStore):
    """The versions of a bucket's keys, telling which keys change."""

    def __init__(self, bucket: str) -> None:
        super().__init__()
        self.bucket = bucket

    def __setitem__(self, key: str, value: Any) -> None:
        CHANGES.touch("object", self.bucket, key)
        super().__setitem__(key, value)

    def setlist(self, key: Any, list_: Any) -> None:
        CHANGES.touch("object", self.bucket, key)
        super().setlist(key, list_)

    def pop(self, key: str) -> None:  # type: ignore[override]
        CHANGES.touch("object", self.bucket, key)
        super().pop(key)


def tell_changed_keys() -> None:
    """Have every bucket that is made from now on tell which of its keys change."""
    original = FakeBucket.__init__

    def made(bucket: FakeBucket, *arguments: Any, **options: Any) -> None:
        original(bucket, *arguments, **options)
        bucket.keys = TouchedKeys(bucket.name)

    patch(FakeBucket, __init__=made)


def tell_changed_items() -> None:
    """Have every table tell which of its items change. moto changes an item by one of these three, whatever asks."""
    put, delete, update = Table.put_item, Table.delete_item, DynamoDBBackend.update_item

    def put_item(table: Table, item_attrs: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        made = put(table, item_attrs, *arguments, **options)
        CHANGES.touch("item", table.name, made.hash_key, made.range_key)
        return made

    def delete_item(table: Table, hash_key: DynamoType, range_key: DynamoType | None) -> Any:
        CHANGES.touch("item", table.name, hash_key, range_key)
        return delete(table, hash_key, range_key)

    def update_item(backend: DynamoDBBackend, table_name: str, key: Any, *arguments: Any, **options: Any) -> Any:
        with contextlib.suppress(Exception):  # moto reports what is wrong with it in its own words
            table = backend.get_table(table_name)
            CHANGES.touch("item", table.name, *table_keys(table, key))
        return update(backend, table_name, key, *arguments, **options)

    patch(Table, put_item=put_item, delete_item=delete_item)
    patch(DynamoDBBackend, update_item=update_item)


class StoredContent:
    """The bytes of a version, in place of the temporary file that moto has for them."""

    def __init__(self, database: Database, version: int) -> None:
        self._database = database
        self._version = version
        self._position = 0

    def seek(self, position: int) -> int:
        self._position = position
        return position

    def read(self, size: int = -1) -> bytes:
        content = self._database.content(self._version)
        end = len(content) if size < 0 else self._position + size
        found = content[self._position : end]
        self._position += len(found)
        return found

    def close(self) -> None:
        """Nothing is open."""


class Keeper:
    """What the services of this process hold, in a file of `folder`. There can be one in a process, as moto is one."""

    def __init__(self, folder: Path) -> None:
        """Raises LocalError."""
        self._database = Database(folder)
        self._rows: dict[tuple[str, str], set[int]] = {}
        ((last,),) = self._database.rows("SELECT coalesce(max(id), 0) FROM versions")
        self._next = int(last) + 1
        self._s3, self._sns = s3_backends[ACCOUNT]["aws"], sns_backends[ACCOUNT][REGION]
        self._sqs, self._dynamodb = sqs_backends[ACCOUNT][REGION], dynamodb_backends[ACCOUNT][REGION]
        tell_changed_keys()
        tell_changed_items()

    def wait(self) -> None:
        """Return when all that this thread's last step has seen is on the disk."""
        self._database.wait(CHANGES.ticket())

    def close(self) -> None:
        """Write what waits, and let go of the file."""
        with CHANGES.step():
            self._database.close()

    # --- what a step has changed ---

    def _keep(self, touched: Touched) -> int:
        try:
            transaction = Transaction()
            for what, value in touched.items():
                self._write(transaction, what, value)
            return self._database.queue(transaction)
        except BaseException:
            # moto has changed, and nobody can say how
            traceback.print_exc()
            stop("what a request has changed could not be written down")

    def _write(self, transaction: Transaction, what: Any, value: Any) -> None:
        match what:
            case ("definitions",):
                self._write_definitions(transaction)
            case ("object", bucket, key):
                self._write_versions(transaction, bucket, key)
            case ("description", bucket, key):
                for version in self._versions(bucket, key):
                    transaction.say(
                        "UPDATE versions SET version = ? WHERE id = ?", self._described(version), vars(version)[_ROW]
                    )
            case ("message", queue, identifier):
                self._write_message(transaction, queue, identifier)
            case ("repeat", queue, scope, deduplication):
                now = time.time()
                transaction.say("DELETE FROM repeats WHERE until <= ?", now)
                transaction.say(
                    "INSERT OR REPLACE INTO repeats VALUES (?, ?, ?, ?)", queue, scope, deduplication, now + value
                )
            case ("item", table, hash_key, range_key):
                self._write_item(transaction, table, hash_key, range_key)
            case _:
                raise AssertionError(what)

    def _write_definitions(self, transaction: Transaction) -> None:
        buckets = self._s3.buckets
        tags = {name: self._s3.tagger.get_tag_dict_for_resource(each.arn) for name, each in buckets.items()}
        defined = (buckets, tags, self._sqs.queues, self._sns.topics, self._sns.subscriptions, self._dynamodb.tables)
        transaction.say("INSERT OR REPLACE INTO definitions VALUES (1, ?)", dumps(defined))
        for rows, owner, there in (
            *(("messages", "queue", self._sqs.queues), ("repeats", "queue", self._sqs.queues)),
            ("items", "owner", self._dynamodb.tables),
        ):
            places = ", ".join("?" * len(there))
            transaction.say(f"DELETE FROM {rows} WHERE {owner} NOT IN ({places})", *there)

    def _write_versions(self, transaction: Transaction, bucket: str, key: str) -> None:
        """What is stored under a key now, against what its rows say."""
        before = self._rows.pop((bucket, key), set())
        present: set[int] = set()
        for version in self._versions(bucket, key):
            if (row := getattr(version, _ROW, None)) is None:
                row = self._insert_version(transaction, bucket, version)
            present.add(row)
        for gone in sorted(before - present):
            transaction.say("DELETE FROM versions WHERE id = ?", gone)
            transaction.say("DELETE FROM contents WHERE version = ?", gone)
        if present:
            self._rows[bucket, key] = present

    def _insert_version(self, transaction: Transaction, bucket: str, version: Any) -> int:
        row, self._next = self._next, self._next + 1
        setattr(version, _ROW, row)
        transaction.say("INSERT INTO versions VALUES (?, ?, ?)", row, bucket, self._described(version))
        if isinstance(version, FakeKey):
            for number, part in chunks(version.value):
                transaction.say("INSERT INTO contents VALUES (?, ?, ?)", row, number, part)
            # the bytes leave the memory once they are on the disk
            transaction.afterwards.append(lambda: setattr(version, "_value_buffer", StoredContent(self._database, row)))
        return row

    def _versions(self, bucket: str, key: str) -> list[Any]:
        found = self._s3.buckets.get(bucket)
        return list(found.keys.getlist(key, [])) if found is not None else []

    def _described(self, version: Any) -> bytes:
        """A version or a delete marker, and its tags."""
        tags = {}
        if isinstance(version, FakeKey):
            _ = version.etag  # moto works it out when it is first asked for
            tags = self._s3.tagger.get_tag_dict_for_resource(version.arn)
        return dumps((version, tags))

    def _write_message(self, transaction: Transaction, queue: str, identifier: str) -> None:
        found = self._sqs.queues.get(queue)
        message = mailbox(found).message(identifier) if found is not None else None
        if message is None:
            transaction.say("DELETE FROM messages WHERE queue = ? AND id = ?", queue, identifier)
            return
        # one that is there keeps its place
        transaction.say(
            "INSERT INTO messages (queue, id, message) VALUES (?, ?, ?)"
            " ON CONFLICT (queue, id) DO UPDATE SET message = excluded.message",
            *(queue, identifier, dumps(message)),
        )

    def _write_item(
        self, transaction: Transaction, table: str, hash_key: DynamoType, range_key: DynamoType | None
    ) -> None:
        found: Any = self._dynamodb.tables[table].items.get(hash_key) if table in self._dynamodb.tables else None
        if found is not None and range_key is not None:
            found = found.get(range_key)
        names = (table, _name(hash_key), _name(range_key))
        if found is None:
            transaction.say("DELETE FROM items WHERE owner = ? AND hash = ? AND range = ?", *names)
        else:
            transaction.say("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?)", *names, dumps(found))

    # --- the start ---

    def fill(self, *, receivers_are_gone: bool) -> dict[str, int]:
        """Fill moto from the file, and keep what changes from now on. How much there was.

        With `receivers_are_gone` messages in flight can be received at once: nobody is left to delete them.
        """
        self._fill_definitions()
        counts = {
            "versions": self._fill_versions(),
            "messages": self._fill_messages(receivers_are_gone),
            "items": self._fill_items(),
        }
        CHANGES.keep = self._keep
        return counts

    def _fill_definitions(self) -> None:
        for (content,) in self._database.rows("SELECT defined FROM definitions"):
            buckets, tags, queues, topics, subscriptions, tables = loads(content)
            self._s3.buckets.update(buckets)
            self._sqs.queues.update(queues)
            self._sns.topics.update(topics)
            self._sns.subscriptions.update(subscriptions)
            self._dynamodb.tables.update(tables)
            for name, bucket in buckets.items():
                self._tag(bucket, tags[name])
            for queue in queues.values():
                self._join_dead_letters(queue)

    def _join_dead_letters(self, queue: Any) -> None:
        """A queue may name a dead-letter queue that was deleted since, or made anew. SQS leaves it as it is."""
        if not queue.redrive_policy:
            return
        name = str(queue.redrive_policy["deadLetterTargetArn"]).rpartition(":")[2]
        queue.dead_letter_queue = self._sqs.queues.get(name)
        if queue.dead_letter_queue is None:
            print(
                f"queue {queue.name} names the dead-letter queue {name}, which was deleted: what it gives up stays in"
                f" it. Make a queue {name} and start again, or change its resend policy",
                file=sys.stderr,
                flush=True,
            )

    def _fill_versions(self) -> int:
        count = 0
        for row, bucket, content in self._database.rows("SELECT id, bucket, version FROM versions ORDER BY id"):
            version, tags = loads(content)
            setattr(version, _ROW, row)
            if isinstance(version, FakeKey):
                setattr(version, "_value_buffer", StoredContent(self._database, row))  # noqa: B010
                self._tag(version, tags)
            self._s3.buckets[bucket].keys[version.name] = version
            self._rows.setdefault((bucket, version.name), set()).add(row)
            count += 1
        return count

    def _tag(self, owner: Any, tags: dict[str, str]) -> None:
        if tags:
            self._s3.tagger.tag_resource(owner.arn, [{"Key": name, "Value": value} for name, value in tags.items()])

    def _fill_messages(self, receivers_are_gone: bool) -> int:
        count = last = 0
        for queue, content in self._database.rows("SELECT queue, message FROM messages ORDER BY place"):
            message = loads(content)
            if receivers_are_gone:
                message.visible_at = 0.0
            last = max(last, int(message.sequence_number or 0))
            mailbox(self._sqs.queues[queue]).put_back(message)
            count += 1
        now = time.time()
        for queue, scope, deduplication, until in self._database.rows("SELECT * FROM repeats ORDER BY until"):
            mailbox(self._sqs.queues[queue]).drop_repeats(scope, deduplication, until - now)
        number_from(last + 1)
        return count

    def _fill_items(self) -> int:
        count = 0
        for name, content in self._database.rows("SELECT owner, item FROM items"):
            item, items = loads(content), self._dynamodb.tables[name].items
            if item.range_key is None:
                items[item.hash_key] = item
            else:
                items[item.hash_key][item.range_key] = item
            count += 1
        return count


def _name(key: DynamoType | None) -> str:
    """The same text for the same key, however a number is written."""
    return "" if key is None else f"{key.type}:{key.cast_value}"
