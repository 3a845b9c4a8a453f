"""Many small files: from a sealed manifest to a published snapshot, beside what reads the same files otherwise."""

from bench.findings import BenchFindings
from bench.ingesting import ARROW, FOLDER, OVER_HTTP, PATHS, PRODUCT, STREAM, FileKind, ingested

EVERYONE = (PRODUCT, OVER_HTTP, PATHS, FOLDER, STREAM, ARROW)
GOALS = {PATHS: 25, STREAM: 10, FOLDER: 5}
KINDS = (
    FileKind("10,000 JSON files of 2 KB", "json", 10_000, 2_000, 2, EVERYONE, goals=GOALS),
    FileKind("3,000 JSON files of 47 KB", "json", 3_000, 47_000, 1, EVERYONE),
    FileKind("3,000 CSV files of 20 KB, gzip", "csv", 3_000, 20_000, 1, EVERYONE, packed=True),
    FileKind("3,000 Parquet files of 20 KB", "parquet", 3_000, 20_000, 1, EVERYONE),
    FileKind(
        "100,000 JSON files of 2 KB", "json", 100_000, 2_000, 1, (PRODUCT, OVER_HTTP, FOLDER, ARROW), goals={ARROW: 1}
    ),
)


def run(small: bool) -> BenchFindings:
    return ingested("small_files", KINDS[::3] if small else KINDS, 20 if small else 0)
