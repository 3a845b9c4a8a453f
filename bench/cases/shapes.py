"""Shapes that no other bench has: wide, nested, sparse, quoted, long texts, many small columns, many partitions.

What is in them is drawn by a seed (`bench.shapes`). The goals: never slower than Spark's own read of the same folder,
and five times as fast where files are small.
"""

from bench.findings import BenchFindings
from bench.ingesting import ARROW, FOLDER, PRODUCT, FileKind, ingested
from bench.shapes import long, many, of_days, quoted, sparse, wide

PEERS = (PRODUCT, FOLDER, ARROW)
LARGE = {FOLDER: 1, ARROW: 0.9}
SMALL = {FOLDER: 5, ARROW: 0.9}
DAYS = {FOLDER: 1}
KINDS = (
    FileKind("6 wide JSON files of 40 MB", "json", 6, 40_000_000, 3, PEERS, goals=LARGE, shape=wide),
    FileKind("2,000 wide JSON files of 37 KB", "json", 2_000, 37_000, 1, PEERS, goals=SMALL, shape=wide),
    FileKind("40 wide Parquet files of 3 MB", "parquet", 40, 3_000_000, 3, PEERS, goals=LARGE, shape=wide),
    FileKind("4 sparse JSON files of 25 MB", "json", 4, 25_000_000, 3, PEERS, goals=LARGE, shape=sparse),
    FileKind("4 JSON files of 25 MB, 200 columns", "json", 4, 25_000_000, 3, PEERS, goals=LARGE, shape=many),
    FileKind("4 JSON files of 50 MB, long texts", "json", 4, 50_000_000, 3, PEERS, goals=LARGE, shape=long),
    FileKind("1 quoted CSV file of 200 MB", "csv", 1, 200_000_000, 3, PEERS, goals=LARGE, shape=quoted),
    FileKind("3,000 quoted CSV files of 20 KB", "csv", 3_000, 20_000, 1, PEERS, goals=SMALL, shape=quoted),
    FileKind("4 CSV files of 25 MB, 200 columns", "csv", 4, 25_000_000, 3, PEERS, goals=LARGE, shape=many),
    FileKind(
        "3,000 JSON files of 47 KB, rows of 2 days", "json", 3_000, 47_000, 2, PEERS[:2], goals=DAYS, shape=of_days(2)
    ),
    FileKind(
        "3,000 JSON files of 47 KB, rows of 60 days", "json", 3_000, 47_000, 2, PEERS[:2], goals=DAYS, shape=of_days(60)
    ),
)


def run(small: bool) -> BenchFindings:
    return ingested("shapes", KINDS, 2 if small else 0, size=30_000 if small else 0)
