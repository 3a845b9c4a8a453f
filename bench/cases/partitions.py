"""A table with partitions: small files whose rows are of two days, and of sixty, beside Spark's own read and write.

Rows of few days are written by the tasks, one file for each day. Rows of many days are shuffled by Spark first, as its
own writer does it (docs/adr/0072).
"""

from bench.findings import BenchFindings
from bench.ingesting import FOLDER, OVER_HTTP, PRODUCT, FileKind, ingested

PEERS = (PRODUCT, OVER_HTTP, FOLDER)
KINDS = (
    FileKind("3,000 JSON files of 47 KB, rows of 2 days", "json", 3_000, 47_000, 2, PEERS, days=2),
    FileKind("3,000 JSON files of 47 KB, rows of 60 days", "json", 3_000, 47_000, 2, PEERS, days=60),
)


def run(small: bool) -> BenchFindings:
    return ingested("partitions", KINDS, 20 if small else 0)
