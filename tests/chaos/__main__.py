"""`python -m tests.chaos MINUTES`: exits with 1 if a promise broke."""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from tests.chaos.run import chaos
from tidegate.environment import STACK_DIR


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Kill real processes, then count.")
    parser.add_argument("minutes", type=float, nargs="?", default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--dir", type=Path, default=STACK_DIR / time.strftime("chaos-%Y%m%d-%H%M%S"))
    arguments = parser.parse_args()
    findings = chaos(
        arguments.dir.resolve(),
        minutes=arguments.minutes,
        seed=arguments.seed,
        tell=lambda line: print(line, flush=True),
    )
    broken = [finding for finding in findings if not finding.holds]
    print(
        f"{len(findings) - len(broken)} of {len(findings)} checks hold" + (f"; seed {arguments.seed}" if broken else "")
    )
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
