"""Small files from a server that takes 20 ms to the first byte, as S3 does. Waiting must not be what takes the time."""

from statistics import median

from bench.files import make_files
from bench.findings import BenchFindings, BenchLimit, BenchTable
from bench.ingesting import OVER_HTTP, PROCESSES, warmed, workshop
from bench.measure import take_turns

WAIT = 0.02
FILES, SIZE, ROUNDS = 10_000, 2_000, 3
GOAL = 1_400
"""Files a second. One request at a time for each of two tasks allows 100."""


def run(small: bool) -> BenchFindings:
    count = 20 if small else FILES
    with workshop(wait=WAIT) as shop:
        if not small:
            warmed(shop)
        files = make_files(shop.landing, f"{count:,} JSON files of 2 KB", "json", count, SIZE)
        rounds = take_turns({OVER_HTTP: shop.product(files)}, 1 if small else ROUNDS, shop.check(files))
    seconds = median(run.seconds for run in rounds.runs[OVER_HTTP])
    row = (files.title, f"{seconds:.2f}", f"{count / seconds:,.0f}")
    note = (
        f"{WAIT * 1e3:.0f} ms to the first byte, {PROCESSES} tasks; from a manifest to a published snapshot. The median"
        f" of {len(rounds.runs[OVER_HTTP])} rounds."
    )
    table = BenchTable("first byte", ("files", "seconds", "files a second"), [row], note)
    limit = BenchLimit(f"{GOAL:,} files a second, to those fetched", GOAL * seconds / count, 1, "")
    return BenchFindings((table,), (), (limit,))
