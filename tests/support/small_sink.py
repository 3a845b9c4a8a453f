"""A sink that is not Iceberg: a table in one SQLite file, whose every version is a row.

It shows what `tidegate.flows.sink.Sink` takes. Rows are staged under the id of a version that is not in the line of
versions. Publishing is one transaction, which reads the line, judges it with `verdict`, and appends to it.
"""

import json
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate.core.errors import OutcomeUnknown
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.publication import (
    Floor,
    History,
    NotPublished,
    Published,
    Snapshot,
    Unprovable,
    down_to,
    verdict,
)
from tidegate.core.receipts import RejectedRows
from tidegate.core.replacing import HeldRows, RowsPlace
from tidegate.flows.sink import SeenVersion, Staged, StagedIsGone, require_seen

TABLES = """
CREATE TABLE IF NOT EXISTS about (uuid TEXT, head INTEGER);
CREATE TABLE IF NOT EXISTS versions
    (id INTEGER PRIMARY KEY AUTOINCREMENT, parent INTEGER, publishes TEXT, source INTEGER, rows TEXT);
"""
ReadUpload = Callable[[OwnedUpload], tuple[Read, list[Any]]]
"""How reading an upload ended, and its rows: those that land, and after them those that do not fit."""


def nothing(moment: str) -> None: ...


@dataclass
class SmallSink:
    """`flows.sink.Sink` on an SQLite file. `meanwhile` is called before and after each commit, and may raise."""

    path: Path
    batch: str
    read: ReadUpload
    meanwhile: Callable[[str], None] = nothing
    table: str = "small"
    version: str = "v1"
    replaces: bool = False
    skips: bool = False

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = OFF")  # a test has no power cuts
            yield database

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def prepare(self) -> None:
        self.create_if_absent()

    def create_if_absent(self) -> None:
        with self._open() as database:
            database.executescript(TABLES)
            database.execute("BEGIN IMMEDIATE")
            if database.execute("SELECT uuid FROM about").fetchone() is None:
                database.execute("INSERT INTO about VALUES (?, NULL)", (uuid.uuid4().hex,))
                _append(database, None, "", None, [])
            database.execute("COMMIT")

    def position(self) -> Floor:
        with self._open() as database:
            return Floor(*database.execute("SELECT uuid, head FROM about").fetchone())

    def history(self, floor: Floor) -> History:
        with self._open() as database:
            return _history(database, floor)

    def in_line(self, version: int) -> bool:
        with self._open() as database:
            return version in {each.id for each in _line(database)}

    def held(self, position: Floor) -> int:
        """Every row of a version is of the batch that it publishes."""
        with self._open() as database:
            found = _back_from(database, position.head)
            return sum(len(_rows_of(database, each.id)) for each in found if self.batch in each.publishes)

    def rows_of_objects(self, uris: Collection[str], version: int) -> Sequence[HeldRows]:
        """A row is the key of its upload, which has one version, and is of the batch that its version publishes."""
        with self._open() as database:
            found = _back_from(database, version)
            batch_of = {row: batch for each in found for batch in each.publishes for row in _rows_of(database, each.id)}
        keys = {uri.removeprefix("s3://").partition("/")[2]: uri for uri in uris}
        return [HeldRows(keys[key], self.version, batch, 1) for key, batch in batch_of.items() if key in keys]

    def may_have_gained(self, uris: Collection[str], since: int, now: int) -> bool:
        return True

    def let_rows_go(self) -> None:
        raise AssertionError("nothing is replaced here")

    def stage_removal(self, staged: int, gone: Collection[RowsPlace]) -> tuple[int, int | None]:
        raise AssertionError(gone)

    def rolled_back(self) -> tuple[History, frozenset[str]]:
        with self._open() as database:
            (found,) = database.execute("SELECT uuid FROM about").fetchone()
            line = tuple(_line(database))
            versions = database.execute("SELECT id, publishes FROM versions WHERE publishes != ''").fetchall()
        stay = {each.id for each in line}
        return History(found, line), frozenset(batch for number, batch in versions if number not in stay)

    def roll_back(self, to: int) -> None:
        with self._open() as database:
            database.execute("UPDATE about SET head = ?", (to,))

    def stage(self, items: Sequence[OwnedUpload], *, careful: bool = False, at: int | None = None) -> Staged:
        reads: dict[int, Read] = {}
        rows: list[Any] = []
        for position, item in enumerate(items):
            reads[position], found = self.read(item)
            rows += found[: reads[position].rows] if reads[position].rejected else found
        staged = Staged(self._stage(rows), len(rows), {**reads})
        if not any(read.rejected for read in reads.values()):
            return staged
        return replace(staged, rejected=self.stage_rejected(items, "rejected"))

    def rejected(self, table: str) -> "SmallSink":
        return SmallSink(self.path.with_name(f"{table}.db"), self.batch, self.read, self.meanwhile, table)

    def stage_rejected(self, items: Sequence[OwnedUpload], table: str) -> RejectedRows:
        target = self.rejected(table)
        target.create_if_absent()
        found = (self.read(item) for item in items)
        rows = [row for read, rows in found if read.rejected for row in rows[read.rows :]]
        return RejectedRows(table, target.position().table_uuid, target._stage(rows), len(rows))

    def stage_nothing(self) -> int:
        return self._stage([])

    def _stage(self, rows: list[Any]) -> int:
        with self._open() as database:
            done = database.execute("INSERT INTO versions (publishes, rows) VALUES ('', ?)", (json.dumps(rows),))
            assert done.lastrowid is not None
            return done.lastrowid

    def publish(self, staged: int, floor: Floor, seen: SeenVersion | None = None) -> Published | Unprovable:
        self.meanwhile("before")
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            rows = database.execute("SELECT rows FROM versions WHERE id = ?", (staged,)).fetchone()
            if rows is None:
                raise StagedIsGone(f"version {staged}, which batch {self.batch} had staged, is not in {self.path}")
            told = verdict(_history(database, floor), self.batch, floor)
            if not isinstance(told, NotPublished):
                database.execute("ROLLBACK")
                return told
            require_seen(seen, _line(database), self.table)
            (head,) = database.execute("SELECT head FROM about").fetchone()
            number = _append(database, head, self.batch, staged, json.loads(rows[0]))
            database.execute("COMMIT")
        self.meanwhile("after")
        return Published(number, staged)

    def tidy(self) -> None:
        """What was staged lies beside the line of versions, and does no harm."""

    # ---- what a reader, and somebody else's maintenance, do

    @property
    def rows(self) -> list[Any]:
        with self._open() as database:
            return [row for each in _line(database) for row in _rows_of(database, each.id)]

    def expire(self) -> None:
        """Forget all versions but the head."""
        with self._open() as database:
            database.execute("DELETE FROM versions WHERE publishes != '' AND id != (SELECT head FROM about)")
            database.execute("UPDATE versions SET parent = 0 WHERE id = (SELECT head FROM about)")


def _append(
    database: sqlite3.Connection, parent: int | None, publishes: str, source: int | None, rows: list[Any]
) -> int:
    values = (parent, publishes, source, json.dumps(rows))
    done = database.execute("INSERT INTO versions (parent, publishes, source, rows) VALUES (?, ?, ?, ?)", values)
    assert done.lastrowid is not None
    database.execute("UPDATE about SET head = ?", (done.lastrowid,))
    return done.lastrowid


def _history(database: sqlite3.Connection, floor: Floor) -> History:
    (found,) = database.execute("SELECT uuid FROM about").fetchone()
    return History(found, down_to(floor, _line(database)))


def _line(database: sqlite3.Connection) -> Iterator[Snapshot]:
    (at,) = database.execute("SELECT head FROM about").fetchone()
    return _back_from(database, at)


def _back_from(database: sqlite3.Connection, at: int | None) -> Iterator[Snapshot]:
    while at is not None:
        found = database.execute("SELECT parent, publishes, source FROM versions WHERE id = ?", (at,)).fetchone()
        if found is None:
            return
        parent, publishes, source = found
        yield Snapshot(at, parent, frozenset({publishes} if publishes else ()), source or 0)
        at = parent


def _rows_of(database: sqlite3.Connection, number: int) -> list[Any]:
    (rows,) = database.execute("SELECT rows FROM versions WHERE id = ?", (number,)).fetchone()
    return list(json.loads(rows))


def lost_answer(moment: str) -> None:
    """For `meanwhile`: the commit is applied, and nobody hears of it."""
    if moment == "after":
        raise OutcomeUnknown("no answer")


def conflict(moment: str) -> None:
    """For `meanwhile`: somebody else committed first."""
    if moment == "before":
        raise OutcomeUnknown("a conflict")


def committed(item: OwnedUpload) -> tuple[Read, list[Any]]:
    """One row for each upload: its key."""
    return Read(Outcome.COMMITTED, 1), [item.upload.key]
