"""The command line of the model: `python -m simulation.model [NAME ...]`, the large set-ups too if none is named."""

import argparse
import sys
import time

from simulation.model.broken import VARIANTS
from simulation.model.setups import SETUPS


def main(arguments: list[str] | None = None) -> int:
    names = [each.name for each in SETUPS]
    parser = argparse.ArgumentParser(prog="python -m simulation.model", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"a set-up: {'; '.join(names)}")
    wanted = parser.parse_args(arguments).names or names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"there is no set-up {unknown[0]!r}. The set-ups are: {'; '.join(names)}")
    broken = 0
    for setup in (each for each in SETUPS if each.name in wanted):
        begun = time.monotonic()
        found = setup.explore()
        took = f"{time.monotonic() - begun:.0f} s"
        all_of_it = "every state" if found.complete else "not all of its states"
        print(
            f"{setup.name} ({setup.says}):\n"
            f"  {all_of_it}, {found.states:,} of them, {took}: {found.broken or 'nothing is broken'}",
            flush=True,
        )
        broken += found.broken is not None or not found.complete
    for variant in (each for each in VARIANTS if each.setup in wanted):
        with variant.breaking():
            found = variant.shown_by.explore()
        print(f"broken on purpose: {variant.name}: {found.broken or 'NOBODY NOTICES'}", flush=True)
        broken += found.broken is None
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
