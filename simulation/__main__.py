"""The simulation from the command line.

python -m simulation seeds                random schedules and faults, for the thousand seeds of today
python -m simulation seeds 0-2000         the same for the seeds 0 to 1999
python -m simulation seeds 184            one seed, with its trace (and ONLY=12,40 WITHOUT=twins: as a failure prints)
python -m simulation at core 12:late      a scenario with these faults, with its trace
python -m simulation singles core         every fault at every call of a scenario, and the faults left untried
                                          (without a name: of those that `make test-all` takes a share of)
python -m simulation pairs core 3/10      every fault at every call of every recovery, so all pairs: a tenth of them,
                                          from 0/10 to 9/10
python -m simulation states 0-2000        which states were met, which faults struck in them, and which were never met
python -m simulation purge 0-200          each seed twice: TTL deletes expired items at once, and never
python -m simulation all                  the singles of every scenario, the pairs of those without an accident,
                                          and 20,000 seeds
python -m simulation mistakes             the planted mistakes, and the run that shows each (--list: without the runs;
                                          --find NAME: searches)
python -m simulation evidence             the schemes and the campaigns: writes docs/evidence.md and docs/simulation.md
                                          (--sections knobs bugs: only these; --check: only compares)
python -m simulation traffic              104 hours of measured traffic (--scale 50: a fiftieth of it)
"""

import sys
import time

from simulation.checker import commands


def main(arguments: list[str]) -> int:
    """Run a command. It imports its modules only here, because every process of a campaign imports this module."""
    match arguments:
        case ["mistakes", *more]:
            from simulation.checker import bugs

            return bugs.main(more)
        case ["evidence", *more]:
            from simulation.comparison import evidence

            return evidence.main(more)
        case ["traffic", *more]:
            from simulation.comparison import traffic

            return traffic.main(more)
    code = commands.main(arguments)
    if code is None:
        print(__doc__, file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    started = time.monotonic()
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    sys.exit(code)
