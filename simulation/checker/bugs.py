"""The index of the planted mistakes, each with the run that shows it. They test the checker.

    python -m simulation mistakes              the table: which mistake, and what finds it
    python -m simulation mistakes --find NAME  look for the cheapest run that shows one (--in SCENARIO: only there)

`BUGS` break a promise, and the oracle has to report it. `HARMLESS` take out what only saves money or time: no promise
may break, or correctness depends on that part. `UNSEEN` break nothing that is checked today, and have the reason. They
are in `simulation/checker/mistakes/`, by subject.
"""

import argparse

from simulation.checker.explore import Result, simulation
from simulation.checker.mistakes import (
    announcing,
    asking,
    attempts,
    auditing,
    backfilling,
    batches,
    claiming,
    deployed,
    endings,
    maintaining,
    notices,
    publishing,
    quarantined,
    reading,
    rebuilding,
    recovering,
    redriving,
    republishing,
)
from simulation.checker.planting import Bug, find, hurried, show

BUGS: tuple[Bug, ...] = (
    *claiming.BUGS,
    *notices.BUGS,
    *batches.BUGS,
    *deployed.BUGS,
    *attempts.BUGS,
    *publishing.BUGS,
    *reading.BUGS,
    *endings.BUGS,
    *asking.BUGS,
    *rebuilding.BUGS,
    *recovering.BUGS,
    *redriving.BUGS,
    *quarantined.BUGS,
    *auditing.BUGS,
    *announcing.BUGS,
    *backfilling.BUGS,
    *maintaining.BUGS,
    *republishing.BUGS,
)

HARMLESS: tuple[Bug, ...] = (
    *attempts.HARMLESS,
    *notices.HARMLESS,
    *batches.HARMLESS,
    *asking.HARMLESS,
    *auditing.HARMLESS,
    *rebuilding.HARMLESS,
    *recovering.HARMLESS,
    *redriving.HARMLESS,
)

UNSEEN: tuple[Bug, ...] = (
    *claiming.UNSEEN,
    *batches.UNSEEN,
    *publishing.UNSEEN,
    *quarantined.UNSEEN,
)
"""No run shows them today: they break no promise, or the oracle does not check it (`because`)."""


def _said(result: Result) -> str:
    """Which promises were broken, without which upload or batch it was."""
    known = ("repeated", "lost", "torn", "foreign", "sums")
    broken = [promise.split(":")[0] for promise in result.judgement.broken]
    kinds = [kind if kind in known else "the table and the ledger" for kind in broken if kind != "liveness"]
    return ", ".join(dict.fromkeys(kinds)) or ("it never ends" if broken else "nothing")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation mistakes")
    parser.add_argument("--find", metavar="NAME", nargs="*", help="look for the cheapest run that shows these mistakes")
    parser.add_argument("--in", metavar="SCENARIO", nargs="*", dest="scenarios", help="look for it in these only")
    given = parser.parse_args(arguments)
    wanted = given.find
    with simulation(), hurried():
        if wanted:
            for bug in (*BUGS, *UNSEEN):
                if bug.name in wanted:
                    print(f"{bug.name}: {find(bug, given.scenarios or ()) or 'nothing shows it'}", flush=True)
            return 0
        print("| mistake | what it is | scenario | how | what the oracle says |")
        print("|---|---|---|---|---|")
        for bug in BUGS:
            shown, _ = show(bug)
            print(f"| {bug.name} | {bug.mistake} | {bug.scenario} | {bug.how} | {_said(shown)} |")
        print("\nTaken away without harm:\n\n| what | what it would do |\n|---|---|")
        for bug in HARMLESS:
            print(f"| {bug.name} | {bug.mistake} |")
        print("\nNot seen:\n\n| what | what it is | why |\n|---|---|---|")
        for bug in UNSEEN:
            print(f"| {bug.name} | {bug.mistake} | {bug.because} |")
    return 0
