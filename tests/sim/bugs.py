"""The checker, checked: mistakes planted in the product, each with the run that shows it.

    python -m tests.sim.bugs              the table: which mistake, and what finds it
    python -m tests.sim.bugs --find NAME  look for the cheapest run that shows a mistake (--in SCENARIO: only there)

`BUGS` break a promise, and the oracle has to say so. `HARMLESS` take away what only saves money or time: nothing may
break, or an argument for correctness has come to rest on it. `UNSEEN` break nothing that is looked at today, and say
why. They are in `tests/sim/mistakes/`, by what they are about.
"""

import argparse
from collections.abc import Sequence

from tests.sim.explore import Result, simulation
from tests.sim.mistakes import (
    asking,
    attempts,
    batches,
    claiming,
    deployed,
    endings,
    notices,
    publishing,
    reading,
    recovering,
)
from tests.sim.planting import Bug, find, hurried, show

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
    *recovering.BUGS,
)

HARMLESS: tuple[Bug, ...] = (
    *attempts.HARMLESS,
    *notices.HARMLESS,
    *batches.HARMLESS,
    *asking.HARMLESS,
    *recovering.HARMLESS,
)

UNSEEN: tuple[Bug, ...] = (
    *claiming.UNSEEN,
    *batches.UNSEEN,
    *publishing.UNSEEN,
)
"""No run shows them today: they turn out to break no promise, or the oracle does not look there (`because`)."""


def _said(result: Result) -> str:
    """Which promises were broken, without which upload or batch it was."""
    known = ("repeated", "lost", "torn", "foreign", "sums")
    broken = [promise.split(":")[0] for promise in result.judgement.broken]
    kinds = [kind if kind in known else "the table and the ledger" for kind in broken if kind != "liveness"]
    return ", ".join(dict.fromkeys(kinds)) or ("it never ends" if broken else "nothing")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.bugs")
    parser.add_argument("--find", metavar="NAME", nargs="*", help="look for the cheapest run that shows these mistakes")
    parser.add_argument("--in", metavar="SCENARIO", nargs="*", dest="scenarios", help="look for it in these only")
    given = parser.parse_args(arguments)
    wanted = given.find
    with simulation(), hurried():
        if wanted:
            for bug in (*BUGS, *UNSEEN):
                if bug.name in wanted:
                    print(f"{bug.name}: {find(bug, given.scenarios or ()) or 'nothing shows it'}", flush=True)
            return
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


if __name__ == "__main__":
    main()
