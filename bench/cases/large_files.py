"""Few large files: from a sealed manifest to a published snapshot, beside what reads the same files otherwise."""

from bench.findings import BenchFindings
from bench.ingesting import ARROW, FOLDER, OVER_HTTP, PRODUCT, FileKind, ingested

PEERS = (PRODUCT, OVER_HTTP, FOLDER, ARROW)
GOALS = {FOLDER: 1, ARROW: 1}
KINDS = (
    FileKind("6 JSON files of 47 MB", "json", 6, 47_000_000, 2, PEERS, goals=GOALS),
    FileKind("1 CSV file of 200 MB", "csv", 1, 200_000_000, 2, PEERS, goals=GOALS),
    FileKind("1 Parquet file of five million rows", "parquet", 1, 200_000_000, 2, PEERS, goals=GOALS),
    FileKind("1 JSON file of 200 MB in gzip", "json", 1, 200_000_000, 2, PEERS, packed=True, goals=GOALS),
)


def run(small: bool) -> BenchFindings:
    return ingested("large_files", KINDS[:1] if small else KINDS, 2 if small else 0, size=20_000 if small else 0)
