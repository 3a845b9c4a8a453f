"""The index of the planted mistakes, each with the run that shows it. They test the checker.

    python -m simulation mistakes              the table: which mistake, what finds it, and what the oracle says
    python -m simulation mistakes --list       the same without the runs, and without what the oracle says
    python -m simulation mistakes --find NAME  look for the cheapest run that shows one (--in SCENARIO: only there)

`BUGS` break a promise, and the oracle has to report it. `HARMLESS` take out what only saves money or time: no promise
may break, or correctness depends on that part. `UNSEEN` break nothing that is checked today, and have the reason. They
are in `simulation/checker/mistakes/`, by subject.
"""

import argparse
from collections.abc import Iterable
from types import ModuleType

from simulation.checker.explore import Result, simulation
from simulation.checker.mistakes import (
    announcing,
    asking,
    attempts,
    auditing,
    backfilling,
    batches,
    claiming,
    crossing,
    cut_history,
    deployed,
    endings,
    maintaining,
    notices,
    publishing,
    quarantined,
    reading,
    rebuilding,
    replacing,
    resending,
    rolling_back,
)
from simulation.checker.planting import Bug, find, hurried, show

SUBJECTS: dict[str, ModuleType] = {
    "decision 1: whose upload it is": claiming,
    "notices, the topic and the queues": notices,
    "decision 2: the batch of a notice; sealing": batches,
    "routes, tables and settings that change": deployed,
    "attempts and their jobs": attempts,
    "decision 3: published or fenced": publishing,
    "reading the uploads": reading,
    "a later version that replaces": replacing,
    "the outcomes of uploads, and the sums": endings,
    "incomplete answers of AWS": asking,
    "a ledger that is lost": rebuilding,
    "a cut history": cut_history,
    "resend and drop": resending,
    "the oldest upload in quarantine": quarantined,
    "the audit": auditing,
    "announcing, and a consumer's inbox": announcing,
    "a backfill": backfilling,
    "maintaining tables": maintaining,
    "a batch that was rolled back": rolling_back,
    "two ways back at once": crossing,
}
"""The modules of `BUGS`, by what their mistakes are about."""

BUGS: tuple[Bug, ...] = tuple(bug for module in SUBJECTS.values() for bug in module.BUGS)

HARMLESS: tuple[Bug, ...] = (
    *attempts.HARMLESS,
    *notices.HARMLESS,
    *batches.HARMLESS,
    *asking.HARMLESS,
    *auditing.HARMLESS,
    *resending.HARMLESS,
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
    parser.add_argument("--list", action="store_true", help="only list them, without a run")
    parser.add_argument("--find", metavar="NAME", nargs="*", help="look for the cheapest run that shows these mistakes")
    parser.add_argument("--in", metavar="SCENARIO", nargs="*", dest="scenarios", help="look for it in these only")
    given = parser.parse_args(arguments)
    if given.list:
        _print(("mistake", "what it is", "scenario", "how"), [_described(bug) for bug in BUGS])
        _print_others()
        return 0
    wanted = given.find
    with simulation(), hurried():
        if wanted:
            for bug in (*BUGS, *UNSEEN):
                if bug.name in wanted:
                    print(f"{bug.name}: {find(bug, given.scenarios or ()) or 'nothing shows it'}", flush=True)
            return 0
        header = ("mistake", "what it is", "scenario", "how", "what the oracle says")
        _print(header, ((*_described(bug), _said(show(bug)[0])) for bug in BUGS))
    _print_others()
    return 0


def _described(bug: Bug) -> tuple[str, ...]:
    return bug.name, bug.mistake, bug.scenario, bug.how


def _print_others() -> None:
    print("\nTaken away without harm:\n")
    _print(("what", "what it would do"), [(bug.name, bug.mistake) for bug in HARMLESS])
    print("\nNot seen:\n")
    _print(("what", "what it is", "why"), [(bug.name, bug.mistake, bug.because) for bug in UNSEEN])


def _print(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """A Markdown table, each row as soon as it is there."""
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
