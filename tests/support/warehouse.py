"""A warehouse as a local stack leaves it, with one table of departures: two uploads, each in a batch of its own."""

import datetime
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from tidegate.reading.reader import LINEAGE

BATCHES = ("01M7YWFZ0BH03GX8KYPA0JN379", "01M7YWG1DMN8NJWG21AMY34GF7")
COLUMNS = pa.schema(
    [
        pa.field("carrier", pa.string()),
        pa.field("flight", pa.int32()),
        pa.field("origin", pa.string()),
        pa.field("dest", pa.string()),
        pa.field("dep_delay", pa.int32()),
        pa.field("time_hour", pa.timestamp("us", tz="UTC")),
        *LINEAGE,
    ]
)
TABLE = "flights.departures"


def upload(number: int, rows: int) -> pa.Table:
    """The rows of one upload."""
    hour = datetime.datetime(2013, 1, 1, 5 + number, tzinfo=datetime.UTC)
    origin = ("EWR", "JFK")[number % 2]
    return pa.Table.from_pylist(
        [
            {
                "carrier": "UA",
                "flight": 1500 + row,
                "origin": origin,
                "dest": "IAH" if row == 0 else "ORD",
                "dep_delay": None if row == 1 else row,
                "time_hour": hour,
                "_source_uri": f"s3://landing/flights/{hour:%Y/%m/%d/%H}/{origin}.json.gz",
                "_source_version": f"v{number}",
                "_source_row": row,
                "_batch_id": BATCHES[number % 2],
                "_ingested_at": hour,
            }
            for row in range(rows)
        ],
        schema=COLUMNS,
    )


def make(folder: Path, uploads: tuple[int, ...] = (3, 2)) -> Catalog:
    """The warehouse of a stack in `folder`: a snapshot for each upload, with so many rows."""
    (folder / "warehouse").mkdir(parents=True)
    catalog = opened(folder)
    fill(catalog, uploads)
    return catalog


def opened(folder: Path) -> Catalog:
    """The catalog of the stack in `folder`."""
    warehouse = folder / "warehouse"
    # the paths of files are spelled as Hadoop's file systems do, which Spark writes with: file:/..., and not file:///...
    return SqlCatalog("lake", uri=f"sqlite:///{warehouse / 'catalog.db'}", warehouse=f"file:{warehouse}")


def fill(catalog: Catalog, uploads: tuple[int, ...] = (3, 2)) -> None:
    catalog.create_namespace("flights")
    table = catalog.create_table(TABLE, COLUMNS)
    for number, rows in enumerate(uploads):
        table.append(upload(number, rows))
