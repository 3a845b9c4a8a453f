"""DuckDB with the tables of a lake, for one query (docs/adr/0066-duckdb-asks.md)."""

import gzip
import importlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from tidegate.cli.asking.files import LocalFiles, ReadOnlyFiles, S3Files
from tidegate.cli.asking.lakes import Lake, Located
from tidegate.cli.exits import Exit, Expected

READS = "SELECT"
"""The kind of statement that reads. DuckDB takes DESCRIBE, SUMMARIZE, FROM, WITH and VALUES for it, too. EXPLAIN is
refused: the parser does not say what it explains, and EXPLAIN ANALYZE runs it."""
PORTION = 1_000
"""Rows that are taken at a time."""
_PART = r'(?:"(?:[^"]|"")+"|\w+)'
_NAME = re.compile(rf"(?<![\w.\"]){_PART}\.{_PART}(?:\.{_PART})?")


class BadQuery(Expected):
    """A query cannot be answered. The text says which part of it, and what may have been meant."""

    code = Exit.USAGE


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a query. `columns` has the name and the type of each. `snapshots` has the snapshot of each table
    that the query names, None of a table that nothing was ever published to. `rows` can be read once."""

    columns: tuple[tuple[str, str], ...]
    snapshots: dict[str, int | None]
    rows: Iterator[tuple[Any, ...]]


def ask(query: str, lake: Lake) -> Answered:
    """Answer one query. The catalog is asked once for each table, so the query sees one snapshot of it, however often
    it names it.

    Raises BadQuery, NoSuchTable, FileUnreadable or duckdb.IOException. Rows are read while they are taken, and so may
    raise the same.
    """
    files = files_of(lake)
    connection = connected(files)
    named: dict[str, Located] = {}
    try:
        statement = _checked(connection, query)
        named = _named(query, lake)
        for name, located in named.items():
            hand(located, files)
            _show(connection, name, located)
        snapshots = {name: metadata(connection, each.metadata).snapshot for name, each in named.items()}
        _close(connection, lake, named)
        connection.execute(statement)
        described = connection.description or []
    except duckdb.Error as error:
        raise files.failed or _explained(error, query, lake, named) from None
    except RuntimeError as error:
        raise _interrupted(error, connection) from error
    return Answered(
        columns=tuple((column[0], str(column[1])) for column in described),
        snapshots=snapshots,
        rows=_rows(connection, files, query, lake, named),
    )


def files_of(lake: Lake) -> ReadOnlyFiles:
    """The files of all tables of the lake."""
    return S3Files(lake.keys) if lake.keys else LocalFiles(Path(lake.where))


def hand(located: Located, files: ReadOnlyFiles) -> None:
    """From now on read the files of a table with the keys that its catalog has handed out, if it has."""
    if located.keys and isinstance(files, S3Files):
        for prefix in (_root(located.metadata), located.metadata.rpartition("/metadata/")[0] or located.metadata):
            files.hand(prefix, located.keys)


def connected(files: ReadOnlyFiles) -> duckdb.DuckDBPyConnection:
    """DuckDB with its extension for Iceberg, and with the files of the tables, to read only. The extensions come with
    packages, and DuckDB loads none that it has not signed. Nothing is fetched from anywhere."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    # a name in a query means a table, and no variable of this program
    connection.execute("SET python_enable_replacements = false")
    for extension in ("avro", "iceberg"):
        connection.execute(f"LOAD {_text(str(_extension(extension)))}")
    connection.register_filesystem(files)
    return connection


def _extension(name: str) -> Path:
    package = importlib.import_module(f"duckdb_extension_{name}")
    folder = Path(str(package.__file__)).parent / "extensions" / f"v{duckdb.__version__}"
    return folder / f"{name}.duckdb_extension"


def _checked(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    """The query, as the one statement that reads. Raises BadQuery if it is none."""
    statements = connection.extract_statements(query)
    kinds = [each.type.name for each in statements]
    if wrong := [kind for kind in kinds if kind != READS]:
        raise BadQuery(
            f"this verb only reads, and this is a statement of the kind {wrong[0]}. Rows come into a table by"
            " uploads; docs/querying.md says what alters a table"
        )
    if len(kinds) != 1:
        raise BadQuery(f"there are {len(kinds)} statements: give one query at a time")
    if re.match(r"\s*show\b", query, re.IGNORECASE):
        raise BadQuery("SHOW lists only what a query names: `tidegate sql` without a query lists the tables")
    return statements[0]


def _named(query: str, lake: Lake) -> dict[str, Located]:
    """The tables that the query may mean, by their full names. What looks like the name of a table, and is none, is
    left to DuckDB: it may be the column of an alias."""
    found = {}
    for match in _NAME.findall(query):
        parts = [each.strip('"').replace('""', '"').lower() for each in re.findall(_PART, match)]
        if len(parts) == 2 and parts[0] in lake.namespaces():
            parts.insert(0, lake.catalog)
        if len(parts) == 3 and parts[0] == lake.catalog and (located := lake.locate(parts[1], parts[2])):
            found[".".join(parts)] = located
    return found


def _show(connection: duckdb.DuckDBPyConnection, name: str, located: Located) -> None:
    """Let the query name a table as `catalog.namespace.table`."""
    catalog, schema, _ = parts = [_quoted(part) for part in name.split(".")]
    connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {catalog}")
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {catalog}.{schema}")
    moved = ", allow_moved_paths = true" if located.metadata.startswith("file:") else ""
    scan = f"iceberg_scan({_text(located.metadata)}{moved})"
    connection.execute(f"CREATE VIEW {'.'.join(parts)} AS SELECT * FROM {scan}")


def _close(connection: duckdb.DuckDBPyConnection, lake: Lake, named: Mapping[str, Located]) -> None:
    """From here on only the files of the tables can be read, nothing can be written, and that cannot be changed."""
    if named:
        connection.execute(f"USE {_quoted(lake.catalog)}")
    roots = sorted({_folder(each.metadata, lake) for each in named.values()})
    connection.execute(f"SET allowed_directories = [{', '.join(map(_text, roots))}]")
    connection.execute("SET enable_external_access = false")
    # its own, which could write. It is needed until here, and cannot be enabled again
    connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
    connection.execute("SET lock_configuration = true")


def _folder(location: str, lake: Lake) -> str:
    """The folder with the files of a table: on this machine the warehouse, else the bucket."""
    return _root(location) if lake.keys else f"file://{lake.where.rstrip('/')}/"


def _root(location: str) -> str:
    """`s3://bucket/`"""
    scheme, _, rest = location.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"


def _rows(
    connection: duckdb.DuckDBPyConnection,
    files: ReadOnlyFiles,
    query: str,
    lake: Lake,
    named: Mapping[str, Located],
) -> Iterator[tuple[Any, ...]]:
    try:
        while rows := connection.fetchmany(PORTION):
            yield from rows
    except duckdb.Error as error:
        raise files.failed or _explained(error, query, lake, named) from None
    except RuntimeError as error:
        raise _interrupted(error, connection) from error


def _interrupted(error: RuntimeError, connection: duckdb.DuckDBPyConnection) -> BaseException:
    """What DuckDB raises after Ctrl-C, as what Python raises. Its threads work on until they are told."""
    if not isinstance(error.__cause__, KeyboardInterrupt):
        return error
    connection.interrupt()
    return KeyboardInterrupt()


def _explained(error: duckdb.Error, query: str, lake: Lake, named: Mapping[str, Located]) -> Exception:
    """An error of DuckDB's for people. Of a column that is not there it names those that are near, and marks the place
    in the query. What cannot be read stays what it is."""
    if isinstance(error, duckdb.IOException):
        return error
    text = str(error).strip()
    if absent := re.search(r'(?:Table with name|Catalog|Schema with name) "?([\w.]+?)"? does not exist', text):
        return lake.missing(_as_typed(absent[1], query, named))
    return BadQuery(re.sub(r"^\w+(?: \w+)* Error: ", "", text))


def _as_typed(said: str, query: str, named: Mapping[str, Located]) -> str:
    """The whole name of a table in the query of which DuckDB has `said` a part."""
    for match in _NAME.findall(query):
        name = match.replace('"', "").lower()
        if name not in named and said.lower() in (name, name.partition(".")[2], *name.split(".")):
            return name
    return said


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """What the metadata of a table says of it. `rows` is None if some rows were deleted one by one, or if the file is
    missing: then there are no columns, too."""

    snapshot: int | None
    rows: int | None
    columns: tuple[tuple[str, str], ...]


def metadata(connection: duckdb.DuckDBPyConnection, location: str) -> TableMetadata:
    """The metadata in this file (https://iceberg.apache.org/spec/#table-metadata-fields). Raises duckdb.Error."""
    # written into the query: to hand a value over, DuckDB imports pandas, which takes longer than all the rest
    found = connection.execute(f"SELECT content FROM read_blob({_text(location)})").fetchone()
    if found is None:
        return TableMetadata(None, None, ())
    body = found[0]
    table = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
    current = table.get("current-snapshot-id")
    snapshot = next((each for each in table.get("snapshots", ()) if each["snapshot-id"] == current), None)
    # version 1 of the format may have one schema only
    schemas = {each["schema-id"]: each for each in table.get("schemas", ())}
    schema = schemas[table["current-schema-id"]] if schemas else table["schema"]
    return TableMetadata(
        snapshot["snapshot-id"] if snapshot else None,
        _count(snapshot["summary"]) if snapshot else 0,
        tuple((field["name"], field["type"]) for field in schema["fields"]),
    )


def _count(summary: Mapping[str, str]) -> int | None:
    deletes = int(summary.get("total-position-deletes", 0)) + int(summary.get("total-equality-deletes", 0))
    return None if deletes or "total-records" not in summary else int(summary["total-records"])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
