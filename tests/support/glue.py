"""moto's Glue, with the one feature for Iceberg's catalog that moto 5.2.5 lacks."""

from __future__ import annotations

import threading
from typing import Any

from moto.glue.exceptions import GlueClientError
from moto.glue.models import FakeTable
from moto.glue.responses import GlueResponse

from tidegate_local.mends.patching import patch

_update = GlueResponse.update_table
_one_at_a_time = threading.Lock()


class ConcurrentModificationException(GlueClientError):
    def __init__(self, table: str, asked: str, current: str) -> None:
        super().__init__(
            "ConcurrentModificationException",
            f"Update table failed due to concurrent modifications: {table} is at version {current}, not {asked}.",
        )


def repair_update() -> None:
    """Make UpdateTable a compare-and-swap: moto ignores `VersionId`, so the later of two commits wins.

    AWS calls `VersionId` "the version ID at which to update the table contents" and names
    ConcurrentModificationException among the errors
    (https://docs.aws.amazon.com/glue/latest/webapi/API_UpdateTable.html). Iceberg rests its commits on that: "Users can
    update the table as long as the version ID on the server side remains unchanged"
    (https://iceberg.apache.org/docs/1.11.0/aws/#optimistic-locking). What Glue really does only an account can show.
    """
    patch(GlueResponse, update_table=_update_at_version)


def _update_at_version(response: GlueResponse) -> Any:
    parameters = response.parameters
    asked, backend = parameters.get("VersionId"), response.glue_backend
    with _one_at_a_time:
        if asked is not None:
            current = version(backend.get_table(parameters["DatabaseName"], parameters["TableInput"]["Name"]))
            if asked != current:
                raise ConcurrentModificationException(parameters["TableInput"]["Name"], asked, current)
        return _update(response)


def version(table: FakeTable) -> str:
    return str(table.as_dict()["VersionId"])
