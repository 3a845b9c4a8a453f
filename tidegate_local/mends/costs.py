"""What moto does right, at a price that grows with all that it holds. AWS's own prices depend on what was asked for."""

from __future__ import annotations

import contextlib
import copy
import inspect
from typing import Any

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.s3.models import FakeDeleteMarker, FakeKey

from tidegate_local.mends.patching import patch


def a_listing_copies_no_object() -> None:
    """moto copies every object of a bucket, content included, to list a page of its versions. It sets one flag in the
    copy, which nothing but the listing reads."""
    for kind in (FakeKey, FakeDeleteMarker):
        setattr(kind, "__deepcopy__", _itself)  # noqa: B010


def a_query_reads_its_partition_only() -> None:
    """moto sorts the whole table to find the items of one partition."""
    query, all_items = Table.query, Table.all_items
    signature = inspect.signature(query)

    def query_partition(*arguments: Any, **options: Any) -> Any:
        asked = signature.bind(*arguments, **options).arguments
        table = asked["self"]
        if asked.get("index_name") is None and table.range_key_attr:
            table.partition = asked["hash_key"]
        try:
            return query(*arguments, **options)
        finally:
            table.partition = None

    def items(table: Any) -> list[Any]:
        if getattr(table, "partition", None) is None:
            return list(all_items(table))
        return list(table.items[table.partition].values()) if table.partition in table.items else []

    patch(Table, query=query_partition, all_items=items)


def a_transaction_copies_its_items_only() -> None:
    """moto copies every table it touches, whole, before each transaction; here only the items are copied."""
    original = DynamoDBBackend.transact_write_items

    def transact(backend: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
        before = []
        for each in transact_items:
            (operation,) = each.values()
            with contextlib.suppress(Exception):  # moto reports what is wrong with it in its own words
                table = backend.get_table(operation["TableName"])
                hash_key, range_key = table_keys(table, operation.get("Key") or operation["Item"])
                before.append((table, hash_key, range_key, copy.deepcopy(table.get_item(hash_key, range_key))))
        try:
            original(backend, transact_items)
        except BaseException:
            for table, hash_key, range_key, item in before:
                put_back(table, hash_key, range_key, item)
            raise

    patch(DynamoDBBackend, transact_write_items=transact)
    # transactions are the only ones that copy a table here, and restore it by assigning the copy
    setattr(Table, "__deepcopy__", _itself)  # noqa: B010


def _itself(self: Any, memo: dict[int, Any]) -> Any:
    return self


def table_keys(table: Any, values: dict[str, Any]) -> tuple[Any, Any]:
    return (
        DynamoType(values[table.hash_key_attr]),
        DynamoType(values[table.range_key_attr]) if table.range_key_attr else None,
    )


def put_back(table: Any, hash_key: Any, range_key: Any, item: Any) -> None:
    if range_key is None:
        if item is None:
            table.items.pop(hash_key, None)
        else:
            table.items[hash_key] = item
    elif item is None:
        table.items[hash_key].pop(range_key, None)
        if not table.items[hash_key]:
            del table.items[hash_key]
    else:
        table.items[hash_key][range_key] = item
