"""The benches, each in a file of its own: `TITLE`, and `run(small)`."""

import importlib

from bench.findings import BenchFindings

CASES = {
    "claims": "decision 1 against a bare loop of conditional puts",
    "intake": "from notifications to notices, for an upload",
    "growth": "time, memory and requests from 1,000 to 1,000,000 uploads",
    "requests": "the AWS requests of four traffics, counted, and what they cost",
    "small_files": "many small files, from a manifest to a published snapshot",
    "large_files": "few large files, from a manifest to a published snapshot",
    "first_byte": "many small files from a server with the latency of S3",
    "shapes": "wide, nested, sparse, quoted, long and partitioned: shapes drawn by a seed (twelve minutes)",
    "exactly_once": "what exactly once costs beside the same read with a plain append",
    "latency": "from a put to a visible row, by stage, on the local stack",
    "corrections": "a table of which one file in a hundred is corrected every day, for a year (an hour or less)",
    "year": "a table in its first year, day by day (half an hour or more)",
}
"""By name, in the order in which they run: what each measures."""
ALONE = ("corrections", "shapes", "year")
"""Those that run only if they are named: they do not fit into the time of all the others."""


def run_case(name: str, *, small: bool) -> BenchFindings:
    found: BenchFindings = importlib.import_module(f"bench.cases.{name}").run(small)
    return found
