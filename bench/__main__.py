"""`make bench`: run the benches one after the other, each in a process of its own.

python -m bench                        all but `corrections`, `shapes` and `year`, at most 25 minutes on two processors
python -m bench year                   a table's first year, day by day: half an hour or more
python -m bench claims growth          only these
python -m bench --small                seconds for each: the figures say nothing, the checks of the rows do
python -m bench --page                 only write docs/performance.md and its charts from the last results

Each result is written to bench/results/latest.json as soon as it is there. So an interrupted run keeps what it has, and
`python -m bench NAME` replaces one bench's. With --small nothing is written.

Ends with 1 if a bench failed, gave wrong rows, or exceeded a limit.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from bench import page, record
from bench.cases import ALONE, CASES, run_case
from bench.findings import decode_findings

MINUTES = 25
ALONE_MINUTES = 120
"""For those that are not among all."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="NAME", help=f"one of {', '.join(CASES)} (default: all)")
    parser.add_argument("--small", action="store_true", help="small sizes, and nothing is written")
    parser.add_argument("--page", action="store_true", help="only write the page from the last results")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"there is no bench {unknown[0]!r}: there are {', '.join(CASES)}")
    if options.here:
        print(run_case(options.cases[0], small=options.small).encode())
        return 0
    if options.page:
        page.write(record.read())
        return 0
    return _run(options.cases or [name for name in CASES if name not in ALONE], small=options.small)


def _run(names: Sequence[str], *, small: bool) -> int:
    troubles: list[str] = []
    began = time.monotonic()
    for name in names:
        left = (ALONE_MINUTES if name in ALONE else MINUTES) * 60 - (time.monotonic() - began)
        print(f"== {name}", flush=True)
        started = time.monotonic()
        found = _in_a_process(name, small=small, seconds=left)
        if isinstance(found, str):
            troubles.append(f"{name}: {found}")
            continue
        findings = decode_findings(record.parsed(found.stdout))
        print(findings.text, f"({time.monotonic() - started:.0f} s)\n", sep="\n", flush=True)
        troubles += [f"{name}: {limit}" for limit in findings.limits if not limit.holds and not small]
        if not small:
            record.keep(name, findings, time.monotonic() - started)
    if not small:
        page.write(record.read())
    for trouble in troubles:
        print(f"bench {trouble}", file=sys.stderr)
    return 1 if troubles else 0


def _in_a_process(name: str, *, small: bool, seconds: float) -> subprocess.CompletedProcess[str] | str:
    """The process that ran it, or why there is no result."""
    if seconds <= 0:
        return f"not run: the {MINUTES} minutes are over. Run it alone: make bench ONLY={name}"
    command = [sys.executable, "-m", "bench", name, "--here", *(["--small"] if small else [])]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=max(60.0, seconds), check=False)
    except subprocess.TimeoutExpired:
        return f"stopped after {seconds:.0f} s, because the {MINUTES} minutes are over"
    return done if done.returncode == 0 else f"failed with code {done.returncode}; its reason is above"


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted: the results so far are kept", file=sys.stderr)
        code = 130
    sys.exit(code)
