"""What DynamoDB does with statements in PartiQL, as far as the ledger uses them."""

from __future__ import annotations

import re
from typing import Any

from moto.dynamodb.exceptions import MockValidationException
from moto.dynamodb.models import DynamoDBBackend

from tidegate_local.mends.costs import table_keys
from tidegate_local.mends.patching import patch

_INSERT = re.compile(r"""INSERT INTO "(?P<table>[^"]+)" VALUE \{(?P<fields>(?:'[^']+': \?(?:, )?)+)\}""")
_FIELD = re.compile(r"'([^']+)': \?")


def insert_of(statement: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The table and the item of a statement, if it is an insert whose values are parameters."""
    parsed = _INSERT.fullmatch(statement["Statement"])
    if parsed is None:
        return None
    names = _FIELD.findall(parsed["fields"])
    return parsed["table"], dict(zip(names, statement["Parameters"], strict=True))


def inserts_put_what_is_not_there() -> None:
    """An insert of an item whose key is taken is answered with an error, and changes nothing
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html). moto fails at an insert
    whose values are parameters in a request of several. Alone it would overwrite the item, and copy every table.
    """
    patch(DynamoDBBackend, batch_execute_statement=with_inserts(DynamoDBBackend.batch_execute_statement))


def with_inserts(original: Any) -> Any:
    """The same operation, for requests of nothing but inserts."""

    def batch_execute_statement(backend: DynamoDBBackend, statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
        inserts = [each for each in map(insert_of, statements) if each]
        if len(inserts) < len(statements) or any(table not in backend.tables for table, _ in inserts):
            answered: list[dict[str, Any]] = original(backend, statements)
            return answered
        wanted = [(backend.tables[table], item) for table, item in inserts]
        keys = [(table.name, *table_keys(table, item)) for table, item in wanted]
        if len(set(keys)) < len(keys):
            raise MockValidationException("Provided list of item keys contains duplicates")
        return [_inserted(table, item) for table, item in wanted]

    return batch_execute_statement


def _inserted(table: Any, item: dict[str, Any]) -> dict[str, Any]:
    if table.get_item(*table_keys(table, item)) is not None:
        error = {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"}
        return {"TableName": table.name, "Error": error}
    table.put_item(item)
    return {"TableName": table.name}
