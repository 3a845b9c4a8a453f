"""The Iceberg catalog of a deployment: what `[catalog]` says, and what follows from it and from the routes."""

from dataclasses import dataclass
from typing import Literal

CatalogType = Literal["glue", "s3tables", "rest"]
USUAL_NAME = "lake"


@dataclass(frozen=True, slots=True)
class LakeCatalog:
    """`name` is what the tables' names begin with, and Spark's name of the catalog. `type`:

    `glue`      the account's Glue catalog; the stack creates a bucket for the tables
    `s3tables`  the table bucket `arn`, by way of Glue
    `rest`      the REST catalog at `uri`
    """

    name: str = USUAL_NAME
    type: CatalogType = "glue"
    arn: str | None = None
    uri: str | None = None
    warehouse: str | None = None
    credential_secret: str | None = None
