"""Which tables a query may name, and where the metadata of each is.

An Iceberg table is read from one file of metadata, which its catalog names and nobody changes. So whoever has asked the
catalog once reads one snapshot, however long it takes.
"""

import difflib
import os
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli import plugins
from tidegate.cli.exits import Exit, Expected
from tidegate.environment import CATALOG_URI, DEPLOYMENT, LEDGER, STACK_DIR, WAREHOUSE

if TYPE_CHECKING:
    from tidegate.cli.asking.properties import Caller
    from tidegate.settings import LakeCatalog, Settings

SQLITE = "sqlite:///"
USUAL_CATALOG = "lake"
"""The name of a catalog in `tidegate.toml`, unless another one is given."""
MOST_NAMES = 20
"""How many tables an error lists."""


class NoSuchTable(Expected):
    """A query names a table that is not there. The text names those that are."""

    code = Exit.USAGE


class NoTables(Expected):
    """There is nothing to ask where tables should be."""


@dataclass(frozen=True, slots=True)
class Located:
    """Where a table's metadata is now, and with which keys its files are read: empty for the shell's own."""

    metadata: str
    keys: "Caller | None" = None


Locate = Callable[[str, str], Located | None]


@dataclass(frozen=True, slots=True)
class Lake:
    """The tables of a deployment, or of this machine.

    `where`      for people
    `catalog`    what the names of the tables begin with
    `listed`     the full names of its tables, in order: of a deployment those of its routes, of this machine all
    `locate`     the table of this namespace and name; None if there is none
    `keys`       with which files in S3 are read; None if they are on this machine
    """

    where: str
    catalog: str
    listed: Callable[[], Sequence[str]]
    locate: Locate
    keys: "Caller | None" = None

    def namespaces(self) -> set[str]:
        return {name.split(".")[1] for name in self.listed()}

    def missing(self, name: str) -> NoSuchTable:
        """The error for a table that is not there."""
        return NoSuchTable(f"there is no table {name}: {advice(name, self.listed(), self.where)}")


def advice(name: str, names: Sequence[str], where: str) -> str:
    """What to say to somebody who typed `name`, which is not among `names`."""
    if not names:
        return f"there are no tables yet in {where}"
    short = {each.rpartition(".")[2]: each for each in names}
    meant = [short[each] for each in nearest(name.rpartition(".")[2], list(short))]
    if meant:
        return f"did you mean {' or '.join(meant)}?"
    return f"there are {', '.join(names[:MOST_NAMES])}{' and others' if len(names) > MOST_NAMES else ''}"


def nearest(name: str, names: Sequence[str]) -> list[str]:
    """Those of `names` that somebody may have meant who typed `name`, the nearest first; 3 at most. The same name in
    another namespace is meant."""
    if name in names:
        return [name]
    return difflib.get_close_matches(name, names, n=3, cutoff=0.7)


def find(folder: Path | None) -> Lake:
    """The tables in `folder`, if one is given; else those that the environment names; else those in the default folder.

    Raises SettingsError, or Expected if there are none.
    """
    if folder is None and os.environ.get(CATALOG_URI):
        return of_this_machine(os.environ)
    if folder is None and os.environ.get(LEDGER):
        from tidegate.settings import load_deployed
        from tidegate.wiring import settings_file

        return of_deployment(load_deployed(settings_file(os.environ)))
    return of_this_machine(plugins.local("warehouse")(folder or STACK_DIR))


# --- this machine ---


def of_this_machine(environment: Mapping[str, str]) -> Lake:
    """The tables of a local stack, by the file of its catalog; the stack need not run. The first job makes that file.
    Raises NoTables if not even its folder is there."""
    uri = environment[CATALOG_URI]
    file = Path(uri.removeprefix(SQLITE))
    if not uri.startswith(SQLITE) or not file.parent.exists():
        raise NoTables(f"{CATALOG_URI} is {uri}, and there is no such folder: unset it, or name a folder with --dir")
    catalog, tables = tables_in(file) if file.exists() else (USUAL_CATALOG, {})
    names = [f"{catalog}.{namespace}.{name}" for namespace, name in sorted(tables)]

    def locate(namespace: str, name: str) -> Located | None:
        found = tables.get((namespace, name))
        return Located(found) if found else None

    return Lake(
        where=environment.get(WAREHOUSE, "").removeprefix("file://") or str(file.parent),
        catalog=catalog,
        listed=lambda: names,
        locate=locate,
    )


def tables_in(file: Path) -> tuple[str, dict[tuple[str, str], str]]:
    """The catalog's name in a catalog file of Iceberg's JDBC catalog, and where the metadata of each table is. A stack
    has one catalog."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as catalog:
        there = catalog.execute("SELECT name FROM sqlite_master WHERE name = 'iceberg_tables'").fetchall()
        rows = (
            catalog.execute(
                "SELECT catalog_name, table_namespace, table_name, metadata_location FROM iceberg_tables"
                " WHERE metadata_location IS NOT NULL"
            ).fetchall()
            if there
            else []
        )
    name = min((row[0] for row in rows), default=USUAL_CATALOG)
    return name, {(row[1], row[2]): _spelled(row[3]) for row in rows if row[0] == name}


def _spelled(location: str) -> str:
    """Hadoop's file systems, which Spark writes with, call a file file:/..., and a URI of one is file:///..."""
    return re.sub("^file:/(?!/)", "file:///", location)


# --- a deployment ---


def of_deployment(settings: "Settings") -> Lake:
    """The tables of a deployment, in the catalog of its settings. Raises SettingsError."""
    from tidegate.cli.asking.properties import caller
    from tidegate.settings import SettingsError

    catalog = settings.catalog
    if catalog.credential_secret and not has_credential(catalog, os.environ):
        raise SettingsError(credential_advice(catalog))
    who = caller()
    name = os.environ.get(DEPLOYMENT) or settings.deployment.name
    tables = sorted({table for route in settings.routes for table in route.tables})
    return Lake(
        where=f"the catalog {catalog.name} of deployment {name} ({catalog.type}, {who.region})",
        catalog=catalog.name,
        listed=lambda: tables,
        locate=_glue() if catalog.type == "glue" else _rest(catalog, who),
        keys=who,
    )


def _glue() -> Locate:
    import boto3

    glue: Any = boto3.client("glue")

    def locate(namespace: str, name: str) -> Located | None:
        try:
            found = glue.get_table(DatabaseName=namespace, Name=name)["Table"]
        except glue.exceptions.EntityNotFoundException:
            return None
        # where Iceberg's GlueCatalog keeps the place of the metadata. Tables of other formats have none
        location = found.get("Parameters", {}).get("metadata_location")
        return Located(location) if location else None

    return locate


def _rest(catalog: "LakeCatalog", who: "Caller") -> Locate:
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    from tidegate.cli.asking.properties import keys_of, of_pyiceberg

    @cache
    def client() -> Any:
        from pyiceberg.catalog import load_catalog

        given = os.environ.get(credential_variable(catalog))
        credential = {"credential": given} if given else {}
        return load_catalog(catalog.name, **of_pyiceberg(catalog, who), **credential)

    def locate(namespace: str, name: str) -> Located | None:
        try:
            found = client().load_table((namespace, name))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        return Located(found.metadata_location, keys_of(found.io.properties, who))

    return locate


def has_credential(catalog: "LakeCatalog", environment: Mapping[str, str]) -> bool:
    """Whether the environment, or a file of PyIceberg's, has a credential or a token for the catalog."""
    from pyiceberg.utils.config import Config

    configured = Config().get_catalog_config(catalog.name) or {}
    given = environment.get(credential_variable(catalog))
    return bool(given or configured.get("credential") or configured.get("token"))


def credential_variable(catalog: "LakeCatalog") -> str:
    """The variable that holds the credential of a catalog. It is PyIceberg's
    (https://py.iceberg.apache.org/configuration/#environment-variables), which does not find it if the catalog's name
    has an underscore; so it is read here."""
    return f"PYICEBERG_CATALOG__{catalog.name.upper()}__CREDENTIAL"


def credential_advice(catalog: "LakeCatalog") -> str:
    variable, secret = credential_variable(catalog), catalog.credential_secret
    return (
        f"the catalog {catalog.name} wants a credential, and the shell has none: set {variable} to the text of its"
        f' secret, {secret}. If you may read it: export {variable}="$(aws secretsmanager get-secret-value --secret-id'
        f' {secret} --query SecretString --output text)"'
    )
