"""Troubles with a catalog or with the files of a table, as errors for people."""

import contextlib
from collections.abc import Iterator

import duckdb

from tidegate.cli.asking.files import FileUnreadable
from tidegate.cli.exits import Expected


class TablesUnreadable(Expected):
    """A catalog or the files of a table cannot be read."""


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Raises TablesUnreadable in place of what the clients of a catalog and of S3 raise."""
    try:
        yield
    except (duckdb.IOException, FileUnreadable) as error:
        raise TablesUnreadable(f"the files of a table cannot be read: {_said(error)}") from error
    except Exception as error:
        if _is_of_a_catalog(error):
            raise TablesUnreadable(f"the catalog does not answer: {_said(error)}") from error
        raise


def _is_of_a_catalog(error: Exception) -> bool:
    """By the name of the package: to import the clients of all catalogs takes longer than most queries."""
    names = {f"{each.__module__}.{each.__name__}" for each in type(error).__mro__}
    return bool(
        names
        & {
            "botocore.exceptions.ClientError",
            "pyiceberg.exceptions.RESTError",
            "requests.exceptions.RequestException",
            "sqlite3.Error",
        }
    )


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
