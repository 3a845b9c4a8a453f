"""Few large files: from a sealed manifest to a published snapshot, beside what reads the same files otherwise."""

from bench.findings import BenchFindings
from bench.ingesting import ARROW, FOLDER, PRODUCT, FileKind, ingested

PEERS = (PRODUCT, FOLDER, ARROW)
KINDS = (
    FileKind("4 JSON files of 50 MB", "json", 4, 50_000_000, 2, PEERS),
    FileKind("4 CSV files of 30 MB", "csv", 4, 30_000_000, 2, PEERS),
    FileKind("4 Parquet files of a million rows", "parquet", 4, 40_000_000, 2, PEERS),
)


def run(small: bool) -> BenchFindings:
    return ingested("large_files", KINDS[:1] if small else KINDS, 2 if small else 0, size=20_000 if small else 0)
