"""A store on SQLite: what a ledger on another database takes. It is no part of the product.

The file is the database; every process that opens it sees the same ledger. SQLite lets one writer in at a time
(`BEGIN IMMEDIATE`, https://www.sqlite.org/lang_transaction.html), so a transition may be judged by what was read.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.items import Applied, Item, Key, Refused, Transition, judged
from tidegate.stores.memory import applied

PATIENCE = 30
"""Seconds to wait for another writer."""


class SqliteStore:
    """`flows.store.Store` on an SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._connected("make the table of items") as database:
            database.execute("CREATE TABLE IF NOT EXISTS items (pk TEXT, sk TEXT, body TEXT, PRIMARY KEY (pk, sk))")

    def get(self, key: Key) -> Item | None:
        return self.get_many([key], key.pk).get(key)

    def get_many(self, keys: Sequence[Key], what: str) -> Mapping[Key, Item]:
        with self._connected(f"read {what}") as database:
            return _read(database, keys)

    def query(self, pk: str, what: str, most: int = 0) -> Sequence[Item]:
        with self._connected(f"read {what}") as database:
            # a negative limit is none
            rows = database.execute("SELECT body FROM items WHERE pk = ? ORDER BY sk LIMIT ?", (pk, most or -1))
            return [_item(body) for (body,) in rows]

    def apply(self, transition: Transition) -> Applied | Refused:
        with self._connected(transition.what) as database:
            database.execute("BEGIN IMMEDIATE")
            after = judged(transition, _read(database, [write.key for write in transition.writes]))
            if isinstance(after, Refused):
                database.execute("ROLLBACK")
                return after
            rows = [(*key, _body(item)) for key, item in after.items() if item is not None]
            database.executemany("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", rows)
            gone = [key for key, item in after.items() if item is None]
            database.executemany("DELETE FROM items WHERE pk = ? AND sk = ?", gone)
            database.execute("COMMIT")
        return applied(after)

    def apply_each(self, transitions: Sequence[Transition]) -> Sequence[Applied | Refused]:
        return [self.apply(each) for each in transitions]

    @contextmanager
    def _connected(self, what: str) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = OFF")  # a test has no power cuts
                yield database
        except sqlite3.OperationalError as error:
            # a busy or locked file was not written to
            refused = error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            raise (Retryable if refused else OutcomeUnknown)(f"could not {what} in {self._path}: {error}") from error


def _read(database: sqlite3.Connection, keys: Sequence[Key]) -> Mapping[Key, Item]:
    rows = (database.execute("SELECT body FROM items WHERE pk = ? AND sk = ?", key).fetchone() for key in keys)
    return {key: _item(row[0]) for key, row in zip(keys, rows, strict=True) if row}


def _body(item: Item) -> str:
    # JSON knows no sets
    kept = {name: {"set": sorted(each)} if isinstance(each, frozenset) else {"is": each} for name, each in item.items()}
    return json.dumps(kept)


def _item(body: str) -> Item:
    kept: dict[str, dict[str, Any]] = json.loads(body)
    return {name: frozenset(each["set"]) if "set" in each else each["is"] for name, each in kept.items()}
